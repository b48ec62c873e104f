"""Video files opened with PyAV: their largest video stream, its frames from the start, the look of the first one."""

from __future__ import annotations

import io
import math
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast

import av
import av.container
import av.error
import av.stream
import av.video.codeccontext
import av.video.stream
import numpy as np

from easyvideor1.errors import MediaError
from easyvideor1.video.source import MOST_PIXELS, Source, first_bytes, remembered

LIBRARY = f"av{av.__version__}"
"""What reads files, and in which version."""
PLAYLISTS = frozenset({"concat", "hls", "dash", "imf", "sdp"})
"""What they show is in other files, which may change, or be anywhere."""
DECODERS_WITH_ALPHA = {"vp8": "libvpx", "vp9": "libvpx-vp9"}
"""FFmpeg's own decoders leave the transparency of these codecs out."""
MOST_STREAMS = 256
MOST_FAILED_ENDS = 64
"""Times a decoder may fail to give its last frames: one for each frame it may hold; some fail without end."""

VideoStream = av.video.stream.VideoStream
Decoder = av.video.codeccontext.VideoCodecContext
InputContainer = av.container.InputContainer


@contextmanager
def opened(source: Source, *, is_header_enough: bool = False) -> Iterator[tuple[InputContainer, VideoStream]]:
    """The container and its video stream with the largest picture (the first of equals); closed at the end.

    Args:
        is_header_enough: do not decode a frame to learn its format; only an MP4 tells it without.
    """
    container = _open(source, {"codec_whitelist": "none"} if is_header_enough else {})
    if is_header_enough and any(_num_pixels(stream) == 0 for stream in container.streams.video):
        container.close()  # MPEG-4 part 2 and H.263 keep their size where only the decoder finds it
        container = _open(source, {})
    with container:
        streams = [stream for stream in container.streams.video if not _is_cover(stream)]
        # Not FFmpeg's "best": that one depends on how much of the file was read to find out.
        stream = max(streams, key=_num_pixels, default=None)
        if stream is None:
            kinds = ", ".join(sorted({other.type for other in container.streams})) or "none"
            raise MediaError(f"no video stream (streams: {kinds}; a cover picture is no video)", where=source.name)
        if stream.codec_context is None:
            raise MediaError("no decoder for its codec in this build of PyAV", where=source.name)
        yield container, cast(VideoStream, stream)


def _open(source: Source, options: dict[str, str]) -> InputContainer:
    # also while frames are decoded to learn their format
    limits = [{"max_pixels": str(MOST_PIXELS)}] * MOST_STREAMS
    try:
        container = _opened_with(source, options, limits)
    except ValueError:  # a format that tells its streams late (FLV, MPEG-PS) takes no limits for them
        container = _opened_with(source, options, [])
    kind = container.format.name
    if kind in PLAYLISTS:
        container.close()
        raise MediaError(f"a list of other files ({kind}), not a video", where=source.name, remedy="give those files")
    if kind == "image2" or kind.endswith("_pipe"):  # the first goes by the name of the file
        container.close()
        raise MediaError(f"a picture of a kind that is no video ({kind})", where=source.name, remedy="make it a PNG")
    return container


def _opened_with(source: Source, options: dict[str, str], stream_options: list[dict[str, str]]) -> InputContainer:
    # "file:" keeps a colon in a name from being read as a protocol
    file = io.BytesIO(source.data) if source.data is not None else f"file:{source.path}"
    try:
        container = av.open(
            file,
            # by the name of the file, the first picture of a bare stream would be all there is
            format="mjpeg" if source.content == "jpeg stream" else None,
            container_options=options,
            stream_options=cast(Any, stream_options),
            # metadata is often not UTF-8; nothing here depends on it
            metadata_errors="ignore",  # pyright: ignore
        )
    except (av.error.FFmpegError, OSError, MemoryError) as error:
        raise _unopened(source, error) from None
    return cast(InputContainer, container)


def _num_pixels(stream: VideoStream) -> int:
    return stream.codec_context.width * stream.codec_context.height if stream.codec_context else -1


def _is_cover(stream: Any) -> bool:
    return bool(stream.disposition & av.stream.Disposition.attached_pic)


