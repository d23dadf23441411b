"""Ways to break by hand what the audit says of money and of the log of versions."""

from __future__ import annotations

from typing import Final

from audit_breakages import CONSTRAINTS, Breakage, task_of

_SPEND: Final = "spend_is_what_the_ledger_says"
_STOP: Final = (
    "INSERT INTO assay.version_stops (version_id, code, stopped_at, stopped_by) "
    "VALUES (1, 'provider_auth', now(), 'x')"
)
_LOG: Final = "INSERT INTO assay.version_events (version_id, kind, detail, actor, at) VALUES "
_MODEL: Final = (
    "INSERT INTO assay.version_models (version_id, model, baseline, first_seen_at, first_seen_by) VALUES "
)
_APPROVAL: Final = (
    "INSERT INTO assay.version_approvals (version_id, kind, reason, approved_at, approved_by) "
    "VALUES (1, 'unproven', 'x', now(), 'x')"
)

BUDGETS: Final = (
    Breakage(_SPEND, "UPDATE assay.spend SET cost = cost + 0.000001 WHERE version_id = 1"),
    Breakage(_SPEND, "UPDATE assay.spend SET calls = calls + 1 WHERE version_id = 1"),
    Breakage(_SPEND, "UPDATE assay.spend SET calls_unknown = calls_unknown - 1 WHERE version_id = 1"),
    Breakage(_SPEND, "DELETE FROM assay.spend"),
    Breakage(_SPEND, "INSERT INTO assay.spend VALUES (1, '2001-01-01', 0, 5, 1, 0)"),
    Breakage(
        _SPEND,
        "UPDATE assay.calls SET recorded_at = recorded_at - interval '1 day' "
        f"WHERE task_id = {task_of('accepted')}",
    ),
    Breakage(
        "cap_is_its_last_change", "INSERT INTO assay.budgets VALUES ('tickets', 'day', 5, 'USD', now(), 'x')"
    ),
    Breakage(
        "cap_is_its_last_change",
        "INSERT INTO assay.budget_changes (name, kind, cap, currency, changed_at, changed_by) "
        "VALUES ('tickets', 'total', 5, 'USD', now(), 'x')",
    ),
    Breakage(
        "version_is_held_by_one_stop",
        f"DROP INDEX assay.version_stops_one_open; {_STOP}; {_STOP}; "
        + _LOG
        + "(1, 'stopped', '{\"stop_id\": 1}', 'x', now()), (1, 'stopped', '{\"stop_id\": 2}', 'x', now())",
        frozenset({CONSTRAINTS}),
    ),
    Breakage("stop_is_in_the_log", _STOP),
    Breakage(
        "stop_is_in_the_log",
        f"{_STOP}; {_LOG}(1, 'stopped', '{{\"stop_id\": 1}}', 'x', now()); "
        "UPDATE assay.version_stops SET cleared_at = now(), cleared_by = 'x'",
    ),
    Breakage(
        "version_has_one_baseline_model",
        _MODEL + "(1, 'a', true, '2002-01-01', 'x'), "
        "(1, 'b', false, '2001-01-01', 'x'); "
        + _LOG
        + "(1, 'model_changed', '{\"new\": \"b\"}', 'x', now())",
    ),
    Breakage(
        "changed_model_is_in_the_log", _MODEL + "(1, 'a', true, now(), 'x'), (1, 'b', false, now(), 'x')"
    ),
    Breakage("approval_is_in_the_log", _APPROVAL),
    Breakage(
        "approval_is_in_the_log",
        f"{_APPROVAL}; {_LOG}(1, 'approved', '{{\"approval_id\": 1}}', 'x', now()); "
        "UPDATE assay.version_approvals SET revoked_at = now(), revoked_by = 'x', revoked_reason = 'x'",
    ),
)
