"""Where a command writes: standard output, or a file that appears only once it is whole."""

from __future__ import annotations

import gzip
import os
import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final, cast

from assay.adapters.files.compressed import Compression
from assay.adapters.files.extras import extra
from assay.domain.failures import ConfigurationError

_BY_SUFFIX: Final[dict[str, Compression]] = {".gz": "gzip", ".zst": "zstd"}


def check_output(output: Path | None, form: str) -> None:
    """Raises `ConfigurationError` for an output that cannot be written, or that does not go with the form."""
    if output is not None:
        _check_place(output)
    if form != "parquet":
        return
    if output is None:
        raise ConfigurationError("Parquet is no text for a terminal; name a file: --output FILE.")
    if output.suffix.lower() in _BY_SUFFIX:
        raise ConfigurationError(f"Parquet compresses its columns itself; leave {output.suffix} out.")


def _check_place(output: Path) -> None:
    if output.is_dir():
        raise ConfigurationError(f"{output} is a folder; name a file: --output FILE.")
    if not output.parent.is_dir():
        raise ConfigurationError(f"There is no folder {output.parent} to write {output.name} to; create it.")


@contextmanager
def destination(output: Path | None) -> Iterator[BinaryIO]:
    """A stream to write to. A file is written under another name, brought to the disk, and renamed; a name
    that ends in .gz or .zst is compressed."""
    if output is None:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    draft = output.with_name(f".{output.name}.{secrets.token_hex(4)}.part")
    try:
        with draft.open("xb") as file:
            with _compressing(file, _BY_SUFFIX.get(output.suffix.lower())) as stream:
                yield stream
            file.flush()
            os.fsync(file.fileno())
        draft.replace(output)
        _bring_to_disk(output.parent)
    finally:
        draft.unlink(missing_ok=True)


@contextmanager
def _compressing(file: BinaryIO, compression: Compression | None) -> Iterator[BinaryIO]:
    if compression == "gzip":
        # Neither time nor name: the same labels are the same bytes.
        with gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0) as packed:
            yield cast(BinaryIO, packed)
    elif compression == "zstd":
        library = extra("zstd", "zstandard", "Writing zstd")
        compressor = library.ZstdCompressor(write_checksum=True)
        with compressor.stream_writer(file, closefd=False) as packed:
            yield cast(BinaryIO, packed)
    else:
        yield file


def _bring_to_disk(folder: Path) -> None:
    """The new name, too, survives a loss of power."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
