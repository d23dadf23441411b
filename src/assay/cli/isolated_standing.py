"""What stands of an isolated record that is open no more, beside a fix that somebody gives it again."""

from __future__ import annotations

from assay.adapters.postgres.explain_store import ExplainStore
from assay.adapters.postgres.isolated_store import IsolatedPage, IsolatedStore
from assay.cli.tables import shown
from assay.domain.failures import ConfigurationError
from assay.domain.identity import InputRecord, SourceItem


def check_same(url: str, isolated_id: int, given: SourceItem, pipeline: str) -> str:
    """Says that the fix stands already. Raises `ConfigurationError` where another one does, or none at all:
    what was given changed nothing then."""
    page = IsolatedStore(url).page(isolated_id)
    last = next((act for act in reversed(page.acts) if act["kind"] in ("fixed", "closed")), None)
    if last is None or last["kind"] == "closed":
        who = "" if last is None else f", {shown(last['at'])} by {shown(last['actor'])}"
        raise ConfigurationError(
            f"Isolated record {isolated_id} was closed{who}: nothing comes of a fix, and nothing was "
            "changed. Send the record to its source again instead."
        )
    name = shown(f"{last['record_id']} version {last['input_version']}")
    stands = f"{shown(last['at'])} by {shown(last['actor'])}: it is record {name} now"
    if other := _other_pipeline(page, pipeline):
        raise ConfigurationError(
            f"Isolated record {isolated_id} was fixed for {other}, {stands}. Nothing was changed; {pipeline} "
            "labels that record where it reads it from a source."
        )
    if not _is_same(url, given, str(last["record_id"]), int(str(last["input_version"]))):
        raise ConfigurationError(
            f"Another fix of isolated record {isolated_id} stands already, {stands}. Nothing was changed; "
            "what is wrong with that record is mended by a new input version, sent to its source."
        )
    return f"Isolated record {isolated_id} was fixed like this already, {stands}. Nothing changed."


def _other_pipeline(page: IsolatedPage, pipeline: str) -> str | None:
    if page.task is None or page.task["pipeline"] == pipeline:
        return None
    return shown(page.task["pipeline"])


def _is_same(url: str, given: SourceItem, record_id: str, input_version: int) -> bool:
    """Whether identity and content are those of the input that the fix made."""
    if not isinstance(given, InputRecord) or given.record_id != record_id:
        return False
    if given.input_version != input_version:
        return False
    inputs = ExplainStore(url).explain(record_id, input_version=input_version).inputs
    return any(row["input_sha256"] == given.sha256.hex() for row in inputs)
