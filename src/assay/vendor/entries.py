"""What the journal holds: calls and changes of settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from assay.vendor.gold import JsonObject

Outcome: TypeAlias = Literal["replied", "refused", "client_gone", "vendor_stopped", "cut", "failed"]
Kind: TypeAlias = Literal["call", "replay"]
Origin: TypeAlias = Literal["timeline", "request", "process"]
Action: TypeAlias = Literal["begin", "end", "refused"]


@dataclass(slots=True)
class Entry:
    """One call. Lines are written when a call ends; `sequence` counts arrivals within one run of the vendor.

    `status` is the HTTP status handed to the socket, null where none was; `fault` what was done to the
    reply; `turn` how often the text was asked about before; `outcome` replied, refused (400, 401, 404, 413),
    client_gone, cut (the vendor broke the connection), vendor_stopped, or failed (a defect here). Tokens are
    what the vendor bills, `prompt_tokens` with the cached ones; `cost` is exact decimal digits, null without
    a price list. `model` is the one asked for, `attempted_model` the one that did the work. `kind` is replay
    where the reply was that of an earlier call with the same key.
    """

    run: str
    sequence: int
    time: str
    idempotency_key: str | None
    request_id: str
    seconds: float = 0.0
    model: str | None = None
    status: int | None = None
    fault: str | None = None
    outcome: Outcome = "failed"
    finish_reason: str | None = None
    wrong: bool | None = None
    found: str | None = None
    turn: int | None = None
    prompt_tokens: int = 0
    completion_tokens: int = 0
    text_sha256: str | None = None
    kind: Kind = "call"
    wire: str | None = None
    account: str | None = None
    attempted_model: str | None = None
    cached_tokens: int = 0
    billed: bool = False
    cost: str | None = None


@dataclass(frozen=True, slots=True)
class Change:
    """Settings that changed: by the timeline, a request, or the process that the vendor runs in.

    `at` is seconds since the vendor's start; `seconds` how long the change holds (None: until another).
    `action` is `begin`, `end` when it stops holding, or `refused` for a step of the timeline that did not fit
    what was changed by hand. An API key is shown as its account's name.
    """

    run: str
    time: str
    at: float
    origin: Origin
    action: Action
    settings: JsonObject
    seconds: float | None = None
