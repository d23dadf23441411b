"""`assay work`: label what a Kafka topic brings, for as long as it brings something."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class GroupProtocol(StrEnum):
    """How a group shares partitions: the client's way, or the broker's (KIP-848, Apache Kafka 4)."""

    CLASSIC = "classic"
    CONSUMER = "consumer"


class Assignor(StrEnum):
    """How the classic protocol shares partitions."""

    COOPERATIVE = "cooperative-sticky"
    RANGE = "range"
    ROUND_ROBIN = "roundrobin"


class FirstOffset(StrEnum):
    """Where a group begins that neither the broker nor the database knows."""

    EARLIEST = "earliest"
    LATEST = "latest"


def work(
    pipeline: Annotated[str, typer.Argument(metavar="PIPELINE", help="FILE.py or FILE.py:name.")],
    topic: Annotated[str, typer.Option(help="The topic whose messages are records.")],
    brokers: Annotated[
        str | None, typer.Option(metavar="HOST:PORT,…", help="The brokers; default: ASSAY_KAFKA_BROKERS.")
    ] = None,
    group: Annotated[
        str | None, typer.Option(help="The consumer group; default: assay-<name of the pipeline>.")
    ] = None,
    maps: Annotated[
        list[str] | None,
        typer.Option("--map", metavar="FIELD=KEY", help="Take a field from a key, as in text=/ticket/body."),
    ] = None,
    documents_root: Annotated[
        str | None, typer.Option(metavar="DIR|URL", help="Where referenced documents lie.")
    ] = None,
    start: Annotated[FirstOffset, typer.Option(help="Where a new group begins.")] = FirstOffset.EARLIEST,
    group_protocol: Annotated[
        GroupProtocol, typer.Option(help="Who shares the partitions; consumer needs Apache Kafka 4.")
    ] = GroupProtocol.CLASSIC,
    assignor: Annotated[
        Assignor, typer.Option(help="How the classic protocol shares them; the same for the whole group.")
    ] = Assignor.COOPERATIVE,
    instance_id: Annotated[
        str | None,
        typer.Option(metavar="ID", help="Static membership: a restart keeps the partitions. One per worker."),
    ] = None,
    session: Annotated[
        float, typer.Option(min=1, help="Seconds after which the group gives up on a silent member.")
    ] = 20.0,
    concurrency: Annotated[
        int | None, typer.Option(min=1, max=20_000, help="Model calls at once; default 32 (recorded: 500).")
    ] = None,
    lease: Annotated[
        float, typer.Option(min=1, help="Seconds after which a dead worker's tasks are taken over.")
    ] = 90.0,
    drain: Annotated[
        float, typer.Option(min=0, help="Seconds that a graceful stop waits for calls in flight.")
    ] = 30.0,
    model: Annotated[
        str | None, typer.Option(help="Another model than the pipeline's, as in openai:gpt-5-mini.")
    ] = None,
    base_url: Annotated[
        str | None, typer.Option(help="Where the model's API is; not part of the version.")
    ] = None,
    requests_per_minute: Annotated[
        float | None,
        typer.Option(min=1, help="Most calls per minute on the vendor's account, over all workers."),
    ] = None,
    tokens_per_minute: Annotated[
        float | None,
        typer.Option(min=1, help="Most tokens per minute on the account; the vendor's own limits hold too."),
    ] = None,
    memory: Annotated[
        int, typer.Option(min=1, metavar="MIB", help="Record texts in memory at most, in MiB.")
    ] = 256,
    max_invalid: Annotated[
        float, typer.Option(min=0, max=1, help="Share of malformed messages above which reading stops.")
    ] = 0.5,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress, no table.")] = False,
) -> None:
    """Label the records of a Kafka topic, as one of any number of workers, until told to end.

    Start as many as you like with the same command: they share the partitions of the topic and the limits of
    the vendor's account, and take over from each other. Database and broker may go away and come back.
    Ctrl-C (or SIGTERM) ends gracefully. Exit codes: 0 ended as asked, 1 mostly malformed input, 2 bad
    settings, 3 stopped by a configuration failure (key, model, quota, spend cap): mend it, then
    `assay pipeline resume`.
    """
    from assay.cli.work_command import WorkOptions, execute

    code = execute(
        WorkOptions(
            pipeline=pipeline, folder=Path(pipeline.partition(":")[0]).resolve().parent, topic=topic,
            brokers=brokers, group=group, maps=tuple(maps or ()), documents_root=documents_root,
            from_end=start is FirstOffset.LATEST, group_protocol=group_protocol.value,
            assignor=assignor.value, instance_id=instance_id, session=session, concurrency=concurrency,
            lease=lease, drain=drain, model=model, base_url=base_url,
            requests_per_minute=requests_per_minute, tokens_per_minute=tokens_per_minute,
            memory=memory, max_invalid=max_invalid, quiet=quiet,
        )
    )  # fmt: skip
    if code:
        raise typer.Exit(code)
