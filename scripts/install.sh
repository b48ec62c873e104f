#!/usr/bin/env bash
# Makes .venv and installs the package into it once; a second run sees the stamp and does nothing.
# Usage: source scripts/install.sh  (from the repository root)
set -euo pipefail

export OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}"
python="${PYTHON:-python3}"
stamp=.venv/installed-from
wanted="$(cat pyproject.toml constraints.txt scripts/install.sh | cksum)"
if [ ! -f "$stamp" ] || [ "$(cat "$stamp")" != "$wanted" ]; then
    "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
        echo "easyvideor1 needs Python 3.11 or newer; set PYTHON=/path/to/python3.11" >&2
        exit 2
    }
    echo "installing into .venv (once; a few minutes)"
    [ -x .venv/bin/python ] || "$python" -m venv .venv
    # torch first and by its exact version: a range would fetch the newest CUDA build.
    .venv/bin/pip install --quiet --disable-pip-version-check -c constraints.txt torch
    .venv/bin/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
    # Transformers' video processors need torchvision, tests compare with them. Its wheel does not load beside a CPU
    # build of torch, and where it can be imported but not loaded Transformers breaks: so it gets a folder of its own.
    .venv/bin/pip install --quiet --disable-pip-version-check -c constraints.txt \
        --no-deps --upgrade --target .venv/oracle torchvision
    echo "$wanted" > "$stamp"
fi
