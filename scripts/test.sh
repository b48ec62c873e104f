#!/usr/bin/env bash
# Lint, types and tests, in a virtual environment it makes itself. Arguments go to pytest.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/install.sh
.venv/bin/ruff check .
.venv/bin/ruff format --check .
.venv/bin/pyright
.venv/bin/python -m pytest -n 4 --dist loadfile --no-loadscope-reorder "$@"
