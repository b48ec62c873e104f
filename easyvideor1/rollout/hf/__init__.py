"""An engine over a Transformers model in this process."""

from easyvideor1.rollout.hf.engine import HFEngine

__all__ = ["HFEngine"]
