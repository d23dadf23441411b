"""Who acts: the name that an act is recorded under."""

from __future__ import annotations

import getpass

from assay.domain.failures import ConfigurationError


def acting(by: str | None) -> str:
    """The name given, or the account's. Raises `ConfigurationError` where there is neither."""
    if by is not None:
        if not by.strip() or not by.isprintable():
            raise ConfigurationError("--by is a name in printable characters.")
        return by
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        raise ConfigurationError("This account has no name; say who acts with --by NAME.") from None


def worded(reason: str) -> str:
    """A reason that says something. Raises `ConfigurationError` for an empty one."""
    if not reason.strip() or not reason.isprintable():
        raise ConfigurationError("--reason is a sentence in printable characters.")
    return reason
