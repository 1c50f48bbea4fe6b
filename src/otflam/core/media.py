"""Images, videos and archives of strangers, opened so that they can neither call the network nor fill the memory."""

from __future__ import annotations

import gzip
import io
import lzma
import struct
import warnings
import zipfile
import zlib
from pathlib import Path

import av
import numpy as np
from av.container import InputContainer
from av.video.stream import VideoStream
from PIL import Image

from otflam.core.errors import UserError, first_line

PIXELS = 1 << 26
"""Of the largest frame that is read: twice that of an 8K film. A few bytes can promise any number of them."""
DAMAGED = (
    *(av.FFmpegError, OSError, EOFError, ValueError, SyntaxError, TypeError, IndexError, KeyError, AttributeError),
    *(struct.error, zlib.error, OverflowError, ZeroDivisionError, MemoryError, RuntimeError),
    *(Image.DecompressionBombError, NotImplementedError),
)
"""What ffmpeg and Pillow raise over files that are damaged, which they meet anywhere in their parsers."""
MAX_BYTES = 1 << 30
"""Bytes that a file may have when unpacked: the labels of a million frames, or twenty times MNIST."""
BROKEN = (
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error, EOFError, OSError, ValueError, KeyError),
    *(NotImplementedError, RuntimeError, MemoryError, OverflowError, TypeError, SyntaxError),
)
"""What zipfile and numpy raise over damaged archives; a header that promises too much ends in a MemoryError."""


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


def open_image(path: Path | io.BytesIO) -> Image.Image:
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


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """All arrays of an .npz file, or one line that says what is wrong with it; nothing in it is executed."""
    try:
        with zipfile.ZipFile(path) as archive:
            entries = archive.infolist()
            size = sum(entry.file_size for entry in entries)
            if size > MAX_BYTES:
                problem = f"{path} unpacks to {size / 1e9:,.1f} GB"
                raise UserError(problem, f"arrays of at most {MAX_BYTES / 1e9:.1f} GB are read")
            return {entry.filename.removesuffix(".npy"): _array(archive, entry) for entry in entries}
    except BROKEN as error:
        problem = f"{path} cannot be read as .npz ({first_line(error)})"
        raise UserError(problem, "restore it or write it with numpy.savez") from None


def _array(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> np.ndarray:
    # Whole, so that the checksum is compared before anything in it is believed.
    return np.lib.format.read_array(io.BytesIO(archive.read(entry)), allow_pickle=False)


def read_bytes(path: Path) -> bytes:
    """A file's bytes, unpacked if its name ends in .gz."""
    if path.suffix != ".gz":
        return path.read_bytes()
    with gzip.open(path) as stream:
        data = stream.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise UserError(
            f"{path} unpacks to more than {MAX_BYTES / 1e9:.1f} GB", "it holds no digits: name another file"
        )
    return data
