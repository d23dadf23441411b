"""How far each source has come, for people: a row per file, and a row per partition of a topic."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from rich.console import Console

from assay.cli.status_now import named
from assay.cli.tables import NONE, put, table

Row = Mapping[str, object]
_TOPIC: Final = "kafka"
_DIGITS: Final = 8


def show_sources(screen: Console, sources: Sequence[Row]) -> None:
    """Each source once for each version that reads it, then how far topics have come by partition."""
    if not sources:
        return
    again = _names_of_several(sources)
    rows = [
        [_source(row, again), _version(row), None if row["kind"] == _TOPIC else row["committed_offset"],
         row["total"], row["inputs"], row["malformed"], row["conflicts"], row["duplicates"],
         row["updated_at"]]
        for row in _once_a_version(sources)
    ]  # fmt: skip
    headings = ["source", "version", "records done", "of", "first seen here", "malformed", "conflicts",
                "seen before", "at"]  # fmt: skip
    put(screen, table("Sources", headings, rows, right=headings[2:8]))
    rows = [
        [_source(row, again), row["partition"], _version(row), row["committed_offset"], row["updated_at"]]
        for row in sources
        if row["kind"] == _TOPIC and row["partition"] is not None
    ]
    if rows:
        headings = ["topic", "partition", "version", "done below offset", "at"]
        put(screen, table("Partitions of topics", headings, rows, right=["partition", "done below offset"]))


def _once_a_version(sources: Sequence[Row]) -> list[Row]:
    """What is known of a source as a whole comes with each of its partitions: one of them tells it, the one
    that was written last."""
    found: dict[tuple[object, ...], Row] = {}
    for row in sources:
        key = (row["source_id"], row["pipeline"], row["pipeline_version"])
        last = found.get(key)
        if last is None or str(row["updated_at"] or "") > str(last["updated_at"] or ""):
            found[key] = row
    return list(found.values())


def _names_of_several(sources: Sequence[Row]) -> set[object]:
    """Names under which there is more than one content: a file that changed, a topic that was made anew."""
    names = Counter(name for name, _ in {(row["source"], row["source_id"]) for row in sources})
    return {name for name, count in names.items() if count > 1}


def _source(row: Row, again: set[object]) -> object:
    """The name, with the beginning of its fingerprint where the name alone says too little."""
    if row["source"] not in again:
        return row["source"]
    return f"{row['source']} ({str(row['fingerprint'])[:_DIGITS]})"


def _version(row: Row) -> str:
    return NONE if row["pipeline"] is None else named(row)
