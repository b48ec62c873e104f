"""The parts of a score that do not depend on the problem type: form and length."""

from __future__ import annotations

from easyvideor1.rewards.parse import Response


def format_part(response: Response, *, is_readable: bool, thinking: bool) -> float:
    """How well a response keeps the asked-for form.

    Args:
        is_readable: its answer block holds an answer of the right kind.
        thinking: a think block was asked for.

    Returns:
        1.0 for one answer block with a readable answer (after one think block, if asked for); 0.5 for one block with
        something unreadable; 0.0 for no block, an empty one or several.
    """
    if len(response.answers) != 1 or not response.answers[0].strip():
        return 0.0
    if thinking and not response.has_one_thought:
        return 0.0
    return 1.0 if is_readable else 0.5


def overlong_part(num_tokens: int, *, max_tokens: int, buffer_tokens: int) -> float:
    """Soft overlong punishment of DAPO (arXiv:2503.14476, equation 13): 0 down to -1 over the last tokens allowed.

    >>> [overlong_part(n, max_tokens=1000, buffer_tokens=200) for n in (800, 900, 1000, 1001)]
    [0.0, -0.5, -1.0, -1.0]
    """
    if buffer_tokens <= 0:
        return -1.0 if num_tokens > max_tokens else 0.0
    return max(-1.0, min(0.0, (max_tokens - buffer_tokens - num_tokens) / buffer_tokens))
