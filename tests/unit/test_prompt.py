"""Prompts: the record's text goes into its own slot, the last message, and nowhere else."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay import Prompt
from assay.domain.failures import ConfigurationError
from assay.domain.prompt import messages


@given(st.text())
def test_the_text_is_placed_literally(text: str) -> None:
    prompt = Prompt("Use {braces} freely.", "Ticket {id}:\n{text}\n{end}")
    assert messages(prompt, text) == (
        ("system", "Use {braces} freely."),
        ("user", f"Ticket {{id}}:\n{text}\n{{end}}"),
    )


def test_a_correction_is_a_message_of_its_own() -> None:
    first = messages(Prompt("S"), "{text}")
    second = messages(Prompt("S"), "{text}", "C")
    assert first == (("system", "S"), ("user", "{text}"))
    assert second == (("system", "S"), ("system", "C"), ("user", "{text}"))
    assert messages(Prompt(""), "t") == (("user", "t"),)


@pytest.mark.parametrize(
    ("system", "user"), [("s", "no slot"), ("s", "{text} {text}"), ("{text}", "{text}"), ("s", "")]
)
def test_the_slot_is_there_once(system: str, user: str) -> None:
    with pytest.raises(ConfigurationError, match="text"):
        Prompt(system, user)


@pytest.mark.parametrize(
    ("content", "system", "user"),
    [
        ("Sort it.\n---\nTicket: {text}\n", "Sort it.", "Ticket: {text}"),
        ("\ufeffSort it.\r\n--- \r\n{text}", "Sort it.", "{text}"),
        ("Sort it.\n", "Sort it.", "{text}"),
        ("Ticket: {text}", "", "Ticket: {text}"),
        ("a --- b\n---\n{text}\n---\nend", "a --- b", "{text}\n---\nend"),
    ],
)
def test_files(tmp_path: Path, content: str, system: str, user: str) -> None:
    path = tmp_path / "p.md"
    path.write_bytes(content.encode())
    assert Prompt.from_file(path) == Prompt(system, user)


def test_a_relative_path_starts_at_the_calling_file() -> None:
    assert "starts at the calling file" in Prompt.from_file("test_prompt.txt").system


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="cannot be read"):
        Prompt.from_file(tmp_path / "missing.md")
    (tmp_path / "latin.md").write_bytes(b"\xff")
    with pytest.raises(ConfigurationError, match="not UTF-8"):
        Prompt.from_file(tmp_path / "latin.md")
