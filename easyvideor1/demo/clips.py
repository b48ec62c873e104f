"""Made-up scenes of moving shapes: drawn as arrays, written as H.264 clips and PNG images."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import av
import numpy as np
from PIL import Image, ImageDraw

FPS = 8
COLOURS = {
    "red": (225, 40, 40),
    "green": (40, 190, 60),
    "blue": (60, 80, 245),
    "yellow": (245, 220, 40),
}
SHAPES = ("circle", "square", "triangle")
DIRECTIONS = {"left": (-1.0, 0.0), "right": (1.0, 0.0), "up": (0.0, -1.0), "down": (0.0, 1.0)}
BACKGROUNDS = ("plain", "gradient", "stripes", "speckle")


@dataclass(frozen=True, kw_only=True, slots=True)
class Thing:
    """One coloured shape; lengths are fractions of the picture's side."""

    colour: str
    shape: str
    x: float
    y: float
    """Centre at time 0."""
    radius: float
    dx_per_s: float = 0.0
    dy_per_s: float = 0.0
    start_s: float = 0.0
    """Seen from here ..."""
    end_s: float = math.inf
    """... until just before here."""

    def is_visible(self, time_s: float) -> bool:
        return self.start_s <= time_s < self.end_s


@dataclass(frozen=True, kw_only=True, slots=True)
class Scene:
    """What one clip or image shows."""

    things: tuple[Thing, ...]
    duration_s: float
    """Length of the clip; 0.0 for an image."""
    background: str
    shade: int
    """Mean grey of the background, 0-255."""
    texture_seed: int


def draw(scene: Scene, times_s: Sequence[float], *, side_px: int) -> np.ndarray:
    """The pictures at the given times: uint8 [T, H, W, 3], H = W = side_px."""
    empty = Image.fromarray(background(scene, side_px=side_px))
    return np.stack([_draw_things(scene, time_s, empty.copy()) for time_s in times_s])


def _draw_things(scene: Scene, time_s: float, image: Image.Image) -> np.ndarray:
    side_px = image.width
    pen = ImageDraw.Draw(image)
    for thing in scene.things:
        if not thing.is_visible(time_s):
            continue
        x, y = thing.x + thing.dx_per_s * time_s, thing.y + thing.dy_per_s * time_s
        box = [side_px * value for value in (x - thing.radius, y - thing.radius, x + thing.radius, y + thing.radius)]
        colour = COLOURS[thing.colour]
        if thing.shape == "circle":
            pen.ellipse(box, fill=colour)
        elif thing.shape == "square":
            pen.rectangle(box, fill=colour)
        else:
            pen.polygon([(box[0], box[3]), (box[2], box[3]), (side_px * x, box[1])], fill=colour)
    return np.asarray(image)


def background(scene: Scene, *, side_px: int) -> np.ndarray:
    """The scene without its things: uint8 [H, W, 3], grey."""
    rng = np.random.default_rng(scene.texture_seed)
    grey = np.full((side_px, side_px), float(scene.shade))
    ramp = np.linspace(-25.0, 25.0, side_px)
    if scene.background == "gradient":
        grey += ramp if rng.random() < 0.5 else ramp[:, None]
    elif scene.background == "stripes":
        wave = 18.0 * np.sign(np.sin(np.arange(side_px) * 2 * np.pi / rng.integers(side_px // 8, side_px // 3)))
        grey += wave if rng.random() < 0.5 else wave[:, None]
    elif scene.background == "speckle":
        cells = rng.normal(0.0, 14.0, (16, 16))
        grey += np.kron(cells, np.ones((math.ceil(side_px / 16),) * 2))[:side_px, :side_px]
    return np.repeat(np.clip(grey, 0, 255).astype(np.uint8)[:, :, None], 3, axis=2)


def write_clip(scene: Scene, path: Path, *, side_px: int) -> None:
    """Encode the scene as H.264 in an mp4 file, the same bytes for the same scene and encoder."""
    with av.open(str(path), "w") as container:
        options = {"crf": "18", "preset": "veryfast", "x264-params": "mbtree=0"}
        stream = container.add_stream("libx264", rate=FPS, options=options)
        stream.width = stream.height = side_px
        stream.pix_fmt = "yuv420p"
        # Frame threads would make the bytes depend on the machine, and x264's macroblock tree reads memory that nobody
        # wrote: one clip in 20 came out another way the second time.
        stream.codec_context.thread_count = 1
        times_s = [index / FPS for index in range(round(scene.duration_s * FPS))]
        for picture in draw(scene, times_s, side_px=side_px):
            container.mux(stream.encode(av.VideoFrame.from_ndarray(picture, "rgb24")))
        container.mux(stream.encode())


def write_image(scene: Scene, path: Path, *, side_px: int) -> None:
    """Write the scene at time 0 as PNG."""
    Image.fromarray(draw(scene, (0.0,), side_px=side_px)[0]).save(path)
