"""`assay`: the command line. Each command parses, calls, prints; errors become one sentence here."""

from __future__ import annotations

import os
import sys
from importlib.metadata import version
from typing import Any

import typer
from typer.core import TyperGroup

from assay.cli.errors import BAD_INPUT, BROKEN, INTERRUPTED, OK, READER_GONE, sentence
from assay.cli.logging_setup import set_up_logging
from assay.cli.registry import register
from assay.cli.said import complain
from assay.cli.usage import UsageError, usage_sentence
from assay.domain.failures import AssayError
from assay.telemetry import place_of, tell


class Interrupted(AssayError):
    """Ctrl-C outside of a run."""

    exit_code = INTERRUPTED


class _Commands(TyperGroup):
    """Takes interrupts and gone readers before typer turns them into its own words and codes."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise Interrupted("Interrupted; nothing is lost.") from None
        except BrokenPipeError:
            # The reader has gone; Python must not complain once more when it flushes at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(READER_GONE) from None


app = typer.Typer(
    name="assay",
    cls=_Commands,
    help="Turn files and streams of records into labels that a training set may trust.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
register(app)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"assay {version('assay')}")
        raise typer.Exit


@app.callback()
def _options(
    _version: bool = typer.Option(
        False, "--version", callback=_show_version, is_eager=True, help="Show the version and exit."
    ),
) -> None:
    """Turn files and streams of records into labels that a training set may trust."""


def main() -> None:
    """Entry point. Exit codes: 0 done, 1 an invariant or a comparison is broken, 2 bad input or settings,
    3 a configuration failure stopped the run, 130 interrupted."""
    _open_closed_streams()
    try:
        set_up_logging()
        # Not standalone: errors come here, instead of being drawn in a box.
        code = app(standalone_mode=False)
    except UsageError as error:
        _leave(usage_sentence(error, sys.argv[1:], app), BAD_INPUT)
    except AssayError as error:
        _leave(str(error), error.exit_code)
    except Exception as error:
        if os.environ.get("ASSAY_TRACEBACK") == "1":
            raise
        _leave(sentence(error) or _defect(error), BROKEN)
    else:
        sys.exit(code if isinstance(code, int) else OK)


def _defect(error: Exception) -> str:
    """Type and place of a defect. Its message may quote a record, so it is not told."""
    tell("command_failed", error=error)
    return (
        f"A defect of assay ended the command: {type(error).__qualname__} at {place_of(error)}. What was "
        "done is kept; ASSAY_TRACEBACK=1 shows all of the error, values included."
    )


def _open_closed_streams() -> None:
    """Standard streams that the starter closed read as empty and lead nowhere; Python has None for them."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode, encoding="utf-8"))


def _leave(told: str, code: int) -> None:
    if told:
        complain(told, code)
    sys.exit(code)
