"""`assay audit`: does the data show what must hold?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from assay.domain.audit import AuditReport, Finding


def audit(
    deep: Annotated[
        bool, typer.Option("--deep", help="Also open every sealed text and label; needs the vault key.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as one JSON object.")] = False,
) -> None:
    """Check every invariant that the data can show, in one snapshot; runs may go on meanwhile.

    Exit codes: 0 all invariants hold, 1 some are broken (a table names them), 2 bad settings.
    """
    from assay.adapters.postgres.audit_store import AuditStore
    from assay.app import database, open_vault
    from assay.cli.errors import BROKEN
    from assay.cli.said import say
    from assay.config import load_settings

    settings = load_settings()
    with database(settings, say) as url:
        report = AuditStore(url, open_vault(settings) if deep else None).audit()
    if as_json:
        _print_json(report)
    else:
        _print_report(report)
    if not report.clean:
        raise typer.Exit(BROKEN)


def _print_json(report: AuditReport) -> None:
    import json

    from assay.domain.audit import NOTES, by_name

    broken = []
    for each in report.broken:
        rule = by_name(each.invariant)
        broken.append(_shown(each) | {"meaning": rule.meaning, "remedy": rule.remedy})
    notes = [_shown(each) | {"meaning": NOTES[each.invariant]} for each in report.notes]
    figures = {"clean": report.clean, "invariants": report.checked, "tasks": report.tasks,
               "inputs": report.inputs, "events": report.events}  # fmt: skip
    typer.echo(json.dumps(figures | {"broken": broken, "notes": notes}, ensure_ascii=False))


def _shown(finding: Finding) -> dict[str, object]:
    return {"invariant": finding.invariant, "count": finding.count, "sample": list(finding.sample)}


def _print_report(report: AuditReport) -> None:
    from rich.table import Table
    from rich.text import Text

    from assay.cli.tables import console
    from assay.domain.audit import NOTES, by_name

    over = f"{report.tasks:,} tasks, {report.inputs:,} inputs and {report.events:,} events"
    if report.clean:
        typer.echo(f"{report.checked} invariants hold over {over}.")
    else:
        table = Table(title=f"{len(report.broken)} of {report.checked} invariants are broken, over {over}")
        for heading in ("invariant", "rows", "for example", "what to do"):
            table.add_column(heading, justify="right" if heading == "rows" else "left", overflow="fold")
        for each in report.broken:
            rule = by_name(each.invariant)
            name = Text.assemble((each.invariant, "bold"), "\n", rule.meaning)
            table.add_row(name, f"{each.count:,}", Text("\n".join(each.sample)), rule.remedy)
        console().print(table)
    for each in report.notes:
        typer.echo(f"Note: {each.count:,} {NOTES[each.invariant]} ({', '.join(each.sample)}).")
