"""The pipelines of `assay demo --model local`: tickets as before, a small model on this machine."""

from dataclasses import replace
from typing import Literal

from assay import Confidence, Contract, Pipeline, Price, Prompt, Reason, Route


class Ticket(Contract, insufficient_evidence={"category": "insufficient_evidence"}):
    """What the model must answer, and nothing else."""

    category: Literal["billing", "technical", "account", "shipping", "other", "insufficient_evidence"]
    confidence: Confidence
    reason: Reason


# The server holds the model to the contract's schema while it writes.
constrained = Pipeline(
    name="demo-local",
    contract=Ticket,
    model="openai:smollm2-135m-instruct",
    prompt=Prompt.from_file("local_tickets.md"),
    route=Route(accept_at=0.85),
    parameters={"temperature": 0, "max_tokens": 128},
    price=Price("0", "0"),
    call_timeout_seconds=120,
)

# Nothing holds it: prose, code fences and invented labels come as the model writes them.
unconstrained = replace(constrained, name="demo-local-unconstrained", structured_output=False)
