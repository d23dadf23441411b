"""`assay publish`: send the outbox's events downstream."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer


class SinkKind(StrEnum):
    """Where events may go."""

    KAFKA = "kafka"
    WEBHOOK = "webhook"
    JSONL = "jsonl"


def publish(
    target: Annotated[
        str | None, typer.Argument(metavar="[URL|FILE]", help="The webhook's URL, or the file of --to jsonl.")
    ] = None,
    to: Annotated[SinkKind, typer.Option("--to", help="Where events go.")] = SinkKind.KAFKA,
    topic: Annotated[str | None, typer.Option(help="Kafka: the topic; or ASSAY_KAFKA_EVENTS_TOPIC.")] = None,
    brokers: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT,…", help="Kafka: the brokers; or ASSAY_KAFKA_BROKERS."),
    ] = None,
    dlq_topic: Annotated[
        str | None,
        typer.Option(
            metavar="TOPIC", help="Kafka: also tell this topic of what was refused, without labels."
        ),
    ] = None,
    once: Annotated[
        bool, typer.Option("--once", help="End once all that is there now has left; default: at a signal.")
    ] = False,
    lease: Annotated[
        float | None,
        typer.Option(min=1, help="Seconds after which a dead publisher's share is taken over; default 30."),
    ] = None,
    batch: Annotated[int, typer.Option(min=1, max=20_000, help="Events sent together at most.")] = 1000,
    list_blocked: Annotated[
        bool, typer.Option("--list-blocked", help="Show the events that the sink refuses, and end.")
    ] = False,
    park: Annotated[
        str | None,
        typer.Option(
            metavar="EVENT_ID", help="Take a refused event out of the way for good; needs --reason."
        ),
    ] = None,
    drop_receipts: Annotated[
        float | None,
        typer.Option(
            "--drop-receipts-older-than", metavar="DAYS", min=1, help="Drop receipts of days before, and end."
        ),
    ] = None,
    reason: Annotated[str | None, typer.Option(help="Why, with --park.")] = None,
    by: Annotated[
        str | None, typer.Option("--by", metavar="NAME", help="Who acts; default: this account's name.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the closing figures as JSON.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress, no closing line.")] = False,
) -> None:
    """Send events to Kafka, a webhook or a file: at least once, and in order for each record.

    Ctrl-C (or SIGTERM) ends gracefully: the batch in flight gets its receipts, other publishers take over at
    once. Exit codes: 0 done or ended at a signal's request, 1 with --once where refused events stay behind,
    2 bad settings.
    """
    from assay.cli import publish_acts
    from assay.cli.publish_command import PublishOptions, execute
    from assay.domain.failures import ConfigurationError

    acts = (list_blocked, park is not None, drop_receipts is not None)
    if sum(acts) > 1:
        raise ConfigurationError("Give one of --list-blocked, --park and --drop-receipts-older-than.")
    if list_blocked:
        publish_acts.show_blocked(as_json=as_json)
        return
    if park is not None:
        publish_acts.park_event(park, reason, by, as_json=as_json)
        return
    if drop_receipts is not None:
        publish_acts.drop(drop_receipts, by, as_json=as_json)
        return
    options = PublishOptions(
        to=to.value, target=target, topic=topic, brokers=brokers, dlq_topic=dlq_topic, once=once, lease=lease,
        batch=batch, as_json=as_json, quiet=quiet,
    )  # fmt: skip
    code = execute(options)
    if code:
        raise typer.Exit(code)
