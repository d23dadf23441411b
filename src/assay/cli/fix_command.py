"""What `assay fix` does."""

from __future__ import annotations

from typing import Final

import typer

from assay.adapters.postgres.replay_store import NewFix, ReplayStore
from assay.adapters.postgres.version_store import VersionStore
from assay.cli.chosen import SHORT
from assay.cli.json_text import to_json
from assay.cli.opened import existing_database
from assay.cli.person import acting
from assay.cli.tables import console, put, table
from assay.config import load_settings
from assay.domain.failures import ConfigurationError
from assay.domain.replays import FixKind, check_fix

_HEADINGS: Final = ("fix", "pipeline", "kind", "from", "to", "description", "author", "recorded", "replays",
                    "resolved")  # fmt: skip


def add(
    kind: FixKind, *, version: str, to: str | None, name: str | None, description: str, link: str | None,
    by: str | None, as_json: bool,
) -> None:  # fmt: skip
    """Record it and say its number."""
    author = acting(by)
    if not description.strip() or not description.isprintable():
        raise ConfigurationError("--description is a sentence in printable characters.")
    if link is not None and (not link.strip() or not link.isprintable()):
        raise ConfigurationError("--link is an address in printable characters.")
    with existing_database(load_settings()) as url:
        versions = VersionStore(url)
        failed = versions.resolve(version, name)
        mended = None if to is None else versions.resolve(to, failed.name)
        check_fix(kind, failed.version_id, None if mended is None else mended.version_id)
        number = ReplayStore(url).record_fix(
            NewFix(failed.name, kind, description, author, failed.version_id,
                   None if mended is None else mended.version_id, link)
        )  # fmt: skip
    if as_json:
        typer.echo(to_json({"fix": number, "pipeline": failed.name, "kind": kind.value}))
    else:
        typer.echo(f"Fix {number} is on record; `assay replay plan {number}` selects dead letters for it.")


def show_all(name: str | None, *, as_json: bool) -> None:
    """A line each."""
    with existing_database(load_settings()) as url:
        found = ReplayStore(url).fixes(name=name)
    if as_json:
        typer.echo(to_json(found))
    elif not found:
        typer.echo("No fix is on record.")
    else:
        rows = [
            [row["fix"], row["pipeline"], row["kind"], str(row["from_version"])[:SHORT],
             None if row["to_version"] is None else str(row["to_version"])[:SHORT], row["description"],
             row["author"], row["recorded_at"], row["replays"], row["resolved"]]
            for row in found
        ]  # fmt: skip
        put(console(), table("Fixes", _HEADINGS, rows, right=("fix", "replays", "resolved")))
