"""Documents in files below one folder, and the choice between files and object stores."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import Final
from urllib.parse import unquote

from assay.adapters.files.read_ahead import in_thread
from assay.domain.failures import ConfigurationError
from assay.ports import DocumentPort, DocumentRefused, DocumentsUnreachable

_MISSING: Final = (errno.ENOENT, errno.ENOTDIR)
_NO_PATH: Final = (errno.ELOOP, errno.ENAMETOOLONG, errno.EISDIR, errno.ENXIO)


class FileDocuments:
    """Files below `root`; a reference is a path relative to it, with or without `file:` in front.

    Links and `..` are followed first and judged after: what lies outside the root is refused, an absolute
    path too. References with another scheme go to `remote`.
    """

    def __init__(self, root: Path | None, remote: DocumentPort | None = None) -> None:
        self._root = root
        self._remote = remote

    async def fetch(self, reference: str, most_bytes: int) -> bytes:
        """The bytes of one document, see `DocumentPort`."""
        scheme, colon, rest = reference.partition(":")
        if colon and "/" not in scheme and scheme.lower() != "file":
            if self._remote is None or not rest.startswith("//"):
                raise DocumentRefused("bad_reference")
            return await self._remote.fetch(reference, most_bytes)
        root = self._root
        if root is None:
            raise ConfigurationError(
                "Records from standard input refer to files; name their folder: --documents-root DIR."
            )
        path = _local_path(rest) if colon and "/" not in scheme else reference
        return await in_thread(lambda: read_below(root, path, most_bytes))


def _local_path(rest: str) -> str:
    """The path of a `file:` URL."""
    if rest.startswith("//"):
        host, slash, path = rest[2:].partition("/")
        if host not in ("", "localhost") or not slash:
            raise DocumentRefused("bad_reference")
        rest = f"/{path}"
    return unquote(rest)


def read_below(root: Path, reference: str, most_bytes: int) -> bytes:
    """The bytes of a regular file below `root`; one byte over the bound is `oversized`."""
    base = Path(os.path.realpath(root))
    try:
        path = Path(os.path.realpath(base / reference))
        if "\0" in reference or not path.is_relative_to(base):
            raise DocumentRefused("bad_reference")
        # No link is followed any more, and a pipe does not block.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except ValueError:
        raise DocumentRefused("bad_reference") from None
    except OSError as error:
        raise _failure(error, base) from None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise DocumentRefused("bad_reference")
    with open(descriptor, "rb") as file:
        try:
            content = file.read(most_bytes + 1)
        except OSError as error:
            raise _failure(error, base) from None
    if len(content) > most_bytes:
        raise DocumentRefused("oversized")
    return content


def _failure(error: OSError, base: Path) -> Exception:
    """A file that is not there, unless its whole folder is gone: that is an outage."""
    if error.errno in _MISSING and base.is_dir():
        return DocumentRefused("document_missing")
    if error.errno in _NO_PATH:
        return DocumentRefused("bad_reference")
    if error.errno in (errno.EACCES, errno.EPERM):
        return ConfigurationError(
            f"A document below {base} may not be read by this user; change its permissions."
        )
    return DocumentsUnreachable(f"The folder {base}")
