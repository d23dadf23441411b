"""One text for one value: the same in every process and Python version, another one for another value.

Functions and classes are told by the caller (`refer`), who knows which of them are the pipeline's own.
"""

from __future__ import annotations

import enum
import functools
import operator
import re
import uuid
import zoneinfo
from abc import ABC
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import is_dataclass
from datetime import date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from fractions import Fraction
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from pathlib import PurePath
from types import (
    BuiltinMethodType,
    EllipsisType,
    MappingProxyType,
    MethodType,
    MethodWrapperType,
    ModuleType,
    NoneType,
    UnionType,
)
from typing import Final, ForwardRef, Generic, NewType, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from assay.domain.ast_text import literal_text

_LITERALS: Final = (NoneType, bool, int, float, complex, str, bytes, bytearray, EllipsisType, range)
_AS_TEXT: Final = (Decimal, Fraction, uuid.UUID, zoneinfo.ZoneInfo, IPv4Address, IPv6Address, IPv4Network,
                   IPv6Network)  # fmt: skip
_REDUCED: Final = (operator.itemgetter, operator.attrgetter, operator.methodcaller)
_LISTS: Final = (list, tuple, deque)
_SETS: Final = (set, frozenset)
_DICTS: Final = (dict, OrderedDict, defaultdict, Counter, MappingProxyType)
_CONTAINERS: Final[frozenset[type]] = frozenset((*_LISTS, *_SETS, *_DICTS))
_BASES: Final = (int, float, complex, str, bytes, Decimal, Fraction, timedelta, date)
# Classes that an own class may derive from: what their objects hold is in the text.
_OPEN_BASES: Final[frozenset[type]] = _CONTAINERS | {
    *_BASES, object, tzinfo, Generic, ABC, BaseModel, BaseException, Exception, ValueError,
}  # fmt: skip
_FIELD_SETTINGS: Final = ("annotation", "default", "default_factory", "alias", "discriminator", "metadata")
_STATE_NAMES: Final = frozenset({"__wrapped__", "__pydantic_private__", "__pydantic_extra__"})
_MISSING: Final = object()


class Unreadable(Exception):
    """A value has no text that tells it from every other value."""


