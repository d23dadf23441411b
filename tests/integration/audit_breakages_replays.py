"""Ways to break the invariants of replays."""

from __future__ import annotations

from typing import Final

from audit_breakages import Breakage, task_of

_OUT: Final = "(SELECT runs_task_id FROM assay.replay_items WHERE state = 'released')"
_RUNNING: Final = "UPDATE assay.replays SET state = '{}' WHERE state = 'running'"
_ACT: Final = (
    "INSERT INTO assay.replay_acts (replay_id, kind, at, actor, reason) "
    "SELECT replay_id, '{}', now(), 'x', 'x' FROM assay.replays WHERE state = '{}'; "
)

REPLAYS: Final = (
    Breakage("replay_names_its_fix", "UPDATE assay.replays SET fix_id = 987654 WHERE state = 'running'"),
    Breakage("replay_names_its_fix", "UPDATE assay.fixes SET name = 'other' WHERE fix_id = 1"),
    Breakage(
        "released_item_is_under_way",
        f"UPDATE assay.annotation_tasks SET replay_id = NULL WHERE task_id = {_OUT}",
    ),
    Breakage(
        "replaying_dead_letter_is_let_out",
        "UPDATE assay.dead_letters SET state = 'open' WHERE state = 'replaying'",
        frozenset({"open_dead_letter_is_of_a_quarantined_task"}),
    ),
    Breakage(
        "replaying_dead_letter_is_let_out",
        f"UPDATE assay.dead_letters SET state = 'replaying' WHERE task_id = {task_of('dead')}",
    ),
    Breakage(
        "success_resolves_its_dead_letter",
        "UPDATE assay.dead_letters SET resolved_by = 'newer_input_version' WHERE resolved_by ^@ 'replay:'",
    ),
    Breakage(
        "success_resolves_its_dead_letter",
        "UPDATE assay.replay_items SET released_at = released_at + interval '1 day' WHERE state = 'failed'",
    ),
    Breakage(
        "resolved_by_replay_has_its_item",
        "UPDATE assay.dead_letters SET resolved_by = 'replay:987654' "
        f"WHERE task_id = {task_of('dead and mended')}",
    ),
    Breakage("replay_is_recorded", "DELETE FROM assay.replay_acts WHERE kind = 'finished'"),
    Breakage("replay_is_recorded", _RUNNING.format("paused")),
    Breakage(
        "finished_replay_has_no_open_item",
        _ACT.format("finished", "running") + _RUNNING.format("finished"),
    ),
    Breakage(
        "finished_replay_has_no_open_item",
        _ACT.format("stopped", "running") + _RUNNING.format("stopped"),
    ),
    Breakage(
        "replay_of_is_an_older_version",
        f"UPDATE assay.annotation_tasks SET replay_of = {task_of('accepted')} WHERE replay_of IS NOT NULL",
    ),
    Breakage(
        "replay_of_is_an_older_version",
        "UPDATE assay.annotation_tasks SET replay_of = task_id WHERE replay_of IS NOT NULL",
    ),
    Breakage(
        "kept_response_is_of_a_dead_letter",
        "UPDATE assay_vault.responses SET attempt_id = gen_random_uuid()",
    ),
)
