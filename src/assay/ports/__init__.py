"""What the pipeline's rooms need from the outside, as Protocols and plain values.

Adapters implement these; `assay.app` is the only file that joins the two.
"""

from assay.ports.accounts import AccountPort
from assay.ports.assigned import AssignedSource, AssignmentHolder
from assay.ports.documents import DocumentPort, DocumentRefused, DocumentsUnreachable
from assay.ports.events import EventSink, OutboxPort, SinkUnavailable
from assay.ports.models import ModelPort, ModelRequest, ModelResponse, Usage
from assay.ports.sources import Content, ContentStorePort, GrowingSource, SourcePort
from assay.ports.stores import (
    ClaimPort,
    FinishPort,
    HeldLease,
    OpenStop,
    Probe,
    RenewalPort,
    SourceStorePort,
    VersionPort,
)
from assay.ports.vault import VaultPort

__all__ = [
    "AccountPort",
    "AssignedSource",
    "AssignmentHolder",
    "ClaimPort",
    "Content",
    "ContentStorePort",
    "DocumentPort",
    "DocumentRefused",
    "DocumentsUnreachable",
    "EventSink",
    "FinishPort",
    "GrowingSource",
    "HeldLease",
    "ModelPort",
    "ModelRequest",
    "ModelResponse",
    "OpenStop",
    "OutboxPort",
    "Probe",
    "RenewalPort",
    "SinkUnavailable",
    "SourcePort",
    "SourceStorePort",
    "Usage",
    "VaultPort",
    "VersionPort",
]
