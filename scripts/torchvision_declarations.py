"""Lets torchvision's CUDA wheel load beside a CPU build of torch; a .pth file imports it in every process.

The wheel declares what shapes two operators give that only its own CUDA library defines. They are declared when
torchvision is first imported, so that a process that does not import it does not load torch.
"""

import importlib.abc
import sys
from importlib.machinery import ModuleSpec


class _Declarations(importlib.abc.MetaPathFinder):
    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        if name == "torchvision":
            sys.meta_path.remove(self)
            import torch

            if torch.version.cuda is None:
                for operator in ("nms", "qnms"):
                    schema = f"torchvision::{operator}"
                    torch.library.define(schema, "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        return None


sys.meta_path.insert(0, _Declarations())
