"""Reads one rule or validator, and all that it uses from its own folder, into texts by name."""

from __future__ import annotations

import enum
import functools
import inspect
import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import PurePath
from types import FunctionType, MethodType, ModuleType
from typing import Final

from assay.domain.ast_text import ast_text
from assay.domain.failures import ConfigurationError
from assay.domain.source_names import Definition, Used, definition_of
from assay.domain.value_text import Unreadable, ValueText

_NOTHING: Final = object()
_NO_SOURCE: Final = (OSError, SyntaxError, TypeError)
_INSTALLED: Final = frozenset({"site-packages", "dist-packages"})
# A home folder with a pipeline file may hold Python itself.
_NOT_OWN: Final = (PurePath(inspect.getfile(inspect)).parent, PurePath(__file__).parents[1])
_BUILT_IN: Final = (
    types.BuiltinFunctionType, types.MethodDescriptorType, types.WrapperDescriptorType,
    types.ClassMethodDescriptorType, types.MethodWrapperType,
)  # fmt: skip


@dataclass
class Texts:
    """What was read so far: texts by name, and the name of each function and class by its identity."""

    by_name: dict[str, str] = field(default_factory=dict)
    names: dict[tuple[int, int], str] = field(default_factory=dict)
    # An identity is that of one object only while the object lives.
    alive: list[object] = field(default_factory=list)

    def known(self, target: object, owner: type) -> str | None:
        return self.names.get((id(target), 0)) or self.names.get((id(target), id(owner)))

    def add(self, target: object, owner: type | None, wanted: str, text: str) -> str:
        """Keeps the text of a function or class (of one `owner`, if it matters) and returns its name."""
        name = wanted
        while name in self.by_name:
            name = _next(wanted, name)
        self.by_name[name] = text
        self.names[id(target), 0 if owner is None else id(owner)] = name
        self.alive.append(target)
        return name

    def add_value(self, wanted: str, text: str) -> str:
        """Keeps the text of a value and returns its name; equal texts of one name are one."""
        name = wanted
        while self.by_name.setdefault(name, text) != text:
            name = _next(wanted, name)
        return name


def _next(wanted: str, name: str) -> str:
    """`wanted#2` after `wanted`, and so on."""
    return f"{wanted}#{int(name.removeprefix(wanted).lstrip('#') or 1) + 1}"


def _is_below(file: str, folder: PurePath) -> bool:
    """Whether a file is the pipeline's: in its folder, and not of Python, a package or this one there."""
    path = PurePath(file)
    if not path.is_relative_to(folder) or not _INSTALLED.isdisjoint(path.relative_to(folder).parts):
        return False
    return not any(path.is_relative_to(home) and not folder.is_relative_to(home) for home in _NOT_OWN)


