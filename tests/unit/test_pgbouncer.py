"""What a connection asks of its session, in front of PostgreSQL and in front of PgBouncer."""

from __future__ import annotations

import pytest

from assay.adapters.postgres.session import PGBOUNCER, make_pool

URL = "postgresql://assay@127.0.0.1:1/labels"


def terms() -> dict[str, object]:
    kwargs = make_pool(URL, size=1).kwargs
    assert isinstance(kwargs, dict)
    return {name: kwargs[name] for name in ("options", "prepare_threshold")}


async def test_without_the_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(PGBOUNCER, raising=False)
    found = terms()
    assert "statement_timeout=60000" in str(found["options"])
    assert found["prepare_threshold"] == 5


async def test_behind_pgbouncer_nothing_is_asked_and_nothing_prepared(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """libpq sends no startup option where it is empty."""
    monkeypatch.setenv(PGBOUNCER, "1")
    assert terms() == {"options": "", "prepare_threshold": None}
