"""What OpenAI's two wires share: key, errors, headers of limits, list of models."""

from __future__ import annotations

from collections.abc import Mapping

from assay.vendor.errors import WireError
from assay.vendor.gold import JsonObject
from assay.vendor.limits import BucketState

REQUEST_ID_HEADER = "x-request-id"


def bearer(headers: Mapping[str, str]) -> str | None:
    """The key of `Authorization: Bearer KEY`; None for anything else."""
    given = headers.get("Authorization", "")
    return given.removeprefix("Bearer ") if given.startswith("Bearer ") else None


def openai_error(error: WireError) -> tuple[int, JsonObject]:
    """Status and body of an error."""
    fields: JsonObject = {
        "message": error.message,
        "type": error.kind,
        "param": error.param,
        "code": error.code,
    }
    return error.status, {"error": fields}


def openai_limits(requests: BucketState | None, tokens: BucketState | None) -> dict[str, str]:
    """The `x-ratelimit-*` headers; what is left is what is in the bucket now."""
    headers = {}
    for name, state in (("requests", requests), ("tokens", tokens)):
        if state is not None:
            headers[f"x-ratelimit-limit-{name}"] = str(state.limit)
            headers[f"x-ratelimit-remaining-{name}"] = str(state.remaining)
            headers[f"x-ratelimit-reset-{name}"] = duration(state.reset)
    return headers


def duration(seconds: float) -> str:
    """A duration as the headers write it: `12ms`, `1.5s`, `6m0s`, `1h0m2s`."""
    milliseconds = round(seconds * 1000)
    if milliseconds < 1000:
        return f"{milliseconds}ms"
    minutes, rest = divmod(milliseconds, 60_000)
    written = f"{rest / 1000:.3f}".rstrip("0").rstrip(".") + "s"
    if minutes:
        hours, minutes = divmod(minutes, 60)
        written = f"{minutes}m{written}"
        if hours:
            written = f"{hours}h{written}"
    return written


def model_list(names: tuple[str, ...]) -> JsonObject:
    """The body of `GET /v1/models`."""
    return {
        "object": "list",
        "data": [{"id": name, "object": "model", "created": 0, "owned_by": "practice"} for name in names],
    }
