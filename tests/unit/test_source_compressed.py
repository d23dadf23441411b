"""Compressed files are the files that they hold: the same items; damage costs nothing that came before."""

from __future__ import annotations

import gzip
import hashlib
import os
import zlib
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st
from source_items import collected, text_of, until_error

from assay.adapters.files.source import open_source
from assay.domain.failures import AssayError
from assay.domain.identity import SourceItem

LINES = b"".join(b'{"id": %d, "text": "ticket %d"}\n' % (n, n) for n in range(40)) + b"broken\n\n[]\n"
CSV = b"id,text\n" + b"".join(b'%d,"ticket\n%d"\n' % (n, n) for n in range(40))


def zstd(data: bytes) -> bytes:
    return zstandard.ZstdCompressor(write_checksum=True).compress(data)


def split(data: bytes, cuts: list[int], pack: Callable[[bytes], bytes]) -> bytes:
    """The data as several members or frames, cut anywhere."""
    edges = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    return b"".join(pack(data[start:end]) for start, end in pairwise(edges))


def same(one: list[SourceItem], other: list[SourceItem]) -> bool:
    """The same items but for the name of their file."""
    return [(text_of(item), item.position) for item in one] == [
        (text_of(item), item.position) for item in other
    ]


@given(
    st.lists(st.integers(0, 5_000), max_size=5), st.sampled_from(["gz", "zst"]), st.integers(0, 45), st.data()
)
async def test_any_split_and_any_offset_give_the_same_items(
    cuts: list[int], kind: str, start: int, data: st.DataObject
) -> None:
    name, content = data.draw(st.sampled_from([("in.jsonl", LINES), ("in.csv", CSV)]))
    with TemporaryDirectory() as folder:
        plain = Path(folder) / name
        plain.write_bytes(content)
        packed = Path(folder) / f"{name}.{kind}"
        packed.write_bytes(split(content, cuts, gzip.compress if kind == "gz" else zstd))
        source = await open_source(str(packed))
        assert source.fingerprint == hashlib.sha256(packed.read_bytes()).hexdigest()
        whole = await collected(await open_source(str(plain)))
        assert source.total == len(whole)
        assert same(await collected(source, start), whole[start:])


@given(st.integers(1, 10_000), st.sampled_from(["gz", "zst"]))
async def test_of_a_cut_file_every_whole_line_before_the_cut_is_read(cut: int, kind: str) -> None:
    """Whatever the cut, what is read is a start of what was written, and exactly one error follows it."""
    packed = split(LINES, [700, 1_400], gzip.compress if kind == "gz" else zstd)
    packed = packed[: cut % (len(packed) - 1) + 1]
    with TemporaryDirectory() as folder:
        plain, file = Path(folder) / "in.jsonl", Path(folder) / f"in.jsonl.{kind}"
        plain.write_bytes(LINES)
        file.write_bytes(packed)
        whole = await collected(await open_source(str(plain)))
        if len(packed) < 4:
            return
        found, said = await until_damage(file)
        assert same(found, whole[: len(found)])
        assert said is None or "Mend the file and run again" in said
        assert said is not None or packed in cut_at_members(kind)


def cut_at_members(kind: str) -> list[bytes]:
    """Starts of the file that are whole files themselves."""
    pack = gzip.compress if kind == "gz" else zstd
    edges = [0, 700, 1_400, len(LINES)]
    return [split(LINES[:end], [e for e in edges if 0 < e < end], pack) for end in edges[1:]]


async def until_damage(file: Path) -> tuple[list[SourceItem], str | None]:
    try:
        source = await open_source(str(file), format="jsonl")
    except AssayError as error:
        return [], str(error)
    found, said = await until_error(source)
    assert source.total == len(found)
    return found, said


def noisy_lines(count: int) -> bytes:
    """Lines that do not compress well, so that a file has many blocks."""
    return b"".join(
        b'{"id": %d, "text": "%s"}\n' % (n, hashlib.sha512(b"%d" % n).hexdigest().encode())
        for n in range(count)
    )


@pytest.mark.parametrize("kind", ["gz", "zst"])
async def test_a_broken_body_costs_nothing_that_came_before(tmp_path: Path, kind: str) -> None:
    lines = noisy_lines(20_000)
    packed = bytearray(gzip.compress(lines) if kind == "gz" else zstd(lines))
    middle = len(packed) // 2
    packed[middle : middle + 64] = bytes(64)
    file = tmp_path / f"in.jsonl.{kind}"
    file.write_bytes(packed)
    found, said = await until_damage(file)
    assert said is not None
    usable = usable_bytes(kind, bytes(packed))
    assert usable > len(lines) // 4
    # At most the line in which the damage lies is missing; a wrong check sum would cost the whole member.
    if "check sum" not in said:
        assert len(found) == lines[:usable].count(b"\n")


