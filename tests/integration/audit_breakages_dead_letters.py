"""Ways to break the invariants of dead letters that people work on."""

from __future__ import annotations

from typing import Final

from audit_breakages import Breakage, task_of

_ACT: Final = (
    "INSERT INTO assay.dead_letter_acts (dead_letter_id, kind, at, actor, reason, owner) "
    "SELECT dead_letter_id, {}, now(), 'x', 'x', {} FROM assay.dead_letters WHERE task_id = {}"
)
_LETTER: Final = "UPDATE assay.dead_letters SET {} WHERE task_id = {}"

DEAD_LETTERS: Final = (
    Breakage("closed_dead_letter_has_its_act", "DELETE FROM assay.dead_letter_acts WHERE kind = 'closed'"),
    Breakage("closed_dead_letter_has_its_act", _ACT.format("'closed'", "NULL", task_of("dead"))),
    Breakage(
        "closed_dead_letter_has_its_act",
        "ALTER TABLE assay.dead_letter_acts DROP CONSTRAINT letter_closed_for_a_reason; "
        "UPDATE assay.dead_letter_acts SET reason = NULL WHERE kind = 'closed'",
        frozenset({"constraints_are_in_place"}),
    ),
    Breakage(
        "dead_letter_is_whose_the_last_act_says", _LETTER.format("owner = 'somebody'", task_of("exhausted"))
    ),
    Breakage(
        "dead_letter_is_whose_the_last_act_says",
        _ACT.format("'assigned'", "'somebody'", task_of("dead")),
    ),
    Breakage(
        "dead_letter_fingerprint_is_of_its_errors",
        _LETTER.format("fingerprint = repeat('0', 16)", task_of("dead")),
    ),
    Breakage(
        "dead_letter_fingerprint_is_of_its_errors", _LETTER.format("fields = '{/other}'", task_of("dead"))
    ),
    Breakage(
        "dead_letter_comes_from_where_its_input_does", _LETTER.format("customer = 'x'", task_of("dead"))
    ),
)
