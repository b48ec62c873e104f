"""Rules of configuration values; each error names the key, the value and what would be right."""

from __future__ import annotations

import math
from collections.abc import Sequence

from easyvideor1.errors import UsageError
from easyvideor1.types import FrameSpec

LONGEST_S = 2_000_000.0
"""23 days: poll(2) counts milliseconds in 31 bits."""


def check_range(section: str, config: object, *, low: float, high: float = math.inf, names: Sequence[str]) -> None:
    """Raise UsageError for a number outside low <= value <= high (None and infinity pass where `high` is infinite)."""
    for name in names:
        value = getattr(config, name)
        if value is not None and not low <= value <= high:  # NaN is outside too
            limits = f"at least {low:g}" if high == math.inf else f"between {low:g} and {high:g}"
            raise UsageError(f"{_key(section, name)} must be {limits}, got {value}")


def check_positive(section: str, config: object, *names: str) -> None:
    """Raise UsageError for a number that is not above 0 (None passes)."""
    for name in names:
        value = getattr(config, name)
        if value is not None and not value > 0:
            raise UsageError(f"{_key(section, name)} must be above 0, got {value}")


def check_time(section: str, config: object, *names: str) -> None:
    """Raise UsageError for a time in seconds that is not above 0, or that the system cannot wait for."""
    check_positive(section, config, *names)
    check_range(section, config, low=0, high=LONGEST_S, names=names)


def check_text(section: str, config: object, *names: str) -> None:
    """Raise UsageError for an empty text, or one with control characters, such as "C:\\runs" has in YAML."""
    for name in names:
        value = getattr(config, name)
        if not value.strip():
            raise UsageError(f"{_key(section, name)} is empty; give a value")
        if not value.isprintable():
            raise UsageError(f"{_key(section, name)} holds a control character: {value!r}; write it in single quotes")


def _key(section: str, name: str) -> str:
    return f"{section}.{name}" if section else name


def check_pixels(section: str, spec: FrameSpec) -> None:
    """Raise UsageError for pixel limits that contradict each other."""
    check_range(section, spec, low=1, names=("min_pixels", "max_pixels", "total_pixels"))
    if spec.min_pixels > spec.max_pixels:
        raise UsageError(f"{section}.min_pixels={spec.min_pixels} is above {section}.max_pixels={spec.max_pixels}")


def check_frames(section: str, spec: FrameSpec) -> None:
    """Raise UsageError for frame and pixel limits by which no video could be seen."""
    check_pixels(section, spec)
    check_positive(section, spec, "fps")
    if spec.fps == math.inf:
        raise UsageError(f"{section}.fps must be finite, got inf")
    check_range(section, spec, low=1, names=("min_frames", "max_frames"))
    if spec.min_frames > spec.max_frames:
        raise UsageError(f"{section}.min_frames={spec.min_frames} is above {section}.max_frames={spec.max_frames}")
    if spec.total_pixels is not None and spec.total_pixels < spec.min_frames * spec.min_pixels:
        raise UsageError(
            f"{section}.total_pixels={spec.total_pixels} is less than {section}.min_frames * {section}.min_pixels = "
            f"{spec.min_frames * spec.min_pixels}, so no video could be seen"
        )
