"""Optional libraries: imported when they are needed, with one clear sentence where they are not installed."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from assay.domain.failures import ConfigurationError


def extra(name: str, module: str, purpose: str) -> ModuleType:
    """The module, which the extra `name` installs. Raises `ConfigurationError` naming library and extra."""
    try:
        return import_module(module)
    except ImportError:
        library = module.partition(".")[0]
        raise ConfigurationError(
            f"{purpose} needs {library}: `pip install {library}` in this environment (the extra `{name}`)."
        ) from None
