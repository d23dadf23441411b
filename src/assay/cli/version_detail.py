"""The page of one version: what it is, what holds it up, and what happened to it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import typer
from rich.console import Console

from assay.adapters.postgres.version_acts import VersionActs, VersionPage
from assay.cli.chosen import SHORT
from assay.cli.json_text import to_json
from assay.cli.tables import NONE, console, put, shown, table
from assay.cli.version_acts import found_version

_WIDE: Final = 100
# Events shown to people; --json has them all.
_EVENTS_SHOWN: Final = 20


def show_version(reference: str, name: str | None, *, as_json: bool) -> None:
    """Print the page."""
    with found_version(reference, name) as (url, version):
        page = VersionActs(url).page(version.version_id)
    if as_json:
        typer.echo(to_json({**page.version, "stops": page.stops, "models": page.models,
                            "approvals": page.approvals, "events": page.events}))  # fmt: skip
        return
    screen = console()
    _show_head(screen, page)
    _show_lists(screen, page)


def _show_head(screen: Console, page: VersionPage) -> None:
    version = page.version
    open_stop = next((stop for stop in page.stops if stop["cleared_at"] is None), None)
    frozen = (
        f"{shown(version['frozen_reason'])}, by {shown(version['frozen_by'])}" if version["frozen"] else "no"
    )
    stopped = "no" if open_stop is None else f"{_why(open_stop)}, by {shown(open_stop['stopped_by'])}"
    lines = {
        "version": f"{shown(version['pipeline_version'])}",
        "label": version["version_label"],
        "registered": version["registered_at"],
        "commit": version["code_commit"],
        **_summary(version["definition"]),
        "reserve per call": version["call_reserve"],
        "stage": version["stage"],
        "frozen": frozen,
        "stopped": stopped,
    }
    screen.print(f"{shown(version['pipeline'])} {str(version['pipeline_version'])[:SHORT]}")
    for name, value in lines.items():
        screen.print(f"  {name:<18}{shown(value)}")
    screen.print()


def _summary(definition: object) -> dict[str, object]:
    """What decides a label, in a few lines; `assay pipeline diff` shows the whole of it."""
    if not isinstance(definition, Mapping):
        return {}
    prompt, route, contract = (_part(definition, key) for key in ("prompt", "route", "contract"))
    fields = _part(_part(contract, "schema"), "properties")
    parameters = _part(definition, "parameters")
    return {
        "model": definition.get("model"),
        "parameters": ", ".join(f"{key}={value}" for key, value in parameters.items()) or None,
        "prompt": _short(f"{prompt.get('system', '')}"),
        "fields": ", ".join(sorted(map(str, fields))) or None,
        "accepts at": route.get("accept_at"),
        "guidelines": definition.get("guidelines"),
    }


def _part(whole: Mapping[object, object], key: str) -> Mapping[object, object]:
    part = whole.get(key)
    return part if isinstance(part, Mapping) else {}


def _short(text: str) -> str | None:
    line = " ".join(text.split())
    return (line if len(line) <= _WIDE else f"{line[: _WIDE - 1]}…") or None


def _why(stop: Mapping[str, object]) -> str:
    status = f" (HTTP {stop['http_status']})" if stop["http_status"] else ""
    reason = f": {shown(stop['reason'])}" if stop["reason"] else ""
    return f"{shown(stop['code'])}{status}{reason}"


def _show_lists(screen: Console, page: VersionPage) -> None:
    if page.stops:
        rows = [
            [_why(s), s["stopped_at"], s["stopped_by"], s["cleared_at"], s["cleared_by"]] for s in page.stops
        ]
        put(screen, table("Stops", ["why", "at", "by", "cleared at", "by whom"], rows))
    if page.models:
        rows = [[m["model"], "baseline" if m["baseline"] else "approved" if m["approved"] else "changed",
                 m["first_seen_at"], m["first_request_id"]] for m in page.models]  # fmt: skip
        put(screen, table("Models that answered", ["model", "", "first seen", "vendor's request"], rows))
    if page.approvals:
        rows = [[a["approval_id"], a["model"] or a["kind"], a["reason"], a["approved_by"], a["approved_at"],
                 a["revoked_by"]] for a in page.approvals]  # fmt: skip
        put(screen, table("Approvals", ["number", "for", "reason", "by", "at", "revoked by"], rows))
    if page.events:
        rows = [[e["at"], e["kind"], e["actor"], _detail(e["detail"])] for e in page.events[:_EVENTS_SHOWN]]
        put(screen, table("Log, latest first", ["at", "what", "by", "detail"], rows))


def _detail(detail: object) -> str:
    if not isinstance(detail, Mapping):
        return NONE
    return ", ".join(f"{key} {value}" for key, value in sorted(detail.items()) if value is not None)
