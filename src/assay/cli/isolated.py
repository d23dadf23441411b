"""`assay isolated`: what was no record, or came under an identity that is taken; look at it, fix it."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

isolated_app = typer.Typer(
    help="Isolated input: list, look at, assign, fix, replay, close.", no_args_is_help=True
)


class State(StrEnum):
    """Which isolated records are listed."""

    OPEN = "open"
    RESOLVED = "resolved"
    CLOSED = "closed"
    ANY = "any"


class ReplayFix(StrEnum):
    """What was mended, where it is not the mapping: how bytes are read, or what they refer to."""

    READER = "reader"
    DOCUMENT = "document"


_ID = typer.Argument(metavar="ID", min=1, help="Its number (`assay isolated list`).")
_REASON = typer.Option("--reason", metavar="TEXT", help="Why; it is kept with the act.")
_BY = typer.Option("--by", metavar="NAME", help="Who acts; default: this account's name.")
_JSON = typer.Option("--json", help="Print it as JSON.")
_CODE = typer.Option("--code", metavar="CODE", help="Only this code.")
_TYPE = typer.Option("--error-type", metavar="TYPE", help="Only this type, such as not_json.")
_SOURCE = typer.Option("--source", metavar="NAME", help="Only this file or topic.")
_PARTITION = typer.Option("--partition", metavar="N", min=0, help="Only this partition.")
_SINCE = typer.Option("--since", metavar="AGE", help="Only what was isolated since: 90s, 15m, 6h, 2d.")
_PIPELINE = typer.Option("--pipeline", metavar="FILE.py", help="Whose workers label the record.")
_DOCUMENTS = typer.Option("--documents-root", metavar="DIR|URL", help="Where referenced documents lie.")


@isolated_app.command("list")
def list_isolated(
    *,
    state: Annotated[State, typer.Option("--state", help="Which ones.")] = State.OPEN,
    code: Annotated[str | None, _CODE] = None,
    error_type: Annotated[str | None, _TYPE] = None,
    source: Annotated[str | None, _SOURCE] = None,
    partition: Annotated[int | None, _PARTITION] = None,
    since: Annotated[str | None, _SINCE] = None,
    limit: Annotated[int, typer.Option(metavar="N", min=1, help="At most so many.")] = 100,
    after: Annotated[int, typer.Option(metavar="ID", min=0, help="Only those behind this number.")] = 0,
    as_json: Annotated[bool, _JSON] = False,
) -> None:
    """List isolated records, oldest first: place and reason, never their bytes."""
    from assay.cli.isolated_pages import chosen, show_list

    which = chosen(state, code, error_type, source, partition=partition, since=since)
    show_list(which, after=after, limit=limit, as_json=as_json)


@isolated_app.command("show")
def show(
    isolated_id: Annotated[int, _ID],
    *,
    raw: Annotated[
        bool, typer.Option("--raw", help="Its bytes, from the vault; that you looked is kept.")
    ] = False,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="With --raw: write them here.")
    ] = None,
    reason: Annotated[str | None, _REASON] = None,
    by: Annotated[str | None, _BY] = None,
    as_json: Annotated[bool, _JSON] = False,
) -> None:
    """Show where an isolated record came from, why it is one, and what was done about it."""
    from assay.cli.isolated_pages import show_bytes, show_page

    if raw:
        show_bytes(isolated_id, output, reason, by)
    else:
        show_page(isolated_id, as_json=as_json)


@isolated_app.command("assign")
def assign(
    isolated_id: Annotated[int, _ID],
    *,
    owner: Annotated[str, typer.Option(metavar="NAME", help="Who takes it on.")],
    by: Annotated[str | None, _BY] = None,
) -> None:
    """Say who takes an isolated record on."""
    from assay.cli.isolated_pages import assign_record

    assign_record(isolated_id, owner, by)


@isolated_app.command("close")
def close(
    isolated_id: Annotated[int, _ID],
    *,
    reason: Annotated[str, _REASON],
    by: Annotated[str | None, _BY] = None,
) -> None:
    """Close an isolated record of which nothing will come."""
    from assay.cli.isolated_pages import close_record

    close_record(isolated_id, reason, by)


@isolated_app.command("fix")
def fix(
    isolated_id: Annotated[int, _ID],
    *,
    pipeline: Annotated[str, _PIPELINE],
    reason: Annotated[str, _REASON],
    file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The corrected record: one JSON object.")
    ] = None,
    stdin: Annotated[bool, typer.Option("--stdin", help="It comes on standard input.")] = False,
    input_version: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="The record's version; mends a conflict alone.")
    ] = None,
    author: Annotated[
        str | None, typer.Option("--author", "--by", metavar="NAME", help="Whose correction it is.")
    ] = None,
    documents_root: Annotated[str | None, _DOCUMENTS] = None,
    as_json: Annotated[bool, _JSON] = False,
) -> None:
    """Correct an isolated record: it becomes an input, and a worker of the pipeline labels it.

    The corrected record is read as its source is (mapping and all). The same fix again changes nothing;
    another one is refused, and names the fix that stands.
    """
    from assay.cli.isolated_fix import FixOptions, fix_record

    fix_record(
        FixOptions(
            isolated_id=isolated_id, pipeline=pipeline, reason=reason, file=file, stdin=stdin,
            input_version=input_version, author=author, documents_root=documents_root, as_json=as_json,
        )
    )  # fmt: skip


@isolated_app.command("replay")
def replay(
    *,
    pipeline: Annotated[str, _PIPELINE],
    reason: Annotated[str, _REASON],
    maps: Annotated[
        list[str] | None,
        typer.Option("--map", metavar="FIELD=COLUMN", help="Read the bytes with this mapping instead."),
    ] = None,
    fixed: Annotated[
        ReplayFix | None, typer.Option("--fixed", help="What else was mended: the reader, a document.")
    ] = None,
    code: Annotated[str | None, _CODE] = None,
    error_type: Annotated[str | None, _TYPE] = None,
    source: Annotated[str | None, _SOURCE] = None,
    partition: Annotated[int | None, _PARTITION] = None,
    since: Annotated[str | None, _SINCE] = None,
    limit: Annotated[int | None, typer.Option(metavar="N", min=1, help="At most so many.")] = None,
    author: Annotated[str | None, typer.Option("--author", "--by", metavar="NAME", help="Who acts.")] = None,
    documents_root: Annotated[str | None, _DOCUMENTS] = None,
    run: Annotated[bool, typer.Option("--run", help="Do it; without, it is only said.")] = False,
    as_json: Annotated[bool, _JSON] = False,
) -> None:
    """Read the bytes of many open isolated records again, with what was mended.

    What is a record now becomes an input; what is none stays as it is. May be interrupted and run again.
    """
    from assay.cli.isolated_pages import chosen
    from assay.cli.isolated_replay import ReplayOptions, replay_records

    which = chosen(State.OPEN, code, error_type, source, partition=partition, since=since)
    replay_records(
        ReplayOptions(
            which=which, pipeline=pipeline, reason=reason, maps=tuple(maps or ()),
            fixed=None if fixed is None else fixed.value, limit=limit, author=author,
            documents_root=documents_root, run=run, as_json=as_json,
        )
    )  # fmt: skip
