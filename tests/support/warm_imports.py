"""What the processes of `warm_start` have done before they begin, of what a run else does when it needs it."""

from __future__ import annotations

import torch.distributed.fsdp  # noqa: F401 - what shards a model
from numba.core.registry import cpu_target
from transformers.models.auto import modeling_auto, processing_auto  # noqa: F401
from transformers.models.qwen3_vl import modeling_qwen3_vl  # noqa: F401

# What numba looks up before it runs its first function.
cpu_target.typing_context.refresh()
cpu_target.target_context.refresh()
