"""What the processes of `warm_start` have done before they begin, of what a run else does when it needs it."""

from __future__ import annotations

from typing import Any

import torch.distributed.fsdp  # noqa: F401 - what shards a model
from numba.core.registry import cpu_target
from transformers.models.auto import modeling_auto, processing_auto  # noqa: F401
from transformers.models.qwen3_vl import modeling_qwen3_vl  # noqa: F401

target: Any = cpu_target
# What numba looks up before it runs its first function.
target.typing_context.refresh()
target.target_context.refresh()
