#!/usr/bin/env bash
# The demo from nothing: installs into .venv, then trains a tiny model on video questions. Arguments go to the demo.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/install.sh
exec .venv/bin/easyvideor1 demo --out demo-run "$@"
