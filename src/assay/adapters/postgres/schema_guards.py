"""What the schema guards itself with, to compare a database with: keys, checks, triggers, functions.

Triggers and functions are read from the migrations; constraints get their names from the server, so they are
listed here, and a test compares the list with a fresh database.
"""

from __future__ import annotations

import re
from typing import Final

from assay.adapters.postgres.migrate import migrations

_TRIGGER: Final = re.compile(
    r"CREATE TRIGGER (\w+)\s.*?\sON assay(?:_vault)?\.(\w+)\b.*?EXECUTE FUNCTION assay(?:_vault)?\.(\w+)\(\)",
    re.DOTALL,
)
_FUNCTION: Final = re.compile(
    r"CREATE (?:OR REPLACE )?FUNCTION assay(?:_vault)?\.(\w+)\(.*?AS \$\$(.*?)\$\$", re.DOTALL
)

_CONSTRAINTS: Final[dict[str, tuple[str, ...]]] = {
    "assay.account_events": (
        "account_events_account_fkey", "account_events_kind_check", "account_events_pkey",
        "closed_since_it_opened",
    ),
    "assay.annotation_outputs": (
        "annotation_outputs_pkey", "annotation_outputs_stratum_probability_check",
    ),
    "assay.annotation_tasks": (
        "annotation_tasks_attempts_check", "annotation_tasks_pkey",
        "annotation_tasks_quality_probability_check", "annotation_tasks_take_overs_check",
        "annotation_tasks_record_id_input_version_version_id_key", "code_while_quarantined",
        "due_while_parked", "lease_id_while_processing", "lease_while_processing",
        "reason_while_in_review",
    ),
    "assay.budget_changes": ("budget_changes_kind_check", "budget_changes_pkey"),
    "assay.budgets": (
        "budgets_cap_check", "budgets_currency_check", "budgets_kind_check", "budgets_name_check",
        "budgets_pkey",
    ),
    "assay.calls": ("calls_outcome_check", "calls_pass_number_check", "calls_pkey"),
    "assay.claim_batches": ("claim_batches_pkey",),
    "assay.dead_letter_acts": (
        "dead_letter_acts_actor_check", "dead_letter_acts_dead_letter_id_fkey", "dead_letter_acts_kind_check",
        "dead_letter_acts_one_end", "dead_letter_acts_owner_check", "dead_letter_acts_pkey",
        "dead_letter_acts_reason_check", "letter_assigned_to_an_owner", "letter_closed_for_a_reason",
    ),
    "assay.dead_letter_terms": (
        "dead_letter_terms_actor_check", "dead_letter_terms_due_seconds_check",
        "dead_letter_terms_expire_seconds_check", "dead_letter_terms_name_check", "dead_letter_terms_pkey",
    ),
    "assay.dead_letters": (
        "assigned_to_somebody", "dead_letters_one_open", "dead_letters_pkey", "dead_letters_state_check",
        "fingerprint_is_short_hex", "open_is_nobodys", "resolved_by_something",
    ),
    "assay.fixes": (
        "fix_of_a_version_names_both", "fixes_author_check", "fixes_description_check",
        "fixes_from_version_fkey", "fixes_kind_check", "fixes_link_check", "fixes_name_check", "fixes_pkey",
        "fixes_to_version_fkey",
    ),
    "assay.inputs": (
        "inputs_document_ref_check", "inputs_input_sha256_check", "inputs_input_version_check", "inputs_pkey",
        "inputs_record_id_check",
    ),
    "assay.instance": (
        "instance_clock_scale_check", "instance_kind_check", "instance_only_row_check", "instance_pkey",
    ),
    "assay.isolated_acts": (
        "act_says_why", "assignment_names_an_owner", "fix_names_its_input", "isolated_acts_actor_check",
        "isolated_acts_fix_check", "isolated_acts_isolated_id_fkey", "isolated_acts_kind_check",
        "isolated_acts_one_end", "isolated_acts_pkey", "isolated_acts_reason_check",
    ),
    "assay.isolated_records": (
        "isolated_records_error_code_check", "isolated_records_pkey",
        "isolated_records_source_id_partition_no_source_offset_key", "isolated_records_state_check",
    ),
    "assay.leases": ("leases_check", "leases_pkey"),
    "assay.legal_moves": ("legal_moves_from_state_move_to_state_key",),
    "assay.low_priority_acts": (
        "low_priority_acts_actor_check", "low_priority_acts_kind_check", "low_priority_acts_name_check",
        "low_priority_acts_pkey", "low_priority_acts_reason_check",
    ),
    "assay.outbox_buckets": (
        "bucket_is_leased_to_somebody", "outbox_buckets_bucket_check", "outbox_buckets_pkey",
        "outbox_buckets_revision_check",
    ),
    "assay.outbox_events": (
        "outbox_events_aggregate_kind_check", "outbox_events_kind_check", "outbox_events_pkey",
    ),
    "assay.outbox_failures": (
        "outbox_failures_pkey", "outbox_failures_reason_check", "outbox_failures_tries_check",
    ),
    "assay.outbox_horizon": ("outbox_horizon_only_row_check", "outbox_horizon_pkey"),
    "assay.outbox_parked": (
        "outbox_parked_event_id_key", "outbox_parked_parked_by_check", "outbox_parked_pkey",
        "outbox_parked_reason_check",
    ),
    "assay.outbox_publishers": (
        "outbox_publishers_pkey", "outbox_publishers_publisher_check", "outbox_publishers_sink_check",
    ),
    "assay.parked_tasks": ("parked_tasks_pkey",),
    "assay.pipeline_versions": (
        "pipeline_versions_call_reserve_check", "pipeline_versions_name_label_key",
        "pipeline_versions_name_pipeline_version_key", "pipeline_versions_pipeline_version_check",
        "pipeline_versions_pkey",
    ),
    "assay.releases": (
        "releases_check", "releases_pkey", "releases_revision_check", "releases_share_check",
        "releases_stage_check", "releases_version_id_fkey",
    ),
    "assay.replay_acts": (
        "replay_acts_actor_check", "replay_acts_kind_check", "replay_acts_pkey", "replay_acts_reason_check",
        "replay_acts_replay_id_fkey",
    ),
    "assay.replay_items": (
        "item_ends", "item_runs_once_released", "item_says_why", "replay_items_dead_letter_id_fkey",
        "replay_items_dead_letter_id_replay_id_key", "replay_items_one_at_a_time", "replay_items_pkey",
        "replay_items_place_check", "replay_items_replay_id_fkey",
        "replay_items_state_check", "replay_items_task",
    ),
    "assay.replays": (
        "replays_first_sample_check", "replays_fix_id_fkey", "replays_per_minute_check", "replays_pkey",
        "replays_planned_by_check", "replays_stage_check", "replays_state_check", "replays_stop_loss_check",
    ),
    "assay.results": ("results_pkey", "results_revision_check"),
    "assay.review_items": ("review_items_one_open", "review_items_pkey", "review_items_state_check"),
    "assay.source_checkpoints": (
        "source_checkpoints_committed_offset_check", "source_checkpoints_pkey",
        "source_checkpoints_source_id_fkey", "source_checkpoints_version_id_fkey",
    ),
    "assay.source_duplicates": ("source_duplicates_pkey",),
    "assay.sources": (
        "sources_kind_name_fingerprint_mapping_key", "sources_pkey", "sources_size_bytes_check",
        "sources_total_check",
    ),
    "assay.spend": ("spend_pkey", "spend_stripe_check"),
    "assay.spend_reservations": (
        "reservation_ends_later", "spend_reservations_amount_check", "spend_reservations_pkey",
    ),
    "assay.vendor_accounts": (
        "cut_as_often_as_noted", "due_while_open", "limits_as_their_source_says", "open_while_not_closed",
        "probed_while_half_open", "vendor_accounts_account_check", "vendor_accounts_answered_check",
        "vendor_accounts_breaker_state_check", "vendor_accounts_failed_per_minute_check",
        "vendor_accounts_limits_source_check", "vendor_accounts_open_streak_check",
        "vendor_accounts_permitted_per_minute_check", "vendor_accounts_pkey",
        "vendor_accounts_requests_per_minute_check", "vendor_accounts_times_opened_check",
        "vendor_accounts_tokens_per_minute_check",
    ),
    "assay.version_approvals": (
        "approval_is_revoked_by_somebody", "approval_names_its_model", "version_approvals_kind_check",
        "version_approvals_pkey", "version_approvals_reason_check", "version_approvals_version_id_fkey",
    ),
    "assay.version_events": (
        "version_events_kind_check", "version_events_pkey", "version_events_version_id_fkey",
    ),
    "assay.version_models": (
        "version_models_model_check", "version_models_one_baseline", "version_models_pkey",
        "version_models_version_id_fkey",
    ),
    "assay.version_stops": (
        "stop_is_cleared_by_somebody", "version_stops_code_check", "version_stops_one_open",
        "version_stops_pkey", "version_stops_version_id_fkey",
    ),
    "assay_vault.keys": (
        "keys_check", "keys_kek_id_check", "keys_one_current", "keys_pkey", "keys_state_check",
    ),
    "assay_vault.labels": ("labels_pkey",),
    "assay_vault.raws": ("raws_pkey",),
    "assay_vault.responses": ("responses_pass_number_check", "responses_pkey"),
    "assay_vault.subject_keys": ("subject_keys_pkey",),
    "assay_vault.texts": ("texts_pkey",),
}  # fmt: skip


def constraints() -> set[str]:
    """Keys, checks, foreign keys and unique indexes, as `schema.table name`."""
    return {f"{table} {name}" for table, names in _CONSTRAINTS.items() for name in names}


def triggers() -> set[tuple[str, str, str]]:
    """(table, trigger, function) of every trigger that the migrations create."""
    return {
        (table, trigger, function)
        for migration in migrations()
        for trigger, table, function in _TRIGGER.findall(migration.sql)
    }


def functions() -> dict[str, str]:
    """The last body that the migrations give each function."""
    return {name: body for migration in migrations() for name, body in _FUNCTION.findall(migration.sql)}
