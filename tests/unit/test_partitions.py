"""The partitions of a member: they come, go, come back, and are held back for every reason that holds."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from assay.adapters.kafka.partitions import MOST_OPEN, Assigned, Partitions


def nothing_open(partition: int) -> int:
    return 0


def begun(partitions: Partitions, *numbers: int) -> None:
    """It is known where reading begins."""
    for number in numbers:
        assigned(partitions, number).next_offset = 0


def assigned(partitions: Partitions, number: int, epoch: int | None = None) -> Assigned:
    found = partitions.get(number, epoch)
    assert found is not None
    return found


def look(partitions: Partitions, *, everything: bool = False) -> tuple[list[int], list[int]]:
    """What must be held back, and go on, from now on; done as the member does it."""
    pause, resume = partitions.to_pause(everything, nothing_open)
    for each in pause:
        each.paused = True
    for each in resume:
        each.paused = False
    return [each.partition for each in pause], [each.partition for each in resume]


def test_each_assignment_has_a_later_epoch() -> None:
    partitions = Partitions()
    assert partitions.assign([0, 1]) == {0: 1, 1: 1}
    assert partitions.assign([2]) == {2: 2}
    partitions.take([0])
    assert partitions.assign([0]) == {0: 3}
    assert {each.partition: each.epoch for each in partitions} == {0: 3, 1: 1, 2: 2}


def test_cooperative_members_keep_what_is_not_named() -> None:
    partitions = Partitions()
    partitions.assign([0, 1, 2])
    begun(partitions, 0, 1, 2)
    assert look(partitions) == ([], [0, 1, 2])
    gone = partitions.take([1])
    assert [each.partition for each in gone] == [1]
    partitions.assign([3])
    # The others go on; the new one begins held back.
    assert {each.partition: each.paused for each in partitions} == {0: False, 2: False, 3: True}
    assert look(partitions) == ([], [])
    begun(partitions, 3)
    assert look(partitions) == ([], [3])


def test_an_empty_assignment_changes_nothing() -> None:
    partitions = Partitions()
    partitions.assign([0])
    assert partitions.assign([]) == {}
    assert partitions.take([]) == partitions.take([5]) == []
    assert len(partitions) == 1


def test_what_is_gone_is_nobodys() -> None:
    partitions = Partitions()
    partitions.assign([0])
    assert assigned(partitions, 0, 1).partition == 0
    assert partitions.get(0, 2) is None
    assert partitions.get(1) is None
    assert partitions.get(None) is None
    partitions.take([0])
    assert partitions.get(0) is None
    assert partitions.take([0]) == []


def test_an_earlier_assignment_commits_nothing() -> None:
    partitions = Partitions()
    partitions.assign([0])
    partitions.want([(0, 1, 40)])
    assert assigned(partitions, 0).wanted == 40
    partitions.take([0])
    partitions.want([(0, 1, 50)])  # lost: nobody's
    partitions.assign([0])
    partitions.want([(0, 1, 60)])
    assert assigned(partitions, 0).wanted == -1
    partitions.want([(0, 2, 10), (0, 2, 5)])
    assert assigned(partitions, 0).wanted == 10


def test_confirmations_only_rise() -> None:
    partitions = Partitions()
    partitions.assign([0])
    partitions.confirm({0: 7, 9: 1})
    partitions.confirm({0: 5})
    assert assigned(partitions, 0).confirmed == 7


def test_reasons_hold_for_a_new_assignment_too() -> None:
    """A partition that comes while all is held back is not read before the last reason ends."""
    partitions = Partitions()
    partitions.assign([0])
    begun(partitions, 0)
    look(partitions)
    assert look(partitions, everything=True) == ([0], [])
    partitions.assign([1])
    begun(partitions, 1)
    assert look(partitions, everything=True) == ([], [])
    # One that is taken away and comes back has to begin again.
    partitions.take([0])
    partitions.assign([0])
    assert look(partitions) == ([], [1])
    begun(partitions, 0)
    assert look(partitions) == ([], [0])


def test_a_stuck_partition_is_held_back_alone() -> None:
    partitions = Partitions()
    partitions.assign([0, 1])
    begun(partitions, 0, 1)
    look(partitions)
    windows = {0: MOST_OPEN + 1, 1: MOST_OPEN}
    pause, resume = partitions.to_pause(False, windows.__getitem__)
    assert ([each.partition for each in pause], resume) == ([0], [])
    pause[0].paused = True
    windows[0] = MOST_OPEN
    pause, resume = partitions.to_pause(False, windows.__getitem__)
    assert (pause, [each.partition for each in resume]) == ([], [0])


def test_one_that_must_begin_anew_is_held_back() -> None:
    """The broker no longer has what comes next: until the new place is known nothing is read."""
    partitions = Partitions()
    partitions.assign([0, 1])
    begun(partitions, 0, 1)
    look(partitions)
    assigned(partitions, 1).next_offset = None
    assert look(partitions) == ([1], [])


@dataclass
class _Mine:
    epoch: int
    begun: bool = False
    wanted: int = -1
    paused: bool = True


@dataclass
class _Model:
    mine: dict[int, _Mine] = field(default_factory=dict)
    all_epochs: list[tuple[int, int]] = field(default_factory=list)


NUMBERS = st.integers(0, 4)
SETS = st.sets(NUMBERS, max_size=5)


class Group(RuleBasedStateMachine):
    """Assignments, revocations and losses in any order, eager and cooperative, under any set of reasons."""

    def __init__(self) -> None:
        super().__init__()
        self.partitions = Partitions()
        self.model = _Model()
        self.reasons: set[str] = set()
        self.open: dict[int, int] = {}

    @rule(numbers=SETS)
    def assign(self, numbers: set[int]) -> None:
        new = sorted(numbers - self.model.mine.keys())
        for number, epoch in self.partitions.assign(new).items():
            assert all(epoch > before for of, before in self.model.all_epochs if of == number)
            self.model.all_epochs.append((number, epoch))
            self.model.mine[number] = _Mine(epoch)

    @rule(numbers=SETS)
    def take(self, numbers: set[int]) -> None:
        gone = {each.partition for each in self.partitions.take(numbers)}
        assert gone == numbers & self.model.mine.keys()
        for number in gone:
            del self.model.mine[number]

    @precondition(lambda self: self.model.mine)
    @rule(data=st.data())
    def begin(self, data: st.DataObject) -> None:
        number = data.draw(st.sampled_from(sorted(self.model.mine)))
        begun(self.partitions, number)
        self.model.mine[number].begun = True

    @precondition(lambda self: self.model.all_epochs)
    @rule(data=st.data(), offset=st.integers(0, 100))
    def want(self, data: st.DataObject, offset: int) -> None:
        number, epoch = data.draw(st.sampled_from(self.model.all_epochs))
        self.partitions.want([(number, epoch, offset)])
        mine = self.model.mine.get(number)
        if mine is not None and mine.epoch == epoch:
            mine.wanted = max(mine.wanted, offset)

    @rule(reason=st.sampled_from(["slots", "bytes", "database", "provider", "drain"]), holds=st.booleans())
    def hold(self, reason: str, *, holds: bool) -> None:
        self.reasons = self.reasons | {reason} if holds else self.reasons - {reason}

    @rule(number=NUMBERS, open_offsets=st.sampled_from([0, MOST_OPEN, MOST_OPEN + 1]))
    def window(self, number: int, open_offsets: int) -> None:
        self.open[number] = open_offsets

    @rule()
    def one_round(self) -> None:
        pause, resume = self.partitions.to_pause(bool(self.reasons), lambda each: self.open.get(each, 0))
        assert not {id(each) for each in pause} & {id(each) for each in resume}
        for each in pause:
            each.paused = True
        for each in resume:
            each.paused = False
        for number, mine in self.model.mine.items():
            reads = mine.begun and not self.reasons and self.open.get(number, 0) <= MOST_OPEN
            assert assigned(self.partitions, number).paused != reads
            mine.paused = not reads

    @invariant()
    def the_same(self) -> None:
        found = {each.partition: (each.epoch, each.wanted, each.paused) for each in self.partitions}
        assert found == {
            number: (mine.epoch, mine.wanted, mine.paused) for number, mine in self.model.mine.items()
        }
        assert len(self.partitions) == len(self.model.mine)


TestGroup = Group.TestCase
