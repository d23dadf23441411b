"""`assay replay`: dead letters through a fix: planned, one, a sample, the rest."""

from __future__ import annotations

from typing import Annotated

import typer

from assay.domain.replays import SAMPLE, STOP_LOSS

replay_app = typer.Typer(
    help="Replays of dead letters: plan, run, watch, report, pause, stop.", no_args_is_help=True
)
_ID = typer.Argument(metavar="REPLAY", min=1, help="Its number (`assay replay list`).")
_BY = typer.Option("--by", metavar="NAME", help="Who acts; default: this account's name.")
_REASON = typer.Option("--reason", metavar="TEXT", help="Why; it is kept with the act.")
_JSON = typer.Option("--json", help="Print it as JSON.")


@replay_app.command("plan")
def plan(
    fix: Annotated[int, typer.Argument(metavar="FIX", min=1, help="The fix (`assay fix list`).")],
    *,
    reason: Annotated[str, _REASON] = "planned",
    code: Annotated[
        list[str] | None, typer.Option("--code", metavar="CODE", help="Only this code. May be repeated.")
    ] = None,
    field: Annotated[
        str | None, typer.Option("--field", metavar="POINTER", help="Only errors at this path.")
    ] = None,
    source: Annotated[
        str | None, typer.Option("--source", metavar="NAME", help="Only records of this source.")
    ] = None,
    customer: Annotated[
        str | None, typer.Option("--customer", metavar="NAME", help="Only records of this customer.")
    ] = None,
    document_type: Annotated[
        str | None, typer.Option("--document-type", metavar="TYPE", help="Only this document type.")
    ] = None,
    owner: Annotated[
        str | None, typer.Option("--owner", metavar="NAME", help="Only what is assigned to this person.")
    ] = None,
    fingerprint: Annotated[
        str | None, typer.Option("--fingerprint", metavar="TEXT", help="Only this cohort of errors.")
    ] = None,
    ids: Annotated[
        list[int] | None, typer.Option("--id", metavar="ID", help="This dead letter. May be repeated.")
    ] = None,
    limit: Annotated[int | None, typer.Option("--limit", metavar="N", min=1, help="At most so many.")] = None,
    sample: Annotated[
        int, typer.Option("--sample", metavar="N", min=1, help="So many settle before the rest begins.")
    ] = SAMPLE,
    stop_loss: Annotated[
        float,
        typer.Option("--stop-loss", metavar="SHARE", min=0, max=1, help="Stop when more of them fail again."),
    ] = STOP_LOSS,
    per_minute: Annotated[
        float | None,
        typer.Option("--per-minute", metavar="N", min=0.1, help="Let out so many a minute at most."),
    ] = None,
    call: Annotated[
        bool, typer.Option("--call", help="Ask the model again, even where responses are kept.")
    ] = False,
    by: Annotated[str | None, _BY] = None,
    as_json: Annotated[bool, _JSON] = False,
) -> None:
    """Select open dead letters for a fix, and say what a replay of them would do. Nothing runs yet.

    What erasure, retention or the limit of replays bars is counted with its reason and never run.
    """
    from assay.adapters.postgres.replay_store import Pacing, Selection
    from assay.cli.replay_command import plan_replay

    selection = Selection(
        codes=tuple(code) if code else None, path=field, source=source, customer=customer,
        document_type=document_type, owner=owner, fingerprint=fingerprint, ids=tuple(ids) if ids else None,
        limit=limit,
    )  # fmt: skip
    pacing = Pacing(sample, stop_loss, per_minute)
    plan_replay(fix, selection, pacing, reason=reason, by=by, call=call, as_json=as_json)


@replay_app.command("run")
def run_replay(
    replay: Annotated[int, _ID],
    pipeline: Annotated[str, typer.Argument(metavar="PIPELINE", help="FILE.py or FILE.py:name.")],
    *,
    concurrency: Annotated[
        int | None, typer.Option(min=1, max=20_000, help="Model calls at once; default 32 (recorded: 500).")
    ] = None,
    lease: Annotated[
        float, typer.Option(min=1, help="Seconds after which a dead worker's tasks are taken over.")
    ] = 90.0,
    model: Annotated[
        str | None, typer.Option(help="Another model than the file names; makes another version.")
    ] = None,
    base_url: Annotated[
        str | None, typer.Option(help="Where the model's API is; not part of the version.")
    ] = None,
    by: Annotated[str | None, _BY] = None,
    as_json: Annotated[bool, _JSON] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress, no table.")] = False,
) -> None:
    """Run a planned replay: one record, then the rest of the sample, then the others; or go on with it.

    It stops by itself when more of the sample fail again than `--stop-loss` of its plan allows. Ctrl-C (or
    SIGTERM) parks what is under way; the same command goes on. Exit codes: 0 finished, 1 stopped by its
    stop-loss or paused, 3 stopped by a configuration failure, 130 interrupted.
    """
    from assay.cli.replay_run import ReplayOptions, run

    options = ReplayOptions(
        replay, pipeline, concurrency, lease, model, base_url, by, as_json=as_json, quiet=quiet
    )
    if code := run(options):
        raise typer.Exit(code)


@replay_app.command("list")
def list_replays(*, as_json: Annotated[bool, _JSON] = False) -> None:
    """List replays, newest first."""
    from assay.cli.replay_command import show_all

    show_all(as_json=as_json)


@replay_app.command("status")
def replay_status(replay: Annotated[int, _ID], *, as_json: Annotated[bool, _JSON] = False) -> None:
    """Where a replay stands, and what was done with it."""
    from assay.cli.replay_command import show_one

    show_one(replay, as_json=as_json)


@replay_app.command("report")
def replay_report(replay: Annotated[int, _ID], *, as_json: Annotated[bool, _JSON] = False) -> None:
    """Before and after, by code, with the calls and the cost that it took."""
    from assay.cli.replay_command import show_report

    show_report(replay, as_json=as_json)


@replay_app.command("pause")
def pause(
    replay: Annotated[int, _ID],
    *,
    reason: Annotated[str, _REASON],
    by: Annotated[str | None, _BY] = None,
) -> None:
    """Let nothing more out until it is resumed. What is out already is finished."""
    from assay.cli.replay_command import act

    act(replay, "paused", reason=reason, by=by)


@replay_app.command("resume")
def resume(
    replay: Annotated[int, _ID],
    *,
    reason: Annotated[str, _REASON],
    by: Annotated[str | None, _BY] = None,
) -> None:
    """Go on with a paused replay: its next `assay replay run` lets items out again."""
    from assay.cli.replay_command import act

    act(replay, "resumed", reason=reason, by=by)


@replay_app.command("stop")
def stop(
    replay: Annotated[int, _ID],
    *,
    reason: Annotated[str, _REASON],
    by: Annotated[str | None, _BY] = None,
) -> None:
    """End a replay for good. What it has not let out is free for another one."""
    from assay.cli.replay_command import act

    act(replay, "stopped", reason=reason, by=by)
