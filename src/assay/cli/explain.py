"""`assay explain`: the whole history of one record."""

from __future__ import annotations

from typing import Annotated

import typer


def explain(
    record: Annotated[
        str,
        typer.Argument(
            metavar="RECORD_ID", help="A record's id; FILE:ROW also finds what was isolated there."
        ),
    ],
    input_version: Annotated[int | None, typer.Option(min=1, help="Only this version of the input.")] = None,
    pipeline: Annotated[str | None, typer.Option(metavar="NAME", help="Only this pipeline.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print everything as one JSON object.")] = False,
) -> None:
    """Show where a record came from and everything that happened to it, never its text.

    Exit code 2 when nothing has this id.
    """
    from assay.adapters.postgres.explain_store import ExplainStore
    from assay.cli.explain_page import as_object, show
    from assay.cli.json_text import to_json
    from assay.cli.opened import existing_database
    from assay.cli.tables import shown
    from assay.config import load_settings
    from assay.domain.failures import ConfigurationError

    with existing_database(load_settings()) as url:
        history = ExplainStore(url).explain(record, input_version=input_version, name=pipeline)
    if not history.known:
        near = f" Near it: {', '.join(map(shown, history.near))}." if history.near else ""
        narrowed = " with these options" if input_version is not None or pipeline is not None else ""
        raise ConfigurationError(
            f"Nothing is known of a record {shown(record)}{narrowed}; `assay results` lists the ids.{near}"
        )
    if as_json:
        typer.echo(to_json(as_object(history)))
    else:
        show(history)
