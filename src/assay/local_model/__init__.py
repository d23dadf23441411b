"""A small language model, served on this machine: an OpenAI-compatible API on a loopback address.

It shares no code with the rest of the product; they meet over HTTP. `python -m assay.local_model` serves it.
"""

from __future__ import annotations
