"""Events of one aggregate leave one after another; one that is stuck holds back those behind it alone."""

from __future__ import annotations

from collections.abc import Sequence

from assay.domain.outbox import BEHIND, Answer, Delivered, OutboxEvent, Undelivered


class Batch:
    """The events of one `publish` and what became of each, by their place in the batch."""

    def __init__(self, events: Sequence[OutboxEvent]) -> None:
        self.events = events
        self._answers: dict[int, Answer] = {}
        self._stuck: set[tuple[str, str]] = set()

    def lanes(self, most: int | None = None) -> list[list[int]]:
        """Places that go one after another: a lane per aggregate, or all aggregates spread over `most`."""
        lanes: dict[object, list[int]] = {}
        for place, event in enumerate(self.events):
            key = event.aggregate if most is None else hash(event.aggregate) % most
            lanes.setdefault(key, []).append(place)
        return list(lanes.values())

    def blocked(self, place: int) -> bool:
        """Whether an earlier event of the same aggregate is undelivered; then this one is, too."""
        if self.events[place].aggregate not in self._stuck:
            return False
        self._answers[place] = Undelivered(BEHIND)
        return True

    def answer(self, place: int, answer: Answer) -> None:
        """Note what became of an event."""
        self._answers[place] = answer
        if isinstance(answer, Undelivered):
            self._stuck.add(self.events[place].aggregate)

    @property
    def settled(self) -> bool:
        """Whether the sink said something about any event itself: delivered, or refused for good."""
        return any(isinstance(each, Delivered) or each.poison for each in self._answers.values())

    def answers(self, otherwise: str) -> list[Answer]:
        """What became of each event; `otherwise` is the reason for those that nobody came to."""
        for place in range(len(self.events)):
            if place not in self._answers and not self.blocked(place):
                self.answer(place, Undelivered(otherwise))
        return [self._answers[place] for place in range(len(self.events))]
