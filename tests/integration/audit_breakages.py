"""For every invariant, a way to break it by hand in the database of `audit_situations`, and what else that
cannot help breaking. Statements run with triggers and foreign keys off.
"""

from __future__ import annotations

from typing import Final, NamedTuple

CONSTRAINTS: Final = "constraints_are_in_place"


class Breakage(NamedTuple):
    """Statements that break one invariant; `also` names those that go down with it."""

    invariant: str
    sql: str
    also: frozenset[str] = frozenset()


def task_of(record: str, number: int = 1) -> str:
    return (
        "(SELECT min(task_id) FROM assay.annotation_tasks "
        f"WHERE record_id = '{record}' AND input_version = {number})"
    )


def update_task(record: str, assignment: str, number: int = 1) -> str:
    return f"UPDATE assay.annotation_tasks SET {assignment} WHERE task_id = {task_of(record, number)}"


def drop(table: str, name: str) -> str:
    return f"ALTER TABLE assay.{table} DROP CONSTRAINT {name}; "


def flip(table: str, where: str) -> str:
    flipped = "set_byte(ciphertext, 20, get_byte(ciphertext, 20) # 1)"
    return f"UPDATE assay_vault.{table} SET ciphertext = {flipped} {where}"


def attempt_of(record: str) -> str:
    """The attempt that holds the lease of a record's task."""
    return f"(SELECT attempt_id FROM assay.annotation_tasks WHERE task_id = {task_of(record)})"


_ALSO_CONSTRAINTS: Final = frozenset({CONSTRAINTS})

