"""A member of a consumer group: one thread that always polls, so that no slow call costs its membership.

Everything that touches the client runs in this thread; others leave commands. Nothing is committed but what
the worker's offset ledger says. Every record carries the epoch of its assignment, so that what an earlier one
had fetched is dropped. A partition is held back by the reasons that hold now, looked at in every round: a new
assignment begins held back like the rest. Where reading begins, and after every pause, the position is set by
us: no fetched batch, pause or reset decides what is read.
"""

from __future__ import annotations

import queue
import random
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from assay.adapters.kafka.membership import Listener, Membership
from assay.adapters.kafka.messages import MessageReader, received
from assay.adapters.kafka.partitions import Assigned, Partitions
from assay.adapters.kafka.problems import failure_of, is_passing
from assay.adapters.kafka.topic_identity import is_cut_off, lost_its_end
from assay.domain.failures import AssayError
from assay.domain.records import ParsedItem
from assay.domain.starts import Known, start_of
from assay.telemetry import tell

_POLL_SECONDS: Final = 0.05
_BATCH: Final = 500
_ASK_SECONDS: Final = 5.0
_AGAIN_SECONDS: Final = 0.5
# Times `_AGAIN_SECONDS`: longer than it takes to find out which topic it is.
_DOUBTS: Final = 30
_COMMIT_AGAIN_SECONDS: Final = 5.0
_DEFECTS: Final = (Exception,)
_chance: Final = random.SystemRandom()
# Clients that must not leave their group, as they would when they are no longer referred to.
_kept: Final[list[Consumer]] = []


