"""Physical lines of a byte stream in bounded memory."""

from __future__ import annotations

from typing import Final, NamedTuple, Protocol

BOM: Final = b"\xef\xbb\xbf"
_DISCARD_CHUNK: Final = 1 << 16


class LineStream(Protocol):
    """What lines are read from."""

    def readline(self, size: int, /) -> bytes: ...


class Line(NamedTuple):
    """One physical line with its ending. `cut` counts the bytes over the bound that are not in `raw`,
    `cut_quotes` the double quotes among them."""

    raw: bytes
    cut: int = 0
    cut_quotes: int = 0


def without_ending(raw: bytes) -> bytes:
    """The bytes of a line without its LF or CRLF."""
    return raw.removesuffix(b"\n").removesuffix(b"\r")


class LineReader:
    """Hands out physical lines; of a line over `max_bytes` the first `max_bytes` bytes are kept.

    A byte-order mark at the start of the stream is no part of the first line. `number` is the 1-based
    number of the line handed out last.
    """

    def __init__(self, stream: LineStream, max_bytes: int) -> None:
        self._stream = stream
        self._max_bytes = max_bytes
        self.number = 0

    def next_line(self) -> Line | None:
        """The next line; None at the end."""
        raw = self._stream.readline(self._max_bytes + 1)
        if self.number == 0 and raw.startswith(BOM):
            raw = raw[len(BOM) :]
            if not raw.endswith(b"\n"):
                raw += self._stream.readline(len(BOM))
            if not raw:
                return None
        if not raw:
            return None
        self.number += 1
        if len(raw) <= self._max_bytes or raw.endswith(b"\n"):
            return Line(raw)
        return self._shortened(raw)

    def _shortened(self, raw: bytes) -> Line:
        kept, rest = raw[: self._max_bytes], raw[self._max_bytes :]
        cut, quotes = 0, 0
        while rest:
            cut += len(rest)
            quotes += rest.count(b'"')
            if rest.endswith(b"\n"):
                break
            rest = self._stream.readline(_DISCARD_CHUNK)
        return Line(kept, cut, quotes)
