"""`assay check`: judges responses against a contract, without a database."""

from __future__ import annotations

import codecs
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, Final

import typer

from assay.cli.errors import BAD_INPUT, BROKEN
from assay.cli.said import complain

Line = tuple[int, tuple[str, str | None] | None]
_FORMS: Final = {
    False: "one JSON string; write each response as a JSON string on one line.",
    True: "a JSON array of two strings; write response and record text so, or give the text with --text.",
}

if TYPE_CHECKING:
    from assay.domain.boundary import Accepted
    from assay.domain.rejection import Rejected

    Judge = Callable[[str | bytes, str | None], Accepted | Rejected]


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
    text: Annotated[
        str | None,
        typer.Option(
            "--text",
            metavar="FILE",
            help="The record's text, for a contract with quotes or rules that see it.",
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
    verdict, code, kind, retryable, errors. A contract that looks into the record's text (quotes, rules that
    see it) needs `--text`, or lines that are arrays of two strings, response and text. Exit codes: 0 all were
    read, accepted or refused; 1 with --fail: at least one was refused; 2 a line was not of that form (it is
    named on standard error, the others are judged all the same), or FILE.py cannot be used.
    """
    from assay.adapters.pipeline_file import load_contract
    from assay.domain.boundary import judge
    from assay.domain.contract import plan_of
    from assay.domain.failures import ConfigurationError

    contract = load_contract(file)
    known = None if text is None else _text_of(text)
    wants_text = plan_of(contract).sees_text and known is None

    def judged(response: str | bytes, shown: str | None) -> Accepted | Rejected:
        return judge(contract, response, text=shown, truncated=truncated, max_response_bytes=max_bytes)

    if raw is not None and wants_text:
        raise ConfigurationError(
            f"{contract.__name__} looks into the record's text; give the file that holds it with --text."
        )
    if raw is not None:
        unreadable, refused = 0, int(_print(judged(_bytes_of(raw, "--raw"), known)))
    else:
        lines = _pairs(sys.stdin.buffer) if wants_text else _responses(sys.stdin.buffer, known)
        unreadable, refused = _judge_lines(judged, lines, _FORMS[wants_text])
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


def _text_of(name: str) -> str:
    """The record's text in a file: UTF-8, with nothing left out at its ends but a byte-order mark."""
    from assay.domain.failures import ConfigurationError

    try:
        return _bytes_of(name, "--text").decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"{name} is not UTF-8; save it as UTF-8.") from error


def _bytes_of(raw: str, option: str) -> bytes:
    from assay.domain.failures import ConfigurationError

    if raw == "-":
        return sys.stdin.buffer.read()
    try:
        return Path(raw).read_bytes()
    except OSError as error:
        raise ConfigurationError(f"{raw} cannot be read ({error.strerror}); check {option}.") from error


def _responses(lines: BinaryIO, text: str | None) -> Iterator[Line]:
    """Line number, response and the one text; None for a line that is not one JSON string."""
    for number, line in _filled(lines):
        response = _json_string(line)
        yield number, None if response is None else (response, text)


def _pairs(lines: BinaryIO) -> Iterator[Line]:
    """Line number, response and text; None for a line that is not an array of two JSON strings."""
    for number, line in _filled(lines):
        try:
            pair: object = json.loads(line)
        except (ValueError, RecursionError):
            pair = None
        match pair:
            case [str() as response, str() as text]:
                yield number, (response, text)
            case _:
                yield number, None


def _filled(lines: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """Number and content of lines. Blank lines are no responses.

    A byte-order mark at the start belongs to the file, not to a response.
    """
    for number, line in enumerate(lines, start=1):
        bare = (line.removeprefix(codecs.BOM_UTF8) if number == 1 else line).strip(b" \t\r\n")
        if bare:
            yield number, bare


def _json_string(line: bytes) -> str | None:
    if not line.startswith(b'"'):
        return None
    try:
        value = json.loads(line.decode("utf-8"))
    except ValueError:
        return None
    return value if isinstance(value, str) else None


def _judge_lines(judged: Judge, lines: Iterator[Line], form: str) -> tuple[int, int]:
    """Judges every line. Returns how many were not of the form, and how many responses were refused."""
    unreadable = refused = 0
    for number, found in lines:
        if found is None:
            unreadable += 1
            complain(f"Line {number} is not {form}", head="")
        else:
            refused += _print(judged(*found))
    return unreadable, refused


def _print(verdict: Accepted | Rejected) -> bool:
    """Prints a verdict. Returns whether the response was refused."""
    from assay.domain.rejection import Rejected

    sys.stdout.write(json.dumps(verdict_object(verdict)) + "\n")
    sys.stdout.flush()
    return isinstance(verdict, Rejected)
