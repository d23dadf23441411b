"""`python -m assay.local_model`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec

import typer

from assay.local_model.options import local_model
from assay.local_model.serving import serve
from assay.local_model.settings import Launch, LocalModelError

Options = ParamSpec("Options")


def _command(read: Callable[Options, Launch]) -> Callable[Options, None]:
    @wraps(read)
    def run(*args: Options.args, **kwargs: Options.kwargs) -> None:
        serve(read(*args, **kwargs))

    return run


if __name__ == "__main__":
    try:
        typer.run(_command(local_model))
    except LocalModelError as error:
        print(f"local model: {error}", file=sys.stderr)
        sys.exit(2)
