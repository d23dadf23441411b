"""A database that was restored from a backup, before workers and publishers start on it."""

from __future__ import annotations

import psycopg

from assay.adapters.postgres.queries import queries
from assay.domain.failures import ConfigurationError


def note_restore(url: str) -> int:
    """Raise the restore epoch, so that new events never bear the ids of forgotten ones; the new epoch.

    Raises `ConfigurationError` while a worker holds a lease.
    """
    with psycopg.connect(url, application_name="assay db restored") as connection:
        row = connection.execute(queries("restores")["restored"]).fetchone()
    if row is None:
        raise ConfigurationError(
            "A worker holds a lease in this database: end all workers and publishers, wait until leases "
            "have run out (90 seconds), then run this again."
        )
    return int(row[0])
