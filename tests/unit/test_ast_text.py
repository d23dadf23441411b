"""The canonical text of source code: one in every Python version, another one for another meaning."""

from __future__ import annotations

import ast
import hashlib
from pathlib import Path

import pytest
from test_source_values import DIFFERENT, load

from assay.domain.ast_text import ast_text
from assay.domain.digest import canonical_json

SOURCE = r'''
"""Module."""
import os.path as p, re
from . import a
from .b import (c as d, e)

@decorated(1, *x, key="v", **y)
@plain
async def waits(a, /, b: int = 1, *rest, c, d=lambda q, *, w=(1, 2): q or w, **more) -> "text":
    """Docstring."""
    global g
    async with one as first, two() as (second, third):
        await first
    async for item in second:
        yield item
    return [i async for i in third if await i]

class Kind(Base, metaclass=Meta):
    """Docstring."""
    x: int = 1
    y: list[int] | None
    (z): int
    __slots__ = "a", *rest

def strings(value, width, other):
    """Docstring."""
    f"{value!r:>{width}}" f"{value:{width}.{other}}" "tail" u"u"; b'bytes\xff'
    f"{value['key']:%H:%M} {{}} {value = } {value=!s:>3}"
    f"" f"{value}" "" f"" rf"\d{value:}" f"{f'{value}' + 'b'}" f"{(lambda: 1)()}" f"{value:a{width}b}"
    f"""{
        value
    }"""
    "\xe9 é\u0378\U0001fae8\n\\ \" '", 1_000, 0x10, 1e400, -1e400, 1.5j, 1e999j, ..., None, True, 10**3

def flow(value):
    nonlocal_name = 1
    def inner():
        nonlocal nonlocal_name
        del value[0], value.x
    if (n := len(value)) > 10 and not n or -n is not +n:
        pass
    elif ~n in value not in [n] == n != n <= n:
        raise KeyError from None
    else:
        assert n, "words"
    for i, *j in value, *value:
        continue
    else:
        n += 1; n //= 2; n @= 3
    while True:
        break
    try:
        raise
    except (A, B) as error:
        ...
    except C:
        ...
    else:
        ...
    finally:
        ...
    try:
        1
    except* D as group:
        2
    match value:
        case {"a": 1, "b": [x, *_], **others} if x > 1:
            ...
        case Point(x=0, y=-1.5) | Other(1, "s") | None | True:
            ...
        case [a.b, 1 + 2j, (3 | 4) as both]:
            ...
        case _:
            return
    with (open(value) as one, two):
        return (yield), (yield from value)
    return {**value, "k": 1, (1,): {1, *value}}, value[1:2, ::3, *value], {i: j for i, j in value if i if j}
    return (1 if value else 2) ** -3 << 1 >> 2 & 3 | 4 ^ 5 % 6 / 7 // 8 - 9 @ 10, {1 for _ in ()}
'''
# In every supported Python version. A change of it makes new versions of everyone's pipelines.
SOURCE_DIGEST = "129cae669f8e216d6c2c8dc7fb0933c4a2563909972d77182596ff557755da4f"
VALUES_DIGEST = "69bc2350935833ea2f6ac7b3635ab2fe5ba6ec9c0874075d674fc69c15d8b81a"


def text(source: str) -> str:
    return ast_text(ast.parse(source))


def test_every_python_version_makes_this_text() -> None:
    assert hashlib.sha256(text(SOURCE).encode("ascii")).hexdigest() == SOURCE_DIGEST


def test_every_python_version_makes_these_values(tmp_path: Path) -> None:
    found = load(tmp_path / "one", "[" + ", ".join(value for pair in DIFFERENT for value in pair) + "]")
    assert hashlib.sha256(canonical_json(found).encode("ascii")).hexdigest() == VALUES_DIGEST


def test_it_looks_like_python_where_it_can() -> None:
    assert text("a.b[1] < -c + d") == "Expr(value=(Subscript(value=a.b, slice=1) < ((- c) + d)))"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("f(a, b)", "f(\n  a,\n  b,\n)  # words"),
        ("def f():\n  'words'", "def f():\n    pass"),
        ("async def f():\n  'words'\n  g()", "async def f():\n  g()"),
        ("'a' 'b'", '"ab"'),
        ("f'a' 'b' f'{c}' f''", "f'ab{c}'"),
        ("u'a'", "'a'"),
        ("0x10", "1_6"),
        ("(a + b) + c", "a + b + c"),
        ("for a in b:  # type: int\n  0", "for a in b: 0"),
    ],
)
def test_form_does_not_count(one: str, other: str) -> None:
    assert text(one) == text(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("1", "1.0"),
        ("1", "True"),
        ("1", "'1'"),
        ("b'a'", "'a'"),
        ("1e400", "inf"),
        ("'1e309'", "1e400"),
        ("...", "Ellipsis"),
        ("a - (b - c)", "a - b - c"),
        ("a < b < c", "(a < b) < c"),
        ("a and b and c", "a and (b and c)"),
        ("(a + b).c", "a + b.c"),
        ("f'{a}'", "f'{a!s}'"),
        ("f'{a}'", "'{a}'"),
        ("f'{a:>3}'", "f'{a:>4}'"),
        ("f'{a}b'", "f'b{a}'"),
        ("f'{a}' 'b'", "f'{a}', 'b'"),
        ("{**a}", "{None: a}"),
        ("f(*a)", "f(a)"),
        ("f(**a)", "f(a=a)"),
        ("def f(a, *, b): 0", "def f(a, b): 0"),
        ("def f(*, a, b=1): 0", "def f(*, b=1, a): 0"),
        ("def f(*, a=1, b): 0", "def f(*, a, b=1): 0"),
        ("def f(): 0", "async def f(): 0"),
        ("def f():\n  1", "def f():\n  pass"),
        ("def f():\n  b'words'", "def f():\n  pass"),
        ("return_ = None", "return_: None"),
        ("x: int", "(x): int"),
        ("from . import a", "from .. import a"),
        ("'words'", "'other'"),
        ("pass", "Pass()"),
        ("JoinedStr(a)", "f'{a}'"),
        ("[a for b in c]", "[a for b in c if d]"),
        ("a[1:2]", "a[:1:2]"),
        ("match a:\n  case None: 0", "match a:\n  case _: 0"),
        ("match a:\n  case [*_]: 0", "match a:\n  case [*b]: 0"),
    ],
)
def test_meaning_counts(one: str, other: str) -> None:
    assert text(f"0\n{one}") != text(f"0\n{other}")
