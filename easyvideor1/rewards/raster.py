"""Shapes -> pixels -> how alike two pictures are. Pillow paints; it opens no file here (its font is built in)."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Iterable

import numpy as np
from PIL import Image, ImageChops, ImageColor, ImageDraw, ImageFilter, ImageFont

from easyvideor1.rewards.svg import SIZE, Shape
from easyvideor1.rewards.svg_geometry import Point, Subpath

MARGIN = 8
"""White pixels around the canvas, so that a full background has an edge."""
_SIDE = SIZE + 2 * MARGIN
_REACH = 4.0 * SIZE
"""Points further out are moved in: lines of a billion pixels would be painted pixel by pixel."""
COLOUR_SHARE, EDGE_SHARE = 0.6, 0.4
BACKGROUND_SHARE = 0.8
"""Of the colour share, for agreement on what stands out from the background."""
MUCH_DRAWN_FRAC = 0.02
"""From this share of the pixels on, objects count in full."""


def paint(shapes: Iterable[Shape]) -> np.ndarray:
    """float32 [H, W, 3] in [0, 1]: the shapes on white, H = W = SIZE + 2 * MARGIN."""
    canvas = Image.new("RGB", (_SIDE, _SIDE), "white")
    for shape in shapes:
        if shape.text:
            _paint_text(canvas, shape)
            continue
        paths = [path for path in map(_on_canvas, shape.paths) if path is not None]
        if shape.fill is not None:
            _paste(canvas, _filled(paths), shape.fill, shape.fill_opacity)
        if shape.stroke is not None and shape.stroke_px > 0:
            thin = min(1.0, shape.stroke_px)
            _paste(canvas, _stroked(paths, shape.stroke_px), shape.stroke, shape.stroke_opacity * thin)
    frame = Image.new("RGB", (_SIDE, _SIDE), "white")
    frame.paste(canvas.crop((MARGIN, MARGIN, MARGIN + SIZE, MARGIN + SIZE)), (MARGIN, MARGIN))
    return np.asarray(frame, dtype=np.float32) / 255


def likeness(picture: np.ndarray, gold: np.ndarray) -> float:
    """How alike two pictures are: 1.0 the same, about 0.0 nothing in common, by colours and by edges.

    The difference is divided by what both pictures put on the paper, so that white around a small drawing earns
    nothing. The paper is white, and for a gold that shows something on a background also the background's colour, so
    that a right background alone does not hide wrong objects.
    """
    white = np.ones(3, dtype=np.float32)
    background = _commonest(gold)
    drawn_frac = float((_inside(gold) != background).any(axis=2).mean())
    share = BACKGROUND_SHARE * min(1.0, drawn_frac / MUCH_DRAWN_FRAC)
    inside, gold_inside = _inside(picture), _inside(gold)
    colour = (1 - share) * _agreement(inside, gold_inside, white)
    colour += share * _agreement(inside, gold_inside, background)
    edges, gold_edges = _edges(picture), _edges(gold)
    edge = _agreement(edges, gold_edges, np.zeros(1, dtype=np.float32))
    return float(min(1.0, max(0.0, COLOUR_SHARE * colour + EDGE_SHARE * edge)))


def _agreement(picture: np.ndarray, gold: np.ndarray, paper: np.ndarray) -> float:
    ink = float(np.abs(picture - paper).sum() + np.abs(gold - paper).sum())
    difference = float(np.abs(picture - gold).sum())
    return 1.0 if difference == 0 else 1.0 - difference / ink


def _inside(picture: np.ndarray) -> np.ndarray:
    return picture[MARGIN:-MARGIN, MARGIN:-MARGIN]


def _commonest(picture: np.ndarray) -> np.ndarray:
    colours = np.rint(_inside(picture).reshape(-1, 3) * 255).astype(np.int64)
    codes, counts = np.unique(colours @ np.array([65536, 256, 1]), return_counts=True)
    code = int(codes[counts.argmax()])
    return np.array([code >> 16, code >> 8 & 255, code & 255], dtype=np.float32) / 255


def _edges(picture: np.ndarray) -> np.ndarray:
    """float32 [H, W, 1]: strength of the edges of a blurred picture; a shift by a pixel or two hardly matters."""
    blurred = Image.fromarray(np.rint(picture * 255).astype(np.uint8)).filter(ImageFilter.BoxBlur(2))
    pixels = np.asarray(blurred, dtype=np.float32) / 255
    across, down = np.abs(np.diff(pixels, axis=1)), np.abs(np.diff(pixels, axis=0))
    return (across[:-1] + down[:, :-1]).sum(axis=2, keepdims=True)


def _on_canvas(path: Subpath) -> Subpath | None:
    points = tuple(point for point in map(_clamped, path.points) if point is not None)
    return Subpath(points, path.is_closed) if len(points) == len(path.points) else None


def _clamped(point: Point) -> Point | None:
    x, y = point
    if not (math.isfinite(x) and math.isfinite(y)):
        return None
    return (min(max(x, -_REACH), 5 * SIZE) + MARGIN, min(max(y, -_REACH), 5 * SIZE) + MARGIN)


def _filled(paths: list[Subpath]) -> Image.Image:
    """Mask of the inside; outlines inside others are holes."""
    mask = Image.new("1", (_SIDE, _SIDE))
    for index, path in enumerate(path for path in paths if len(path.points) > 2):
        one = Image.new("1", (_SIDE, _SIDE))
        ImageDraw.Draw(one).polygon(path.points, fill=1)
        mask = ImageChops.logical_xor(mask, one) if index else one
    return mask


def _stroked(paths: list[Subpath], width_px: float) -> Image.Image:
    mask = Image.new("1", (_SIDE, _SIDE))
    draw = ImageDraw.Draw(mask)
    width = max(1, round(min(2 * SIZE, width_px)))
    for path in paths:
        points = [*path.points, path.points[0]] if path.is_closed else list(path.points)
        draw.line(points, fill=1, width=width, joint="curve" if width > 2 and len(points) < 200 else None)
    return mask


def _paste(canvas: Image.Image, mask: Image.Image, colour: str, opacity: float) -> None:
    red, green, blue, alpha = _rgba(colour)
    level = round(255 * opacity * alpha)
    canvas.paste((red, green, blue), mask=mask.convert("L").point([0] * 255 + [level]))


def _paint_text(canvas: Image.Image, shape: Shape) -> None:
    at = _clamped(shape.at)
    if shape.fill is None or at is None or not 0.5 <= shape.text_px < 2 * SIZE:
        return
    mask = Image.new("L", (_SIDE, _SIDE))
    anchor = {"middle": "ms", "end": "rs"}.get(shape.anchor, "ls")
    ImageDraw.Draw(mask).text(at, shape.text, fill=255, font=_font(max(1, round(shape.text_px))), anchor=anchor)
    red, green, blue, alpha = _rgba(shape.fill)
    canvas.paste(
        (red, green, blue), mask=mask.point([round(level * shape.fill_opacity * alpha) for level in range(256)])
    )


@functools.lru_cache(maxsize=64)
def _font(size: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    return ImageFont.load_default(size)


_FUNCTION = re.compile(r"rgba?\(\s*([^()]{1,80})\)")


@functools.lru_cache(maxsize=4096)
def _rgba(colour: str) -> tuple[int, int, int, float]:
    """A colour as 0-255 values and an opacity; an unknown one is black, as for a browser that inherits the default."""
    match = _FUNCTION.fullmatch(colour.strip().lower())
    if match:
        words = re.split(r"[\s,/]+", match[1].strip())
        try:
            levels = [float(word.rstrip("%")) * (2.55 if word.endswith("%") else 1) for word in words[:3]]
            alpha = float(words[3].rstrip("%")) / (100 if words[3].endswith("%") else 1) if len(words) > 3 else 1.0
            red, green, blue = (round(min(255.0, max(0.0, level))) for level in levels)
        except ValueError:
            return (0, 0, 0, 1.0)
        return (red, green, blue, min(1.0, max(0.0, alpha)))
    try:
        red, green, blue, *alpha_level = ImageColor.getrgb(colour.strip())
    except ValueError:
        return (0, 0, 0, 1.0)
    return (red, green, blue, alpha_level[0] / 255 if alpha_level else 1.0)
