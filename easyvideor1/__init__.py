"""Reinforcement learning from verifiable rewards for video: from file to gradient to score.

    import easyvideor1

    config = easyvideor1.load_config("recipe.yaml", ["rollout.n=4"])
    run = easyvideor1.train(config)
    responses = easyvideor1.evaluate(config)
    scores = easyvideor1.score([(sample, "<answer>B</answer>")])

Each is imported when it is first used, so that `import easyvideor1` loads nothing heavy.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from easyvideor1.recipe import load_config
    from easyvideor1.runs.evaluation import evaluate
    from easyvideor1.runs.scoring import score
    from easyvideor1.runs.training import train

__version__ = "0.1.0"
__all__ = ["evaluate", "load_config", "score", "train"]

_HOMES = {
    "evaluate": "easyvideor1.runs.evaluation",
    "load_config": "easyvideor1.recipe",
    "score": "easyvideor1.runs.scoring",
    "train": "easyvideor1.runs.training",
}
_NEED_A_MODEL = ("evaluate", "train")


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'easyvideor1' has no attribute '{name}'")
    if name in _NEED_A_MODEL:
        from easyvideor1.extras import need

        need("torch", "transformers", for_what=name)
    return getattr(importlib.import_module(_HOMES[name]), name)
