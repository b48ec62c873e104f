"""Drawings -> pixels, by resvg -> how alike two pictures are. The only font is Pillow's own, on every machine."""

from __future__ import annotations

import functools
import io
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import resvg_py
from PIL import Image, ImageFilter, ImageFont
from rapidfuzz.distance import Indel

from easyvideor1.rewards.svg import Drawing, UnreadableSvgError
from easyvideor1.rewards.words import printed_words

SIZE = 256
"""Side of the square canvas in pixels, whatever size a drawing claims."""
MARGIN = 8
"""White pixels around the canvas, so that a full background has an edge."""
COLOUR_SHARE, EDGE_SHARE = 0.6, 0.4
BACKGROUND_SHARE = 0.8
"""Of the colour share, for agreement on what stands out from the background."""
MUCH_DRAWN_FRAC = 0.02
"""From this share of the pixels on, objects count in full."""
BACKGROUND_FRAC = 0.1
"""Share of the pixels from which on the commonest colour is a background."""
TEXT_SHARE = 0.25
"""For the words of a drawing that has any: in pixels two words differ little, and some scripts have no letters here."""


@dataclass(frozen=True, slots=True)
class Picture:
    """What a drawing shows."""

    pixels: np.ndarray
    """float32 [H, W, 3] in [0, 1] on white, H = W = SIZE + 2 * MARGIN."""
    words: tuple[str, ...]


def paint(drawing: Drawing) -> Picture:
    """The picture of a drawing, fitted into the square canvas; raises UnreadableSvgError where it cannot be drawn."""
    source = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{SIZE}" height="{SIZE}" '
        f'viewBox="0 0 {drawing.width:g} {drawing.height:g}">{drawing.source}</svg>'
    )
    try:
        png = resvg_py.svg_to_bytes(svg_string=source, width=SIZE, height=SIZE, background="#ffffff", **_fonts())
    except ValueError as error:
        raise UnreadableSvgError(f"not drawn: {error}") from None
    canvas = Image.open(io.BytesIO(png)).convert("RGB")
    framed = Image.new("RGB", (SIZE + 2 * MARGIN, SIZE + 2 * MARGIN), "white")
    framed.paste(canvas, (MARGIN, MARGIN))
    return Picture(np.asarray(framed, dtype=np.float32) / 255, tuple(printed_words(drawing.texts)))


@functools.cache
def _fonts() -> dict[str, Any]:
    """The font for all families. The renderer reads fonts from files only."""
    font = ImageFont.load_default(16)
    assert isinstance(font, ImageFont.FreeTypeFont)
    file = tempfile.NamedTemporaryFile(suffix=".ttf")  # noqa: SIM115 - it lives as long as the process
    _FONT_FILES.append(file)
    file.write(font.font_bytes)
    file.flush()
    name = str(font.getname()[0])
    families = ("font", "serif", "sans_serif", "cursive", "fantasy", "monospace")
    return {"skip_system_fonts": True, "font_files": [file.name], **{f"{family}_family": name for family in families}}


_FONT_FILES: list[Any] = []


def likeness(picture: Picture, gold: Picture) -> float:
    """How alike two pictures are: 1.0 the same, about 0.0 nothing in common, by colours, edges and words.

    The difference is divided by what both pictures put on the paper, so that white around a small drawing earns
    nothing. The paper is white, and for a gold that shows something on a background also the background's colour, so
    that a right background alone does not hide wrong objects.
    """
    white = np.ones(3, dtype=np.float32)
    background = _commonest(gold.pixels)
    drawn_frac = float((_inside(gold.pixels) != background).any(axis=2).mean())
    share = BACKGROUND_SHARE * min(1.0, drawn_frac / MUCH_DRAWN_FRAC)
    inside, gold_inside = _inside(picture.pixels), _inside(gold.pixels)
    colour = (1 - share) * _agreement(inside, gold_inside, white)
    colour += share * _agreement(inside, gold_inside, background)
    edges, gold_edges = _edges(picture.pixels), _edges(gold.pixels)
    edge = _agreement(edges, gold_edges, np.zeros(1, dtype=np.float32))
    value = float(min(1.0, max(0.0, COLOUR_SHARE * colour + EDGE_SHARE * edge)))
    return _with_words(value, picture.words, gold.words) if gold.words else value


def _with_words(value: float, words: Sequence[str], gold: Sequence[str]) -> float:
    return (1 - TEXT_SHARE) * value + TEXT_SHARE * value * Indel.normalized_similarity(words, gold)


def _agreement(picture: np.ndarray, gold: np.ndarray, paper: np.ndarray) -> float:
    ink = float(np.abs(picture - paper).sum() + np.abs(gold - paper).sum())
    difference = float(np.abs(picture - gold).sum())
    return 1.0 if difference == 0 else 1.0 - difference / ink


def _inside(picture: np.ndarray) -> np.ndarray:
    return picture[MARGIN:-MARGIN, MARGIN:-MARGIN]


def _commonest(picture: np.ndarray) -> np.ndarray:
    """The colour of most pixels; white where no colour has a large share, as in a gradient."""
    inside = Image.fromarray(np.rint(_inside(picture) * 255).astype(np.uint8))
    counted = inside.getcolors(maxcolors=SIZE * SIZE)
    assert counted is not None
    count, colour = max(counted)
    is_background = count >= BACKGROUND_FRAC * SIZE * SIZE
    return np.array(colour if is_background else (255, 255, 255), dtype=np.float32) / 255


def _edges(picture: np.ndarray) -> np.ndarray:
    """float32 [H, W, 1]: strength of the edges of a blurred picture; a shift by a pixel or two hardly matters."""
    blurred = Image.fromarray(np.rint(picture * 255).astype(np.uint8)).filter(ImageFilter.BoxBlur(2))
    pixels = np.asarray(blurred, dtype=np.float32) / 255
    across, down = np.abs(np.diff(pixels, axis=1)), np.abs(np.diff(pixels, axis=0))
    return (across[:-1] + down[:, :-1]).sum(axis=2, keepdims=True)
