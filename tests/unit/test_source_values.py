"""Values that rules use: another value is another version, in every process the same value the same one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from assay.adapters.pipeline_file import load_contract
from assay.domain.failures import ConfigurationError
from assay.domain.source import validator_sources

FILE = """
import abc, collections, dataclasses, decimal, enum, functools, operator, re, types, typing, uuid
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from ipaddress import ip_network
from pathlib import Path
from types import MappingProxyType
from zoneinfo import ZoneInfo
from assay import Contract, rule

@dataclasses.dataclass(frozen=True)
class Band:
    low: int
    high: int = 9

@dataclasses.dataclass(slots=True)
class Slim:
    low: int

class Point(typing.NamedTuple):
    x: int
    y: int = 0

class Checker:
    bound = 1
    def __init__(self, limit):
        self.limit = limit
    def __call__(self, value):
        return value < self.limit + self.bound
    @functools.cached_property
    def kept(self):
        return self.limit

class Private:
    __slots__ = ("__x",)
    def __init__(self, x):
        self.__x = x

class Money(Decimal):
    pass

class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2

def first(value, extra=0):
    return value + 1

def second(value):
    return value - 1

def below(limit):
    def check(value):
        return value < limit
    return check

def class_below(limit):
    class Below:
        bound = limit
        def check(self, value):
            return value < limit
    return Below

def defaulted(limit):
    def check(value, most=limit):
        return value < most
    return check

def endless(value):
    found = [value]
    found.append(found)
    return found

def wrapped(function):
    @functools.wraps(function)
    def inner(value):
        return function(value)
    return inner

@functools.singledispatch
def dispatched(value):
    return 0

@dispatched.register
def _(value: int):
    return 1

LONG = "a" * 300
THING = None

class Row(Contract):
    a: int

    @rule(version=1)
    def holds(self) -> bool:
        return bool(THING)
