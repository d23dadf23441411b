"""PostgreSQL goes away under a worker and comes back; a network before it loses what it likes."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from urllib.parse import urlencode

import pytest
from psycopg.conninfo import conninfo_to_dict

from assay.adapters.embedded.server import EmbeddedServer
from assay.adapters.postgres.migrate import migrate
from kafka.brokers import BrokerUnderTest
from kafka.produced import tickets, with_malformed
from kafka.stage import Stage, stage
from kafka.topic_runs import committed
from tcp_proxy import TcpProxy, proxied

NewTopic = Callable[[int], str]
Outage = Callable[[EmbeddedServer, Callable[[], Awaitable[None]]], Awaitable[None]]


@contextmanager
def own_database(folder: Path) -> Iterator[tuple[EmbeddedServer, str]]:
    """A server of this test's own, which goes away with it."""
    server = EmbeddedServer(folder)
    try:
        with server.acquire() as lease:
            migrate(lease.url)
            yield server, lease.url
    finally:
        server.remove()


async def stopped(server: EmbeddedServer, meanwhile: Callable[[], Awaitable[None]]) -> None:
    """Shut down, away for as long as `meanwhile` takes, started again at the same place."""
    port = server.status().port
    assert await asyncio.to_thread(server.stop, force=True)
    await meanwhile()
    (await asyncio.to_thread(server.acquire)).release()
    assert server.status().port == port


def another_life(server: EmbeddedServer, pid: int) -> None:
    """Wait for its supervisor to have started it again."""
    while server.status().pid in (pid, None):
        time.sleep(0.02)


async def killed(server: EmbeddedServer, meanwhile: Callable[[], Awaitable[None]]) -> None:
    """SIGKILL of the postmaster; its supervisor brings it up again, after recovery."""
    pid = server.status().pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    await asyncio.to_thread(another_life, server, pid)
    (await asyncio.to_thread(server.acquire)).release()
    await meanwhile()


@pytest.mark.parametrize("outage", [stopped, killed])
async def test_the_worker_lives_on(
    outage: Outage, tmp_path: Path, broker: BrokerUnderTest, new_topic: NewTopic
) -> None:
    """It pauses, stays a member of its group, commits nothing, and goes on by itself."""
    topic = new_topic(2)
    with own_database(tmp_path) as (server, url):
        async with stage(tmp_path, url, broker, topic, 2, latency=0.1) as run:
            with run.working("--lease", "20") as worker:
                await run.send(with_malformed(tickets(200), 20))
                await run.until(lambda: run.settled() > 40, "work under way", worker)

                async def meanwhile() -> None:
                    """New messages come; nothing is committed once what was on its way has arrived."""
                    if outage is killed:
                        return
                    await run.vendor.until(lambda stats: stats.in_flight == 0)
                    before = await asyncio.to_thread(committed, broker.bootstrap, run.group, topic, 2)
                    await run.send(with_malformed(tickets(100, 1000), 20))
                    await run.until(run.seconds_pass(3), "a while", worker)
                    assert await asyncio.to_thread(committed, broker.bootstrap, run.group, topic, 2) == before
                    assert worker.events("partition_lost") == 0

                await outage(server, meanwhile)
                await run.send(tickets(50, 2000))
                await run.finish(worker)
            assert run.project.one("SELECT count(*) FROM assay.calls WHERE outcome = 'outcome_unknown'") == 0


async def test_terminated_while_the_database_is_away(
    tmp_path: Path, broker: BrokerUnderTest, new_topic: NewTopic
) -> None:
    """It waits for the database, to finish what it holds; told once more it ends at once. Nothing is lost."""
    with own_database(tmp_path) as (server, url):
        async with stage(tmp_path, url, broker, new_topic(2), 2, latency=0.1) as run:
            with run.working() as waits, run.working() as hurries:
                await run.both_at_work(waits, hurries)
                await run.send(tickets(300))
                await run.until(lambda: run.settled() > 40, "work under way", waits, hurries)
                assert await asyncio.to_thread(server.stop, force=True)
                waits.send(signal.SIGTERM)
                hurries.send(signal.SIGTERM)
                await run.until(lambda: hurries.events("drain_started") > 0, "a drain", waits, hurries)
                hurries.send(signal.SIGTERM)
                assert await hurries.ended(within=10) == 130
                lease = await asyncio.to_thread(server.acquire)
                assert await waits.ended() == 0, waits.said()[-2000:]
            with lease, run.working() as worker:
                await run.send(tickets(20, 1000))
                await run.finish(worker)


