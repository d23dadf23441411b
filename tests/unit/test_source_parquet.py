"""Parquet in: types, places, resume, bounded memory; and as gold."""

from __future__ import annotations

import json
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st
from parquet_files import pa, pq
from source_items import collected, text_of, until_error

from assay.adapters.files.gold import read_gold
from assay.adapters.files.source import open_source
from assay.domain.failures import ConfigurationError
from assay.domain.identity import Attributes, InputRecord, MalformedInput, SourcePosition


def write(file: Path, columns: dict[str, object], **settings: object) -> Path:
    pq.write_table(pa.table(columns), file, **settings)
    return file


TEXTS = {
    "string": pa.string(),
    "large_string": pa.large_string(),
    "binary": pa.binary(),
    "large_binary": pa.large_binary(),
    "dictionary": pa.dictionary(pa.int32(), pa.string()),
    "string_view": pa.string_view(),
}


@pytest.mark.parametrize("kind", TEXTS)
async def test_every_kind_of_text_is_text(tmp_path: Path, kind: str) -> None:
    texts = ["größer 😀", "b", "b"]
    column = pa.array([text.encode() for text in texts] if "binary" in kind else texts)
    column = column.dictionary_encode() if kind == "dictionary" else column.cast(TEXTS[kind])
    file = write(tmp_path / "in.parquet", {"text": column, "id": [7, 8, 9], "customer": ["a", None, "c"]})
    source = await open_source(str(file))
    first, second, third = await collected(source)
    assert source.total == 3
    assert first == InputRecord(
        "7", 1, texts[0], "in.parquet", SourcePosition(0, 0, 1), Attributes(customer="a")
    )
    assert isinstance(second, InputRecord)
    assert second.attributes.customer is None
    assert text_of(third) == "b"


async def test_rows_without_ids_are_numbered_and_a_file_is_known_by_its_mark(tmp_path: Path) -> None:
    file = write(tmp_path / "export", {"title": ["a", "b"]})
    found = await collected(await open_source(str(file), mapping={"text": "title"}))
    assert [item.record_id for item in found if isinstance(item, InputRecord)] == ["export:1", "export:2"]


async def test_a_bad_row_is_isolated_with_its_values(tmp_path: Path) -> None:
    texts = pa.array([b"fine", b"\xff\xfe", None, b" ", b"x" * 3_000, b"a\0b", b"fine"])
    file = write(
        tmp_path / "in.parquet",
        {"text": texts, "record_id": ["1", "2", "3", "4", "5", "6", None], "noise": list(range(7))},
    )
    found = await collected(await open_source(str(file), max_record_bytes=2_000))
    bad = [(item.error_type, item.path) for item in found if isinstance(item, MalformedInput)]
    assert bad == [
        ("not_utf8", ""), ("wrong_type", "/text"), ("blank_text", "/text"), ("oversized", ""),
        ("unstorable_text", "/text"), ("bad_identity", "/record_id"),
    ]  # fmt: skip
    raws = [item.raw for item in found if isinstance(item, MalformedInput)]
    assert json.loads(raws[0]) == {"text": {"base64": "//4="}, "record_id": "2"}
    assert json.loads(raws[1]) == {"text": None, "record_id": "3"}
    assert len(raws[3]) == 2_000


@pytest.mark.parametrize(
    ("column", "said"),
    [
        (pa.array([["a"]]), "column text of in.parquet is list<.*>, where text is needed"),
        (pa.array([{"a": "b"}]), "is struct<.*>, where text is needed"),
        (pa.array([1.5]), "is double, where text is needed"),
        (pa.array([3]), "is int64, where text is needed"),
        (pa.array([Decimal("1.50")]), "is decimal128"),
    ],
)
async def test_a_column_that_is_no_text_is_refused_before_anything_is_read(
    tmp_path: Path, column: object, said: str
) -> None:
    file = write(tmp_path / "in.parquet", {"text": column})
    with pytest.raises(ConfigurationError, match=said):
        await open_source(str(file))
    other = write(tmp_path / "other.parquet", {"text": ["a"], "unused": column})
    assert len(await collected(await open_source(str(other)))) == 1


