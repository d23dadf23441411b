"""CSV: rows keep their bytes and lines, whatever is wrong with them."""

from __future__ import annotations

import csv
import io
import os
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st
from source_items import items_of

from assay.adapters.files.source import open_source
from assay.domain.failures import ConfigurationError
from assay.domain.identity import Attributes, InputRecord, MalformedInput, SourcePosition

SHARED = Path(
    os.environ.get("ASSAY_SHARED_DATA", Path(__file__).resolve().parents[2].parent / "shared" / "data")
)
needs_shared = pytest.mark.skipif(
    not SHARED.is_dir(), reason="real inputs are not here: set ASSAY_SHARED_DATA"
)


@pytest.mark.parametrize(
    ("row", "error_type", "path"),
    [
        (b"2,\xff,1", "not_utf8", ""),
        (b'2,"\xff\nx",1', "not_utf8", ""),
        (b"2,a", "bad_row", ""),
        (b"2,a,1,more", "bad_row", ""),
        (b" ", "bad_row", ""),
        (b'2,"a"b,1', "bad_row", ""),
        (b"2,a\rb,1", "bad_row", ""),
        (b"2,,1", "blank_text", "/text"),
        (b'2,"\n",1', "blank_text", "/text"),
        ("2,\u3000\u2060,1".encode(), "blank_text", "/text"),
        (b"2,a\0,1", "unstorable_text", "/text"),
        (b",a,1", "bad_identity", "/id"),
        (b" ,a,1", "bad_identity", "/id"),
        (b"2\0,a,1", "bad_identity", "/id"),
        (b"x" * 513 + b",a,1", "bad_identity", "/id"),
        (b"2,a,", "bad_identity", "/input_version"),
        (b"2,a,0", "bad_identity", "/input_version"),
        (b"2,a,1.0", "bad_identity", "/input_version"),
        (b"2,a, 1", "bad_identity", "/input_version"),
        ("2,a,١".encode(), "bad_identity", "/input_version"),
        (b"2,a,99999999999999999999", "bad_identity", "/input_version"),
        (b"2," + b"x" * (1 << 20) + b",1", "oversized", ""),
        (b'2,"' + b"x\n" * (1 << 19) + b'",1', "oversized", ""),
    ],
)
async def test_a_bad_row_is_isolated_with_its_place_and_bytes(
    tmp_path: Path, row: bytes, error_type: str, path: str
) -> None:
    content = b"id,text,input_version\n1,good,1\n" + row + b"\n3,good,1\n"
    before, bad, after = await items_of(tmp_path / "in.csv", content)
    assert isinstance(before, InputRecord)
    assert isinstance(after, InputRecord)
    assert after.record_id == "3"
    assert isinstance(bad, MalformedInput)
    assert (bad.error_type, bad.path) == (error_type, path.replace("/id", "/record_id"))
    assert bad.position == SourcePosition(0, 1, 3)
    assert bad.raw == row[: 1 << 20]


async def test_quoted_line_breaks_quotes_and_commas_are_text(tmp_path: Path) -> None:
    content = b'id,text\r\n1,"first\r\nsecond, ""quoted"""\r\n\r\n2,5" pipe\r\n3,last'
    found = await items_of(tmp_path / "in.csv", content)
    texts = [(i.record_id, i.text, i.position.line) for i in found if isinstance(i, InputRecord)]
    assert texts == [("1", 'first\r\nsecond, "quoted"', 2), ("2", '5" pipe', 5), ("3", "last", 6)]


@pytest.mark.parametrize("bound", [1 << 20, 12])
async def test_an_open_quote_at_the_end_makes_one_bad_row(tmp_path: Path, bound: int) -> None:
    content = b'id,text\n1,a\n2,"open\n3,b\n4,c\n'
    found = await items_of(tmp_path / "in.csv", content, max_record_bytes=bound)
    good, bad = found
    assert isinstance(good, InputRecord)
    assert isinstance(bad, MalformedInput)
    assert (bad.error_type, bad.position.line) == ("bad_row", 3)
    assert bad.raw == b'2,"open\n3,b\n4,c'[:bound]


@pytest.mark.parametrize("bound", [1 << 20, 12])
async def test_rows_after_a_quote_that_closes_late_are_read_alike_at_any_bound(
    tmp_path: Path, bound: int
) -> None:
    """What lies inside an open quote is never taken for rows; the row after it is found again."""
    content = b'id,text\n1,"open\n2,b\n3,c\n4,d\n5,"e"\n6,f\n7,"g"\n'
    found = await items_of(tmp_path / "in.csv", content, max_record_bytes=bound)
    assert isinstance(found[0], MalformedInput)
    assert [item.record_id for item in found[1:] if isinstance(item, InputRecord)] == ["6", "7"]
    assert [item.position.line for item in found] == [2, 7, 8]


