"""What is wrong with a compressed stream."""

from __future__ import annotations

from assay.domain.failures import AssayError


class DamagedStream(Exception):
    """A compressed stream is cut, or its bytes are not what was compressed.

    `usable` is how many bytes of output may be trusted where only a check sum tells that something is wrong:
    those before the part that it covers. None: all that came before the error.
    """

    def __init__(self, reason: str, usable: int | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.usable = usable


def damaged(file: str, reason: str) -> AssayError:
    """The error that ends the reading of `file`."""
    return AssayError(
        f"{file} {reason}; every whole record before that was read. Mend the file and run again: what is "
        "done is not done twice."
    )
