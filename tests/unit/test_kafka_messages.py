"""A message becomes a record: its time, its own source, its attributes."""

from __future__ import annotations

from typing import cast

import pytest
from confluent_kafka import (
    TIMESTAMP_CREATE_TIME,
    TIMESTAMP_LOG_APPEND_TIME,
    TIMESTAMP_NOT_AVAILABLE,
    Message,
)

from assay.adapters.kafka.messages import MessageReader, Received, received, timestamp_of
from assay.adapters.postgres.claim_rows import attributes_of
from assay.domain.identity import InputRecord, MalformedInput, SourcePosition
from assay.domain.record_mapping import SourceRules

POSITION = SourcePosition(3, 7, None, 1, 1_700_000_000_123)
READER = MessageReader(SourceRules("tickets", {}, 1000))


@pytest.mark.parametrize(
    ("found", "taken"),
    [
        ((TIMESTAMP_CREATE_TIME, 1_700_000_000_123), 1_700_000_000_123),
        ((TIMESTAMP_LOG_APPEND_TIME, 0), 0),
        ((TIMESTAMP_NOT_AVAILABLE, 5), None),
        ((TIMESTAMP_CREATE_TIME, -1), None),
        ((TIMESTAMP_CREATE_TIME, 253_402_300_800_000), None),
        ((TIMESTAMP_CREATE_TIME, 2**63 - 1), None),
    ],
)
def test_a_time_that_no_calendar_has_is_none(found: tuple[int, int], taken: int | None) -> None:
    assert timestamp_of(found) == taken


def test_a_record_carries_its_messages_time_and_its_own_source() -> None:
    item = READER.item(Received(POSITION, b'{"id": "a", "text": "t", "source": "crm"}'))
    assert isinstance(item, InputRecord)
    assert (item.source, item.attributes.source, item.position) == ("tickets", "crm", POSITION)
    assert attributes_of(item) == '{"source": "crm", "source_timestamp": 1700000000123}'


def test_a_bare_record_carries_its_time_alone() -> None:
    item = READER.item(Received(POSITION, b'{"id": "a", "text": "t"}'))
    assert isinstance(item, InputRecord)
    assert attributes_of(item) == '{"source_timestamp": 1700000000123}'
    bare = READER.item(Received(POSITION._replace(timestamp_ms=None), b'{"id": "a", "text": "t"}'))
    assert isinstance(bare, InputRecord)
    assert attributes_of(bare) is None


@pytest.mark.parametrize("source", ['{"a": 1}', "true", '" "', '"' + "x" * 600 + '"', "[1]"])
def test_a_source_of_another_kind_makes_no_record_malformed(source: str) -> None:
    item = READER.item(Received(POSITION, f'{{"id": "a", "text": "t", "source": {source}}}'.encode()))
    assert isinstance(item, InputRecord)
    assert item.attributes.source is None


def test_what_is_malformed_has_its_time_too() -> None:
    item = READER.item(Received(POSITION, None))
    assert isinstance(item, MalformedInput)
    assert (item.error_type, item.position.timestamp_ms) == ("tombstone", 1_700_000_000_123)


class OddHeaders:
    """A message as the client has it, whose header names are not UTF-8."""

    def headers(self) -> None:
        raise SystemError("returned a result with an exception set")

    def partition(self) -> int:
        return 1

    def offset(self) -> int:
        return 7

    def timestamp(self) -> tuple[int, int]:
        return (1, 10**15)

    def value(self) -> bytes:
        return b"{}"


def test_headers_that_cannot_be_read_are_none_and_the_message_is() -> None:
    found = received(cast(Message, OddHeaders()), 3)
    assert (found.headers, found.value) == ((), b"{}")
    assert (found.position.partition, found.position.offset, found.position.timestamp_ms) == (1, 7, None)
