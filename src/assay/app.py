"""Composition root: the only place that joins the pipeline's ports to adapters."""

from __future__ import annotations

import asyncio
import json
import os
import random
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from uuid import uuid4

from assay.adapters.embedded.server import EmbeddedServer
from assay.adapters.postgres.account_store import AccountStore
from assay.adapters.postgres.budget_store import ReservationStore
from assay.adapters.postgres.claim_store import ClaimStore
from assay.adapters.postgres.content_store import ContentStore
from assay.adapters.postgres.finish_store import FinishStore
from assay.adapters.postgres.key_rotation import VaultKeyStore, following
from assay.adapters.postgres.migrate import is_empty, migrate, pending
from assay.adapters.postgres.owner_lease import OwnerLease
from assay.adapters.postgres.renewal_store import RenewalStore
from assay.adapters.postgres.session import Pool, make_pool
from assay.adapters.postgres.source_store import SourceStore
from assay.adapters.postgres.version_acts import VersionActs
from assay.adapters.postgres.version_events import VersionEvents
from assay.adapters.postgres.version_store import VersionStore
from assay.adapters.vault import Vault, has_kek, load_keys
from assay.config import Settings
from assay.domain.breaker import BreakerRules
from assay.domain.contract import plan_of
from assay.domain.contract_schema import contract_schema
from assay.domain.correction import correction_text
from assay.domain.definition import Pipeline
from assay.domain.failures import ConfigurationError
from assay.domain.identity import InputRecord
from assay.domain.pacing import Limits
from assay.domain.spend import COVERED_BYTES
from assay.pipeline.attempt import Annotator, NoteFirstPass
from assay.pipeline.crash import from_environment
from assay.pipeline.flow import Flow
from assay.pipeline.flow_settings import FlowSettings
from assay.pipeline.limits import WorkerLimits
from assay.pipeline.no_source import NoSource
from assay.pipeline.progress import Progress
from assay.pipeline.source_group import GroupedClaims, GroupedSources, SourceGroup
from assay.pipeline.spend import FreeOfCharge, SpendGuard, SpendTerms
from assay.pipeline.worker import Ports, RunResult, Worker
from assay.ports import AssignedSource, ClaimPort, ModelPort, SourcePort, SourceStorePort
from assay.telemetry import bound, tell

# A run of zero-latency answers from a file is bound by the database, not by a vendor.
RECORDED_CONCURRENCY = 500
DEFAULT_CONCURRENCY = 32
# What a vendor adds to a request of three messages and a schema: roles, separators, its own words.
FRAMING_TOKENS = 500


@contextmanager
def database(settings: Settings, say: Callable[[str], None] | None = None) -> Iterator[str]:
    """The URL of a migrated database, for as long as the context lasts.

    Without ASSAY_DATABASE_URL the project's embedded server is started if need be, and held. The embedded
    database and an empty one are migrated here; a user's own that holds data only by `assay migrate`.
    """
    if settings.database_url is not None:
        if is_empty(settings.database_url):
            migrate(settings.database_url)
        elif missing := pending(settings.database_url):
            raise ConfigurationError(
                f"The database lacks {len(missing)} migration(s) of this assay; run `assay migrate`."
            )
        yield settings.database_url
        return
    server = EmbeddedServer(settings.project, progress=say)
    with server.acquire() as lease:
        migrate(lease.url)
        yield lease.url


def open_vault(settings: Settings) -> Vault:
    """The vault under the key that the settings name, to read. Raises `ConfigurationError` without one."""
    if not has_kek(settings.environment, settings.vault_key_file):
        raise ConfigurationError(
            f"There is no vault key file {settings.vault_key_file}; bring it back, or set ASSAY_VAULT_KEY."
        )
    return _ring(settings)


def _ring(settings: Settings) -> Vault:
    def load() -> tuple[bytes, ...]:
        return load_keys(settings.environment, settings.vault_key_file)

    return Vault(*load(), reload=load)


def open_vault_to_write(settings: Settings, url: str) -> Vault:
    """The vault for new records; a project's first run makes its key.

    Raises `WrongVaultKey` where the database is written with another key (what is sealed under two keys can
    be read with neither), `ConfigurationError` where the key is gone: a new one must not take its place.
    """
    keys = VaultKeyStore(url)
    vault = open_vault(settings) if keys.current() is not None else _ring(settings)
    vault.use(keys.first(vault.kek_id))
    return vault


def register_version(url: str, pipeline: Pipeline, folder: Path) -> tuple[int, bool]:
    """Register the pipeline's version; its id and whether it is new."""
    return VersionStore(url).register(
        name=pipeline.name,
        pipeline_version=pipeline.version,
        definition=pipeline.definition,
        label=pipeline.label,
        code_commit=code_commit(folder),
        call_reserve=call_reserve(pipeline),
    )


