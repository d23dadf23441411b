"""The input of `assay run`, opened: files, patterns, standard input, a followed file, documents."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from assay.adapters.files.documents import FileDocuments
from assay.adapters.files.follow import Following
from assay.adapters.files.patterns import STANDARD_INPUT
from assay.adapters.files.source import ChosenFormat, Reading, open_sources
from assay.adapters.objects.documents import ObjectDocuments
from assay.domain.failures import ConfigurationError
from assay.domain.record_mapping import parse_mapping
from assay.pipeline.fetching import Documents
from assay.ports import DocumentPort, SourcePort


@dataclass(frozen=True, slots=True)
class InputOptions:
    """The options of `assay run` about its input."""

    inputs: tuple[str, ...]
    maps: tuple[str, ...] = ()
    input_format: str = "auto"
    source_name: str | None = None
    follow: bool = False
    documents_root: str | None = None


async def open_input(options: InputOptions, say: Callable[[str], None]) -> tuple[list[SourcePort], str]:
    """The sources in the order in which they are read, and the mapping as text that identifies it.

    References to documents are followed where a column of them is mapped or `--documents-root` is given,
    and never only because a line has a key of that name.
    """
    mapping = parse_mapping(options.maps)
    documents: Documents | None = None
    if mapping.get("document_ref") or options.documents_root is not None:
        documents = Documents(_documents(options.documents_root, options.inputs))
    reading = Reading(
        format=cast(ChosenFormat, options.input_format),
        mapping=mapping,
        name=options.source_name,
        documents=documents,
        following=Following(say=say) if options.follow else None,
    )
    return await open_sources(options.inputs, reading), json.dumps(mapping, sort_keys=True)


def documents_of(mapping: Mapping[str, str], root: str | None) -> DocumentPort | None:
    """Where the documents of a topic's messages lie; None where its messages refer to none."""
    if not mapping.get("document_ref") and root is None:
        return None
    return _documents(root, ())


def _documents(root: str | None, inputs: Sequence[str]) -> DocumentPort:
    if root is not None and "://" in root:
        return ObjectDocuments(root)
    if root is not None and not Path(root).is_dir():
        raise ConfigurationError(f"There is no folder {root}; check --documents-root.")
    folder = _folder_of(inputs) if root is None else Path(root)
    return FileDocuments(folder, LazyObjects())


def _folder_of(inputs: Sequence[str]) -> Path | None:
    """The folder that the input files lie in; None for standard input alone."""
    folders = {Path(name).parent.resolve() for name in inputs if name != STANDARD_INPUT}
    if len(folders) > 1:
        raise ConfigurationError(
            "The inputs lie in several folders, so it is not clear where their documents do; give one: "
            "--documents-root DIR."
        )
    return folders.pop() if folders else None


class LazyObjects:
    """Object stores, loaded when the first record refers to one."""

    def __init__(self) -> None:
        self._objects: ObjectDocuments | None = None

    async def fetch(self, reference: str, most_bytes: int) -> bytes:
        """The bytes of one object, see `DocumentPort`."""
        if self._objects is None:
            self._objects = ObjectDocuments()
        return await self._objects.fetch(reference, most_bytes)
