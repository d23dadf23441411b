"""Whose code a rule uses: the pipeline's own is read, wherever it is reached; other people's has a name."""

from __future__ import annotations

from pathlib import Path, PurePath

from test_source_values import FILE, load

from assay.adapters.pipeline_file import load_contract
from assay.domain.source_reader import SourceReader, Texts


def test_the_number_of_loads_and_the_way_to_a_value_do_not_count(tmp_path: Path) -> None:
    text = FILE.replace("import abc", "import contextlib, sys, os.path as paths, abc").replace(
        "bool(THING)", "bool(THING) and managed and THIS and paths.join and mutual(1)"
    )
    text += """
THIS = sys.modules[__name__]

@contextlib.contextmanager
def managed():
    yield

def mutual(value):
    return THINGS

def other(value):
    return mutual(value)

THINGS = [other, mutual]
"""
    found = load(tmp_path / "one", "1", text=text)
    assert load(tmp_path / "two", "1", text=text) == found
    assert "pipeline_file" not in str(found)
    assert "posix" not in str(found)
    assert found["THINGS"] == "[@other, @mutual]"


def test_a_validator_from_elsewhere_counts_by_name(tmp_path: Path) -> None:
    text = """
import os.path, statistics
from typing import Annotated
from pydantic import AfterValidator
from assay import Contract

class Row(Contract):
    a: Annotated[str, AfterValidator(statistics.mean)]
"""
    assert load(tmp_path / "one", "", text=text) == {"Row.a.0": "statistics.mean"}


def test_an_inherited_rule_is_read_where_it_is(tmp_path: Path) -> None:
    def found(limit: int, edge: int) -> dict[str, str]:
        shared = tmp_path / f"shared{limit}{edge}"
        shared.mkdir()
        (shared / f"base{limit}{edge}.py").write_text(
            f"from assay import Contract, rule\nLIMIT = {limit}\n\nclass Base(Contract):\n"
            "    @rule(version=1)\n    def holds(self) -> bool:\n        return LIMIT < self.edge()\n",
            encoding="utf-8",
        )
        text = (
            f"import sys\nsys.path.append({str(shared)!r})\nfrom base{limit}{edge} import Base\n\n"
            f"class Row(Base):\n    a: int\n\n    def edge(self):\n        return {edge}\n"
        )
        return load(tmp_path / f"{limit}{edge}", "", text=text)

    one = found(1, 1)
    assert set(one) == {"Row.holds", "Row.edge", "LIMIT"}
    assert one["LIMIT"] != found(2, 1)["LIMIT"]
    assert one["Row.edge"] != found(1, 2)["Row.edge"]


def test_installed_code_below_the_folder_is_not_the_pipelines(tmp_path: Path) -> None:
    """As in a home folder that has an interpreter and a checkout below it."""
    text = FILE.replace("bool(THING)", "dataclasses.is_dataclass(self) and bool(THING)")
    text = text.replace("THING = None", "THING = dataclasses.is_dataclass, collections.Counter, Contract")
    folder = PurePath("/")
    contract = load_contract(f"{_written(tmp_path, text)}:Row")
    texts = Texts()
    SourceReader("Row.holds", contract, contracts=frozenset({contract}), folders=(folder,), texts=texts,
                 declared=None).read(vars(contract)["holds"])  # fmt: skip
    assert texts.by_name["THING"] == "(dataclasses.is_dataclass, collections.Counter, assay.Contract,)"


def _written(folder: Path, text: str) -> Path:
    path = folder / "rows.py"
    path.write_text(text, encoding="utf-8")
    return path
