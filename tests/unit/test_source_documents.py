"""Records that refer to their text: what is fetched, what is refused, and what an outage does not do."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from source_items import collected, text_of, until_error

from assay.adapters.files.documents import FileDocuments
from assay.adapters.files.source import Reading, open_one
from assay.domain.failures import AssayError, ConfigurationError
from assay.domain.identity import InputRecord, SourceItem
from assay.pipeline.fetching import Documents
from assay.ports import DocumentPort, DocumentsUnreachable


async def items(
    file: Path, port: DocumentPort, max_bytes: int = 1000, patience: float = 120
) -> list[SourceItem]:
    documents = Documents(port, max_bytes=max_bytes, patience=patience, first_wait=0.001, longest_wait=0.002)
    return await collected(await open_one(str(file), Reading(documents=documents)))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with documents and, beside it, one that is none of its business."""
    root = tmp_path / "root"
    (root / "docs").mkdir(parents=True)
    (root / "docs" / "a.txt").write_bytes(b"the text of a")
    (root / "docs" / "b b.txt").write_bytes(b"b")
    (root / "docs" / "bom.txt").write_bytes(b"\xef\xbb\xbfwith a mark")
    (root / "docs" / "latin.txt").write_bytes(b"gr\xfc\xdfe")
    (root / "docs" / "blank.txt").write_bytes(b" \n")
    (root / "docs" / "nul.txt").write_bytes(b"a\0b")
    (root / "docs" / "long.txt").write_bytes(b"x" * 101)
    (tmp_path / "secret.txt").write_bytes(b"secret")
    (root / "link.txt").symlink_to(tmp_path / "secret.txt")
    (root / "inside.txt").symlink_to(root / "docs" / "a.txt")
    (root / "loop").symlink_to(root / "loop")
    os.mkfifo(root / "pipe")
    return root


CASES = {
    "docs/a.txt": "the text of a",
    "file:docs/a.txt": "the text of a",
    "file:docs/b%20b.txt": "b",
    "docs/../docs/a.txt": "the text of a",
    "inside.txt": "the text of a",
    "docs/bom.txt": "\ufeffwith a mark",
    "docs/latin.txt": "(not_utf8 /document_ref)",
    "docs/blank.txt": "(blank_text /document_ref)",
    "docs/nul.txt": "(unstorable_text /document_ref)",
    "docs/long.txt": "(oversized /document_ref)",
    "docs/none.txt": "(document_missing /document_ref)",
    "docs/a.txt/deeper": "(document_missing /document_ref)",
    "../secret.txt": "(bad_reference /document_ref)",
    "docs/../../secret.txt": "(bad_reference /document_ref)",
    "link.txt": "(bad_reference /document_ref)",
    "/etc/hostname": "(bad_reference /document_ref)",
    "file:///etc/hostname": "(bad_reference /document_ref)",
    "file://elsewhere/docs/a.txt": "(bad_reference /document_ref)",
    "file:..%2Fsecret.txt": "(bad_reference /document_ref)",
    "loop": "(bad_reference /document_ref)",
    "pipe": "(bad_reference /document_ref)",
    "docs": "(bad_reference /document_ref)",
    "https://example.test/a": "(bad_reference /document_ref)",
    "s3://bucket/a": "(bad_reference /document_ref)",
}


async def test_references_to_files(folder: Path) -> None:
    file = folder / "in.csv"
    rows = "".join(f'"{reference}",t{n}\n' for n, reference in enumerate(CASES))
    file.write_text(f"document_ref,id\n{rows}", "utf-8")
    found = await items(file, FileDocuments(folder), max_bytes=100)
    assert dict(zip(CASES, map(text_of, found), strict=True)) == CASES
    first = found[0]
    assert isinstance(first, InputRecord)
    assert first.document_ref == "docs/a.txt"
    marked = found[5]
    assert isinstance(marked, InputRecord)
    assert marked.sha256 == hashlib.sha256((folder / "docs" / "bom.txt").read_bytes()).digest()


