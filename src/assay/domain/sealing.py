"""Associated data: what ties sealed bytes to the record they belong to."""

from __future__ import annotations

from assay.domain.identity import InputKey


def text_aad(key: InputKey, sha256: bytes) -> bytes:
    """Associated data of a record's text: identity and hash."""
    return _aad(b"text", key, sha256)


def label_aad(key: InputKey, sha256: bytes, task_id: int) -> bytes:
    """Associated data of a label: identity and hash of the input, and the task it answers."""
    return _aad(b"label", key, sha256) + task_id.to_bytes(8, "big")


def response_aad(key: InputKey, sha256: bytes, attempt: bytes) -> bytes:
    """Associated data of a kept response: identity and hash of the input, and the attempt it answered."""
    return _aad(b"response", key, sha256) + attempt


def raw_aad(source_id: int, partition: int, offset: int) -> bytes:
    """Associated data of isolated bytes: their position."""
    return b"raw" + b"".join(number.to_bytes(8, "big") for number in (source_id, partition, offset))


def _aad(kind: bytes, key: InputKey, sha256: bytes) -> bytes:
    record_id = key.record_id.encode("utf-8")
    # Lengths first: no two identities may yield the same bytes.
    return (
        kind + len(record_id).to_bytes(4, "big") + record_id + key.input_version.to_bytes(8, "big") + sha256
    )
