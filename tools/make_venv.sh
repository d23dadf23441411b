#!/bin/sh
# Makes the virtual environment named by $1 with the first Python that fits: 3.11 or later, with venv and pip.
# PYTHON=... in the environment names the only candidate. A working environment is kept as it is.
set -eu
venv=$1

fits() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; }
complete() { "$1" -c 'import ensurepip, venv' >/dev/null 2>&1; }

if fits "$venv/bin/python" && "$venv/bin/python" -m pip --version >/dev/null 2>&1; then
    exit 0
fi

if [ -n "${PYTHON:-}" ]; then
    set -- "$PYTHON"
else
    set -- python3.13 python3.12 python3.11 python3.14 python3 python
fi
incomplete=
for candidate in "$@"; do
    # A name may exist and still not run (a version manager's shim), so each is tried.
    fits "$candidate" || continue
    if complete "$candidate"; then
        echo "Making $venv with $("$candidate" --version) ..."
        exec "$candidate" -m venv --clear "$venv"
    fi
    incomplete="$incomplete $candidate"
done

if [ -n "$incomplete" ]; then
    echo "Found$incomplete, but without the parts that make virtual environments: install your system's" >&2
    echo "python3-venv package (its name may carry the version), or name another one: make ... PYTHON=/path/to/python3." >&2
elif [ -n "${PYTHON:-}" ]; then
    echo "PYTHON=$PYTHON is no Python 3.11 or later that runs: name another one." >&2
else
    echo "No Python 3.11 or later was found: install one, or name it: make ... PYTHON=/path/to/python3." >&2
fi
exit 1
