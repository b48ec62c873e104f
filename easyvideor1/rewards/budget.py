"""How long the answers of one batch may take when some of them are hostile: a step must not be held for minutes.

An answer that runs into its limit costs the batch that much. So limits are short first: nearly every answer needs
milliseconds. They shrink while time is being lost, and what was cut short is tried again with what is left at the end.
"""

from __future__ import annotations

from dataclasses import dataclass

FIRST_FRAC, LEAST_FRAC = 0.1, 0.025
"""Shares of the deadline: the limit of a first try, and the least it shrinks to."""
FIRST_S, LEAST_S = 0.5, 0.25
"""The same limits in seconds for short deadlines, where those shares would cut honest answers on a busy machine."""
LOST_FRAC = 0.75
"""Share of the deadline, for each worker, that a batch may lose to answers that are cut short, least limits aside."""
LOST_AT_ONCE = 4
"""A limit is at most the time left of a worker over this."""
OWN_LOST_FRAC = 2.0
"""Share of the deadline, for each worker, that a batch may lose to rewards of the user, which may need all of it."""


@dataclass
class Budget:
    """The time one batch has lost so far, and the limits that follow from it.

    >>> budget = Budget(deadline_s=10.0, workers=2)
    >>> budget.first_limit_s(), budget.second_limit_s(1), budget.own_limit_s()
    (0.9375, 10.0, 10.0)
    """

    deadline_s: float
    workers: int
    lost_s: float = 0.0
    """Seconds of workers spent on answers that were cut short."""

    def first_limit_s(self) -> float:
        """For the first try of an answer to a built-in type: half the budget is for these."""
        left_s = LOST_FRAC * self.deadline_s * self.workers / 2 - self.lost_s
        most_s = max(FIRST_FRAC * self.deadline_s, FIRST_S)
        least_s = max(LEAST_FRAC * self.deadline_s, LEAST_S)
        return min(self.deadline_s, most_s, max(least_s, left_s / self.workers / LOST_AT_ONCE))

    def second_limit_s(self, num_left: int) -> float | None:
        """For another try of one of `num_left` answers; None where there is no time for more than the first one had."""
        left_s = LOST_FRAC * self.deadline_s * self.workers - self.lost_s
        limit_s = min(self.deadline_s, left_s / num_left)
        return limit_s if limit_s > 2 * max(FIRST_FRAC * self.deadline_s, FIRST_S) else None

    def own_limit_s(self) -> float:
        """Limit for an answer that code of the user scores."""
        left_s = OWN_LOST_FRAC * self.deadline_s * self.workers - self.lost_s
        least_s = max(FIRST_FRAC * self.deadline_s, FIRST_S)
        return min(self.deadline_s, max(least_s, left_s / self.workers / OWN_LOST_FRAC))
