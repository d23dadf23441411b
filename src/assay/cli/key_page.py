"""What `assay key show` and `assay key check` find out and print."""

from __future__ import annotations

import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import typer

from assay.adapters.postgres.key_rotation import VaultKeyStore, Wrapped
from assay.adapters.vault import Vault, has_kek, kek_id_of, key_file, load_keys
from assay.cli.json_text import to_json
from assay.cli.opened import existing_database
from assay.config import Settings, load_settings
from assay.domain.failures import Unreadable


@dataclass(frozen=True, slots=True)
class KeyLine:
    """One vault key: its state in the database (None: unknown there), whether it was given, what it wraps."""

    kek_id: str
    state: str | None
    given: bool
    wraps: Wrapped


def given_keys(settings: Settings) -> tuple[bytes, ...]:
    """The ring as the settings give it; empty where there is none. Makes no key."""
    if not has_kek(settings.environment, settings.vault_key_file):
        return ()
    return load_keys(settings.environment, settings.vault_key_file)


def key_lines(
    given: Sequence[str], states: Mapping[str, str], wrapped: Mapping[str, Wrapped]
) -> list[KeyLine]:
    """Every key that was given, is known to the database or wraps something."""
    ids = dict.fromkeys([*given, *states, *wrapped])
    return [KeyLine(each, states.get(each), each in given, wrapped.get(each, Wrapped())) for each in ids]


def faults(lines: Sequence[KeyLine]) -> list[str]:
    """One sentence for each thing that will not work, and what to do."""
    found = []
    for line in lines:
        if not line.given and (line.wraps.all or line.state == "current"):
            found.append(
                f"Vault key {line.kek_id} wraps {line.wraps.all} keys here and was not given; bring it back "
                "(ASSAY_VAULT_KEY, ASSAY_VAULT_KEY_FILE or the project's vault.key)."
            )
        if line.wraps.all and line.state != "current" and line.given:
            found.append(
                f"{line.wraps.all} keys are still wrapped under {line.kek_id}; `assay key rotate` goes on."
            )
    return found


def lax_file(settings: Settings) -> str | None:
    """What is wrong with who may read the key file; None where nothing is, or there is no file."""
    path = key_file(settings.environment, settings.vault_key_file)
    if path is None or not path.exists():
        return None
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & 0o077 == 0:
        return None
    return f"{path} may be read by others (mode {mode:04o}); `chmod 600 {path}` unless you meant that."


def show(as_json: bool) -> None:
    """Print the keys."""
    settings = load_settings()
    with existing_database(settings) as url:
        lines = _lines(settings, VaultKeyStore(url))
    if as_json:
        typer.echo(to_json({"keys": [_as_object(line) for line in lines]}))
        return
    typer.echo(f"{'vault key':18} {'state':10} {'given':6} {'texts':>12} {'isolated':>10} {'subjects':>10}")
    for line in lines:
        wraps = line.wraps
        typer.echo(
            f"{line.kek_id:18} {line.state or 'unused':10} {'yes' if line.given else 'no':6} "
            f"{wraps.texts:>12} {wraps.raws:>10} {wraps.subject_keys:>10}"
        )


def check(as_json: bool) -> bool:
    """Print what does not fit; whether everything does."""
    settings = load_settings()
    with existing_database(settings) as url:
        store = VaultKeyStore(url)
        lines = _lines(settings, store)
        found = [*faults(lines), *unopened(given_keys(settings), store, lines)]
    lax = lax_file(settings)
    if as_json:
        typer.echo(to_json({"fits": not found, "faults": found, "warnings": [lax] if lax else []}))
    else:
        for told in (*found, *([lax] if lax else [])):
            typer.echo(told)
        if not found:
            typer.echo(f"The vault key fits: {sum(line.wraps.all for line in lines)} keys are wrapped by it.")
    return not found


def _lines(settings: Settings, store: VaultKeyStore) -> list[KeyLine]:
    given = [kek_id_of(key) for key in given_keys(settings)]
    return key_lines(given, store.states(), store.wrapped())


def unopened(keys: Sequence[bytes], store: VaultKeyStore, lines: Sequence[KeyLine]) -> list[str]:
    """Tries a few rows under each key that was given; one sentence for each key that does not open them."""
    if not keys:
        return []
    vault = Vault(*keys)
    counts = {
        line.kek_id: sum(not _opens(vault, line.kek_id, each) for each in store.samples(line.kek_id))
        for line in lines
        if line.given
    }
    return [
        f"{count} of a sample of keys under {kek_id} do not open; run `assay audit --deep`."
        for kek_id, count in counts.items()
        if count
    ]


def _opens(vault: Vault, kek_id: str, wrapped: bytes) -> bool:
    try:
        vault.unwrap(wrapped, kek_id)
    except Unreadable:
        return False
    return True


def _as_object(line: KeyLine) -> dict[str, object]:
    return {
        "kek_id": line.kek_id, "state": line.state, "given": line.given, "texts": line.wraps.texts,
        "isolated": line.wraps.raws, "subjects": line.wraps.subject_keys,
    }  # fmt: skip
