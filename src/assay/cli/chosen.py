"""Which versions a command is about: those of a pipeline file, of a line, of a label or a digest."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from assay.adapters.pipeline_file import load_pipeline
from assay.adapters.postgres.version_store import FoundVersion, VersionStore
from assay.cli.opened import NOTHING_YET
from assay.domain.definition import Pipeline
from assay.domain.failures import ConfigurationError

SHORT = 12


@dataclass(frozen=True, slots=True)
class Chosen:
    """Versions of one line, oldest first, and whether only what serves is meant."""

    name: str
    versions: tuple[FoundVersion, ...]
    served: bool


def is_file(target: str) -> bool:
    """Whether a target is written as a pipeline file: FILE.py or FILE.py:name."""
    return target.endswith(".py") or ".py:" in target


def load(target: str, model: str | None = None) -> Pipeline:
    """The pipeline of a file, with another model where one is given, as `assay run --model` makes it."""
    pipeline = load_pipeline(target)
    return pipeline if model is None else replace(pipeline, model=model, label=None)


def version_of(store: VersionStore, pipeline: Pipeline, reference: str | None = None) -> FoundVersion:
    """The version of that label or digest, by default the file's current one.

    Raises `ConfigurationError` when that one was never registered.
    """
    if reference is not None:
        return store.resolve(reference, pipeline.name)
    if store.find(name=pipeline.name, pipeline_version=pipeline.version) is None:
        known = store.list(pipeline.name)
        others = f"; {len(known)} other version(s) of it have (`assay pipeline list {pipeline.name}`)"
        raise ConfigurationError(
            f"Version {pipeline.version[:SHORT]} of {pipeline.name}, as the file has it now, has not been "
            f"run{others if known else ''}. Run it with `assay run`, or name another one with --version."
        )
    return store.resolve(pipeline.version, pipeline.name)


def choose(
    url: str, target: str | None, *, version: str | None, model: str | None, served: bool | None
) -> Chosen:
    """The versions that `assay results` is asked for. `served`: None leaves it to the kind of target."""
    store = VersionStore(url)
    if target is not None and is_file(target):
        pipeline = load(target, model)
        if served is None:
            return Chosen(pipeline.name, (version_of(store, pipeline, version),), False)
        name = pipeline.name
    elif model is not None:
        raise ConfigurationError("--model changes the version of a file; give PIPELINE.py with it.")
    else:
        name = _line(store, target)
    if version is not None:
        return Chosen(name, (store.resolve(version, name),), served is True)
    found = tuple(store.resolve(row.pipeline_version, name) for row in store.list(name))
    return Chosen(name, found, served is not False)


def _line(store: VersionStore, target: str | None) -> str:
    names = sorted({row.name for row in store.list()})
    if not names:
        raise ConfigurationError(NOTHING_YET)
    if target is None:
        if len(names) > 1:
            raise ConfigurationError(f"There are several pipelines; name one of {', '.join(names)}.")
        return names[0]
    if target not in names:
        raise ConfigurationError(
            f"There is no pipeline {target!r}; there is {', '.join(names)}. A file is given as FILE.py."
        )
    return target


def folder_of(target: str) -> Path:
    """The folder of a pipeline file."""
    path = target if target.endswith(".py") else target.rpartition(":")[0]
    return Path(path).resolve().parent
