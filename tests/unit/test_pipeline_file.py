"""Loading pipelines and contracts from Python files, and the sentence for each way it can fail."""

from __future__ import annotations

from pathlib import Path

import pytest

from assay.adapters.pipeline_file import load_contract, load_pipeline
from assay.domain.failures import ConfigurationError

TICKET = """
from __future__ import annotations
from typing import Literal
from assay import Confidence, Contract, Pipeline, Prompt, Reason, Route

class Ticket(Contract):
    category: Literal["billing", "other"]
    confidence: Confidence
    reason: Reason
"""
PIPELINE = """
pipeline = Pipeline(name="tickets", contract=Ticket, model="openai:m", prompt=Prompt.from_file("p.md"),
                    route=Route(accept_at=0.85))
"""


def write(folder: Path, text: str, name: str = "tickets.py") -> str:
    (folder / "p.md").write_text("Sort it.", encoding="utf-8")
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_the_only_pipeline_is_found(tmp_path: Path) -> None:
    path = write(tmp_path, TICKET + PIPELINE)
    assert load_pipeline(path).prompt.system == "Sort it."
    assert load_pipeline(f"{path}:pipeline").version == load_pipeline(path).version
    assert load_contract(path).__name__ == "Ticket"
    assert load_contract(f"{path}:pipeline").__name__ == "Ticket"


def test_the_version_does_not_depend_on_where_the_file_is(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    first.mkdir()
    second.mkdir()
    other = write(second, TICKET + PIPELINE, "renamed.py")
    assert load_pipeline(write(first, TICKET + PIPELINE)).version == load_pipeline(other).version


def test_a_file_with_only_a_contract(tmp_path: Path) -> None:
    assert load_contract(write(tmp_path, TICKET)).__name__ == "Ticket"
    with pytest.raises(ConfigurationError, match="holds no Pipeline"):
        load_pipeline(write(tmp_path, TICKET))


def test_the_outermost_contract_is_meant(tmp_path: Path) -> None:
    inner = "\nclass Batch(Contract):\n    items: list[Ticket]\n"
    assert load_contract(write(tmp_path, TICKET + inner)).__name__ == "Batch"
    heir = "\nclass Special(Ticket):\n    more: int\n"
    assert load_contract(write(tmp_path, TICKET + heir)).__name__ == "Special"
    two = TICKET + "\nclass Second(Contract):\n    a: int\n"
    with pytest.raises(ConfigurationError, match=r"several contracts \(Second, Ticket\)"):
        load_contract(write(tmp_path, two))
    assert load_contract(write(tmp_path, two) + ":Second").__name__ == "Second"


def test_two_pipelines_need_a_name(tmp_path: Path) -> None:
    path = write(tmp_path, TICKET + PIPELINE + PIPELINE.replace("pipeline =", "other ="))
    with pytest.raises(ConfigurationError, match=r"several pipelines \(other, pipeline\)"):
        load_pipeline(path)
    assert load_pipeline(f"{path}:other").name == "tickets"
    assert load_contract(path).__name__ == "Ticket"


def test_files_beside_it_can_be_imported(tmp_path: Path) -> None:
    (tmp_path / "beside_this_pipeline.py").write_text("NAME = 'tickets-2'\n", encoding="utf-8")
    text = (
        "from beside_this_pipeline import NAME\n"
        + TICKET.replace("from __future__ import annotations", "")
        + PIPELINE
    )
    assert load_pipeline(write(tmp_path, text.replace('"tickets"', "NAME"))).name == "tickets-2"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("x = (\n", r"tickets\.py, line 1: SyntaxError"),
        ("\n\nraise KeyError('k')\n", r"tickets\.py, line 3: KeyError: 'k'\."),
        ("import nothing_of_this_name\n", r"line 1: ModuleNotFoundError: No module named"),
        ("import sys\nsys.exit(3)\n", r"line 2: SystemExit: 3\."),
        (
            TICKET + "\nclass Bad(Contract):\n    a: int = 1\n",
            r"line 11: UnsupportedAnnotation: Bad.a has a default",
        ),
        (TICKET + PIPELINE.replace("tickets", "Tickets"), r"line 11: A pipeline's name is"),
        ("x = 1\n", "holds no"),
    ],
)
def test_a_broken_file_is_one_sentence_with_its_line(tmp_path: Path, text: str, says: str) -> None:
    path = write(tmp_path, text)
    with pytest.raises(ConfigurationError, match=says) as error:
        load_pipeline(path)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("load", [load_pipeline, load_contract])
def test_specs_that_name_nothing(tmp_path: Path, load: type) -> None:
    path = write(tmp_path, TICKET + PIPELINE)
    with pytest.raises(ConfigurationError, match="There is no file"):
        load(str(tmp_path / "missing.py"))
    with pytest.raises(ConfigurationError, match="defines no nothing"):
        load(f"{path}:nothing")
    with pytest.raises(ConfigurationError, match=r"not a Pipeline|neither a Contract"):
        load(f"{path}:Literal")
    with pytest.raises(ConfigurationError, match=r"end in \.py"):
        load(str(tmp_path / "p.md"))
