"""Modules of the package stay small and say what they are for."""

from __future__ import annotations

import ast
from pathlib import Path

MAX_LINES = 400
_VAGUE = {"utils", "util", "helpers", "helper", "common", "misc"}


def problems(root: Path) -> list[str]:
    """One sentence per module that is too long, is vaguely named or has no docstring."""
    found: list[str] = []
    for module in sorted((root / "src").rglob("*.py")):
        name = module.relative_to(root)
        text = module.read_text("utf-8")
        lines = text.count("\n")
        if lines > MAX_LINES:
            found.append(f"{name}: {lines} lines, more than {MAX_LINES}; split it by what changes together")
        if module.stem in _VAGUE:
            found.append(f"{name}: a name that says nothing; name it after what it holds")
        if text.strip() and not module.stem.startswith("_") and not ast.get_docstring(ast.parse(text)):
            found.append(f"{name}: no docstring")
    return found
