"""Replays of dead letters: what may mend one, which stage runs again, and when to go on or to stop. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from assay.domain.failures import ConfigurationError

# Replays of one record before it is left to people.
MOST_REPLAYS: Final = 3
SAMPLE: Final = 20
STOP_LOSS: Final = 0.5


class FixKind(StrEnum):
    """What mended the cause. "Try again" is none."""

    NEW_SCHEMA = "new_schema"
    REVISED_PROMPT = "revised_prompt"
    NEW_MODEL = "new_model"
    DEPENDENCY_RESTORED = "dependency_restored"
    APPROVAL = "approval"
    LIMIT_CHANGED = "limit_changed"


# Fixes that make another version of the pipeline: its annotation is claimed, and supersedes the older one.
OF_A_VERSION: Final = frozenset({FixKind.NEW_SCHEMA, FixKind.REVISED_PROMPT, FixKind.NEW_MODEL})

FIX_SENTENCES: Final = {
    FixKind.NEW_SCHEMA: "The contract or its rules have changed.",
    FixKind.REVISED_PROMPT: "The prompt or how the output is constrained has changed.",
    FixKind.NEW_MODEL: "Another model, or other parameters, answer.",
    FixKind.DEPENDENCY_RESTORED: "What was away is back: the vendor, a gateway, the network.",
    FixKind.APPROVAL: "Somebody who may decide it allows these records.",
    FixKind.LIMIT_CHANGED: "A limit that set the records aside is another one now.",
}


class Stage(StrEnum):
    """The first stage that runs again: `validate` judges the kept response, `call` asks the model anew."""

    VALIDATE = "validate"
    CALL = "call"


class ReplayState(StrEnum):
    """Where a replay stands. `stopped` is for good: its sample was no better, or a person ended it."""

    PLANNED = "planned"
    RUNNING = "running"
    PAUSED = "paused"
    STOPPED = "stopped"
    FINISHED = "finished"


def stage_of(kind: FixKind, *, kept: bool) -> Stage:
    """The stage that a fix touches: only a change of the contract can do with responses that are kept."""
    return Stage.VALIDATE if kind is FixKind.NEW_SCHEMA and kept else Stage.CALL


@dataclass(frozen=True, slots=True)
class Counts:
    """How many items of a replay are in which state."""

    waiting: int = 0
    released: int = 0
    succeeded: int = 0
    failed: int = 0
    overtaken: int = 0
    barred: int = 0

    @property
    def judged(self) -> int:
        """Items of which the fix was tried."""
        return self.succeeded + self.failed


class Step(StrEnum):
    """What a replay does next."""

    RELEASE = "release"
    WAIT = "wait"
    STOP = "stop"
    FINISH = "finish"


@dataclass(frozen=True, slots=True)
class Next:
    """The step, and how many items it releases."""

    step: Step
    items: int = 0


def next_step(counts: Counts, *, sample: int, stop_loss: float, page: int) -> Next:
    """One item first, then the rest of the sample, then pages of `page` items.

    Before a larger part begins the smaller one has settled, and no more than a share of `stop_loss` of what
    was judged by then has failed. A single first failure stops nothing yet: the sample decides.
    """
    tried = counts.judged + counts.overtaken
    if counts.waiting == 0:
        return Next(Step.WAIT if counts.released else Step.FINISH)
    if tried < sample:
        if counts.released:
            return Next(Step.WAIT)
        return Next(Step.RELEASE, min(sample - tried, counts.waiting) if tried else 1)
    if counts.failed > stop_loss * counts.judged:
        return Next(Step.WAIT if counts.released else Step.STOP)
    room = min(page - counts.released, counts.waiting)
    return Next(Step.RELEASE, room) if room > 0 else Next(Step.WAIT)


def check_fix(kind: FixKind, version: int, to_version: int | None) -> None:
    """Raises `ConfigurationError` unless a fix names the versions that its kind needs."""
    if kind not in OF_A_VERSION:
        if to_version is not None:
            raise ConfigurationError(f"A fix of kind {kind.value} stays with its version: leave --to out.")
    elif to_version is None:
        raise ConfigurationError(
            f"A fix of kind {kind.value} makes another version: name it with --to VERSION "
            "(`assay pipeline register FILE.py` registers one)."
        )
    elif version == to_version:
        raise ConfigurationError("--version and --to are the same version: nothing has changed.")
    elif to_version < version:
        # Of two versions the later one serves: an annotation by an earlier one would never take its place.
        raise ConfigurationError("--to is an earlier version than --version: a fix leads to a later one.")
