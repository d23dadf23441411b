"""What `assay key rotate` and `assay key retire` do. Each step may be the last one before a kill.

1. The new key lies beside the old one in the key file, durably: nobody can lose it from here on.
2. The database names the new key current. Workers see it within a second; rows under both are accepted.
3. Everything under another key is rewrapped, until a count finds nothing more.
4. `retire`: the database refuses the old key, what was written meanwhile is rewrapped, a count proves that
   the old key wraps nothing, and only then is it dropped from the file.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from assay.adapters.postgres.key_rotation import FOLLOW_SECONDS, Sweep, VaultKeyStore, Wrapped
from assay.adapters.vault import (
    KEY_BYTES,
    Vault,
    WrongVaultKey,
    kek_id_of,
    key_file,
    read_key_file,
    write_key_file,
)
from assay.cli.key_page import given_keys
from assay.cli.opened import existing_database
from assay.cli.said import say
from assay.config import Settings, load_settings
from assay.domain.failures import AssayError, ConfigurationError
from assay.telemetry import tell as log

# By then every worker that answers at all has seen which key is current.
_SETTLE_SECONDS: Final = 3 * FOLLOW_SECONDS
_SAY_EVERY_SECONDS: Final = 2.0
# Workers go on writing under the old key for a second; one that never learns of the new one does for ever.
_SWEEPS: Final = 20


@dataclass(slots=True)
class _Change:
    """One rotation: the database's keys, the ring, and where the ring is kept (None: in the environment)."""

    store: VaultKeyStore
    vault: Vault
    file: Path | None
    current: str
    wrapped: dict[str, Wrapped]
    states: dict[str, str]
    say: Callable[[str], None]

    @property
    def left(self) -> int:
        """How many keys are wrapped under another key than the current one."""
        return sum(each.all for kek_id, each in self.wrapped.items() if kek_id != self.current)


def rotate(*, prepare: bool, retire: bool, quiet: bool) -> bool:
    """Rotate, or go on with a rotation; whether nothing is left under another key."""
    settings = load_settings()
    with existing_database(settings) as url, VaultKeyStore(url).alone():
        change = _look(settings, url, quiet)
        if change.left == 0:
            new = _new_key(settings, change)
            if prepare:
                change.say(
                    f"The new key {new} is in {change.file}, beside the old one. Copy that file to every "
                    "machine that uses this database, then run `assay key rotate`."
                )
                return True
            change.store.change(new)
            change.current = new
            _put_first(change)
        elif prepare:
            raise AssayError("A rotation is under way; finish it with `assay key rotate` first.")
        if not _rewrap(change):
            return False
        if retire:
            return _retire(change)
        old = ", ".join(each for each in change.vault.kek_ids if each != change.current)
        change.say(
            f"{change.current} is the current key; running workers take it up within seconds. "
            f"`assay key retire` sweeps once more and drops the old key {old}; older backups of the database "
            "need it."
        )
        return True


def retire(*, quiet: bool) -> bool:
    """Drop the keys that are no longer current; whether that was possible."""
    settings = load_settings()
    with existing_database(settings) as url, VaultKeyStore(url).alone():
        change = _look(settings, url, quiet)
        old = [
            kek_id for kek_id in change.vault.kek_ids if change.states.get(kek_id) in ("previous", "retired")
        ]
        if not old and "previous" not in change.states.values():
            change.say("There is no old key to drop.")
            return True
        return _retire(change)


def _look(settings: Settings, url: str, quiet: bool) -> _Change:
    """How things stand. Raises `ConfigurationError` where a key is missing or nothing is sealed yet."""
    store = VaultKeyStore(url)
    current = store.current()
    keys = given_keys(settings)
    if current is None:
        raise ConfigurationError("Nothing is sealed in this database yet; there is no key to change.")
    if not keys:
        raise ConfigurationError(
            f"Vault key {current} is in use and none was given; set ASSAY_VAULT_KEY or ASSAY_VAULT_KEY_FILE."
        )
    vault = Vault(*keys)
    wrapped = store.wrapped()
    for needed in (current, *wrapped):
        if needed not in vault.kek_ids:
            raise WrongVaultKey(needed, ", ".join(vault.kek_ids))
    vault.use(current)
    file = key_file(settings.environment, settings.vault_key_file)
    return _Change(store, vault, file, current, wrapped, store.states(), _silent if quiet else say)


