"""`assay fix`: what mended the cause of dead letters, on record before anything is replayed."""

from __future__ import annotations

from typing import Annotated

import typer

from assay.domain.replays import FixKind

fix_app = typer.Typer(help="Fixes: what mended the cause of dead letters.", no_args_is_help=True)


@fix_app.command("add")
def add_fix(
    kind: Annotated[FixKind, typer.Argument(metavar="KIND", help="What kind of fix it is; see below.")],
    *,
    version: Annotated[
        str,
        typer.Option(
            "--version", metavar="VERSION", help="The pipeline version that failed: a label or a digest."
        ),
    ],
    description: Annotated[
        str, typer.Option("--description", metavar="TEXT", help="What was mended, in a sentence.")
    ],
    to: Annotated[
        str | None,
        typer.Option("--to", metavar="VERSION", help="The version that the fix has made, if it made one."),
    ] = None,
    name: Annotated[
        str | None, typer.Option("--name", metavar="NAME", help="The pipeline that labels belong to.")
    ] = None,
    link: Annotated[
        str | None, typer.Option("--link", metavar="URL", help="Where it can be read: incident, commit.")
    ] = None,
    by: Annotated[
        str | None, typer.Option("--by", metavar="NAME", help="Who mended it; default: this account's name.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print it as JSON.")] = False,
) -> None:
    """Put a fix on record.

    Kinds that make another version of the pipeline (`--to`): new_schema, revised_prompt, new_model. Kinds
    that leave it as it is: dependency_restored, approval, limit_changed. A corrected text or a repaired
    document is a new input version of its record: send that instead. "Try again" is no fix.
    """
    from assay.cli.fix_command import add

    add(kind, version=version, to=to, name=name, description=description, link=link, by=by, as_json=as_json)


@fix_app.command("list")
def list_fixes(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="Only this pipeline.")] = None,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print them as JSON.")] = False,
) -> None:
    """List fixes, newest first, with what replays of each have resolved."""
    from assay.cli.fix_command import show_all

    show_all(name, as_json=as_json)