class GroupMember:
    """The thread. `is_full`: whether the other side has taken in all it may; `window`: `Lines.window`."""

    def __init__(
        self,
        membership: Membership,
        reader: MessageReader,
        listener: Listener,
        *,
        is_full: Callable[[], bool],
        window: Callable[[int], int],
    ) -> None:
        self._membership = membership
        self._topic = membership.topic
        self._reader = reader
        self._listener = listener
        self._is_full = is_full
        self._window = window
        self._partitions = Partitions()
        self._from_end = membership.from_end
        self._commands: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._begins: dict[int, tuple[int, int | None]] = {}
        self._begin_at = self._committed_at = 0.0
        self._reasons: frozenset[str] = frozenset()
        self._stop = threading.Event()
        self._may_commit = True
        self._was_assigned = False
        self._away = False
        self._failure: Exception | None = None
        self._consumer: Consumer
        self._thread = threading.Thread(target=self._run, name="assay-kafka", daemon=True)

    # --- from other threads ---------------------------------------------------------------------------

    def start(self, *, known: bool = False) -> None:
        """Join the group. `known`: others have worked for it, so that nothing begins at the end any more."""
        self._from_end = 0 if known else self._membership.from_end
        self._thread.start()

    def stop(self, *, commit: bool) -> None:
        """Leave the group; returns at once."""
        self._may_commit = commit
        self._stop.set()

    def join(self, seconds: float) -> bool:
        """Wait until the member has left; False when it has not in that time."""
        if self._thread.ident is not None:
            self._thread.join(seconds)
        return not self._thread.is_alive()

    def hold_back(self, reasons: frozenset[str]) -> None:
        """Why nothing should be delivered; empty: go on."""
        self._reasons = reasons

    def begin(self, positions: Mapping[int, tuple[int, int | None]]) -> None:
        """By partition: the epoch that was asked for, and the ledger's position."""
        self._commands.put(lambda: self._note_begins(positions))

    def commit(self, due: Sequence[tuple[int, int, int]]) -> None:
        """Partition, epoch, offset: everything below is done."""
        self._commands.put(lambda: self._partitions.want(due))

    # --- the thread -----------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._consumer = Consumer({**self._membership.config, "error_cb": self._on_error,
                                       "on_commit": self._on_commit})  # fmt: skip
            try:
                self._consumer.subscribe(
                    [self._topic], on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost
                )
                while not self._stop.is_set():
                    self._round()
            finally:
                self._leave()
        except _DEFECTS as defect:
            self._failure = self._failure or failure_of(defect, self._topic)
        self._listener.ended(self._failure)

    def _leave(self) -> None:
        """A member that does not leave holds up the group until its session ends."""
        if self._membership.leave_within and not (self._stop.is_set() and self._was_assigned):
            # The embedded broker has come back empty, most likely, or this member never got its share. One
            # that joins and leaves before that leaves a group behind that shares nothing any more; a lapsed
            # one does not.
            _kept.append(self._consumer)
            return
        time.sleep(_chance.uniform(0, self._membership.leave_within))
        self._consumer.close()

    def _round(self) -> None:
        while not self._commands.empty():
            self._commands.get_nowait()()
        if self._failure is not None:
            raise self._failure
        if self._membership.is_other():
            # Offsets of one topic say nothing about another.
            self._may_commit = False
            raise AssayError(
                f"The topic {self._topic} was made anew; nothing is lost. Start the worker again."
            )
        self._begin_some()
        self._hold_or_go_on()
        self._commit_due()
        first = self._consumer.poll(_POLL_SECONDS)
        if first is not None:
            self._take([first, *self._consumer.consume(_BATCH - 1, 0)])

    def _take(self, messages: Sequence[Message]) -> None:
        items: list[ParsedItem] = []
        size = 0
        for message in messages:
            error = message.error()
            if error is not None:
                self._problem(error, message)
                continue
            assigned, offset = self._partitions.get(message.partition()), message.offset()
            if assigned is None or assigned.next_offset is None or offset is None:
                continue  # fetched for an assignment that has ended, or before reading began
            if offset < assigned.next_offset:
                continue  # read before: a resumed partition may start at what the broker has committed
            assigned.next_offset = offset + 1
            assigned.leader_epoch = self._epoch(message.leader_epoch())
            found = received(message, assigned.epoch)
            size += len(found.value or b"")
            items.append(self._reader.item(found))
        self._away = self._away and not items
        if items:
            self._listener.items(items, size)

    # --- where reading begins -------------------------------------------------------------------------

    def _note_begins(self, positions: Mapping[int, tuple[int, int | None]]) -> None:
        """An answer that was long on its way is about an assignment that has ended: it must not displace the
        one about the assignment that came after, or that would never begin."""
        self._begins.update(
            {each: found for each, found in positions.items() if self._partitions.get(each, found[0])}
        )

    def _begin_some(self) -> None:
        """Begin with partitions whose position in the ledger is known; the broker may be asked again."""
        if not self._begins or time.monotonic() < self._begin_at:
            return
        for partition, (epoch, ledger) in sorted(self._begins.items()):
            assigned = self._partitions.get(partition, epoch)
            try:
                if assigned is not None:
                    self._begin_one(assigned, ledger)
            except KafkaException as error:
                if not is_passing(error.args[0]):
                    raise
                self._begin_at = time.monotonic() + _AGAIN_SECONDS
                return
            del self._begins[partition]

    def _begin_one(self, assigned: Assigned, ledger: int | None) -> None:
        here = TopicPartition(self._topic, assigned.partition)
        (committed,) = self._consumer.committed([here], timeout=_ASK_SECONDS)
        if committed.error is not None:
            raise KafkaException(committed.error)
        ends = self._consumer.get_watermark_offsets(here, timeout=_ASK_SECONDS, cached=False)
        if ends is None:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
        known = Known(
            broker=committed.offset if committed.offset >= 0 else None, ledger=ledger, low=ends[0],
            high=ends[1] if self._membership.trust_end else None,
        )  # fmt: skip
        start = start_of(known, from_end=assigned.partition < self._from_end)
        if start.reason == "rewritten" or assigned.cut_off:
            # Most likely another topic, whose offsets must not be taken for those of this one: `is_other` is
            # asked again before this is believed.
            assigned.doubts += 1
            if assigned.doubts <= _DOUBTS:
                raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
            self._may_commit = False
            raise lost_its_end(self._topic, assigned.partition)
        follows = start.reason in ("broker", "ledger") and not start.expired
        assigned.leader_epoch = self._epoch(committed.leader_epoch if follows else None)
        self._send_to(assigned, start.offset)
        assigned.next_offset = start.offset
        assigned.confirmed = known.broker if known.broker is not None else -1
        self._listener.assigned(assigned.partition, assigned.epoch, start)

    def _send_to(self, assigned: Assigned, offset: int) -> None:
        """Let the client read from there on. One that has given its place up, because the broker no longer
        has what lies there, cannot be sent anywhere: it has to be given the partition anew."""
        place = self._place(assigned, offset)
        try:
            self._consumer.seek(place)
        except KafkaException as error:
            if error.args[0].code() != KafkaError._STATE:
                raise
            self._give_anew(assigned, place)

    def _give_anew(self, assigned: Assigned, place: TopicPartition) -> None:
        if self._membership.cooperative:
            has = {each.partition for each in self._consumer.assignment()}
            if assigned.partition in has:
                self._consumer.incremental_unassign([place])
            self._consumer.incremental_assign([place])
            self._consumer.pause([place])
            assigned.paused = True
            return
        others = [each for each in self._partitions if each is not assigned]
        places = [self._place(each, each.next_offset or 0) for each in others]
        self._consumer.assign([place, *places])
        self._consumer.pause([place, *places])
        for each in self._partitions:
            each.paused = True

    def _place(self, assigned: Assigned, offset: int) -> TopicPartition:
        """An offset, with the leader epoch of what lies before it, or a later one that was seen: by it the
        client finds out that this is gone, even where something else lies there by now (KIP-320)."""
        return TopicPartition(self._topic, assigned.partition, offset, leader_epoch=assigned.leader_epoch)

    def _epoch(self, found: int | None) -> int:
        return found if found is not None and self._membership.trust_end else -1

    # --- holding back ---------------------------------------------------------------------------------

    def _hold_or_go_on(self) -> None:
        everything = bool(self._reasons) or self._is_full()
        pause, resume = self._partitions.to_pause(everything, self._window)
        if pause:
            self._consumer.pause([TopicPartition(self._topic, each.partition) for each in pause])
            for each in pause:
                each.paused = True
        for each in resume:
            place = self._place(each, each.next_offset or 0)
            try:
                # What was fetched before the pause is gone, and where the client would go on is its affair.
                self._consumer.seek(place)
            except KafkaException as error:
                if not is_passing(error.args[0]):
                    raise
                continue
            self._consumer.resume([place])
            each.paused = False

    # --- commits --------------------------------------------------------------------------------------

    def _commit_due(self) -> None:
        due = [each for each in self._partitions if each.wanted > each.confirmed]
        if not due or time.monotonic() < self._committed_at:
            return
        # Unless the broker confirms it sooner, the same again after a while.
        self._committed_at = time.monotonic() + _COMMIT_AGAIN_SECONDS
        self._consumer.commit(offsets=[self._place(each, each.wanted) for each in due], asynchronous=True)

    def _on_commit(self, error: KafkaError | None, partitions: Sequence[TopicPartition]) -> None:
        self._committed_at = 0.0
        good = {each.partition: each.offset for each in partitions if error is None and each.error is None}
        self._partitions.confirm(good)
        if len(good) < len(partitions):
            found = error or next(each.error for each in partitions if each.error is not None)
            self._committed_at = time.monotonic() + _AGAIN_SECONDS
            tell("offset_commit_failed", source=self._topic, code=found.name())

    # --- the group ------------------------------------------------------------------------------------

    def _on_assign(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._was_assigned = True
        epochs = self._partitions.assign([each.partition for each in partitions])
        self._have(consumer, list(epochs))
        if epochs:
            self._listener.starts_wanted(epochs)

    def _have(self, consumer: Consumer, partitions: Sequence[int]) -> None:
        """Take partitions, held back. The place is no more than one that can be left again: without one the
        client asks the group for it, finds none, and then refuses to be sent anywhere else."""
        places = [TopicPartition(self._topic, partition, 0) for partition in partitions]
        if self._membership.cooperative:
            consumer.incremental_assign(places)
        else:
            consumer.assign(places)
        if places:
            consumer.pause(places)

    def _on_revoke(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        mine = [self._partitions.get(each.partition) for each in partitions]
        epochs = {each.partition: each.epoch for each in mine if each is not None}
        if self._may_commit and epochs:
            self._partitions.want(self._listener.revoked(epochs))
            self._commit_last([each for each in mine if each is not None and each.wanted > each.confirmed])
        elif epochs:
            self._listener.lost(epochs)
        self._let_go(consumer, partitions)

    def _commit_last(self, owed: Sequence[Assigned]) -> None:
        if not owed:
            return
        try:
            self._consumer.commit(
                offsets=[self._place(each, each.wanted) for each in owed], asynchronous=False
            )
        except KafkaException as error:
            # Whoever has the partition now reads some records again; the ledger knows them.
            tell("offset_commit_failed", source=self._topic, code=error.args[0].name())

    def _on_lost(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        mine = [self._partitions.get(each.partition) for each in partitions]
        self._listener.lost({each.partition: each.epoch for each in mine if each is not None})
        self._let_go(consumer, partitions)

    def _let_go(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._partitions.take([each.partition for each in partitions])
        if self._membership.cooperative:
            consumer.incremental_unassign(partitions)
        else:
            consumer.unassign()

    # --- problems -------------------------------------------------------------------------------------

    def _problem(self, error: KafkaError, message: Message) -> None:
        if error.code() == KafkaError._AUTO_OFFSET_RESET:
            # The broker no longer has what comes next: begin anew, and say how much is gone.
            assigned = self._partitions.get(message.partition())
            if assigned is not None and assigned.next_offset is not None:
                assigned.cut_off = is_cut_off(error)
                self._begins[assigned.partition] = (assigned.epoch, assigned.next_offset)
                assigned.next_offset = None
        elif not is_passing(error):
            raise KafkaException(error)

    def _on_error(self, error: KafkaError) -> None:
        if error.fatal() or not is_passing(error):
            self._failure = self._failure or failure_of(KafkaException(error), self._topic)
        elif not self._away:
            self._away = True
            tell("broker_away", source=self._topic, code=error.name())
