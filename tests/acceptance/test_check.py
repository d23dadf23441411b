"""`assay check` as people use it: a process, its standard input, its output and its exit code."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import threading
from pathlib import Path

import pytest

CONTRACT = """
from typing import Literal
from assay import Confidence, Contract, Reason

class Ticket(Contract):
    category: Literal["billing", "technical", "other"]
    confidence: Confidence
    reason: Reason
"""
GOOD = '{"category":"billing","confidence":0.93,"reason":"asks about an invoice"}'
ACCEPTED: dict[str, object] = {
    "verdict": "accepted",
    "code": None,
    "kind": None,
    "retryable": False,
    "errors": [],
}
COMMAND = [sys.executable, "-c", "from assay.cli.main import main; main()", "check"]


@pytest.fixture
def contract(tmp_path: Path) -> str:
    path = tmp_path / "tickets.py"
    path.write_text(CONTRACT, encoding="utf-8")
    return str(path)


def check(*arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([*COMMAND, *arguments], input=stdin, capture_output=True, check=False, timeout=120)


def lines(*responses: str) -> bytes:
    return "".join(json.dumps(response) + "\n" for response in responses).encode()


def printed(done: subprocess.CompletedProcess[bytes]) -> list[dict[str, object]]:
    return [json.loads(line) for line in done.stdout.splitlines()]


def codes(done: subprocess.CompletedProcess[bytes]) -> list[object]:
    return [verdict["code"] for verdict in printed(done)]


def test_one_object_per_response_in_order(contract: str) -> None:
    done = check(
        contract,
        stdin=lines(
            GOOD,
            f"以下是结果：{GOOD}",
            GOOD.replace("0.93", '"0.93"'),
            GOOD.replace("}", ',"x":1}'),
            "",
            GOOD.replace("billing", "refund"),
            GOOD.replace("asks", "\ud800"),
            GOOD.replace("{", '{"category":"other",'),
            GOOD.replace("0.93", "1" + "0" * 400),
        ),
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.isascii()
    assert printed(done)[0] == ACCEPTED
    assert list(printed(done)[0]) == ["verdict", "code", "kind", "retryable", "errors"]
    assert printed(done)[2] == {
        "verdict": "rejected",
        "code": "schema_type_error",
        "kind": "malformed",
        "retryable": False,
        "errors": [{"path": "/confidence", "type": "float_type"}],
    }
    assert codes(done)[1:] == [
        "json_invalid",
        "schema_type_error",
        "schema_extra_field",
        "response_empty",
        "schema_validation_error",
        "schema_validation_error",
        "json_duplicate_key",
        "schema_validation_error",
    ]
    assert printed(done)[4]["retryable"] is True
    assert done.stderr == b""


def test_no_response_at_all(contract: str) -> None:
    done = check(contract)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_a_byte_order_mark_of_the_input_is_no_part_of_a_response(contract: str) -> None:
    done = check(contract, stdin=b"\xef\xbb\xbf" + lines(GOOD, "\ufeff" + GOOD))
    assert (done.returncode, codes(done)) == (0, [None, "json_invalid"])


def test_closed_standard_streams_are_no_crash(contract: str) -> None:
    for closed in ("<&-", ">&-"):
        command = f"{shlex.join([*COMMAND, contract])} {closed}"
        done = subprocess.run(
            ["/bin/sh", "-c", command], input=lines(GOOD), capture_output=True, check=False, timeout=60
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_a_line_that_is_not_a_json_string_loses_nothing(contract: str) -> None:
    stdin = (
        lines(GOOD)
        + GOOD.encode()
        + b"\n\n"
        + b'"\xff"\n'
        + b'"a" "b"\n'
        + b"[" * 100_000
        + b"\n"
        + json.dumps(GOOD).encode()
    )
    done = check(contract, stdin=stdin)
    assert done.returncode == 2
    assert codes(done) == [None, None]
    told = done.stderr.decode().splitlines()
    assert [line.split()[1] for line in told] == ["2", "4", "5", "6"]
    assert "billing" not in done.stderr.decode()


def test_raw_bytes_of_a_file_and_of_standard_input(contract: str, tmp_path: Path) -> None:
    raw = tmp_path / "response.bin"
    cases = {
        GOOD.encode(): None,
        b"\xef\xbb\xbf" + GOOD.encode(): "json_invalid",
        b"\xff\x00": "json_invalid",
        b"": "response_empty",
        b"x" * 9000: "response_too_large",
    }
    for content, code in cases.items():
        raw.write_bytes(content)
        for done in (check(contract, "--raw", str(raw)), check(contract, "--raw", "-", stdin=content)):
            assert (done.returncode, codes(done)) == (0, [code])
    missing = check(contract, "--raw", str(tmp_path / "missing"))
    assert missing.returncode == 2
    assert missing.stderr.decode().count("\n") == 1


def test_a_refusal_is_an_exit_code_where_that_is_asked_for(contract: str, tmp_path: Path) -> None:
    raw = tmp_path / "response.bin"
    for content, code in ((GOOD, 0), (f"Sure! {GOOD}", 1)):
        raw.write_text(content, encoding="utf-8")
        done = check(contract, "--raw", str(raw), "--fail")
        assert (done.returncode, len(printed(done)), done.stderr) == (code, 1, b"")
    assert check(contract, "--fail", stdin=lines(GOOD, GOOD)).returncode == 0
    mixed = check(contract, "--fail", stdin=lines(GOOD, "", GOOD))
    assert (mixed.returncode, codes(mixed)) == (1, [None, "response_empty", None])
    # A line that cannot be read is worse than a refusal: it was not judged.
    assert check(contract, "--fail", stdin=lines("") + b"no string").returncode == 2
    assert check(contract, stdin=lines(GOOD, "", GOOD)).returncode == 0


def test_limit_and_truncation(contract: str) -> None:
    assert codes(check(contract, "--max-bytes", "10", stdin=lines(GOOD))) == ["response_too_large"]
    assert codes(check(contract, "--truncated", stdin=lines(GOOD))) == ["response_truncated"]


def test_very_large_and_very_deep_responses(contract: str) -> None:
    done = check(
        contract,
        "--max-bytes",
        "100000000",
        stdin=lines(
            GOOD.replace("asks", "x" * 50_000_000),
            "[" * 100_000 + "]" * 100_000,
            '{"category":' * 100_000 + "1" + "}" * 100_000,
            "[" * 100_000,
            GOOD,
        ),
    )
    assert done.returncode == 0, done.stderr[-1000:]
    assert codes(done) == [
        "schema_validation_error",
        "schema_type_error",
        "schema_type_error",
        "json_invalid",
        None,
    ]


def test_nothing_of_a_response_is_printed(contract: str) -> None:
    token = "zq-planted-7f3a"
    done = check(
        contract,
        stdin=lines(
            token,
            GOOD.replace("asks", token),
            GOOD.replace("billing", token),
            GOOD.replace("}", f',"{token}":1}}'),
            GOOD.replace('"asks about an invoice"', f'{{"{token}":["{token}"]}}'),
        )
        + token.encode(),
    )
    assert len(printed(done)) == 5
    assert token.encode() not in done.stdout + done.stderr


def test_answers_come_while_input_is_open(contract: str) -> None:
    process = subprocess.Popen([*COMMAND, contract], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    guard = threading.Timer(60, process.kill)
    guard.start()
    try:
        for response, code in ((GOOD, None), ("x", "json_invalid")):
            process.stdin.write(lines(response))
            process.stdin.flush()
            assert json.loads(process.stdout.readline())["code"] == code
        process.stdin.close()
        assert process.wait() == 0
    finally:
        guard.cancel()
        process.stdout.close()


def test_a_reader_that_leaves_is_no_error_to_shout_about(contract: str) -> None:
    read, write = os.pipe()
    os.close(read)
    try:
        done = subprocess.run(
            [*COMMAND, contract],
            input=lines(*[GOOD] * 100),
            stdout=write,
            stderr=subprocess.PIPE,
            check=False,
            timeout=60,
        )
    finally:
        os.close(write)
    assert done.returncode in (1, 141)
    assert done.stderr == b""


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("raise KeyError('k')\n", "line 1: KeyError"),
        ("x = 1\n", "holds no Contract"),
        ("x = (\n", "SyntaxError"),
    ],
)
def test_a_file_that_cannot_be_used_is_one_sentence(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "broken.py"
    path.write_text(text, encoding="utf-8")
    done = check(str(path), stdin=lines(GOOD))
    assert done.returncode == 2
    assert done.stdout == b""
    assert done.stderr.decode().count("\n") == 1
    assert says in done.stderr.decode()
