"""Loads a pipeline or a contract from a Python file: `FILE.py` or `FILE.py:name`."""

from __future__ import annotations

import importlib.util
import itertools
import sys
import traceback
from collections.abc import Mapping
from contextlib import redirect_stdout
from pathlib import Path
from types import ModuleType
from typing import Final

from assay.domain.contract import Contract, is_contract, plan_of
from assay.domain.definition import Pipeline
from assay.domain.failures import ConfigurationError

_numbers: Final = itertools.count(1)
# A pipeline file is the user's code: whatever it raises is told in one sentence.
_FILE_FAILURES: Final = (Exception, SystemExit)


def load_pipeline(spec: str) -> Pipeline:
    """The pipeline of `FILE.py` (its only one) or `FILE.py:variable`. Raises `ConfigurationError`."""
    path, name = _split(spec)
    values = _run(path)
    if name is not None:
        value = _named(values, name, path)
        if not isinstance(value, Pipeline):
            raise ConfigurationError(f"{name} in {path} is not a Pipeline; name the variable that holds one.")
        return value
    found = {id(value): key for key, value in values.items() if isinstance(value, Pipeline)}
    if not found:
        raise ConfigurationError(f"{path} holds no Pipeline; add `pipeline = Pipeline(...)` to it.")
    names = sorted(found.values())
    if len(names) > 1:
        raise ConfigurationError(
            f"{path} holds several pipelines ({', '.join(names)}); give {path}:{names[0]}."
        )
    pipeline = values[names[0]]
    if not isinstance(pipeline, Pipeline):
        raise ConfigurationError(f"{path} changed while it was read; run the command again.")
    return pipeline


def load_contract(spec: str) -> type[Contract]:
    """The contract of `FILE.py` or `FILE.py:name`, where name is a Contract class or a Pipeline.

    Without a name: the contract of the file's only pipeline, else the only Contract class that is neither
    inside another one nor the base of another one. Raises `ConfigurationError`.
    """
    path, name = _split(spec)
    values = _run(path)
    if name is not None:
        return _contract_of(_named(values, name, path), name, path)
    pipelines = {value.contract for value in values.values() if isinstance(value, Pipeline)}
    if len(pipelines) == 1:
        return pipelines.pop()
    outermost = _outermost(values, path)
    if not outermost:
        raise ConfigurationError(f"{path} holds no Contract; add a class derived from assay.Contract to it.")
    if len(outermost) > 1 or pipelines:
        names = sorted(kind.__name__ for kind in outermost)
        raise ConfigurationError(
            f"{path} holds several contracts ({', '.join(names)}); give {path}:{names[0]}."
        )
    return outermost[0]


def _split(spec: str) -> tuple[Path, str | None]:
    before, colon, after = spec.rpartition(":")
    if colon and after.isidentifier() and not Path(spec).exists():
        return Path(before), after
    return Path(spec), None


def _run(path: Path) -> Mapping[str, object]:
    """Runs the file as a module of its own, its folder importable, and returns what it defines."""
    if path.is_dir():
        raise ConfigurationError(f"{path} is a directory; give the path of a Python file in it.")
    if not path.is_file():
        raise ConfigurationError(
            f"There is no file {path}; give the path of a Python file with a Pipeline or a Contract."
        )
    full = path.resolve()
    name = f"assay_pipeline_file_{next(_numbers)}"
    spec = importlib.util.spec_from_file_location(name, full)
    if full.suffix != ".py" or spec is None or spec.loader is None:
        raise ConfigurationError(f"{path} is not a Python file; its name must end in .py.")
    module = importlib.util.module_from_spec(spec)
    folder = str(full.parent)
    # At the end: a file beside the pipeline never hides a module of the standard library.
    if folder not in sys.path:
        sys.path.append(folder)
    sys.modules[name] = module
    try:
        # Standard output is for results: what the file prints goes beside it.
        with redirect_stdout(sys.stderr):
            spec.loader.exec_module(module)
    except _FILE_FAILURES as error:
        del sys.modules[name]
        raise ConfigurationError(_sentence(path, full, error)) from error
    return _defined(module)


def _defined(module: ModuleType) -> dict[str, object]:
    return {name: value for name, value in vars(module).items() if not name.startswith("__")}


def _sentence(path: Path, full: Path, error: BaseException) -> str:
    """File, line, kind of error and its own text: the error is the user's own, about their own file."""
    lines = [
        frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(full)
    ]
    line = error.lineno if isinstance(error, SyntaxError) and error.filename == str(full) else None
    where = line or (lines[-1] if lines else None)
    place = f"{path}" if where is None else f"{path}, line {where}"
    text = error.msg if isinstance(error, SyntaxError) else str(error)
    if isinstance(error, ConfigurationError):
        return f"{place}: {text}"
    first = text.strip().splitlines()[0].rstrip(".") if text.strip() else "no message"
    return f"{place}: {type(error).__name__}: {first}."


def _named(values: Mapping[str, object], name: str, path: Path) -> object:
    if name not in values:
        raise ConfigurationError(f"{path} defines no {name}; check the name after the colon.")
    return values[name]


def _contract_of(value: object, name: str, path: Path) -> type[Contract]:
    if isinstance(value, Pipeline):
        return value.contract
    if isinstance(value, type) and issubclass(value, Contract) and is_contract(value):
        return value
    raise ConfigurationError(f"{name} in {path} is neither a Contract nor a Pipeline; name one that is.")


def _outermost(values: Mapping[str, object], path: Path) -> list[type[Contract]]:
    """Contract classes that no other one contains or derives from."""
    kinds = {
        value
        for value in values.values()
        if isinstance(value, type) and issubclass(value, Contract) and is_contract(value)
    }
    inside: set[type] = set()
    for kind in kinds:
        try:
            inside.update(node.contract for node in plan_of(kind).objects if node.contract is not kind)
        except (TypeError, NameError) as error:
            raise ConfigurationError(
                f"{path}: the contract {kind.__name__} cannot be used: {error}"
            ) from error
        inside.update(base for base in kind.__mro__[1:])
    return [kind for kind in kinds if kind not in inside]
