"""`assay isolated fix`: one record, corrected."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import typer

from assay.adapters.files.source import MAX_RECORD_BYTES
from assay.adapters.postgres.isolated_fixes import Fix, Fixed, FixOutcome, ReadPiece
from assay.adapters.postgres.isolated_store import IsolatedStore
from assay.app import open_vault_to_write, register_version
from assay.cli.chosen import folder_of, load
from assay.cli.isolated_reading import FixTarget, fixes_of, offer_of, reader
from assay.cli.isolated_standing import check_same
from assay.cli.json_text import to_json
from assay.cli.opened import existing_database
from assay.cli.person import acting, worded
from assay.cli.run_command import priced
from assay.cli.tables import shown
from assay.config import load_settings
from assay.domain.definition import Pipeline
from assay.domain.failures import ConfigurationError
from assay.domain.identity import InputRecord, MalformedInput, SourceItem
from assay.domain.isolated import IsolatedPiece, as_new_version
from assay.domain.records import Refused


@dataclass(frozen=True, slots=True)
class FixOptions:
    """The options of `assay isolated fix`, read."""

    isolated_id: int
    pipeline: str
    reason: str
    file: Path | None = None
    stdin: bool = False
    input_version: int | None = None
    author: str | None = None
    documents_root: str | None = None
    as_json: bool = False


def fix_record(options: FixOptions) -> None:
    """Make the corrected record an input, and say what came of it."""
    author, why = acting(options.author), worded(options.reason)
    corrected = _corrected(options)
    kind = "input_version" if corrected is None else "corrected_bytes"
    settings = load_settings()
    pipeline = priced(load(options.pipeline), None, settings)
    with existing_database(settings) as url:
        IsolatedStore(url).page(options.isolated_id)
        vault = open_vault_to_write(settings, url)
        version_id, _ = register_version(url, pipeline, folder_of(options.pipeline))
        target = FixTarget(url, vault, version_id, author)
        done, given = asyncio.run(_fix(options, corrected, pipeline, target, Fix(kind, why, author)))
        stands = ""
        if done.outcome is FixOutcome.ENDED_BEFORE:
            stands = check_same(url, options.isolated_id, given, pipeline.name)
    _tell(done, pipeline, stands, as_json=options.as_json)


def _corrected(options: FixOptions) -> bytes | None:
    """The corrected bytes; None where only the version changes."""
    if options.file is not None and options.stdin:
        raise ConfigurationError("Give the corrected record by --file or by --stdin, not both.")
    if options.stdin:
        return sys.stdin.buffer.read(MAX_RECORD_BYTES + 1).strip()
    if options.file is not None:
        with options.file.open("rb") as file:
            return file.read(MAX_RECORD_BYTES + 1).strip()
    if options.input_version is None:
        raise ConfigurationError(
            "A fix needs the corrected record (--file FILE or --stdin) or, for a conflict, --input-version N."
        )
    return None


async def _fix(
    options: FixOptions, corrected: bytes | None, pipeline: Pipeline, target: FixTarget, fix: Fix
) -> tuple[Fixed, SourceItem]:
    async with fixes_of(target) as fixes:
        found = await fixes.read([options.isolated_id], _reader(options, corrected))
        if not found:
            raise ConfigurationError(
                f"The bytes of isolated record {options.isolated_id} are not in the vault; run `assay audit`."
            )
        ((piece, item),) = found
        answers = await fixes.fix(
            [(piece.isolated_id, piece.source_id, item)], fix, lambda record: offer_of(record, pipeline)
        )
    return answers[0], item


def _reader(options: FixOptions, corrected: bytes | None) -> ReadPiece:
    version = options.input_version
    read_bytes = reader(None, options.documents_root, corrected)

    async def read(piece: IsolatedPiece) -> SourceItem:
        if corrected is None and version is not None:
            try:
                return as_new_version(piece, version)
            except Refused as refused:
                return MalformedInput(piece.position, piece.source, b"", refused.error_type, refused.path)
        item = await read_bytes(piece)
        if version is None or not isinstance(item, InputRecord):
            return item
        return replace(item, input_version=version)

    return read


def _tell(done: Fixed, pipeline: Pipeline, stands: str, *, as_json: bool) -> None:
    name = "" if done.key is None else shown(f"{done.key.record_id} version {done.key.input_version}")
    match done.outcome:
        case FixOutcome.MALFORMED:
            raise ConfigurationError(
                f"The corrected record is none either: {done.error_type}"
                f"{f' at {shown(done.path)}' if done.path else ''}. Correct it; nothing was changed."
            )
        case FixOutcome.CONFLICT:
            raise ConfigurationError(
                f"Record {name} has other content already; give this one a version of its own: "
                "--input-version N."
            )
        case FixOutcome.ERASED:
            raise ConfigurationError(
                f"Record {name} was erased and stays so; `assay isolated close {done.isolated_id}` ends this."
            )
    if as_json:
        key = done.key
        typer.echo(to_json({
            "isolated_id": done.isolated_id, "outcome": done.outcome.value, "pipeline": pipeline.name,
            "pipeline_version": pipeline.version, "record_id": None if key is None else key.record_id,
            "input_version": None if key is None else key.input_version,
        }))  # fmt: skip
        return
    told = {
        FixOutcome.FIXED: f"is record {name} now; a worker of {pipeline.name} will label it",
        FixOutcome.KNOWN: f"is resolved: record {name} with this content was known to {pipeline.name}",
    }
    typer.echo(stands or f"Isolated record {done.isolated_id} {told[done.outcome]}.")
