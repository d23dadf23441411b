"""Wrong words on the command line: one line about what is wrong, and which help has the right ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol, runtime_checkable

import typer
from typer.core import TyperGroup
from typer.main import get_command

from assay.cli.tables import shown

# What the parser raises has no public name of its own; it is the base of the one error that has.
UsageError: Final[type[Exception]] = typer.BadParameter.__mro__[1]
# Whose word it is that a value does not fit is no news to who typed it.
_OF_THE_PARSER: Final = "Value error, "


@runtime_checkable
class _Formatted(Protocol):
    def format_message(self) -> str: ...


def usage_sentence(error: Exception, words: Sequence[str], app: typer.Typer) -> str:
    """What is wrong with the words of a command line, and where to look.

    Empty where they ask for nothing: then the help has been printed.
    """
    told = error.format_message() if isinstance(error, _Formatted) else str(error)
    if type(error).__name__ == "NoArgsIsHelpError":
        # Printed already where it is drawn in colours; else it is the message.
        typer.echo(told, nl=bool(told))
        return ""
    line = shown(" ".join(told.replace(_OF_THE_PARSER, "").split())).rstrip(".?")
    end = "?" if told.rstrip().endswith("?") else "."
    return f"{line}{end} `{_command_path(words, app)} --help` shows what it takes."


def _command_path(words: Sequence[str], app: typer.Typer) -> str:
    """The command that the words name, as far as there is one."""
    command, path = get_command(app), ["assay"]
    for word in words:
        inner = command.commands.get(word) if isinstance(command, TyperGroup) else None
        if inner is not None:
            command = inner
            path.append(word)
        elif not word.startswith("-"):
            break
    return " ".join(path)
