"""The offset ledgers of one source: one for each partition that is assigned, each of one assignment.

A file is one partition, assigned once. A partition of a topic comes and goes; what was read in an earlier
assignment (another epoch) may still be worked on, but it never touches offsets again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from assay.domain.identity import SourcePosition
from assay.domain.offsets import OffsetLedger


class Committable(NamedTuple):
    """Everything below `offset` of a partition has a durable destination, seen in one assignment."""

    partition: int
    epoch: int
    offset: int


@dataclass(slots=True)
class _Line:
    ledger: OffsetLedger
    committed: int | None = None
    begin: int | None = None
    closing: bool = False

    @property
    def due(self) -> int | None:
        """What may be committed and has not been yet."""
        offset = self.ledger.committable()
        offset = self.begin if offset is None else offset
        return offset if offset is not None and (self.committed is None or offset > self.committed) else None


class Lines:
    """Ledgers by partition. One event loop; not safe for use by several threads."""

    def __init__(self) -> None:
        self._lines: dict[int, _Line] = {}

    def assign(
        self, partition: int, epoch: int, committed: int | None = None, *, begin: int | None = None
    ) -> None:
        """A new assignment of a partition; what is left of an earlier one is forgotten. `begin`: the first
        offset that is read, where that is a decision to be kept: it is committed before anything is done."""
        self._lines[partition] = _Line(OffsetLedger(epoch), committed, begin)

    def is_live(self, position: SourcePosition) -> bool:
        """Whether what stands there should be worked on: its assignment lasts, and is not about to end."""
        line = self._of(position)
        return line is not None and not line.closing

    def deliver(self, position: SourcePosition) -> bool:
        """As `OffsetLedger.deliver`; False for another assignment's offset too."""
        line = self._of(position)
        return line is not None and line.ledger.deliver(position.offset)

    def done(self, position: SourcePosition) -> bool:
        """As `OffsetLedger.done`; False for another assignment's offset too."""
        line = self._of(position)
        return line is not None and line.ledger.done(position.offset, position.epoch)

    def window(self, partition: int) -> int:
        """Offsets between the oldest unresolved and the highest delivered one; 0 for a partition not ours."""
        line = self._lines.get(partition)
        return 0 if line is None else line.ledger.window

    @property
    def partitions(self) -> list[int]:
        """The partitions that are assigned."""
        return sorted(self._lines)

    def committable(self) -> list[Committable]:
        """What may be committed and has not been yet."""
        return [
            Committable(partition, line.ledger.epoch, offset)
            for partition, line in self._lines.items()
            if (offset := line.due) is not None
        ]

    def committed(self, done: Committable) -> None:
        """A commit has been made durable."""
        line = self._lines.get(done.partition)
        if line is not None and line.ledger.epoch == done.epoch:
            line.committed = max(line.committed or 0, done.offset)

    def close(self, partition: int, epoch: int) -> None:
        """The assignment is about to end: nothing of it is begun any more."""
        line = self._lines.get(partition)
        if line is not None and line.ledger.epoch == epoch:
            line.closing = True

    def revoke(self, partition: int, epoch: int) -> Committable | None:
        """The assignment has ended. What may still be committed of it, at once; None for nothing."""
        line = self._lines.get(partition)
        if line is None or line.ledger.epoch != epoch:
            return None
        del self._lines[partition]
        last = line.due
        line.ledger.revoke()
        return None if last is None else Committable(partition, epoch, last)

    def _of(self, position: SourcePosition) -> _Line | None:
        line = self._lines.get(position.partition)
        return line if line is not None and line.ledger.epoch == position.epoch else None
