"""Sources: fingerprint, exact resume, batches, change of the file, standard input."""

from __future__ import annotations

import asyncio
import hashlib
import os
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.adapters.files.source import open_source
from assay.domain.failures import ConfigurationError
from assay.domain.identity import InputRecord, SourceItem
from assay.domain.record_mapping import parse_mapping
from assay.pipeline.fetching import MAX_ITEMS
from assay.ports import SourcePort


async def collect(source: SourcePort, start: int = 0) -> list[SourceItem]:
    return [item async for batch in source.read(start) for item in batch]


def csv_of(rows: int) -> bytes:
    return b"id,text\n" + b"".join(b'%d,"line\nof %d"\n' % (n, n) for n in range(rows))


async def test_name_fingerprint_and_total(tmp_path: Path) -> None:
    file = tmp_path / "in.csv"
    file.write_bytes(csv_of(3))
    source = await open_source(str(file))
    assert source.name == "in.csv"
    assert source.fingerprint == hashlib.sha256(file.read_bytes()).hexdigest()
    assert source.total == 3
    assert [item.source for item in await collect(await open_source(str(file), name="other"))] == [
        "other"
    ] * 3


@given(st.integers(0, 12), st.sampled_from(["in.csv", "in.jsonl"]))
async def test_resume_is_exact(start: int, name: str) -> None:
    lines = [b'{"text": "a"}', b"", b"broken", b'{"text": "b"}', b" ", b"[]", b'{"text": "c"}'] * 2
    content = csv_of(5) + b"broken\n" + b'9,"open' if name == "in.csv" else b"\n".join(lines)
    with TemporaryDirectory() as folder:
        file = Path(folder) / name
        file.write_bytes(content)
        source = await open_source(str(file))
        whole = await collect(source)
        assert await collect(source, start) == whole[start:]


async def test_batches_are_bounded_and_complete(tmp_path: Path) -> None:
    file = tmp_path / "in.csv"
    file.write_bytes(csv_of(1_234))
    source = await open_source(str(file))
    sizes = [len(batch) async for batch in source.read()]
    assert sizes == [MAX_ITEMS, MAX_ITEMS, 234]
    file.write_bytes(b"text\n" + (b"x" * 400_000 + b"\n") * 10)
    source = await open_source(str(file))
    assert [len(batch) async for batch in source.read()] == [3, 3, 3, 1]


async def test_a_reader_that_stops_early_ends_its_thread(tmp_path: Path) -> None:
    file = tmp_path / "in.csv"
    file.write_bytes(csv_of(20_000))
    source = await open_source(str(file))
    reading = source.read()
    assert len(await anext(reading)) == MAX_ITEMS
    threads = [thread for thread in threading.enumerate() if thread.name == "assay-source"]
    assert threads
    await close(reading)
    for thread in threads:
        await asyncio.to_thread(thread.join, 30)
    assert not any(thread.is_alive() for thread in threads)


async def close(reading: AsyncIterator[Sequence[SourceItem]]) -> None:
    closing = getattr(reading, "aclose", None)
    assert closing is not None
    await closing()


def append_to(file: Path) -> None:
    with file.open("ab") as stream:
        stream.write(b"1,a\n")


def replace(file: Path) -> None:
    other = file.with_name("other")
    other.write_bytes(csv_of(10_000))
    other.replace(file)


def remove(file: Path) -> None:
    file.unlink(missing_ok=True)


CHANGES = {"append": append_to, "replace": replace, "remove": remove}


async def read_while_changing(source: SourcePort, change: Callable[[], None], seen: list[int]) -> None:
    async for batch in source.read():
        seen.append(len(batch))
        change()


@pytest.mark.parametrize("change", CHANGES)
async def test_a_file_that_changes_while_it_is_read_is_an_error(tmp_path: Path, change: str) -> None:
    file = tmp_path / "in.csv"
    file.write_bytes(csv_of(10_000))
    source = await open_source(str(file))
    seen: list[int] = []
    with pytest.raises(ConfigurationError, match=r"changed while it was read|no file"):
        await read_while_changing(source, lambda: CHANGES[change](file), seen)
    assert MAX_ITEMS <= sum(seen) < 10_000


async def test_a_file_that_changed_between_opening_and_reading_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "in.csv"
    file.write_bytes(csv_of(3))
    source = await open_source(str(file))
    file.write_bytes(csv_of(4))
    with pytest.raises(ConfigurationError, match="changed"):
        await collect(source)


async def test_paths_that_are_no_files_say_so(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="There is no file"):
        await open_source(str(tmp_path / "absent.csv"))
    with pytest.raises(ConfigurationError, match="is a directory"):
        await open_source(str(tmp_path))
    (tmp_path / "empty.jsonl").write_bytes(b"\n \n")
    with pytest.raises(ConfigurationError, match="holds no records"):
        await open_source(str(tmp_path / "empty.jsonl"))


async def test_the_format_is_found_by_name_or_content(tmp_path: Path) -> None:
    plain = tmp_path / "plain.txt"
    plain.write_bytes(b'\xef\xbb\xbf\n{"text": "a"}\n')
    assert len(await collect(await open_source(str(plain)))) == 1
    plain.write_bytes(b"text\na\n")
    assert len(await collect(await open_source(str(plain)))) == 1
    plain.write_bytes(b'[{"text": "a"}]')
    with pytest.raises(ConfigurationError, match="one JSON object per line"):
        await open_source(str(plain))
    misnamed = tmp_path / "misnamed.csv"
    misnamed.write_bytes(b'{"text": "a"}\n')
    assert len(await collect(await open_source(str(misnamed), format="jsonl"))) == 1


@pytest.fixture
def pipe() -> tuple[int, int]:
    return os.pipe()


async def test_standard_input_is_handed_over_as_it_comes(pipe: tuple[int, int]) -> None:
    """The first records arrive while the writer still holds the pipe open."""
    reader, writer = pipe
    source = await open_source("-", standard_input=reader)
    os.close(reader)
    assert (source.name, source.fingerprint, source.total) == ("stdin", None, None)
    reading = source.read(1)
    os.write(writer, b'{"text": "a"}\n{"text": "b"}\n{"te')
    first = await anext(reading)
    assert [(item.record_id, item.position.offset) for item in first if isinstance(item, InputRecord)] == [
        ("stdin:2", 1)
    ]
    os.write(writer, b'xt": "c"}')
    os.close(writer)
    assert [len(batch) async for batch in reading] == [1]
    with pytest.raises(ConfigurationError, match="cannot be read again"):
        source.read()


async def test_csv_on_standard_input_needs_its_columns_too(pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    os.write(writer, b"id,title\n1,a\n")
    os.close(writer)
    source = await open_source("-", standard_input=reader)
    os.close(reader)
    with pytest.raises(ConfigurationError, match="its columns are id, title"):
        await collect(source)


async def test_empty_standard_input_says_so(pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    os.close(writer)
    source = await open_source("-", standard_input=reader)
    os.close(reader)
    with pytest.raises(ConfigurationError, match="stdin is empty"):
        await collect(source)


def test_mapping_options() -> None:
    assert parse_mapping(["text=title", "customer=a=b", "language="]) == {
        "text": "title",
        "customer": "a=b",
        "language": "",
    }
    for options, said in (
        (["text"], "FIELD=COLUMN"),
        (["mood=x"], "no field mood"),
        (["text=a", "text=b"], "twice"),
        (["text="], "cannot be left out"),
    ):
        with pytest.raises(ConfigurationError, match=said):
            parse_mapping(options)
