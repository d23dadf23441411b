"""The guard that keeps tests and rehearsals away from paid APIs.

With ASSAY_ONLY_LOOPBACK set (to anything but "0"), the transport refuses every host that is not
literally this machine. Names are not resolved: only `localhost`, 127.0.0.0/8 and ::1 pass.
"""

from __future__ import annotations

import os
from ipaddress import ip_address
from typing import Final

from yarl import URL

ONLY_LOOPBACK: Final = "ASSAY_ONLY_LOOPBACK"


def only_loopback() -> bool:
    """Whether the guard is on. Read at every request, so that no import order can switch it off."""
    return os.environ.get(ONLY_LOOPBACK, "0") not in ("", "0")


def is_loopback(url: URL) -> bool:
    """Whether the host that the HTTP client would connect to is literally this machine."""
    host = url.host
    if host is None:
        return False
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
