"""Writes docs/logs.md from the table of events; with --check only says whether it is in step."""

from __future__ import annotations

import logging
import sys
from pathlib import Path

from assay.telemetry import CONTEXT, EVENTS, FIELDS

PAGE = Path(__file__).parents[1] / "docs" / "logs.md"
_HEAD = """# Logs

Written by `tools/render_logs.py` from `assay.telemetry`.

Log lines go to standard error. On a terminal they are words, everywhere else one JSON object a line.

| variable | meaning |
|---|---|
| `ASSAY_LOG` | `human` or `json`; default: by whether standard error is a terminal |
| `ASSAY_LOG_LEVEL` | `debug`, `info`, `warning`, `error`, `critical`; default: JSON `info`, human `warning` |
| `ASSAY_LOG_STRICT` | `1`: a line that the tables below do not allow is an error; for tests |
| `ASSAY_TRACEBACK` | `1`: a defect shows Python's whole traceback, values included; not for production |

Every line has `time` (UTC), `level` and `event`. The fields are a closed list: location and replay metadata,
never a record's text, an answer, a label value, a key or the text of an exception. A field that is not in the
list, or whose value does not fit its kind, is left out and counted in `dropped`; a whole line that is not in
the list becomes `undeclared_event`. Of a library's own messages the logger's name, the level and the type and
place of an exception are kept. Names of yours are cut at 200 characters and hold no control characters.

What commands tell a person (`assay: …` on standard error) is no log line and does not start with `{`. Where
`ASSAY_LOG=json` is set, that too is a line of the log (`notice`, `refusal`): then every line on standard
error is one JSON object, but for what a pipeline file prints itself. Where lines are JSON, the progress of a
run is the event `run_progress`.
"""


def render() -> str:
    """The page: how to choose, events, fields."""
    lines = [
        _HEAD,
        "## Events",
        "",
        f"Where they are known, a line also has {', '.join(f'`{name}`' for name in CONTEXT)}.",
        "",
        "| event | level | means | fields |",
        "|---|---|---|---|",
        *(
            f"| `{name}` | {logging.getLevelName(event.level).lower()} | {event.meaning} | "
            f"{', '.join(f'`{field}`' for field in event.fields)} |"
            for name, event in EVENTS.items()
        ),
        "",
        "## Fields",
        "",
        "A `code` is a word of letters, digits and `_ . : -`; a `name` an identifier of yours; a `count` a",
        "whole number; a `place` file, line and function; a `sentence` a line for people, without user data.",
        "",
        "| field | kind | meaning |",
        "|---|---|---|",
        *(f"| `{name}` | {kind.value} | {meaning} |" for name, (kind, meaning) in FIELDS.items()),
        "",
    ]
    return "\n".join(lines)


def problems(root: Path) -> list[str]:
    """One sentence when the page is not what the table says."""
    page = root / "docs" / "logs.md"
    if not page.is_file() or page.read_text("utf-8") == render():
        return []
    return ["docs/logs.md is not in step with the table of events: run tools/render_logs.py"]


if __name__ == "__main__":
    if "--check" in sys.argv:
        sys.exit("\n".join(problems(PAGE.parents[1])) or 0)
    PAGE.write_text(render(), encoding="utf-8")
