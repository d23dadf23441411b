"""Ways to break the invariants of isolated records and of low priority."""

from __future__ import annotations

from typing import Final

from audit_breakages import Breakage, task_of

ISOLATED: Final = (
    Breakage("resolved_isolated_has_its_fix", "DELETE FROM assay.isolated_acts WHERE kind = 'fixed'"),
    Breakage(
        "resolved_isolated_has_its_fix",
        f"UPDATE assay.isolated_acts SET task_id = {task_of('referred')} WHERE kind = 'fixed'",
    ),
    Breakage(
        "resolved_isolated_has_its_fix",
        "UPDATE assay.isolated_records SET replay_count = 2 WHERE state = 'resolved'",
    ),
    Breakage("ended_isolated_has_its_act", "DELETE FROM assay.isolated_acts WHERE kind = 'closed'"),
    Breakage(
        "ended_isolated_has_its_act",
        "UPDATE assay.isolated_records SET state = 'open', replay_count = 0 WHERE state = 'resolved'",
    ),
    Breakage(
        "work_list_knows_the_priority",
        f"UPDATE assay.parked_tasks SET low = false WHERE task_id = {task_of('low')}",
    ),
)
