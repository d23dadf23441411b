"""`assay completion`: what a shell needs to complete commands, options and files."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer


class Shell(StrEnum):
    """The shells that there is a script for."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def completion(shell: Annotated[Shell, typer.Argument(help="The shell that will read the script.")]) -> None:
    """Print a script that lets the shell complete commands, options and files.

    bash: `source <(assay completion bash)` in ~/.bashrc. zsh: the same with zsh, after compinit, in ~/.zshrc.
    fish: `assay completion fish > ~/.config/fish/completions/assay.fish`.
    """
    from typer._completion_shared import get_completion_script

    typer.echo(get_completion_script(prog_name="assay", complete_var="_ASSAY_COMPLETE", shell=shell.value))
