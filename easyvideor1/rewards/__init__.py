"""Verifiable rewards: one grader for training, evaluation and the command line."""

from easyvideor1.rewards.registry import part, reward

__all__ = ["part", "reward"]
