"""Makes torchvision's wheel load beside a CPU build of torch: import this before Transformers.

The wheel declares what shapes two operators give that only its own CUDA library defines.
"""

import torch

if torch.version.cuda is None:
    for name in ("nms", "qnms"):
        torch.library.define(f"torchvision::{name}", "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
