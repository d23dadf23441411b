"""The offset lines of a topic against a small model, under assignments that come, go and come back."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from assay.domain.identity import SourcePosition
from assay.domain.offsets import OffsetError
from assay.pipeline.lines import Committable, Lines

PARTITIONS = st.integers(0, 2)


@dataclass
class Assignment:
    """One assignment as the model knows it: plain sets, no window."""

    epoch: int
    start: int
    delivered: list[int] = field(default_factory=list)
    done: set[int] = field(default_factory=set)
    committed: int | None = None
    closing: bool = False

    @property
    def committable(self) -> int | None:
        """One after the last delivered offset before which everything is done."""
        found = None
        for offset in self.delivered:
            if offset not in self.done:
                break
            found = offset + 1
        return found

    @property
    def due(self) -> int | None:
        offset = self.committable
        news = offset is not None and (self.committed is None or offset > self.committed)
        return offset if news else None


class LinesMachine(RuleBasedStateMachine):
    """`durable` is what has a destination for ever; an offset committed past another one is a loss."""

    def __init__(self) -> None:
        super().__init__()
        self.lines = Lines()
        self.live: dict[int, Assignment] = {}
        self.ended: list[tuple[int, Assignment]] = []
        self.durable: set[tuple[int, int]] = set()
        self.sent: dict[int, set[int]] = {0: set(), 1: set(), 2: set()}
        self.epoch = 0

    def position(self, partition: int, offset: int, epoch: int) -> SourcePosition:
        return SourcePosition(partition, offset, None, epoch)

    def written(self, commit: Committable) -> None:
        """A commit reaches the broker: nothing below it may be without a destination."""
        missing = {offset for offset in self.sent[commit.partition] if offset < commit.offset} - {
            offset for partition, offset in self.durable if partition == commit.partition
        }
        assert not missing

    @rule(partition=PARTITIONS, known=st.booleans())
    def assign(self, partition: int, known: bool) -> None:
        """A partition is read from its first offset without a destination on, or from its begin."""
        self.epoch += 1
        before = self.live.pop(partition, None)
        if before is not None:
            self.ended.append((partition, before))
        open_ones = [each for each in sorted(self.sent[partition]) if (partition, each) not in self.durable]
        start = open_ones[0] if open_ones else max(self.sent[partition], default=-1) + 1
        start = start if known else 0
        self.live[partition] = Assignment(self.epoch, start, committed=start if known else None)
        self.lines.assign(partition, self.epoch, start if known else None)

    @precondition(lambda self: self.live)
    @rule(data=st.data(), gap=st.integers(0, 3))
    def deliver(self, data: st.DataObject, gap: int) -> None:
        partition = data.draw(st.sampled_from(sorted(self.live)))
        line = self.live[partition]
        at = line.delivered[-1] + 1 if line.delivered else line.start
        # What an earlier assignment has read is read again; gaps are there for all, or for none.
        known = sorted(each for each in self.sent[partition] if each >= at)
        offset = known[0] if known else max(at, max(self.sent[partition], default=-1) + 1) + gap
        self.sent[partition].add(offset)
        assert self.lines.deliver(self.position(partition, offset, line.epoch))
        assert not self.lines.deliver(self.position(partition, offset, line.epoch))
        line.delivered.append(offset)

    @precondition(lambda self: any(line.delivered for line in self.live.values()))
    @rule(data=st.data())
    def finish(self, data: st.DataObject) -> None:
        partition = data.draw(st.sampled_from(sorted(p for p, line in self.live.items() if line.delivered)))
        line = self.live[partition]
        offset = data.draw(st.sampled_from(line.delivered))
        self.durable.add((partition, offset))
        assert self.lines.done(self.position(partition, offset, line.epoch)) == (offset not in line.done)
        line.done.add(offset)

    @precondition(lambda self: any(line.delivered for _, line in self.ended))
    @rule(data=st.data())
    def finish_late(self, data: st.DataObject) -> None:
        """A record of an assignment that has ended gets its destination: no line moves."""
        partition, line = data.draw(st.sampled_from([each for each in self.ended if each[1].delivered]))
        offset = data.draw(st.sampled_from(line.delivered))
        self.durable.add((partition, offset))
        position = self.position(partition, offset, line.epoch)
        assert not self.lines.is_live(position)
        assert not self.lines.done(position)
        assert not self.lines.deliver(position)

    @rule(confirm=st.booleans())
    def commit(self, confirm: bool) -> None:
        """What is due is written; the answer may be lost."""
        for due in self.lines.committable():
            self.written(due)
            if confirm:
                self.lines.committed(due)
                self.live[due.partition].committed = due.offset

    @precondition(lambda self: self.live)
    @rule(data=st.data(), old=st.booleans())
    def close(self, data: st.DataObject, old: bool) -> None:
        partition = data.draw(st.sampled_from(sorted(self.live)))
        line = self.live[partition]
        self.lines.close(partition, line.epoch - 1 if old else line.epoch)
        line.closing = line.closing or not old

    @precondition(lambda self: self.live)
    @rule(data=st.data(), lost=st.booleans())
    def revoke(self, data: st.DataObject, lost: bool) -> None:
        partition = data.draw(st.sampled_from(sorted(self.live)))
        line = self.live.pop(partition)
        assert self.lines.revoke(partition, line.epoch - 1) is None
        last = self.lines.revoke(partition, line.epoch)
        due = line.due
        assert last == (None if due is None else Committable(partition, line.epoch, due))
        if last is not None and not lost:
            self.written(last)
            # A commit that was on its way when the partition went touches nothing.
            self.lines.committed(last)
        assert self.lines.revoke(partition, line.epoch) is None
        self.ended.append((partition, line))

    @invariant()
    def agrees(self) -> None:
        assert self.lines.partitions == sorted(self.live)
        due = {(each.partition, each.epoch): each.offset for each in self.lines.committable()}
        assert due == {
            (partition, line.epoch): line.due for partition, line in self.live.items() if line.due is not None
        }
        for partition in range(3):
            line = self.live.get(partition)
            if line is None:
                assert self.lines.window(partition) == 0
                continue
            unresolved = [each for each in line.delivered if each not in line.done]
            expected = len([each for each in line.delivered if each >= unresolved[0]]) if unresolved else 0
            assert self.lines.window(partition) == expected
            assert self.lines.is_live(self.position(partition, line.start, line.epoch)) != line.closing


TestLines = LinesMachine.TestCase


def test_an_offset_that_runs_backwards_is_a_defect() -> None:
    lines = Lines()
    lines.assign(0, 1, 5)
    assert lines.deliver(SourcePosition(0, 5, None, 1))
    with pytest.raises(OffsetError):
        lines.deliver(SourcePosition(0, 4, None, 1))


def test_the_model_finds_a_commit_that_leaps() -> None:
    """The negative control: lines that commit the highest done offset fail the machine's own check."""
    machine = LinesMachine()
    machine.assign(0, True)
    machine.sent[0] |= {0, 1}
    machine.durable.add((0, 1))
    with pytest.raises(AssertionError):
        machine.written(Committable(0, 1, 2))
