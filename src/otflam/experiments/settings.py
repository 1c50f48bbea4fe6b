"""Settings for a data set, from a minute of measurements: which gap between frames, how many codes, how much data.

No network is trained: motion is measured at several gaps, and patches of it are clustered by k-means, with clusters
from some episodes and errors from others. What that cannot tell is told too.

Axes: b samples, m h w motion, u v grid, n patches, f numbers of a patch, k codes, g groups of held-out clips.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor

from otflam.core import SILENT, Progress, UserError
from otflam.data import Clips, Store
from otflam.evaluate import noise_energy
from otflam.motion import MotionConfig
from otflam.tokenizer import OTF, TokenizerConfig, build_tokenizer, kmeans

GAPS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
SIZES = (8, 16, 32, 64, 128, 256)
SHARES = (1 / 16, 1 / 8, 1 / 4, 1 / 2, 1.0)
"""Of the episodes that clusters are learned from, to see whether more would help."""
GLANCES, CLIPS, TOKENS = 64, 160, 8_000
"""Clips that a gap is measured on, clips that patches are taken from, and patches that are clustered."""
GROUPS = 12
"""Groups of held-out clips whose differences tell how sure a number is."""
FOLLOWED = 0.5
"""Share of the motion between unrelated times up to which what moves can be followed."""
STILL = 4.0
"""Times the energy of a camera's noise below which a patch stands still."""
WORTH = 0.02
"""Share of the motion's energy that twice as many codes, or twice as many videos, must win to be worth it."""


@dataclass(frozen=True)
class Gap:
    """Motion between frames that lie so far apart."""

    frames: int
    energy: float
    """Over that of unrelated times of the same episodes."""
    still: float
    """Share of patches."""


@dataclass(frozen=True)
class Point:
    """What so many codes, or clusters from so much data, leave of the motion of held-out clips."""

    amount: int
    lost: float
    """Squared error over energy."""
    gain: float | None
    """How much less than the point before."""
    error: float | None
    """Standard error of the gain over groups of held-out clips."""

    @property
    def worth(self) -> bool:
        """Whether it gains enough beyond doubt."""
        return self.gain is None or (self.error is not None and self.gain - 2 * self.error > WORTH)

    @property
    def unclear(self) -> bool:
        return self.gain is not None and self.error is not None and abs(self.gain - WORTH) <= 2 * self.error


@dataclass(frozen=True)
class Suggestion:
    store: Store
    gaps: list[Gap]
    gap: int
    sizes: list[Point]
    codes: int
    amounts: list[Point]
    apart: bool
    """Whether errors are of episodes that clusters were not learned from."""


def suggest(store: Store, progress: Progress = SILENT) -> Suggestion:
    """Measure a data set, and choose."""
    channels = store.columns["frames"].shape[-1] if "frames" in store else 0
    if channels not in (1, 3):
        raise UserError(f"{store.path} has no frames with colours or grey", "suggestions need pictures")
    progress = progress.part("measure", "measurements")
    gaps = measure_gaps(store, channels, progress)
    gap = choose_gap(gaps)
    learn, held = split(store, gap)
    tokenizer = tokenizer_at(gap, channels)
    unseen = held_out_patches(tokenizer, Clips(store, (0, gap), episodes=held[0]), held[1])
    pool = patches(tokenizer, Clips(store, (0, gap), episodes=learn[0]), learn[1])
    sizes = list(measure_sizes(pool, unseen, progress))
    codes = choose_codes(sizes)
    amounts = list(measure_amounts(store, tokenizer, learn, gap, codes, unseen, progress))
    return Suggestion(store, gaps, gap, sizes, codes, amounts, len(store) > 1)


def tokenizer_at(gap: int, channels: int) -> OTF:
    tokenizer = build_tokenizer(TokenizerConfig(motion=MotionConfig(stride=gap), channels=channels))
    assert isinstance(tokenizer, OTF)
    return tokenizer.eval()


