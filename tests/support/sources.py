"""The file behind a medium, for tests of what reads files."""

from pathlib import Path

from easyvideor1.types import Media
from easyvideor1.video.source import Source, locate


def file_of(media: Media) -> Source:
    """The one file of a video or image; a folder of frames has several."""
    source = locate(media)
    assert isinstance(source, Source)
    return source


def video_file(path: Path) -> Source:
    return file_of(Media(kind="video", path=str(path)))


def video_bytes(content: bytes) -> Source:
    return file_of(Media(kind="video", path="clip", data=content))
