"""Envelope encryption of record text, labels and isolated bytes (AES-256-GCM).

A data key per record seals its text and its label. The data key is wrapped by the subject's key where the
record names a subject, by the key-encryption key (KEK) else. Sealed bytes are nonce (12) + ciphertext + tag
(16); the associated data ties them to what they belong to, so that swapped ciphertext does not open.

The vault holds a ring of KEKs: one is current and wraps, all of them unwrap. So keys can be rotated while
workers run.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
import secrets
import stat
from collections.abc import Callable, Mapping, Sequence
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
    """Seals and opens under a ring of key-encryption keys; the first one given is current.

    `kek_id` names the current key without telling it. It changes in `use` alone, so that what is wrapped
    between two awaits is wrapped under one key. `reload` gives the ring anew: it is asked when a row names a
    key that the ring lacks, because a rotation may have begun since.
    """

    def __init__(self, *keks: bytes, reload: Callable[[], Sequence[bytes]] | None = None) -> None:
        self._ring: dict[str, AESGCM] = {}
        self._reload = reload
        self._add(keks)
        if not self._ring:
            raise ConfigurationError("The vault needs a key; set ASSAY_VAULT_KEY or ASSAY_VAULT_KEY_FILE.")
        self._kek_id = next(iter(self._ring))

    @property
    def kek_id(self) -> str:
        """The id of the key that wraps."""
        return self._kek_id

    @property
    def kek_ids(self) -> tuple[str, ...]:
        """The ids of all keys that can unwrap, in the order given."""
        return tuple(self._ring)

    def use(self, kek_id: str) -> None:
        """Wrap under this key from here on. Raises `WrongVaultKey` where the ring has no such key."""
        if kek_id != self._kek_id:
            self._kek(kek_id)
            self._kek_id = kek_id

    def new_key(self, subject_key: bytes | None = None) -> tuple[bytes, bytes]:
        """A fresh data key and its wrapped form (by the subject's key if given)."""
        key = secrets.token_bytes(KEY_BYTES)
        return key, self.wrap(key, subject_key)

    def wrap(self, key: bytes, subject_key: bytes | None = None) -> bytes:
        """Wrap a key under the subject's key, or under the current KEK."""
        wrapper = self._ring[self._kek_id] if subject_key is None else AESGCM(subject_key)
        nonce = os.urandom(_NONCE_BYTES)
        return nonce + wrapper.encrypt(nonce, key, b"key")

    def unwrap(self, wrapped: bytes, kek_id: str, subject_key: bytes | None = None) -> bytes:
        """The key inside; raises `VaultError` when it was wrapped under another key."""
        wrapper = self._kek(kek_id) if subject_key is None else AESGCM(subject_key)
        return _decrypt(wrapper, wrapped, b"key")

    def rewrap(self, wrapped: bytes, kek_id: str) -> bytes:
        """The same key, wrapped under the current KEK; proven to open before it is given out."""
        key = self.unwrap(wrapped, kek_id)
        again = self.wrap(key)
        if self.unwrap(again, self._kek_id) != key:
            raise VaultError(
                "A rewrapped key does not open; nothing was changed. Check this machine's memory."
            )
        return again

    def seal(self, key: bytes, plaintext: bytes, aad: bytes) -> bytes:
        """Encrypt under a data key."""
        nonce = os.urandom(_NONCE_BYTES)
        return nonce + AESGCM(key).encrypt(nonce, plaintext, aad)

    def open(self, key: bytes, sealed: bytes, aad: bytes) -> bytes:
        """Decrypt; raises `VaultError` for another key or other associated data."""
        return _decrypt(AESGCM(key), sealed, aad)

    def _kek(self, kek_id: str) -> AESGCM:
        if kek_id not in self._ring and self._reload is not None:
            self._add(self._reload())
        try:
            return self._ring[kek_id]
        except KeyError:
            raise WrongVaultKey(kek_id, ", ".join(self._ring)) from None

    def _add(self, keks: Sequence[bytes]) -> None:
        for kek in keks:
            self._ring.setdefault(kek_id_of(kek), AESGCM(kek))


def kek_id_of(kek: bytes) -> str:
    """The id that names a key without telling it. Raises `ConfigurationError` for a key of another length."""
    if len(kek) != KEY_BYTES:
        raise ConfigurationError(
            f"The vault key has {len(kek)} bytes; give {KEY_BYTES} (make one with `openssl rand -base64 32`)."
        )
    return hashlib.sha256(b"assay kek id" + kek).hexdigest()[:16]


def _decrypt(cipher: AESGCM, sealed: bytes, aad: bytes) -> bytes:
    try:
        return cipher.decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], aad)
    except (InvalidTag, ValueError):
        raise VaultError(
            "Sealed bytes do not open: they were changed, or belong to another record; run `assay audit`."
        ) from None


