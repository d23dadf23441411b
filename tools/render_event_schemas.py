"""Writes docs/events from the models of events; with --check only says whether it is in step.

A published schema is never changed incompatibly: then nothing is written, and the kind needs a new version.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from pydantic import JsonValue

from assay.domain.events import SCHEMA_VERSION
from assay.domain.events_bodies import BODIES, schema_of
from assay.domain.events_compatibility import incompatibilities

ROOT = Path(__file__).parents[1]
_FOLDER = Path("docs", "events")
_HEAD = """# Events

Written by `tools/render_event_schemas.py` from `assay.domain.events_bodies`.

Each thing that happens leaves as one event: a JSON object with `event_id`, `kind`, `schema` (the version),
`aggregate` (what it is about), `revision`, `epoch`, `occurred_at` and `data`. No event holds a record's
text, a model's response or a sensitive field of a label. [Consuming](../consuming.md) shows how to read
them.

| kind | version | type | means |
|---|---|---|---|
"""
_RULES = """
## Order and repetition

Events of one aggregate leave in order, and each at least once. (`epoch`, `revision`) rises with every event
of an aggregate but `superseded`, which changes nothing that the result points at: one record may have
several under one revision. `epoch` goes before `revision`: it rises when the database was restored from a
backup, where revisions count again from an earlier one. `event_id` is derived from aggregate, kind, revision
and epoch, so the same event has the same id whenever it is sent.

## How schemas change

Within a version only optional fields are added; words may change. A reader ignores fields and kinds that it
does not know. Anything else (a field taken away, another type, a wider enumeration) is a new version with a
file of its own, and the file of the old one stays. `tools/render_event_schemas.py` refuses to write
anything else.

## Headers

On Kafka and in webhooks an event has the attributes of CloudEvents 1.0 in binary mode (`ce_…` on Kafka,
`ce-…` in HTTP, where values are percent-encoded): `specversion`, `id` (the `event_id`), `source`, `type`,
`time`, `subject` (the aggregate's id), `dataschema` (the schema's `$id`), `content-type`. `correlation-id`
and `traceparent` are there where the record came with them.
"""


def file_of(kind: str, version: int) -> str:
    """The name of a schema's file."""
    return f"{kind}.v{version}.schema.json"


def render() -> dict[str, str]:
    """The pages of the folder: the schema of each kind's present version, and what they mean."""
    rows = [
        f"| `{kind}` | [{version}]({file_of(kind, version)}) | "
        f"`assay.{_aggregate(kind)}.{kind}.v{version}` | {_meaning(kind)} |\n"
        for kind, version in SCHEMA_VERSION.items()
    ]
    schemas = {
        file_of(kind, version): json.dumps(schema_of(kind), indent=2, ensure_ascii=False) + "\n"
        for kind, version in SCHEMA_VERSION.items()
    }
    return {"README.md": _HEAD + "".join(rows) + _RULES, **schemas}


def breaking(folder: Path) -> list[str]:
    """One sentence per change of a published schema that readers would notice."""
    found = []
    for kind, version in SCHEMA_VERSION.items():
        published = folder / file_of(kind, version)
        if published.is_file():
            changes = incompatibilities(json.loads(published.read_text("utf-8")), schema_of(kind))
            found += [f"{published.name}{change}; raise the kind's version" for change in changes]
    return found


def problems(root: Path) -> list[str]:
    """One sentence per page that is missing, out of step or changed incompatibly."""
    folder = root / _FOLDER
    if not folder.is_dir():
        return []
    if found := breaking(folder):
        return found
    found = [
        f"docs/events/{name} is not in step with the models: run tools/render_event_schemas.py"
        for name, text in render().items()
        if not (folder / name).is_file() or (folder / name).read_text("utf-8") != text
    ]
    found += [
        f"docs/events/{file_of(kind, old)} is gone; published schemas stay"
        for kind, version in SCHEMA_VERSION.items()
        for old in range(1, version)
        if not (folder / file_of(kind, old)).is_file()
    ]
    return found


def _meaning(kind: str) -> str:
    return (BODIES[kind].__doc__ or "").strip().splitlines()[0]


def _aggregate(kind: str) -> str:
    properties = _object(_object(schema_of(kind)["$defs"])[_reference(kind)])["properties"]
    return str(_object(_object(properties)["kind"])["const"])


def _reference(kind: str) -> str:
    aggregate = _object(_object(schema_of(kind)["properties"])["aggregate"])
    return str(aggregate["$ref"]).rpartition("/")[2]


def _object(value: JsonValue) -> dict[str, JsonValue]:
    if not isinstance(value, dict):
        raise TypeError("a schema is an object")
    return value


def main() -> int:
    folder = ROOT / _FOLDER
    found = problems(ROOT) if "--check" in sys.argv else breaking(folder)
    for problem in found:
        print(problem, file=sys.stderr)
    if not found and "--check" not in sys.argv:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in render().items():
            (folder / name).write_text(text, encoding="utf-8")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
