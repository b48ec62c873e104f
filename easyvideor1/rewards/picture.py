"""Drawings -> pixels, by resvg -> how alike two pictures are. The only font is Pillow's own, on every machine."""

from __future__ import annotations

import functools
import io
import re
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

SIZE = 192
"""Side of the square canvas in pixels, whatever size a drawing claims."""
MARGIN = 6
"""White pixels around the canvas, so that a full background has an edge."""
COLOUR_SHARE, EDGE_SHARE = 0.6, 0.4
BACKGROUND_SHARE = 0.8
"""Share of the colour score that goes to agreement on what stands out from the background."""
MUCH_DRAWN_FRAC = 0.02
"""From this share of drawn pixels on, objects count in full."""
BACKGROUND_FRAC = 0.1
"""Share of the pixels from which on the commonest colour is a background."""
TEXT_SHARE = 0.25
"""Share of the likeness for the words of a drawing that has any: in pixels two words differ little, and some scripts
have no letters in this font."""


@dataclass(frozen=True, eq=False)
class Picture:
    """The pixels of a drawing, ready to compare."""

    pixels: np.ndarray
    """int16 [SIZE, SIZE, 3], 0 to 255, on white."""
    edges: np.ndarray
    """int16 [H, W]: strength of the edges of the blurred picture with MARGIN white pixels around it."""
    background: np.ndarray
    """int16 [3]: the colour of most pixels; white where no colour has a large share, as in a gradient."""
    words: tuple[str, ...]

    @functools.cached_property
    def ink(self) -> float:
        """What it puts on white paper."""
        return _total(self.pixels - _WHITE)

    @functools.cached_property
    def background_ink(self) -> float:
        """What it puts on paper of its background's colour."""
        return _total(self.pixels - self.background)

    @functools.cached_property
    def edge_ink(self) -> float:
        return _total(self.edges)

    @functools.cached_property
    def drawn_frac(self) -> float:
        """Share of the pixels that are not background."""
        return float((self.pixels != self.background).any(axis=2).mean())

    @property
    def dark_frac(self) -> float:
        """How far the mean pixel is from white."""
        return 1.0 - float(self.pixels.mean()) / 255


_FAR = re.compile(r"(?<![\w.#])\d{5}|\d[eE]")
_XMLNS = 'xmlns="http://www.w3.org/2000/svg"'


def paint(drawing: Drawing) -> Picture:
    """The picture of a drawing, fitted into the square canvas; raises UnreadableSvgError where it cannot be drawn."""
    source = drawing.source.replace("<svg", f"<svg {_XMLNS}", 1)
    if drawing.width != drawing.height or _FAR.search(drawing.source):
        # Into the middle of a square, with a canvas of its own, which keeps the renderer from places far away.
        frame = f'width="{SIZE}" height="{SIZE}" viewBox="0 0 {drawing.width:g} {drawing.height:g}"'
        source = f"<svg {_XMLNS} {frame}>{drawing.source}</svg>"
    try:
        png = resvg_py.svg_to_bytes(svg_string=source, width=SIZE, height=SIZE, background="#ffffff", **_fonts())
    except ValueError as error:
        raise UnreadableSvgError(f"not drawn: {error}") from None
    canvas = Image.open(io.BytesIO(png)).convert("RGB")
    return Picture(
        np.asarray(canvas, dtype=np.int16), _edges(canvas), _background(canvas), tuple(printed_words(drawing.texts))
    )


def _edges(canvas: Image.Image) -> np.ndarray:
    """Strength of the edges of a blurred picture, so that a shift by a pixel or two hardly matters."""
    framed = Image.new("L", (SIZE + 2 * MARGIN, SIZE + 2 * MARGIN), "white")
    edges = np.zeros((SIZE + 2 * MARGIN - 1,) * 2, dtype=np.int16)
    for band in canvas.split():
        framed.paste(band, (MARGIN, MARGIN))
        blurred = np.asarray(framed.filter(ImageFilter.BoxBlur(2)), dtype=np.int16)
        edges += np.abs(blurred[:-1, 1:] - blurred[:-1, :-1]) + np.abs(blurred[1:, :-1] - blurred[:-1, :-1])
    return edges


def _background(canvas: Image.Image) -> np.ndarray:
    counted = canvas.getcolors(maxcolors=SIZE * SIZE)
    assert counted is not None
    count, colour = max(counted)
    return np.array(colour if count >= BACKGROUND_FRAC * SIZE * SIZE else (255, 255, 255), dtype=np.int16)


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
    share = BACKGROUND_SHARE * min(1.0, gold.drawn_frac / MUCH_DRAWN_FRAC)
    difference = _total(picture.pixels - gold.pixels)
    colour = 0.0
    on_background = picture.ink if (gold.background == _WHITE).all() else _total(picture.pixels - gold.background)
    for weight, ink in ((1 - share, picture.ink + gold.ink), (share, on_background + gold.background_ink)):
        colour += weight * (1.0 - difference / ink if difference else 1.0)
    edge_difference = _total(picture.edges - gold.edges)
    edge = 1.0 - edge_difference / (picture.edge_ink + gold.edge_ink) if edge_difference else 1.0
    value = min(1.0, max(0.0, COLOUR_SHARE * colour + EDGE_SHARE * edge))
    return _with_words(value, picture.words, gold.words) if gold.words else value


_WHITE = np.full(3, 255, dtype=np.int16)


def _total(differences: np.ndarray) -> float:
    """The sum of the sizes of differences."""
    return float(np.abs(differences).sum(dtype=np.int64))


def _with_words(value: float, words: Sequence[str], gold: Sequence[str]) -> float:
    return (1 - TEXT_SHARE) * value + TEXT_SHARE * value * Indel.normalized_similarity(words, gold)
