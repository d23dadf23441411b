"""The table of legal moves, looked at as data."""

from __future__ import annotations

from assay.domain.lifecycle import (
    FINISHING_MOVES,
    LEGAL_MOVES,
    SETTLED,
    STATE_SENTENCES,
    Move,
    TaskState,
    is_legal,
)


def test_every_state_has_its_sentence() -> None:
    assert set(STATE_SENTENCES) == set(TaskState)


def test_every_move_is_legal_somewhere_and_every_state_can_be_reached() -> None:
    assert {move for _, move, _ in LEGAL_MOVES} == set(Move)
    assert {after for _, _, after in LEGAL_MOVES} == set(TaskState)


def test_a_move_from_a_state_leads_to_one_state() -> None:
    pairs = [(before, move) for before, move, _ in LEGAL_MOVES]
    assert len(pairs) == len(set(pairs))


def test_a_task_begins_by_a_claim_alone() -> None:
    assert [(move, after) for before, move, after in LEGAL_MOVES if before is None] == [
        (Move.CLAIM, TaskState.PROCESSING)
    ]


def test_nothing_leaves_erased() -> None:
    assert not [row for row in LEGAL_MOVES if row[0] is TaskState.ERASED]


def test_only_processing_is_not_settled() -> None:
    assert set(TaskState) - SETTLED == {TaskState.PROCESSING}


def test_an_attempt_ends_by_the_finishing_moves_or_is_replaced_or_erased() -> None:
    moves = {move for before, move, _ in LEGAL_MOVES if before is TaskState.PROCESSING}
    assert moves == FINISHING_MOVES | {Move.TAKE_OVER, Move.ERASE}


def test_dead_letters_come_back_by_replay_people_or_closing_only() -> None:
    moves = {move for before, move, _ in LEGAL_MOVES if before is TaskState.QUARANTINED}
    assert moves == {Move.REPLAY, Move.REFER_DEAD_LETTER, Move.CLOSE, Move.SUPERSEDE, Move.ERASE}


def test_is_legal_says_what_the_table_says() -> None:
    for before in (None, *TaskState):
        for move in Move:
            for after in TaskState:
                assert is_legal(before, move, after) == ((before, move, after) in LEGAL_MOVES)
