"""A followed file: whole lines, appends, rotation, truncation, a stop; and what its content is by then."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path

import pytest
from source_items import collected, text_of

from assay.adapters.files.follow import FollowedFile, Following
from assay.adapters.files.source import Reading, open_one, open_source
from assay.domain.failures import ConfigurationError
from assay.domain.identity import SourceItem
from assay.ports import Content, GrowingSource, SourcePort


class Followed:
    """A file being followed, batch by batch."""

    def __init__(self, source: SourcePort, start: int = 0) -> None:
        self.source = source
        reading = source.read(start)
        assert isinstance(reading, AsyncGenerator)
        self.reading: AsyncGenerator[Sequence[SourceItem], None] = reading

    async def texts(self, count: int) -> list[str]:
        """The next `count` items."""
        found: list[str] = []
        while len(found) < count:
            async with asyncio.timeout(20):
                found.extend(text_of(item) for item in await anext(self.reading))
        return found

    async def rest(self) -> list[str]:
        """What comes until the source ends."""
        async with asyncio.timeout(20):
            return [text_of(item) async for batch in self.reading for item in batch]

    @property
    def content(self) -> Content:
        assert isinstance(self.source, GrowingSource)
        return self.source.content


async def follow(file: Path, start: int = 0, told: list[str] | None = None, **mapping: str) -> Followed:
    say = (told if told is not None else []).append
    reading = Reading(following=Following(poll=0.01, say=say), mapping=mapping)
    return Followed(await open_one(str(file), reading), start)


def append(file: Path, text: str) -> None:
    with file.open("ab") as stream:
        stream.write(text.encode())


def line(text: str) -> str:
    return f'{{"id": "{text}", "text": "{text}"}}\n'


def is_content(content: Content, data: bytes, total: int) -> bool:
    return content == Content(hashlib.sha256(data).hexdigest(), total, len(data))


async def test_a_line_is_waited_for_until_it_is_whole(tmp_path: Path) -> None:
    file = tmp_path / "app.jsonl"
    append(file, line("a") + line("b")[:9])
    followed = await follow(file)
    assert await followed.texts(1) == ["a"]
    assert is_content(followed.content, line("a").encode(), 1)
    append(file, line("b")[9:] + "\n" + line("c"))
    assert await followed.texts(2) == ["b", "c"]
    assert is_content(followed.content, file.read_bytes(), 3)
    append(file, "broken\n")
    assert await followed.texts(1) == ["(not_json )"]
    assert is_content(followed.content, file.read_bytes(), 4)
    await followed.reading.aclose()


async def test_a_stop_leaves_the_unfinished_line_to_the_next_run(tmp_path: Path) -> None:
    file = tmp_path / "app.jsonl"
    append(file, line("a") + '{"text": "half')
    followed = await follow(file)
    assert await followed.texts(1) == ["a"]
    await followed.reading.aclose()
    assert is_content(followed.content, line("a").encode(), 1)
    append(file, ' done"}\n')
    again = await follow(file, 1)
    assert await again.texts(1) == ["half done"]
    await again.reading.aclose()


async def test_a_replaced_file_is_read_to_its_end_first(tmp_path: Path) -> None:
    file, told = tmp_path / "app.jsonl", list[str]()
    append(file, line("a"))
    followed = await follow(file, told=told)
    assert await followed.texts(1) == ["a"]
    file.rename(tmp_path / "app.jsonl.1")
    append(tmp_path / "app.jsonl.1", line("late") + '{"id": 9, "text": "without an end"}')
    append(file, line("new"))
    assert await followed.rest() == ["late", "without an end"]
    assert is_content(followed.content, (tmp_path / "app.jsonl.1").read_bytes(), 3)
    assert isinstance(followed.source, FollowedFile)
    successor = await followed.source.successor()
    assert successor is not None
    assert told == ["app.jsonl was replaced or emptied; going on with the new file."]
    new = Followed(successor)
    assert await new.texts(1) == ["new"]
    assert is_content(new.content, line("new").encode(), 1)
    await new.reading.aclose()


@pytest.mark.parametrize("content", [line("x"), line("long") * 3], ids=["shorter", "regrown"])
async def test_an_emptied_file_is_a_new_content(tmp_path: Path, content: str) -> None:
    file = tmp_path / "app.jsonl"
    append(file, line("a") + line("b"))
    followed = await follow(file)
    assert await followed.texts(2) == ["a", "b"]
    with file.open("r+b") as stream:
        stream.truncate(0)
        stream.write(content.encode())
    assert await followed.rest() == []
    assert isinstance(followed.source, FollowedFile)
    successor = await followed.source.successor()
    assert successor is not None
    new = Followed(successor)
    assert len(await new.texts(content.count("\n"))) == content.count("\n")
    await new.reading.aclose()


async def test_lines_without_ids_cannot_go_on_behind_a_rotation(tmp_path: Path) -> None:
    """`app.jsonl:1` of the new file would be `app.jsonl:1` of the old one, with other content."""
    file = tmp_path / "app.jsonl"
    append(file, '{"text": "a"}\n')
    followed = await follow(file)
    assert await followed.texts(1) == ["a"]
    file.rename(tmp_path / "old")
    append(file, '{"text": "b"}\n')
    assert await followed.rest() == []
    assert isinstance(followed.source, FollowedFile)
    with pytest.raises(ConfigurationError, match="carry no ids of their own"):
        await followed.source.successor()


async def test_what_cannot_be_followed(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="There is no file"):
        await follow(tmp_path / "absent.jsonl")
    with pytest.raises(ConfigurationError, match="other formats have an end"):
        await follow(tmp_path / "in.csv")
    with pytest.raises(ConfigurationError, match="Standard input"):
        await open_one("-", Reading(following=Following()))


# --- proof that a file was appended to ------------------------------------------------------------------


async def content_of(file: Path) -> Content:
    source = await open_source(str(file))
    assert isinstance(source, GrowingSource)
    return source.content


async def continues(file: Path, earlier: Content) -> bool:
    source = await open_source(str(file))
    assert isinstance(source, GrowingSource)
    return await source.starts_with(earlier)


CASES = {
    "appended": (line("a"), line("a") + line("b"), True),
    "with_blank_lines": (line("a") + "\n \n", line("a") + "\n \n" + line("b"), True),
    "changed_before": (line("a"), line("x") + line("b"), False),
    "last_line_had_no_end": (line("a")[:-1], line("a") + line("b"), False),
    "same": (line("a"), line("a"), False),
}


@pytest.mark.parametrize("case", CASES)
async def test_a_longer_file_is_the_earlier_one_only_where_every_item_is(tmp_path: Path, case: str) -> None:
    before, after, expected = CASES[case]
    file = tmp_path / "in.jsonl"
    file.write_text(before, "utf-8")
    earlier = await content_of(file)
    whole = await collected(await open_source(str(file)))
    file.write_text(after, "utf-8")
    assert await continues(file, earlier) == expected
    if expected:
        assert (await collected(await open_source(str(file))))[: len(whole)] == whole


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("text\na\n", "text\na\nb\n", True),
        ('text\n"a\nb"\n', 'text\n"a\nb"\nc\n', True),
        ('text\na\n"open\n', 'text\na\n"open\nclosed"\n', False),
        ("text\na", "text\na\nb\n", False),
    ],
)
async def test_a_csv_file_that_grew(tmp_path: Path, before: str, after: str, expected: bool) -> None:
    file = tmp_path / "in.csv"
    file.write_text(before, "utf-8")
    earlier = await content_of(file)
    file.write_text(after, "utf-8")
    assert await continues(file, earlier) == expected


async def test_compressed_files_are_never_continued(tmp_path: Path) -> None:
    import gzip

    file = tmp_path / "in.jsonl"
    file.write_bytes(gzip.compress(line("a").encode()))
    earlier = await content_of(file)
    file.write_bytes(file.read_bytes() + gzip.compress(line("b").encode()))
    assert not await continues(file, earlier)
    assert os.stat(file).st_size > earlier.size
