"""assay: labels that a training set may trust."""

from assay.domain.boundary import Accepted, judge
from assay.domain.contract import Contract
from assay.domain.definition import Pipeline
from assay.domain.markers import BlankAllowed, Confidence, DecimalText, Plain, Quote, Quoted, Reason
from assay.domain.price import Price
from assay.domain.prompt import Prompt
from assay.domain.quotes import amounts_in, occurs
from assay.domain.rejection import Rejected
from assay.domain.route import Route
from assay.domain.rules import rule

__all__ = [
    "Accepted",
    "BlankAllowed",
    "Confidence",
    "Contract",
    "DecimalText",
    "Pipeline",
    "Plain",
    "Price",
    "Prompt",
    "Quote",
    "Quoted",
    "Reason",
    "Rejected",
    "Route",
    "amounts_in",
    "judge",
    "occurs",
    "rule",
]
