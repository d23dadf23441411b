"""`assay check`: judges responses against a contract, without a database."""

from __future__ import annotations

import codecs
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO

import typer

from assay.cli.errors import BAD_INPUT, BROKEN
from assay.cli.said import complain

if TYPE_CHECKING:
    from assay.domain.boundary import Accepted
    from assay.domain.rejection import Rejected

    Judge = Callable[[str | bytes], Accepted | Rejected]


def check(
    file: Annotated[
        str,
        typer.Argument(metavar="FILE.py", help="File with a Contract or a Pipeline; FILE.py:name picks one."),
    ],
    raw: Annotated[
        str | None,
        typer.Option(
            "--raw", metavar="FILE", help="Judge the bytes of FILE as one response ('-': standard input)."
        ),
    ] = None,
    max_bytes: Annotated[
        int | None,
        typer.Option("--max-bytes", min=1, help="Limit of one response; default: the contract's own."),
    ] = None,
    truncated: Annotated[
        bool, typer.Option("--truncated", help="Treat every response as cut by the token limit.")
    ] = False,
    fail: Annotated[
        bool, typer.Option("--fail", help="End with 1 if a response is refused; else 0 says: all were read.")
    ] = False,
) -> None:
    """Judge responses against a contract: no database, no network.

    Reads one JSON string per line from standard input and prints one JSON object per response, in order:
    verdict, code, kind, retryable, errors. Exit codes: 0 all were read, accepted or refused; 1 with --fail:
    at least one was refused; 2 a line was not one JSON string (it is named on standard error, the others are
    judged all the same), or FILE.py cannot be used.
    """
    from assay.adapters.pipeline_file import load_contract
    from assay.domain.boundary import judge

    contract = load_contract(file)

    def judged(response: str | bytes) -> Accepted | Rejected:
        return judge(contract, response, truncated=truncated, max_response_bytes=max_bytes)

    if raw is not None:
        unreadable, refused = 0, int(_print(judged(_bytes_of(raw))))
    else:
        unreadable, refused = _judge_lines(judged, sys.stdin.buffer)
    if unreadable:
        raise typer.Exit(BAD_INPUT)
    if fail and refused:
        raise typer.Exit(BROKEN)


def verdict_object(verdict: Accepted | Rejected) -> dict[str, Any]:
    """A verdict as `assay check` prints it."""
    from assay.domain.rejection import Rejected

    if not isinstance(verdict, Rejected):
        return {"verdict": "accepted", "code": None, "kind": None, "retryable": False, "errors": []}
    return {
        "verdict": "rejected",
        "code": verdict.code.value,
        "kind": verdict.kind.value,
        "retryable": verdict.retryable,
        "errors": [{"path": error.path, "type": error.type} for error in verdict.errors],
    }


def _bytes_of(raw: str) -> bytes:
    from assay.domain.failures import ConfigurationError

    if raw == "-":
        return sys.stdin.buffer.read()
    try:
        return Path(raw).read_bytes()
    except OSError as error:
        raise ConfigurationError(f"{raw} cannot be read ({error.strerror}); check --raw.") from error


def _responses(lines: BinaryIO) -> Iterator[tuple[int, str | None]]:
    """Line number and response; None for a line that is not one JSON string. Blank lines are no responses.

    A byte-order mark at the start belongs to the file, not to a response.
    """
    for number, line in enumerate(lines, start=1):
        bare = (line.removeprefix(codecs.BOM_UTF8) if number == 1 else line).strip(b" \t\r\n")
        if bare:
            yield number, _json_string(bare)


def _json_string(line: bytes) -> str | None:
    if not line.startswith(b'"'):
        return None
    try:
        value = json.loads(line.decode("utf-8"))
    except ValueError:
        return None
    return value if isinstance(value, str) else None


def _judge_lines(judged: Judge, lines: BinaryIO) -> tuple[int, int]:
    """Judges every line. Returns how many were not one JSON string, and how many responses were refused."""
    unreadable = refused = 0
    for number, response in _responses(lines):
        if response is None:
            unreadable += 1
            told = f"Line {number} is not one JSON string; write each response as a JSON string on one line."
            complain(told, head="")
        else:
            refused += _print(judged(response))
    return unreadable, refused


def _print(verdict: Accepted | Rejected) -> bool:
    """Prints a verdict. Returns whether the response was refused."""
    from assay.domain.rejection import Rejected

    sys.stdout.write(json.dumps(verdict_object(verdict)) + "\n")
    sys.stdout.flush()
    return isinstance(verdict, Rejected)