class ValueText:
    """Writes values. `refer` names a function or class and knows nothing else (None); `is_own`
    tells whether the text of a class is the pipeline's; paths below one of `folders` are written from there.
    """

    def __init__(
        self,
        refer: Callable[[object], str | None],
        is_own: Callable[[type], bool],
        folders: tuple[PurePath, ...],
    ) -> None:
        self._refer = refer
        self._is_own = is_own
        self._folders = folders
        self._above: list[int] = []

    def text(self, value: object) -> str:
        """The value's text. Raises `Unreadable`, or `RecursionError` for what is nested very deep."""
        # A value has one text, wherever it was met: what is being written around it does not count.
        above, self._above = self._above, []
        try:
            return self._text(value)
        finally:
            self._above = above

    def _text(self, value: object) -> str:
        if type(value) in _LITERALS:
            return literal_text(value)
        if id(value) in self._above:
            return f"<{len(self._above) - self._above.index(id(value))} up>"
        self._above.append(id(value))
        try:
            for form in (self._known, self._callable, self._typing, self._instance):
                found = form(value)
                if found is not None:
                    return found
        finally:
            self._above.pop()
        raise Unreadable(type(value).__name__)

    def _several(self, values: Iterable[object]) -> str:
        return ", ".join(map(self._text, values))

    def _pairs(self, pairs: Iterable[tuple[object, object]]) -> str:
        return "{" + ", ".join(f"{self._text(key)}: {self._text(item)}" for key, item in pairs) + "}"

    def _known(self, value: object) -> str | None:
        """Plain data of the standard library, by exact class."""
        kind = type(value)
        text: str | None = None
        match value:
            case _ if kind in _CONTAINERS:
                text = self._content(value, kind.__name__)
            case _ if kind in _AS_TEXT:
                text = f"{kind.__name__}({str(value)!a})"
            case _ if kind in _REDUCED:
                text = f"{kind.__name__}({self._text(value.__reduce__()[1:])})"
            case re.Pattern():
                text = f"re({self._text(value.pattern)}, {value.flags:d})"
            case datetime() | time() if kind in (datetime, time):
                zone = self._text(value.tzinfo)
                text = f"{kind.__name__}({value.replace(tzinfo=None).isoformat()}, {value.fold}, {zone})"
            case date() | timedelta() | timezone() if kind in (date, timedelta, timezone):
                text = literal_text(value)
            case slice():
                text = f"slice({self._several((value.start, value.stop, value.step))})"
            case PurePath() if not self._is_own(kind):
                text = self._path(value)
            case _ if value is PydanticUndefined:
                text = "undefined"
            case _ if kind.__module__ == "logging":
                text = kind.__name__  # what is logged decides nothing
        return text

    def _content(self, value: object, name: str) -> str:
        """Lists, sets and mappings. The order of a mapping counts, since loops see it; a set has none."""
        match value:
            case deque():
                return f"deque([{self._several(value)}], {value.maxlen})"
            case list():
                return f"[{self._several(value)}]"
            case tuple():
                return f"({self._several(value)},)"
            case set() | frozenset():
                return f"{name}({', '.join(sorted(map(self._text, value)))})"
            case defaultdict():
                return f"defaultdict({self._text(value.default_factory)}, {self._pairs(value.items())})"
            case dict() | MappingProxyType():
                return ("" if name == "dict" else name) + self._pairs(value.items())
        raise Unreadable(name)

    def _path(self, path: PurePath) -> str:
        """A path without the machine: below the pipeline's folder it is told from there."""
        for folder in self._folders:
            if path.is_relative_to(folder):
                return f"folder({path.relative_to(folder).as_posix()!a})"
        return f"path({path.as_posix()!a})"

    def _callable(self, value: object) -> str | None:
        """Functions and classes, and what binds or wraps one."""
        text: str | None = None
        match value:
            case functools.partial():
                text = f"partial({self._several((value.func, value.args, value.keywords))})"
            case MethodType():
                text = f"bound({self._several((value.__self__, value.__func__))})"
            case BuiltinMethodType() | MethodWrapperType() if _is_bound(value):
                text = f"bound({self._text(value.__self__)}, {value.__name__})"
            case staticmethod() | classmethod():
                text = f"{type(value).__name__}({self._text(value.__func__)})"
            case property():
                text = f"property({self._several((value.fget, value.fset, value.fdel))})"
            case functools.cached_property():
                text = f"cached_property({self._text(value.func)})"
            case _ if callable(value) and get_origin(value) is None:
                text = self._refer(value)
        return text

    def _typing(self, value: object) -> str | None:
        """Type expressions, as far as annotations of the pipeline's own classes use them."""
        origin: object = get_origin(value)
        text: str | None = None
        match value:
            case _ if origin is not None:
                # `int | str` and `Union[int, str]` are one type from Python 3.14 on.
                name = "Union" if origin in (Union, UnionType) else self._text(origin)
                text = f"{name}[{self._several(get_args(value))}]"
            case NewType():
                text = f"NewType({value.__name__!a}, {self._text(value.__supertype__)})"
            case ForwardRef():
                text = f"ForwardRef({value.__forward_arg__!a})"
            case TypeVar():
                text = f"TypeVar({value.__name__!a})"
            case FieldInfo():
                text = f"Field({self._several(getattr(value, name) for name in _FIELD_SETTINGS)})"
            case _ if type(value).__name__ == "TypeAliasType":
                text = f"type({self._text(getattr(value, '__value__', None))})"
            case _ if type(value).__module__ == "typing":
                text = repr(value)  # Any, ClassVar, Optional and the like
        return text

    def _instance(self, value: object) -> str | None:
        """Enum members, named tuples, data classes, and objects of the pipeline's own classes."""
        kind = type(value)
        own = self._is_own(kind)
        if isinstance(value, enum.Enum):
            name = self._text(kind)
            # The members of other people's enums have no other meaning than their name.
            return f"{name}.{value.name}" + (f"({self._text(value.value)})" if own or not value.name else "")
        data = isinstance(value, tuple) and hasattr(kind, "_fields")
        if not own and not data and not (is_dataclass(value) and not isinstance(value, type)):
            return None
        if own and not all(
            base in _OPEN_BASES or self._is_own(base) or _is_abstract(base) for base in kind.__mro__
        ):
            return None
        parts = [self._text(kind)]
        if isinstance(value, tuple(_CONTAINERS)):
            parts.append(self._content(value, "content"))
        else:
            parts.extend(self._base_literal(value))
        state = sorted(self._state(value).items())
        return f"object({', '.join([*parts, *(f'{name}={self._text(item)}' for name, item in state)])})"

    def _base_literal(self, value: object) -> Iterator[str]:
        """What an object of a class derived from a literal's class holds as such."""
        if isinstance(value, str):
            yield ascii(str.__str__(value))
            return
        for base in _BASES:
            if isinstance(value, base):
                yield ascii(base.__repr__(value))
                return

    def _state(self, value: object) -> dict[str, object]:
        """The attributes of an object, those in slots too, without results that it keeps for later."""
        names: set[str] = set(getattr(value, "__dict__", ()))
        for kind in type(value).__mro__:
            slots = vars(kind).get("__slots__", ())
            names.update(_mangled(name, kind) for name in ((slots,) if isinstance(slots, str) else slots))
        # The other such names, its module for one, are what Python writes beside the state.
        names = {name for name in names if not name.startswith("__") or name in _STATE_NAMES}
        found = {name: getattr(value, name, _MISSING) for name in names if not _is_kept(value, name)}
        return {name: item for name, item in found.items() if item is not _MISSING}


def _is_bound(value: BuiltinMethodType | MethodWrapperType) -> bool:
    """Whether a built-in function belongs to an object, not to a module."""
    return value.__self__ is not None and not isinstance(value.__self__, ModuleType)


def _mangled(name: str, kind: type) -> str:
    """The name of an attribute as Python keeps it: `__x` of a class is private to it."""
    private = name.startswith("__") and not name.endswith("__")
    return f"_{kind.__name__.lstrip('_')}{name}" if private else name


def _is_kept(value: object, name: str) -> bool:
    """Whether an attribute is a result kept from an earlier look."""
    return isinstance(getattr(type(value), name, None), functools.cached_property)


def _is_abstract(kind: type) -> bool:
    """Whether a class only says what its heirs do."""
    return kind.__module__ in ("typing", "collections.abc", "abc")
