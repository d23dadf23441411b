"""The lease of one worker: its number, shared by claims and renewals."""

from __future__ import annotations


class OwnerLease:
    """Which lease row is the worker's clock just now; None until its first claim.

    Written by the first claim and by a renewal that found the lease ended; a reader that still sees the old
    number claims under an ended lease, which the next renewal mends.
    """

    def __init__(self, owner: str) -> None:
        self.owner = owner
        self.lease_id: int | None = None
