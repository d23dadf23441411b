"""Events in a file: on the disk before they count, whole after a crash, in one publisher's hands."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import random
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest
from sink_events import UNKNOWN_KIND, event

from assay.adapters.sinks.event_file import EventFile
from assay.adapters.sinks.jsonl import JsonlSink
from assay.domain.events import body_of
from assay.domain.failures import ConfigurationError
from assay.domain.outbox import BEHIND, Answer, Delivered, OutboxEvent, Undelivered
from assay.ports import SinkUnavailable

EVENTS: Final = [event(f"r{number}", revision) for revision in (1, 2) for number in range(3)]
LINES: Final = [body_of(each) + b"\n" for each in EVENTS]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "events.jsonl"


@pytest.fixture
def loop() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as runner:
        yield runner


def publish(path: Path, events: list[OutboxEvent]) -> list[Answer]:
    """One call on a sink of its own."""

    async def once() -> list[Answer]:
        sink = JsonlSink(path)
        try:
            return await sink.publish(events)
        finally:
            await sink.aclose()
            await sink.aclose()

    return asyncio.run(once())


def test_a_line_per_event_in_order_with_where_it_stands(path: Path) -> None:
    answers = publish(path, EVENTS[:4]) + publish(path, EVENTS[4:])
    assert path.read_bytes() == b"".join(LINES)
    starts = [str(sum(map(len, LINES[:place]))) for place in range(len(LINES))]
    assert answers == [Delivered(start) for start in starts]
    assert publish(path, []) == []


def test_what_cannot_be_written_is_poison_and_holds_up_its_aggregate_alone(path: Path) -> None:
    answers = publish(path, [event("a", 1, kind=UNKNOWN_KIND), event("a", 2), event("b", 1)])
    assert answers == [Undelivered("event_kind_unknown", poison=True), Undelivered(BEHIND), Delivered("0")]
    assert path.read_bytes() == body_of(event("b", 1)) + b"\n"


# --- torn lines ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("whole", [0, 1, 6])
@pytest.mark.parametrize("cut", [1, 5, 13, 100, -1])
def test_a_torn_last_line_is_cut_off_and_told(
    path: Path, whole: int, cut: int, caplog: pytest.LogCaptureFixture
) -> None:
    torn = LINES[0][:cut]
    path.write_bytes(b"".join(LINES[:whole]) + torn)
    assert publish(path, EVENTS[:1]) == [Delivered(str(sum(map(len, LINES[:whole]))))]
    assert path.read_bytes() == b"".join([*LINES[:whole], LINES[0]])
    (told,) = (record for record in caplog.records if record.message == "event_file_mended")
    assert told.__dict__["assay_fields"] == {"sink": "jsonl:events.jsonl", "count": len(torn)}


@pytest.mark.parametrize(
    "tail", [bytes(4096), LINES[0][:50] + bytes(4096), bytes(300) + b"\n" + LINES[0][:9]]
)
def test_zeros_that_a_power_cut_left_are_cut_off(path: Path, tail: bytes) -> None:
    path.write_bytes(LINES[0] + tail)
    publish(path, EVENTS[1:2])
    assert path.read_bytes() == LINES[0] + LINES[1]


def test_a_whole_file_is_left_as_it_is(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    publish(path, EVENTS)
    publish(path, [])
    assert path.read_bytes() == b"".join(LINES)
    assert "event_file_mended" not in caplog.text


def test_a_long_torn_line_is_cut_off(path: Path) -> None:
    long = body_of(event("long", 1, size=300_000))
    path.write_bytes(LINES[0] + long[:-1])
    publish(path, EVENTS[1:2])
    assert path.read_bytes() == LINES[0] + LINES[1]
    path.write_bytes(LINES[0] + long + b"\n" + LINES[1][:20])
    publish(path, EVENTS[1:2])
    assert path.read_bytes() == LINES[0] + long + b"\n" + LINES[1]


# --- what is not ours ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "content",
    [
        b"notes of somebody\n", b"notes", b'{"event_id":"x"}\n', b'{"event_id":"torn and closed\n', b"\n",
        b'{"a":1}\n' + LINES[0][:30], LINES[0] + b"notes\n", LINES[0] + b"notes",
    ],
)  # fmt: skip
def test_a_file_with_anything_else_is_refused_and_left_alone(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with pytest.raises(ConfigurationError, match="other than events"):
        JsonlSink(path)
    assert path.read_bytes() == content


def test_what_is_no_file_is_refused(path: Path) -> None:
    os.mkfifo(path)
    with pytest.raises(ConfigurationError, match="no ordinary file"):
        JsonlSink(path)
    with pytest.raises(ConfigurationError, match="cannot be opened"):
        JsonlSink(path.parent)
    with pytest.raises(ConfigurationError, match="cannot be opened"):
        JsonlSink(path.parent / "not there" / "events.jsonl")


def test_two_publishers_never_write_to_one_file(path: Path) -> None:
    sink = JsonlSink(path)
    with pytest.raises(ConfigurationError, match="Another publisher"):
        JsonlSink(path)
    asyncio.run(sink.aclose())
    publish(path, EVENTS[:1])


# --- crashes and full disks ---------------------------------------------------------------------------


def lines_of(path: Path) -> list[int]:
    """The revisions in the file; every line is whole."""
    content = path.read_bytes()
    assert content.endswith(b"\n") or not content
    return [json.loads(line)["revision"] for line in content.splitlines()]


def test_killed_at_any_moment_nothing_that_counted_is_missing(path: Path) -> None:
    """Each round takes over where the last one's word ended; what came after it is written twice."""
    chance, sure = random.Random(7), 0
    writer = Path(__file__).with_name("jsonl_writer.py")
    for _ in range(8):
        with subprocess.Popen(
            [sys.executable, str(writer), str(path), str(sure + 1)], stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "open\n"
            for _ in range(chance.randrange(12)):
                sure = int(process.stdout.readline())
            process.send_signal(signal.SIGKILL)
            # What it still said before the signal came counts as well.
            said = [
                int(line) for line in process.stdout.read().splitlines(keepends=True) if line.endswith("\n")
            ]
            sure = max([sure, *said])
        assert process.returncode == -signal.SIGKILL
    publish(path, [event("r", sure + 1)])
    revisions = lines_of(path)
    assert set(revisions) >= set(range(1, sure + 2))
    assert sure > 50


@contextmanager
def at_most(size: int) -> Iterator[None]:
    """Files of this process end at so many bytes: writes there are cut short, then refused."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, handler)


def test_where_the_disk_takes_half_a_line_nothing_of_the_batch_stays(
    path: Path, loop: asyncio.Runner
) -> None:
    sink = JsonlSink(path)
    loop.run(sink.publish(EVENTS[:2]))
    whole = path.read_bytes()
    with at_most(len(whole) + len(LINES[2]) + 20), pytest.raises(SinkUnavailable, match="jsonl_write_failed"):
        loop.run(sink.publish(EVENTS[2:]))
    assert path.read_bytes() == whole
    assert loop.run(sink.publish(EVENTS[2:3])) == [Delivered(str(len(whole)))]
    loop.run(sink.aclose())
    assert path.read_bytes() == b"".join(LINES[:3])


def test_nothing_counts_that_the_disk_did_not_confirm(
    path: Path, loop: asyncio.Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = JsonlSink(path)

    def refused(_: int) -> None:
        raise OSError(errno.EIO, "no")

    with monkeypatch.context() as patch:
        patch.setattr("assay.adapters.sinks.event_file.os.fsync", refused)
        with pytest.raises(SinkUnavailable, match="jsonl_write_failed"):
            loop.run(sink.publish(EVENTS[:1]))
        assert path.read_bytes() == b""
    assert loop.run(sink.publish(EVENTS[:1])) == [Delivered("0")]
    loop.run(sink.aclose())


def test_a_full_disk_is_told_as_such(
    path: Path, loop: asyncio.Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = JsonlSink(path)

    def full(_: EventFile, lines: bytes) -> int:
        raise OSError(errno.ENOSPC, "full")

    with monkeypatch.context() as patch:
        patch.setattr(EventFile, "append", full)
        with pytest.raises(SinkUnavailable, match="jsonl_disk_full"):
            loop.run(sink.publish(EVENTS[:1]))
    assert loop.run(sink.publish(EVENTS[:1])) == [Delivered("0")]
    loop.run(sink.aclose())


def test_a_disk_that_hangs_is_unavailable_in_time(
    path: Path, loop: asyncio.Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    hanging = threading.Event()
    real = EventFile.append

    def hang(self: EventFile, lines: bytes) -> int:
        assert hanging.wait(30)
        return real(self, lines)

    monkeypatch.setattr(EventFile, "append", hang)
    sink = JsonlSink(path, send_seconds=0.1)
    for _ in range(2):
        with pytest.raises(SinkUnavailable, match="jsonl_disk_silent"):
            loop.run(sink.publish(EVENTS[:1]))
    hanging.set()
    loop.run(sink.aclose())
    assert path.read_bytes() == LINES[0]


def test_a_file_that_was_moved_away_is_followed_by_a_new_one(path: Path, loop: asyncio.Runner) -> None:
    sink = JsonlSink(path)
    loop.run(sink.publish(EVENTS[:2]))
    path.rename(path.with_suffix(".1"))
    assert loop.run(sink.publish(EVENTS[2:3])) == [Delivered("0")]
    path.write_bytes(b"")
    assert loop.run(sink.publish(EVENTS[3:4])) == [Delivered("0")]
    loop.run(sink.aclose())
    assert path.with_suffix(".1").read_bytes() == b"".join(LINES[:2])
    assert path.read_bytes() == LINES[3]
