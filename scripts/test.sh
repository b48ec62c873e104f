#!/usr/bin/env bash
# Lint, types and tests, in a virtual environment it makes itself. Arguments go to pytest.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/install.sh
.venv/bin/ruff check .
.venv/bin/ruff format --check .
# Types are checked beside the tests, which wait for processes and deadlines now and then.
found=$(mktemp)
trap 'kill "$types" 2>/dev/null || true; rm -f "$found"' EXIT
.venv/bin/pyright >"$found" 2>&1 &
types=$!
# Hundreds of processes start in the tests: each would compile the package anew where no bytecode may be kept.
export PYTHONDONTWRITEBYTECODE=
.venv/bin/python -m compileall -q easyvideor1
tests=0
.venv/bin/python -m pytest -n 4 --dist loadfile --no-loadscope-reorder "$@" || tests=$?
wait "$types" || { cat "$found"; echo "pyright found errors (above)"; exit 1; }
tail -1 "$found"
exit "$tests"
