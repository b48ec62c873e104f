"""Pictures through Pillow: single images, frames of a list, animated WebP and PNG; always upright, always RGB, on white
where they are transparent."""

from __future__ import annotations

import itertools
import struct
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from PIL import Image, ImageOps, ImageSequence, UnidentifiedImageError

from easyvideor1.errors import MediaError
from easyvideor1.video.source import MOST_PIXELS, Source, first_bytes, remembered

EXIF_ORIENTATION = 0x0112
STRIP_ROWS = 256
"""A large picture is converted piece by piece, so that it is in memory twice and not five times."""
SHORTEST_DELAY_MS = 10
BROWSER_DELAY_MS = 100
"""A frame that asks for the shortest delay or less is shown this long, as browsers do: nobody means what it says."""
PILLOW_ERRORS = (
    OSError, SyntaxError, ValueError, TypeError, EOFError, RuntimeError, LookupError, ArithmeticError, struct.error,
    Image.DecompressionBombError,
)  # fmt: skip
"""Pillow reports damage by many exception types; all of them mean the same here."""
HEIC_STARTS = (b"ftypheic", b"ftypmif1")
ANIMATED_FORMATS = ("WEBP", "PNG", "AVIF", "GIF")


@dataclass(frozen=True, kw_only=True, slots=True)
class Picture:
    """The facts in the header of a picture."""

    width: int
    """Upright, in pixels."""
    height: int
    format: str
    num_frames: int
    """Number of frames; more than one for animations only."""


@remembered(16_384)
def picture_header(source: Source) -> Picture:
    """Size and kind of a picture, its pixels unread.

    Raises:
        MediaError: not a picture.
    """
    with _opened(source) as image:
        width, height = image.size
        # of a TIFF file Pillow gives the upright size at once
        if image.format != "TIFF" and image.getexif().get(EXIF_ORIENTATION, 1) >= 5:
            width, height = height, width
        num_frames = 1
        if image.format in ANIMATED_FORMATS:
            num_frames = max(1, getattr(image, "n_frames", 1) - _num_hidden(image))
        return Picture(width=width, height=height, format=image.format or "?", num_frames=num_frames)


def read_picture(source: Source) -> np.ndarray:
    """uint8 [H, W, 3] of the (first) picture, upright, on white where it is transparent."""
    with _opened(source) as image:
        return _upright_rgb(image)


@remembered(256)
def animation_delays_s(source: Source) -> tuple[tuple[float, ...], bool]:
    """How long each frame of an animated picture is shown, and whether some are shown longer than they ask for."""
    delays_ms: list[float] = []
    with _opened(source) as image:
        for frame in _shown(image):
            frame.load()  # WebP and AVIF tell the delay of a frame only with its pixels
            delays_ms.append(frame.info.get("duration", 0))
    is_slowed = any(0 < delay <= SHORTEST_DELAY_MS for delay in delays_ms)
    delays_ms = [delay if delay > SHORTEST_DELAY_MS else BROWSER_DELAY_MS for delay in delays_ms]
    return tuple(delay / 1000 for delay in delays_ms), is_slowed


def on_white(pixels: np.ndarray) -> np.ndarray:
    """uint8 [H, W, 3] of uint8 [H, W, 4], whose last channel is opacity; rounded as Pillow's `alpha_composite` does."""
    opacity = pixels[..., 3:].astype(np.uint16)
    blend = pixels[..., :3] * opacity
    blend += 255 * (255 - opacity) + 128
    blend += blend >> 8
    blend >>= 8
    return blend.astype(np.uint8)


def read_animation(source: Source, wanted: frozenset[int]) -> Iterator[tuple[int, np.ndarray]]:
    """(number, uint8 [H, W, 3]) of the wanted frames of an animated picture, in order."""
    with _opened(source) as image:
        for number, frame in enumerate(_shown(image)):
            if number in wanted:
                yield number, _upright_rgb(frame)


def _shown(image: Image.Image) -> Iterator[Image.Image]:
    """The frames of an animation, without the picture that a PNG file holds for programs that show no animations."""
    return itertools.islice(ImageSequence.Iterator(image), _num_hidden(image), None)


def _num_hidden(image: Image.Image) -> int:
    return int(getattr(image, "default_image", False))


@contextmanager
def _opened(source: Source) -> Iterator[Image.Image]:
    try:
        with warnings.catch_warnings(), source.open() as file:
            warnings.simplefilter("ignore")
            with Image.open(file) as image:
                if image.width * image.height > MOST_PIXELS:
                    raise Image.DecompressionBombError(f"{image.width}x{image.height} pixels")
                yield image
    except Image.DecompressionBombError as error:
        raise MediaError(
            f"{error}: pictures above {MOST_PIXELS} pixels are refused", where=source.name, remedy="make it smaller"
        ) from None
    except PILLOW_ERRORS as error:
        problem = "of no known format" if isinstance(error, UnidentifiedImageError) else str(error)
        start = first_bytes(source)
        is_heic = source.head(12)[4:] in HEIC_STARTS
        raise MediaError(
            f"not a readable picture: {problem}; it begins with {start}",
            where=source.name,
            remedy="make the HEIC picture a JPEG" if is_heic else "",
        ) from None


def _upright_rgb(image: Image.Image) -> np.ndarray:
    if image.mode == "F":
        raise ValueError("floating-point pixels have no known range")
    image.load()
    if image.getexif().get(EXIF_ORIENTATION, 1) != 1:
        image = ImageOps.exif_transpose(image)
    rgb = np.empty((image.height, image.width, 3), np.uint8)
    for top in range(0, image.height, STRIP_ROWS):
        bottom = min(top + STRIP_ROWS, image.height)
        rgb[top:bottom] = _strip_rgb(image.crop((0, top, image.width, bottom)))
    return rgb


def _strip_rgb(image: Image.Image) -> np.ndarray:
    if image.mode.startswith("I;16") or image.mode == "I":
        # Pillow would clip 16-bit grey at 255 instead of scaling it.
        grey = np.asarray(image, dtype=np.float32) / 257.0
        return np.clip(np.rint(grey), 0, 255).astype(np.uint8)[..., None]
    if image.has_transparency_data:
        return on_white(np.asarray(image.convert("RGBA")))
    return np.asarray(image.convert("RGB"))
