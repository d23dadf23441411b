"""Asking a broker who it is: one Metadata request of the Kafka protocol, written and read by hand.

Format: https://kafka.apache.org/protocol, request header version 1 and Metadata version 2, which every
broker this runs against answers; all numbers are big-endian.
"""

from __future__ import annotations

import socket
import struct
from enum import StrEnum

_METADATA, _VERSION, _CORRELATION = 3, 2, 7
_CLIENT = b"assay-probe"
_LONGEST_ANSWER = 1_000_000


class BrokerAnswer(StrEnum):
    """What came of asking."""

    OURS = "ours"
    FOREIGN = "foreign"
    SILENT = "silent"
    REFUSED = "refused"


def ask_broker(port: int, cluster_id: str, timeout: float) -> BrokerAnswer:
    """Whether the broker on this port of 127.0.0.1 answers a metadata request as cluster `cluster_id`."""
    try:
        answered = _cluster_id(port, timeout)
    except TimeoutError:
        return BrokerAnswer.SILENT
    except OSError:
        return BrokerAnswer.REFUSED
    except (struct.error, ValueError):
        return BrokerAnswer.FOREIGN
    return BrokerAnswer.OURS if answered == cluster_id.encode() else BrokerAnswer.FOREIGN


def _cluster_id(port: int, timeout: float) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout) as connection:
        connection.settimeout(timeout)
        no_topics = struct.pack(">i", 0)
        header = struct.pack(">hhih", _METADATA, _VERSION, _CORRELATION, len(_CLIENT)) + _CLIENT
        connection.sendall(struct.pack(">i", len(header) + len(no_topics)) + header + no_topics)
        (size,) = struct.unpack(">i", _read(connection, 4))
        if not 0 < size <= _LONGEST_ANSWER:
            raise ValueError("no answer of a Kafka broker")
        return _cluster_of(_read(connection, size))


def _cluster_of(answer: bytes) -> bytes:
    """Correlation id, the brokers (id, host, port, rack), then the cluster id."""
    correlation, brokers = struct.unpack_from(">ii", answer)
    if correlation != _CORRELATION:
        raise ValueError("an answer to another question")
    place = 8
    for _ in range(brokers):
        _, place = _text(answer, place + 4)
        _, place = _text(answer, place + 4)
    cluster, _ = _text(answer, place)
    return cluster


def _text(answer: bytes, place: int) -> tuple[bytes, int]:
    """A nullable string at `place`, and where it ends."""
    (length,) = struct.unpack_from(">h", answer, place)
    end = place + 2 + max(0, length)
    return answer[place + 2 : end], end


def _read(connection: socket.socket, size: int) -> bytes:
    parts = bytearray()
    while len(parts) < size:
        part = connection.recv(size - len(parts))
        if not part:
            raise ConnectionResetError("the connection was closed")
        parts += part
    return bytes(parts)
