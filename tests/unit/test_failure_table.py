"""The one table of failures agrees with the boundary, the route, the limits, the errors and its page."""

from __future__ import annotations

import importlib.util
import typing
from pathlib import Path

import pytest

from assay.domain.failure_table import (
    FAILURE_TABLE,
    Destination,
    FailureClass,
    Origin,
    UsesUp,
    uses_attempt,
)
from assay.domain.failures import (
    PROVIDER_CODES,
    ConfigurationProviderError,
    PolicyProviderError,
    ProviderError,
    RequestProviderError,
    TransientProviderError,
)
from assay.domain.rejection import CODE_RULES, RejectionCode
from assay.domain.retry import GiveUpCode
from assay.domain.route import ReviewReason

ROOT = Path(__file__).resolve().parents[2]


def codes(origin: Origin) -> set[str]:
    return {rule.code for rule in FAILURE_TABLE.values() if rule.origin is origin}


def test_every_code_of_the_boundary_is_in_it_and_means_the_same() -> None:
    assert codes(Origin.BOUNDARY) == {code.value for code in RejectionCode}
    for code, rule in CODE_RULES.items():
        assert FAILURE_TABLE[code.value].retryable is rule.retryable


def test_the_reasons_of_the_route_and_the_ends_of_retries_are_in_it() -> None:
    assert codes(Origin.ROUTE) == {reason.value for reason in ReviewReason}
    for code in typing.get_args(GiveUpCode):
        assert FAILURE_TABLE[code].destination is Destination.QUARANTINED


@pytest.mark.parametrize(
    ("kind", "failure_class"),
    [
        (TransientProviderError, FailureClass.TRANSIENT),
        (ConfigurationProviderError, FailureClass.CONFIGURATION),
        (PolicyProviderError, FailureClass.POLICY),
        (RequestProviderError, FailureClass.CONTRACT),
    ],
)
def test_each_class_of_error_has_codes(kind: type[ProviderError], failure_class: FailureClass) -> None:
    assert kind.failure_class is failure_class
    assert failure_class in PROVIDER_CODES.values()


def test_provider_codes_are_read_from_it() -> None:
    assert set(PROVIDER_CODES) == codes(Origin.PROVIDER)
    assert len(PROVIDER_CODES) == 14


def test_only_transient_failures_use_anything_up_and_only_they_are_tried_again() -> None:
    for rule in FAILURE_TABLE.values():
        if rule.origin is Origin.BOUNDARY:
            continue  # "another try may help" there means a replay
        transient = rule.failure_class is FailureClass.TRANSIENT
        assert (rule.uses_up is UsesUp.NOTHING) or transient
        assert not rule.retryable or transient
        assert (rule.destination is Destination.RETRY) == (rule.uses_up is not UsesUp.NOTHING)
        assert (rule.destination is Destination.STOP_VERSION) == (
            rule.failure_class is FailureClass.CONFIGURATION and rule.origin is Origin.PROVIDER
        )


def test_an_error_takes_from_it_whether_it_uses_an_attempt() -> None:
    assert not TransientProviderError("provider_rate_limited").counts_attempt
    assert not TransientProviderError("provider_connection").counts_attempt
    assert TransientProviderError("provider_timeout").counts_attempt
    assert not ConfigurationProviderError("provider_auth").counts_attempt
    assert TransientProviderError("provider_rate_limited", counts_attempt=True).counts_attempt
    assert uses_attempt("never_heard_of"), "an unknown failure must be bounded"


def test_the_page_is_in_step_and_a_change_would_be_noticed(tmp_path: Path) -> None:
    spec = importlib.util.spec_from_file_location("page", ROOT / "tools" / "write_failures_page.py")
    assert spec is not None
    assert spec.loader is not None
    page = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(page)
    assert page.problems(ROOT) == []
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "failures.md").write_text(page.render().replace("vendor", "seller"))
    assert page.problems(tmp_path) != []
    assert all(f"| `{code}` |" in page.render() for code in FAILURE_TABLE)
