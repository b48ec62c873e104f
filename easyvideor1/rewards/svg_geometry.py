"""The outlines of SVG shapes as polygons, and transformations; matrices are (a, b, c, d, e, f) as in SVG."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

Point = tuple[float, float]
Matrix = tuple[float, float, float, float, float, float]
Length = Callable[[str, bool], float]
"""Text of a length, and whether it is vertical -> number in user space."""

IDENTITY: Matrix = (1.0, 0.0, 0.0, 1.0, 0.0, 0.0)
_CURVE_STEPS = 16
_CIRCLE_STEPS = 64
_MAX_TRANSFORMS = 50


@dataclass(frozen=True, slots=True)
class Subpath:
    """One outline."""

    points: tuple[Point, ...]
    is_closed: bool


def multiply(first: Matrix, second: Matrix) -> Matrix:
    """The matrix that applies `second` and then `first`."""
    a, b, c, d, e, f = first
    g, h, i, j, k, m = second
    return (a * g + c * h, b * g + d * h, a * i + c * j, b * i + d * j, a * k + c * m + e, b * k + d * m + f)


def transformed(paths: Iterable[Subpath], matrix: Matrix) -> Iterator[Subpath]:
    a, b, c, d, e, f = matrix
    for path in paths:
        yield Subpath(tuple((a * x + c * y + e, b * x + d * y + f) for x, y in path.points), path.is_closed)


_TRANSFORM = re.compile(r"(matrix|translate|scale|rotate|skewX|skewY)\s*\(([^()]{0,400})\)")
FLOAT = r"[+-]?+(?:\d{1,30}+(?:\.\d{0,30}+)?+|\.\d{1,30}+)(?:[eE][+-]?\d{1,3}+)?+"
_FLOAT = re.compile(FLOAT)
LARGEST = 1e9
"""Coordinates are clipped to this; no sum or product of a few of them leaves the range of floats."""


def to_float(word: str) -> float:
    """A number as written in SVG, clipped to +-LARGEST."""
    return min(LARGEST, max(-LARGEST, float(word)))


def parse_transform(text: str) -> Matrix:
    """The matrix of a transform attribute.

    >>> parse_transform("translate(10, 20) scale(2)")
    (2.0, 0.0, 0.0, 2.0, 10.0, 20.0)
    """
    result = IDENTITY
    for match, _ in zip(_TRANSFORM.finditer(text), range(_MAX_TRANSFORMS), strict=False):
        numbers = [to_float(word) for word in _FLOAT.findall(match[2])]
        if numbers:
            result = multiply(result, _one_transform(match[1], numbers))
    return result


def _one_transform(name: str, numbers: list[float]) -> Matrix:
    first = numbers[0]
    second = numbers[1] if len(numbers) > 1 else None
    if name == "matrix" and len(numbers) >= 6:
        return (numbers[0], numbers[1], numbers[2], numbers[3], numbers[4], numbers[5])
    if name == "translate":
        return (1.0, 0.0, 0.0, 1.0, first, second or 0.0)
    if name == "scale":
        return (first, 0.0, 0.0, first if second is None else second, 0.0, 0.0)
    if name == "rotate":
        cos, sin = math.cos(math.radians(first)), math.sin(math.radians(first))
        turn = (cos, sin, -sin, cos, 0.0, 0.0)
        if len(numbers) < 3:
            return turn
        x, y = numbers[1], numbers[2]
        return multiply(multiply((1.0, 0.0, 0.0, 1.0, x, y), turn), (1.0, 0.0, 0.0, 1.0, -x, -y))
    if name == "skewX":
        return (1.0, 0.0, math.tan(math.radians(first)), 1.0, 0.0, 0.0)
    if name == "skewY":
        return (1.0, math.tan(math.radians(first)), 0.0, 1.0, 0.0, 0.0)
    return IDENTITY


def flatten(tag: str, attributes: Mapping[str, str], length: Length) -> list[Subpath]:
    """The outlines of a shape element; [] for any other element."""

    def number(name: str, *, is_vertical: bool = False, default: str = "0") -> float:
        return length(attributes.get(name, default), is_vertical)

    if tag in ("rect", "image"):
        return _rectangle(
            number("x"),
            number("y", is_vertical=True),
            number("width"),
            number("height", is_vertical=True),
            radius=number("rx", default=attributes.get("ry", "0")),
        )
    if tag == "circle":
        return _ellipse(number("cx"), number("cy", is_vertical=True), number("r"), number("r"))
    if tag == "ellipse":
        return _ellipse(number("cx"), number("cy", is_vertical=True), number("rx"), number("ry", is_vertical=True))
    if tag == "line":
        ends = (number("x1"), number("y1", is_vertical=True)), (number("x2"), number("y2", is_vertical=True))
        return [Subpath(ends, False)]
    if tag in ("polyline", "polygon"):
        numbers = [to_float(word) for word in _FLOAT.findall(attributes.get("points", ""))]
        points = tuple(zip(numbers[::2], numbers[1::2], strict=False))
        return [Subpath(points, tag == "polygon")] if len(points) > 1 else []
    return list(_path(attributes.get("d", ""))) if tag == "path" else []


def _rectangle(x: float, y: float, width: float, height: float, *, radius: float) -> list[Subpath]:
    if width <= 0 or height <= 0:
        return []
    radius = min(max(radius, 0.0), width / 2, height / 2)
    if radius == 0:
        return [Subpath(((x, y), (x + width, y), (x + width, y + height), (x, y + height)), True)]
    corners = (
        (x + width - radius, y + radius, -90),
        (x + width - radius, y + height - radius, 0),
        (x + radius, y + height - radius, 90),
        (x + radius, y + radius, 180),
    )
    points = [
        (cx + radius * math.cos(math.radians(start + step)), cy + radius * math.sin(math.radians(start + step)))
        for cx, cy, start in corners
        for step in range(0, 91, 15)
    ]
    return [Subpath(tuple(points), True)]


def _ellipse(cx: float, cy: float, rx: float, ry: float) -> list[Subpath]:
    if rx <= 0 or ry <= 0:
        return []
    angles = (2 * math.pi * step / _CIRCLE_STEPS for step in range(_CIRCLE_STEPS))
    return [Subpath(tuple((cx + rx * math.cos(angle), cy + ry * math.sin(angle)) for angle in angles), True)]


_COMMAND = re.compile(r"([MmLlHhVvCcSsQqTtAaZz])([^MmLlHhVvCcSsQqTtAaZz]*)")
_ARGUMENTS = {"M": 2, "L": 2, "H": 1, "V": 1, "C": 6, "S": 4, "Q": 4, "T": 2, "A": 7, "Z": 0}


def _path(text: str) -> Iterator[Subpath]:
    """The outlines of path data; what follows a mistake is left out."""
    pen = _Pen()
    for match in _COMMAND.finditer(text):
        letter = match[1]
        name, is_relative = letter.upper(), letter.islower()
        size = _ARGUMENTS[name]
        if name == "Z":
            yield from pen.close()
            continue
        words = _arc_words(match[2]) if name == "A" else _FLOAT.findall(match[2])
        numbers = [to_float(word) for word in words]
        for place in range(0, len(numbers) - size + 1, size):
            if name == "M" and place == 0:
                yield from pen.lift()
            pen.draw("L" if name == "M" and place else name, numbers[place : place + size], is_relative=is_relative)
    yield from pen.lift()


_GAP = r"[\s,]*+"
_ARC = re.compile(_GAP + _GAP.join([f"({FLOAT})"] * 3 + ["([01])"] * 2 + [f"({FLOAT})"] * 2))


def _arc_words(text: str) -> list[str]:
    """Seven words for each arc; its two flags may stand without a gap: "1 1 0 015 5" means "1 1 0 0 1 5 5"."""
    return [word for match in _ARC.finditer(text) for word in match.groups()]


class _Pen:
    """The state of a path while it is drawn."""

    def __init__(self) -> None:
        self._points: list[Point] = []
        self._at: Point = (0.0, 0.0)
        self._control: Point | None = None
        """Last control point, which S and T mirror."""

    def lift(self) -> Iterator[Subpath]:
        if len(self._points) > 1:
            yield Subpath(tuple(self._points), False)
        self._points = []

    def close(self) -> Iterator[Subpath]:
        if self._points:
            yield Subpath(tuple(self._points), True)
            self._at = self._points[0]
        self._points, self._control = [], None

    def draw(self, name: str, numbers: list[float], *, is_relative: bool) -> None:
        dx, dy = self._at if is_relative else (0.0, 0.0)
        if name == "H":
            self._line_to((numbers[0] + dx, self._at[1]))
        elif name == "V":
            self._line_to((self._at[0], numbers[0] + dy))
        elif name == "M":
            self._at, self._control = (numbers[0] + dx, numbers[1] + dy), None
            self._points = [self._at]
        elif name == "L":
            self._line_to((numbers[0] + dx, numbers[1] + dy))
        elif name == "A":
            self._arc(numbers, (numbers[5] + dx, numbers[6] + dy))
        else:
            points = [(x + dx, y + dy) for x, y in zip(numbers[::2], numbers[1::2], strict=True)]
            self._curve(points if name in "CQ" else [self._mirrored(), *points])

    def _mirrored(self) -> Point:
        x, y = self._control or self._at
        return (2 * self._at[0] - x, 2 * self._at[1] - y)

    def _start(self) -> None:
        if not self._points:
            self._points = [self._at]

    def _line_to(self, end: Point) -> None:
        self._start()
        self._points.append(end)
        self._at, self._control = end, None

    def _curve(self, points: list[Point]) -> None:
        """A Bezier curve from here over one or two control points."""
        self._start()
        corners = [self._at, *points]
        for step in range(1, _CURVE_STEPS + 1):
            level, t = corners, step / _CURVE_STEPS
            while len(level) > 1:
                level = [(x1 + (x2 - x1) * t, y1 + (y2 - y1) * t) for (x1, y1), (x2, y2) in itertools.pairwise(level)]
            self._points.append(level[0])
        self._at, self._control = points[-1], points[-2]

    def _arc(self, numbers: list[float], end: Point) -> None:
        """An elliptical arc, by the centre form of the SVG specification (appendix B.2.4)."""
        rx, ry, turn = abs(numbers[0]), abs(numbers[1]), math.radians(numbers[2])
        if rx == 0 or ry == 0 or end == self._at:
            return self._line_to(end)
        self._start()
        cos, sin = math.cos(turn), math.sin(turn)
        half_x, half_y = (self._at[0] - end[0]) / 2, (self._at[1] - end[1]) / 2
        x, y = cos * half_x + sin * half_y, cos * half_y - sin * half_x
        stretch = math.sqrt(max(1.0, (x / rx) ** 2 + (y / ry) ** 2))
        rx, ry = rx * stretch, ry * stretch
        denominator = (rx * y) ** 2 + (ry * x) ** 2
        factor = math.sqrt(max(0.0, ((rx * ry) ** 2 - denominator) / denominator)) if denominator else 0.0
        factor = -factor if bool(numbers[3]) == bool(numbers[4]) else factor
        cx, cy = factor * rx * y / ry, -factor * ry * x / rx
        first = math.atan2((y - cy) / ry, (x - cx) / rx)
        sweep = math.atan2((-y - cy) / ry, (-x - cx) / rx) - first
        if numbers[4] and sweep < 0:
            sweep += 2 * math.pi
        elif not numbers[4] and sweep > 0:
            sweep -= 2 * math.pi
        middle = ((self._at[0] + end[0]) / 2, (self._at[1] + end[1]) / 2)
        for step in range(1, _CURVE_STEPS + 1):
            angle = first + sweep * step / _CURVE_STEPS
            px, py = cx + rx * math.cos(angle), cy + ry * math.sin(angle)
            self._points.append((middle[0] + cos * px - sin * py, middle[1] + sin * px + cos * py))
        self._at, self._control = end, None
        return None
