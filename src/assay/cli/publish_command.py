"""What `assay publish` does once its options are read."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import typer

from assay.adapters.postgres.outbox_store import OutboxStore
from assay.adapters.postgres.session import make_pool
from assay.app import database
from assay.cli.errors import BROKEN
from assay.cli.json_text import to_json
from assay.cli.publish_screen import PublishScreen
from assay.cli.publish_watch import PublishWatch
from assay.cli.said import complain, say
from assay.cli.tables import count
from assay.config import Settings, load_settings
from assay.domain.failures import ConfigurationError
from assay.pipeline.crash import from_environment
from assay.pipeline.publisher import Publisher
from assay.pipeline.publisher_limits import PublisherLimits, shortest_lease
from assay.pipeline.publisher_progress import PublishProgress
from assay.ports import EventSink
from assay.telemetry import bound, tell

TOPIC = "ASSAY_KAFKA_EVENTS_TOPIC"
DLQ_TOPIC = "ASSAY_KAFKA_DLQ_TOPIC"
_DEFAULT_LEASE = 30.0
_ASK_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class PublishOptions:
    """The options of `assay publish`, read."""

    to: str
    target: str | None = None
    topic: str | None = None
    brokers: str | None = None
    dlq_topic: str | None = None
    once: bool = False
    lease: float | None = None
    batch: int = 1000
    as_json: bool = False
    quiet: bool = False


@dataclass(frozen=True, slots=True)
class _Target:
    """Where events go: how the sink is made, and how it is asked for a sign of life, where it can be."""

    make: Callable[[], EventSink]
    ask: Callable[[], object] | None = None


def execute(options: PublishOptions) -> int:
    """Publish, show, and return the exit code."""
    settings = load_settings()
    target = _target(options, settings)
    with database(settings, _tell(options)) as url:
        return asyncio.run(_publish(options, url, target))


def _target(options: PublishOptions, settings: Settings) -> _Target:
    """Checks the settings at once; the sink itself is made on the loop that uses it."""
    given = [name for name, value in (("--topic", options.topic), ("--brokers", options.brokers),
                                      ("--dlq-topic", options.dlq_topic)) if value]  # fmt: skip
    if options.to != "kafka" and given:
        raise ConfigurationError(f"{given[0]} is for --to kafka.")
    if options.to == "kafka":
        if options.target is not None:
            raise ConfigurationError("A URL needs --to webhook, a file --to jsonl.")
        return _kafka(options, settings)
    if options.to == "webhook":
        return _Target(_webhook(options, settings))
    return _Target(_jsonl(options))


def _kafka(options: PublishOptions, settings: Settings) -> _Target:
    try:
        from assay.adapters.kafka.broker_check import BrokerQuestion
        from assay.adapters.kafka.producer import KafkaSink, TopicWriting
    except ModuleNotFoundError as missing:
        if missing.name != "confluent_kafka":
            raise
        raise ConfigurationError(
            "Kafka needs confluent-kafka: `pip install 'assay[kafka]'` in this environment."
        ) from None
    from assay.adapters.kafka.security import connection_of

    topic = options.topic or settings.environment.get(TOPIC)
    if not topic:
        raise ConfigurationError(f"Name the topic: --topic NAME, or {TOPIC}.")
    dlq_topic = options.dlq_topic or settings.environment.get(DLQ_TOPIC) or None
    if dlq_topic == topic:
        raise ConfigurationError("The dead-letter topic is another one than the topic of all events.")
    writing = TopicWriting(connection_of(settings.environment, options.brokers), topic, dlq_topic)
    question = BrokerQuestion(writing.connection)
    return _Target(lambda: KafkaSink(writing), lambda: question.ask(_ASK_SECONDS))


def _webhook(options: PublishOptions, settings: Settings) -> Callable[[], EventSink]:
    from yarl import URL

    from assay.adapters.sinks.webhook import WebhookSink
    from assay.adapters.sinks.webhook_settings import WebhookSettings, webhook_secrets

    if options.target is None:
        raise ConfigurationError("Give the webhook's URL: assay publish --to webhook URL.")
    try:
        url = URL(options.target)
    except ValueError:
        raise ConfigurationError("The webhook's address is an http or https URL.") from None
    chosen = WebhookSettings(url, webhook_secrets(settings.environment))
    return lambda: WebhookSink(chosen)


def _jsonl(options: PublishOptions) -> Callable[[], EventSink]:
    from assay.adapters.sinks.jsonl import JsonlSink

    if options.target is None:
        raise ConfigurationError("Give the file: assay publish --to jsonl FILE.")
    path = Path(options.target)
    return lambda: JsonlSink(path)


async def _publish(options: PublishOptions, url: str, target: _Target) -> int:
    sink = target.make()
    me = f"{socket.gethostname()}:{os.getpid()}:{uuid4().hex[:8]}"
    lease = options.lease or max(_DEFAULT_LEASE, shortest_lease(sink.send_seconds))
    limits = PublisherLimits(batch=options.batch, lease_seconds=lease)
    progress = PublishProgress()
    probe = from_environment()
    pool = make_pool(url, size=2)
    store = OutboxStore(pool, publisher=me, sink=sink.name, lease_seconds=lease, probe=probe)
    publisher = Publisher(
        store, sink, limits, progress, clock=asyncio.get_running_loop().time,
        chance=random.SystemRandom().random, probe=probe,
    )  # fmt: skip
    quiet = options.quiet or options.as_json
    try:
        await pool.open()
        with (
            bound(worker=me, run_id=uuid4().hex[:12]),
            PublishScreen(progress, title=sink.name, quiet=quiet) as screen,
            PublishWatch(progress, ask=target.ask, lease=lease, told=_tell(options)),
        ):
            _handle_signals(publisher, screen, _tell(options))
            await _run_told(publisher, sink, progress, once=options.once)
    finally:
        await sink.aclose()
        await pool.close()
    return _report(options, sink, progress, screen.elapsed)


async def _run_told(publisher: Publisher, sink: EventSink, progress: PublishProgress, *, once: bool) -> None:
    started = asyncio.get_running_loop().time()
    tell("publish_started", sink=sink.name)
    reason = "failed"
    try:
        reason = "done" if await publisher.run(once=once) else "drained"
    finally:
        tell("publish_ended", sink=sink.name, reason=reason, published=progress.published,
             backlog=progress.backlog, blocked=progress.blocked,
             seconds=asyncio.get_running_loop().time() - started)  # fmt: skip


def _handle_signals(publisher: Publisher, screen: PublishScreen, tell_person: Callable[[str], None]) -> None:
    """The first signal drains, the second ends the process at once."""
    asked = False

    def on_signal() -> None:
        nonlocal asked
        if asked:
            os._exit(0)  # no clean-up: leases expire, what was on its way is sent again
        asked = True
        screen.note("finishing the batch in flight")
        tell_person("Finishing the batch in flight; once more to end at once.")
        publisher.request_stop()

    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, on_signal)


def _report(options: PublishOptions, sink: EventSink, progress: PublishProgress, elapsed: float) -> int:
    figures = {
        "sink": sink.name, "published": progress.published, "sent_again": progress.sent_again,
        "refused": progress.refused, "backlog": progress.backlog, "blocked": progress.blocked,
        "elapsed_seconds": round(elapsed, 3),
    }  # fmt: skip
    if options.as_json:
        typer.echo(to_json(figures))
    elif not options.quiet:
        typer.echo(f"Published {count(progress.published, 'event')} to {sink.name}.")
    if options.once and progress.blocked:
        complain(
            f"The sink refuses {count(progress.blocked, 'event')}; see `assay publish --list-blocked`.",
            BROKEN,
        )
        return BROKEN
    return 0


def _tell(options: PublishOptions) -> Callable[[str], None]:
    return (lambda _: None) if options.quiet else say
