"""Envelope encryption of record text, labels and isolated bytes (AES-256-GCM).

A data key per record seals its text and its label. The data key is wrapped by the subject's key where the
record names a subject, by the key-encryption key (KEK) else. Sealed bytes are nonce (12) + ciphertext + tag
(16); the associated data ties them to what they belong to, so that swapped ciphertext does not open.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from assay.domain.failures import ConfigurationError, Unreadable

KEY_BYTES: Final = 32
_NONCE_BYTES: Final = 12


class VaultError(Unreadable):
    """Sealed bytes did not open: another key, or bytes that belong to something else."""


class WrongVaultKey(ConfigurationError):
    """The database was written with another key-encryption key: a setting, nothing is broken."""

    def __init__(self, written_with: str, given: str) -> None:
        super().__init__(
            f"This database was written with vault key {written_with}, the one given is {given}; "
            "set ASSAY_VAULT_KEY or ASSAY_VAULT_KEY_FILE to the right one."
        )


class Vault:
    """Seals and opens under one key-encryption key. `kek_id` names the key without telling it."""

    def __init__(self, kek: bytes) -> None:
        if len(kek) != KEY_BYTES:
            raise ConfigurationError(
                f"The vault key has {len(kek)} bytes; give {KEY_BYTES} "
                "(make one with `openssl rand -base64 32`)."
            )
        self._kek = AESGCM(kek)
        self.kek_id = hashlib.sha256(b"assay kek id" + kek).hexdigest()[:16]

    def new_key(self, subject_key: bytes | None = None) -> tuple[bytes, bytes]:
        """A fresh data key and its wrapped form (by the subject's key if given)."""
        key = secrets.token_bytes(KEY_BYTES)
        return key, self.wrap(key, subject_key)

    def wrap(self, key: bytes, subject_key: bytes | None = None) -> bytes:
        """Wrap a key under the subject's key, or under the KEK."""
        wrapper = self._kek if subject_key is None else AESGCM(subject_key)
        nonce = os.urandom(_NONCE_BYTES)
        return nonce + wrapper.encrypt(nonce, key, b"key")

    def unwrap(self, wrapped: bytes, kek_id: str, subject_key: bytes | None = None) -> bytes:
        """The key inside; raises `VaultError` when it was wrapped under another key."""
        if subject_key is None and kek_id != self.kek_id:
            raise WrongVaultKey(kek_id, self.kek_id)
        wrapper = self._kek if subject_key is None else AESGCM(subject_key)
        return _decrypt(wrapper, wrapped, b"key")

    def seal(self, key: bytes, plaintext: bytes, aad: bytes) -> bytes:
        """Encrypt under a data key."""
        nonce = os.urandom(_NONCE_BYTES)
        return nonce + AESGCM(key).encrypt(nonce, plaintext, aad)

    def open(self, key: bytes, sealed: bytes, aad: bytes) -> bytes:
        """Decrypt; raises `VaultError` for another key or other associated data."""
        return _decrypt(AESGCM(key), sealed, aad)


def _decrypt(cipher: AESGCM, sealed: bytes, aad: bytes) -> bytes:
    try:
        return cipher.decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], aad)
    except (InvalidTag, ValueError):
        raise VaultError(
            "Sealed bytes do not open: they were changed, or belong to another record; run `assay audit`."
        ) from None


def has_kek(environment: Mapping[str, str], default_file: Path) -> bool:
    """Whether `load_kek` would find a key rather than make one."""
    return (
        bool(environment.get("ASSAY_VAULT_KEY") or environment.get("ASSAY_VAULT_KEY_FILE"))
        or default_file.exists()
    )


def load_kek(environment: Mapping[str, str], default_file: Path) -> bytes:
    """The key-encryption key: ASSAY_VAULT_KEY (base64), ASSAY_VAULT_KEY_FILE, or the project's own file.

    The project's file is made on first use, readable by its owner alone.
    """
    if encoded := environment.get("ASSAY_VAULT_KEY"):
        return _decode(encoded, "ASSAY_VAULT_KEY")
    if named := environment.get("ASSAY_VAULT_KEY_FILE"):
        path = Path(named)
        try:
            return _decode(path.read_text("ascii"), str(path))
        except (OSError, UnicodeDecodeError):
            raise ConfigurationError(
                f"Cannot read the vault key file {path}; check ASSAY_VAULT_KEY_FILE."
            ) from None
    if not default_file.exists():
        _create_key_file(default_file)
    return _decode(default_file.read_text("ascii"), str(default_file))


def _create_key_file(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    ignore = path.with_name(".gitignore")
    if not ignore.exists():
        ignore.write_text("*\n", encoding="ascii")  # a key in a repository is a key no more
    draft = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(base64.b64encode(secrets.token_bytes(KEY_BYTES)) + b"\n")
        file.flush()
        os.fsync(file.fileno())
    try:
        os.link(draft, path)  # create-only: of two commands that start at once, one key wins
    except FileExistsError:
        pass
    finally:
        draft.unlink()


def _decode(encoded: str, where: str) -> bytes:
    try:
        return base64.b64decode(encoded.strip(), validate=True)
    except (binascii.Error, ValueError):
        raise ConfigurationError(
            f"The vault key in {where} is not base64; give 32 bytes in base64."
        ) from None