def has_kek(environment: Mapping[str, str], default_file: Path) -> bool:
    """Whether `load_keys` would find a key rather than make one."""
    return (
        bool(environment.get("ASSAY_VAULT_KEY") or environment.get("ASSAY_VAULT_KEY_FILE"))
        or default_file.exists()
    )


def load_kek(environment: Mapping[str, str], default_file: Path) -> bytes:
    """The first key of `load_keys`."""
    return load_keys(environment, default_file)[0]


def load_keys(environment: Mapping[str, str], default_file: Path) -> tuple[bytes, ...]:
    """The ring: ASSAY_VAULT_KEY, the file that ASSAY_VAULT_KEY_FILE names, or the project's own file.

    Keys are base64 with white space or commas between them. The project's file is made on first use, readable
    by its owner alone. Raises `ConfigurationError` for what cannot be read or is no key.
    """
    if encoded := environment.get("ASSAY_VAULT_KEY"):
        return _decode(encoded, "ASSAY_VAULT_KEY")
    path = key_file(environment, default_file)
    if path == default_file and not path.exists():
        _create_key_file(path)
    return read_key_file(path or default_file)


def key_file(environment: Mapping[str, str], default_file: Path) -> Path | None:
    """The file that holds the ring; None where ASSAY_VAULT_KEY does."""
    if environment.get("ASSAY_VAULT_KEY"):
        return None
    named = environment.get("ASSAY_VAULT_KEY_FILE")
    return Path(named) if named else default_file


def read_key_file(path: Path) -> tuple[bytes, ...]:
    """The keys in a file. Raises `ConfigurationError`."""
    try:
        encoded = path.read_text("ascii")
    except (OSError, UnicodeDecodeError):
        raise ConfigurationError(
            f"Cannot read the vault key file {path}; check ASSAY_VAULT_KEY_FILE, or bring the file back."
        ) from None
    return _decode(encoded, str(path))


def write_key_file(path: Path, keys: Sequence[bytes]) -> None:
    """Put other keys into a key file at one stroke: whoever reads it sees the old ring or the new one.

    Durable when it returns. Raises `ConfigurationError` where the file cannot be replaced.
    """
    target = path.resolve()
    try:
        draft = _draft(target, keys)
        try:
            # Whoever could read the old ring can read the new one: other workers need it too.
            before, made = target.stat(), draft.stat()
            if (before.st_uid, before.st_gid) != (made.st_uid, made.st_gid):
                os.chown(draft, before.st_uid, before.st_gid)
            draft.chmod(stat.S_IMODE(before.st_mode))
            draft.replace(target)
        except BaseException:
            draft.unlink(missing_ok=True)
            raise
        _sync_folder(target.parent)
    except OSError as error:
        raise ConfigurationError(
            f"Cannot write the vault key file {path} ({error.strerror}); give it new keys by hand, see "
            "`assay key rotate --help`."
        ) from None


def _create_key_file(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    ignore = path.with_name(".gitignore")
    if not ignore.exists():
        ignore.write_text("*\n", encoding="ascii")  # a key in a repository is a key no more
    draft = _draft(path, (secrets.token_bytes(KEY_BYTES),))
    try:
        os.link(draft, path)  # create-only: of two commands that start at once, one key wins
    except FileExistsError:
        pass
    finally:
        draft.unlink()
    _sync_folder(path.parent)


def _draft(path: Path, keys: Sequence[bytes]) -> Path:
    draft = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(b"".join(base64.b64encode(key) + b"\n" for key in keys))
        file.flush()
        os.fsync(file.fileno())
    return draft


def _sync_folder(folder: Path) -> None:
    """A file's new name is durable once its folder is."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _decode(encoded: str, where: str) -> tuple[bytes, ...]:
    words = encoded.replace(",", " ").split()
    try:
        keys = tuple(base64.b64decode(word, validate=True) for word in words)
    except (binascii.Error, ValueError):
        raise ConfigurationError(
            f"The vault key in {where} is not base64; give 32 bytes in base64."
        ) from None
    if not keys:
        raise ConfigurationError(f"There is no vault key in {where}; give 32 bytes in base64.")
    return keys
