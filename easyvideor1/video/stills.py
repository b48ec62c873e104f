"""Pictures through Pillow: single images, frames of a list, animated WebP and PNG; always upright, always RGB."""

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
from easyvideor1.video.source import Source, first_bytes, remembered

EXIF_ORIENTATION = 0x0112
PILLOW_ERRORS = (
    OSError, SyntaxError, ValueError, TypeError, EOFError, RuntimeError, LookupError, ArithmeticError, struct.error,
    Image.DecompressionBombError,
)  # fmt: skip
"""Pillow reports damage by many exception types; all of them mean the same here."""
HEIC_STARTS = (b"ftypheic", b"ftypmif1")
ANIMATED_FORMATS = ("WEBP", "PNG", "AVIF", "GIF")


@dataclass(frozen=True, kw_only=True, slots=True)
class Picture:
    """What the header of a picture says."""

    width: int
    """Upright, in pixels."""
    height: int
    format: str
    num_frames: int
    """More than one only for animations."""


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
def animation_delays_s(source: Source) -> tuple[float, ...]:
    """How long each frame of an animated picture is shown; browsers show a frame of delay 0 for 0.1 s."""
    delays_ms = []
    with _opened(source) as image:
        for frame in _shown(image):
            frame.load()  # WebP and AVIF tell the delay of a frame only with its pixels
            delays_ms.append(frame.info.get("duration", 0))
    return tuple((delay or 100) / 1000 for delay in delays_ms)


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
                yield image
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
    if image.mode.startswith("I;16") or image.mode == "I":
        # Pillow would clip 16-bit grey at 255 instead of scaling it.
        grey = np.asarray(image, dtype=np.float32) / 257.0
        image = Image.fromarray(np.clip(np.rint(grey), 0, 255).astype(np.uint8))
    image = ImageOps.exif_transpose(image)
    if image.has_transparency_data:
        image = image.convert("RGBA")
        white = Image.new("RGBA", image.size, (255, 255, 255, 255))
        image = Image.alpha_composite(white, image)
    return np.ascontiguousarray(image.convert("RGB"))
