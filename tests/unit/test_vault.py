"""The vault: what opens, what must not, and where the key comes from."""

from __future__ import annotations

import base64
import os
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.adapters.vault import KEY_BYTES, Vault, VaultError, WrongVaultKey, load_kek
from assay.domain.failures import ConfigurationError
from assay.domain.identity import InputKey
from assay.domain.sealing import label_aad, raw_aad, text_aad

KEY = InputKey("r-1", 1)
SHA = bytes(32)


def test_what_is_sealed_opens_again() -> None:
    vault = Vault(os.urandom(KEY_BYTES))
    key, wrapped = vault.new_key()
    sealed = vault.seal(key, "Grüße 안녕".encode(), text_aad(KEY, SHA))
    assert b"Gr" not in sealed
    assert (
        vault.open(vault.unwrap(wrapped, vault.kek_id), sealed, text_aad(KEY, SHA)).decode() == "Grüße 안녕"
    )


def test_the_same_text_twice_never_looks_the_same() -> None:
    vault = Vault(os.urandom(KEY_BYTES))
    key, _ = vault.new_key()
    assert len({vault.seal(key, b"same", b"aad") for _ in range(100)}) == 100


@pytest.mark.parametrize(
    "other",
    [text_aad(InputKey("r-2", 1), SHA), text_aad(InputKey("r-1", 2), SHA), text_aad(KEY, b"\1" * 32),
     label_aad(KEY, SHA, 1), raw_aad(1, 0, 0)],
)  # fmt: skip
def test_swapped_ciphertext_does_not_open(other: bytes) -> None:
    vault = Vault(os.urandom(KEY_BYTES))
    key, _ = vault.new_key()
    sealed = vault.seal(key, b"text", text_aad(KEY, SHA))
    with pytest.raises(VaultError):
        vault.open(key, sealed, other)


@pytest.mark.parametrize("position", [0, 11, 12, 20, -1])
def test_a_changed_byte_does_not_open(position: int) -> None:
    vault = Vault(os.urandom(KEY_BYTES))
    key, _ = vault.new_key()
    sealed = bytearray(vault.seal(key, b"some text", b"aad"))
    sealed[position] ^= 1
    with pytest.raises(VaultError):
        vault.open(key, bytes(sealed), b"aad")


def test_bytes_too_short_to_be_sealed_are_refused() -> None:
    vault = Vault(os.urandom(KEY_BYTES))
    key, _ = vault.new_key()
    for length in range(30):
        with pytest.raises(VaultError):
            vault.open(key, bytes(length), b"")


def test_a_subjects_key_wraps_and_nothing_else_unwraps() -> None:
    vault = Vault(os.urandom(KEY_BYTES))
    subject, _ = vault.new_key()
    key, wrapped = vault.new_key(subject)
    assert vault.unwrap(wrapped, vault.kek_id, subject) == key
    with pytest.raises(VaultError):
        vault.unwrap(wrapped, vault.kek_id)
    with pytest.raises(VaultError):
        vault.unwrap(wrapped, vault.kek_id, os.urandom(KEY_BYTES))


def test_another_key_encryption_key_is_told_by_its_id() -> None:
    one, other = Vault(os.urandom(KEY_BYTES)), Vault(os.urandom(KEY_BYTES))
    _, wrapped = one.new_key()
    with pytest.raises(WrongVaultKey, match=f"{one.kek_id}.*{other.kek_id}"):
        other.unwrap(wrapped, one.kek_id)


@given(
    st.tuples(st.text(min_size=1), st.integers(1, 2**31 - 1)),
    st.tuples(st.text(min_size=1), st.integers(1, 2**31 - 1)),
)
def test_no_two_identities_share_associated_data(one: tuple[str, int], other: tuple[str, int]) -> None:
    if any("\ud800" <= character <= "\udfff" for character in one[0] + other[0]):
        return
    same = text_aad(InputKey(*one), SHA) == text_aad(InputKey(*other), SHA)
    assert same == (one == other)


def test_the_projects_key_is_made_once_and_is_its_owners_alone(tmp_path: Path) -> None:
    file = tmp_path / ".assay" / "vault.key"
    first = load_kek({}, file)
    assert load_kek({}, file) == first
    assert len(first) == KEY_BYTES
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert sorted(entry.name for entry in file.parent.iterdir()) == [".gitignore", "vault.key"]


def test_environment_and_file_come_before_the_projects_key(tmp_path: Path) -> None:
    kek = os.urandom(KEY_BYTES)
    encoded = base64.b64encode(kek).decode()
    named = tmp_path / "kek"
    named.write_text(encoded + "\n")
    unused = tmp_path / "unused.key"
    assert load_kek({"ASSAY_VAULT_KEY": encoded}, unused) == kek
    assert load_kek({"ASSAY_VAULT_KEY_FILE": str(named)}, unused) == kek
    assert not unused.exists()


@pytest.mark.parametrize(
    "environment",
    [{"ASSAY_VAULT_KEY": "not base64!"}, {"ASSAY_VAULT_KEY_FILE": "/nowhere/kek"}],
)
def test_a_key_that_is_none_is_one_clear_sentence(environment: dict[str, str], tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="ASSAY_VAULT_KEY"):
        load_kek(environment, tmp_path / "unused")
    with pytest.raises(ConfigurationError, match="32"):
        Vault(b"short")
