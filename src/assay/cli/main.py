"""`assay`: the command line. Each command parses, calls, prints; errors become one sentence here."""

from __future__ import annotations

import os
import sys
from importlib.metadata import version

import click
import typer

from assay.cli.errors import BROKEN, INTERRUPTED, sentence
from assay.cli.registry import register
from assay.domain.failures import AssayError

app = typer.Typer(
    name="assay",
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
    try:
        result = app(standalone_mode=False)
    except click.exceptions.Abort:
        _leave("Interrupted; nothing is lost.", INTERRUPTED)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except AssayError as error:
        _leave(str(error), error.exit_code)
    except KeyboardInterrupt:
        _leave("Interrupted; nothing is lost.", INTERRUPTED)
    except BrokenPipeError:
        # The reader has gone; Python must not complain once more when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)
    except Exception as error:
        told = sentence(error)
        if told is None or os.environ.get("ASSAY_TRACEBACK") == "1":
            raise
        _leave(told, BROKEN)
    sys.exit(result if isinstance(result, int) else 0)


def _leave(told: str, code: int) -> None:
    typer.echo(f"assay: {told}", err=True)
    sys.exit(code)
