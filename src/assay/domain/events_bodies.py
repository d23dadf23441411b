"""The shape of every kind of event, as pydantic models; the published JSON schemas are made from them.

No event holds a record's text, a model's response or a sensitive field of a label: `label` is the plain part
of it, and (pipeline, pipeline_version, record_id, input_version) names the annotation that has the rest. The
models refuse unknown fields, because they say what is written; the published schemas allow them, because
readers ignore what they do not know.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final, Literal, TypeAlias
from uuid import UUID

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, JsonValue

from assay.domain.events import SCHEMA_VERSION, schema_id

Count: TypeAlias = Annotated[int, Field(ge=0)]
Ordinal: TypeAlias = Annotated[int, Field(ge=1)]
Digest: TypeAlias = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
Code: TypeAlias = Annotated[str, Field(pattern="^[a-z][a-z0-9_]*$")]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class _Data(_Part):
    correlation_id: str | None = Field(
        None, description="The record's correlation id, where it came with one."
    )
    traceparent: str | None = Field(
        None, description="W3C trace context of the record, where it came with one."
    )


class ResultData(_Data):
    """One annotation and the result that points at it."""

    pipeline: str = Field(description="Name of the line.")
    pipeline_version: Digest = Field(description="Digest of the version.")
    record_id: str = Field(description="The record.")
    input_version: Ordinal = Field(description="Version of the record's content.")
    revision: Ordinal = Field(description="Revision of the result; the same as the event's.")


class CompletedData(ResultData):
    """A valid label."""

    state: Literal["auto_candidate", "review_pending"] = Field(description="Where the annotation stands.")
    label: dict[str, JsonValue] | None = Field(description="The label without its sensitive fields.")
    error_code: Code | None = Field(description="What was refused, where a refusal goes to a person.")
    review_reason: Code | None = Field(description="Why a person must decide; null for `auto_candidate`.")


class QuarantinedData(ResultData):
    """A dead letter."""

    state: Literal["quarantined"] = Field(description="Where the annotation stands.")
    label: None = Field(description="Always null here.")
    error_code: Code = Field(description="Why it was refused; see the page on failures.")
    review_reason: Code | None = Field(description="Null, but for what a person had been asked before.")


class RejectedData(ResultData):
    """A dead letter that somebody closed: nothing will come of it."""

    state: Literal["rejected"] = Field(description="Where the annotation stands.")
    label: None = Field(description="Always null here.")
    error_code: Code = Field(description="Why it was refused; see the page on failures.")
    review_reason: Code | None = Field(description="Null, but for what a person had been asked before.")


class SupersededData(ResultData):
    """An annotation that no longer serves: this input version of the record is out of date."""

    superseded_by: Ordinal = Field(description="The input version that the result points at now.")


class _SetAside(_Data):
    source: str = Field(description="Name of the source.")
    partition: Count = Field(description="Partition of the source; 0 for a file.")
    offset: Count = Field(description="Position in the partition.")
    line: Ordinal | None = Field(description="Line or row of the file, from 1, where there are lines.")
    error_type: Code = Field(description="What is malformed, or that the content differs.")
    path: str = Field(description="JSON Pointer to the field, `*` for names that come from data.")
    record_id: str | None = Field(description="The record, where it could be read.")
    input_version: Ordinal | None = Field(description="Version of its content, where it could be read.")


class IsolatedData(_SetAside):
    """A piece of a source that is no record, with its place there. Its bytes are in the vault."""

    error_code: Literal["input_schema_invalid"] = Field(description="What kind of refusal it is.")


class ConflictData(_SetAside):
    """A known identity came with other content. The first content stays, the other is in the vault."""

    error_code: Literal["input_version_conflicts_with_content"] = Field(
        description="What kind of refusal it is."
    )


class PromotionFrozenData(_Data):
    """No annotation of this version becomes `auto_candidate` any more."""

    pipeline: str = Field(description="Name of the line.")
    pipeline_version: Digest = Field(description="Digest of the version.")
    reason: str | None = Field(description="Why, as it was given.")
    by: str | None = Field(description="Who or what froze it.")
    revision: Ordinal = Field(description="Revision of the version's release; the same as the event's.")


class _Aggregate(_Part):
    id: str = Field(description="Which one.")


class ResultAggregate(_Aggregate):
    """A result: the line's name, `/`, the record's id."""

    kind: Literal["result"] = Field(description="What the event is about.")


class IsolatedAggregate(_Aggregate):
    """An isolated record, by its number."""

    kind: Literal["isolated_record"] = Field(description="What the event is about.")


class VersionAggregate(_Aggregate):
    """A pipeline version, by its number in its database."""

    kind: Literal["version"] = Field(description="What the event is about.")


class EventBody(_Part):
    """What every event says of itself."""

    event_id: UUID = Field(description="Derived from what the event tells, never random: deduplicate by it.")
    revision: Ordinal = Field(description="Rises within the aggregate and epoch; drop what is not newer.")
    epoch: Count = Field(
        description="Rises when the database was restored from a backup; goes before revision."
    )
    occurred_at: AwareDatetime = Field(description="When it happened, UTC.")


class Completed(EventBody):
    """A result points at a valid label."""

    kind: Literal["completed"]
    schema_version: Literal[1] = Field(alias="schema")
    aggregate: ResultAggregate
    data: CompletedData


class Superseded(EventBody):
    """A newer input version of the record took the place of this one.

    It changes no revision: several may come under one, beside the event that does. Deduplicate by `event_id`.
    """

    kind: Literal["superseded"]
    schema_version: Literal[1] = Field(alias="schema")
    aggregate: ResultAggregate
    data: SupersededData


class Quarantined(EventBody):
    """A result points at a dead letter: there is no label."""

    kind: Literal["quarantined"]
    schema_version: Literal[1] = Field(alias="schema")
    aggregate: ResultAggregate
    data: QuarantinedData


class Rejected(EventBody):
    """Somebody closed a dead letter: the record will have no label."""

    kind: Literal["rejected"]
    schema_version: Literal[1] = Field(alias="schema")
    aggregate: ResultAggregate
    data: RejectedData


class Conflict(EventBody):
    """A known record and version came with other content."""

    kind: Literal["conflict"]
    schema_version: Literal[1] = Field(alias="schema")
    aggregate: IsolatedAggregate
    data: ConflictData


class Isolated(EventBody):
    """A piece of a source is no record."""

    kind: Literal["isolated"]
    schema_version: Literal[1] = Field(alias="schema")
    aggregate: IsolatedAggregate
    data: IsolatedData


class PromotionFrozen(EventBody):
    """A version's labels go to people from here on."""

    kind: Literal["promotion_frozen"]
    schema_version: Literal[1] = Field(alias="schema")
    aggregate: VersionAggregate
    data: PromotionFrozenData


BODIES: Final[Mapping[str, type[EventBody]]] = {
    "completed": Completed,
    "superseded": Superseded,
    "quarantined": Quarantined,
    "rejected": Rejected,
    "conflict": Conflict,
    "isolated": Isolated,
    "promotion_frozen": PromotionFrozen,
}


def schema_of(kind: str) -> dict[str, JsonValue]:
    """The JSON schema of a kind's body in its present version, as it is published."""
    made: dict[str, JsonValue] = BODIES[kind].model_json_schema(by_alias=True)
    opened = _open(made)
    if not isinstance(opened, dict):
        raise TypeError("a schema is an object")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": schema_id(kind, SCHEMA_VERSION[kind]),
        **opened,
    }


def _open(schema: JsonValue) -> JsonValue:
    """A schema without what is true of one release only: further fields are allowed to come."""
    if isinstance(schema, dict):
        return {
            key: _open(value)
            for key, value in schema.items()
            if key not in {"additionalProperties", "title"} or isinstance(value, dict)
        }
    return [_open(item) for item in schema] if isinstance(schema, list) else schema
