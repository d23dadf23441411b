"""`python -m bench.child KIND`: one measured process; see `bench.children`."""

from __future__ import annotations

import importlib
import json
import sys
from typing import Final

from bench.children import READY

# Imported only where asked for: a child must not pay for, or need, what another one uses.
_KINDS: Final = {
    "ceiling": "bench.ceiling",
    "product": "bench.product",
    "calls": "bench.calls",
    "pgqueuer": "bench.peer_pgqueuer",
    "procrastinate": "bench.peer_procrastinate",
    "naive": "bench.peer_naive",
    "loop-worker": "bench.loop_worker",
    "loop-publisher": "bench.loop_publisher",
    "bare-worker": "bench.loop_bare_worker",
    "bare-publisher": "bench.loop_bare_publisher",
    "loop-naive": "bench.loop_naive",
    "faststream": "bench.peer_faststream",
}


def main() -> None:
    """Each kind's module has `prepare(spec)`, which returns what to run at the word."""
    module = importlib.import_module(_KINDS[sys.argv[1]])
    work = module.prepare(json.loads(sys.stdin.readline()))
    print(READY, flush=True)
    if not sys.stdin.readline():
        return
    print(json.dumps(work()), flush=True)


if __name__ == "__main__":
    main()
