"""Small charts as inline SVG, without a plotting library: lines over steps, stacked time, before/after dots.

Colours are CSS variables of the page (`--c0` .. `--c7`), so that the charts follow its light and dark look.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from html import escape

from markupsafe import Markup

from easyvideor1.report.intervals import Estimate
from easyvideor1.report.summary import Series

WIDTH, HEIGHT = 380, 190
LEFT, RIGHT, TOP, BOTTOM = 46, 10, 10, 24
NUM_COLOURS = 8
MAX_POINTS = 120
"""Most points of a line; more steps are shown as means of equal stretches."""


def colour(index: int) -> str:
    """CSS colour of the index-th series of a chart."""
    return f"var(--c{index % NUM_COLOURS})"


class _Axes:
    """Places data on the picture and draws the frame around it."""

    def __init__(self, *, steps: tuple[float, float], values: tuple[float, float]) -> None:
        self.low_step, self.high_step = steps
        self.ticks = nice_ticks(*values)
        self.low, self.high = min(values[0], self.ticks[0]), max(values[1], self.ticks[-1])

    def x(self, step: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * _share(step, self.low_step, self.high_step)

    def y(self, value: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * _share(value, self.low, self.high)

    def frame(self) -> str:
        parts = []
        for tick, label in zip(self.ticks, tick_labels(self.ticks), strict=True):
            y = self.y(tick)
            parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
            parts.append(f'<text class="tick" x="{LEFT - 6}" y="{y + 3.5:.1f}" text-anchor="end">{label}</text>')
        inner = [tick for tick in nice_ticks(self.low_step, self.high_step, most=6) if tick == int(tick)]
        for tick in inner:
            if self.low_step <= tick <= self.high_step:
                x = self.x(tick)
                parts.append(f'<text class="tick" x="{x:.1f}" y="{HEIGHT - 6}" text-anchor="middle">{tick:.0f}</text>')
        return "".join(parts)


def line_chart(
    lines: Mapping[str, Series], *, title: str, unit_interval: bool = False, mark: tuple[int, str] | None = None
) -> Markup:
    """Lines over the steps: each value faint, its running mean strong.

    Args:
        lines: label -> (step, value) pairs, at least one pair in all.
        title: what is shown, for readers who do not see the picture.
        unit_interval: the values are shares; the axis then is 0 to 1.
        mark: a step to mark, and what for.
    """
    lines = {label: _thin(found) for label, found in lines.items() if found}
    points = [point for found in lines.values() for point in found]
    values = [value for _, value in points]
    steps = (min(step for step, _ in points), max(step for step, _ in points))
    axes = _Axes(steps=steps, values=(0.0, 1.0) if unit_interval else _padded(min(values), max(values)))
    parts = [axes.frame()]
    if mark is not None and steps[0] <= mark[0] <= steps[1]:
        x = axes.x(mark[0])
        words = escape(f"step {mark[0]}: {mark[1]}")
        parts.append(
            f'<line class="mark" x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{HEIGHT - BOTTOM}"><title>{words}</title>'
            "</line>"
        )
    for index, found in enumerate(lines.values()):
        smooth = running_mean([value for _, value in found])
        strong = [(step, value) for (step, _), value in zip(found, smooth, strict=True)]
        parts.append(_path(axes, found, css="raw", index=index))
        parts.append(_path(axes, strong, css="line", index=index))
        x, y = axes.x(strong[-1][0]), axes.y(strong[-1][1])
        parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour(index)}"/>')
    parts.append(_hover_bands(axes, lines))
    return _svg("".join(parts), title=title)


def stacked_chart(parts_s: Mapping[str, Series], *, title: str) -> Markup:
    """Bars over the steps, each cut into its parts.

    Args:
        parts_s: part -> (step, seconds) pairs.
        title: what is shown.
    """
    layers = {label: dict(_thin(found)) for label, found in parts_s.items()}
    steps = sorted({step for layer in layers.values() for step in layer})
    totals = {step: math.fsum(layer.get(step, 0.0) for layer in layers.values()) for step in steps}
    gap = (steps[-1] - steps[0]) / max(1, len(steps) - 1) or 1.0
    axes = _Axes(steps=(steps[0] - gap / 2, steps[-1] + gap / 2), values=(0.0, max(totals.values()) or 1.0))
    width = max(1.0, (axes.x(steps[0] + gap) - axes.x(steps[0])) * 0.82)
    shapes = [axes.frame()]
    for step in steps:
        base = 0.0
        words = [f"step {step:.0f}: {totals[step]:.2f} s"]
        bars = []
        for index, (label, layer) in enumerate(layers.items()):
            value = layer.get(step, 0.0)
            top, bottom = axes.y(base + value), axes.y(base)
            base += value
            if value > 0:
                words.append(f"{label} {value:.3f} s")
                bars.append(
                    f'<rect x="{axes.x(step) - width / 2:.1f}" y="{top:.1f}" width="{width:.1f}" '
                    f'height="{max(0.0, bottom - top):.2f}" fill="{colour(index)}"/>'
                )
        shapes.append(f"<g><title>{escape(chr(10).join(words))}</title>{''.join(bars)}</g>")
    return _svg("".join(shapes), title=title)


def before_after(first: Estimate, last: Estimate) -> Markup:
    """Two dots with their intervals on a line from 0 to 1, an arrow of progress between them."""
    width, height = 240, 26

    def x(value: float) -> float:
        return 6 + (width - 12) * value

    marks = []
    for css, y, estimate in (("before", 8, first), ("after", 18, last)):
        marks.append(f'<line class="{css}" x1="{x(estimate.low):.1f}" x2="{x(estimate.high):.1f}" y1="{y}" y2="{y}"/>')
        marks.append(f'<circle class="{css}" cx="{x(estimate.mean):.1f}" cy="{y}" r="4"/>')
    grid = "".join(
        f'<line class="grid" x1="{x(value):.1f}" x2="{x(value):.1f}" y1="1" y2="{height - 1}"/>'
        for value in (0, 0.25, 0.5, 0.75, 1)
    )
    label = f"from {first.mean:.0%} to {last.mean:.0%}"
    return _svg(grid + "".join(marks), title=label, size=(width, height), css="dots")


def running_mean(values: Sequence[float]) -> list[float]:
    """Mean over about a tenth of the values around each; short series stay as they are.

    At both ends, where the values around are those on one side, it is the height of the straight line through them
    (least squares): smoothed too, and not dragged inwards.

    >>> running_mean([0.0, 1.0])
    [0.0, 1.0]
    """
    reach = len(values) // 20
    if not reach:
        return list(values)
    means = []
    for index in range(len(values)):
        start = min(max(0, index - reach), len(values) - 2 * reach - 1)
        window = values[start : start + 2 * reach + 1]
        mean = math.fsum(window) / len(window)
        # Places in the window count from its middle, so that the line is mean + slope * place.
        places = range(-reach, reach + 1)
        slope = math.fsum(place * value for place, value in zip(places, window, strict=True))
        slope /= math.fsum(place * place for place in places)
        means.append(mean + slope * (index - start - reach))
    return means


def nice_ticks(low: float, high: float, *, most: int = 5) -> list[float]:
    """Round numbers that cover low .. high, at most about `most` of them.

    >>> nice_ticks(0.0, 1.0), nice_ticks(3.0, 47.0)
    ([0.0, 0.25, 0.5, 0.75, 1.0], [0.0, 20.0, 40.0, 60.0])
    """
    if high <= low:
        high = low + (abs(low) or 1.0)
    raw = (high - low) / (most - 1)
    power = 10.0 ** math.floor(math.log10(raw))
    size = next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= raw * (1 - 1e-9))
    first, last = math.floor(low / size + 1e-9), math.ceil(high / size - 1e-9)
    return [round(index * size, 12) for index in range(first, last + 1)]


def tick_labels(ticks: Sequence[float]) -> list[str]:
    """Labels with just as many digits as tell the ticks apart.

    >>> tick_labels([0.0, 0.25, 0.5]), tick_labels([0.0, 2000.0]), tick_labels([0.0, 1e-6])
    (['0.00', '0.25', '0.50'], ['0', '2k'], ['0', '1e-6'])
    """
    size = ticks[1] - ticks[0]
    largest = max(map(abs, ticks))
    if size < 1e-3:
        return [f"{tick:.3g}".replace("e-0", "e-") for tick in ticks]
    if largest >= 1000 and all(tick % 100 == 0 for tick in ticks):
        return [f"{tick / 1000:g}k" if tick else "0" for tick in ticks]
    digits = next(digits for digits in range(7) if abs(round(size, digits) - size) < size * 1e-6)
    return [f"{tick:.{digits}f}" for tick in ticks]


def _thin(found: Series) -> Series:
    """At most MAX_POINTS pairs: means of equal stretches, at the middle one of their steps."""
    if len(found) <= MAX_POINTS:
        return found
    edges = [round(index * len(found) / MAX_POINTS) for index in range(MAX_POINTS + 1)]
    chunks = [found[start:end] for start, end in itertools.pairwise(edges)]
    return [(chunk[len(chunk) // 2][0], math.fsum(value for _, value in chunk) / len(chunk)) for chunk in chunks]


def _padded(low: float, high: float) -> tuple[float, float]:
    """Limits of the value axis: from 0 where 0 is near, a little beyond the data elsewhere."""
    if low >= 0 and low < 0.6 * high:
        return 0.0, high
    margin = (high - low) * 0.05 or abs(high) * 0.1
    return low - margin, high + margin


def _share(value: float, low: float, high: float) -> float:
    return (value - low) / (high - low) if high > low else 0.5


def _path(axes: _Axes, found: Series, *, css: str, index: int) -> str:
    points = " ".join(f"{axes.x(step):.1f},{axes.y(value):.1f}" for step, value in found)
    return f'<polyline class="{css}" points="{points}" stroke="{colour(index)}"/>'


def _hover_bands(axes: _Axes, lines: Mapping[str, Series]) -> str:
    """Unseen bands, one per step, whose tool tip tells the values there."""
    values: dict[float, list[str]] = {}
    for label, found in lines.items():
        for step, value in found:
            values.setdefault(step, []).append(f"{label}: {value:.4g}")
    steps = sorted(values)
    bands = []
    for index, step in enumerate(steps):
        left = axes.x((steps[index - 1] + step) / 2) if index else LEFT
        right = axes.x((step + steps[index + 1]) / 2) if index + 1 < len(steps) else WIDTH - RIGHT
        words = escape("\n".join([f"step {step:.0f}", *values[step]]))
        size = f'width="{right - left:.1f}" height="{HEIGHT - TOP - BOTTOM}"'
        bands.append(f'<rect class="band" x="{left:.1f}" y="{TOP}" {size}><title>{words}</title></rect>')
    return "".join(bands)


def _svg(body: str, *, title: str, size: tuple[int, int] = (WIDTH, HEIGHT), css: str = "chart") -> Markup:
    """Every text in `body` was escaped where it was put in."""
    name = escape(title, quote=True)
    return Markup(f'<svg class="{css}" viewBox="0 0 {size[0]} {size[1]}" role="img" aria-label="{name}">{body}</svg>')