async def test_terminated_while_the_database_stays_away(
    tmp_path: Path, broker: BrokerUnderTest, new_topic: NewTopic
) -> None:
    """It waits no longer than a drain may take, says so, and whoever comes next goes on."""
    with own_database(tmp_path) as (server, url):
        async with stage(tmp_path, url, broker, new_topic(2), 2, latency=0.1) as run:
            with run.working("--drain", "2") as worker:
                await run.send(tickets(300))
                await run.until(lambda: run.settled() > 40, "work under way", worker)
                assert await asyncio.to_thread(server.stop, force=True)
                worker.send(signal.SIGTERM)
                assert await worker.ended(within=40) not in (0, 130)
                assert "nothing is lost" in worker.said()
            with await asyncio.to_thread(server.acquire), run.working() as worker:
                await run.finish(worker)


def through(proxy: TcpProxy) -> str:
    parts = conninfo_to_dict(proxy.url)
    query = urlencode({name: parts[name] for name in ("sslmode", "gssencmode")})
    return f"postgresql://{parts['user']}:{parts['password']}@127.0.0.1:{parts['port']}/{parts['dbname']}?{query}"


def settled_at_least(run: Stage, goal: int) -> bool:
    return run.settled() >= goal


async def lose(run: Stage, proxy: TcpProxy, chance: random.Random) -> None:
    """As work goes on: COMMITs, or the replies to them, one to three at a time, with and without delay."""
    for goal in sorted(chance.sample(range(20, 380), 12)):
        await run.until(partial(settled_at_least, run, goal), "work goes on", *run.workers)
        with proxy.trouble.lock:
            kind = chance.choice(("lost_replies", "lost_replies", "lost_commits"))
            setattr(proxy.trouble, kind, getattr(proxy.trouble, kind) + chance.randint(1, 3))
        proxy.trouble.delay_seconds = chance.choice((0.0, 0.0, 0.01))


async def test_replies_are_lost_after_the_commit(
    tmp_path: Path, db_url: str, broker: BrokerUnderTest, new_topic: NewTopic
) -> None:
    seed = random.SystemRandom().randrange(10**6)
    print(f"seed {seed}")
    async with stage(tmp_path, db_url, broker, new_topic(2), 2) as run:
        with (
            proxied(db_url) as proxy,
            run.working("--lease", "60", ASSAY_DATABASE_URL=through(proxy)) as worker,
        ):
            await run.send(with_malformed(tickets(400), 20))
            await lose(run, proxy, random.Random(seed))
            proxy.trouble.lost_replies = proxy.trouble.lost_commits = 0
            proxy.trouble.delay_seconds = 0.0
            await run.until(run.drained, "everything is drained", worker)
            await worker.stop()
        await run.check()
    assert run.project.one("SELECT count(*) FROM assay.task_history WHERE move = 'take_over'") == 0
    assert run.project.one("SELECT count(*) FROM assay.calls WHERE outcome = 'outcome_unknown'") == 0


@pytest.mark.scale
async def test_the_database_goes_silent(
    tmp_path: Path, db_url: str, broker: BrokerUnderTest, new_topic: NewTopic
) -> None:
    """Connections are swallowed; another worker, with a way of its own, takes over."""
    async with stage(tmp_path, db_url, broker, new_topic(4), 4, latency=0.1) as run:
        with proxied(db_url) as proxy, run.working() as other:
            with run.working(ASSAY_DATABASE_URL=through(proxy)) as worker:
                await run.both_at_work(other, worker)
                await run.send(tickets(300))
                await run.until(lambda: run.held_by(worker) > 2, "it holds tasks", other, worker)
                proxy.trouble.silent = True
                await run.send(tickets(100, 1000))
                await run.until(lambda: run.held_by(worker) == 0, "what it held is taken over", other, worker)
                proxy.trouble.silent = False
                await run.until(run.drained, "everything is drained", other, worker, seconds=280)
                await worker.stop()
            await run.finish(other)
