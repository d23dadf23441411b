"""The broker goes away under workers, and the network before it is bad."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest

from kafka.apache_kafka import ApacheKafka
from kafka.brokers import KIND, BrokerUnderTest, make_topic
from kafka.kafka_proxy import FETCH, HEARTBEAT, OFFSET_COMMIT, KafkaProxy
from kafka.produced import tickets, with_malformed
from kafka.stage import SESSION, stage


async def test_killed_and_back(tmp_path: Path, db_url: str, own_broker: BrokerUnderTest) -> None:
    """Workers of Apache Kafka go on by themselves. The embedded broker comes back as another cluster, empty:
    the worker ends, and one that is started again reads the topic that is made again."""
    broker = own_broker
    topic = make_topic(broker.bootstrap, 2)
    async with stage(tmp_path, db_url, broker, topic, 2, latency=0.1) as run:
        with run.working() as worker:
            await run.send(with_malformed(tickets(200), 20))
            await run.until(lambda: run.settled() > 40, "work under way", worker)
            if broker.kind == "apache":
                broker.kill()
                # What was read goes on to its end meanwhile.
                await run.vendor.until(lambda stats: stats.in_flight == 0)
                await run.until(run.seconds_pass(SESSION), "a while", worker)
                await asyncio.to_thread(broker.restart)
                await run.send(tickets(100, 1000))
                await run.finish(worker)
                return
            await run.until(run.drained, "all of the first life", worker)
            broker.kill()
            await asyncio.to_thread(broker.restart)
            assert await worker.ended() != 0
        await asyncio.to_thread(make_topic, broker.bootstrap, 2, name=topic)
        run.feed.life = 1
        run.watch.seen.clear()
        with run.working() as worker:
            await run.send(with_malformed(tickets(60, 1000), 10))
            await run.finish(worker)


async def test_terminated_while_the_broker_is_away(
    tmp_path: Path, db_url: str, own_broker: BrokerUnderTest
) -> None:
    """It ends within its drain and the time for leaving; what is done is in PostgreSQL."""
    broker = own_broker
    if broker.kind != "apache":
        # Started again at once: there is no time without it.
        return
    topic = make_topic(broker.bootstrap, 2)
    async with stage(tmp_path, db_url, broker, topic, 2, latency=0.1) as run:
        with run.working() as worker:
            await run.send(tickets(200))
            await run.until(lambda: run.settled() > 40, "work under way", worker)
            broker.kill()
            await worker.stop(within=60)
        await asyncio.to_thread(broker.restart)
        with run.working() as worker:
            await run.send(tickets(20, 1000))
            await run.finish(worker)


def none_left(proxy: KafkaProxy, kind: int) -> bool:
    return proxy.trouble.lost_replies[kind] == 0


if KIND == "apache":

    @asynccontextmanager
    async def proxied(folder: Path) -> AsyncIterator[tuple[ApacheKafka, KafkaProxy]]:
        """A broker with a second listener, whose address is that of a proxy."""
        proxy = KafkaProxy()
        broker = ApacheKafka(folder, advertised=proxy.port)
        await asyncio.to_thread(broker.start)
        try:
            async with proxy.before(broker.proxied_port):
                yield broker, proxy
        finally:
            await asyncio.to_thread(broker.stop)

    async def test_replies_of_commits_are_lost(tmp_path: Path, db_url: str) -> None:
        """Commits reach the broker, their answers do not; then those of heartbeats, then of fetches."""
        async with proxied(tmp_path / "broker") as (broker, proxy):
            topic = make_topic(broker.bootstrap, 2)
            async with stage(tmp_path, db_url, broker, topic, 2) as run:
                with run.working(brokers=proxy.bootstrap) as worker:
                    for number, kind in enumerate((OFFSET_COMMIT, HEARTBEAT, FETCH, OFFSET_COMMIT)):
                        proxy.trouble.lost_replies[kind] = 3
                        await run.send(with_malformed(tickets(100, 1000 * number), 20))
                        await run.until(partial(none_left, proxy, kind), "lost", worker)
                        await run.until(run.drained, "drained all the same", worker)
                    proxy.trouble.delay_seconds = 0.1
                    await run.send(tickets(100, 9000))
                    await run.until(run.drained, "drained, with delays", worker)
                    await worker.stop()
                await run.check()
                assert proxy.trouble.lost[OFFSET_COMMIT] == 6

    @pytest.mark.parametrize("end", ["healed", "terminated"])
    async def test_the_broker_goes_silent(end: str, tmp_path: Path, db_url: str) -> None:
        """Everything to and from the broker is swallowed for longer than the session: the other worker takes
        over, and the cut-off one commits nothing when it is back."""
        async with proxied(tmp_path / "broker") as (broker, proxy):
            topic = make_topic(broker.bootstrap, 4)
            async with stage(tmp_path, db_url, broker, topic, 4, latency=0.1) as run:
                with run.working() as other, run.working(brokers=proxy.bootstrap) as worker:
                    await run.both_at_work(other, worker)
                    await run.send(with_malformed(tickets(200), 20))
                    proxy.trouble.silent = True
                    await run.send(tickets(100, 1000))
                    await run.until(run.drained, "the other has it all", other, worker)
                    if end == "terminated":
                        await worker.stop(within=90)
                        await run.finish(other)
                        return
                    proxy.trouble.silent = False
                    await run.until(
                        lambda: worker.events("partition_lost") > 0, "they are lost", other, worker
                    )
                    await run.send(tickets(100, 2000))
                    await run.finish(other, worker)
