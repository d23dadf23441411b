"""Named static SQL: `sql/*.sql` files, each query under a `-- name:` line with its purpose below it."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from typing import Final, LiteralString

_NAME: Final = re.compile(r"^-- name: ([a-z][a-z0-9_]*)\s*$", re.MULTILINE)


def parse_queries(text: str) -> dict[str, str]:
    """Split the text of one SQL file into its named queries.

    Raises `ValueError` for text before the first name, a name given twice or an empty query.
    """
    pieces = _NAME.split(text)
    if re.sub(r"--.*", "", pieces[0]).strip():
        raise ValueError("SQL before the first `-- name:` line")
    queries: dict[str, str] = {}
    for name, body in zip(pieces[1::2], pieces[2::2], strict=True):
        if name in queries:
            raise ValueError(f"query {name} is named twice")
        if not re.sub(r"--.*", "", body).strip():
            raise ValueError(f"query {name} is empty")
        queries[name] = body.strip()
    return queries


@cache
def queries(room: str) -> dict[str, LiteralString]:
    """The queries of `sql/<room>.sql`. The files ship with the package, so the text is as good as literal."""
    text = (files("assay.adapters.postgres") / "sql" / f"{room}.sql").read_text(encoding="utf-8")
    return dict(parse_queries(text))
