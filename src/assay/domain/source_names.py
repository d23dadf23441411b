"""Which names a piece of source takes from outside of itself."""

from __future__ import annotations

import ast
import inspect
import symtable
from collections.abc import Iterator
from types import CodeType
from typing import Final, NamedTuple

_OWNERS: Final = frozenset({"self", "cls"})


class Used(NamedTuple):
    """A name that code reads: `name` may be dotted, or is an attribute of the object itself or of its bases.

    `is_hint` when only annotations name it.
    """

    name: str
    of: str = ""
    is_hint: bool = False


class Definition(NamedTuple):
    """One `def` or `class`: its statement and what it uses, in name order."""

    tree: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    used: tuple[Used, ...]

    @property
    def has_computed_defaults(self) -> bool:
        """Whether a parameter's default is more than its own text says."""
        if isinstance(self.tree, ast.ClassDef):
            return False
        given = [*self.tree.args.defaults, *self.tree.args.kw_defaults]
        return not all(part is None or isinstance(part, ast.Constant | ast.Lambda) for part in given)


def definition_of(target: CodeType | type) -> Definition:
    """The definition of a function (by its code) or class.

    Raises `OSError`, `TypeError` or `SyntaxError` when there is none: a lambda has no definition of its own.
    """
    text = inspect.getsource(target)
    if text[:1].isspace():
        # Moving the text to the left instead would change the strings inside it.
        text = f"if 1:\n{text}"
    tree: ast.AST = ast.parse(text).body[0]
    if isinstance(tree, ast.If):
        tree = tree.body[0]
    if not isinstance(tree, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        raise TypeError("no definition")
    outside = frozenset(_outside(symtable.symtable(text, "definition", "exec")))
    return Definition(tree, _used(tree, outside))


def _outside(table: symtable.SymbolTable) -> Iterator[str]:
    """Names that are read in a scope without being its own or an enclosing one's."""
    top = table.get_type() == "module"
    for symbol in table.get_symbols():
        if symbol.is_global() or (top and symbol.is_referenced()):
            yield symbol.get_name()
    for child in table.get_children():
        yield from _outside(child)


def _used(tree: ast.AST, outside: frozenset[str]) -> tuple[Used, ...]:
    found: set[Used] = set()
    hints: set[Used] = set()
    _visit(tree, outside, found, hints)
    return tuple(sorted({*found, *(used._replace(is_hint=True) for used in hints - found)}))


def _visit(tree: ast.AST, outside: frozenset[str], found: set[Used], hints: set[Used]) -> None:
    used = _named(tree) if isinstance(tree, ast.Name | ast.Attribute) else None
    if used is not None:
        if used.of or used.name.split(".")[0] in outside:
            found.add(used)
        return
    for name, value in ast.iter_fields(tree):
        into = hints if name in ("annotation", "returns") else found
        for child in value if isinstance(value, list) else [value]:
            if isinstance(tree, ast.ClassDef) and isinstance(child, ast.AnnAssign):
                _visit(child.annotation, outside, found, hints)  # what the fields of a class are counts
            if isinstance(child, ast.AST):
                _visit(child, outside, into, hints)


def _named(tree: ast.Name | ast.Attribute) -> Used | None:
    """`a`, `a.b.c`, and attributes of `self`, `cls`, `type(self)` and `super()`; None for any other."""
    if isinstance(tree, ast.Attribute) and isinstance(tree.value, ast.Call):
        called = tree.value
        name = called.func.id if isinstance(called.func, ast.Name) else ""
        if name == "super":
            return Used(tree.attr, "super")
        if name == "type" and len(called.args) == 1 and _dotted(called.args[0]) == "self":
            return Used(tree.attr, "self")
        return None
    dotted = _dotted(tree)
    if dotted is None:
        return None
    parts = dotted.split(".")
    if parts[:2] == ["self", "__class__"] and len(parts) > 2:
        return Used(parts[2], "self")
    return Used(parts[1], "self") if parts[0] in _OWNERS and len(parts) > 1 else Used(dotted)


def _dotted(node: ast.expr) -> str | None:
    """`a.b.c` as text; None for an attribute of anything but a name."""
    if isinstance(node, ast.Name):
        return node.id
    before = _dotted(node.value) if isinstance(node, ast.Attribute) else None
    return f"{before}.{node.attr}" if before is not None and isinstance(node, ast.Attribute) else None
