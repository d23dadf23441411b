"""The practice vendor as a process, and clients that are killed."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from urllib.request import urlopen

import aiohttp
import pytest
import typer
from typer.testing import CliRunner
from vendor_client import FAULTS, Client, journal_of

from assay.cli.vendor import vendor as vendor_command
from assay.demo.generator import DemoTicket, generate, write_jsonl
from assay.domain.failures import ConfigurationError
from assay.vendor.journal import read_changes, read_journal
from assay.vendor.server import start_vendor
from assay.vendor.settings import VendorConfig, VendorSettingsError

COUNT = 400

# Sends its calls and waits for answers that will not come in time.
CLIENT = """
import asyncio, json, sys, aiohttp
async def main(url, gold, calls):
    texts = [json.loads(line)["text"] for line in open(gold, encoding="utf-8", newline="\\n")][:calls]
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        async def ask(text):
            body = {"model": "m", "messages": [{"role": "user", "content": text}]}
            async with session.post(url + "/chat/completions", json=body) as response:
                await response.read()
        await asyncio.gather(*map(ask, texts))
asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
"""


@pytest.fixture(scope="module")
def tickets() -> list[DemoTicket]:
    return list(generate(COUNT, seed=11))


@pytest.fixture(scope="module")
def gold(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("gold") / "tickets.jsonl"
    write_jsonl(path, COUNT, seed=11)
    return path


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as opened:
        yield opened


async def test_a_killed_client_leaves_its_calls_in_thejournal_of(gold: Path, tmp_path: Path) -> None:
    config = VendorConfig(gold, latency=60.0, latency_spread=0.0, journal=tmp_path / "journal.jsonl")
    async with start_vendor(config) as vendor:
        client = await asyncio.create_subprocess_exec(
            sys.executable, "-c", CLIENT, vendor.base_url, str(gold), "20"
        )
        await vendor.until(lambda stats: stats.in_flight == 20)
        client.send_signal(signal.SIGKILL)
        assert await client.wait() == -9
        await vendor.until(lambda stats: stats.ended == 20)
        assert vendor.stats().by_outcome == {"client_gone": 20}
    entries = journal_of(tmp_path / "journal.jsonl")
    assert len(entries) == 20
    for entry in entries:
        assert (entry["outcome"], entry["status"]) == ("client_gone", None)
        assert isinstance(entry["completion_tokens"], int)
        assert entry["completion_tokens"] > 0


async def test_lines_equal_calls_when_a_client_is_killed_at_work(gold: Path, tmp_path: Path) -> None:
    config = VendorConfig(
        gold, latency=0.2, latency_spread=0.9, journal=tmp_path / "journal.jsonl", faults=FAULTS
    )
    async with start_vendor(config) as vendor:
        client = await asyncio.create_subprocess_exec(
            sys.executable, "-c", CLIENT, vendor.base_url, str(gold), "300"
        )
        await vendor.until(lambda stats: stats.ended >= 100)
        client.send_signal(signal.SIGKILL)
        assert await client.wait() == -9
        await vendor.until(lambda stats: stats.in_flight == 0)
        calls = vendor.stats().calls
        outcomes = vendor.stats().by_outcome
    entries = journal_of(tmp_path / "journal.jsonl")
    assert len(entries) == calls >= 100
    assert outcomes["client_gone"] > 0
    assert outcomes["replied"] + outcomes["client_gone"] == calls


async def test_a_stop_ends_calls_in_flight_and_journals_them(
    gold: Path, tickets: list[DemoTicket], session: aiohttp.ClientSession, tmp_path: Path
) -> None:
    config = VendorConfig(gold, latency=60.0, journal=tmp_path / "journal.jsonl")
    async with start_vendor(config) as vendor:
        call = asyncio.create_task(Client(vendor.base_url, session).ask(tickets[0].text))
        await vendor.until(lambda stats: stats.in_flight == 1)
    with pytest.raises(aiohttp.ClientError):
        await call
    assert [entry["outcome"] for entry in journal_of(tmp_path / "journal.jsonl")] == ["vendor_stopped"]


async def test_a_taken_port_is_said(gold: Path) -> None:
    async with start_vendor(VendorConfig(gold)) as vendor:
        with pytest.raises(VendorSettingsError, match="--port"):
            async with start_vendor(VendorConfig(gold, port=vendor.port)):
                pytest.fail("two vendors on one port")


@pytest.fixture
def process(gold: Path, tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    command = [
        sys.executable,
        "-m",
        "assay.vendor",
        "--gold",
        f"{gold}#category",
        "--latency",
        "0",
        "--seed",
        "3",
    ]
    command += ["--journal", str(tmp_path / "journal.jsonl"), "--ready-file", str(tmp_path / "ready")]
    command += ["--stop-with-stdin"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as running:
        yield running
        running.kill()


def _base_url(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line.startswith("vendor listening on http://127.0.0.1:")
    return line.split()[-1]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_process_says_where_it_listens_and_stops_cleanly(
    process: subprocess.Popen[str], tmp_path: Path, number: signal.Signals
) -> None:
    url = _base_url(process)
    assert (tmp_path / "ready").read_text(encoding="utf-8") == url + "\n"
    with urlopen(f"{url}/models") as response:
        assert response.status == 200
    process.send_signal(number)
    assert process.wait(timeout=20) == 0
    assert not (tmp_path / "ready").exists()


def test_a_process_stops_when_its_starter_is_gone(process: subprocess.Popen[str]) -> None:
    _base_url(process)
    assert process.stdin is not None
    process.stdin.close()
    assert process.wait(timeout=20) == 0


async def test_a_killed_vendor_leaves_a_wholejournal_of(
    process: subprocess.Popen[str], tickets: list[DemoTicket], session: aiohttp.ClientSession, tmp_path: Path
) -> None:
    client = Client(_base_url(process), session)
    for ticket in tickets[:25]:
        await client.ask(ticket.text)
    process.send_signal(signal.SIGKILL)
    assert process.wait(timeout=20) == -9
    entries = journal_of(tmp_path / "journal.jsonl")
    assert [entry["sequence"] for entry in entries] == list(range(1, 26))


def _started(options: list[str]) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "assay.vendor", *options]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


async def test_options_of_every_kind_reach_the_vendor(
    gold: Path, tickets: list[DemoTicket], session: aiohttp.ClientSession, tmp_path: Path
) -> None:
    timeline, journal = tmp_path / "timeline.json", tmp_path / "journal.jsonl"
    timeline.write_text('[{"at": 0, "switched_model": "m-9"}]', encoding="utf-8")
    options = ["--gold", str(gold), "--seed", "3", "--latency", "0.001", "--stop-with-stdin"]
    options += ["--rate-limit-share", "0", "--server-error-share", "0", "--prose-share", "0"]
    options += ["--string-confidence-share", "0", "--extra-field-share", "0", "--truncation-share", "0"]
    options += ["--fault", "model_switch=0.5", "--fault", "missing_usage=0.5", "--set", "cached_share=0.5"]
    options += ["--latency-distribution", "lognormal", "--latency-p99", "0.002", "--price", "1,4"]
    options += ["--limit-requests", "600", "--limit-burst", "60", "--idempotency", "honoured"]
    options += ["--timeline", str(timeline), "--journal", str(journal)]
    with _started(options) as running:
        client = Client(_base_url(running), session)
        replies = [await client.ask(ticket.text) for ticket in tickets[:20]]
        assert running.stdin is not None
        running.stdin.close()
        assert running.wait(timeout=20) == 0
    assert {reply.body["model"] for reply in replies} == {"m", "m-9"}
    assert {"usage" in reply.body for reply in replies} == {True, False}
    assert replies[0].headers["x-ratelimit-limit-requests"] == "600"
    entries = read_journal(journal)
    assert len(entries) == 20
    assert all(entry.billed and entry.cost and entry.cached_tokens for entry in entries)
    assert len(read_changes(journal)) == 1


def test_the_command_says_what_to_do(gold: Path, tmp_path: Path) -> None:
    app = typer.Typer()
    app.command()(vendor_command)
    shown = CliRunner().invoke(app, ["--help"], env={"COLUMNS": "160", "NO_COLOR": "1"})
    assert "--rate-limit-share" in shown.output
    for wrong in (
        ["--host", "0.0.0.0"],
        ["--error-rate", "2"],
        ["--gold", "nowhere.csv"],
        ["--fault", "hiccup=0.1"],
        ["--fault", "hang"],
        ["--set", "port=5"],
        ["--price", "free"],
        ["--latency-distribution", "normal"],
        ["--timeline", "nowhere.json"],
    ):
        result = CliRunner().invoke(app, ["--gold", str(gold), *wrong])
        assert isinstance(result.exception, ConfigurationError)
    command = [sys.executable, "-m", "assay.vendor", "--gold", str(tmp_path / "nowhere.jsonl")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("vendor: the gold file")
    assert "Traceback" not in done.stderr
