"""`python -m assay.vendor`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec

import typer

from assay.vendor.options import vendor
from assay.vendor.server import serve
from assay.vendor.settings import Launch, VendorSettingsError

Options = ParamSpec("Options")


def _command(read: Callable[Options, Launch]) -> Callable[Options, None]:
    @wraps(read)
    def run(*args: Options.args, **kwargs: Options.kwargs) -> None:
        serve(read(*args, **kwargs))

    return run


if __name__ == "__main__":
    try:
        typer.run(_command(vendor))
    except VendorSettingsError as error:
        print(f"vendor: {error}", file=sys.stderr)
        sys.exit(2)
