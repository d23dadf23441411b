"""Micro-batches: nobody is told before the write, everybody hears of its failure."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from assay.pipeline.micro_batch import MicroBatcher


async def test_what_comes_together_is_written_together() -> None:
    written: list[list[int]] = []

    async def write(items: Sequence[int]) -> None:
        written.append(list(items))

    batcher = MicroBatcher(write, every=0.001, most=10)
    batcher.start()
    await asyncio.gather(*(batcher.put(number) for number in range(25)))
    await batcher.stop()
    assert sorted(number for batch in written for number in batch) == list(range(25))
    assert max(len(batch) for batch in written) == 10
    assert len(written) == 3


async def test_put_returns_only_after_the_write() -> None:
    gate = asyncio.Event()
    started = asyncio.Event()

    async def write(items: Sequence[int]) -> None:
        started.set()
        await gate.wait()

    batcher = MicroBatcher(write, every=0.0, most=10)
    batcher.start()
    waiting = asyncio.create_task(batcher.put(1))
    await started.wait()
    assert not waiting.done()
    gate.set()
    await waiting
    await batcher.stop()


async def test_a_failed_write_reaches_everyone_in_its_batch_and_nobody_else() -> None:
    async def write(items: Sequence[int]) -> None:
        if 13 in items:
            raise ConnectionError("gone")

    batcher = MicroBatcher(write, every=0.0, most=2)
    batcher.start()
    answers = await asyncio.gather(*(batcher.put(n) for n in (1, 2, 13, 14, 5, 6)), return_exceptions=True)
    await batcher.stop()
    assert [isinstance(answer, ConnectionError) for answer in answers] == [
        False, False, True, True, False, False
    ]  # fmt: skip


async def test_a_cancelled_put_does_not_stop_the_others() -> None:
    gate = asyncio.Event()
    written: list[int] = []

    async def write(items: Sequence[int]) -> None:
        await gate.wait()
        written.extend(items)

    batcher = MicroBatcher(write, every=0.0, most=1)
    batcher.start()
    first = asyncio.create_task(batcher.put(1))
    second = asyncio.create_task(batcher.put(2))
    await asyncio.sleep(0)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    gate.set()
    await second
    await batcher.stop()
    assert written == [1, 2]


async def test_an_abort_writes_nothing_more_and_tells_everyone_who_waits() -> None:
    started = asyncio.Event()
    written: list[int] = []

    async def write(items: Sequence[int]) -> None:
        started.set()
        await asyncio.Event().wait()
        written.extend(items)

    batcher = MicroBatcher(write, every=0.0, most=1)
    batcher.start()
    waiting = [asyncio.create_task(batcher.put(number)) for number in range(3)]
    await started.wait()
    batcher.abort()
    answers = await asyncio.gather(*waiting, return_exceptions=True)
    assert all(isinstance(answer, asyncio.CancelledError) for answer in answers)
    assert written == []
