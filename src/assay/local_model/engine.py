"""The engine: llama.cpp with its own HTTP server, as the package `xllamacpp` brings it."""

from __future__ import annotations

import importlib
import os
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from assay.local_model.settings import LocalModelConfig, LocalModelError
from assay.local_model.weights import ENGINE, find_weights

_SILENT: Final = -1


class _Model(Protocol):
    path: str


class _Threads(Protocol):
    n_threads: int


class _Params(Protocol):
    """The settings of the engine that are used here."""

    model: _Model
    model_alias: set[str]
    cpuparams: _Threads
    cpuparams_batch: _Threads
    hostnames: list[str]
    port: int
    n_ctx: int
    n_parallel: int
    verbosity: int
    ui: bool
    endpoint_slots: bool
    cache_prompt: bool
    cache_ram_mib: int


class _Server(Protocol):
    listening_address: str


@dataclass(frozen=True, slots=True)
class RunningModel:
    """A loaded model that listens. `base_url` ends in `/v1`. It serves until the process ends."""

    base_url: str
    server: _Server


def start_model(config: LocalModelConfig) -> RunningModel:
    """Load the weights and listen. Raises `LocalModelError` where that cannot be."""
    weights = find_weights(config.weights)
    _check_port(config)
    # Threads that wait for each other by spinning stop a busy machine; read when the engine is loaded.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    engine = importlib.import_module(ENGINE)
    params: _Params = engine.CommonParams()
    _set(params, config, weights)
    try:
        server: _Server = engine.Server(params)
    except RuntimeError as error:
        raise LocalModelError(
            f"the engine could not load {weights.name} or listen on {config.host}:{config.port}; "
            "try other weights, another port or a smaller --context"
        ) from error
    return RunningModel(f"{server.listening_address}/v1", server)


def _set(params: _Params, config: LocalModelConfig, weights: Path) -> None:
    params.model.path = str(weights)
    params.model_alias = {config.name}
    params.cpuparams.n_threads = config.threads
    params.cpuparams_batch.n_threads = config.threads
    params.hostnames = [config.host]
    params.port = config.port
    # The engine divides its context among the answers that it writes at once.
    params.n_ctx = config.context * config.parallel
    params.n_parallel = config.parallel
    # Logs and the page of slots would show what records say.
    params.verbosity = _SILENT
    params.endpoint_slots = False
    params.ui = False
    # An answer depends on its own request alone, and memory does not grow with the calls.
    params.cache_prompt = False
    params.cache_ram_mib = 0


def _check_port(config: LocalModelConfig) -> None:
    """The engine does not say why it cannot listen, so it is tried before."""
    family = socket.AF_INET6 if ":" in config.host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((config.host, config.port))
        except OSError as error:
            raise LocalModelError(
                f"port {config.port} cannot be used; choose another --port, or 0"
            ) from error
