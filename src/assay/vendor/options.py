"""The practice vendor's command line, for `assay vendor` and `python -m assay.vendor`."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Final, TypeAlias

import typer

from assay.vendor.changes import FAULTS, changed
from assay.vendor.errors import VendorSettingsError
from assay.vendor.gold import JsonObject
from assay.vendor.settings import ORDINARY_DAY, Launch, VendorConfig, split_gold

Gold: TypeAlias = Annotated[
    str,
    typer.Option(
        metavar="FILE[#LABEL_COLUMN]", help="JSONL or CSV: a text and its right answer in each row."
    ),
]
Text: TypeAlias = Annotated[
    str | None, typer.Option(metavar="COLUMN", help="Column of the text; found by name if left out.")
]
Port: TypeAlias = Annotated[int, typer.Option(help="Port; 0 takes any free one.")]
Host: TypeAlias = Annotated[str, typer.Option(help="Address; only this machine's own.")]
Seed: TypeAlias = Annotated[int, typer.Option(help="The same seed makes the same mistakes and faults.")]
ErrorRate: TypeAlias = Annotated[float, typer.Option(help="Share of texts that get a wrong answer.")]
Latency: TypeAlias = Annotated[float, typer.Option(help="Mean seconds per call.")]
Spread: TypeAlias = Annotated[float, typer.Option(help="Latency varies by this share up and down.")]
RateLimited: TypeAlias = Annotated[float, typer.Option(help="Share of calls answered 429.")]
RetryAfter: TypeAlias = Annotated[int, typer.Option(help="Seconds in the Retry-After header of a 429.")]
ServerError: TypeAlias = Annotated[float, typer.Option(help="Share of calls answered 500, 502 or 503.")]
Prose: TypeAlias = Annotated[float, typer.Option(help="Share of answers with words before the JSON.")]
StringConfidence: TypeAlias = Annotated[
    float, typer.Option(help="Share of answers whose confidence is a string.")
]
ExtraField: TypeAlias = Annotated[float, typer.Option(help="Share of answers with an undeclared field.")]
Truncation: TypeAlias = Annotated[float, typer.Option(help="Share of answers cut by the token limit.")]
Fault: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME=SHARE", help="Share of any other fault, such as hang=0.01; repeatable."),
]
Shape: TypeAlias = Annotated[
    str, typer.Option(help="fixed, uniform, exponential, lognormal (needs --latency-p99) or per-token.")
]
P99: TypeAlias = Annotated[
    float | None, typer.Option("--latency-p99", help="99th percentile of lognormal latency, in seconds.")
]
PerToken: TypeAlias = Annotated[
    float, typer.Option(help="Seconds per token of the answer, for per-token latency.")
]
LimitRequests: TypeAlias = Annotated[int | None, typer.Option(help="Requests per minute and account.")]
LimitTokens: TypeAlias = Annotated[int | None, typer.Option(help="Tokens per minute and account.")]
LimitConcurrency: TypeAlias = Annotated[int | None, typer.Option(help="Calls at once per account.")]
LimitBurst: TypeAlias = Annotated[
    float, typer.Option(help="Seconds' worth of a limit that can be used at once.")
]
HideLimits: TypeAlias = Annotated[
    bool, typer.Option("--hide-limits", help="Send no headers about limits, only 429.")
]
Idempotent: TypeAlias = Annotated[
    str, typer.Option("--idempotency", help="honoured: a repeated key gets the first reply; or ignored.")
]
PriceList: TypeAlias = Annotated[
    str | None,
    typer.Option("--price", metavar="INPUT,OUTPUT[,CACHED]", help="Price list, per million tokens."),
]
TimelineFile: TypeAlias = Annotated[
    Path | None,
    typer.Option("--timeline", metavar="FILE", help="Settings that change in time: JSON or TOML."),
]
Set: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="Any setting that a timeline may change; repeatable."),
]
LabelField: TypeAlias = Annotated[str, typer.Option(help="The answer's field for the label.")]
Fields: TypeAlias = Annotated[
    str | None, typer.Option(metavar="A,B,…", help="Fields of the answer where the request has no schema.")
]
Model: TypeAlias = Annotated[str | None, typer.Option(help="The only model served; left out, any name is.")]
ApiKey: TypeAlias = Annotated[str | None, typer.Option(help="Key that callers must send; left out, none is.")]
JournalFile: TypeAlias = Annotated[
    Path | None, typer.Option(metavar="FILE.jsonl", help="Append one line per call.")
]
ReadyFile: TypeAlias = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Write the base URL here when it listens.")
]
StopWithStdin: TypeAlias = Annotated[
    bool, typer.Option("--stop-with-stdin", help="Stop when standard input closes.")
]


_SETTINGS: Final = {
    "rate_limit_share": "rate_limited",
    "server_error_share": "server_error",
    "prose_share": "prose_prefix",
    "string_confidence_share": "string_confidence",
    "extra_field_share": "extra_field",
    "truncation_share": "truncation",
    **{
        name: name
        for name in (
            "error_rate",
            "latency",
            "latency_spread",
            "latency_distribution",
            "latency_p99",
            "latency_per_token",
            "retry_after",
            "limit_requests",
            "limit_tokens",
            "limit_concurrency",
            "limit_burst",
            "hide_limits",
            "idempotency",
            "price",
            "model",
            "api_key",
        )
    },
}
"""Options of `vendor` and the settings they give."""


def vendor(
    *,
    gold: Gold,
    text: Text = None,
    port: Port = 0,
    host: Host = "127.0.0.1",
    seed: Seed = 0,
    error_rate: ErrorRate = 0.08,
    latency: Latency = 0.05,
    latency_spread: Spread = 0.5,
    rate_limit_share: RateLimited = ORDINARY_DAY.rate_limited,
    retry_after: RetryAfter = 1,
    server_error_share: ServerError = ORDINARY_DAY.server_error,
    prose_share: Prose = ORDINARY_DAY.prose_prefix,
    string_confidence_share: StringConfidence = ORDINARY_DAY.string_confidence,
    extra_field_share: ExtraField = ORDINARY_DAY.extra_field,
    truncation_share: Truncation = ORDINARY_DAY.truncation,
    fault: Fault = None,
    latency_distribution: Shape = "uniform",
    latency_p99: P99 = None,
    latency_per_token: PerToken = 0.0,
    limit_requests: LimitRequests = None,
    limit_tokens: LimitTokens = None,
    limit_concurrency: LimitConcurrency = None,
    limit_burst: LimitBurst = 1.0,
    hide_limits: HideLimits = False,
    idempotency: Idempotent = "ignored",
    price: PriceList = None,
    timeline: TimelineFile = None,
    set_: Set = None,
    label_field: LabelField = "category",
    fields: Fields = None,
    model: Model = None,
    api_key: ApiKey = None,
    journal: JournalFile = None,
    ready_file: ReadyFile = None,
    stop_with_stdin: StopWithStdin = False,
) -> Launch:
    """Serve a vendor to practise on: answers from gold on three APIs, with mistakes and faults."""
    given = locals()
    path, column = split_gold(gold)
    config = VendorConfig(path, column, text, host, port, seed, label_field=label_field, journal=journal)
    settings = {name: given[option] for option, name in _SETTINGS.items()}
    settings |= {**_assigned(fault, "--fault"), **_assigned(set_, "--set")}
    config = replace(changed(config, settings), answer_fields=_names(fields), timeline=timeline)
    return Launch(config, ready_file, stop_with_stdin)


def _assigned(given: list[str] | None, option: str) -> JsonObject:
    """NAME=VALUE, repeated. A value is read as JSON where it is some, else as text."""
    settings: JsonObject = {}
    for one in given or ():
        name, mark, value = one.partition("=")
        if not mark or (option == "--fault" and name not in FAULTS):
            known = f"; the faults are {', '.join(sorted(FAULTS))}" if option == "--fault" else ""
            raise VendorSettingsError(f"write {option} as NAME=VALUE{known}")
        try:
            settings[name] = json.loads(value)
        except ValueError:
            settings[name] = value
    return settings


def _names(listed: str | None) -> tuple[str, ...] | None:
    return None if listed is None else tuple(name.strip() for name in listed.split(",") if name.strip())
