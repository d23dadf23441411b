"""`assay pipeline`: register, list and compare versions; approve of them, freeze and stop them."""

from __future__ import annotations

from typing import Annotated

import typer

pipeline_app = typer.Typer(
    help="Pipeline versions: register, list, compare, approve, freeze, stop.", no_args_is_help=True
)
_REFERENCE = typer.Argument(
    metavar="REFERENCE", help="A label, the first 6 or more digits of a digest, or FILE.py."
)
_NAME = typer.Argument(metavar="NAME", help="The pipeline.")
_LINE = typer.Option("--name", metavar="NAME", help="The pipeline that labels belong to.")
_REASON = typer.Option("--reason", metavar="TEXT", help="Why; it is kept with the act.")
_BY = typer.Option("--by", metavar="NAME", help="Who acts; default: this account's name.")
_JSON = typer.Option("--json", help="Print what came of it as one JSON object.")
_VERSION = "A label, the first 6 or more digits of a digest, or FILE.py."


@pipeline_app.command("register")
def register(
    file: Annotated[str, typer.Argument(metavar="FILE.py", help="FILE.py or FILE.py:name.")],
    model: Annotated[str | None, typer.Option(help="Another model than the file names.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print it as one JSON object.")] = False,
) -> None:
    """Register the version that a file describes; the same content again is the same version."""
    from assay.app import database, register_version
    from assay.cli.chosen import SHORT, folder_of, load
    from assay.cli.json_text import to_json
    from assay.cli.run_command import priced
    from assay.cli.said import say
    from assay.config import load_settings

    settings = load_settings()
    pipeline = priced(load(file, model), None, settings)
    with database(settings, say) as url:
        _, new = register_version(url, pipeline, folder_of(file))
    if as_json:
        typer.echo(to_json({"pipeline": pipeline.name, "pipeline_version": pipeline.version,
                            "label": pipeline.label, "new": new}))  # fmt: skip
    else:
        known = "is registered" if new else "was registered already"
        typer.echo(f"{pipeline.name} version {pipeline.version[:SHORT]} {known}.")


@pipeline_app.command("list")
def list_versions(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="Only this pipeline.")] = None,
    every: Annotated[
        bool, typer.Option("--all", help="Also versions that were stopped before any record was settled.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print them as one JSON array.")] = False,
) -> None:
    """List registered versions, oldest first.

    A version that somebody stopped before it settled any record is left out, and counted: most likely a
    mistake. `--all` and `--json` have it.
    """
    from assay.adapters.postgres.version_store import VersionStore
    from assay.cli.json_text import to_json
    from assay.cli.opened import existing_database
    from assay.cli.version_pages import show_versions
    from assay.config import load_settings
    from assay.domain.failures import ConfigurationError

    with existing_database(load_settings()) as url:
        found = VersionStore(url).list(name)
    if name is not None and not found:
        raise ConfigurationError(f"There is no pipeline {name!r}; `assay pipeline list` shows all.")
    if as_json:
        typer.echo(to_json(found))
    else:
        show_versions(found, every=every)


@pipeline_app.command("diff")
def diff(
    before: Annotated[str, typer.Argument(metavar="A", help=_VERSION)],
    after: Annotated[str, typer.Argument(metavar="B", help=_VERSION)],
    name: Annotated[
        str | None, typer.Option(metavar="NAME", help="The pipeline that labels belong to.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the differences as JSON.")] = False,
) -> None:
    """Show where two versions differ: path, before, after.

    Exit code 0 when they are the same, 1 when they differ.
    """
    from assay.cli.errors import BROKEN
    from assay.cli.version_pages import compare, show_differences

    found = compare(before, after, name)
    show_differences(found, as_json=as_json)
    if found.differences:
        raise typer.Exit(BROKEN)


@pipeline_app.command("show")
def show(
    reference: Annotated[str, _REFERENCE],
    name: Annotated[str | None, _LINE] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print it as one JSON object.")] = False,
) -> None:
    """Show a version: definition, stage, freeze, stops, models seen, approvals and its log."""
    from assay.cli.version_detail import show_version

    show_version(reference, name, as_json=as_json)


