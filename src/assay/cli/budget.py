"""`assay budget`: spend caps of pipelines."""

from __future__ import annotations

from typing import Annotated

import typer

budget_app = typer.Typer(
    help="Spend caps: show, set, clear.", invoke_without_command=True, no_args_is_help=False
)
_NAME = typer.Argument(metavar="NAME", help="A pipeline's name.")
_BY = typer.Option("--by", metavar="NAME", help="Who acts; default: this account's name.")


@budget_app.callback()
def budget(
    context: typer.Context,
    as_json: Annotated[bool, typer.Option("--json", help="Print everything as one JSON array.")] = False,
) -> None:
    """Show each pipeline's caps, what was spent today (UTC) and in total, what workers hold, what is left."""
    from assay.adapters.postgres.budget_store import BudgetStore
    from assay.cli.budget_page import show
    from assay.cli.opened import existing_database
    from assay.config import load_settings

    if context.invoked_subcommand is not None:
        return
    with existing_database(load_settings()) as url:
        found = BudgetStore(url).read()
    show(found, as_json=as_json)


@budget_app.command("set")
def set_caps(
    name: Annotated[str, _NAME],
    day: Annotated[str | None, typer.Option(metavar="AMOUNT", help="Cap per UTC day.")] = None,
    total: Annotated[str | None, typer.Option(metavar="AMOUNT", help="Cap over all days.")] = None,
    currency: Annotated[str, typer.Option(help="The currency of the pipeline's price.")] = "USD",
    by: Annotated[str | None, _BY] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the budget as one JSON array.")] = False,
) -> None:
    """Set caps of a pipeline, for all its versions together; workers that run heed them within a second."""
    from assay.cli.budget_page import change_caps

    change_caps(name, {"day": day, "total": total}, currency, by, as_json=as_json)


@budget_app.command("clear")
def clear_caps(
    name: Annotated[str, _NAME],
    day: Annotated[bool, typer.Option("--day", help="The cap per UTC day.")] = False,
    total: Annotated[bool, typer.Option("--total", help="The cap over all days.")] = False,
    by: Annotated[str | None, _BY] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the budget as one JSON array.")] = False,
) -> None:
    """Take caps of a pipeline away."""
    from assay.cli.budget_page import remove_caps

    remove_caps(name, day=day, total=total, by=by, as_json=as_json)
