"""A timeline: which settings hold from when to when."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, TypeAlias, get_args

from assay.vendor.changes import changed
from assay.vendor.errors import VendorSettingsError
from assay.vendor.gold import Json, JsonObject
from assay.vendor.settings import VendorConfig

Zero: TypeAlias = Literal["first-call", "start"]

LONGEST: Final = 30 * 86_400.0


@dataclass(frozen=True, slots=True)
class Step:
    """Settings that hold from `at` seconds until `until` (None: for good)."""

    at: float
    until: float | None
    settings: JsonObject


@dataclass(frozen=True, slots=True)
class Timeline:
    """Steps in the order of `at` (of the file, where equal); seconds count from `zero`."""

    steps: tuple[Step, ...] = ()
    zero: Zero = "first-call"


def read_timeline(path: Path, config: VendorConfig) -> Timeline:
    """Read a timeline from JSON or TOML (by the suffix) and try it on the settings.

    JSON is a list of steps, or as TOML an object with `steps` and, if wanted, `from`. Raises
    VendorSettingsError naming the file and the step.
    """
    try:
        text = path.read_text(encoding="utf-8")
        value: Json = tomllib.loads(text) if path.suffix.lower() == ".toml" else json.loads(text)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise VendorSettingsError(f"the timeline {path} cannot be read ({reason})") from error
    except ValueError as error:  # of UTF-8, JSON and TOML alike
        raise VendorSettingsError(f"the timeline {path} is not well-formed JSON or TOML") from error
    try:
        timeline = timeline_of(value)
        try_out(timeline, config)
    except VendorSettingsError as error:
        raise VendorSettingsError(f"the timeline {path}: {error}") from error
    return timeline


def timeline_of(value: Json) -> Timeline:
    """The timeline of a parsed file."""
    top: Mapping[str, Json] = value if isinstance(value, dict) else {"steps": value}
    unknown = sorted(set(top) - {"from", "steps"})
    if unknown:
        raise VendorSettingsError(f"{unknown[0]} is neither from nor steps")
    zero = top.get("from", "first-call")
    if zero not in get_args(Zero):
        raise VendorSettingsError("from must be first-call or start")
    steps = top.get("steps")
    if not isinstance(steps, list) or not steps:
        raise VendorSettingsError("it holds no steps")
    read = [_step(number, step) for number, step in enumerate(steps, start=1)]
    in_order = tuple(sorted(read, key=lambda step: step.at))
    return Timeline(in_order, "start" if zero == "start" else "first-call")


def try_out(timeline: Timeline, config: VendorConfig) -> None:
    """Check the settings at each moment at which they change."""
    moments = {step.at for step in timeline.steps} | {
        step.until for step in timeline.steps if step.until is not None
    }
    for moment in sorted(moments):
        holding: JsonObject = {}
        for step in timeline.steps:
            if step.at <= moment and (step.until is None or moment < step.until):
                holding.update(step.settings)
        try:
            changed(config, holding)
        except VendorSettingsError as error:
            raise VendorSettingsError(f"at {moment:g} seconds {error}") from error


def _step(number: int, step: Json) -> Step:
    if not isinstance(step, dict):
        raise VendorSettingsError(f"step {number} is no object with at and settings")
    at, until = _seconds(number, "at", step.get("at")), step.get("until")
    end = None if until is None else _seconds(number, "until", until)
    if end is not None and end <= at:
        raise VendorSettingsError(f"step {number} ends before it begins")
    settings = {name: value for name, value in step.items() if name not in ("at", "until", "note")}
    if not settings:
        raise VendorSettingsError(f"step {number} changes nothing")
    return Step(at, end, settings)


def _seconds(number: int, name: str, value: Json) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= LONGEST:
        raise VendorSettingsError(f"step {number}: {name} is a number of seconds, at most 30 days")
    return float(value)
