"""The example of the package: a short clip with its motion codes, for pages that have no data of their own.

`python -m otflam.report.example` renders it anew.

Axes: n frames, h w pixels.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing, contextmanager
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from einops import rearrange
from jaxtyping import UInt8
from PIL import Image

from otflam.core import replacing
from otflam.data import Column, StoreWriter
from otflam.envs import World, episode_seed, make_policy, open_world, play_episode
from otflam.report.runs import ShownData
from otflam.tokenizer import OTF, load_tokenizer, packaged_tokenizer

CLIP = files("otflam.report") / "assets" / "example.webp"
NAME = "packaged example"
WORLD = World("cheetah-run", split="validation")
"""The packaged vocabulary was learned on the other body, and backgrounds of this split are in no training data."""
SEED, SKIPPED, ROWS, COLUMNS, SIDE = 3000, 40, 8, 12, 64
"""Which episode, from which step on, how its frames lie in the picture, and how large they are."""
QUALITY = 88


@contextmanager
def example_data() -> Generator[ShownData]:
    """The clip as a data set that lasts as long as somebody looks at it, with the packaged vocabulary."""
    tokenizer = load_tokenizer(packaged_tokenizer())
    if not isinstance(tokenizer, OTF):
        raise TypeError("the packaged tokenizer is not factorised")
    with TemporaryDirectory() as folder:
        frames = read_clip()
        columns = {"frames": Column("uint8", frames.shape[1:])}
        writer = StoreWriter(Path(folder) / NAME, columns, {"world": WORLD})
        writer.append(0, {"frames": frames}, {})
        yield ShownData(writer.finish({}, 1), tokenizer, {}, [0])


def read_clip() -> UInt8[np.ndarray, "n h w 3"]:
    with CLIP.open("rb") as stream, Image.open(stream) as picture:
        sheet = np.asarray(picture.convert("RGB"))
    return np.ascontiguousarray(rearrange(sheet, "(r h) (c w) k -> (r c) h w k", r=ROWS, c=COLUMNS))


def draw_clip(path: Path) -> Path:
    """Let the expert run, and write some frames as one picture."""
    with closing(open_world(WORLD)) as env:
        steps = SKIPPED + ROWS * COLUMNS
        frames = play_episode(env, make_policy("expert", env), episode_seed(SEED, 0), steps=steps).frames[SKIPPED:]
    sheet = rearrange(frames, "(r c) h w k -> (r h) (c w) k", r=ROWS)
    with replacing(path) as temporary:
        Image.fromarray(np.ascontiguousarray(sheet)).save(temporary, "WEBP", quality=QUALITY, method=6)
    return path


if __name__ == "__main__":
    draw_clip(Path(str(CLIP)))
