"""Requests for engines, and their answers in order."""

from easyvideor1.rollout.engine import Request


def requests(examples, sampling, seed=0):
    """The same sampling for every example."""
    return [Request(example=example, sampling=sampling, seed=seed) for example in examples]


def answered(engine, asked):
    """The rollouts of each request, in order."""
    with engine.awake():
        found = dict(engine.generate(asked))
    assert sorted(found) == list(range(len(found)))
    return [found[place] for place in sorted(found)]
