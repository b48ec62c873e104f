"""Reinforcement learning from verifiable rewards for video: from file to gradient to score."""

__version__ = "0.1.0"
