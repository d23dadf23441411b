"""Plays the morning: tickets come, the vendor changes, processes are killed, messages replay, all drains."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import psycopg

from assay.adapters.kafka.topics import count_unread, send_values
from assay.cli.drill_cast import Cast, Part
from assay.cli.drill_stage import (
    ASSAY_KEY,
    EVENTS_TOPIC,
    PRODUCED,
    RECORDS_TOPIC,
    SCRIPT_KEY,
    TICKETS,
    TRAINING,
    Stage,
)
from assay.drill.moments import END, MOMENTS, REPLAYED_FROM, RESTART, Moment, clock, due
from assay.drill.statements import statement

SCRIPT_GROUP: Final = "labelling-script"
WORKERS: Final = ("worker-1", "worker-2")
_MODEL: Final = "practice-1"
_LEASE_SECONDS: Final = 6
_AT_ONCE: Final = 8
_TICK_SECONDS: Final = 0.2
_SILENCE_SECONDS: Final = 0.5
# Both sides have labelled these before the clock starts: whoever starts slowly misses nothing.
_FIRST: Final = 8


@dataclass(frozen=True, slots=True)
class Progress:
    """How far the product is: messages with a destination, settled and unsettled tasks, first answers and
    those of them refused, events known and waiting."""

    placed: int = 0
    settled: int = 0
    unsettled: int = 0
    first_answers: int = 0
    refused: int = 0
    events: int = 0
    waiting: int = 0


class Play:
    """One drill from the first ticket to the last event."""

    def __init__(self, stage: Stage, cast: Cast, speed: float, say: Callable[[str], None]) -> None:
        self._stage = stage
        self._cast = cast
        self._speed = speed
        self._say = say
        lines = (stage.folder / TICKETS).read_text("utf-8").split("\n")
        self._tickets: list[dict[str, Any]] = [json.loads(line) for line in lines if line]
        self._sent = 0
        self._messages = 0
        self._began = 0.0
        self._told_last = (Progress(), MOMENTS[0].clock)

    def run(self) -> list[str]:
        """All of it; the names of processes that did not end well."""
        self._cast.start(*self._parts())
        self._send(self._tickets[:_FIRST])
        self._sent = _FIRST
        self._cast.wait_for(
            lambda: (not self._labels()) + (not self._progress().settled), "the first label of either side"
        )
        self._began = time.monotonic()
        for moment in MOMENTS:
            self._until(moment.minute)
            self._tell(moment)
            if moment.settings:
                self._stage.change_vendor(moment.settings)
            if moment.minute == RESTART:
                self._restart()
        self._until(END)
        self._drain()
        return self._cast.end()

    def _parts(self) -> list[Part]:
        stage, brokers = self._stage, self._stage.connection.brokers
        script = Part(
            "script", "assay.drill.legacy",
            ("--brokers", brokers, "--topic", RECORDS_TOPIC, "--group", SCRIPT_GROUP, "--base-url",
             stage.vendor_url, "--model", _MODEL, "--training", str(stage.folder / TRAINING)),
            {"MODEL_API_KEY": SCRIPT_KEY},
        )  # fmt: skip
        work = ("work", "tickets.py", "--topic", RECORDS_TOPIC, "--brokers", brokers, "--base-url",
                stage.vendor_url, "--lease", str(_LEASE_SECONDS), "--session", "6", "--concurrency",
                str(_AT_ONCE))  # fmt: skip
        workers = [Part(name, "assay", work, {"ASSAY_MODEL_API_KEY": ASSAY_KEY}) for name in WORKERS]
        publisher = Part("publisher", "assay", ("publish", "--topic", EVENTS_TOPIC, "--brokers", brokers))
        consumer = Part(
            "consumer", "assay.drill.downstream",
            ("--brokers", brokers, "--topic", EVENTS_TOPIC, "--group", "downstream"),
            {"DOWNSTREAM_DATABASE_URL": stage.downstream_url},
        )  # fmt: skip
        return [script, *workers, publisher, consumer]

    def _until(self, minute: int) -> None:
        """Let tickets come until that time of the drill's day."""
        while True:
            now = min((time.monotonic() - self._began) * self._speed / 60, minute)
            coming = self._tickets[self._sent : max(self._sent, due(now, len(self._tickets)))]
            if coming:
                self._send(coming)
                self._sent += len(coming)
            if now >= minute:
                return
            self._cast.check()
            time.sleep(_TICK_SECONDS)

    def _restart(self) -> None:
        """Kill at once, start again at once, and let the last messages come once more."""
        names = ("script", *WORKERS)
        self._cast.kill(names)
        self._cast.start(*(part for part in self._parts() if part.name in names))
        replayed = self._tickets[due(REPLAYED_FROM, len(self._tickets)) : self._sent]
        self._send(replayed)
        self._say(f"{clock(RESTART)} {len(replayed)} messages have come once more")

    def _send(self, tickets: Sequence[dict[str, Any]]) -> None:
        values = [
            (str(each["id"]), json.dumps({"record_id": each["id"], "text": each["text"]}).encode())
            for each in tickets
        ]
        send_values(self._stage.connection, RECORDS_TOPIC, values)
        with (self._stage.folder / PRODUCED).open("a", encoding="utf-8") as produced:
            produced.writelines(f"{record_id}\n" for record_id, _ in values)
        self._messages += len(values)

    def _drain(self) -> None:
        """Until both sides have nothing more to do, and the consumer has every event."""
        self._say(f"{clock(END)} what is left is worked off")
        self._cast.wait_for(self._unread, "messages that the script has not read")
        self._cast.wait_for(self._unsettled, "messages and records without a destination")
        self._cast.wait_for(self._untold, "events on their way to the consumer")

    def _unread(self) -> int:
        return count_unread(
            self._stage.connection, RECORDS_TOPIC, SCRIPT_GROUP, silence_seconds=_SILENCE_SECONDS
        )

    def _unsettled(self) -> int:
        now = self._progress()
        return self._messages - now.placed + now.unsettled

    def _untold(self) -> int:
        now = self._progress()
        with psycopg.connect(self._stage.downstream_url) as db:
            ((came,),) = db.execute(statement("downstream_progress")).fetchall()
        return now.waiting + now.events - int(came)

    def _progress(self) -> Progress:
        with psycopg.connect(self._stage.url) as db:
            (row,) = db.execute(statement("progress")).fetchall()
        return Progress(*row)

    def _labels(self) -> int:
        training = self._stage.folder / TRAINING
        return training.read_bytes().count(b"\n") if training.exists() else 0

    def _tell(self, moment: Moment) -> None:
        """What happens now, and what came of the time before."""
        now, (before, since) = self._progress(), self._told_last
        answers = now.first_answers - before.first_answers
        if answers and moment.minute:
            self._say(
                f"      {self._messages} messages · script: {self._labels()} labels · assay: {now.settled} "
                f"settled; since {since} the contract refused {(now.refused - before.refused) / answers:.1%}"
            )
        self._say(f"{moment.clock} {moment.told}")
        self._told_last = (now, moment.clock)
