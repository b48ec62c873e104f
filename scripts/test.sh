#!/usr/bin/env bash
# Lint, types and tests, in a virtual environment it makes itself. Arguments go to pytest.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/install.sh
.venv/bin/ruff check .
.venv/bin/ruff format --check .
.venv/bin/pyright
# Hundreds of processes start in the tests: each would compile the package anew where no bytecode may be kept.
export PYTHONDONTWRITEBYTECODE=
.venv/bin/python -m compileall -q -j 2 easyvideor1
.venv/bin/python -m pytest -n 4 --dist loadfile --no-loadscope-reorder "$@"
