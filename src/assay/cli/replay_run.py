"""`assay replay run`: lets items out and works on them, until there are none left or something stops it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import typer

from assay.adapters.postgres.replay_release import Released, ReplayRelease
from assay.adapters.postgres.replay_store import ReplayStore
from assay.adapters.postgres.session import make_pool
from assay.adapters.postgres.version_store import VersionStore
from assay.app import DEFAULT_CONCURRENCY, RECORDED_CONCURRENCY, RunPlan, open_vault_to_write, run_pipeline
from assay.cli.chosen import SHORT, folder_of, load
from assay.cli.errors import BROKEN, INTERRUPTED
from assay.cli.isolated_reading import offer_of
from assay.cli.json_text import to_json
from assay.cli.opened import existing_database
from assay.cli.person import acting
from assay.cli.replay_command import summary
from assay.cli.run_command import build_model, complain_of, handle_signals, priced
from assay.cli.said import say
from assay.cli.screen import Screen
from assay.config import Settings, load_settings
from assay.domain.definition import Pipeline
from assay.domain.failures import ConfigurationError
from assay.domain.replays import ReplayState, Step
from assay.pipeline.limits import WorkerLimits
from assay.pipeline.progress import Progress
from assay.pipeline.worker import RunResult

# Between two looks at items that another worker has.
_LOOK_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class ReplayOptions:
    """The options of `assay replay run`, read."""

    replay: int
    pipeline: str
    concurrency: int | None = None
    lease: float = 90.0
    model: str | None = None
    base_url: str | None = None
    by: str | None = None
    as_json: bool = False
    quiet: bool = False


def run(options: ReplayOptions) -> int:
    """Run it; the exit code."""
    actor, settings = acting(options.by), load_settings()
    pipeline = priced(load(options.pipeline, options.model), options.base_url, settings)
    with existing_database(settings) as url:
        store = ReplayStore(url)
        replay = store.one(options.replay)
        wanted = str(replay["to_version"] or replay["from_version"])
        if pipeline.name != replay["pipeline"] or pipeline.version != wanted:
            raise ConfigurationError(
                f"Replay {options.replay} runs version {wanted[:SHORT]} of {replay['pipeline']}, and "
                f"{options.pipeline} describes {pipeline.version[:SHORT]} of {pipeline.name}."
            )
        if replay["state"] == ReplayState.PAUSED:
            raise ConfigurationError(
                f"Replay {options.replay} is paused; `assay replay resume` lets it go on."
            )
        version = VersionStore(url).resolve(wanted, pipeline.name)
        code = asyncio.run(_Run(options, settings, pipeline, url, version.version_id, actor).all())
        after = store.one(options.replay)
    if options.as_json:
        typer.echo(to_json(after))
    elif not options.quiet:
        typer.echo(f"{summary(after)} `assay replay report {options.replay}` shows before and after.")
    return code


class _Run:
    def __init__(
        self,
        options: ReplayOptions,
        settings: Settings,
        pipeline: Pipeline,
        url: str,
        version_id: int,
        actor: str,
    ) -> None:
        self._options, self._settings, self._pipeline = options, settings, pipeline
        self._url, self._version_id, self._actor = url, version_id, actor
        self._vault = open_vault_to_write(settings, url)

    async def all(self) -> int:
        """Pages, one after the other, each worked on until it has settled."""
        pool = make_pool(self._url, size=1)
        await pool.open()
        try:
            release = ReplayRelease(
                pool, self._vault, version_id=self._version_id, actor=self._actor,
                draw=lambda record: offer_of(record, self._pipeline),
            )  # fmt: skip
            while True:
                page = await release.page(self._options.replay)
                if page.step is Step.WAIT and not page.counts.released:
                    return self._ended(page)
                if page.step in (Step.STOP, Step.FINISH):
                    return self._ended(page)
                self._tell(page)
                ended = await self._work()
                if ended.stopped is not None:
                    return complain_of(ended.stopped)
                if ended.drained:
                    say("Interrupted: what was in flight is finished or parked. The same command goes on.")
                    return INTERRUPTED
                if page.step is Step.WAIT:
                    await asyncio.sleep(_LOOK_SECONDS)
        finally:
            await pool.close()

    def _tell(self, page: Released) -> None:
        if not self._options.quiet and page.step is Step.RELEASE:
            counts = page.counts
            say(f"{counts.released} out, {counts.waiting} waiting; so far {counts.succeeded} succeeded, "
                f"{counts.failed} failed again.")  # fmt: skip

    def _ended(self, page: Released) -> int:
        if page.state is ReplayState.FINISHED:
            return 0
        if page.state is ReplayState.STOPPED:
            again = f"{page.counts.failed} of {page.counts.judged} failed again"
            say(f"Replay {self._options.replay} was stopped: {again}. The fix does not mend this; the dead "
                "letters are open as before.")  # fmt: skip
        return BROKEN

    async def _work(self) -> RunResult:
        """A run without a source: what is parked under the version, due or not yet."""
        pipeline = self._pipeline
        recorded = pipeline.model.startswith("recorded:")
        limits = WorkerLimits(
            concurrency=self._options.concurrency
            or (RECORDED_CONCURRENCY if recorded else DEFAULT_CONCURRENCY),
            lease_seconds=self._options.lease,
            call_timeout_seconds=pipeline.call_timeout_seconds,
        )
        model = build_model(
            pipeline, folder_of(self._options.pipeline), self._options.base_url, self._settings
        )
        plan = RunPlan(
            url=self._url, vault=self._vault, pipeline=pipeline, version_id=self._version_id, model=model,
            sources=(), mapping="{}", limits=limits,
        )  # fmt: skip
        progress = Progress()
        quiet = self._options.quiet or self._options.as_json
        with Screen(progress, title=f"{pipeline.name}, replay {self._options.replay}", quiet=quiet) as screen:
            return await run_pipeline(plan, progress, lambda worker: handle_signals(worker, screen))
