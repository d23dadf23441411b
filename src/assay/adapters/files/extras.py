"""Optional libraries: imported when they are needed, with one clear sentence where they are not installed."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from assay.domain.failures import ConfigurationError


def extra(name: str, module: str, purpose: str) -> ModuleType:
    """The module, which the extra `name` installs. Raises `ConfigurationError` naming the extra."""
    try:
        return import_module(module)
    except ImportError:
        raise ConfigurationError(
            f"{purpose} needs the extra {name}; install it: pip install 'assay[{name}]'."
        ) from None