def code_commit(folder: Path) -> str | None:
    """The Git commit of the folder, `+` behind it when files differ from it; None outside of Git."""

    def git(*arguments: str) -> str | None:
        try:
            done = subprocess.run(
                ["git", "-C", str(folder), *arguments],
                capture_output=True, text=True, timeout=10, check=False,
            )  # fmt: skip
        except (OSError, subprocess.TimeoutExpired):
            return None
        return done.stdout.strip() if done.returncode == 0 else None

    commit = git("rev-parse", "HEAD")
    if not commit:
        return None
    return f"{commit}+" if git("status", "--porcelain", "--", ".") else commit


def call_reserve(pipeline: Pipeline) -> Decimal:
    """What one call may cost, with a text of up to `COVERED_BYTES`; 0 without a price.

    Prompt, correction, schema and text count one token per byte of UTF-8: no tokenizer that works on bytes
    has shorter ones. The longest answer is `max_completion_tokens`, `max_output_tokens` or `max_tokens` of
    the parameters, or the contract's byte limit read the same way.
    """
    price = pipeline.price
    if price is None:
        return Decimal(0)
    named = (pipeline.parameters.get(key) for key in
             ("max_completion_tokens", "max_output_tokens", "max_tokens"))  # fmt: skip
    answer = next((value for value in named if isinstance(value, int)), None)
    longest = answer if answer is not None else plan_of(pipeline.contract).max_response_bytes
    fixed = (pipeline.prompt.system, pipeline.prompt.user, correction_text(pipeline.contract),
             json.dumps(contract_schema(pipeline.contract)))  # fmt: skip
    prompt = sum(len(part.encode()) for part in fixed) + FRAMING_TOKENS + COVERED_BYTES
    million = Decimal(1_000_000)
    return (price.input_per_million * prompt + price.output_per_million * longest) / million


@dataclass(frozen=True, slots=True)
class RunPlan:
    """All that one run needs, ready to start.

    `patience_seconds`: how long the database may be away before the run ends. `clears_stop`: a person starts
    this run, and whatever stopped the version before is mended, as far as they know.
    """

    url: str
    vault: Vault
    pipeline: Pipeline
    version_id: int
    model: ModelPort
    sources: Sequence[SourcePort]
    mapping: str
    limits: WorkerLimits
    limit: int | None = None
    max_spend: Decimal | None = None
    declared: Limits = field(default_factory=Limits)
    patience_seconds: float = 60.0
    clears_stop: bool = True


@dataclass(frozen=True, slots=True)
class _Input:
    """The source as the worker knows it, and the stores for its offsets."""

    source: SourcePort
    source_id: int
    claims: ClaimPort
    sources: SourceStorePort


async def _open_input(
    plan: RunPlan, pool: Pool, claims: ClaimStore, sources: SourceStore, progress: Progress
) -> _Input:
    """A topic as it is; files one after the other, on one line of offsets; without any, what is parked."""
    if not plan.sources:
        return _Input(NoSource("nothing"), 0, claims, sources)
    for topic in plan.sources[:1]:
        if isinstance(topic, AssignedSource):
            source_id = await sources.register(
                kind="kafka", name=topic.name, fingerprint=topic.fingerprint or "", mapping=plan.mapping
            )
            return _Input(topic, source_id, claims, sources)
    group = SourceGroup(plan.sources, sources, ContentStore(pool), mapping=plan.mapping, stream_id=uuid4)
    progress.skipped, progress.total = await group.begin(), group.total
    if plan.limit is not None and progress.total is not None:
        progress.total = min(progress.total, progress.skipped + plan.limit)
    return _Input(group, 0, GroupedClaims(claims, group), GroupedSources(sources, group))


def _spend_guard(plan: RunPlan, pool: Pool, actor: str) -> SpendGuard:
    """What the run may spend; a reservation outlives the calls of a worker that dies."""
    if plan.model.account is None:
        return SpendGuard(FreeOfCharge(), SpendTerms(reserve=None, currency=None))
    price = plan.pipeline.price
    terms = SpendTerms(
        reserve=None if price is None else call_reserve(plan.pipeline),
        currency=None if price is None else price.currency, max_spend=plan.max_spend,
        first=2 * plan.limits.concurrency,
        per_byte=Decimal(0) if price is None else price.input_per_million / Decimal(1_000_000),
    )  # fmt: skip
    seconds = plan.limits.lease_seconds + plan.limits.call_timeout_seconds + terms.drawing_seconds
    store = ReservationStore(
        pool, name=plan.pipeline.name, version_id=plan.version_id, worker=actor, seconds=seconds
    )
    return SpendGuard(store, terms)


