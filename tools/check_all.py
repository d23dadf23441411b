"""Runs every check of documents, wording, modules, release and requirements; exit 1 where one finds anything.

Optional argument: the root of the tree to look at (default: the repository of this file).
"""

from __future__ import annotations

import sys
from pathlib import Path

import check_commands
import check_decisions
import check_links
import check_modules
import check_release
import check_requirements
import check_wording
import render_event_schemas
import render_logs
import render_states
import write_failures_page

CHECKS = (
    check_links,
    check_decisions,
    check_commands,
    check_wording,
    check_modules,
    check_release,
    check_requirements,
    render_event_schemas,
    render_logs,
    render_states,
    write_failures_page,
)


def main() -> int:
    root = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parents[1]).resolve()
    found = [problem for check in CHECKS for problem in check.problems(root)]
    for problem in found:
        print(problem, file=sys.stderr)
    print(f"{len(CHECKS)} checks of the repository, {len(found)} problems")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
