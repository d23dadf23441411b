"""One dead letter: four questions answered in order, then what people did about it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import typer
from rich.console import Console
from rich.text import Text

from assay.adapters.postgres.dead_letter_store import DeadLetterStore, LetterPage
from assay.cli.dlq_pages import WHOLE
from assay.cli.json_text import to_json
from assay.cli.opened import existing_database
from assay.cli.status_now import meaning, money
from assay.cli.tables import console, count, put, shown, table
from assay.config import load_settings
from assay.domain.dead_letters import Bar, LetterState, ReplayAnswer, ReplayFacts, replay_answer
from assay.domain.failure_table import FAILURE_TABLE

Row = Mapping[str, object]
_CALLS: Final = {
    "recorded_at": "at", "pass_number": "pass", "outcome": "outcome", "code": "code",
    "finish_reason": "finish", "response_bytes": "bytes", "input_tokens": "in", "output_tokens": "out",
    "cost": "cost", "model": "model", "request_id": "request", "idempotency_key": "key",
}  # fmt: skip
_CARRIED: Final = (
    "document_type", "customer", "language", "sensitivity", "jurisdiction", "priority", "schema_version",
    "ocr_version", "correlation_id", "trace_parent", "source_name",
)  # fmt: skip
_BARS: Final[Mapping[Bar, str]] = {
    Bar.ERASED: "the record was erased, and stays so",
    Bar.TEXT_GONE: "its text or the key to it is no longer in the vault",
    Bar.NEWER_INPUT: "a newer version of the record came in, which is annotated in its place",
    Bar.SETTLED: "its task has been settled otherwise",
    Bar.RESOLVED: "it is resolved: there is nothing to replay",
    Bar.CLOSED: "it was closed: nothing will come of it",
    Bar.BEING_REPLAYED: "a replay has it just now",
}


def show_page(dead_letter_id: int, *, as_json: bool) -> None:
    """The page, or all of it as one object."""
    with existing_database(load_settings()) as url:
        page = DeadLetterStore(url).page(dead_letter_id)
    if as_json:
        more = {"acts": page.acts, "calls": page.calls, "replays": page.replays}
        typer.echo(to_json(as_object(page.envelope, page.facts) | more))
    else:
        _put_page(page)


def as_object(envelope: Row, facts: Row) -> dict[str, object]:
    """An envelope, and whether it can be replayed."""
    answer = answer_of(envelope, facts)
    known = {name: value for name, value in facts.items() if name != "dead_letter_id"}
    told = {"safe": answer.safe, "bars": answer.bars, "same_call_may_help": answer.same_call_may_help,
            "fixes": answer.fixes}  # fmt: skip
    return dict(envelope) | {"replay": told | known}


def answer_of(envelope: Row, facts: Row) -> ReplayAnswer:
    """What is known now about a replay."""
    newer = facts["newer_input"]
    return replay_answer(
        ReplayFacts(
            LetterState(str(envelope["state"])), str(envelope["task_state"]), str(envelope["error_code"]),
            str(envelope["failure_class"]), facts["readable"] is True,
            None if newer is None else int(str(newer)),
        )
    )  # fmt: skip


def _put_page(page: LetterPage) -> None:
    screen, row = console(), page.envelope
    screen.print(Text(heading(row), style="bold"))
    put_questions(screen, row, page.facts, page.calls)
    if page.replays:
        screen.print(Text("\nReplays", style="bold"))
    for item in page.replays:
        screen.print(f"  {_replayed(item, row['dead_letter_id'])}")
    if page.acts:
        screen.print(Text("\nWhat was done", style="bold"))
    for act in page.acts:
        screen.print(f"  {_told(act)}")


def heading(row: Row) -> str:
    """A dead letter in a line."""
    owner = f", {shown(row['owner'])} has it" if row["owner"] is not None else ""
    kind = f", {row['kind']}" if row["kind"] else ""
    return (
        f"Dead letter {row['dead_letter_id']} ({row['state']}{owner}): {shown(row['error_code'])}, "
        f"{shown(row['failure_class'])}{kind}"
    )


def put_questions(screen: Console, row: Row, facts: Row, calls: Sequence[Row] = ()) -> None:
    """The four questions and their answers; calls under the second one, where they are given."""
    for title, lines in (("What did the system see?", _seen(row)), ("What did it produce?", _produced(row)),
                         ("Which contract refused it?", _refused(row)),
                         ("Can it be replayed safely?", _replay(row, facts))):  # fmt: skip
        screen.print(Text(f"\n{title}", style="bold"))
        for line in lines:
            screen.print(f"  {line}")
        if calls and title.startswith("What did it produce"):
            _put_calls(screen, calls)


def _put_calls(screen: Console, calls: Sequence[Row]) -> None:
    names = [name for name in _CALLS if any(row[name] is not None for row in calls)]
    cells = [[money(row[name]) for name in names] for row in calls]
    screen.print()
    right = ("pass", "bytes", "in", "out", "cost")
    put(screen, table("Calls", [_CALLS[name] for name in names], cells, right=right))


def _seen(row: Row) -> Iterator[str]:
    yield f"record {shown(row['record_id'])}, input version {row['input_version']}"
    if row["source"] is not None:
        line = "" if row["line"] is None else f", line {row['line']}"
        at = "" if row["source_timestamp"] is None else f", message of {shown(row['source_timestamp'])}"
        yield (
            f"from {shown(row['source'])} ({shown(row['source_kind'])}), partition "
            f"{shown(row['partition'])}, offset {shown(row['offset'])}{line}{at}"
        )
    yield f"text in the vault under {row['encrypted_text_ref']}, SHA-256 {row['input_sha256']}"
    if row["document_ref"] is not None:
        yield f"read from {shown(row['document_ref'])}"
    if carried := [f"{name} {shown(row[name])}" for name in _CARRIED if row[name] is not None]:
        yield ", ".join(carried)


def _produced(row: Row) -> Iterator[str]:
    attempts = count(int(str(row["attempts"])), "attempt")
    yield f"{attempts}, from {shown(row['first_attempt_at'])} to {shown(row['last_attempt_at'])}"
    unknown = f", {row['cost_unknown']} of unknown cost" if row["cost_unknown"] else ""
    yield (
        f"{count(int(str(row['calls'])), 'call')}: {row['input_tokens']} tokens in ({row['cached_tokens']} "
        f"cached), {row['output_tokens']} out, cost {shown(money(row['cost']))}{unknown}"
    )
    confidence = "none was read" if row["confidence"] is None else shown(row["confidence"])
    threshold = (
        "nothing is accepted by itself"
        if row["accept_at"] is None
        else f"threshold {shown(row['accept_at'])}"
    )
    yield f"confidence: {confidence}; {threshold}"


def _refused(row: Row) -> Iterator[str]:
    label = f" ({shown(row['version_label'])})" if row["version_label"] else ""
    digest = str(row["pipeline_version"])[:12]
    yield f"{shown(row['pipeline'])} version {digest}{label}, model {shown(row['model'])}"
    parts = (("prompt", "prompt_version"), ("contract", "contract_version"), ("rules", "rules_version"),
             ("commit", "code_commit"))  # fmt: skip
    if known := [f"{name} {shown(row[column])}" for name, column in parts if row[column] is not None]:
        yield ", ".join(known)
    yield f"{shown(row['error_code'])}: {meaning(row['error_code'])}"
    if row["first_pass_code"] is not None and row["first_pass_code"] != row["error_code"]:
        yield f"first pass: {shown(row['first_pass_code'])}"
    errors = row["errors"]
    for error in errors if isinstance(errors, list) else []:
        yield f"  {shown(error['path'] or WHOLE)}: {shown(error['type'])}"
    yield f"`assay dlq list --fingerprint {row['fingerprint']}` shows what failed alike"


def _replay(row: Row, facts: Row) -> Iterator[str]:
    answer = answer_of(row, facts)
    yield "yes, with a named fix" if answer.safe else "no: " + "; ".join(_BARS[bar] for bar in answer.bars)
    if answer.same_call_may_help:
        yield "the same call may end otherwise, once what was in its way is gone"
    else:
        yield "the same call again will not help"
    rule = FAILURE_TABLE.get(str(row["error_code"]))
    who = "" if rule is None else f"; {rule.owner.value} acts"
    yield f"fixes that fit: {', '.join(answer.fixes)}{who}"
    yield f"replayed {row['replay_count']} times so far; policy {shown(row['replay_policy'])}"
    if facts["newer_version"] is not None:
        label = f" ({shown(facts['newer_version_label'])})" if facts["newer_version_label"] else ""
        yield f"a newer version is registered: {str(facts['newer_version'])[:12]}{label}"
    if facts["served_elsewhere"]:
        yield f"its result is served by another annotation, of version {str(facts['serving_version'])[:12]}"
    if facts["stopped"] is not None:
        yield f"its version is stopped: {shown(facts['stopped'])}"
    if row["resolved_by"] is not None:
        yield f"resolved by {shown(row['resolved_by'])}"
    if row["due_at"] is not None:
        expiry = "" if row["expires_at"] is None else f", expires {shown(row['expires_at'])}"
        yield f"due {shown(row['due_at'])}{expiry}"


def _told(act: Row) -> str:
    who = f"{shown(act['at'])} by {shown(act['actor'])}"
    why = f": {shown(act['reason'])}" if act["reason"] else ""
    owner = f" to {shown(act['owner'])}" if act["owner"] else ""
    return f"{act['kind']}{owner} {who}{why}"


def _replayed(item: Row, letter: object) -> str:
    """A replay that it was in, or came out of, in a sentence."""
    why = f": {shown(item['reason'])}" if item["reason"] is not None else ""
    at = "" if item["ended_at"] is None else f" {shown(item['ended_at'])}"
    of = item["of_dead_letter"]
    came = "" if of == letter else f"; it came out of this replay of dead letter {of}"
    return (
        f"replay {item['replay']}, fix {item['fix']} ({item['kind']}, {shown(item['description'])}): "
        f"{item['state']}{why}{at}{came}"
    )
