"""What `assay init` writes and says."""

from __future__ import annotations

import re
import shlex
import shutil
import sys
from pathlib import Path
from typing import Final

import typer

from assay.domain.failures import ConfigurationError
from assay.starter import Example, starter_files

_MODEL: Final = re.compile(r"(openai|anthropic):[A-Za-z0-9][A-Za-z0-9._:/@+-]*")
_KEYS: Final = {"openai": "OPENAI_API_KEY", "anthropic": "ANTHROPIC_API_KEY"}
_PORT: Final = 8089
# A record worth looking at: one that was refused.
_SHOWN: Final = {Example.TICKETS: "T-19", Example.RECEIPTS: "R-08"}


def start_project(folder: Path, model: str | None, example: Example) -> None:
    """Write the starter's files into a folder and say what to type next.

    Raises `ConfigurationError` for a model of another form and for files that exist; nothing is written then.
    """
    if model is not None and not _MODEL.fullmatch(model):
        raise ConfigurationError(f"{model!r} is no model to start with; write openai:NAME or anthropic:NAME.")
    texts = starter_files(model, example)
    if folder.exists() and not folder.is_dir():
        raise ConfigurationError(f"{folder} is a file; name a folder.")
    if there := [name for name in texts if (folder / name).is_symlink() or (folder / name).exists()]:
        raise ConfigurationError(
            f"{', '.join(str(folder / name) for name in there)} exist already and are left as they are; name "
            "another folder."
        )
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        with (folder / name).open("x", encoding="utf-8") as file:
            file.write(text)
    typer.echo(f"Wrote {', '.join(texts)} to {folder.resolve()}.")
    _say_what_next(folder, model, example)


def _say_what_next(folder: Path, model: str | None, example: Example) -> None:
    assay = "assay" if shutil.which("assay") else shlex.quote(str(Path(sys.argv[0]).resolve()))
    if folder.resolve() != Path.cwd().resolve():
        _block("Go there:", f"cd {shlex.quote(str(folder))}")
    practice = (
        f"{assay} vendor --gold {example}.jsonl#gold --port {_PORT}",
        f"{assay} run {example}.py --input {example}.jsonl --model openai:practice-1 "
        f"--base-url http://127.0.0.1:{_PORT}/v1",
    )
    run = f"{assay} run {example}.py --input {example}.jsonl"
    look = (
        f"{assay} results {example}.py --format csv",
        f"{assay} eval {example}.py --gold {example}.jsonl#gold",
        f"{assay} explain {_SHOWN[example]}",
        f"{assay} doctor {example}.py",
    )
    if model is None:
        _block(f"Label the {example}, from recorded answers:", run)
        _block("Look at it:", *look)
        _block(
            "The same over HTTP, from a vendor to practise on; in one terminal, then in another:", *practice
        )
        return
    _block("Practise first, without a key; in one terminal, then in another:", *practice)
    _block(f"With your key in {_KEYS[model.partition(':')[0]]}, label the {example} with {model}:", run)
    _block("Look at it:", *look)


def _block(told: str, *commands: str) -> None:
    typer.echo("\n".join(["", told, *(f"  {command}" for command in commands)]))
