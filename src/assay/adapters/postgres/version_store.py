"""Pipeline versions: registration and look-up."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

import psycopg
from psycopg.rows import tuple_row

from assay.adapters.postgres.queries import queries
from assay.adapters.postgres.version_acts import VersionActs
from assay.adapters.postgres.version_events import STOPPED_BY_PERSON
from assay.domain.failures import ConfigurationError


@dataclass(frozen=True, slots=True)
class VersionRow:
    """A registered pipeline version as people list it; `stopped` is the code of the stop that holds it.

    `left_out`: a person stopped it before any of its records was settled.
    """

    version_id: int
    name: str
    pipeline_version: str
    label: str | None
    code_commit: str | None
    registered_at: datetime
    model: str | None
    stage: str
    frozen: bool
    stopped: str | None
    left_out: bool


@dataclass(frozen=True, slots=True)
class FoundVersion:
    """A version found by label or digest prefix, with the definition behind the digest."""

    version_id: int
    name: str
    pipeline_version: str
    label: str | None
    definition: dict[str, Any]


class VersionStore:
    """Synchronous: used at start-up and by commands."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._sql = queries("versions")

    def _connect(self) -> psycopg.Connection[tuple[Any, ...]]:
        return psycopg.connect(self._url, row_factory=tuple_row)

    def register(
        self,
        *,
        name: str,
        pipeline_version: str,
        definition: Mapping[str, Any],
        label: str | None,
        code_commit: str | None,
        call_reserve: Decimal,
    ) -> tuple[int, bool]:
        """Register a version (again); returns its id and whether it is new.

        Raises `ConfigurationError` for a label that another digest of this line carries.
        """
        parameters: dict[str, Any] = {
            "name": name, "pipeline_version": pipeline_version, "label": label,
            "definition": json.dumps(definition), "code_commit": code_commit, "call_reserve": call_reserve,
        }  # fmt: skip
        with self._connect() as connection:
            if label is not None:
                self._check_label(connection, parameters)
            new = connection.execute(self._sql["register_version"], parameters).fetchone()
            row = connection.execute(self._sql["find_version"], parameters).fetchone()
            if row is None:
                raise ConfigurationError(
                    f"Version {pipeline_version[:12]} of {name} vanished; register it again."
                )
            version_id, known_label = row
            connection.execute(self._sql["register_release"], {"version_id": version_id})
            if label is not None and known_label is None:
                connection.execute(self._sql["name_version"], {"label": label, "version_id": version_id})
            elif label is not None and label != known_label:
                raise ConfigurationError(
                    f"This version of {name} is labelled {known_label!r} already; a label does not change."
                )
            return version_id, bool(new and new[1])

    def _check_label(
        self, connection: psycopg.Connection[tuple[Any, ...]], parameters: dict[str, Any]
    ) -> None:
        row = connection.execute(self._sql["find_label"], parameters).fetchone()
        if row is not None and row[0] != parameters["pipeline_version"]:
            raise ConfigurationError(
                f"The label {parameters['label']!r} of {parameters['name']} belongs to version "
                f"{row[0][:12]}, which has other content; give this version a new label."
            )

    def find(self, *, name: str, pipeline_version: str) -> int | None:
        """The id of a version, None when it was never registered."""
        with self._connect() as connection:
            row = connection.execute(
                self._sql["find_version"], {"name": name, "pipeline_version": pipeline_version}
            ).fetchone()
        return None if row is None else int(row[0])

    def list(self, name: str | None = None) -> list[VersionRow]:
        """Versions of one line, or of all."""
        with self._connect() as connection:
            return [
                VersionRow(*row)
                for row in connection.execute(
                    self._sql["list_versions"], {"name": name, "by_person": STOPPED_BY_PERSON}
                )
            ]

    def resolve(self, reference: str, name: str | None = None) -> FoundVersion:
        """The one version that a label or a digest prefix names; raises `ConfigurationError` else."""
        with self._connect() as connection:
            rows = connection.execute(
                self._sql["resolve_version"], {"reference": reference, "name": name}
            ).fetchall()
        if len(rows) != 1:
            found = "no version" if not rows else f"{len(rows)} versions"
            raise ConfigurationError(
                f"{reference!r} names {found}; give a label or at least 6 digits of a digest "
                "(`assay pipeline list` shows them)."
            )
        return FoundVersion(*rows[0])

    def left_behind(self, name: str, version_id: int) -> dict[str, int]:
        """Unfinished tasks of other versions of the line that no person stopped, by label or digest."""
        with self._connect() as connection:
            rows = connection.execute(
                self._sql["left_behind"],
                {"name": name, "version_id": version_id, "by_person": STOPPED_BY_PERSON},
            ).fetchall()
        return {label or digest[:12]: count for digest, label, count in rows}

    def freeze(self, version_id: int, *, reason: str, actor: str) -> bool:
        """See `VersionActs.freeze`."""
        return VersionActs(self._url).freeze(version_id, reason=reason, actor=actor)

    def unfreeze(self, version_id: int, *, reason: str = "", actor: str = "unknown") -> bool:
        """See `VersionActs.unfreeze`."""
        return VersionActs(self._url).unfreeze(version_id, reason=reason, actor=actor)
