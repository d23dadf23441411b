"""The same again: duplicates, old versions, a topic made anew, a database that was put back, a lost start."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from pathlib import Path

from confluent_kafka.admin import AdminClient

from kafka.brokers import BrokerUnderTest, make_topic
from kafka.produced import ticket, tickets, with_malformed
from kafka.stage import put_back, snapshot, stage
from kafka.topic_runs import committed

NewTopic = Callable[[int], str]


async def test_duplicates_and_old_versions_out_of_order(
    tmp_path: Path, db_url: str, broker: BrokerUnderTest, new_topic: NewTopic
) -> None:
    """Each record version up to three times, newest first for some, with other content for others."""
    seed = random.SystemRandom().randrange(10**6)
    print(f"seed {seed}")
    chance = random.Random(seed)
    texts = [each["text"] for each in tickets(60)]
    messages = [
        ticket(number, texts[(number * 7 + version) % 60], version)
        for number in range(60)
        for version in range(1, chance.randint(2, 4))
        for _ in range(chance.randint(1, 3))
    ]
    messages += [ticket(number, texts[(number * 7 + 5) % 60]) for number in range(0, 60, 6)]
    chance.shuffle(messages)
    async with stage(tmp_path, db_url, broker, new_topic(3), 3) as run:
        with run.working() as one, run.working() as other:
            await run.send(with_malformed(messages, 25))
            await run.finish(one, other)
    versions = len(run.feed.identities)
    assert run.project.one("SELECT count(*) FROM assay.annotation_tasks") == versions
    assert run.project.one("SELECT count(*) FROM assay.results") == 60
    calls = run.project.one("SELECT count(*) FROM assay.calls WHERE outcome = 'accepted'")
    assert calls <= versions


async def test_an_older_database_is_put_back(
    tmp_path: Path, db_url: str, broker: BrokerUnderTest, new_topic: NewTopic
) -> None:
    """The group has committed far beyond what the database knows: all of that is read again."""
    topic = new_topic(2)
    async with stage(tmp_path, db_url, broker, topic, 2) as run:
        run.journal = False  # the calls of the time in between are gone from the ledger
        with run.working() as worker:
            await run.send(with_malformed(tickets(60), 10))
            await run.until(run.drained, "the first part", worker)
            await worker.stop()
        copy = f"{db_url.rpartition('/')[2].partition('?')[0]}_copy"
        await asyncio.to_thread(snapshot, db_url, copy)
        with run.working() as worker:
            await run.send(with_malformed(tickets(60, 100), 10))
            await run.until(run.drained, "the second part", worker)
            await worker.stop()
        ahead = committed(broker.bootstrap, run.group, topic, 2)
        run.watch.broker_counts = False  # until the database has come to where it was
        await asyncio.to_thread(put_back, db_url, copy)
        with run.working() as worker:
            await run.until(run.drained, "all is there again", worker)
            assert committed(broker.bootstrap, run.group, topic, 2) == ahead
            await run.send(tickets(20, 200))
            await run.finish(worker)


async def test_a_database_that_goes_back_under_a_worker(
    tmp_path: Path, db_url: str, broker: BrokerUnderTest, new_topic: NewTopic
) -> None:
    """A failover to a standby that was behind: the worker ends before it commits past what is forgotten."""
    topic = new_topic(1)
    copy = f"{db_url.rpartition('/')[2].partition('?')[0]}_copy"
    async with stage(tmp_path, db_url, broker, topic, 1) as run:
        run.journal = False
        with run.working() as worker:
            await run.send(tickets(20), partition=0)
            await run.until(run.drained, "the first part", worker)
            await worker.stop()
        await asyncio.to_thread(snapshot, db_url, copy)
        with run.working() as worker:
            await run.send(tickets(20, 100), partition=0)
            await run.until(run.drained, "the second part", worker)
            run.watch.broker_counts = False
            await asyncio.to_thread(put_back, db_url, copy)
            await run.send(tickets(20, 200), partition=0)
            assert await worker.ended(within=90) == 1
            assert "The database has gone back" in worker.said()
        assert run.project.committed() == 20
        run.project.done("db", "restored")
        with run.working() as worker:
            await run.finish(worker)
            assert run.project.one("SELECT count(*) FROM assay.inputs") == 60


async def test_a_database_that_knows_nothing(
    tmp_path: Path, db_url: str, broker: BrokerUnderTest, new_topic: NewTopic
) -> None:
    """All of it is gone: the topic is read from its begin on, whatever the group has committed."""
    topic = new_topic(2)
    copy = f"{db_url.rpartition('/')[2].partition('?')[0]}_copy"
    async with stage(tmp_path, db_url, broker, topic, 2) as run:
        run.journal = False
        await asyncio.to_thread(snapshot, db_url, copy)
        with run.working() as worker:
            await run.send(with_malformed(tickets(60), 10))
            await run.until(run.drained, "all of it", worker)
            await worker.stop()
        run.watch.broker_counts = False
        await asyncio.to_thread(put_back, db_url, copy)
        with run.working("--start", "latest") as worker:
            await run.finish(worker)


async def test_a_topic_made_anew_under_a_worker(
    tmp_path: Path, db_url: str, broker: BrokerUnderTest, new_topic: NewTopic
) -> None:
    """The worker ends and says why. The next one reads the new topic from its begin on.

    The client dies over a deleted topic of the embedded broker: that is a kill like any other.
    """
    topic = new_topic(1)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    async with stage(tmp_path, db_url, broker, topic, 1) as run:
        with run.working() as worker:
            await run.send(with_malformed(tickets(20), 5))
            await run.until(run.drained, "the first topic", worker)
            # What the worker may still commit at the broker counts for nothing: the lower position is right.
            run.watch.broker_counts = False
            await asyncio.to_thread(admin.delete_topics([topic])[topic].result)
            await asyncio.to_thread(made_again, broker, topic)
            run.feed.life = 1
            # More than before: the client would go on where it stood, and pass over what lies before it.
            await run.send(with_malformed(tickets(60, 100), 3))
            code = await worker.ended()
        if broker.kind == "apache":
            assert code == 1
            assert f"The topic {topic} was made anew" in worker.said()
        else:
            assert code != 0
        with run.working() as worker:
            await run.finish(worker)


def made_again(broker: BrokerUnderTest, topic: str) -> None:
    """A deleted topic is gone a moment later; only then its name is free."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    while topic in admin.list_topics(timeout=20).topics:
        continue
    make_topic(broker.bootstrap, 1, name=topic)


async def test_what_comes_while_a_group_that_begins_at_the_end_is_away(
    tmp_path: Path, db_url: str, broker: BrokerUnderTest, new_topic: NewTopic
) -> None:
    """`--start latest` leaves out what was there before the group, once: not what comes after that."""
    topic = new_topic(1)
    async with stage(tmp_path, db_url, broker, topic, 1) as run:
        if broker.kind == "apache":
            await run.send(tickets(10))
            run.feed.sent.clear()
        with run.working("--start", "latest") as worker:
            await run.until(lambda: worker.events("partition_assigned") > 0, "a partition", worker)
            await worker.stop()
        await run.send(tickets(10, 100))
        with run.working("--start", "latest") as worker:
            await run.finish(worker)
    assert run.project.one("SELECT count(*) FROM assay.inputs") == 10