def _unopened(source: Source, error: Exception) -> MediaError:
    head = source.head(12)
    if head[4:8] == b"ftyp":
        return MediaError(
            f"its index is missing or damaged: the file is cut or still being written ({_reason(error)})",
            where=source.name,
            remedy="download it again",
        )
    return MediaError(
        f"not a video ({_reason(error)}); it begins with {first_bytes(source)}",
        where=source.name,
        remedy="a failed download is often a saved error page",
    )


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)


def codec_name(stream: VideoStream) -> str:
    return stream.codec_context.name if stream.codec_context else "unknown"


def decoder_of(stream: VideoStream, *, threads: int, is_strict: bool = False) -> Decoder:
    """A decoder for the packets of a stream, transparency included.

    Args:
        is_strict: let it fail on damage instead of covering it up.
    """
    decoder = stream.codec_context
    if stream.metadata.get("alpha_mode") == "1" and decoder.name in DECODERS_WITH_ALPHA:
        decoder = cast(Decoder, av.CodecContext.create(DECODERS_WITH_ALPHA[decoder.name], "r"))
        decoder.extradata = stream.codec_context.extradata
    decoder.options = {"max_pixels": str(MOST_PIXELS)} | ({"err_detect": "explode"} if is_strict else {})
    decoder.thread_count = threads
    return decoder


def frames_from_start(
    container: InputContainer, stream: VideoStream, decoder: Decoder, *, is_strict: bool
) -> Iterator[av.VideoFrame]:
    """Every frame that decodes, in display order; packets that fail are stepped over.

    Args:
        decoder: a fresh one of the stream.
        is_strict: leave out what may be wrong: damaged frames, and all that follow damage up to the next key frame.
    """
    packets = container.demux(stream)
    is_tainted = False
    num_failed_ends = 0
    while num_failed_ends < MOST_FAILED_ENDS:
        packet = None
        try:
            packet = next(packets, None)
            frames = decoder.decode(packet if packet is not None and packet.size else None)
        except av.error.EOFError:
            return
        except av.error.InvalidDataError:
            is_tainted = is_strict
            num_failed_ends += packet is None or not packet.size
            continue
        except av.error.FFmpegError:
            return
        for frame in frames:
            is_tainted = is_tainted and not frame.key_frame
            if not is_tainted and not (is_strict and frame.is_corrupt):
                yield frame
        if packet is None or not packet.size:
            return


@dataclass(frozen=True, slots=True)
class Orientation:
    """How stored pixels become upright ones: first swap rows and columns, then flip."""

    is_swapped: bool = False
    flips_x: bool = False
    flips_y: bool = False

    @property
    def is_mirrored(self) -> bool:
        """Whether it is more than a turn by quarters."""
        return (self.flips_x != self.flips_y) != self.is_swapped

    def apply(self, frame: np.ndarray) -> np.ndarray:
        """A view of [H, W, ...]."""
        if self.is_swapped:
            frame = frame.swapaxes(0, 1)
        return frame[:: -1 if self.flips_y else 1, :: -1 if self.flips_x else 1]


UPRIGHT = Orientation()


@dataclass(frozen=True, slots=True)
class FirstFrame:
    """Facts about all frames that the first decoded one shows."""

    orientation: Orientation = UPRIGHT
    transfer: int = 2
    """Code of its transfer function (ITU-T H.273); 2 is "unspecified"."""
    has_alpha: bool = False


@remembered(512)
def first_frame(source: Source) -> FirstFrame:
    """The look of the first frame that decodes; that of a plain one where there is none."""
    with opened(source) as (container, stream):
        decoder = decoder_of(stream, threads=1)
        frame = next(frames_from_start(container, stream, decoder, is_strict=False), None)
        if frame is None:
            return FirstFrame()
        return FirstFrame(orientation_of(frame), int(frame.color_trc), has_alpha(frame.format))


def has_alpha(layout: av.VideoFormat) -> bool:
    """Whether pixels of a format may be transparent."""
    return layout.has_palette or any(component.is_alpha for component in layout.components)


def orientation_of(frame: av.VideoFrame) -> Orientation:
    """The display matrix of a frame, its angle rounded to a quarter turn."""
    for data in cast(list[Any], list(frame.side_data)):
        if data.type.name == "DISPLAYMATRIX":
            a, b, _, c, d = struct.unpack_from("=5i", bytes(data))
            if math.hypot(a, d) >= math.hypot(b, c):
                return Orientation(is_swapped=False, flips_x=a < 0, flips_y=d < 0)
            return Orientation(is_swapped=True, flips_x=c < 0, flips_y=b < 0)
    return UPRIGHT
