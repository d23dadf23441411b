"""The database of commands that read: they start no server where nothing was ever run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from assay.adapters.embedded.server import EmbeddedServer
from assay.app import database
from assay.cli.said import say
from assay.config import Settings
from assay.domain.failures import ConfigurationError

NOTHING_YET = (
    "Nothing has been run here yet; try `assay demo`, or label a file of your own: "
    "`assay run PIPELINE.py --input FILE`."
)


def is_new(settings: Settings) -> bool:
    """Whether the project has no database: neither one of the user's nor an embedded one."""
    return settings.database_url is None and EmbeddedServer(settings.project).status().data_dir is None


@contextmanager
def existing_database(settings: Settings) -> Iterator[str]:
    """The URL of the migrated database. Raises `ConfigurationError` where there is none yet."""
    if is_new(settings):
        raise ConfigurationError(NOTHING_YET)
    with database(settings, say) as url:
        yield url