def _new_key(settings: Settings, change: _Change) -> str:
    """A key that the ring holds already and the database does not know, or one made now."""
    spare = [kek_id for kek_id in change.vault.kek_ids if kek_id not in change.states]
    if spare:
        return spare[0]
    if change.file is None:
        raise ConfigurationError(
            "ASSAY_VAULT_KEY holds the key, and assay cannot change your environment. Make a key with "
            "`openssl rand -base64 32`, set ASSAY_VAULT_KEY=OLD,NEW wherever assay runs, then rotate."
        )
    fresh = secrets.token_bytes(KEY_BYTES)
    write_key_file(change.file, (*read_key_file(change.file), fresh))
    change.vault = Vault(*given_keys(settings))
    change.vault.use(change.current)
    return kek_id_of(fresh)


def _rewrap(change: _Change) -> bool:
    """Rewrap until a count finds nothing under another key; False where something stays under one."""
    change.vault.use(change.current)
    started = time.monotonic()
    rewrapped = 0
    log("key_rotation_started", kek_id=change.current, count=change.left)
    for _ in range(_SWEEPS):
        if not change.left:
            break
        done = change.store.sweep(change.vault, _progress(change, change.left))
        rewrapped += done.rewrapped
        change.wrapped = change.store.wrapped()
        if done.unreadable:
            say(
                f"{done.unreadable} keys do not open under the key they name and were left; "
                "run `assay audit --deep`. The old key is kept."
            )
            return False
    if change.left:
        say(
            f"{change.left} keys were wrapped under an old key meanwhile, by workers that lack the new one; "
            "give it to them, then run `assay key rotate` again."
        )
        return False
    seconds = time.monotonic() - started
    log("key_rotation_ended", kek_id=change.current, count=rewrapped, seconds=seconds)
    change.say(f"{rewrapped} keys rewrapped in {seconds:.1f} s.")
    return True


def _retire(change: _Change) -> bool:
    change.say(f"Waiting {_SETTLE_SECONDS:.0f} seconds, so that running workers take up the current key.")
    time.sleep(_SETTLE_SECONDS)
    for kek_id, state in change.store.states().items():
        if state == "previous":
            change.store.retire(kek_id)
    change.wrapped = change.store.wrapped()  # the proof: from here on nobody can add to it
    if change.left and not _rewrap(change):
        return False
    return _drop(change)


def _put_first(change: _Change) -> None:
    """The current key leads its file: who reads one key only reads that one."""
    if change.file is not None:
        ring = read_key_file(change.file)
        write_key_file(change.file, sorted(ring, key=lambda key: kek_id_of(key) != change.current))


def _drop(change: _Change) -> bool:
    """Leave retired keys out of the ring. The current one stays, and keys that the database never knew."""
    states = change.store.states()
    old = [kek_id for kek_id in change.vault.kek_ids if states.get(kek_id) == "retired"]
    if not old:
        change.say("No old key is in use any more, and none was given.")
    elif change.file is None:
        change.say(f"Nothing is wrapped under {', '.join(old)} any more; take it out of ASSAY_VAULT_KEY.")
    else:
        ring = read_key_file(change.file)
        write_key_file(change.file, [key for key in ring if states.get(kek_id_of(key)) != "retired"])
        change.say(f"Dropped {', '.join(old)} from {change.file}: nothing is wrapped under it.")
    return True


def _progress(change: _Change, total: int) -> Callable[[Sweep], None]:
    said = time.monotonic()

    def heard(done: Sweep) -> None:
        nonlocal said
        if time.monotonic() - said >= _SAY_EVERY_SECONDS:
            said = time.monotonic()
            change.say(f"{done.rewrapped} of about {total} keys rewrapped")

    return heard


def _silent(told: str) -> None:
    """Nobody listens."""
