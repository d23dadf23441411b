"""Composition root: the only place that joins the pipeline's ports to adapters."""

from __future__ import annotations

import os
import random
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from uuid import uuid4

from assay.adapters.embedded.server import EmbeddedServer
from assay.adapters.postgres.claim_store import ClaimStore
from assay.adapters.postgres.finish_store import FinishStore
from assay.adapters.postgres.migrate import is_empty, migrate, pending
from assay.adapters.postgres.renewal_store import RenewalStore
from assay.adapters.postgres.session import make_pool
from assay.adapters.postgres.source_store import SourceStore
from assay.adapters.postgres.version_store import VersionStore
from assay.adapters.vault import Vault, WrongVaultKey, has_kek, load_kek
from assay.config import Settings
from assay.domain.contract import plan_of
from assay.domain.definition import Pipeline
from assay.domain.failures import ConfigurationError
from assay.domain.identity import InputRecord
from assay.pipeline.attempt import Annotator, NoteFirstPass
from assay.pipeline.crash import from_environment
from assay.pipeline.limits import WorkerLimits
from assay.pipeline.progress import Progress
from assay.pipeline.worker import Ports, RunResult, Worker
from assay.ports import ModelPort, SourcePort

# A run of zero-latency answers from a file is bound by the database, not by a vendor.
RECORDED_CONCURRENCY = 500
DEFAULT_CONCURRENCY = 32


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
    return Vault(load_kek(settings.environment, settings.vault_key_file))


def open_vault_to_write(settings: Settings, url: str) -> Vault:
    """The vault for new records; a project's first run makes its key.

    Raises `WrongVaultKey` where the database was written with another key (what is sealed under two keys can
    be read with neither), `ConfigurationError` where the key is gone: a new one must not take its place.
    """
    versions = VersionStore(url)
    if versions.other_vault_key("") is not None:
        vault = open_vault(settings)
    else:
        vault = Vault(load_kek(settings.environment, settings.vault_key_file))
    other = versions.other_vault_key(vault.kek_id)
    if other is not None:
        raise WrongVaultKey(other, vault.kek_id)
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
    """What one lost call is charged at: the price of a full prompt and the longest answer; 0 without a price.

    The longest answer is `max_completion_tokens`, `max_output_tokens` or `max_tokens` of the parameters, or
    the contract's byte limit read as one token per byte; the prompt counts one token per 2 bytes plus 4,000
    tokens for the record.
    """
    price = pipeline.price
    if price is None:
        return Decimal(0)
    named = (pipeline.parameters.get(key) for key in
             ("max_completion_tokens", "max_output_tokens", "max_tokens"))  # fmt: skip
    answer = next((value for value in named if isinstance(value, int)), None)
    longest = answer if answer is not None else plan_of(pipeline.contract).max_response_bytes
    prompt = len((pipeline.prompt.system + pipeline.prompt.user).encode()) // 2 + 4000
    million = Decimal(1_000_000)
    return (price.input_per_million * prompt + price.output_per_million * longest) / million


@dataclass(frozen=True, slots=True)
class RunPlan:
    """All that one run needs, ready to start."""

    url: str
    vault: Vault
    pipeline: Pipeline
    version_id: int
    model: ModelPort
    source: SourcePort
    mapping: str
    limits: WorkerLimits
    limit: int | None = None


async def run_pipeline(
    plan: RunPlan, progress: Progress, on_worker: Callable[[Worker], None] | None = None
) -> RunResult:
    """Run a pipeline over a source, from its checkpoint on; see `Worker.run`."""
    actor = f"{socket.gethostname()}:{os.getpid()}:{uuid4().hex[:8]}"
    pool = make_pool(plan.url, size=4)
    await pool.open()
    probe = from_environment()
    sources = SourceStore(pool, plan.vault, version_id=plan.version_id)
    claims = ClaimStore(
        pool, plan.vault, version_id=plan.version_id, actor=actor,
        lease_seconds=plan.limits.lease_seconds, probe=probe,
    )  # fmt: skip
    finishes = FinishStore(
        pool, name=plan.pipeline.name, version_id=plan.version_id, actor=actor, probe=probe
    )
    renewal = RenewalStore(plan.url, lease_seconds=plan.limits.lease_seconds)
    chance = random.SystemRandom()

    def make_annotator(note: NoteFirstPass) -> Annotator:
        return Annotator(plan.pipeline, plan.model, plan.vault, note_first_pass=note,
                         chance=chance.random, probe=probe)  # fmt: skip

    def draw(record: InputRecord) -> tuple[float, bool]:
        share = plan.pipeline.quality_probability
        return share, share > 0 and chance.random() < share

    try:
        source_id = await sources.register(
            kind="file", name=plan.source.name, mapping=plan.mapping,
            fingerprint=plan.source.fingerprint or f"stream:{uuid4().hex}", total=plan.source.total,
        )  # fmt: skip
        start = await sources.checkpoint(source_id)
        progress.skipped, progress.total = start, plan.source.total
        if plan.limit is not None and progress.total is not None:
            progress.total = min(progress.total, start + plan.limit)
        worker = Worker(
            Ports(claims, finishes, sources, renewal), plan.limits, progress,
            make_annotator=make_annotator, draw=draw, reserve=call_reserve(plan.pipeline), probe=probe,
        )  # fmt: skip
        if on_worker is not None:
            on_worker(worker)
        return await worker.run(plan.source, source_id, start=start, limit=plan.limit)
    finally:
        await plan.model.aclose()
        await pool.close()