def _flow(plan: RunPlan, pool: Pool, actor: str, chance: Callable[[], float], progress: Progress) -> Flow:
    """What the vendor's account allows; a model without an account is not limited."""
    account = plan.model.account
    rules = BreakerRules(probe_lease=plan.limits.call_timeout_seconds + 30)
    port = None if account is None else AccountStore(pool, account=account, worker=actor, breaker=rules)

    def changed(what: str, why: str | None) -> None:
        match what:
            case "breaker_opened":
                tell("breaker_opened", account=account, code=why)
                progress.vendor = f"the vendor does not answer ({why}); trying it now and then"
            case "breaker_closed":
                tell("breaker_closed", account=account)
                progress.vendor = None
            case "throttled":
                tell("throttled", account=account, code=why)
                progress.vendor = "the vendor asks for less"
            case _:
                tell("limit_learned", account=account)

    return Flow(
        port,
        FlowSettings(concurrency=plan.limits.concurrency, declared=plan.declared, breaker=rules),
        clock=asyncio.get_running_loop().time, chance=chance, on_change=changed,
    )  # fmt: skip


async def run_pipeline(
    plan: RunPlan, progress: Progress, on_worker: Callable[[Worker], None] | None = None
) -> RunResult:
    """Run a pipeline over a source, from its checkpoint on; see `Worker.run`."""
    actor = f"{socket.gethostname()}:{os.getpid()}:{uuid4().hex[:8]}"
    lease = OwnerLease(actor)
    chance = random.SystemRandom()
    pool = make_pool(plan.url, size=8, patience_seconds=plan.patience_seconds)
    await pool.open()
    probe = from_environment()
    sources = SourceStore(pool, plan.vault, version_id=plan.version_id)
    claims = ClaimStore(
        pool, plan.vault, version_id=plan.version_id, lease=lease, account=plan.model.account,
        lease_seconds=plan.limits.lease_seconds, probe=probe,
    )  # fmt: skip
    finishes = FinishStore(
        pool,
        name=plan.pipeline.name,
        version_id=plan.version_id,
        actor=actor,
        account=plan.model.account,
        probe=probe,
    )
    renewal = RenewalStore(plan.url, lease=lease, lease_seconds=plan.limits.lease_seconds)
    spend = _spend_guard(plan, pool, actor)
    flow = _flow(plan, pool, actor, chance.random, progress)

    def make_annotator(note: NoteFirstPass) -> Annotator:
        return Annotator(plan.pipeline, plan.model, plan.vault, flow, note_first_pass=note,
                         chance=chance.random, probe=probe)  # fmt: skip

    def draw(record: InputRecord) -> tuple[float, bool]:
        share = plan.pipeline.quality_probability
        return share, share > 0 and chance.random() < share

    context = {"worker": actor, "run_id": uuid4().hex[:12], "pipeline": plan.pipeline.name,
               "pipeline_version": plan.pipeline.version[:12]}  # fmt: skip
    try:
        with bound(**context):
            if plan.clears_stop:
                cleared = VersionActs(plan.url).clear_stop(plan.version_id, actor)
                if cleared is not None:
                    tell("version_resumed", reason=cleared.code)
            await spend.start()
            await flow.start()
            given = await _open_input(plan, pool, claims, sources, progress)
            ports = Ports(
                given.claims, finishes, given.sources, renewal,
                VersionEvents(pool, version_id=plan.version_id, actor=actor), database_away=lambda: pool.away,
                about_to_end=lambda: pool.wait_no_longer_than(plan.limits.drain_seconds),
            )  # fmt: skip
            worker = Worker(
                ports, plan.limits, progress, spend, flow, make_annotator=make_annotator, draw=draw,
                probe=probe,
            )  # fmt: skip
            if on_worker is not None:
                on_worker(worker)
            async with following(pool, plan.vault):
                return await _run_told(worker, given, plan, progress)
    finally:
        await flow.aclose()
        await plan.model.aclose()
        await pool.close()


async def _run_told(worker: Worker, given: _Input, plan: RunPlan, progress: Progress) -> RunResult:
    started = time.monotonic()
    tell("run_started", source=given.source.name, offset=progress.skipped, total=progress.total,
         model=plan.pipeline.model, concurrency=plan.limits.concurrency)  # fmt: skip
    reason, code = "failed", None
    try:
        result = await worker.run(given.source, given.source_id, start=0, limit=plan.limit)
        reason = "stopped" if result.stopped else "drained" if result.drained else "done"
        code = result.stopped.code if result.stopped else None
        return result
    finally:
        tell("run_ended", reason=reason, code=code, read=progress.read,
             settled=progress.settled,
             calls=progress.calls, cost=progress.cost, seconds=time.monotonic() - started)  # fmt: skip
