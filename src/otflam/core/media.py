"""Images and videos of strangers, opened so that they can neither call the network nor fill the memory."""

from __future__ import annotations

import struct
import warnings
import zlib
from pathlib import Path

import av
from av.container import InputContainer
from av.video.stream import VideoStream
from PIL import Image

PIXELS = 1 << 26
"""Of the largest frame that is read: twice that of an 8K film. A few bytes can promise any number of them."""
DAMAGED = (
    *(av.FFmpegError, OSError, EOFError, ValueError, SyntaxError, TypeError, IndexError, KeyError, AttributeError),
    *(struct.error, zlib.error, OverflowError, ZeroDivisionError, MemoryError, RuntimeError),
    *(Image.DecompressionBombError, NotImplementedError),
)
"""What ffmpeg and Pillow raise over files that are damaged, which they meet anywhere in their parsers."""


def open_video(path: Path) -> InputContainer:
    """Open a video file; one that can only be read as text has no video stream."""
    # The white list keeps a playlist from opening network addresses. Tags may be in any encoding.
    return av.open(str(path.resolve()), options={"protocol_whitelist": "file"}, metadata_errors="replace")


def video_stream(container: InputContainer) -> VideoStream | None:
    """A file's first video stream, if it has one; ffmpeg draws any .txt as a terminal."""
    if not container.streams.video or container.format.name == "tty":
        return None
    stream = container.streams.video[0]
    stream.thread_type = "AUTO"
    if stream.width * stream.height > PIXELS:
        raise ValueError(f"its frames have {stream.width}×{stream.height} pixels, more than {PIXELS:,}")
    stream.codec_context.options = {"max_pixels": str(PIXELS)}  # sizes may change on the way
    return stream


def open_image(path: Path) -> Image.Image:
    """Open an image, whose pixels are not decoded yet."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of tags that nobody needs, and of a size that is judged below
        image = Image.open(path)
    if image.width * image.height > PIXELS:
        image.close()
        raise ValueError(f"it has {image.width}×{image.height} pixels, more than {PIXELS:,}")
    return image


def reason(error: BaseException) -> str:
    """What is wrong, in one line."""
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return text.splitlines()[0]