"""

DIFFERENT = [
    ("1", "True"),
    ("1", "1.0"),
    ("'1'", "1"),
    ("0.0", "-0.0"),
    ("float('inf')", "float('nan')"),
    ("b'a'", "b'b'"),
    ("b'a'", "bytearray(b'a')"),
    ("re.compile(LONG + 'b')", "re.compile(LONG + 'c')"),
    ("re.compile('a')", "re.compile('a', re.I)"),
    ("re.compile('a')", "re.compile(b'a')"),
    ("re.compile('a').fullmatch", "re.compile('b').fullmatch"),
    ("re.compile('a').fullmatch", "re.compile('a').match"),
    ("Decimal('1')", "Decimal('1.0')"),
    ("Fraction(1, 3)", "Fraction(2, 3)"),
    ("timedelta(days=1)", "timedelta(days=2)"),
    ("date(2024, 1, 1)", "date(2024, 1, 2)"),
    ("datetime(2024, 1, 1)", "datetime(2024, 1, 1, 0, 1)"),
    ("datetime(2024, 1, 1)", "datetime(2024, 1, 1, tzinfo=timezone.utc)"),
    ("datetime(2024, 1, 1)", "datetime(2024, 1, 1, fold=1)"),
    ("datetime(2024, 1, 1, tzinfo=ZoneInfo('UTC'))", "datetime(2024, 1, 1, tzinfo=ZoneInfo('Europe/Rome'))"),
    ("time(1)", "time(2)"),
    ("uuid.UUID(int=1)", "uuid.UUID(int=2)"),
    ("ip_network('10.0.0.0/8')", "ip_network('10.0.0.0/9')"),
    ("Path('a')", "Path('b')"),
    ("range(3)", "range(4)"),
    ("slice(3)", "slice(4)"),
    ("MappingProxyType({'a': 1})", "MappingProxyType({'a': 2})"),
    ("{'a': {'x', 'y'}}", "{'a': {'x', 'z'}}"),
    ("{'a': 1, 'b': 2}", "{'b': 2, 'a': 1}"),
    ("[1, 2]", "(1, 2)"),
    ("frozenset({1, 2})", "frozenset({1, 3})"),
    ("frozenset({1})", "{1}"),
    ("{frozenset({1, 2}), (1,)}", "{frozenset({1, 3}), (1,)}"),
    ("collections.deque([1], 3)", "collections.deque([1], 4)"),
    ("collections.defaultdict(int, a=1)", "collections.defaultdict(str, a=1)"),
    ("collections.Counter('aab')", "collections.Counter('ab')"),
    ("collections.OrderedDict(a=1)", "collections.OrderedDict(a=2)"),
    ("Band(1)", "Band(2)"),
    ("Band(1)", "Band(1, 8)"),
    ("[Band(1)]", "[Band(2)]"),
    ("Slim(1)", "Slim(2)"),
    ("Point(1)", "Point(2)"),
    ("Point(1)", "(1, 0)"),
    ("collections.namedtuple('P', 'x y')(1, 2)", "collections.namedtuple('P', 'x y')(1, 3)"),
    ("collections.namedtuple('P', 'x y')(1, 2)", "collections.namedtuple('P', 'x z')(1, 2)"),
    ("enum.Enum('Mode', 'ON OFF')", "enum.Enum('Mode', 'OFF ON')"),
    ("Level.LOW", "Level.HIGH"),
    ("[Level.LOW]", "[1]"),
    ("re.IGNORECASE", "re.MULTILINE"),
    ("re.I | re.M", "re.I | re.S"),
    ("Checker(1)", "Checker(2)"),
    ("Checker(1).__call__", "Checker(2).__call__"),
    ("Private(1)", "Private(2)"),
    ("Money(1)", "Money(2)"),
    ("Money(1)", "Decimal(1)"),
    ("first", "second"),
    ("[first]", "[second]"),
    ("{'a': first}", "{'a': second}"),
    ("(first, second)", "(second, first)"),
    ("[Band]", "[Slim]"),
    ("functools.partial(first, 1)", "functools.partial(second, 1)"),
    ("functools.partial(first, 1)", "functools.partial(first, 2)"),
    ("functools.partial(first, extra=1)", "functools.partial(first, extra=2)"),
    ("functools.cache(first)", "functools.cache(second)"),
    ("wrapped(first)", "wrapped(second)"),
    ("wrapped(functools.partial(first, 1)) if 0 else wrapped(first)", "first"),
    ("below(1)", "below(2)"),
    ("[below(1), below(2)]", "[below(2), below(1)]"),
    ("defaulted(1)", "defaulted(2)"),
    ("class_below(1)", "class_below(2)"),
    ("class_below(1)()", "class_below(2)()"),
    ("endless(1)", "endless(2)"),
    ("operator.itemgetter('a')", "operator.itemgetter('b')"),
    ("operator.methodcaller('a', 1)", "operator.methodcaller('a', 2)"),
    ("operator.add", "operator.sub"),
    ("str.lower", "str.upper"),
    ("{'a'}.__contains__", "{'b'}.__contains__"),
    ("list[int]", "list[str]"),
    ("int | None", "str | None"),
    ("typing.Literal['a']", "typing.Literal['b']"),
]

# Words of the file that mean something to the value of THING.
CHANGES = [
    ("Checker(1)", "bound = 1", "bound = 2"),
    ("Checker(1)", "value < self.limit", "value > self.limit"),
    ("[Checker]", "value < self.limit", "value > self.limit"),
    ("Band", "high: int = 9", "high: int = 8"),
    ("Point", "y: int = 0", "y: int = 1"),
    ("Level.LOW", "LOW = 1", "LOW = 3"),
    ("Level", "HIGH = 2", "HIGH = 3"),
    ("{'a': [first]}", "value + 1", "value + 2"),
    ("functools.lru_cache(first)", "value + 1", "value + 2"),
    ("functools.partial(first, 1)", "value + 1", "value + 2"),
    ("wrapped(first)", "value + 1", "value + 2"),
    ("wrapped(first)", "return function(value)", "return not function(value)"),
    ("first", "extra=0", "extra=1"),
    ("below(1)", "value < limit", "value <= limit"),
    ("dispatched", "return 1", "return 2"),
]

UNREADABLE = [
    "open(__file__)",
    "object()",
    "lambda value: value",
    "[lambda value: value]",
    "{'a': object()}",
    "functools.partial(lambda value: value)",
    "below(object())",
    "Checker(object())",
    "defaulted(object())",
    "iter([1])",
    "(value for value in [1])",
    "memoryview(b'a')",
    "type('Made', (), {})",
    "eval('lambda value: value')",
    "functools.reduce(lambda inner, _: [inner], range(5000), [])",
]


def load(folder: Path, thing: str, *, declared: str | None = None, text: str = FILE) -> dict[str, str]:
    folder.mkdir()
    path = folder / "rows.py"
    path.write_text(text.replace("THING = None", f"THING = {thing}"), encoding="utf-8")
    return validator_sources(load_contract(f"{path}:Row"), declared=declared)


@pytest.mark.parametrize(("before", "after"), DIFFERENT)
def test_another_value_is_another_version(tmp_path: Path, before: str, after: str) -> None:
    found = load(tmp_path / "one", before)
    assert load(tmp_path / "two", before) == found
    assert load(tmp_path / "three", after) != found
    assert " at 0x" not in str(found)
    assert str(tmp_path) not in str(found)


@pytest.mark.parametrize(("thing", "before", "after"), CHANGES)
def test_what_a_value_is_made_of_counts(tmp_path: Path, thing: str, before: str, after: str) -> None:
    assert before in FILE
    changed = load(tmp_path / "two", thing, text=FILE.replace(before, after))
    assert load(tmp_path / "one", thing) != changed


@pytest.mark.parametrize("thing", UNREADABLE)
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_what_cannot_be_read_needs_a_declared_version(tmp_path: Path, thing: str) -> None:
    with pytest.raises(ConfigurationError, match=r"^Row\.holds uses .*rules_version=") as caught:
        load(tmp_path / "one", thing)
    assert "THING" in str(caught.value) or "__defaults__" in str(caught.value) or "limit" in str(caught.value)
    assert "Row.holds" in load(tmp_path / "two", thing, declared="1")


def test_a_path_in_the_folder_is_told_from_there(tmp_path: Path) -> None:
    found = load(tmp_path / "one", "Path(__file__).parent / 'words.txt'")
    assert found["THING"] == "folder('words.txt')"
    assert load(tmp_path / "two", "Path(__file__).parent / 'words.txt'") == found


def test_a_result_kept_for_later_is_no_part_of_a_value(tmp_path: Path) -> None:
    kept = "[one := Checker(1), one.kept][:1]"
    assert load(tmp_path / "one", kept) == load(tmp_path / "two", "[Checker(1)]")


HELD = [
    ("EDGE: ClassVar[int] = 1", "EDGE: ClassVar[int] = 2"),
    ("return 5", "return 6"),
    ("return 7", "return 8"),
]


@pytest.mark.parametrize(("before", "after"), HELD)
@pytest.mark.parametrize("base", ["Contract", "Base"])
def test_what_a_contract_holds_counts(tmp_path: Path, before: str, after: str, base: str) -> None:
    text = f"""
