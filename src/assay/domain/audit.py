"""The invariants that `assay audit` checks: names, meanings and what to do, as data.

A query of the same name finds what breaks an invariant; the few that SQL alone cannot decide have a check in
the audit store. Every one has a test that breaks the database by hand and sees it named.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

SAMPLE: Final = 5

# Ten leases of the default 90 seconds: a worker that lives has renewed or been taken over long before.
OVERDUE_SECONDS: Final = 900.0


class Invariant(NamedTuple):
    """`subject` groups invariants for people; `deep` ones open what is sealed and need the vault key."""

    name: str
    subject: str
    meaning: str
    remedy: str
    deep: bool = False


@dataclass(frozen=True, slots=True)
class Finding:
    """How many rows break an invariant (or are worth a note), and the first few of them, readable."""

    invariant: str
    count: int
    sample: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AuditReport:
    """What an audit found. `notes` are worth a look and break nothing."""

    checked: int
    tasks: int
    inputs: int
    events: int
    broken: tuple[Finding, ...]
    notes: tuple[Finding, ...]

    @property
    def clean(self) -> bool:
        return not self.broken


_RULES: Final[dict[str, tuple[tuple[str, str], ...]]] = {
    "tasks": (
        ("one_task_per_annotation", "Record, input version and pipeline version have one task."),
        ("task_has_its_input", "Every task that is not erased has its input."),
        ("task_hash_is_the_inputs", "A task carries the content fingerprint of its input."),
        ("task_text_is_the_inputs", "A task refers to the same encrypted text as its input."),
        ("task_has_a_version", "Every task belongs to a registered pipeline version."),
        ("input_has_a_task", "Every input was claimed: at least one task annotates it."),
        ("lease_fits_the_state", "Attempt and lease are set while processing, and only then."),
        ("due_time_fits_the_state", "not_before is set while a retry is scheduled, and only then."),
        ("quarantined_task_has_a_code", "A quarantined task says which code refused it."),
        ("task_in_review_has_a_reason", "A task in review says why a person must decide."),
        ("attempts_fit_the_history", "A task counts no more attempts than its history has leases."),
        ("quality_draw_has_its_probability", "A record in the quality pool has the probability of its draw."),
    ),
    "history": (
        (
            "history_is_a_chain",
            "Each move of a task starts where the one before ended, the first from nothing.",
        ),
        (
            "history_reaches_the_task",
            "A task has as many history rows as moves, and shows what the last one says.",
        ),
        ("history_has_legal_moves_only", "Every move in the history is in the table of moves."),
        ("history_is_of_a_task", "Every history row belongs to a task."),
        ("history_says_who_and_why", "Every move has an actor, and a reason unless it is a claim."),
        (
            "move_names_the_attempt_that_held_the_lease",
            "A move out of processing, a take-over too, names the attempt that held the lease just before.",
        ),
        (
            "lease_is_the_last_attempts",
            "The attempt that holds a lease is the last one that the history knows.",
        ),
        ("attempt_is_one_lease", "An attempt is one lease on one task, never two."),
        ("freeze_stops_promotion", "No task became auto_candidate after its version was frozen."),
    ),
    "outcomes": (
        ("one_output_per_task", "A task has one current output."),
        ("finished_task_has_an_output", "A task that an attempt finished has the output of it."),
        (
            "output_is_of_the_attempt_that_finished",
            "An output was written by the attempt that the history shows finishing the task.",
        ),
        (
            "candidate_is_confident",
            "An auto_candidate has a label, not repaired, whose confidence reaches the threshold.",
        ),
        (
            "plain_label_has_no_sensitive_text",
            "Labels outside of the vault (outputs, events) hold no field that the contract calls sensitive.",
        ),
        (
            "category_draw_has_its_probability",
            "An output drawn by category has the category and the probability of that draw.",
        ),
        ("quarantined_task_has_one_open_dead_letter", "A quarantined task has exactly one open dead letter."),
        ("open_dead_letter_is_of_a_quarantined_task", "An open dead letter belongs to a quarantined task."),
        ("dead_letter_has_the_tasks_code", "An open dead letter has its task's code and version."),
        ("dead_letter_names_an_attempt_of_its_task", "A dead letter names an attempt of its task."),
        (
            "dead_letter_errors_are_paths_and_types",
            "A dead letter's errors are paths and types, nothing else.",
        ),
        (
            "closed_dead_letter_has_its_act",
            "A closed dead letter has its closing, with a reason, and its task's; no other has one.",
        ),
        (
            "dead_letter_is_whose_the_last_act_says",
            "A dead letter is that person's whom the last act gave it, or nobody's.",
        ),
        (
            "dead_letter_fingerprint_is_of_its_errors",
            "A dead letter's fingerprint and fields are those of its code, kind and errors.",
        ),
        (
            "dead_letter_comes_from_where_its_input_does",
            "A dead letter's source, customer, document type and language are its input's.",
        ),
        ("task_in_review_has_one_open_item", "A task in review has exactly one open review item."),
        (
            "open_review_item_has_a_task_to_review",
            "An open review item belongs to a task in review, or to a candidate of the quality pool.",
        ),
        ("pool_candidate_has_an_item", "A candidate drawn for the quality pool has its review item."),
        ("pool_item_is_blind", "Review items of the quality pool are blind."),
        ("one_result_per_record", "A pipeline line has one result per record."),
        (
            "result_points_at_its_annotation",
            "A result points at an existing task of its line, record and versions.",
        ),
        ("result_serves_no_stale_annotation", "No result serves a superseded or shadowed annotation."),
        ("settled_task_is_served", "A settled task's record has a result in its line."),
        (
            "result_serves_the_newest",
            "A result serves the newest settled input version and pipeline version.",
        ),
        (
            "older_input_is_superseded",
            "Settled annotations of older inputs than the one served are superseded.",
        ),
        ("superseded_task_has_a_successor", "A superseded task's record has a result that is newer."),
    ),
    "calls": (
        ("call_is_of_an_attempt_of_its_task", "A call belongs to an attempt, a task and a version that fit."),
        ("one_call_per_attempt_and_pass", "The ledger has one call per attempt and pass."),
        (
            "taken_over_attempt_is_charged",
            "An attempt that was taken over has a call, lost or reported late.",
        ),
        ("unknown_call_is_charged", "A call whose outcome is unknown is billed at its reserve."),
        ("lost_call_brings_no_result", "A call that came back after its lease was lost made no output."),
        (
            "label_comes_from_an_accepted_call",
            "A label comes from an accepted call of the attempt that finished, or from a kept response.",
        ),
        (
            "refusal_comes_from_a_call",
            "A dead letter of class contract or policy has the call that was refused, its own or of before.",
        ),
        ("each_pass_is_answered_once", "No pass of a task is asked for again once its answer counted."),
        ("correction_follows_a_failure", "A correction was called only where the first pass had failed."),
    ),
    "money": (
        (
            "spend_is_what_the_ledger_says",
            "What was spent per version and day is what the calls of that day cost.",
        ),
        ("cap_is_its_last_change", "A cap is what the last change of it says."),
    ),
    "outbox": (
        ("every_revision_has_its_event", "Each revision of a result, from 1 on, has its event."),
        ("events_are_in_order", "Events of one aggregate are queued in the order of their revisions."),
        ("no_event_overtakes", "No event was delivered while an earlier one of its aggregate waited."),
        ("event_is_told_once", "No event is known twice: it waits, or was delivered, or is parked."),
        ("receipt_follows_its_event", "A receipt names its sink, and a delivery that came after the event."),
        (
            "refusal_is_of_a_waiting_event",
            "What holds an aggregate back is the first event of it that waits.",
        ),
        ("every_bucket_is_there", "The outbox has its 64 buckets, so that every event has a publisher."),
        ("event_id_is_derived", "Event ids are derived from aggregate, kind, revision and restore epoch."),
        (
            "event_tells_of_what_exists",
            "Every event tells of a result, isolated record or version that exists.",
        ),
        (
            "event_kind_fits_the_state_told",
            "A quarantined event tells of a quarantined task, a completed one does not.",
        ),
        ("last_event_shows_the_result", "The event of a result's last revision shows the annotation served."),
        ("superseded_task_is_announced", "Every superseded task has its event."),
        ("isolated_record_is_announced", "Every isolated record and conflict has its event."),
    ),
    "replays": (
        (
            "replay_names_its_fix",
            "A replay has a fix on record, of the pipeline whose dead letters it takes.",
        ),
        ("released_item_is_under_way", "What a replay has let out is under way, or was overtaken just now."),
        ("replaying_dead_letter_is_let_out", "A dead letter is being replayed while its item is out."),
        (
            "success_resolves_its_dead_letter",
            "A dead letter whose item succeeded is resolved by that replay; a failure has its own.",
        ),
        (
            "resolved_by_replay_has_its_item",
            "A dead letter resolved by a replay is an item of it, or an older version's of the same input.",
        ),
        ("replay_is_recorded", "A replay was planned by somebody, and its last act fits its state."),
        (
            "finished_replay_has_no_open_item",
            "A replay that is over has nothing waiting, a finished one nothing out.",
        ),
        (
            "replay_of_is_an_older_version",
            "What an annotation replays is of the same input and line, under an older version.",
        ),
        (
            "kept_response_is_of_a_dead_letter",
            "A kept response belongs to an attempt that a contract refused.",
        ),
    ),
    "sources and waiting work": (
        ("parked_task_is_on_the_work_list", "A parked task is on the work list, with its due time."),
        (
            "work_list_holds_waiting_tasks_only",
            "The work list holds parked tasks and retries under way, no others.",
        ),
        ("held_task_can_be_found", "A task being processed can be found by a take-over."),
        ("committed_offset_has_a_destination", "Every offset below a checkpoint has a durable destination."),
        ("one_input_per_offset", "An offset brought one input, new or known."),
        ("duplicate_is_of_an_input", "A duplicate offset names an input that exists."),
        ("position_is_in_a_known_source", "Every position belongs to a registered source."),
        (
            "conflict_has_other_content",
            "A conflict names its identity, and its content differs from the input's.",
        ),
        (
            "resolved_isolated_has_its_fix",
            "A resolved isolated record has its fix, with the task that it became, and counts one replay.",
        ),
        (
            "ended_isolated_has_its_act",
            "A closed isolated record has its closing, an open one neither closing nor fix.",
        ),
        (
            "work_list_knows_the_priority",
            "The work list says of each waiting task whether its record is of low priority.",
        ),
    ),
    "vault": (
        ("text_is_in_the_vault", "The text of every input that is not erased is in the vault."),
        ("subject_key_is_in_the_vault", "A text wrapped by a subject's key has that key."),
        ("sealed_label_is_in_the_vault", "A sealed label is in the vault, tied to its task and text."),
        ("isolated_bytes_are_in_the_vault", "The bytes of isolated records are in the vault."),
        ("text_opens", "A text opens with the vault key and has its input's fingerprint."),
        ("label_opens", "A sealed label opens with the vault key and is JSON."),
        (
            "isolated_bytes_open",
            "Isolated bytes open with the vault key; a conflict's have the hash offered.",
        ),
    ),
    "versions": (
        ("version_is_registered_once", "A digest and a label name one version of a line."),
        ("version_digest_is_of_its_definition", "A version's digest is that of the definition stored."),
        ("version_has_a_release", "Every version has its release row."),
        ("frozen_release_says_since_when", "A release is frozen since a time, or not frozen."),
        ("version_is_held_by_one_stop", "A version is held by one stop at most."),
        ("stop_is_in_the_log", "Every stop of a version, and its end, is in the version's log."),
        (
            "version_has_one_baseline_model",
            "Of the models that a version's vendor reported one is the baseline, the first.",
        ),
        ("changed_model_is_in_the_log", "Every model but the baseline has its event."),
        ("approval_is_in_the_log", "Every approval, and its end, is in the version's log."),
    ),
    "guards": (
        ("moves_are_the_codes", "The database's table of moves equals the code's."),
        ("triggers_are_in_place", "The triggers of the migrations are there and enabled."),
        ("functions_are_as_migrated", "The functions in the database are those of the migrations."),
        ("constraints_are_in_place", "Keys, checks and unique indexes are there and valid."),
        ("migrations_are_as_shipped", "The migrations applied are those of this release, unchanged."),
        ("one_instance_row", "The database says once what it is and how its clock runs."),
    ),
}

_STOP: Final = (
    "Stop the workers and look at `assay explain RECORD`; then restore a backup or repair the rows shown."
)
_SUBJECT_REMEDIES: Final = {
    "vault": "Restore the vault's tables from the backup that belongs to this database.",
    "guards": "A guard of the schema was removed: put it back as the migrations define it, then audit again.",
}
_REREAD: Final = (
    "Lower the checkpoint to the offset shown and run the source again; known records are skipped."
)
_REMEDIES: Final = {
    "freeze_stops_promotion": "Demote the tasks shown and report a defect: the release lock did not hold.",
    "plain_label_has_no_sensitive_text": (
        "Remove the fields from the rows shown, and treat the text as disclosed to who could read them."
    ),
    "dead_letter_errors_are_paths_and_types": (
        "Remove what else stands in the errors of the dead letters shown: it may be user data."
    ),
    "lost_call_brings_no_result": (
        "Report a defect: the fence did not hold; restore the output of the attempt in the history."
    ),
    "parked_task_is_on_the_work_list": (
        "Insert the missing row into parked_tasks: without it the task is never tried again."
    ),
    "work_list_holds_waiting_tasks_only": (
        "Delete the rows shown from parked_tasks: they keep runs from ending."
    ),
    "work_list_knows_the_priority": "Set parked_tasks.low of the rows shown to what their inputs say.",
    "held_task_can_be_found": (
        "Insert the tasks shown into parked_tasks, due at once: else nobody takes them over."
    ),
    "version_has_a_release": "Register the pipeline again (`assay pipeline register`): that makes the row.",
    "spend_is_what_the_ledger_says": (
        "Caps are judged by wrong figures: write the sums of that day's calls into assay.spend."
    ),
    "cap_is_its_last_change": "Set the cap again (`assay budget set`): that writes both.",
    "migrations_are_as_shipped": "Use the assay release that applied them, or restore a backup.",
    "committed_offset_has_a_destination": _REREAD,
    "duplicate_is_of_an_input": _REREAD,
}
_DEEP: Final = frozenset({"text_opens", "label_opens", "isolated_bytes_open"})

INVARIANTS: Final[tuple[Invariant, ...]] = tuple(
    Invariant(
        name, subject, meaning, _REMEDIES.get(name, _SUBJECT_REMEDIES.get(subject, _STOP)), name in _DEEP
    )
    for subject, rules in _RULES.items()
    for name, meaning in rules
)

# Worth a look; the next run of that pipeline takes care of them.
NOTES: Final[dict[str, str]] = {
    "abandoned_tasks": "tasks hold a lease that ended more than 15 minutes ago; the next run takes them over",
    "overdue_parked_tasks": "parked tasks have been due for more than 15 minutes; the next run takes them up",
}


def by_name(name: str) -> Invariant:
    """The invariant of this name."""
    return next(invariant for invariant in INVARIANTS if invariant.name == name)
