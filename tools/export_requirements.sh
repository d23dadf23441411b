#!/bin/sh
# Renews the hash-pinned exports with the uv given as $1. No index address is ever written into them.
# demo.txt: the product with its embedded database and broker. dev.txt: the same, all extras that tests use, and what tests
# and checks need. bench.txt: dev.txt and the peers that `make bench` measures. local.txt: the product with the
# engine for a small model on this machine.
set -eu
uv=$1
top="# Made by make requirements from pyproject.toml and build.in; do not edit by hand."

export_to() {
    target=$1
    shift
    "$uv" pip compile pyproject.toml requirements/build.in --quiet --universal --python-version 3.11 \
        --generate-hashes --no-emit-index-url --no-emit-find-links --no-header --no-annotate \
        --no-python-downloads --upgrade --extra embedded --extra kafka "$@" --output-file "$target.new" >/dev/null
    { echo "$top"; cat "$target.new"; } >"$target"
    rm "$target.new"
}

tested="--extra objects --extra parquet --extra prices --extra providers --extra zstd"
# shellcheck disable=SC2086  # a list of options
export_to requirements/dev.txt $tested --group dev
export_to requirements/demo.txt --constraint requirements/dev.txt
# shellcheck disable=SC2086
export_to requirements/bench.txt $tested --group dev --group bench --constraint requirements/dev.txt
export_to requirements/local.txt --extra locallm --constraint requirements/dev.txt
