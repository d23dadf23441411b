"""One process of `assay drill`: a module that is run as a program, and ends when its starter does.

Internal: `python -m assay.cli.drill_process MODULE ARGUMENT...`. Its standard input is a pipe that the
starter holds open and writes nothing to: when it closes, however the starter ended, this process ends itself.
"""

from __future__ import annotations

import os
import runpy
import signal
import sys
import threading
from typing import Final

# One that does not end when it is asked to is ended, so many seconds later.
_PATIENCE_SECONDS: Final = 30.0


def _end_with_the_starter() -> None:
    while os.read(0, 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    threading.Event().wait(_PATIENCE_SECONDS)
    os.kill(os.getpid(), signal.SIGKILL)


def main() -> None:
    """Be the program."""
    module = sys.argv.pop(1)
    threading.Thread(target=_end_with_the_starter, name="starter", daemon=True).start()
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
