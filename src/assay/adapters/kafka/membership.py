"""What a member of a consumer group is told, and whom it tells."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from assay.domain.records import ParsedItem
from assay.domain.starts import Start


class Listener(Protocol):
    """The other side, on the worker's loop; every method may be called from the member's thread."""

    def items(self, items: Sequence[ParsedItem], size: int) -> None: ...

    def starts_wanted(self, partitions: Mapping[int, int]) -> None: ...

    def assigned(self, partition: int, epoch: int, start: Start) -> None: ...

    def revoked(self, partitions: Mapping[int, int]) -> Sequence[tuple[int, int, int]]: ...

    def lost(self, partitions: Mapping[int, int]) -> None: ...

    def ended(self, failure: Exception | None) -> None: ...


@dataclass(frozen=True, slots=True)
class Membership:
    """How to be a member. `config` is the client's; `cooperative`: partitions come and go one by one.
    `from_end`: in a group that nobody knows, partitions below this number begin at the end: those that were
    there when the topic was opened. One that is added later begins at its first record. `trust_end`: the
    broker counts records, so that its end can be believed. `is_other`: whether the topic is no longer the one
    that was opened. `leave_within`: seconds over which members that end at the same moment spread their
    leaving: the embedded broker may forget to share partitions at all after two that came together."""

    config: Mapping[str, Any] = field(repr=False)
    topic: str
    cooperative: bool = True
    from_end: int = 0
    trust_end: bool = True
    is_other: Callable[[], bool] = lambda: False
    leave_within: float = 0.0
