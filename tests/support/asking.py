"""Requests for engines."""

from easyvideor1.rollout.engine import Request


def requests(examples, sampling):
    """The same sampling for every example."""
    return [Request(example=example, sampling=sampling) for example in examples]