def usable_bytes(kind: str, packed: bytes) -> int:
    """How many bytes come out before the damage, byte by byte: a second way to find out."""
    out = 0
    if kind == "gz":
        inflate = zlib.decompressobj(31)
        for byte in packed:
            try:
                out += len(inflate.decompress(bytes([byte])))
            except zlib.error:
                return out
        return out
    reader = zstandard.ZstdDecompressor().stream_reader(packed, read_size=1)
    try:
        while reader.read(1):
            out += 1
    except zstandard.ZstdError:
        return out
    return out


@pytest.mark.parametrize("kind", ["gz", "zst"])
async def test_a_wrong_check_sum_distrusts_its_member_and_no_other(tmp_path: Path, kind: str) -> None:
    first, second = LINES[:700], LINES[700:]
    pack = gzip.compress if kind == "gz" else zstd
    packed = bytearray(pack(first) + pack(second))
    packed[-1 if kind == "zst" else -5] ^= 1
    file = tmp_path / f"in.jsonl.{kind}"
    file.write_bytes(packed)
    found, said = await until_damage(file)
    assert said is not None
    assert "check sum" in said
    assert len(found) == first.count(b"\n")


async def test_a_mended_file_goes_on_with_the_same_ids(tmp_path: Path) -> None:
    file = tmp_path / "in.jsonl.gz"
    lines = b"".join(b'{"text": "ticket %d"}\n' % n for n in range(500))
    whole = gzip.compress(lines)
    file.write_bytes(whole[: len(whole) // 2])
    some, said = await until_damage(file)
    assert said is not None
    file.write_bytes(whole)
    all_of_them, said = await until_damage(file)
    assert said is None
    assert 0 < len(some) < len(all_of_them) == 500
    assert all_of_them[: len(some)] == some


@pytest.mark.parametrize(
    "content", [b"\x1f\x8b", gzip.compress(LINES)[:9], zstd(LINES)[:5]], ids=["two bytes", "gz", "zst"]
)
async def test_what_holds_nothing_is_refused_at_once(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "in.jsonl"
    file.write_bytes(content)
    with pytest.raises(AssayError, match="ends in the middle of its"):
        await open_source(str(file))


async def test_rubbish_behind_a_member_is_an_error_and_padding_is_not(tmp_path: Path) -> None:
    file = tmp_path / "in.jsonl.gz"
    file.write_bytes(gzip.compress(b'{"text": "a"}\n') + bytes(512))
    assert await until_damage(file) == (await collected(await open_source(str(file))), None)
    file.write_bytes(gzip.compress(b'{"text": "a"}\n') + b"rubbish behind")
    found, said = await until_damage(file)
    assert len(found) == 1
    assert said is not None
    assert "something behind its gzip data" in said


async def test_frames_without_data_are_passed_over(tmp_path: Path) -> None:
    skippable = b"\x5a\x2a\x4d\x18" + (5).to_bytes(4, "little") + b"extra"
    file = tmp_path / "in.jsonl"
    file.write_bytes(skippable + zstd(LINES[:700]) + skippable + zstd(LINES[700:]))
    assert (await open_source(str(file))).total == 42


@pytest.mark.parametrize("kind", ["gz", "zst"])
async def test_a_compressed_pipe(kind: str) -> None:
    reader, writer = os.pipe()
    os.write(writer, split(LINES, [700], gzip.compress if kind == "gz" else zstd))
    os.close(writer)
    source = await open_source("-", standard_input=reader)
    os.close(reader)
    assert len(await collected(source)) == 42


async def test_a_bomb_is_one_oversized_line(tmp_path: Path) -> None:
    """300 MB out of 300 KB: bounded like a plain line."""
    for name, packed in (
        ("in.jsonl.gz", gzip.compress(bytes(300_000_000), 9)),
        ("in.jsonl.zst", zstd(bytes(300_000_000))),
    ):
        file = tmp_path / name
        file.write_bytes(packed)
        (item,) = await collected(await open_source(str(file), max_record_bytes=1_000))
        assert getattr(item, "error_type", None) == "oversized"


@given(st.binary(max_size=200), st.sampled_from([b"\x1f\x8b\x08", b"\x28\xb5\x2f\xfd"]))
async def test_any_bytes_behind_a_mark_are_read_or_are_one_error(rest: bytes, mark: bytes) -> None:
    with TemporaryDirectory() as folder:
        file = Path(folder) / "in.jsonl"
        file.write_bytes(mark + rest)
        await until_damage(file)
