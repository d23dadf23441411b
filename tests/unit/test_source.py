"""The source of rules and validators in the version: meaning counts, form does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from assay.adapters.pipeline_file import load_contract
from assay.domain.failures import ConfigurationError
from assay.domain.source import validator_sources

BASE = '''
import enum
from decimal import Decimal
from typing import Annotated
from pydantic import AfterValidator, field_validator
from assay import Contract, rule

LIMIT = Decimal("10")
ALLOWED = {"b", "a"}

def near(a, b):
    """Docstring."""
    return abs(a - b) < step()

def step():
    return 1

def unrelated():
    return 0

class Mode(enum.Enum):
    ON = "on"

def short(value: str) -> str:
    if len(value) > 3:
        raise ValueError
    return value

class Sum(Contract):
    a: int
    b: int
    name: Annotated[str, AfterValidator(short)]
    mode: Mode

    @field_validator("a")
    @classmethod
    def even(cls, value: int) -> int:
        assert value % 2 == 0
        return value

    def total(self):
        return self.a + self.b

    @rule(version=1)
    def adds_up(self) -> bool:
        # a comment
        return near(self.total(), LIMIT) and self.name in ALLOWED and self.mode is Mode.ON
'''


def sources(folder: Path, text: str, declared: str | None = None) -> dict[str, str]:
    path = folder / "contract_file.py"
    path.write_text(text, encoding="utf-8")
    return validator_sources(load_contract(str(path)), declared=declared)


def test_what_is_part_of_it(tmp_path: Path) -> None:
    assert set(sources(tmp_path, BASE)) == {
        "Sum.adds_up", "Sum.even", "Sum.name.0", "Sum.total", "near", "step", "LIMIT", "ALLOWED", "Mode",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("# a comment", "# another"),
        ('"""Docstring."""', '"""Other words."""'),
        ("return near(self.total(), LIMIT)", "return near(\n            self.total(),\n            LIMIT)"),
        ("return 0", "return 5"),
        ('{"b", "a"}', '{"a", "b"}'),
    ],
)
def test_form_does_not_count(tmp_path: Path, before: str, after: str) -> None:
    assert before in BASE
    assert sources(tmp_path, BASE) == sources(tmp_path, BASE.replace(before, after, 1))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('Decimal("10")', 'Decimal("11")'),
        ('{"b", "a"}', '{"b"}'),
        ("return 1", "return 2"),
        ("abs(a - b)", "abs(b - a) + 1"),
        ("value % 2", "value % 3"),
        ("> 3", "> 4"),
        ("self.a + self.b", "self.a - self.b"),
        ('"on"', '"off"'),
        ("version=1", "version=2"),
    ],
)
def test_meaning_counts(tmp_path: Path, before: str, after: str) -> None:
    assert before in BASE
    assert sources(tmp_path, BASE) != sources(tmp_path, BASE.replace(before, after, 1))


def test_a_function_without_source_needs_a_declared_version(tmp_path: Path) -> None:
    text = BASE.replace("AfterValidator(short)", "AfterValidator(lambda value: value)")
    with pytest.raises(ConfigurationError, match="rules_version="):
        sources(tmp_path, text)
    assert "Sum.adds_up" in sources(tmp_path, text, declared="1")


def test_functions_of_a_file_beside_it_count_too(tmp_path: Path) -> None:
    beside = tmp_path / "beside_sums.py"
    beside.write_text("def near(a, b):\n    return a == b\n", encoding="utf-8")
    start, end = BASE.index("def near"), BASE.index("def step")
    found = sources(tmp_path, BASE[:start] + "from beside_sums import near\n\n" + BASE[end:])
    assert "body=[Return(value=(a == b))]" in found["near"]


def test_what_a_rule_names_through_a_module_counts_if_the_module_is_the_pipelines_own(tmp_path: Path) -> None:
    installed = tmp_path / ".venv" / "site-packages"
    installed.mkdir(parents=True)
    (tmp_path / "beside_near.py").write_text(
        "EDGE = 2\n\ndef near(a, b):\n    return abs(a - b) < EDGE\n", encoding="utf-8"
    )
    (installed / "bought_near.py").write_text("def near(a, b):\n    return True\n", encoding="utf-8")
    imports = f"import enum, math, sys, beside_near\nsys.path.append({str(installed)!r})\nimport bought_near"
    text = BASE.replace("import enum", imports, 1)
    text = text.replace(
        "return near(", "return math.pi and bought_near.near(1, 2) and beside_near.EDGE and beside_near.near("
    )
    found = sources(tmp_path, text)
    assert "(Call(func=abs, args=[(a - b)]) < EDGE)" in found["near"]
    assert (found["beside_near.EDGE"], found["EDGE"]) == ("2", "2")
    assert "bought_near.near" not in found["Sum.adds_up"].split("\n")[1:]
    assert not [name for name in found if name.startswith(("math", "bought_near"))]


def test_two_functions_of_one_name_are_two(tmp_path: Path) -> None:
    def found(limit: int) -> dict[str, str]:
        folder = tmp_path / str(limit)
        folder.mkdir()
        (folder / f"beside_{limit}.py").write_text(f"def step():\n    return {limit}\n", encoding="utf-8")
        text = BASE.replace("import enum", f"import enum\nimport beside_{limit} as beside", 1)
        return sources(folder, text.replace("return near(", "return beside.step() and near("))

    one, two = found(1), found(2)
    assert one["step"] != two["step"]
    assert two["step#2"] == one["step"]
    assert "\nstep = @step#2" in two["near"]


def test_a_text_of_several_lines_in_a_method_counts_as_it_stands(tmp_path: Path) -> None:
    before = BASE.replace("        # a comment", '        text = """\n    one\n"""')
    assert sources(tmp_path, before) != sources(tmp_path, before.replace("    one", "        one"))


@pytest.mark.parametrize(
    "wrapper", ["functools.lru_cache", "functools.cache", "functools.lru_cache(maxsize=3)"]
)
def test_a_wrapped_function_is_read_through(tmp_path: Path, wrapper: str) -> None:
    text = BASE.replace("import enum", "import enum, functools").replace("def step", f"@{wrapper}\ndef step")
    changed = text.replace("return 1", "return 2")
    assert sources(tmp_path, text) != sources(tmp_path, changed)


def test_what_python_makes_of_a_name_counts(tmp_path: Path) -> None:
    """The same words mean another function when they are imported from elsewhere."""
    text = BASE.replace("import enum", "import enum\nfrom operator import add as both")
    text = text.replace("return near(", "return both(1, 2) and near(")
    assert sources(tmp_path, text) != sources(tmp_path, text.replace("import add", "import sub"))


def test_a_local_name_is_not_the_module_s(tmp_path: Path) -> None:
    text = BASE.replace("import enum", "import enum\nvalue = open(__file__)\nvalue.close()")
    assert sources(tmp_path, text) == sources(tmp_path, BASE)
