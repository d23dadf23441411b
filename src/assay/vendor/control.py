"""The settings that hold now: those of the start, and changes laid over them.

A change holds for good or for a time. The latest wins, name by name; when one ends, what it covered shows
again. Changes come from the timeline, from `POST /practice/settings` and from the process the vendor runs in.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

from assay.vendor.changes import changed, changes_shown
from assay.vendor.entries import Action, Change, Origin
from assay.vendor.errors import VendorSettingsError
from assay.vendor.gold import JsonObject
from assay.vendor.settings import VendorConfig
from assay.vendor.timeline import Step, Timeline


@dataclass(frozen=True, slots=True, eq=False)
class _Layer:
    settings: JsonObject
    origin: Origin
    seconds: float | None
    ends_at: float


class Control:
    """Holds `config`, the settings now. Belongs to one event loop."""

    def __init__(self, run: str, config: VendorConfig, timeline: Timeline) -> None:
        self.config = config
        self._run = run
        self._base = config
        self._settled: JsonObject = {}
        self._timeline = timeline
        self._started = time.monotonic()
        self._layers: list[_Layer] = []
        self._timers: list[asyncio.TimerHandle] = []
        self._tell: Callable[[Change], None] | None = None
        self._began = False

    def start(self, tell: Callable[[Change], None]) -> None:
        """The vendor listens. `tell` hears of every change, after it holds."""
        self._tell = tell
        if self._timeline.zero == "start":
            self._begin_timeline()

    def first_call(self) -> None:
        """A call has arrived; the first one may start the timeline. What is due at once holds at once."""
        if not self._began and self._timeline.zero == "first-call":
            self._begin_timeline()

    def change(self, settings: JsonObject, origin: Origin, seconds: float | None = None) -> None:
        """Change settings now, for good or for so many seconds; raises VendorSettingsError."""
        if not settings:
            raise VendorSettingsError("name at least one setting to change")
        if seconds is not None and not 0.0 < seconds <= 86_400.0:
            raise VendorSettingsError("seconds must be more than 0 and at most 86400")
        ends_at = math.inf if seconds is None else time.monotonic() + seconds
        layer = _Layer(dict(settings), origin, seconds, ends_at)
        layers = [*self._layers, layer]
        config = self._laid(layers)
        self._try_ends(layers)
        self._layers, self.config = layers, config
        if seconds is not None:
            self._later(seconds, partial(self._end, layer))
        self._settle()
        self._say(layer, "begin")

    def stop(self) -> None:
        """No more changes."""
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()

    def _begin_timeline(self) -> None:
        self._began = True
        for step in self._timeline.steps:
            if step.at <= 0.0:
                self._begin(step)
            else:
                self._later(step.at, partial(self._begin, step))

    def _begin(self, step: Step) -> None:
        seconds = None if step.until is None else step.until - step.at
        try:
            self.change(step.settings, "timeline", seconds)
        except VendorSettingsError:
            # The timeline fits by itself; a change made by hand stands in its way. The journal says so.
            self._say(_Layer(step.settings, "timeline", seconds, math.inf), "refused")

    def _end(self, layer: _Layer) -> None:
        self._layers.remove(layer)
        self.config = self._laid(self._layers)
        self._settle()
        self._say(layer, "end")

    def _laid(self, layers: list[_Layer]) -> VendorConfig:
        merged = dict(self._settled)
        for layer in layers:
            merged.update(layer.settings)
        return changed(self._base, merged)

    def _try_ends(self, layers: list[_Layer]) -> None:
        """What shows when each layer ends must fit too: an end cannot be refused."""
        left = list(layers)
        for layer in sorted(layers, key=lambda one: one.ends_at):
            if layer.seconds is None:
                break
            left.remove(layer)
            self._laid(left)

    def _settle(self) -> None:
        """Layers at the bottom that hold for good are merged, so that their number stays bounded."""
        while self._layers and self._layers[0].seconds is None:
            self._settled.update(self._layers.pop(0).settings)

    def _later(self, seconds: float, what: Callable[[], None]) -> None:
        now = asyncio.get_running_loop().time()
        self._timers = [timer for timer in self._timers if timer.when() > now and not timer.cancelled()]
        self._timers.append(asyncio.get_running_loop().call_later(seconds, what))

    def _say(self, layer: _Layer, action: Action) -> None:
        if self._tell is None:
            return
        self._tell(
            Change(
                run=self._run,
                time=datetime.now(UTC).isoformat(timespec="microseconds"),
                at=round(time.monotonic() - self._started, 6),
                origin=layer.origin,
                action=action,
                settings=changes_shown(layer.settings),
                seconds=layer.seconds,
            )
        )
