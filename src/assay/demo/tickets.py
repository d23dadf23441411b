"""The pipeline of `assay demo`: support tickets in ten languages, six answers, one of them "cannot tell"."""

from typing import Literal

from assay import Confidence, Contract, Pipeline, Price, Prompt, Reason, Route


class Ticket(Contract, insufficient_evidence={"category": "insufficient_evidence"}):
    """What the model must answer, and nothing else."""

    category: Literal["billing", "technical", "account", "shipping", "other", "insufficient_evidence"]
    confidence: Confidence
    reason: Reason


pipeline = Pipeline(
    name="demo-tickets",
    contract=Ticket,
    model="openai:practice-1",
    prompt=Prompt.from_file("tickets.md"),
    route=Route(accept_at=0.85),
    price=Price("0.25", "2.00"),
    quality_probability=0.05,
)