from typing import ClassVar
from assay import Contract, rule

class Base(Contract):
    EDGE: ClassVar[int] = 1

    @property
    def five(self):
        return 5

    @staticmethod
    def seven():
        return 7

class Row({base}):
    a: int
{"" if base == "Base" else "    EDGE: ClassVar[int] = 1"}
    @property
    def five(self):
        return {"super().five" if base == "Base" else "5"}

    @staticmethod
    def {"other" if base == "Base" else "seven"}():
        return 7

    @rule(version=1)
    def holds(self) -> bool:
        return self.EDGE < self.five < self.seven()
"""
    assert load(tmp_path / "one", "", text=text) != load(
        tmp_path / "two", "", text=text.replace(before, after)
    )


NESTED = (
    "{'x': {'a', 'b', 'c'}, 'y': (frozenset('defgh'), {'i', 'j'}), 'z': [{'k', ('l', frozenset('mno'))}]}"
)


@pytest.mark.parametrize("names", [NESTED, "[" + ", ".join([NESTED, *(one for one, _ in DIFFERENT)]) + "]"])
def test_every_process_makes_the_same_version(tmp_path: Path, names: str) -> None:
    path = tmp_path / "rows.py"
    path.write_text(
        FILE.replace("THING = None", f"THING = {names}")
        + "from assay import Pipeline, Prompt, Route\n"
        + "print(Pipeline(name='rows', contract=Row, model='openai:gpt-5-mini', prompt=Prompt('Sort.'), "
        + "route=Route()).version)\n",
        encoding="utf-8",
    )
    versions = {
        subprocess.run(
            [sys.executable, str(path)],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
            check=True,
            capture_output=True,
            text=True,
            timeout=60,
        ).stdout
        for seed in ("0", "1", "2", "3")
    }
    assert len(versions) == 1
    assert len(versions.pop().strip()) == 64