async def test_a_row_of_several_long_lines_is_passed_whole(tmp_path: Path) -> None:
    content = b'id,text\n1,"' + b"x" * 50 + b'\n"",""\n' + b"y" * 50 + b'"\n2,ok\n'
    found = await items_of(tmp_path / "in.csv", content, max_record_bytes=20)
    assert [type(item) for item in found] == [MalformedInput, InputRecord]
    assert isinstance(found[0], MalformedInput)
    assert found[0].raw == content[len(b"id,text\n") :][:20]


async def test_very_long_fields_are_ordinary(tmp_path: Path) -> None:
    text = "long " * 100_000
    (item,) = await items_of(tmp_path / "in.csv", f"text\n{text}\n".encode())
    assert isinstance(item, InputRecord)
    assert item.text == text


async def test_rows_without_an_id_column_are_named_after_file_and_row(tmp_path: Path) -> None:
    found = await items_of(tmp_path / "in.csv", b'\xef\xbb\xbftext\n"a\nb"\n\nc\n')
    keys = [(i.record_id, i.input_version, i.position.line) for i in found if isinstance(i, InputRecord)]
    assert keys == [("in.csv:1", 1, 2), ("in.csv:2", 1, 5)]


async def test_mapped_columns_and_empty_attributes(tmp_path: Path) -> None:
    content = b"ticket,ver,title,who,language\n7,2,hello,acme,\n"
    (item,) = await items_of(
        tmp_path / "in.csv",
        content,
        {"text": "title", "record_id": "ticket", "input_version": "ver", "customer": "who"},
    )
    assert item == InputRecord(
        "7", 2, "hello", "in.csv", SourcePosition(0, 0, 2), Attributes(customer="acme")
    )


@pytest.mark.parametrize(
    ("content", "mapping", "said"),
    [
        (b"", {}, "empty"),
        (b"\n\n", {}, "empty"),
        (b"id,text\n", {}, "no records below its header"),
        (b"id,title,body\n1,a,b\n", {}, "its columns are id, title, body"),
        (b"id,text\n1,a\n", {"record_id": "key"}, "no column key for the field record_id"),
        (b"text,text\na,b\n", {}, "several columns named text"),
        (b"t\0e\n1\n", {}, "save it as UTF-8"),
        ("id,text\n1,a\n".encode("utf-16"), {}, "save it as UTF-8"),
        (b'id,"text\n1,a\n', {}, "not a CSV header"),
        (b'{"text": "a"}\n', {}, "looks like JSONL"),
        (b"id;text\n1;hello\n", {}, "not separated by commas"),
    ],
)
async def test_a_file_that_cannot_be_labelled_says_what_to_do(
    tmp_path: Path, content: bytes, mapping: dict[str, str], said: str
) -> None:
    with pytest.raises(ConfigurationError, match=said):
        await items_of(tmp_path / "in.csv", content, mapping)


async def test_a_missing_header_is_not_quoted_in_the_error(tmp_path: Path) -> None:
    secret = "my card 4111-1111-1111-1111 was charged twice, please help me at once"
    with pytest.raises(ConfigurationError) as raised:
        await items_of(tmp_path / "in.csv", f'1,"{secret}"\n2,b\n'.encode())
    assert "4111" not in str(raised.value)


cells = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8)


@given(st.lists(st.tuples(cells, cells), min_size=1, max_size=12))
async def test_what_a_csv_writer_writes_is_read_back(written: list[tuple[str, str]]) -> None:
    buffer = io.StringIO(newline="")
    writer = csv.writer(buffer)
    writer.writerow(["text", "customer"])
    writer.writerows((f"x{text}", customer) for text, customer in written)
    with TemporaryDirectory() as folder:
        found = await items_of(Path(folder) / "in.csv", buffer.getvalue().encode())
    got = [(i.text, i.attributes.customer or "") for i in found if isinstance(i, InputRecord)]
    assert got == [(f"x{text}", customer) for text, customer in written]


@given(st.binary(max_size=200), st.sampled_from([16, 1 << 20]))
async def test_no_bytes_are_lost_and_none_raise(content: bytes, bound: int) -> None:
    """Everything after the header is a row, a blank line, or a line ending."""
    with TemporaryDirectory() as folder:
        found = await items_of(Path(folder) / "in.csv", b"text,id\na,b\n" + content, max_record_bytes=bound)
    lines = [item.position.line or 0 for item in found]
    assert lines == sorted(set(lines))
    kept = sum(len(item.raw) for item in found if isinstance(item, MalformedInput))
    assert kept <= len(content)


@needs_shared
@pytest.mark.parametrize("split", [1, 2])
async def test_real_tickets_are_read_whole(split: int) -> None:
    file = SHARED / "tickets" / f"ecommerce_llm_split_{split}.csv"
    source = await open_source(str(file), mapping={"text": "title"})
    found = [item async for batch in source.read() for item in batch]
    assert source.total == len(found) == 620
    with file.open(encoding="utf-8", newline="") as stream:
        titles = [row["title"] for row in csv.DictReader(stream)]
    assert [item.text for item in found if isinstance(item, InputRecord)] == titles
