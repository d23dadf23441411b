"""`assay topic`: put records into a topic and look at what comes out, without other tools."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

topic_app = typer.Typer(help="A topic: send lines to it, read it.", no_args_is_help=True)


@topic_app.command("send")
def topic_send(
    file: Annotated[
        Path, typer.Argument(metavar="FILE.jsonl", help="One JSON object a line; - for standard input.")
    ],
    topic: Annotated[
        str | None, typer.Option(help="The topic; default: the one that `assay up` reads.")
    ] = None,
    brokers: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT,…", help="Default: ASSAY_KAFKA_BROKERS, or what `assay up` started."),
    ] = None,
) -> None:
    """Send each line as a message, keyed by its record_id or id, and wait until the broker has all.

    A line that is no JSON object is named, and nothing of the file is sent.
    """
    from assay.cli.topic_command import send

    send(file, topic, brokers)


@topic_app.command("read")
def topic_read(
    topic: Annotated[
        str | None, typer.Option(help="The topic; default: the one that `assay up` publishes to.")
    ] = None,
    brokers: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT,…", help="Default: ASSAY_KAFKA_BROKERS, or what `assay up` started."),
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", help="Go on as messages come, until Ctrl-C.")] = False,
    limit: Annotated[int | None, typer.Option(min=1, help="End after so many messages.")] = None,
) -> None:
    """Print a topic from its beginning, one message a line. It joins no group and commits nothing."""
    from assay.cli.topic_command import read

    read(topic, brokers, follow=follow, limit=limit)