TASKS: Final = (
    Breakage(
        "one_task_per_annotation",
        drop("annotation_tasks", "annotation_tasks_record_id_input_version_version_id_key")
        + "SET session_replication_role = origin; "
        "INSERT INTO assay.annotation_tasks (record_id, input_version, version_id, input_sha256, "
        "encrypted_text_ref, state, attempt_id, lease_until, attempts, quality_probability, "
        "quality_selected, first_claimed_at, moves, last_move, last_moved_at, last_actor) "
        "SELECT record_id, input_version, version_id, input_sha256, encrypted_text_ref, "
        "'processing', gen_random_uuid(), now(), 1, 0, false, now(), 1, 'claim', now(), 'x' "
        f"FROM assay.annotation_tasks WHERE task_id = {task_of('referred')}; "
        "INSERT INTO assay.parked_tasks SELECT max(task_id), 1, now() FROM assay.annotation_tasks",
        _ALSO_CONSTRAINTS,
    ),
    Breakage("task_has_its_input", "DELETE FROM assay.inputs WHERE record_id = 'held'"),
    Breakage("task_hash_is_the_inputs", update_task("referred", "input_sha256 = sha256('x')")),
    Breakage("task_text_is_the_inputs", update_task("referred", "encrypted_text_ref = 987654")),
    Breakage("task_has_a_version", update_task("held", "version_id = 987654")),
    Breakage(
        "input_has_a_task",
        f"DELETE FROM assay.task_history WHERE task_id = {task_of('held')}; "
        "DELETE FROM assay.annotation_tasks WHERE record_id = 'held'",
    ),
    Breakage(
        "lease_fits_the_state",
        drop("annotation_tasks", "lease_while_processing") + update_task("referred", "lease_until = now()"),
        _ALSO_CONSTRAINTS,
    ),
    Breakage(
        "due_time_fits_the_state",
        drop("annotation_tasks", "due_while_parked") + update_task("referred", "not_before = now()"),
        _ALSO_CONSTRAINTS,
    ),
    Breakage(
        "quarantined_task_has_a_code",
        drop("annotation_tasks", "code_while_quarantined") + update_task("dead", "error_code = NULL"),
        _ALSO_CONSTRAINTS,
    ),
    Breakage(
        "task_in_review_has_a_reason",
        drop("annotation_tasks", "reason_while_in_review") + update_task("referred", "review_reason = NULL"),
        _ALSO_CONSTRAINTS,
    ),
    Breakage("attempts_fit_the_history", update_task("referred", "attempts = 99")),
    Breakage("quality_draw_has_its_probability", update_task("pool", "quality_probability = 0")),
)
_HISTORY_OF: Final = "UPDATE assay.task_history SET {} WHERE move = '{}' AND task_id = {}"
HISTORY: Final = (
    Breakage(
        "history_is_a_chain",
        _HISTORY_OF.format("from_state = 'retry_scheduled'", "claim", task_of("referred")),
    ),
    Breakage("history_reaches_the_task", update_task("referred", "last_actor = 'somebody'")),
    Breakage("history_reaches_the_task", update_task("referred", "moves = moves + 1")),
    Breakage(
        "history_has_legal_moves_only",
        _HISTORY_OF.format("move = 'give_up'", "park", task_of("parked"))
        + "; "
        + update_task("parked", "last_move = 'give_up'"),
    ),
    Breakage(
        "history_is_of_a_task",
        "INSERT INTO assay.task_history (task_id, at, move, to_state, attempt_id, actor) "
        "VALUES (987654, now(), 'claim', 'processing', gen_random_uuid(), 'x')",
    ),
    Breakage(
        "history_says_who_and_why",
        _HISTORY_OF.format("reason = NULL", "park", task_of("parked"))
        + "; "
        + update_task("parked", "last_reason = NULL"),
    ),
    Breakage(
        "move_names_the_attempt_that_held_the_lease",
        _HISTORY_OF.format("attempt_id = gen_random_uuid()", "park", task_of("parked")),
    ),
    Breakage(
        "move_names_the_attempt_that_held_the_lease",
        _HISTORY_OF.format("attempt_id = NULL", "claim", task_of("held")),
        frozenset({"lease_is_the_last_attempts"}),
    ),
    Breakage("lease_is_the_last_attempts", update_task("held", "attempt_id = gen_random_uuid()")),
    Breakage(
        "attempt_is_one_lease",
        _HISTORY_OF.format(
            f"attempt_id = {attempt_of('again')}",
            "claim",
            task_of("held"),
        )
        + "; "
        + update_task("held", f"attempt_id = {attempt_of('again')}"),
    ),
    Breakage(
        "freeze_stops_promotion",
        "UPDATE assay.releases SET frozen_at = frozen_at - interval '1 hour' WHERE frozen",
    ),
)
_OUTPUT: Final = "UPDATE assay.annotation_outputs SET {} WHERE task_id = {}"
OUTPUTS: Final = (
    Breakage(
        "one_output_per_task",
        drop("annotation_outputs", "annotation_outputs_pkey") + "INSERT INTO assay.annotation_outputs "
        f"SELECT * FROM assay.annotation_outputs WHERE task_id = {task_of('referred')}",
        _ALSO_CONSTRAINTS,
    ),
    Breakage(
        "finished_task_has_an_output",
        f"DELETE FROM assay.annotation_outputs WHERE task_id = {task_of('referred')}",
    ),
    Breakage(
        "output_is_of_the_attempt_that_finished",
        _OUTPUT.format("attempt_id = gen_random_uuid()", task_of("referred")),
    ),
    Breakage(
        "output_is_of_the_attempt_that_finished",
        _OUTPUT.format(
            "attempt_id = (SELECT replaced_attempt_id FROM assay.task_history h "
            "WHERE h.task_id = annotation_outputs.task_id AND h.move = 'take_over')",
            task_of("taken"),
        ),
        # The unfenced writer's own call did not count.
        frozenset({"lost_call_brings_no_result", "label_comes_from_an_accepted_call"}),
    ),
    Breakage("candidate_is_confident", _OUTPUT.format("confidence = 0.5", task_of("accepted"))),
    Breakage("candidate_is_confident", _OUTPUT.format("accept_at = NULL", task_of("accepted"))),
    Breakage("candidate_is_confident", _OUTPUT.format("repaired = true", task_of("accepted"))),
    Breakage(
        "plain_label_has_no_sensitive_text",
        _OUTPUT.format('label_json = label_json || \'{"reason": "private"}\'', task_of("accepted")),
    ),
    Breakage(
        "plain_label_has_no_sensitive_text",
        _OUTPUT.format(
            "label_json = jsonb_set(label_json, '{items,0,note}', '\"private\"')", task_of("accepted")
        ),
    ),
    Breakage(
        "plain_label_has_no_sensitive_text",
        "UPDATE assay.outbox_events SET payload = jsonb_set(payload, '{label,reason}', '\"private\"') "
        f"WHERE task_id = {task_of('pool')}",
    ),
)
DRAWS: Final = (
    Breakage(
        "category_draw_has_its_probability", _OUTPUT.format("stratum_probability = 0", task_of("category"))
    ),
    Breakage(
        "pool_candidate_has_an_item",
        f"DELETE FROM assay.review_items WHERE task_id = {task_of('category')}",
    ),
)
_LETTER: Final = "UPDATE assay.dead_letters SET {} WHERE task_id = {}"
_NEW_LETTER: Final = (
    "INSERT INTO assay.dead_letters (task_id, attempt_id, version_id, error_code, failure_class, errors, "
    "fields, fingerprint, attempts, first_attempt_at, last_attempt_at)"
)
_ITEM: Final = "UPDATE assay.review_items SET {} WHERE task_id = {}"
PEOPLE: Final = (
    Breakage(
        "quarantined_task_has_one_open_dead_letter",
        _LETTER.format("state = 'closed'", task_of("dead")),
        frozenset({"closed_dead_letter_has_its_act"}),
    ),
    Breakage(
        "quarantined_task_has_one_open_dead_letter",
        f"DROP INDEX assay.dead_letters_one_open; {_NEW_LETTER} SELECT task_id, attempt_id, version_id, "
        "error_code, failure_class, errors, fields, assay.dead_letter_fingerprint(error_code, NULL, errors), "
        "attempts, first_attempt_at, last_attempt_at "
        f"FROM assay.dead_letters WHERE task_id = {task_of('dead')}",
        _ALSO_CONSTRAINTS,
    ),
    Breakage(
        "open_dead_letter_is_of_a_quarantined_task",
        f"{_NEW_LETTER} SELECT task_id, attempt_id, 1, 'x', 'transient', '[]', '{{}}', "
        "assay.dead_letter_fingerprint('x', NULL, '[]'), 1, now(), now() "
        f"FROM assay.annotation_outputs WHERE task_id = {task_of('referred')}",
    ),
    Breakage(
        "dead_letter_has_the_tasks_code",
        _LETTER.format("error_code = 'json_duplicate_key'", task_of("dead")),
        frozenset({"dead_letter_fingerprint_is_of_its_errors"}),
    ),
    Breakage(
        "dead_letter_names_an_attempt_of_its_task",
        _LETTER.format("attempt_id = gen_random_uuid()", task_of("exhausted")),
    ),
    Breakage(
        "dead_letter_errors_are_paths_and_types",
        _LETTER.format(
            'errors = \'[{"path": "", "type": "json_invalid", "input": "private"}]\'', task_of("dead")
        ),
    ),
    Breakage("task_in_review_has_one_open_item", _ITEM.format("state = 'decided'", task_of("referred"))),
    Breakage(
        "open_review_item_has_a_task_to_review",
        "INSERT INTO assay.review_items (task_id, version_id, reason, blind, created_at) "
        f"VALUES ({task_of('accepted')}, 1, 'x', false, now())",
    ),
    Breakage("pool_candidate_has_an_item", _ITEM.format("state = 'withdrawn'", task_of("pool"))),
    Breakage("pool_item_is_blind", _ITEM.format("blind = false", task_of("pool"))),
)
_NEW_EVENT: Final = (
    "INSERT INTO assay.outbox_events (event_id, aggregate_kind, aggregate_id, kind, revision, task_id, "
    "payload, created_at)"
)
RESULTS: Final = (
    Breakage(
        "one_result_per_record",
        drop("results", "results_pkey")
        + "INSERT INTO assay.results SELECT * FROM assay.results WHERE record_id = 'referred'",
        _ALSO_CONSTRAINTS,
    ),
    Breakage(
        "result_points_at_its_annotation",
        f"UPDATE assay.results SET task_id = {task_of('pool')} WHERE record_id = 'referred'",
        # The event of the revision names another task then.
        frozenset({"last_event_shows_the_result"}),
    ),
    Breakage(
        "result_serves_no_stale_annotation",
        "INSERT INTO assay.results SELECT v.name, t.record_id, t.task_id, 1, t.version_id, 1, now() "
        "FROM assay.annotation_tasks t JOIN assay.pipeline_versions v USING (version_id) "
        "WHERE t.record_id = 'shadow'; "
        f"{_NEW_EVENT} SELECT assay.event_id('result', 'people/shadow', 'completed', 1, 0), 'result', "
        "'people/shadow', 'completed', 1, r.task_id, jsonb_build_object('record_id', 'shadow', "
        "'input_version', 1, 'pipeline_version', v.pipeline_version, 'state', 'shadowed'), now() "
        "FROM assay.results r JOIN assay.pipeline_versions v USING (version_id) WHERE r.record_id = 'shadow'",
    ),
    Breakage(
        "settled_task_is_served",
        "DELETE FROM assay.results WHERE record_id = 'referred'; "
        f"DELETE FROM assay.outbox_events WHERE task_id = {task_of('referred')}",
    ),
    Breakage(
        "result_serves_the_newest",
        f"UPDATE assay.results SET task_id = {task_of('accepted')}, version_id = 1 "
        "WHERE record_id = 'accepted' AND name = 'tickets'; "
        f"UPDATE assay.outbox_events SET task_id = {task_of('accepted')}, payload = payload || "
        "jsonb_build_object('pipeline_version', "
        "(SELECT pipeline_version FROM assay.pipeline_versions WHERE version_id = 1)) "
        "WHERE aggregate_id = 'tickets/accepted' AND revision = 2",
    ),
    Breakage(
        "older_input_is_superseded",
        f"DELETE FROM assay.task_history WHERE move = 'supersede' AND task_id = {task_of('newer')}; "
        f"DELETE FROM assay.outbox_events WHERE kind = 'superseded' AND task_id = {task_of('newer')}; "
        "UPDATE assay.annotation_tasks t SET state = h.to_state, moves = 2, last_move = h.move, "
        "last_moved_at = h.at, last_actor = h.actor, last_reason = h.reason FROM assay.task_history h "
        f"WHERE h.task_id = t.task_id AND h.move = 'accept' AND t.task_id = {task_of('newer')}",
    ),
    Breakage(
        "superseded_task_has_a_successor",
        "SET session_replication_role = origin; "
        + update_task(
            "referred",
            "state = 'superseded', moves = moves + 1, last_move = 'supersede', last_moved_at = now(), "
            "last_actor = 'x', last_reason = 'x'",
        )
        + "; "
        + _ITEM.format("state = 'withdrawn'", task_of("referred"))
        + f"; {_NEW_EVENT} SELECT assay.event_id('result', aggregate_id, 'superseded:' || task_id, 1, 0), "
        "'result', aggregate_id, 'superseded', 1, task_id, payload, now() "
        f"FROM assay.outbox_events WHERE task_id = {task_of('referred')}",
        # Its own result still points at it.
        frozenset({"result_serves_no_stale_annotation"}),
    ),
)
