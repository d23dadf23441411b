"""What a publisher says of brokers that are away, and of a share that it waits for."""

from __future__ import annotations

from dataclasses import dataclass, field

from assay.cli.publish_watch import PublishWatch
from assay.domain.failures import ConfigurationError
from assay.pipeline.publisher_progress import PublishProgress

AWAY = "No broker answers at kafka:9092."


@dataclass
class Scene:
    """A watch with a clock, brokers that answer or do not, and what was said."""

    now: float = 0.0
    away: bool = False
    asked: int = 0
    said: list[str] = field(default_factory=list)
    progress: PublishProgress = field(default_factory=PublishProgress)

    def ask(self) -> None:
        self.asked += 1
        if self.away:
            raise ConfigurationError(AWAY)

    def watch(self, *, asks: bool = True) -> PublishWatch:
        return PublishWatch(
            self.progress, ask=self.ask if asks else None, lease=30.0, told=self.said.append,
            clock=lambda: self.now,
        )  # fmt: skip


def test_brokers_that_are_away_are_told_of_with_an_empty_outbox() -> None:
    scene = Scene(away=True)
    watch = scene.watch()
    watch.look()
    assert scene.said == []
    for _ in range(20):
        scene.now += 2
        watch.look()
    assert scene.said == [f"{AWAY} Events wait in the outbox; it is tried again until it works."]
    assert scene.progress.trouble == "the brokers do not answer"
    scene.now += 60
    watch.look()
    assert scene.said[1:] == [f"{AWAY} So for 98 s; it is still tried."]
    scene.away = False
    watch.look()
    assert scene.said[2:] == ["It goes on again after 98 s."]
    assert scene.progress.trouble is None


def test_one_slow_answer_is_no_outage() -> None:
    scene = Scene(away=True)
    watch = scene.watch()
    watch.look()
    scene.away = False
    watch.look()
    assert (scene.said, scene.progress.trouble) == ([], None)


def test_what_the_publisher_met_itself_is_said_at_once_and_is_its_own() -> None:
    scene = Scene()
    watch = scene.watch(asks=False)
    scene.progress.trouble = "webhook does not answer (timed_out)"
    watch.look()
    watch.look()
    assert scene.said == [
        "webhook does not answer (timed_out). Events wait in the outbox; it is tried again until it works."
    ]
    assert scene.progress.trouble == "webhook does not answer (timed_out)"


def test_who_publishes_does_not_ask() -> None:
    scene = Scene()
    watch = scene.watch()
    scene.progress.published = 7
    watch.look()
    assert scene.asked == 0
    watch.look()
    assert scene.asked == 1


def test_a_share_that_is_waited_for_is_told_once() -> None:
    scene = Scene()
    scene.progress.backlog = 5
    watch = scene.watch()
    watch.look()
    assert scene.said == []
    for _ in range(5):
        scene.now += 4
        watch.look()
    (told,) = scene.said
    assert "taken over" in told
    assert "30 s" in told


def test_a_share_that_is_held_is_no_news() -> None:
    scene = Scene()
    scene.progress.backlog, scene.progress.buckets = 5, 64
    watch = scene.watch()
    watch.look()
    scene.now += 60
    watch.look()
    assert scene.said == []
