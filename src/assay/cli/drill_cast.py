"""The processes of a drill: started, watched, killed, started again, ended."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from assay.domain.failures import AssayError

_ENDS_WITHIN_SECONDS: Final = 20.0
_PATIENCE_SECONDS: Final = 120.0
_LOOK_SECONDS: Final = 0.1
_SAY_SECONDS: Final = 5.0


@dataclass(frozen=True, slots=True)
class Part:
    """One process: its name, the module that it runs, arguments, and what its environment has besides."""

    name: str
    module: str
    arguments: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)


class Cast:
    """All processes of a drill. Each has a log, and a group of its own: Ctrl-C is for the drill alone."""

    def __init__(self, folder: Path, environment: Mapping[str, str], say: Callable[[str], None]) -> None:
        self._say = say
        self._folder = folder
        self._environment = environment
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, *parts: Part) -> None:
        """Start them."""
        for part in parts:
            with self._log(part.name).open("ab") as log:
                self._running[part.name] = subprocess.Popen(
                    [sys.executable, "-P", "-m", "assay.cli.drill_process", part.module, *part.arguments],
                    stdin=subprocess.PIPE, stdout=log, stderr=log, process_group=0, cwd=self._folder,
                    env={**self._environment, **part.environment},
                )  # fmt: skip

    def kill(self, names: Sequence[str] | None = None) -> None:
        """SIGKILL, to all at once; None: whatever still runs."""
        names = list(self._running) if names is None else names
        for name in names:
            self._running[name].kill()
        for name in names:
            self._reap(name)

    def end(self) -> list[str]:
        """Ask all to end; the names of those that did not end well."""
        for process in self._running.values():
            process.terminate()
        deadline = time.monotonic() + _ENDS_WITHIN_SECONDS
        odd = []
        for name in list(self._running):
            process = self._running[name]
            try:
                code = process.wait(timeout=max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                code = process.wait()
            if code != 0:
                odd.append(name)
            self._reap(name)
        return odd

    def wait_for(self, left: Callable[[], int], what: str) -> None:
        """Look again and again, until nothing is left of `what`.

        Raises `AssayError` where a process ends first, or where there is no headway for two minutes.
        """
        before, since, said = -1, time.monotonic(), time.monotonic()
        while (now := left()) > 0:
            self.check()
            if now != before:
                before, since = now, time.monotonic()
            if time.monotonic() - since > _PATIENCE_SECONDS:
                raise AssayError(
                    f"For two minutes the drill has seen no headway with {what} ({now} left): run it with "
                    "--keep, and see the logs in its folder."
                )
            if time.monotonic() - said > _SAY_SECONDS:
                said = time.monotonic()
                self._say(f"      {what}: {now} left")
            time.sleep(_LOOK_SECONDS)

    def check(self) -> None:
        """Raises `AssayError` where a process has ended by itself."""
        for name, process in self._running.items():
            if process.poll() is not None:
                words = self._log(name).read_text("utf-8", "replace").strip().splitlines()
                raise AssayError(
                    f"{name} of the drill ended by itself (exit code {process.returncode}): "
                    f"{words[-1] if words else 'it said nothing'}"
                )

    def _reap(self, name: str) -> None:
        process = self._running.pop(name)
        process.wait()
        if process.stdin is not None:
            process.stdin.close()

    def _log(self, name: str) -> Path:
        return self._folder / f"{name}.log"
