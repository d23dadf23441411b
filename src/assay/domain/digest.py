"""Canonical JSON and the digest of a pipeline version."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping


def canonical_json(value: object) -> str:
    """JSON with sorted keys, no white space and ASCII alone: equal values give equal text.

    Raises `ValueError` or `TypeError` for what JSON cannot say (NaN, other objects).
    """
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def definition_digest(definition: Mapping[str, object]) -> str:
    """SHA-256 (64 hex digits) of the canonical JSON of a pipeline's definition."""
    return hashlib.sha256(canonical_json(definition).encode("ascii")).hexdigest()
