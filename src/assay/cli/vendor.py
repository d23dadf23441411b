"""`assay vendor`: a vendor to practise on."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec

from assay.domain.failures import ConfigurationError
from assay.vendor import options
from assay.vendor.settings import Launch, VendorSettingsError

Options = ParamSpec("Options")


def _command(read: Callable[Options, Launch]) -> Callable[Options, None]:
    """Serve what the options say. The vendor shares no code with the product: its errors become ours here."""

    @wraps(read)
    def run(*args: Options.args, **kwargs: Options.kwargs) -> None:
        from assay.vendor.server import serve

        try:
            serve(read(*args, **kwargs))
        except VendorSettingsError as error:
            raise ConfigurationError(str(error)) from error

    return run


vendor = _command(options.vendor)
