"""Documents in object stores: obstore against a small S3 on a real socket, and against memory."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest
from object_store_server import ObjectStoreServer, serving

from assay.adapters.objects.documents import ObjectDocuments
from assay.domain.failures import ConfigurationError
from assay.ports import DocumentRefused, DocumentsUnreachable


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectStoreServer]:
    with serving() as running:
        for name, value in {
            "AWS_ENDPOINT": running.url,
            "AWS_ALLOW_HTTP": "true",
            "AWS_SKIP_SIGNATURE": "true",
            "AWS_REGION": "here",
        }.items():
            monkeypatch.setenv(name, value)
        running.put("docs", "a/b.txt", b"the text")
        running.put("docs", "with space ü.txt", b"named")
        running.put("docs", "long", b"x" * 101)
        yield running


async def refused(documents: ObjectDocuments, reference: str) -> str:
    with pytest.raises(DocumentRefused) as found:
        await documents.fetch(reference, 100)
    return found.value.error_type


async def test_objects_are_fetched_and_missing_ones_are_told(server: ObjectStoreServer) -> None:
    documents = ObjectDocuments()
    assert await documents.fetch("s3://docs/a/b.txt", 100) == b"the text"
    assert await documents.fetch("s3://docs/with space ü.txt", 100) == b"named"
    assert await refused(documents, "s3://docs/none") == "document_missing"
    assert await refused(documents, "s3://docs/long") == "oversized"
    for reference in ("s3://docs", "s3://docs/", "s3:///a", "http://docs/a", "docs/a", "s3://docs/a/../b"):
        assert await refused(documents, reference) == "bad_reference", reference


async def test_a_missing_bucket_is_no_missing_document(server: ObjectStoreServer) -> None:
    with pytest.raises(DocumentsUnreachable, match=r"s3://elsewhere \(does it exist\?\)"):
        await ObjectDocuments().fetch("s3://elsewhere/a", 100)


@pytest.mark.parametrize("status", [500, 503, 429])
async def test_a_store_that_fails_is_an_outage(server: ObjectStoreServer, status: int) -> None:
    server.answer = status
    with pytest.raises(DocumentsUnreachable, match="s3://docs"):
        await ObjectDocuments().fetch("s3://docs/a/b.txt", 100)
    server.answer = None
    assert await ObjectDocuments().fetch("s3://docs/a/b.txt", 100) == b"the text"


@pytest.mark.parametrize("status", [401, 403])
async def test_credentials_are_a_matter_of_settings(server: ObjectStoreServer, status: int) -> None:
    server.answer = status
    with pytest.raises(ConfigurationError, match="may not be read with the credentials"):
        await ObjectDocuments().fetch("s3://docs/a/b.txt", 100)


async def test_nobody_there_is_an_outage(server: ObjectStoreServer, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    monkeypatch.setenv("AWS_ENDPOINT", f"http://127.0.0.1:{port}")
    with pytest.raises(DocumentsUnreachable):
        await ObjectDocuments().fetch("s3://docs/a/b.txt", 100)


async def test_a_store_that_says_nothing_is_an_outage(
    server: ObjectStoreServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        monkeypatch.setenv("AWS_ENDPOINT", f"http://127.0.0.1:{silent.getsockname()[1]}")
        with pytest.raises(DocumentsUnreachable):
            await ObjectDocuments(fetch_seconds=0.2).fetch("s3://docs/a/b.txt", 100)


async def test_a_root_bounds_what_is_read(server: ObjectStoreServer) -> None:
    documents = ObjectDocuments("s3://docs/a")
    assert await documents.fetch("b.txt", 100) == b"the text"
    assert await documents.fetch("s3://docs/a/b.txt", 100) == b"the text"
    for reference in ("s3://docs/long", "../long", "s3://docs/a/../long", "s3://other/a", "s3://docs/ab"):
        assert await refused(documents, reference) == "bad_reference"
    assert server.asked == ["docs/a/b.txt"] * 2


async def test_a_store_in_memory() -> None:
    from obstore.store import MemoryStore

    store = MemoryStore()
    store.put("a", b"kept")
    documents = ObjectDocuments(make_store=lambda _: store, schemes=("memory",))
    assert await documents.fetch("memory://here/a", 100) == b"kept"
    assert await refused(documents, "memory://here/b") == "document_missing"


@pytest.mark.parametrize("reference", ["az://container/a", "s3://docs/a"])
async def test_settings_that_lack_something_are_told(monkeypatch: pytest.MonkeyPatch, reference: str) -> None:
    monkeypatch.setenv("AWS_ENDPOINT", "no url at all")
    for name in ("AZURE_STORAGE_ACCOUNT_NAME", "AZURE_ACCOUNT_NAME"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises((ConfigurationError, DocumentsUnreachable)):
        await ObjectDocuments(fetch_seconds=5).fetch(reference, 100)
