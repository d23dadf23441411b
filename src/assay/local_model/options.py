"""The command line of `python -m assay.local_model`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from assay.local_model.settings import (
    CONTEXT_TOKENS,
    MODEL_NAME,
    Launch,
    LocalModelConfig,
    fitting_parallel,
    fitting_threads,
)

Port: TypeAlias = Annotated[int, typer.Option(help="Port; 0 takes any free one.")]
Host: TypeAlias = Annotated[str, typer.Option(help="Address; only this machine's own.")]
Parallel: TypeAlias = Annotated[
    int | None, typer.Option(help="Answers written at once; default: two per processor, at most 8.")
]
Threads: TypeAlias = Annotated[
    int | None, typer.Option(help="Threads that compute; default: the processors but one.")
]
Context: TypeAlias = Annotated[
    int, typer.Option(metavar="TOKENS", help="Room for one question and its answer.")
]
Weights: TypeAlias = Annotated[
    Path | None, typer.Option(metavar="FILE.gguf", help="Another model; left out, SmolLM2-135M-Instruct.")
]
Name: TypeAlias = Annotated[str, typer.Option(help="What the model is called in the answers.")]
ReadyFile: TypeAlias = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Write the base URL here when it listens.")
]
StopWithStdin: TypeAlias = Annotated[
    bool, typer.Option("--stop-with-stdin", help="Stop when standard input closes.")
]


def local_model(
    *,
    port: Port = 0,
    host: Host = "127.0.0.1",
    parallel: Parallel = None,
    threads: Threads = None,
    context: Context = CONTEXT_TOKENS,
    weights: Weights = None,
    name: Name = MODEL_NAME,
    ready_file: ReadyFile = None,
    stop_with_stdin: StopWithStdin = False,
) -> Launch:
    """Serve a small language model on this machine: an OpenAI-compatible API without a key."""
    config = LocalModelConfig(
        port=port,
        host=host,
        parallel=fitting_parallel() if parallel is None else parallel,
        threads=fitting_threads() if threads is None else threads,
        context=context,
        weights=weights,
        name=name,
    )
    return Launch(config, ready_file, stop_with_stdin)
