"""`assay dlq`: dead letters, in cohorts and one by one; what people do about them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from assay.cli.dlq_filter import filtered
from assay.domain.dead_letters import LetterFilter

dlq_app = typer.Typer(help="Dead letters: list, look at, group, assign, close, export.", no_args_is_help=True)
_IDS = typer.Argument(metavar="ID", min=1, help="Their numbers; else the filters say which.")
_BY = typer.Option("--by", metavar="NAME", help="Who acts; default: this account's name.")
_JSON = typer.Option("--json", help="Print it as JSON.")
_YES = typer.Option("--yes", help="Do it for all that the filters find; without, they are counted.")
_WHY = typer.Option("--reason", metavar="TEXT", help="Why; it is kept with the act.")
_LIMIT = typer.Option("--limit", metavar="N", min=1, help="At most so many.")


@dlq_app.command("list")
@filtered
def list_letters(
    *,
    which: LetterFilter,
    oldest: Annotated[bool, typer.Option("--oldest", help="Oldest first.")] = False,
    limit: Annotated[int, _LIMIT] = 50,
    after: Annotated[int | None, typer.Option(metavar="ID", min=1, help="Go on from this number.")] = None,
    as_json: Annotated[bool, _JSON] = False,
) -> None:
    """List dead letters, newest first: codes, fields and places, never a text."""
    from assay.cli.dlq_pages import show_list

    show_list(which, oldest=oldest, limit=limit, after=after, as_json=as_json)


@dlq_app.command("show")
def show(
    dead_letter_id: Annotated[
        int, typer.Argument(metavar="ID", min=1, help="Its number (`assay dlq list`).")
    ],
    *,
    as_json: Annotated[bool, _JSON] = False,
) -> None:
    """Answer four questions: what was seen, what was produced, what refused it, can it be replayed?"""
    from assay.cli.dlq_page import show_page

    show_page(dead_letter_id, as_json=as_json)


@dlq_app.command("cohorts")
@filtered
def cohorts(
    *,
    which: LetterFilter,
    by: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN,...",
            help="Group by these: version, code, field, source, customer, document_type (by default all "
            "six), pipeline, class, kind, language, fingerprint, state, owner.",
        ),
    ] = None,
    share: Annotated[
        bool, typer.Option("--share/--no-share", help="Their share of finished tasks; reads all of these.")
    ] = True,
    limit: Annotated[int, _LIMIT] = 50,
    as_json: Annotated[bool, _JSON] = False,
) -> None:
    """Group dead letters that failed alike, the largest cohorts first, with what they cost."""
    from assay.cli.dlq_pages import show_cohorts

    show_cohorts(which, by, share=share, limit=limit, as_json=as_json)


@dlq_app.command("costs")
def costs(
    *,
    pipeline: Annotated[str | None, typer.Option(metavar="NAME", help="Only this pipeline.")] = None,
    version: Annotated[str | None, typer.Option(metavar="REFERENCE", help="Only this version.")] = None,
    since: Annotated[str | None, typer.Option(metavar="AGE|TIME", help="Only calls since.")] = None,
    until: Annotated[str | None, typer.Option(metavar="AGE|TIME", help="Only calls before.")] = None,
    as_json: Annotated[bool, _JSON] = False,
) -> None:
    """Tokens and money of failed calls, by version and code, whatever became of the record."""
    from assay.cli.dlq_pages import show_costs

    show_costs(pipeline, version, since, until, as_json=as_json)


@dlq_app.command("assign")
@filtered
def assign(
    ids: Annotated[list[int] | None, _IDS] = None,
    *,
    which: LetterFilter,
    owner: Annotated[str, typer.Option("--owner", metavar="NAME", help="Who takes them on.")],
    reason: Annotated[str | None, _WHY] = None,
    by: Annotated[str | None, _BY] = None,
    yes: Annotated[bool, _YES] = False,
    as_json: Annotated[bool, _JSON] = False,
) -> None:
    """Say who takes dead letters on."""
    from assay.cli.dlq_acts import Target, assign_letters

    assign_letters(Target(ids, which, by, yes=yes, as_json=as_json), owner, reason)


@dlq_app.command("unassign")
@filtered
def unassign(
    ids: Annotated[list[int] | None, _IDS] = None,
    *,
    which: LetterFilter,
    reason: Annotated[str | None, _WHY] = None,
    by: Annotated[str | None, _BY] = None,
    yes: Annotated[bool, _YES] = False,
    as_json: Annotated[bool, _JSON] = False,
) -> None:
    """Give dead letters back: nobody has them any more."""
    from assay.cli.dlq_acts import Target, assign_letters

    assign_letters(Target(ids, which, by, yes=yes, as_json=as_json), None, reason)


@dlq_app.command("close")
@filtered
def close(
    ids: Annotated[list[int] | None, _IDS] = None,
    *,
    which: LetterFilter,
    reason: Annotated[str, _WHY],
    by: Annotated[str | None, _BY] = None,
    yes: Annotated[bool, _YES] = False,
    as_json: Annotated[bool, _JSON] = False,
) -> None:
    """Close dead letters of which nothing will come: their records are rejected."""
    from assay.cli.dlq_acts import Target, close_letters

    close_letters(Target(ids, which, by, yes=yes, as_json=as_json), reason)


@dlq_app.command("export")
@filtered
def export(
    *,
    which: LetterFilter,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Write here; .gz and .zst are compressed."),
    ] = None,
) -> None:
    """Write envelopes as JSON Lines, oldest first. A file appears only once it is whole."""
    from assay.cli.dlq_pages import export_letters

    export_letters(which, output)


@dlq_app.command("terms")
def terms(
    pipeline: Annotated[str, typer.Argument(metavar="NAME", help="The pipeline's name.")],
    *,
    due: Annotated[str | None, typer.Option(metavar="AGE", help="Due after so long; 7d by default.")] = None,
    expire: Annotated[
        str | None, typer.Option(metavar="AGE", help="Expire after so long; never by default.")
    ] = None,
    default: Annotated[bool, typer.Option("--default", help="Back to the defaults.")] = False,
    by: Annotated[str | None, _BY] = None,
    as_json: Annotated[bool, _JSON] = False,
) -> None:
    """Show or set when a pipeline's dead letters are due and when they expire, from now on."""
    from assay.cli.dlq_acts import show_or_set_terms

    show_or_set_terms(pipeline, due, expire, by, default=default, as_json=as_json)
