"""The practice vendor's command line, for `assay vendor` and `python -m assay.vendor`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from assay.vendor.settings import ORDINARY_DAY, FaultShares, Launch, VendorConfig, split_gold

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
    label_field: LabelField = "category",
    fields: Fields = None,
    model: Model = None,
    api_key: ApiKey = None,
    journal: JournalFile = None,
    ready_file: ReadyFile = None,
    stop_with_stdin: StopWithStdin = False,
) -> Launch:
    """Serve a vendor to practise on: an OpenAI-compatible API, answers from gold, mistakes and faults."""
    path, label_column = split_gold(gold)
    shares = FaultShares(
        rate_limited=rate_limit_share,
        server_error=server_error_share,
        prose_prefix=prose_share,
        string_confidence=string_confidence_share,
        extra_field=extra_field_share,
        truncation=truncation_share,
    )
    config = VendorConfig(
        gold=path,
        label_column=label_column,
        text_column=text,
        host=host,
        port=port,
        seed=seed,
        error_rate=error_rate,
        latency=latency,
        latency_spread=latency_spread,
        retry_after=retry_after,
        faults=shares,
        label_field=label_field,
        answer_fields=_names(fields),
        model=model,
        api_key=api_key,
        journal=journal,
    )
    return Launch(config, ready_file, stop_with_stdin)


def _names(listed: str | None) -> tuple[str, ...] | None:
    return None if listed is None else tuple(name.strip() for name in listed.split(",") if name.strip())
