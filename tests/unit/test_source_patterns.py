"""Several inputs: patterns, order, names that would collide."""

from __future__ import annotations

from pathlib import Path

import pytest

from assay.adapters.files.patterns import expand
from assay.adapters.files.source import Reading, open_sources
from assay.domain.failures import ConfigurationError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("b.jsonl", "a.jsonl", "2026-10.csv", "deep/c.jsonl", "deep/a.jsonl", "odd[1].jsonl"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b'{"text": "a"}\n' if name.endswith("jsonl") else b"text\na\n")
    return tmp_path


def names(folder: Path, *inputs: str, source_name: str | None = None) -> list[str]:
    found = expand([str(folder / given) for given in inputs], source_name=source_name)
    return [str(Path(path).relative_to(folder)) for path in found]


def test_patterns_are_sorted_and_inputs_keep_their_order(folder: Path) -> None:
    assert names(folder, "[ab].jsonl") == ["a.jsonl", "b.jsonl"]
    assert names(folder, "b.jsonl", "*.csv", "?.jsonl") == ["b.jsonl", "2026-10.csv", "a.jsonl"]
    assert names(folder, "**/c.jsonl") == ["deep/c.jsonl"]
    assert names(folder, "odd[1].jsonl") == ["odd[1].jsonl"]
    assert expand(["-"]) == ["-"]


def test_what_is_refused(folder: Path) -> None:
    for inputs, said in (
        (["*.parquet"], "No file matches"),
        (["deep"], r"is a directory; name a file in it, or a pattern: '.*/deep/\*\.jsonl'"),
        (["a.jsonl", "deep/a.jsonl"], "2 files are named a.jsonl.*--source-name"),
        (["**/*.jsonl"], "2 files are named a.jsonl"),
    ):
        with pytest.raises(ConfigurationError, match=said):
            names(folder, *inputs)
    with pytest.raises(ConfigurationError, match="--source-name is for one file"):
        names(folder, "[ab].jsonl", source_name="x")
    assert names(folder, "a.jsonl", source_name="x") == ["a.jsonl"]


async def test_each_file_is_a_source_of_its_own(folder: Path) -> None:
    sources = await open_sources([str(folder / "?.jsonl"), str(folder / "*.csv")], Reading())
    assert [source.name for source in sources] == ["a.jsonl", "b.jsonl", "2026-10.csv"]


async def test_a_file_that_does_not_fit_is_told_before_anything_is_read(folder: Path) -> None:
    (folder / "c.jsonl").write_bytes(b"")
    with pytest.raises(ConfigurationError, match=r"c\.jsonl holds no records"):
        await open_sources([str(folder / "?.jsonl")], Reading())