async def test_a_record_has_a_text_or_a_reference(folder: Path) -> None:
    file = folder / "in.jsonl"
    file.write_text(
        '{"text": "inline"}\n{"text": null, "document_ref": "docs/a.txt"}\n'
        '{"text": "both", "document_ref": "docs/a.txt"}\n{"document_ref": 5}\n{"document_ref": ""}\n{}\n'
        f'{{"document_ref": "{"x" * 1025}"}}\n',
        "utf-8",
    )
    assert [text_of(item) for item in await items(file, FileDocuments(folder))] == [
        "inline", "the text of a", "(bad_reference /document_ref)", "(wrong_type /document_ref)",
        "(bad_reference /document_ref)", "(missing_field /text)", "(bad_reference /document_ref)",
    ]  # fmt: skip
    plain = await collected(await open_one(str(file), Reading()))
    assert text_of(plain[1]) == "(wrong_type /text)"  # nothing is fetched only because a key has that name


class Flaky:
    """A store that does not answer `failures` times for each reference."""

    def __init__(self, inner: DocumentPort, failures: Callable[[str], int]) -> None:
        self.inner = inner
        self.failures = failures
        self.asked: dict[str, int] = {}

    async def fetch(self, reference: str, most_bytes: int) -> bytes:
        self.asked[reference] = self.asked.get(reference, 0) + 1
        if self.asked[reference] <= self.failures(reference):
            raise DocumentsUnreachable("s3://bucket")
        return await self.inner.fetch(reference, most_bytes)


async def test_an_outage_is_waited_for_and_isolates_nothing(folder: Path) -> None:
    file = folder / "in.jsonl"
    file.write_text('{"document_ref": "docs/a.txt"}\n{"document_ref": "inside.txt"}\n', "utf-8")
    flaky = Flaky(FileDocuments(folder), lambda _: 3)
    assert [text_of(item) for item in await items(file, flaky)] == ["the text of a"] * 2
    assert flaky.asked == {"docs/a.txt": 4, "inside.txt": 4}


async def test_an_outage_that_lasts_is_one_error_after_what_came_before(folder: Path) -> None:
    file = folder / "in.jsonl"
    refs = ["docs/a.txt", "docs/none.txt", "inside.txt", "docs/b b.txt"]
    file.write_text("".join(f'{{"document_ref": "{ref}"}}\n' for ref in refs), "utf-8")
    flaky = Flaky(FileDocuments(folder), lambda reference: 10**6 if reference == "inside.txt" else 0)
    source = await open_one(
        str(file), Reading(documents=Documents(flaky, first_wait=0.001, longest_wait=0.002, patience=0.02))
    )
    found, said = await until_error(source)
    assert said is not None
    assert "s3://bucket does not answer" in said
    assert [text_of(item) for item in found] == ["the text of a", "(document_missing /document_ref)"]


async def test_a_folder_that_is_gone_is_an_outage_and_no_flood_of_missing_documents(tmp_path: Path) -> None:
    file = tmp_path / "in.jsonl"
    file.write_text('{"document_ref": "a.txt"}\n', "utf-8")
    with pytest.raises(AssayError, match="does not answer"):
        await items(file, FileDocuments(tmp_path / "unmounted"), patience=0.01)


async def test_many_documents_keep_their_order_and_are_fetched_a_few_at_a_time(tmp_path: Path) -> None:
    file = tmp_path / "in.jsonl"
    file.write_text("".join(f'{{"document_ref": "d{n}"}}\n' for n in range(1_200)), "utf-8")

    class Counting:
        underway = most = 0

        async def fetch(self, reference: str, most_bytes: int) -> bytes:
            import asyncio

            self.underway += 1
            self.most = max(self.most, self.underway)
            await asyncio.sleep(0)
            self.underway -= 1
            return reference.encode()

    counting = Counting()
    found = await items(file, counting)
    assert [text_of(item) for item in found] == [f"d{n}" for n in range(1_200)]
    assert 1 < counting.most <= 8


async def test_a_mapped_column_needs_a_place(tmp_path: Path) -> None:
    file = tmp_path / "in.jsonl"
    file.write_text('{"path": "a"}\n', "utf-8")
    with pytest.raises(ConfigurationError, match="--documents-root"):
        await open_one(str(file), Reading(mapping={"document_ref": "path"}))
