"""What does not hold on the product's side; nothing where all is as it must be."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

from assay.drill.evidence import Evidence, Task
from assay.drill.ledgers import CANDIDATE, kind_of

# So many of a kind are named.
_NAMED: Final = 3
_UNSETTLED: Final = frozenset({"processing", "retry_scheduled"})


def what_broke(found: Evidence) -> list[str]:
    """One sentence for each promise that was not kept."""
    checks = (_nothing_lost, _nothing_twice, _no_bad_candidate, _every_call_known, _told_downstream, _audit)
    return [sentence for check in checks for sentence in check(found)]


def _nothing_lost(found: Evidence) -> Iterator[str]:
    """Each message has a destination, each record a settled task."""
    inputs, known, isolated = found.messages
    if inputs + known + isolated != len(found.produced):
        yield (
            f"{len(found.produced)} messages were produced, {inputs + known + isolated} have a destination"
        )
    if isolated:
        yield f"{isolated} sound messages were isolated"
    settled = {task.record_id for task in found.tasks if task.state not in _UNSETTLED}
    yield from _some(set(found.produced) - settled, "records without a settled result")


def _nothing_twice(found: Evidence) -> Iterator[str]:
    """Each record has one task, finished once, served once."""
    tasks = Counter(task.record_id for task in found.tasks)
    yield from _some((record for record, count in tasks.items() if count > 1), "records annotated twice")
    odd = [task for task in found.tasks if task.state not in _UNSETTLED]
    yield from _some(
        (task.record_id for task in odd if task.finishes != 1), "annotations not finished exactly once"
    )
    yield from _some(
        (task.record_id for task in odd if task.served != 1), "annotations without exactly one result"
    )


def _no_bad_candidate(found: Evidence) -> Iterator[str]:
    """A candidate is what the vendor said, right or honestly wrong, in a reply that was an answer."""
    replies = {call.request_id: call for call in found.assay_calls}
    candidates = [task for task in found.tasks if task.state == CANDIDATE]
    repaired, other = [], []
    for task in candidates:
        call = replies.get(task.request_id or "")
        if call is None or kind_of(call) != "answered":
            repaired.append(task.record_id)
        elif (task.category != found.gold[task.record_id]) != call.wrong:
            other.append(task.record_id)
    yield from _some(repaired, "candidates from a reply that was no answer")
    yield from _some(other, "candidates with another label than the vendor gave")


def _every_call_known(found: Evidence) -> Iterator[str]:
    """What the vendor was asked is in the ledger, and was asked once."""
    known = {call.key for call in found.ledger}
    asked = Counter(call.key or "" for call in found.assay_calls)
    yield from _some(asked.keys() - known, "calls of the vendor's journal that the ledger lacks")
    yield from _some((key for key, count in asked.items() if count > 1), "calls sent more than once")


def _told_downstream(found: Evidence) -> Iterator[str]:
    """Each event came, took effect once, and the consumer believes what the database says."""
    waiting = [event for event, published in found.events.items() if not published]
    yield from _some(waiting, "events not published")
    came = {event for event, _ in found.downstream.deliveries}
    yield from _some(found.events.keys() - came, "events that never came")
    yield from _some(came - found.events.keys(), "events that nobody sent")
    effects = Counter(event for event, applied in found.downstream.deliveries if applied)
    yield from _some((event for event, count in effects.items() if count > 1), "events applied twice")
    differing = [
        task.record_id
        for task in found.tasks
        if found.downstream.labels.get(task.record_id) != _as_told(task)
    ]
    yield from _some(differing, "records of which the consumer believes something else")


def _as_told(task: Task) -> tuple[str, str | None]:
    return task.state, task.category


def _audit(found: Evidence) -> Iterator[str]:
    yield from (f"the audit finds {each}" for each in found.audit.broken)


def _some(which: Iterable[str], what: str) -> Iterator[str]:
    chosen = sorted(which)
    if chosen:
        more = ", …" if len(chosen) > _NAMED else ""
        yield f"{len(chosen)} {what}: {', '.join(chosen[:_NAMED])}{more}"
