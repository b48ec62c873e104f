#!/usr/bin/env bash
# The tests with the oldest versions that pyproject.toml allows, in .venv-lowest; run it before a range is widened.
# Arguments go to pytest.
set -euo pipefail
cd "$(dirname "$0")/.."
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}"
python="${PYTHON:-python3}"
[ -x .venv-lowest/bin/python ] || "$python" -m venv .venv-lowest
.venv-lowest/bin/python scripts/lowest.py pyproject.toml > .venv-lowest/lowest.txt
.venv-lowest/bin/pip install --quiet --disable-pip-version-check -c .venv-lowest/lowest.txt torch
.venv-lowest/bin/pip install --quiet --disable-pip-version-check -c .venv-lowest/lowest.txt -e '.[dev]'
.venv-lowest/bin/pip install --quiet --disable-pip-version-check --no-deps --upgrade --target .venv-lowest/oracle torchvision==0.28.0
exec .venv-lowest/bin/python -m pytest "$@"