async def test_columns_that_are_missing_and_files_that_are_none(tmp_path: Path) -> None:
    file = write(tmp_path / "in.parquet", {"title": ["a"]})
    with pytest.raises(ConfigurationError, match="has no column text; its columns are title"):
        await open_source(str(file))
    broken = tmp_path / "broken.parquet"
    broken.write_bytes(b"PAR1 and no more")
    with pytest.raises(ConfigurationError, match="cannot be read as Parquet"):
        await open_source(str(broken))
    with pytest.raises(ConfigurationError, match="holds no records"):
        await open_source(str(write(tmp_path / "empty.parquet", {"text": pa.array([], pa.string())})))


@given(st.integers(0, 60), st.integers(1, 30), st.booleans())
async def test_resume_is_exact_across_row_groups(start: int, group: int, dictionary: bool) -> None:
    texts = [f"ticket {n % 7 or ''}" if n % 11 else " " for n in range(50)]
    with TemporaryDirectory() as folder:
        file = write(
            Path(folder) / "in.parquet", {"text": texts}, row_group_size=group, use_dictionary=dictionary
        )
        source = await open_source(str(file))
        whole = await collected(source)
        assert [item.position.offset for item in whole] == list(range(50))
        assert await collected(source, start) == whole[start:]


async def test_a_broken_row_group_costs_nothing_that_came_before(tmp_path: Path) -> None:
    texts = [f"ticket {n}" for n in range(400)]
    file = write(tmp_path / "in.parquet", {"text": texts}, row_group_size=100, compression="gzip")
    footer = pq.ParquetFile(file).metadata.row_group(2).column(0)
    content = bytearray(file.read_bytes())
    at = footer.data_page_offset
    content[at : at + footer.total_compressed_size // 2] = bytes(footer.total_compressed_size // 2)
    file.write_bytes(content)
    found, said = await until_error(await open_source(str(file)))
    assert said is not None
    assert "broken data in its row group 3" in said
    assert [text_of(item) for item in found] == texts[:200]


READER = """
import asyncio, json, resource, sys
from assay.adapters.files.source import open_source

async def main():
    source = await open_source(sys.argv[2])
    [batch async for batch in source.read()]
    base = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    source = await open_source(sys.argv[1])
    items = 0
    async for batch in source.read():
        items += len(batch)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - base
    print(json.dumps([items, grown // 1024]))

asyncio.run(main())
"""


@pytest.mark.parametrize("what", ["many", "repeated"])
def test_memory_stays_flat(tmp_path: Path, what: str) -> None:
    """Many rows; and one long text that stands there 150 times, 300 MB if it were unfolded."""
    small = write(tmp_path / "small.parquet", {"text": ["a"]})
    if what == "many":
        texts = [f"My card was charged twice, order {n}, please help me" for n in range(300_000)]
        file = write(tmp_path / "in.parquet", {"text": texts}, row_group_size=50_000)
    else:
        once = pa.DictionaryArray.from_arrays(pa.array([0] * 150), pa.array(["x" * 2_000_000]))
        file = write(tmp_path / "in.parquet", {"text": once})
    answer = subprocess.run(
        [sys.executable, "-c", READER, str(file), str(small)], capture_output=True, check=True
    )
    items, grown = json.loads(answer.stdout)
    assert items == (300_000 if what == "many" else 150)
    assert grown < 60


def test_gold_in_parquet(tmp_path: Path) -> None:
    file = write(
        tmp_path / "gold.parquet", {"id": [1, 2, 3], "gold": ["x", "y", "x"], "flag": [True, False, True]}
    )
    assert read_gold(f"{file}#gold") == {"1": "x", "2": "y", "3": "x"}
    assert read_gold(f"{file}#flag") == {"1": "true", "2": "false", "3": "true"}
    with pytest.raises(ConfigurationError, match="has no column label"):
        read_gold(f"{file}#label")
    nested = write(tmp_path / "nested.parquet", {"id": [1], "gold": [["x"]]})
    with pytest.raises(ConfigurationError, match="is no label"):
        read_gold(f"{nested}#gold")


def test_without_the_extra_the_sentence_names_it(tmp_path: Path) -> None:
    file = write(tmp_path / "in.parquet", {"text": ["a"]})
    code = (
        "import asyncio, sys; sys.modules['pyarrow'] = None\n"
        "from assay.adapters.files.source import open_source\n"
        "asyncio.run(open_source(sys.argv[1]))"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code, str(file)], capture_output=True, text=True, check=False
    )
    assert "Parquet needs pyarrow: `pip install pyarrow`" in ended.stderr
    assert "(the extra `parquet`)" in ended.stderr