class SourceReader:
    """Reads what `rule` of the contract class `owner` does; other `contracts` are told by their schema.

    The pipeline's own code is in or below `folders`. With `declared`, what cannot be read is left out;
    without, `ConfigurationError` names it.
    """

    def __init__(
        self,
        rule: str,
        owner: type,
        *,
        contracts: frozenset[type],
        folders: tuple[PurePath, ...],
        texts: Texts,
        declared: str | None,
    ) -> None:
        self._rule = rule
        self._owner = owner
        self._contracts = contracts
        self._folders = folders
        self._texts = texts
        self._declared = declared
        self._values = ValueText(self._refer, self._is_own_class, folders)

    def read(self, target: object) -> None:
        """Adds the text of the rule, and of all that it uses."""
        function = target.__func__ if isinstance(target, MethodType) else target
        try:
            if isinstance(function, FunctionType) and self._is_own(function.__code__.co_filename):
                name = self._function(function, self._rule)
                if name != self._rule:
                    self._texts.add_value(self._rule, f"@{name}")
            else:
                self._texts.add_value(self._rule, self._values.text(function))
        except (Unreadable, RecursionError) as error:
            if self._declared is None:
                raise ConfigurationError(
                    f"The source of {self._rule} cannot be read for the version; define it with def in a "
                    "file, or give the pipeline rules_version= and raise it when the function changes."
                ) from error

    def _function(self, function: FunctionType, wanted: str) -> str:
        """The name of a function's text, which ends with what its names mean where that is not plain."""
        known = self._texts.known(function, self._owner)
        if known is not None:
            return known
        found = _definition(function.__code__, wanted)
        owner = self._owner if any(used.of for used in found.used) else None
        text = ast_text(found.tree)
        name = self._texts.add(function, owner, wanted, text)
        lines = list(self._uses(found, {**function.__globals__, **_cells(function)}))
        if found.has_computed_defaults:
            defaults = [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
            lines.extend(self._binding(f"{function.__qualname__}.__defaults__", defaults))
        self._texts.by_name[name] = "\n".join([text, *lines])
        return name

    def _class(self, kind: type) -> str:
        """The name of the text of a class of the pipeline's own."""
        known = self._texts.known(kind, self._owner)
        if known is not None:
            return known
        try:
            found = definition_of(kind)
        except _NO_SOURCE as error:
            made = self._made(kind)
            if made is None:
                raise Unreadable(kind.__qualname__) from error
            return self._texts.add(kind, None, kind.__qualname__, made)
        text = ast_text(found.tree)
        name = self._texts.add(kind, None, kind.__qualname__, text)
        scope = dict(vars(inspect.getmodule(kind) or types))
        for value in vars(kind).values():
            scope.update(_cells(value) if isinstance(value, FunctionType) else {})
        inner = tuple(used for used in found.used if not used.of)  # its own methods are in its text
        lines = list(self._uses(found._replace(used=inner), scope))
        if "<locals>" in kind.__qualname__:
            # A class made by a function may hold what that function was given.
            for attribute, value in sorted(vars(kind).items()):
                if not attribute.startswith("__") and not callable(value) and not _functions_in(value):
                    lines.extend(self._binding(f"{kind.__name__}.{attribute}", value))
        self._texts.by_name[name] = "\n".join([text, *lines])
        return name

    def _made(self, kind: type) -> str | None:
        """The text of an enum or named tuple made by a call, without a class statement."""
        if issubclass(kind, enum.Enum):
            members = {name: member.value for name, member in kind.__members__.items()}
            return f"{self._values.text(kind.__mro__[1])}({self._values.text(members)})"
        if issubclass(kind, tuple) and hasattr(kind, "_fields"):
            shape = (getattr(kind, "_fields", ()), getattr(kind, "_field_defaults", {}))
            return f"namedtuple({self._values.text(shape)})"
        return None

    def _uses(self, found: Definition, scope: Mapping[str, object]) -> Iterator[str]:
        for used in found.used:
            if used.of:
                for value in self._members(used):
                    yield from self._binding(f"{self._owner.__name__}.{used.name}", value)
            else:
                name, value = self._resolve(used.name, scope)
                if value is not _NOTHING:
                    yield from self._binding(name, value, is_hint=used.is_hint)

    def _binding(self, name: str, value: object, *, is_hint: bool = False) -> Iterator[str]:
        """Adds what a name means; yields the line that says so unless it is what the name says itself."""
        if isinstance(value, ModuleType):
            yield from self._module(name, value)
            return
        try:
            text = self._values.text(value)
        except (Unreadable, RecursionError) as error:
            if self._declared is not None or is_hint:
                return
            raise ConfigurationError(
                f"{self._rule} uses {name}, whose value cannot be read for the version; use plain data or a "
                "def in a file, or give the pipeline rules_version= and raise it when the value changes."
            ) from error
        if callable(value):
            if text != f"@{name}" and not (is_hint and not text.startswith("@")):
                yield f"{name} = {text}"
        elif (kept := self._texts.add_value(name, text)) != name:
            yield f"{name} = @{kept}"

    def _module(self, name: str, module: ModuleType) -> Iterator[str]:
        """Of the pipeline's own modules the names that are used count, of others their own name."""
        whole = "os.path" if module.__name__ in ("posixpath", "ntpath") else module.__name__
        if whole != name and not self._is_own_module(module):
            yield f"{name} = module {whole}"

    def _members(self, used: Used) -> Iterator[object]:
        """What `self.name` is in the contract's own classes; all that it may be for `super().name`."""
        if used.name.startswith("__") or used.name == "model_config":
            return
        for kind in self._owner.__mro__:
            if used.name in vars(kind):
                if self._is_own_class(kind):
                    value = vars(kind)[used.name]
                    yield from _functions_in(value) or [value]
                if used.of != "super":
                    return

    def _resolve(self, dotted: str, scope: Mapping[str, object]) -> tuple[str, object]:
        """How far a dotted name is followed, and what it is: through modules of the own folder, and to what
        a contract class holds."""
        name, *attributes = dotted.split(".")
        if name.startswith("__"):
            return name, _NOTHING
        value: object = scope.get(name, _NOTHING)
        for attribute in attributes:
            if isinstance(value, ModuleType) and self._is_own_module(value):
                value = getattr(value, attribute, _NOTHING)
            elif isinstance(value, type) and value in self._contracts and not attribute.startswith("__"):
                value = inspect.getattr_static(value, attribute, _NOTHING)
                value = next(iter(_functions_in(value)), value)
            else:
                break
            name = f"{name}.{attribute}"
        return name, value

    def _refer(self, value: object) -> str | None:
        """`@name` of an own function or class, package and name of another one; None for anything else."""
        if isinstance(value, type):
            return self._refer_class(value)
        if isinstance(value, FunctionType):
            file = value.__code__.co_filename
            if self._is_own(file):
                return f"@{self._function(value, value.__qualname__)}"
            if file.startswith("<") and self._is_own(str(value.__globals__.get("__file__"))):
                raise Unreadable(value.__qualname__)  # made from text that is in no file
        elif self._is_own_class(type(value)):
            return None
        wrapped: object = getattr(value, "__wrapped__", None)
        if callable(wrapped):
            outer = value if isinstance(value, FunctionType) else type(value)
            # functools.singledispatch keeps its functions there.
            inner = (wrapped, getattr(value, "registry", None))
            return f"{_foreign(outer)}{self._values.text(inner)}"
        return _foreign(value) if isinstance(value, (FunctionType, *_BUILT_IN)) else None

    def _refer_class(self, kind: type) -> str:
        if kind in self._contracts:
            return f"contract {kind.__qualname__}"
        return f"@{self._class(kind)}" if self._is_own_class(kind) else _foreign(kind)

    def _is_own(self, file: str) -> bool:
        return any(_is_below(file, folder) for folder in self._folders)

    def _is_own_class(self, kind: type) -> bool:
        try:
            return self._is_own(inspect.getfile(kind))
        except (OSError, TypeError):
            return False  # built in: its meaning is Python's

    def _is_own_module(self, module: ModuleType) -> bool:
        places = [getattr(module, "__file__", None), *getattr(module, "__path__", ())]
        return any(isinstance(place, str) and self._is_own(place) for place in places)


def _definition(target: types.CodeType | type, name: str) -> Definition:
    try:
        return definition_of(target)
    except _NO_SOURCE as error:
        raise Unreadable(name) from error


def _cells(function: FunctionType) -> dict[str, object]:
    """What the free names of a function hold now; a cell may still be empty."""
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    return {name: cell.cell_contents for name, cell in cells if _is_filled(cell)}


def _is_filled(cell: types.CellType) -> bool:
    try:
        return cell.cell_contents is not _NOTHING
    except ValueError:
        return False


def _functions_in(value: object) -> list[object]:
    """The functions of a method or property as a class holds it."""
    if isinstance(value, staticmethod | classmethod):
        return [value.__func__]
    if isinstance(value, functools.cached_property):
        return [value.func]
    if isinstance(value, property):
        return [part for part in (value.fget, value.fset, value.fdel) if part is not None]
    return []


def _foreign(value: object) -> str:
    """Package and name: the module inside a package may differ between versions of Python and of packages."""
    if isinstance(value, FunctionType):
        # functools.wraps gives a function the module and the name of another one; its code keeps its own.
        module, name = str(value.__globals__.get("__name__")), value.__code__.co_qualname
    else:
        home: object = getattr(value, "__objclass__", value)
        module, name = str(getattr(home, "__module__", "")), str(getattr(value, "__qualname__", ""))
    if module == "types" and isinstance(value, type) and not hasattr(types, name):
        raise Unreadable(name)  # made by a call, and nothing says how
    return f"{module.split('.')[0].lstrip('_')}.{name}"
