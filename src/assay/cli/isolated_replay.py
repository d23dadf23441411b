"""`assay isolated replay`: many isolated records, read again once what was wrong is mended."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import typer

from assay.adapters.postgres.isolated_fixes import Fix, FixOutcome, IsolatedFixes, ReadPiece
from assay.adapters.postgres.isolated_store import IsolatedFilter, IsolatedStore
from assay.app import open_vault, open_vault_to_write, register_version
from assay.cli.chosen import folder_of, load
from assay.cli.isolated_reading import FixTarget, fixes_of, offer_of, reader
from assay.cli.json_text import to_json
from assay.cli.opened import existing_database
from assay.cli.person import acting, worded
from assay.cli.run_command import priced
from assay.cli.tables import count
from assay.config import load_settings
from assay.domain.definition import Pipeline
from assay.domain.failures import ConfigurationError
from assay.domain.identity import InputRecord
from assay.domain.record_mapping import parse_mapping

_AT_ONCE: Final = 100


@dataclass(frozen=True, slots=True)
class ReplayOptions:
    """The options of `assay isolated replay`, read. `fixed`: what was mended where it is not the mapping."""

    which: IsolatedFilter
    pipeline: str
    reason: str
    maps: tuple[str, ...] = ()
    fixed: str | None = None
    limit: int | None = None
    author: str | None = None
    documents_root: str | None = None
    run: bool = False
    as_json: bool = False


def replay_records(options: ReplayOptions) -> None:
    """Read again, and say how many became what."""
    author, why = acting(options.author), worded(options.reason)
    mapping = parse_mapping(options.maps) if options.maps else None
    if (mapping is None) is (options.fixed is None):
        raise ConfigurationError(
            "A replay names what was mended: --map FIELD=COLUMN, or --fixed reader, or --fixed document."
        )
    settings = load_settings()
    pipeline = priced(load(options.pipeline), None, settings)
    text = None if mapping is None else json.dumps(mapping, sort_keys=True)
    fix = Fix(options.fixed or "mapping", why, author, text)
    read = reader(mapping, options.documents_root)
    with existing_database(settings) as url:
        if options.run:
            vault = open_vault_to_write(settings, url)
            version_id, _ = register_version(url, pipeline, folder_of(options.pipeline))
        else:
            vault, version_id = open_vault(settings), 0
        target = FixTarget(url, vault, version_id, author)
        done = asyncio.run(_replay(options, pipeline, target, fix, read))
    _tell(done, options, pipeline)


async def _replay(
    options: ReplayOptions, pipeline: Pipeline, target: FixTarget, fix: Fix, read: ReadPiece
) -> Counter[str]:
    done: Counter[str] = Counter()
    store, after, left = IsolatedStore(target.url), 0, options.limit
    async with fixes_of(target) as fixes:
        while left is None or left > 0:
            most = _AT_ONCE if left is None else min(_AT_ONCE, left)
            rows = await asyncio.to_thread(store.list, options.which, after=after, most=most)
            if not rows:
                break
            ids = [int(str(row["isolated_id"])) for row in rows]
            after, left = ids[-1], None if left is None else left - len(ids)
            done += await _page(fixes, ids, options, fix, read, pipeline)
    return done


async def _page(
    fixes: IsolatedFixes, ids: Sequence[int], options: ReplayOptions, fix: Fix, read: ReadPiece,
    pipeline: Pipeline,
) -> Counter[str]:  # fmt: skip
    found = await fixes.read(ids, read)
    # A conflict's bytes are the text alone: there is no record to read, `fix` gives it a version.
    items = [(piece.isolated_id, piece.source_id, item) for piece, item in found if not piece.is_conflict]
    done = Counter({"conflict": len(found) - len(items)})
    if not options.run:
        return done + Counter(
            FixOutcome.FIXED.value if isinstance(item, InputRecord) else f"malformed: {item.error_type}"
            for _, _, item in items
        )
    answers = await fixes.fix(items, fix, lambda record: offer_of(record, pipeline))
    return done + Counter(
        f"malformed: {each.error_type}" if each.outcome is FixOutcome.MALFORMED else each.outcome.value
        for each in answers
    )


def _tell(done: Counter[str], options: ReplayOptions, pipeline: Pipeline) -> None:
    if options.as_json:
        version = {"pipeline": pipeline.name, "pipeline_version": pipeline.version}
        typer.echo(to_json({"run": options.run, **version, "outcomes": dict(sorted(done.items()))}))
        return
    if not done:
        typer.echo("No open isolated record matches.")
        return
    fixed = done.pop(FixOutcome.FIXED.value, 0)
    others = ", ".join(f"{number} {what}" for what, number in sorted(done.items()))
    rest = f"; as before: {others}" if others else ""
    if options.run:
        typer.echo(f"{count(fixed, 'record')} for {pipeline.name}; a worker will label them{rest}.")
    else:
        typer.echo(
            f"{count(fixed, 'record')} would go to {pipeline.name}{rest}. Nothing was changed; --run does it."
        )
