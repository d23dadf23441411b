"""Ways to break the invariants of ledgers, outbox, sources, vault, versions and guards."""

from __future__ import annotations

from typing import Final

from audit_breakages import (
    CONSTRAINTS,
    DRAWS,
    HISTORY,
    OUTPUTS,
    PEOPLE,
    RESULTS,
    TASKS,
    Breakage,
    drop,
    flip,
    task_of,
    update_task,
)
from audit_breakages_budgets import BUDGETS
from audit_breakages_dead_letters import DEAD_LETTERS
from audit_breakages_isolated import ISOLATED
from audit_breakages_replays import REPLAYS

_ALSO_CONSTRAINTS: Final = frozenset({CONSTRAINTS})
_CALL: Final = (
    "INSERT INTO assay.calls (task_id, attempt_id, version_id, pass_number, outcome, billed, recorded_at) "
)
# The day's sum is kept by triggers, which are off here.
_ALSO_SPEND: Final = frozenset({"spend_is_what_the_ledger_says"})
CALLS: Final = (
    Breakage(
        "call_is_of_an_attempt_of_its_task",
        _CALL + f"VALUES ({task_of('referred')}, gen_random_uuid(), 1, 1, 'failed', true, now())",
        _ALSO_SPEND,
    ),
    Breakage(
        "one_call_per_attempt_and_pass",
        _CALL
        + "SELECT task_id, attempt_id, version_id, pass_number, outcome, billed, now() FROM assay.calls "
        f"WHERE task_id = {task_of('parked')}",
        _ALSO_SPEND,
    ),
    Breakage(
        "taken_over_attempt_is_charged",
        f"DELETE FROM assay.calls WHERE outcome = 'outcome_unknown' AND task_id = {task_of('silent')}",
        _ALSO_SPEND,
    ),
    Breakage(
        "unknown_call_is_charged",
        "UPDATE assay.calls SET cost = NULL "
        f"WHERE outcome = 'outcome_unknown' AND task_id = {task_of('silent')}",
        _ALSO_SPEND,
    ),
    Breakage(
        "lost_call_brings_no_result",
        _CALL + "SELECT task_id, attempt_id, 1, 1, 'lease_lost', true, now() FROM assay.annotation_outputs "
        f"WHERE task_id = {task_of('exhausted')}",
        _ALSO_SPEND,
    ),
    Breakage(
        "label_comes_from_an_accepted_call",
        f"DELETE FROM assay.calls WHERE task_id = {task_of('accepted')}",
        _ALSO_SPEND,
    ),
    Breakage(
        "refusal_comes_from_a_call",
        f"DELETE FROM assay.calls WHERE task_id = {task_of('policy')}",
        _ALSO_SPEND,
    ),
    Breakage(
        "each_pass_is_answered_once",
        "UPDATE assay.calls SET outcome = 'rejected' "
        f"WHERE outcome = 'failed' AND task_id = {task_of('retried')}",
    ),
    Breakage("correction_follows_a_failure", update_task("dead", "first_pass_code = NULL")),
)
_EVENT: Final = "UPDATE assay.outbox_events SET {} WHERE {}"
# An event leaves the outbox for a receipt of this sink.
_DELIVER: Final = (
    "SELECT assay.make_receipt_partitions(0); "
    "WITH gone AS (DELETE FROM assay.outbox_events WHERE {} RETURNING *) "
    "INSERT INTO assay.outbox_receipts (outbox_id, event_id, aggregate_kind, aggregate_id, kind, revision, "
    "task_id, created_at, published_at, sink) SELECT outbox_id, event_id, aggregate_kind, aggregate_id, "
    "kind, revision, task_id, created_at, assay.assay_now(), '{}' FROM gone"
)
OUTBOX: Final = (
    Breakage(
        "every_revision_has_its_event",
        "DELETE FROM assay.outbox_events WHERE aggregate_id = 'tickets/accepted' AND revision = 1",
    ),
    Breakage(
        "events_are_in_order",
        "ALTER TABLE assay.outbox_events ALTER outbox_id DROP IDENTITY; "
        + _EVENT.format("outbox_id = 987654", "aggregate_id = 'tickets/accepted' AND revision = 1"),
    ),
    Breakage(
        "event_is_told_once",
        "INSERT INTO assay.outbox_events (event_id, aggregate_kind, aggregate_id, kind, revision, payload, "
        "created_at) SELECT event_id, aggregate_kind, aggregate_id, kind, revision, payload, now() "
        "FROM assay.outbox_events WHERE kind = 'isolated'",
    ),
    Breakage(
        "event_is_told_once",
        "CREATE TEMP TABLE twice AS SELECT * FROM assay.outbox_events WHERE kind = 'isolated'; "
        + _DELIVER.format("kind = 'isolated'", "kafka:t")
        + "; INSERT INTO assay.outbox_events (event_id, aggregate_kind, aggregate_id, kind, revision, "
        "payload, created_at) SELECT event_id, aggregate_kind, aggregate_id, kind, revision, payload, "
        "created_at FROM twice",
    ),
    Breakage(
        "no_event_overtakes",
        _DELIVER.format("aggregate_id = 'tickets/accepted' AND revision = 2", "kafka:t"),
    ),
    Breakage("receipt_follows_its_event", _DELIVER.format("kind = 'isolated'", "")),
    Breakage(
        "refusal_is_of_a_waiting_event",
        "INSERT INTO assay.outbox_failures SELECT aggregate_kind, aggregate_id, gen_random_uuid(), bucket, "
        "outbox_id, kind, revision, 'message_too_large', 1, now(), now(), now() "
        "FROM assay.outbox_events WHERE kind = 'isolated'",
    ),
    Breakage("every_bucket_is_there", "DELETE FROM assay.outbox_buckets WHERE bucket = 63"),
    Breakage("event_id_is_derived", _EVENT.format("event_id = gen_random_uuid()", "kind = 'isolated'")),
    Breakage(
        "event_tells_of_what_exists",
        "INSERT INTO assay.outbox_events (event_id, aggregate_kind, aggregate_id, kind, revision, payload, "
        "created_at) VALUES (assay.event_id('version', '987654', 'promotion_frozen', 1, 0), 'version', "
        "'987654', 'promotion_frozen', 1, '{}', now())",
    ),
    Breakage(
        "event_kind_fits_the_state_told",
        _EVENT.format(
            "payload = jsonb_set(payload, '{state}', '\"auto_candidate\"')", f"task_id = {task_of('dead')}"
        ),
    ),
    Breakage(
        "last_event_shows_the_result",
        _EVENT.format(
            "payload = jsonb_set(payload, '{input_version}', '9')", f"task_id = {task_of('referred')}"
        ),
    ),
    Breakage(
        "superseded_task_is_announced",
        f"DELETE FROM assay.outbox_events WHERE kind = 'superseded' AND task_id = {task_of('newer')}",
    ),
    Breakage("isolated_record_is_announced", "DELETE FROM assay.outbox_events WHERE kind = 'conflict'"),
)
SOURCES: Final = (
    Breakage(
        "parked_task_is_on_the_work_list",
        f"DELETE FROM assay.parked_tasks WHERE task_id = {task_of('parked')}",
    ),
    Breakage(
        "parked_task_is_on_the_work_list",
        f"UPDATE assay.parked_tasks SET due_at = 'infinity' WHERE task_id = {task_of('parked')}",
    ),
    Breakage(
        "work_list_holds_waiting_tasks_only",
        f"INSERT INTO assay.parked_tasks VALUES ({task_of('referred')}, 1, now())",
    ),
    Breakage("held_task_can_be_found", "DELETE FROM assay.claim_batches"),
    Breakage(
        "committed_offset_has_a_destination",
        "UPDATE assay.source_checkpoints SET committed_offset = committed_offset + 1 WHERE version_id = 1",
    ),
    Breakage(
        "committed_offset_has_a_destination",
        "DELETE FROM assay.outbox_events WHERE aggregate_kind = 'isolated_record' AND kind = 'isolated'; "
        "DELETE FROM assay.isolated_records WHERE error_code = 'input_schema_invalid'",
    ),
    Breakage(
        "one_input_per_offset",
        "INSERT INTO assay.source_duplicates SELECT source_id, partition_no, source_offset, record_id, "
        "input_version, now() FROM assay.inputs WHERE record_id = 'referred'",
    ),
    Breakage(
        "duplicate_is_of_an_input",
        "INSERT INTO assay.source_duplicates VALUES (1, 0, 987654, 'nobody', 1, now())",
    ),
    Breakage(
        "position_is_in_a_known_source",
        "INSERT INTO assay.source_duplicates VALUES (987654, 0, 0, 'referred', 1, now())",
    ),
    Breakage(
        "conflict_has_other_content",
        "UPDATE assay.isolated_records SET record_id = NULL WHERE record_id IS NOT NULL",
    ),
    Breakage(
        "conflict_has_other_content",
        "UPDATE assay.isolated_records r SET offered_sha256 = i.input_sha256 FROM assay.inputs i "
        "WHERE i.record_id = r.record_id AND i.input_version = r.input_version",
        frozenset({"isolated_bytes_open"}),
    ),
)
_TEXT_OF: Final = "(SELECT encrypted_text_ref FROM assay.inputs WHERE record_id = 'referred')"
VAULT: Final = (
    Breakage("text_is_in_the_vault", f"DELETE FROM assay_vault.texts WHERE text_ref = {_TEXT_OF}"),
    Breakage("subject_key_is_in_the_vault", "DELETE FROM assay_vault.subject_keys"),
    Breakage(
        "sealed_label_is_in_the_vault",
        f"DELETE FROM assay_vault.labels WHERE task_id = {task_of('accepted')}",
    ),
    Breakage("isolated_bytes_are_in_the_vault", "DELETE FROM assay_vault.raws"),
    Breakage("text_opens", flip("texts", f"WHERE text_ref = {_TEXT_OF}")),
    Breakage(
        "text_opens",
        # Another record's text, key and all, in its place: it opens only with what it was tied to.
        "UPDATE assay_vault.texts x SET wrapped_key = y.wrapped_key, ciphertext = y.ciphertext "
        "FROM assay_vault.texts y JOIN assay.inputs i ON i.encrypted_text_ref = y.text_ref "
        f"WHERE i.record_id = 'parked' AND x.text_ref = {_TEXT_OF}",
    ),
    Breakage("label_opens", flip("labels", f"WHERE task_id = {task_of('accepted')}")),
    Breakage("isolated_bytes_open", flip("raws", "")),
)
VERSIONS: Final = (
    Breakage(
        "version_is_registered_once",
        drop("pipeline_versions", "pipeline_versions_name_label_key")
        + "UPDATE assay.pipeline_versions SET label = 'first' WHERE label = 'second'",
        _ALSO_CONSTRAINTS,
    ),
    Breakage(
        "version_digest_is_of_its_definition",
        'UPDATE assay.pipeline_versions SET definition = definition || \'{"model": "another"}\' '
        "WHERE label = 'first'",
    ),
    Breakage("version_has_a_release", "DELETE FROM assay.releases WHERE version_id = 1"),
    Breakage(
        "frozen_release_says_since_when",
        drop("releases", "releases_check") + "UPDATE assay.releases SET frozen_at = NULL WHERE frozen",
        _ALSO_CONSTRAINTS,
    ),
)
GUARDS: Final = (
    Breakage("moves_are_the_codes", "DELETE FROM assay.legal_moves WHERE move = 'give_up'"),
    Breakage(
        "moves_are_the_codes", "INSERT INTO assay.legal_moves VALUES ('erased', 'replay', 'processing')"
    ),
    Breakage("triggers_are_in_place", "ALTER TABLE assay.annotation_tasks DISABLE TRIGGER guard_task_update"),
    Breakage("triggers_are_in_place", "DROP TRIGGER task_history_append_only ON assay.task_history"),
    Breakage(
        "functions_are_as_migrated",
        "CREATE OR REPLACE FUNCTION assay.guard_task_update() RETURNS trigger LANGUAGE plpgsql "
        "AS $$ BEGIN RETURN NULL; END $$",
    ),
    Breakage(CONSTRAINTS, "DROP INDEX assay.dead_letters_one_open"),
    Breakage(CONSTRAINTS, "ALTER TABLE assay.annotation_tasks DROP CONSTRAINT lease_while_processing"),
    Breakage(
        "migrations_are_as_shipped", "UPDATE public.assay_migrations SET checksum = 'x' WHERE version = 1"
    ),
    Breakage(
        "one_instance_row",
        drop("instance", "instance_pkey") + "INSERT INTO assay.instance DEFAULT VALUES",
        _ALSO_CONSTRAINTS,
    ),
)

BREAKAGES: Final = (
    *TASKS, *HISTORY, *OUTPUTS, *DRAWS, *PEOPLE, *RESULTS,
    *CALLS, *OUTBOX, *SOURCES, *VAULT, *VERSIONS, *GUARDS, *BUDGETS, *ISOLATED,
    *DEAD_LETTERS, *REPLAYS,
)  # fmt: skip
