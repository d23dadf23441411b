"""What people do to a version from the command line, and one line about what came of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

import typer

from assay.adapters.postgres.version_acts import VersionActs
from assay.adapters.postgres.version_store import FoundVersion, VersionStore
from assay.cli.chosen import SHORT, is_file, load, version_of
from assay.cli.json_text import to_json
from assay.cli.opened import existing_database
from assay.cli.person import acting, worded
from assay.cli.tables import shown
from assay.config import load_settings
from assay.domain.failures import ConfigurationError

# Per act: what is said when it changed something, and when it had been so already.
_TOLD: Final = {
    "freeze": ("is frozen: nothing more is accepted without a person", "was frozen already"),
    "unfreeze": ("may promote again", "was not frozen"),
    "stop": ("is stopped: its workers claim nothing more, records wait", "was stopped already"),
    "resume": ("may run again", "was not stopped"),
}


@contextmanager
def found_version(reference: str, name: str | None) -> Iterator[tuple[str, FoundVersion]]:
    """The database's URL and the version that a label, a digest or a file names."""
    pipeline = load(reference) if is_file(reference) else None
    with existing_database(load_settings()) as url:
        store = VersionStore(url)
        yield url, (store.resolve(reference, name) if pipeline is None else version_of(store, pipeline))


def act(kind: str, reference: str, name: str | None, reason: str, by: str | None, *, as_json: bool) -> None:
    """Freeze, unfreeze, stop or resume."""
    actor, why = acting(by), worded(reason)
    with found_version(reference, name) as (url, version):
        acts = VersionActs(url)
        change = {"freeze": acts.freeze, "unfreeze": acts.unfreeze, "stop": acts.stop, "resume": acts.resume}
        changed = change[kind](version.version_id, reason=why, actor=actor)
    _tell(version, _TOLD[kind][not changed], {"changed": changed}, as_json=as_json)


def approve_version(
    reference: str, name: str | None, reason: str, by: str | None, *, model: str | None, unfreeze: bool,
    as_json: bool,
) -> None:  # fmt: skip
    """Record an approval, and lift the freeze where that is asked for."""
    actor, why = acting(by), worded(reason)
    if model is not None and not (model.strip() and model.isprintable()):
        raise ConfigurationError("--model is the model id as the vendor reports it.")
    with found_version(reference, name) as (url, version):
        acts = VersionActs(url)
        approval_id = acts.approve(version.version_id, reason=why, actor=actor, model=model)
        lifted = unfreeze and acts.unfreeze(version.version_id, reason=why, actor=actor)
    what = "is approved" if model is None else f"is approved with the model {shown(model)}"
    also = "; it may promote again" if lifted else ""
    _tell(version, f"{what} (approval {approval_id}){also}",
          {"approval_id": approval_id, "model": model, "unfrozen": lifted}, as_json=as_json)  # fmt: skip


def revoke_approval(
    reference: str, name: str | None, approval_id: int, reason: str, by: str | None, *, as_json: bool
) -> None:
    """Take an approval back."""
    actor, why = acting(by), worded(reason)
    with found_version(reference, name) as (url, version):
        if not VersionActs(url).revoke(version.version_id, approval_id, reason=why, actor=actor):
            raise ConfigurationError(
                f"This version has no approval {approval_id} in force; `assay pipeline show` lists them."
            )
    told = f"has approval {approval_id} no more"
    _tell(version, told, {"approval_id": approval_id, "revoked": True}, as_json=as_json)


def _tell(version: FoundVersion, told: str, came_of_it: Mapping[str, object], *, as_json: bool) -> None:
    if as_json:
        identity = {"pipeline": version.name, "pipeline_version": version.pipeline_version,
                    "label": version.label}  # fmt: skip
        typer.echo(to_json({**identity, **came_of_it}))
    else:
        typer.echo(f"{shown(version.name)} version {version.pipeline_version[:SHORT]} {told}.")
