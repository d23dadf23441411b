"""Objects as documents: `s3://`, `gs://`, `az://`.

Endpoint, region and credentials come from the environment, as obstore reads them (`AWS_…`, `GOOGLE_…`,
`AZURE_…`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Final, cast

from assay.domain.failures import ConfigurationError
from assay.ports import DocumentRefused, DocumentsUnreachable

if TYPE_CHECKING:
    from obstore.store import ObjectStore

SCHEMES: Final = ("s3", "s3a", "gs", "az", "azure", "abfs", "abfss", "adl")
FETCH_SECONDS: Final = 60.0
MakeStore = Callable[[str], "ObjectStore"]


class ObjectDocuments:
    """Objects of any bucket, or of those below `root` alone, to which other references are then relative.

    `make_store` makes the store of `scheme://bucket`; the default is obstore's. A fetch takes at most
    `fetch_seconds`; trying again is the caller's part. Raises `ConfigurationError` without the extra.
    """

    def __init__(
        self,
        root: str | None = None,
        *,
        make_store: MakeStore | None = None,
        fetch_seconds: float = FETCH_SECONDS,
        schemes: tuple[str, ...] = SCHEMES,
    ) -> None:
        self._root = None if root is None else root.rstrip("/") + "/"
        self._obstore = _Obstore()
        self._make = make_store or self._obstore.make
        self._fetch_seconds = fetch_seconds
        self._schemes = schemes
        self._stores: dict[str, ObjectStore] = {}
        self._known_to_exist: set[str] = set()

    async def fetch(self, reference: str, most_bytes: int) -> bytes:
        """The bytes of one object, see `DocumentPort`."""
        bucket, key = self._place(reference)
        store = self._store(bucket)
        try:
            async with asyncio.timeout(self._fetch_seconds):
                return await _read(store, key, most_bytes)
        except FileNotFoundError:
            await self._check_exists(bucket, store)
            raise DocumentRefused("document_missing") from None
        except ValueError:
            raise DocumentRefused("bad_reference") from None
        except TimeoutError:
            raise DocumentsUnreachable(bucket) from None
        except (self._obstore.error, OSError) as error:
            raise self._failure(error, bucket) from None

    def _place(self, reference: str) -> tuple[str, str]:
        """Bucket, as a URL, and key."""
        url = reference
        if self._root is not None and "://" not in reference:
            url = self._root + reference
        scheme, mark, rest = url.partition("://")
        bucket, _, key = rest.partition("/")
        if not mark or scheme.lower() not in self._schemes or not bucket or not key:
            raise DocumentRefused("bad_reference")
        steps = key.split("/")
        inside = self._root is None or url.startswith(self._root)
        if not inside or ".." in steps or "." in steps or not set(bucket).isdisjoint("?#@"):
            raise DocumentRefused("bad_reference")
        return f"{scheme.lower()}://{bucket}", key

    def _store(self, bucket: str) -> ObjectStore:
        if bucket not in self._stores:
            try:
                self._stores[bucket] = self._make(bucket)
            except (self._obstore.error, OSError, ValueError) as error:
                raise ConfigurationError(
                    f"The object store {bucket} cannot be used ({type(error).__name__}); check its name and "
                    "the settings in the environment (AWS_…, GOOGLE_…, AZURE_…)."
                ) from None
        return self._stores[bucket]

    async def _check_exists(self, bucket: str, store: ObjectStore) -> None:
        """An object may be missing because its whole bucket is: that is no fault of the record."""
        if bucket in self._known_to_exist:
            return
        try:
            async with asyncio.timeout(self._fetch_seconds):
                async for _ in store.list(chunk_size=1):
                    break
        except self._obstore.refusals:
            pass  # who may not list may read all the same
        except (self._obstore.error, OSError):
            raise DocumentsUnreachable(f"{bucket} (does it exist?)") from None
        self._known_to_exist.add(bucket)

    def _failure(self, error: Exception, bucket: str) -> Exception:
        if isinstance(error, self._obstore.refusals):
            return ConfigurationError(
                f"Objects of {bucket} may not be read with the credentials in the environment; change them."
            )
        return DocumentsUnreachable(bucket)


async def _read(store: ObjectStore, key: str, most_bytes: int) -> bytes:
    found = await store.get_async(key)
    if found.meta["size"] > most_bytes:
        raise DocumentRefused("oversized")
    content = bytearray()
    async for block in found.stream():
        content += memoryview(block)
        if len(content) > most_bytes:
            raise DocumentRefused("oversized")
    return bytes(content)


class _Obstore:
    """The library, loaded. Raises `ConfigurationError` where it is not installed."""

    def __init__(self) -> None:
        try:
            self._from_url = cast(Callable[..., "ObjectStore"], import_module("obstore.store").from_url)
            exceptions = import_module("obstore.exceptions")
        except ImportError:
            raise ConfigurationError(
                "Object stores need obstore: `pip install obstore` in this environment (the extra `objects`)."
            ) from None
        self.error = cast(type[Exception], exceptions.BaseError)
        self.refusals = cast(
            tuple[type[Exception], ...],
            (exceptions.PermissionDeniedError, exceptions.UnauthenticatedError, PermissionError),
        )

    def make(self, bucket: str) -> ObjectStore:
        """The store of `scheme://bucket`, without retries of its own."""
        return self._from_url(bucket, retry_config={"max_retries": 0})
