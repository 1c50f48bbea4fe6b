"""Background videos of a Distracting Control Suite: a built-in set, DAVIS-2017, or any folder of videos.

The built-in clips need no download: each is drawn from its seed. Every size shows the same content.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path

import numpy as np
from jaxtyping import UInt8
from PIL import Image
from PIL.Image import Resampling

from otflam.core import DAMAGED, UserError, digest_files, open_image, open_video, reason, require_name, video_stream
from otflam.envs.scenery import NATIVE, THEMES, film_scene

SPLITS = ("train", "validation")
DAVIS = {
    "train": """bear bmx-bumps boat boxing-fisheye breakdance-flare bus car-turn cat-girl classic-car color-run
        crossing dance-jump dancing disc-jockey dog-agility dog-gooses dogs-scale drift-turn drone elephant flamingo
        hike hockey horsejump-low kid-football kite-walk koala lady-running lindy-hop longboard lucia mallard-fly
        mallard-water miami-surf motocross-bumps motorbike night-race paragliding planes-water rallye rhino
        rollerblade schoolgirls scooter-board scooter-gray sheep skate-park snowboard soccerball stroller stunt surf
        swing tennis tractor-sand train tuk-tuk upside-down varanus-cage walking""",
    "validation": """bike-packing blackswan bmx-trees breakdance camel car-roundabout car-shadow cows dance-twirl dog
        dogs-jump drift-chicane drift-straight goat gold-fish horsejump-high india judo kite-surf lab-coat libby
        loading mbike-trick motocross-jump paragliding-launch parkour pigs scooter-black shooting soapbox""",
}


def open_backgrounds(source: str, split: str) -> Backgrounds:
    """Open the clips of one split: of the built-in set if `source` is "builtin", else of the folder it names."""
    require_name("split", split, SPLITS)
    if source != "builtin":
        return _open_folder(Path(source).expanduser(), split)
    titles = tuple(f"builtin-{split}-{index:02d}" for index in range(60 if split == "train" else 30))
    return BuiltinBackgrounds(titles, split)


def ping_pong(length: int, rng: np.random.Generator, dynamic: bool) -> Iterator[int]:
    """Frame numbers for ever: from a random frame in a random direction, back at each end; one frame if not dynamic."""
    # Drawn now, not at the first step, so that others who share the generator are not affected by when that is.
    start, backwards = int(rng.integers(length)), bool(rng.integers(2))
    there_and_back = [*range(length), *range(length - 2, 0, -1)]
    first = -start % len(there_and_back) if backwards else start
    return islice(cycle(there_and_back), first, None) if dynamic else cycle([start])


@dataclass(frozen=True)
class Backgrounds(ABC):
    """Numbered clips to show behind an environment."""

    titles: tuple[str, ...]

    @property
    @abstractmethod
    def name(self) -> str:
        """Stands for the set in data records."""

    def __len__(self) -> int:
        return len(self.titles)

    @abstractmethod
    def draw(self, index: int, size: int) -> Iterator[Image.Image]:
        """The frames of a clip, one by one, squeezed to a square."""

    def clip(self, index: int, size: int) -> UInt8[np.ndarray, "frames size size 3"]:
        """All frames of a clip; read-only, because the last few clips are kept and shared."""
        key = (self, index, size)
        if key not in KEPT:
            frames = np.stack([np.asarray(frame) for frame in self.draw(index, size)])
            frames.flags.writeable = False
            KEPT[key] = frames
            while len(KEPT) > 1 and sum(clip.nbytes for clip in KEPT.values()) > KEPT_BYTES:
                KEPT.pop(next(iter(KEPT)))
        return KEPT[key]


KEPT: dict[tuple[Backgrounds, int, int], np.ndarray] = {}
"""The last clips that were drawn in this process, the oldest first."""
KEPT_BYTES = 2**28


# --- Folders ---------------------------------------------------------------------------------------------------------

IMAGES = {".jpg", ".jpeg", ".png", ".bmp", ".webp"}
VIDEOS = {".mp4", ".avi", ".mov", ".mkv", ".webm", ".gif"}
MAX_FRAMES = 1000
"""A longer clip is cut here: an episode has 1000 steps, and a whole film would not fit in memory."""


@dataclass(frozen=True)
class FolderBackgrounds(Backgrounds):
    """Clips from disk: each is one video file, or the images of one sub-folder in the order of their names."""

    files: tuple[tuple[Path, ...], ...]
    everything: tuple[tuple[Path, int, int], ...]
    """The files of both splits, with size and time: other content under these names must not be found among KEPT."""
    root: Path
    is_davis: bool

    @property
    def name(self) -> str:
        """With a digest of all that lies there, whichever split is shown; reading it takes a second for DAVIS."""
        named = [(file.relative_to(self.root).as_posix(), file) for file, _, _ in self.everything]
        try:
            content = digest_files(named)
        except OSError as error:
            raise UserError(f"cannot read {error.filename} ({error.strerror})", "make it readable") from error
        return f"folder:{'davis-' * self.is_davis}{self.root.name}:{content[:12]}"

    def draw(self, index: int, size: int) -> Iterator[Image.Image]:
        files = self.files[index]
        frames = _decode_video(files[0]) if files[0].suffix.lower() in VIDEOS else map(_read_image, files)
        return (frame.resize((size, size), Resampling.BICUBIC) for frame in islice(frames, MAX_FRAMES))


def _open_folder(folder: Path, split: str) -> FolderBackgrounds:
    if not folder.is_dir():
        raise UserError(f"no folder {folder} to take background videos from", "give an existing folder, or 'builtin'")
    davis_root = folder / "JPEGImages" / "480p"
    root = davis_root if davis_root.is_dir() else folder.resolve()
    try:
        found = _find_clips(root)
        every = sorted(file for files in found.values() for file in files)
        everything = tuple((file, file.stat().st_size, file.stat().st_mtime_ns) for file in every)
    except OSError as error:
        raise UserError(f"cannot list {root} ({error})", "make the folder and all in it readable") from error
    if not found:
        cure = f"it needs one sub-folder of images per video, or video files ({' '.join(sorted(VIDEOS))})"
        raise UserError(f"no background videos in {root}", cure)
    # Some of DAVIS's names are ordinary words (train, dog, bus), so one of them alone proves nothing.
    is_davis = root.parts[-2:] == ("JPEGImages", "480p") or set(found) <= set(" ".join(DAVIS.values()).split())
    titles = [title for title in DAVIS[split].split() if title in found] if is_davis else _halve(sorted(found), split)
    if not titles:
        cure = "unpack all of DAVIS-2017 trainval 480p there, or rename the sub-folders if they are not DAVIS"
        raise UserError(f"{root} has none of the {split} videos of DAVIS-2017", cure)
    return FolderBackgrounds(tuple(titles), tuple(found[title] for title in titles), everything, root, is_davis)


def _find_clips(root: Path) -> dict[str, tuple[Path, ...]]:
    loose = (file for file in root.iterdir() if file.suffix.lower() in IMAGES and not file.name.startswith("."))
    clips = {root.name: tuple(sorted(loose))}
    for entry in root.iterdir():
        if entry.is_dir():
            images = (file for file in entry.iterdir() if file.suffix.lower() in IMAGES)
            clips[entry.name] = tuple(sorted(file for file in images if not file.name.startswith(".")))
        elif entry.suffix.lower() in VIDEOS:
            clips[entry.name] = (entry,)
    return {title: files for title, files in clips.items() if files and not title.startswith(".")}


def _halve(titles: list[str], split: str) -> list[str]:
    """The first two thirds train and the rest validate; a single clip does both."""
    border = max(1, 2 * len(titles) // 3)
    return titles[:border] if split == "train" else titles[border:] or titles


def _read_image(path: Path) -> Image.Image:
    try:
        with open_image(path) as image:
            return image.convert("RGB")
    except DAMAGED as error:
        raise UserError(f"cannot read the image {path} ({reason(error)})", "replace the file or remove it") from error


def _decode_video(path: Path) -> Iterator[Image.Image]:
    try:
        with open_video(path) as container:
            frame, stream = None, video_stream(container)
            for frame in container.decode(stream) if stream is not None else ():
                yield frame.to_image()
            if frame is None:
                raise ValueError("it has no frames")
    except DAMAGED as error:
        raise UserError(f"cannot decode the video {path} ({reason(error)})", "re-encode it or remove it") from error


@dataclass(frozen=True)
class BuiltinBackgrounds(Backgrounds):
    """Clips drawn from their seeds: the same bits in every process."""

    split: str

    @property
    def name(self) -> str:
        return "builtin-v1"

    def draw(self, index: int, size: int) -> Iterator[Image.Image]:
        seeds = np.random.SeedSequence([20260, SPLITS.index(self.split), range(len(self))[index]])
        method = Resampling.BOX if size < NATIVE else Resampling.BICUBIC
        # Neighbours differ in theme, so that even the first few clips are varied.
        scene = film_scene(np.random.Generator(np.random.PCG64(seeds)), index % len(THEMES))
        return (frame.resize((size, size), method) for frame in scene)
