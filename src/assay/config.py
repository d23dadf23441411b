"""Settings from the environment and the project folder, checked at start."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from assay.domain.failures import ConfigurationError

STATE_DIR: Final = ".assay"
_POSTGRES_URL: Final = re.compile(r"^postgres(ql)?://", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Settings:
    """What a command needs to know before it starts.

    `project`: the folder whose `.assay` holds the embedded database and the vault key. `database_url`: a
    server of the user's own, None for the embedded one. `environment`: where keys are looked up.
    """

    project: Path
    database_url: str | None
    environment: Mapping[str, str]

    @property
    def vault_key_file(self) -> Path:
        """The vault key that is made for a project without one of its own."""
        return self.project / STATE_DIR / "vault.key"


def load_settings(environment: Mapping[str, str] | None = None, start: Path | None = None) -> Settings:
    """Settings of this process. The project is ASSAY_PROJECT, or the nearest folder upwards that has a
    `.assay`, or the working folder.

    Raises `ConfigurationError` for a folder that is missing and a URL of another database.
    """
    env = os.environ if environment is None else environment
    url = env.get("ASSAY_DATABASE_URL") or None
    if url is not None and not _POSTGRES_URL.match(url):
        raise ConfigurationError(
            "ASSAY_DATABASE_URL is no PostgreSQL URL; write it as postgresql://user:password@host:5432/name."
        )
    return Settings(_project(env.get("ASSAY_PROJECT"), start or Path.cwd()), url, env)


def _project(named: str | None, start: Path) -> Path:
    if named:
        project = Path(named).expanduser().resolve()
        if not project.is_dir():
            raise ConfigurationError(
                f"ASSAY_PROJECT names {project}, which is no folder; create it or unset it."
            )
        return project
    start = start.resolve()
    for folder in (start, *start.parents):
        if (folder / STATE_DIR).is_dir():
            return folder
    return start
