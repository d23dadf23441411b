"""`assay down`: end what `assay up` started."""

from __future__ import annotations

from typing import Annotated

import typer


def down(
    wait: Annotated[
        float, typer.Option(min=0, help="Seconds to wait for what is in the topic to be read.")
    ] = 30.0,
    force: Annotated[
        bool, typer.Option("--force", help="End even where messages are unread that end with the broker.")
    ] = False,
) -> None:
    """End the worker, the publisher, the broker and the database of this project, in good order.

    The embedded broker keeps messages in memory: those that no worker has read yet are waited for, and where
    they stay unread, nothing is ended without --force. What was read is in the database; `assay up` goes on.
    """
    from assay.cli.down_command import end

    code = end(wait, force=force)
    if code:
        raise typer.Exit(code)
