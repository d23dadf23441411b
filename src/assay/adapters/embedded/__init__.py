"""The embedded PostgreSQL: a server per project that starts, stops and recovers by itself.

with EmbeddedServer(project_dir).acquire() as lease:
    connect(lease.url)
"""

from __future__ import annotations

from assay.adapters.embedded.abandoned import AbandonedDatabase, abandoned_databases
from assay.adapters.embedded.server import EmbeddedServer, Lease, ServerStatus
from assay.adapters.embedded.settings import ServerSettings
from assay.adapters.embedded.state import Phase

__all__ = [
    "AbandonedDatabase",
    "EmbeddedServer",
    "Lease",
    "Phase",
    "ServerSettings",
    "ServerStatus",
    "abandoned_databases",
]
