"""The status read and shown: once, or again and again."""

from __future__ import annotations

import time
from typing import Final

import psycopg
import typer
from rich.console import Console

from assay.adapters.embedded.server import EmbeddedServer
from assay.adapters.postgres.budget_store import BudgetStore
from assay.adapters.postgres.status_store import StatusStore
from assay.cli.errors import sentence
from assay.cli.json_text import to_json
from assay.cli.opened import NOTHING_YET, existing_database, is_new
from assay.cli.status_object import as_object
from assay.cli.status_page import show
from assay.cli.tables import console, shown
from assay.config import Settings

# Home, and forget what is below and above: a page that got shorter leaves nothing behind.
_CLEAR: Final = "\x1b[H\x1b[2J\x1b[3J"


def show_once(settings: Settings, *, as_json: bool, every: bool = False) -> None:
    """Print how things stand."""
    if is_new(settings):
        typer.echo(to_json(as_object(None, [], None)) if as_json else NOTHING_YET)
        return
    with existing_database(settings) as url:
        found, budgets = StatusStore(url).read(), BudgetStore(url).read()
    # Asked when this command uses it no more.
    server = None if settings.database_url else EmbeddedServer(settings.project).status()
    if as_json:
        typer.echo(to_json(as_object(found, budgets, server)))
    else:
        show(console(), found, budgets, server, every=every)


def watch(settings: Settings, seconds: float, *, as_json: bool, every: bool = False) -> None:
    """Print it every so often, until Ctrl-C, also while the database is away or not there yet."""
    try:
        while True:
            _watch_a_while(settings, seconds, as_json=as_json, every=every)
            time.sleep(seconds)
    except KeyboardInterrupt:
        return


def _watch_a_while(settings: Settings, seconds: float, *, as_json: bool, every: bool) -> None:
    """Until the database goes away, or once where there is none yet. An embedded server is held meanwhile."""
    screen = console()
    if is_new(settings):
        if as_json:
            typer.echo(to_json(as_object(None, [], None)))
        else:
            _redraw(screen, [NOTHING_YET], seconds)
        return
    try:
        with existing_database(settings) as url:
            while True:
                _show_now(screen, settings, url, seconds, as_json=as_json, every=every)
                time.sleep(seconds)
    except psycopg.OperationalError as error:
        _redraw(console(error=as_json), [sentence(error) or ""], seconds)


def _show_now(
    screen: Console, settings: Settings, url: str, seconds: float, *, as_json: bool, every: bool
) -> None:
    found, budgets = StatusStore(url).read(), BudgetStore(url).read()
    server = None if settings.database_url else EmbeddedServer(settings.project).status()
    if as_json:
        typer.echo(to_json(as_object(found, budgets, server)))
        return
    with screen.capture() as page:
        show(screen, found, budgets, server, every=every)
    _redraw(screen, [shown(found.database["now"]), "", *page.get().splitlines()], seconds)


def _redraw(screen: Console, lines: list[str], seconds: float) -> None:
    """The lines in place of the last ones; what a terminal has no room for is left out, and said so."""
    if not screen.is_terminal:
        typer.echo("\n".join([*lines, ""]), err=screen.stderr)
        return
    told = f"Every {seconds:g} s; Ctrl-C ends."
    if len(lines) > screen.height - 2:
        left_out = len(lines) - (screen.height - 2)
        lines = lines[: screen.height - 2]
        told += f" {left_out} more lines: a taller window, or `assay status`, shows them."
    typer.echo(_CLEAR + "\n".join([*lines, told]), nl=False, err=screen.stderr)
