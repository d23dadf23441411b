"""The table of events: nothing is said that it does not name, and the documents say what it says."""

from __future__ import annotations

import ast
import asyncio
import json
import logging
import re
import runpy
import threading
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from uuid import UUID

import pytest

import assay
from assay.cli.logging_setup import set_up_logging
from assay.domain.failures import ConfigurationError
from assay.telemetry import CONTEXT, EVENTS, FIELDS, Undeclared, bound, tell

SOURCE = Path(assay.__file__).parent
TOKEN = "Zq7SecretTokenXw"
_WORD = re.compile(r"[a-z][a-z0-9_]*")


@pytest.fixture(autouse=True)
def own_handlers() -> Iterator[None]:
    """Logging as it was before: the handler of the test runner, above all."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.getLogger("assay").setLevel(logging.NOTSET)


@pytest.fixture
def production(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ASSAY_LOG_STRICT", raising=False)
    set_up_logging({"ASSAY_LOG": "json", "ASSAY_LOG_LEVEL": "debug"})


@pytest.fixture
def strict(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASSAY_LOG_STRICT", "1")
    set_up_logging({"ASSAY_LOG": "json", "ASSAY_LOG_LEVEL": "debug"})


def lines(captured: pytest.CaptureFixture[str]) -> list[dict[str, object]]:
    return [json.loads(line) for line in captured.readouterr().err.splitlines()]


def test_the_table_names_every_field_of_every_event() -> None:
    for name, event in EVENTS.items():
        assert _WORD.fullmatch(name)
        assert set(event.fields) <= FIELDS.keys()
        assert not set(event.fields) & set(CONTEXT), name
        assert event.level in (logging.INFO, logging.WARNING, logging.ERROR)
        assert event.meaning.endswith(".")
    assert all(_WORD.fullmatch(name) for name in FIELDS)
    used = {field for event in EVENTS.values() for field in event.fields} | set(CONTEXT) | {"dropped"}
    assert used == FIELDS.keys()


def told_in_the_source() -> Iterator[tuple[str, ast.Call]]:
    """Every call of `tell` with a literal event name."""
    for module in sorted(SOURCE.rglob("*.py")):
        text = module.read_text("utf-8")
        if "telemetry import" not in text:
            continue
        names = {
            alias.asname or alias.name
            for node in ast.walk(ast.parse(text))
            if isinstance(node, ast.ImportFrom) and node.module == "assay.telemetry"
            for alias in node.names
            if alias.name == "tell"
        }
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in names:
                yield f"{module.relative_to(SOURCE)}:{node.lineno}", node


def test_the_source_says_what_the_table_names_and_nothing_else() -> None:
    calls = list(told_in_the_source())
    assert calls
    for place, call in calls:
        assert call.args, place
        assert isinstance(call.args[0], ast.Constant), f"{place}: the event is a literal"
        event = EVENTS[str(call.args[0].value)]
        given = {keyword.arg for keyword in call.keywords} - {"error"}
        assert None not in given, f"{place}: fields are named, not passed on"
        assert given <= set(event.fields), place


def test_a_line_has_its_time_level_context_and_fields(
    production: None, capsys: pytest.CaptureFixture[str]
) -> None:
    with bound(worker="host:1:ab", pipeline="tickets", pipeline_version="abcdef012345", run_id="r1"):
        tell("lease_lost", task_id=7, attempt_id=UUID(int=1), record_id="r-1", source="t.jsonl", offset=3)
    (line,) = lines(capsys)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", str(line.pop("time")))
    assert line == {
        "level": "warning", "event": "lease_lost", "worker": "host:1:ab", "run_id": "r1",
        "pipeline": "tickets", "pipeline_version": "abcdef012345", "source": "t.jsonl", "offset": 3,
        "record_id": "r-1", "task_id": 7, "attempt_id": str(UUID(int=1)),
    }  # fmt: skip


def test_what_is_not_declared_is_left_out_and_counted(
    production: None, capsys: pytest.CaptureFixture[str]
) -> None:
    tell("run_ended", reason="done", text=TOKEN, label=TOKEN, code=f"no code {TOKEN}", read="many")
    tell(TOKEN, text=TOKEN)
    told = capsys.readouterr().err
    assert TOKEN not in told
    ended, unknown = (json.loads(line) for line in told.splitlines())
    assert (ended["reason"], ended["dropped"]) == ("done", 4)
    assert "read" not in ended
    assert (unknown["event"], unknown["level"]) == ("undeclared_event", "warning")
    assert isinstance(unknown["count"], int)


def test_tests_do_not_let_it_pass(strict: None) -> None:
    with pytest.raises(Undeclared):
        tell("no_such_event")
    with pytest.raises(Undeclared):
        tell("run_ended", text="x")
    with pytest.raises(Undeclared):
        tell("run_ended", read="many")
    set_up_logging({"ASSAY_LOG_LEVEL": "error"})
    with pytest.raises(Undeclared):
        tell("run_ended", text="x")


def test_an_exception_is_told_by_type_and_place(production: None, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        int(TOKEN)
    except ValueError as error:
        tell("provider_adapter_error", error=error, task_id=1)
    try:
        set_up_logging({"ASSAY_LOG": TOKEN})
    except ConfigurationError as error:
        tell("provider_adapter_error", error=error)
    told = capsys.readouterr().err
    assert TOKEN not in told
    outside, inside = (json.loads(line) for line in told.splitlines())
    assert outside["error_type"] == "ValueError"
    assert re.fullmatch(r"test_telemetry\.py:\d+ \w+", outside["error_at"])
    assert inside["error_type"] == "ConfigurationError"
    assert re.fullmatch(r"assay/cli/logging_setup\.py:\d+ \w+", inside["error_at"])


@pytest.mark.parametrize("form", ["json", "human"])
def test_a_librarys_text_is_left_out(form: str, capsys: pytest.CaptureFixture[str]) -> None:
    set_up_logging({"ASSAY_LOG": form})
    logger = logging.getLogger("psycopg.pool")
    logger.warning("connection to %s failed: %s", TOKEN, TOKEN, extra={"assay_fields": {"text": TOKEN}})
    try:
        int(TOKEN)
    except ValueError:
        logger.exception("text %s", TOKEN)
    told = capsys.readouterr().err
    assert TOKEN not in told
    assert told.count("library_message") == 2
    assert told.count("psycopg.pool") == 2
    assert "ValueError" in told


@pytest.mark.parametrize("form", ["json", "human"])
def test_a_name_never_starts_a_line_nor_moves_a_cursor(form: str, capsys: pytest.CaptureFixture[str]) -> None:
    set_up_logging({"ASSAY_LOG": form})
    tell("lease_lost", record_id="r\n\x1b[2J{}\u202e" + "x" * 1000, source="tickets\u2028.jsonl")
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    assert "\x1b" not in told
    assert "\u202e" not in told
    assert len(told) < 600


def test_context_reaches_other_threads_and_tasks(
    production: None, capsys: pytest.CaptureFixture[str]
) -> None:
    async def one(name: str) -> None:
        with bound(pipeline=name):
            await asyncio.sleep(0)
            tell("drain_started", held=1)

    async def both() -> None:
        await asyncio.gather(one("a"), one("b"))

    asyncio.run(both())
    with bound(pipeline="c"):
        thread = threading.Thread(target=tell, args=("drain_started",))
        thread.start()
        thread.join()
    tell("drain_started")
    assert [line.get("pipeline") for line in lines(capsys)] == ["a", "b", "c", None]


def test_numbers_stay_numbers(production: None, capsys: pytest.CaptureFixture[str]) -> None:
    tell("spend_cap_reached", scope="day", cap=Decimal("1.5"), cost=2)
    (line,) = lines(capsys)
    assert (line["cap"], line["cost"]) == (1.5, 2)


def test_levels(capsys: pytest.CaptureFixture[str]) -> None:
    for level, heard in (("info", 3), ("warning", 2), ("error", 1), ("critical", 0)):
        set_up_logging({"ASSAY_LOG": "json", "ASSAY_LOG_LEVEL": level})
        tell("drain_started")
        tell("lease_lost")
        tell("version_stopped", code="provider_auth")
        assert len(lines(capsys)) == heard
    with pytest.raises(ConfigurationError, match="ASSAY_LOG_LEVEL"):
        set_up_logging({"ASSAY_LOG_LEVEL": "loud"})


def test_the_page_says_what_the_table_says() -> None:
    root = Path(__file__).parents[2]
    rendered = runpy.run_path(str(root / "tools" / "render_logs.py"))["render"]()
    assert (root / "docs" / "logs.md").read_text("utf-8") == rendered
