"""What `assay doctor` looks at, in order, and how it prints it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Final

import typer

from assay.cli.doctor_broker import broker_findings
from assay.cli.doctor_database import database_findings
from assay.cli.doctor_machine import disk, installation, open_files, writable
from assay.cli.doctor_model import pipeline_findings
from assay.cli.finding import Finding, State, findings
from assay.cli.json_text import to_json
from assay.config import Settings, load_settings

_COLOURS: Final = {State.OK: "green", State.WARN: "yellow", State.FAIL: "red"}


@dataclass(frozen=True, slots=True)
class Options:
    """The options of `assay doctor`."""

    pipeline: str | None
    model: str | None
    base_url: str | None
    concurrency: int | None
    call: bool


def examine(options: Options, as_json: bool) -> bool:
    """Look at everything and print it; whether nothing fails."""
    found = findings("installation", installation)
    loaded: list[Settings] = []
    found += findings("settings", lambda: _settings(loaded))
    if loaded:
        settings = loaded[0]
        found += findings("project folder", lambda: writable(settings.project))
        found += findings("disk", lambda: disk(settings.project, "disk"))
        found += database_findings(settings)
        found += findings("brokers", lambda: broker_findings(settings))
        found += findings("open files", lambda: open_files(options.concurrency))
        if options.pipeline is not None:
            found += pipeline_findings(
                options.pipeline, options.model, options.base_url, settings, call=options.call
            )
    good = all(each.state is not State.FAIL for each in found)
    if as_json:
        typer.echo(to_json({"ok": good, "findings": [asdict(each) for each in found]}))
    else:
        _print(found)
    return good


def _settings(loaded: list[Settings]) -> list[Finding]:
    """Settings that cannot be read are a finding; what depends on them is left out then."""
    loaded.append(load_settings())
    return []


def _print(found: list[Finding]) -> None:
    width = max(len(each.what) for each in found)
    for each in found:
        state = typer.style(f"{each.state.value:4}", fg=_COLOURS[each.state])
        typer.echo(f"{state}  {each.what:{width}}  {each.told}")
        if each.todo:
            typer.echo(f"{'':4}  {'':{width}}  -> {each.todo}")
