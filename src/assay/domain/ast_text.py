"""One text for one meaning of source code, whatever the Python version, the layout and the comments.

Names, attributes, literals and operators look as in Python, every operation in brackets; everything else is
its node's class with its fields. Positions, docstrings, empty fields and notes for other tools are left out.
"""

from __future__ import annotations

import ast
from typing import Final

_OPERATORS: Final = {
    "Add": "+", "Sub": "-", "Mult": "*", "Div": "/", "FloorDiv": "//", "Mod": "%", "Pow": "**",
    "MatMult": "@", "LShift": "<<", "RShift": ">>", "BitOr": "|", "BitAnd": "&", "BitXor": "^",
    "And": "and", "Or": "or", "Not": "not", "Invert": "~", "UAdd": "+", "USub": "-",
    "Eq": "==", "NotEq": "!=", "Lt": "<", "LtE": "<=", "Gt": ">", "GtE": ">=",
    "Is": "is", "IsNot": "is not", "In": "in", "NotIn": "not in",
}  # fmt: skip
# `ctx` follows from the place; `kind` is the u of u"text"; the others are for type checkers.
_LEFT_OUT: Final = frozenset({"ctx", "kind", "type_comment", "type_ignores"})
_WITH_DOCSTRING: Final = (ast.Module, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def ast_text(tree: ast.AST) -> str:
    """The canonical text of a syntax tree: the same in every supported Python version."""
    match tree:
        case ast.Module():
            text = "\n".join(ast_text(statement) for statement in _body(tree))
        case ast.Name():
            text = tree.id
        case ast.Attribute():
            text = f"{ast_text(tree.value)}.{tree.attr}"
        case ast.Constant():
            text = literal_text(tree.value)
        case ast.BinOp():
            text = f"({ast_text(tree.left)} {_operator(tree.op)} {ast_text(tree.right)})"
        case ast.UnaryOp():
            text = f"({_operator(tree.op)} {ast_text(tree.operand)})"
        case ast.BoolOp():
            text = "(" + f" {_operator(tree.op)} ".join(map(ast_text, tree.values)) + ")"
        case ast.Compare():
            pairs = zip(tree.ops, tree.comparators, strict=True)
            right = "".join(f" {_operator(sign)} {ast_text(value)}" for sign, value in pairs)
            text = f"({ast_text(tree.left)}{right})"
        case ast.JoinedStr():
            text = f"JoinedStr({', '.join(_string_parts(tree))})"
        case _:
            text = _node_text(tree)
    return text


def literal_text(value: object) -> str:
    """A literal as Python writes it, in ASCII: what counts as printable differs between Python versions."""
    text = "..." if value is ... else ascii(value)
    return text.replace("inf", "1e309") if isinstance(value, float | complex) else text


def _node_text(tree: ast.AST) -> str:
    parts: list[str] = []
    for name in tree._fields:
        value: object = getattr(tree, name, None)
        if name == "body" and isinstance(tree, _WITH_DOCSTRING):
            value = _body(tree)
        if name not in _LEFT_OUT and value is not None and value != []:
            parts.append(f"{name}={_field_text(value)}")
    return f"{type(tree).__name__}({', '.join(parts)})"


def _field_text(value: object) -> str:
    if isinstance(value, ast.AST):
        return ast_text(value)
    if isinstance(value, list):
        return "[" + ", ".join("-" if item is None else _field_text(item) for item in value) + "]"
    return literal_text(value)


def _body(tree: ast.AST) -> list[ast.stmt]:
    """The statements of a definition without its docstring; a body of nothing else is `pass`."""
    if not isinstance(tree, _WITH_DOCSTRING):
        return []
    body = tree.body
    if body and isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant):
        body = body[1:] if isinstance(body[0].value.value, str) else body
    return body or [ast.Pass()]


def _operator(sign: ast.AST) -> str:
    return _OPERATORS[type(sign).__name__]


def _string_parts(tree: ast.JoinedStr) -> list[str]:
    """The parts of an f-string. Versions split and end the fixed text differently: joined, empty text out."""
    parts: list[str] = []
    fixed = ""
    for part in tree.values:
        if isinstance(part, ast.Constant):
            fixed += str(part.value)
            continue
        if fixed:
            parts.append(literal_text(fixed))
        fixed = ""
        parts.append(ast_text(part))
    return [*parts, literal_text(fixed)] if fixed else parts
