"""Support tickets: what a model must answer, and which answers are accepted without a person."""

from typing import Literal

from assay import Confidence, Contract, Pipeline, Prompt, Reason, Route


class Ticket(Contract, insufficient_evidence={"category": "unclear"}):
    """What the model must answer, and nothing else."""

    category: Literal["billing", "technical", "account", "shipping", "other", "unclear"]
    confidence: Confidence
    reason: Reason


pipeline = Pipeline(
    name="tickets",
    contract=Ticket,
    model="recorded:tickets.jsonl#answer",
    prompt=Prompt.from_file("tickets.md"),
    route=Route(accept_at=0.85),
)