@pipeline_app.command("approve")
def approve(
    reference: Annotated[str, _REFERENCE],
    reason: Annotated[str, _REASON],
    name: Annotated[str | None, _LINE] = None,
    by: Annotated[str | None, _BY] = None,
    model: Annotated[
        str | None, typer.Option(metavar="MODEL", help="Approve of this model id, as the vendor reports it.")
    ] = None,
    unfreeze_too: Annotated[bool, typer.Option("--unfreeze", help="And allow promotion again.")] = False,
    as_json: Annotated[bool, _JSON] = False,
) -> None:
    """Record an approval: of an unproven version, of a rolled-back one's reviewed tasks, or of a model."""
    from assay.cli.version_acts import approve_version

    approve_version(reference, name, reason, by, model=model, unfreeze=unfreeze_too, as_json=as_json)


@pipeline_app.command("revoke")
def revoke(
    reference: Annotated[str, _REFERENCE],
    approval: Annotated[int, typer.Argument(metavar="APPROVAL", help="Its number (`assay pipeline show`).")],
    reason: Annotated[str, _REASON],
    name: Annotated[str | None, _LINE] = None,
    by: Annotated[str | None, _BY] = None,
    as_json: Annotated[bool, _JSON] = False,
) -> None:
    """Take an approval back, from now on."""
    from assay.cli.version_acts import revoke_approval

    revoke_approval(reference, name, approval, reason, by, as_json=as_json)


@pipeline_app.command("freeze")
def freeze(
    reference: Annotated[str, _REFERENCE],
    reason: Annotated[str, _REASON],
    name: Annotated[str | None, _LINE] = None,
    by: Annotated[str | None, _BY] = None,
    as_json: Annotated[bool, _JSON] = False,
) -> None:
    """Stop promotion: from here on no task of the version becomes auto_candidate; people decide."""
    from assay.cli.version_acts import act

    act("freeze", reference, name, reason, by, as_json=as_json)


@pipeline_app.command("unfreeze")
def unfreeze(
    reference: Annotated[str, _REFERENCE],
    reason: Annotated[str, _REASON],
    name: Annotated[str | None, _LINE] = None,
    by: Annotated[str | None, _BY] = None,
    as_json: Annotated[bool, _JSON] = False,
) -> None:
    """Allow promotion again."""
    from assay.cli.version_acts import act

    act("unfreeze", reference, name, reason, by, as_json=as_json)


@pipeline_app.command("stop")
def stop(
    reference: Annotated[str, _REFERENCE],
    reason: Annotated[str, _REASON],
    name: Annotated[str | None, _LINE] = None,
    by: Annotated[str | None, _BY] = None,
    as_json: Annotated[bool, _JSON] = False,
) -> None:
    """Stop a version's workers: nothing more is claimed, records wait, until `resume`.

    Lists leave out a version that is stopped before it settled any record, such as one with a mistyped model.
    """
    from assay.cli.version_acts import act

    act("stop", reference, name, reason, by, as_json=as_json)


@pipeline_app.command("pause-low")
def pause_low(
    pipeline: Annotated[str, _NAME],
    reason: Annotated[str, _REASON],
    by: Annotated[str | None, _BY] = None,
    as_json: Annotated[bool, _JSON] = False,
) -> None:
    """Make records of low priority wait, in all versions and workers, until `resume-low`."""
    from assay.cli.low_priority import pause

    pause(pipeline, reason, by, as_json=as_json)


@pipeline_app.command("resume-low")
def resume_low(
    pipeline: Annotated[str, _NAME],
    reason: Annotated[str, _REASON],
    by: Annotated[str | None, _BY] = None,
    as_json: Annotated[bool, _JSON] = False,
) -> None:
    """Work on records of low priority again; those that wait are due at once."""
    from assay.cli.low_priority import resume_paused

    resume_paused(pipeline, reason, by, as_json=as_json)


@pipeline_app.command("resume")
def resume(
    reference: Annotated[str, _REFERENCE],
    reason: Annotated[str, _REASON],
    name: Annotated[str | None, _LINE] = None,
    by: Annotated[str | None, _BY] = None,
    as_json: Annotated[bool, _JSON] = False,
) -> None:
    """Clear what stops a version, a failure or a person."""
    from assay.cli.version_acts import act

    act("resume", reference, name, reason, by, as_json=as_json)
