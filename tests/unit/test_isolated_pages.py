"""Options of `assay isolated list`, read."""

from __future__ import annotations

import pytest

from assay.adapters.postgres.isolated_store import IsolatedFilter
from assay.cli.isolated_pages import chosen
from assay.domain.failures import ConfigurationError


@pytest.mark.parametrize(("age", "seconds"), [("90s", 90), ("15m", 900), ("6h", 21_600), ("2d", 172_800)])
def test_an_age_is_a_number_with_its_unit(age: str, seconds: int) -> None:
    found = chosen("open", None, None, None, partition=None, since=age)
    assert found == IsolatedFilter(state="open", since_seconds=seconds)


@pytest.mark.parametrize("age", ["", "6", "h", "-1h", "1.5h", "6 h", "1w", "1234567s"])
def test_anything_else_is_refused(age: str) -> None:
    with pytest.raises(ConfigurationError, match="90s, 15m, 6h, 2d"):
        chosen("any", None, None, None, partition=None, since=age)


def test_any_state_is_no_filter() -> None:
    assert chosen("any", None, None, None, partition=3, since=None) == IsolatedFilter(partition=3)
