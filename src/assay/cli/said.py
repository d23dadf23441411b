"""Sentences for people on standard error; with ASSAY_LOG=json each is a line of the log instead."""

from __future__ import annotations

import typer

from assay.cli.logging_setup import only_json
from assay.telemetry import tell


def say(told: str, *, head: str = "assay: ") -> None:
    """Say something beside the output. `head` comes before it where a person reads."""
    if only_json():
        tell("notice", sentence=told)
    else:
        typer.echo(f"{head}{told}", err=True)


def complain(told: str, code: int | None = None, *, head: str = "assay: ") -> None:
    """Say what was wrong; `code` is the exit code, where the command ends with it."""
    if only_json():
        tell("refusal", sentence=told, exit_code=code)
    else:
        typer.echo(f"{head}{told}", err=True)
