"""What `import assay` offers, and what it does not drag in."""

from __future__ import annotations

import subprocess
import sys

import assay


def test_the_public_names_are_sorted_and_there() -> None:
    assert assay.__all__ == sorted(assay.__all__)
    assert {"Confidence", "Contract", "Pipeline", "Prompt", "Reason", "Route", "judge", "rule"} <= set(
        assay.__all__
    )
    for name in assay.__all__:
        assert getattr(assay, name) is not None


def test_the_import_is_light() -> None:
    heavy = {"aiohttp", "cryptography", "psycopg", "rich", "typer"}
    code = f"import sys, assay; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "[]"