def signals(tokenizer: OTF, clips: Clips, chosen: np.ndarray) -> Iterator[Float[Tensor, "b m h w"]]:
    """The motion of some clips, a few at a time."""
    with torch.inference_mode():
        for rows in np.array_split(chosen, -(-len(chosen) // 32)):
            yield tokenizer.observe(clips.gather(rows))[1]


def cut_patches(tokenizer: OTF, signal: Float[Tensor, "b m h w"]) -> Float[Tensor, "b p f"]:
    size = tokenizer.config.patch
    return rearrange(signal, "b m (u i) (v j) -> b (u v) (m i j)", i=size, j=size)


def measure_gaps(store: Store, channels: int, progress: Progress) -> list[Gap]:
    """Motion at every gap that at least half of the episodes have room for."""
    room = int(np.median(store.lengths)) - 1
    if room < 1:
        raise UserError(f"{store.path} has episodes of one frame", "motion needs two")
    tokenizer = tokenizer_at(1, channels)
    floor = STILL * noise_energy(tokenizer)
    far, _ = energy_at(store, channels, max(1, room // 2), floor)
    gaps = []
    for place, frames in enumerate(GAPS):
        if frames <= room:
            energy, still = energy_at(store, channels, frames, floor)
            gaps.append(Gap(frames, energy / max(far, 1e-12), still))
        progress.reach(place + 1, len(GAPS) + len(SIZES) + len(SHARES))
    if not far:
        raise UserError(f"nothing moves in {store.path}", "there is no motion to learn codes of")
    return gaps


def energy_at(store: Store, channels: int, gap: int, floor: float) -> tuple[float, float]:
    """Mean energy of a patch, and the share of patches that stand still."""
    tokenizer, clips = tokenizer_at(gap, channels), Clips(store, (0, gap))
    energy = [
        cut_patches(tokenizer, signal).square().sum(-1)
        for signal in signals(tokenizer, clips, clips.evenly_spaced(GLANCES))
    ]
    return float(torch.cat(energy).mean()), float((torch.cat(energy) < floor).float().mean())


def choose_gap(gaps: Sequence[Gap]) -> int:
    """The largest gap at which what moves can still be followed, or else the smallest there is."""
    return max((gap.frames for gap in gaps if gap.energy <= FOLLOWED), default=gaps[0].frames)


Part = tuple[list[int], tuple[float, float]]
"""Episodes, and which share of their clips: from, to."""


def split(store: Store, gap: int) -> tuple[Part, Part]:
    """Every second episode to learn from, the others held out; of a single one the first and the last part."""
    usable = [index for index in range(len(store)) if store.lengths[index] > gap]
    if len(usable) == 1:
        return (usable, (0.0, 0.5)), (usable, (0.55, 1.0))
    return (usable[::2], (0.0, 1.0)), (usable[1::2], (0.0, 1.0))


def some_clips(clips: Clips, part: tuple[float, float]) -> np.ndarray:
    first, last = (round(share * (len(clips) - 1)) for share in part)
    return np.unique(np.linspace(first, max(first, last), CLIPS).round().astype(np.int64))


def patches(tokenizer: OTF, clips: Clips, part: tuple[float, float]) -> Float[Tensor, "n f"]:
    """Patches of evenly spaced clips, those that move more likely the more they do: else stillness is all there is."""
    all_of = torch.cat([cut_patches(tokenizer, each) for each in signals(tokenizer, clips, some_clips(clips, part))])
    flat = all_of.flatten(0, 1)
    weight = flat.square().sum(-1).sqrt() + 1e-6
    random = torch.Generator().manual_seed(0)
    return flat[torch.multinomial(weight, min(TOKENS, len(flat)), generator=random)]


def held_out_patches(tokenizer: OTF, clips: Clips, part: tuple[float, float]) -> list[Float[Tensor, "n f"]]:
    """All patches of held-out clips, in groups of neighbours in time."""
    chosen = some_clips(clips, part)[::2]
    groups = np.array_split(chosen, min(GROUPS, len(chosen)))
    return [
        torch.cat([cut_patches(tokenizer, each) for each in signals(tokenizer, clips, group)]).flatten(0, 1)
        for group in groups
    ]


def lost_by(centres: Float[Tensor, "k f"], groups: Sequence[Tensor]) -> Float[np.ndarray, "g 2"]:
    """Squared error and energy of every group when each patch is its nearest centre."""
    found = []
    for group in groups:
        apart = torch.addmm(centres.square().sum(1), group, centres.T, alpha=-2).amin(1) + group.square().sum(1)
        found.append([float(apart.clamp_min(0).sum()), float(group.square().sum())])
    return np.array(found)


def cluster(pool: Float[Tensor, "n f"], codes: int) -> Float[Tensor, "k f"]:
    """k-means centres, one of them stillness."""
    centres, _ = kmeans(pool, codes - 1, torch.Generator().manual_seed(0))
    return torch.cat([torch.zeros(1, pool.shape[1]), centres])


def measure_sizes(pool: Tensor, unseen: Sequence[Tensor], progress: Progress) -> Iterator[Point]:
    before = None
    for place, codes in enumerate(SIZES):
        found = lost_by(cluster(pool, codes), unseen)
        yield point(codes, found, before)
        before = found
        progress.reach(len(GAPS) + place + 1, len(GAPS) + len(SIZES) + len(SHARES))


def measure_amounts(
    store: Store, tokenizer: OTF, learn: Part, gap: int, codes: int, unseen: Sequence[Tensor], progress: Progress
) -> Iterator[Point]:
    """The error of as many codes from more and more episodes (or of a single one, from more and more of it)."""
    (episodes, (first, last)), before, done = learn, None, 0
    for place, share in enumerate(SHARES):
        count = max(1, round(share * len(episodes)))
        amount = count if len(episodes) > 1 else round(share * (last - first) * int(store.lengths[episodes[0]]))
        if amount > done:
            some = np.linspace(0, len(episodes) - 1, count).round().astype(int)
            part = (first, last) if len(episodes) > 1 else (first, first + share * (last - first))
            clips = Clips(store, (0, gap), episodes=[episodes[index] for index in some])
            found = lost_by(cluster(patches(tokenizer, clips, part), codes), unseen)
            yield point(amount, found, before)
            before, done = found, amount
        progress.reach(len(GAPS) + len(SIZES) + place + 1, len(GAPS) + len(SIZES) + len(SHARES))


def point(amount: int, found: Float[np.ndarray, "g 2"], before: np.ndarray | None) -> Point:
    """An error, and what it gained on the one before, with its jackknife over groups."""
    lost = float(found[:, 0].sum() / found[:, 1].sum())
    if before is None:
        return Point(amount, lost, None, None)
    gained, energy = before[:, 0] - found[:, 0], found[:, 1]
    gain, count = float(gained.sum() / energy.sum()), len(found)
    if count < 2:
        return Point(amount, lost, gain, None)
    without = (gained.sum() - gained) / (energy.sum() - energy).clip(1e-12)
    return Point(amount, lost, gain, float(np.sqrt((count - 1) * np.square(without - without.mean()).mean())))


def choose_codes(sizes: Sequence[Point]) -> int:
    """The last size that is worth it, before a doubling that clearly is not."""
    chosen = sizes[0].amount
    for size in sizes[1:]:
        if size.worth:
            chosen = size.amount
        elif not size.unclear:
            break
    return chosen
