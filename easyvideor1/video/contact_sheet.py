"""A picture of what is seen: every frame of a clip with its time drawn on it."""

from __future__ import annotations

import math

from PIL import Image, ImageDraw, ImageFont

from easyvideor1.types import Clip

SHEET_WIDTH_PX = 1280
GAP_PX = 4
BACKGROUND = (32, 32, 32)


def contact_sheet(clip: Clip, *, width: int = SHEET_WIDTH_PX) -> Image.Image:
    """All frames in rows, in order, each labelled with its number and its time in seconds.

    Args:
        clip: T frames of H x W pixels; they are shrunk to fit, never enlarged.
        width: of the sheet, in pixels.
    """
    num_frames, _, frame_height, frame_width = clip.frames.shape
    # As many columns as make the sheet about half as high as wide, but no frame above its own size.
    by_shape = math.ceil(math.sqrt(2 * num_frames * frame_height / frame_width))
    columns = min(num_frames, max(1, by_shape, width // (frame_width + GAP_PX)))
    scale = min(1.0, ((width - GAP_PX) / columns - GAP_PX) / frame_width)
    cell = (max(1, round(frame_width * scale)), max(1, round(frame_height * scale)))
    rows = math.ceil(num_frames / columns)
    size = (GAP_PX + columns * (cell[0] + GAP_PX), GAP_PX + rows * (cell[1] + GAP_PX))
    sheet = Image.new("RGB", size, BACKGROUND)
    for number, (frame, time_s) in enumerate(zip(clip.frames, clip.times_s, strict=True)):
        row, column = divmod(number, columns)
        picture = Image.fromarray(frame.transpose(1, 2, 0)).resize(cell, Image.Resampling.LANCZOS)
        _label(picture, f"{number}  {time_s:.2f} s")
        sheet.paste(picture, (GAP_PX + column * (cell[0] + GAP_PX), GAP_PX + row * (cell[1] + GAP_PX)))
    return sheet


def _label(picture: Image.Image, text: str) -> None:
    font = ImageFont.load_default(size=max(8, min(14, picture.width // 8)))
    pen = ImageDraw.Draw(picture)
    left, top, right, bottom = pen.textbbox((3, 1), text, font=font)
    pen.rectangle((left - 3, top - 1, right + 3, bottom + 2), fill=(0, 0, 0))
    pen.text((3, 1), text, font=font, fill=(255, 255, 255))
