"""How well codes keep the motion, and what they are (paper §6.1, D.2).

Axes: b samples, m h w motion, p patches, k codes.
"""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from einops import rearrange, reduce
from jaxtyping import Float, Int64
from torch import Tensor

from otflam.data import Clips, Mixture
from otflam.tokenizer import (
    OTF,
    MotionAutoencoder,
    Seen,
    bits_per_token,
    code_weights,
    count_codes,
    kmeans,
    noise_level,
    overlap,
)

CODES_VERSION = 2
"""Bump when the results of this file would change."""
BATCH = 64
MOVING = 0.25
"""A patch moves if its energy is at least this share of the mean energy of patches."""


def batched(chosen: np.ndarray) -> list[np.ndarray]:
    return np.array_split(chosen, -(-len(chosen) // BATCH))


def chunks(clips: Clips | Mixture, count: int) -> list[np.ndarray]:
    """Evenly spaced clips in batches."""
    return batched(clips.evenly_spaced(count))


def clips_of_other_episodes(clips: Clips | Mixture, chosen: Int64[np.ndarray, " n"]) -> Int64[np.ndarray, " n"] | None:
    """For each of some clips in their order another one of them that is of another episode; none if there is but one.

    It is the clip at the same place after the end of the own episode, so mostly of the next one at the same time.
    """
    episode = clips.episode_of(chosen)
    first, last = np.searchsorted(episode, episode), np.searchsorted(episode, episode, side="right")
    others = len(chosen) - (last - first)
    if not others.all():
        return None
    return chosen[(last + (np.arange(len(chosen)) - first) % others) % len(chosen)]


@torch.inference_mode()
def reconstruction(
    tokenizer: MotionAutoencoder, clips: Clips | Mixture, count: int = 1500, transfer: bool = False
) -> dict[str, float]:
    """Errors of redrawn motion, and statistics of the codes, over evenly spaced clips; of a `transfer` only its own."""
    codes, chosen = tokenizer.config.codebook.codes, clips.evenly_spaced(count)
    named, still = encoded(tokenizer, clips, chosen)
    others = clips_of_other_episodes(clips, chosen)
    foreign = None if others is None else named[np.searchsorted(chosen, others)]
    error = shuffled = strange = energy = total = elements = 0.0
    place, moving, active = torch.zeros(tokenizer.config.grid**2, codes), torch.zeros(codes), 0.0
    for places in batched(np.arange(len(chosen))):
        frame, signal = tokenizer.observe(clips.gather(chosen[places]))
        found = named[places]
        error += float((tokenizer.redraw(found, frame) - signal).square().sum())
        if foreign is not None:
            strange += float((tokenizer.redraw(foreign[places], frame) - signal).square().sum())
        energy += float(signal.square().sum())
        elements += signal.numel()
        place += count_codes(found, codes)
        if transfer:
            continue
        shuffled += float((tokenizer.redraw(found.roll(1, 0), frame) - signal).square().sum())
        total += float(signal.sum())
        active += float((code_weights(found, codes) > 0).sum())
        if isinstance(tokenizer, OTF):
            moving += torch.bincount(found[moves(signal, tokenizer.config.patch, still)], minlength=codes)
    metrics = {
        "mse": error / elements,
        "nmse": error / energy,
        "foreign_nmse": strange / energy if foreign is not None else float("nan"),
        "bits_per_token": float(bits_per_token(place)),
    }
    if transfer:
        return metrics
    variance = energy / elements - (total / elements) ** 2
    return metrics | {
        "r2": 1 - error / elements / variance,
        "shuffled_nmse": shuffled / energy,
        "perplexity": perplexity(place.sum(0)),
        "active_codes": active / len(chosen),
        "place_information": mutual_information(place),
        "moving_perplexity": perplexity(moving) if moving.sum() else float("nan"),
        "overlap": mean_overlap(tokenizer.codebook.vectors[place.sum(0) > 0]),
        "resets": float(tokenizer.codebook.resets),
    }


def encoded(
    tokenizer: MotionAutoencoder, clips: Clips | Mixture, chosen: Int64[np.ndarray, " n"]
) -> tuple[Tensor, float]:
    """The codes of some clips, and the mean squared motion: the measure of what moves."""
    named, energy = [], torch.zeros(())
    for rows in batched(chosen):
        frame, signal = tokenizer.observe(clips.gather(rows))
        named.append(tokenizer.encode(signal, frame))
        energy = energy + signal.square().mean((1, 2, 3)).sum()
    return torch.cat(named), float(energy) / len(chosen)


@torch.inference_mode()
def normalised_error(tokenizer: MotionAutoencoder, clips: Clips | Mixture, count: int) -> float:
    """Error of the motion redrawn on a few evenly spaced clips, all at once: the nMSE of a model in training."""
    tokenizer.eval()
    frame, signal = tokenizer.observe(clips.gather(clips.evenly_spaced(count)))
    error = (tokenizer.redraw(tokenizer.encode(signal, frame), frame) - signal).square().sum() / signal.square().sum()
    tokenizer.train()
    return float(error)


@torch.inference_mode()
def stillness(tokenizer: MotionAutoencoder, clips: Clips | Mixture, count: int) -> float:
    """Error of still patches over their energy, on evenly spaced clips: 1 is what drawing nothing there would score.

    Still is what has less than a share of the mean energy of all patches, or no more than a camera's noise.
    """
    size, parts = tokenizer.config.patch, []
    for rows in chunks(clips, count):
        frame, signal = tokenizer.observe(clips.gather(rows))
        error = (tokenizer.redraw(tokenizer.encode(signal, frame), frame) - signal).square()
        pair = [reduce(each, "b m (u i) (v j) -> b u v", "mean", i=size, j=size) for each in (error, signal.square())]
        parts.append(torch.stack(pair))
    error, energy = torch.cat(parts, 1)
    still = energy < max(MOVING * float(energy.mean()), noise_level(tokenizer.config))
    return float(error[still].sum() / energy[still].sum().clamp_min(1e-12)) if still.any() else float("nan")


class Tally:
    """What the codes of a video have in common, counted while it is watched."""

    def __init__(self, tokenizer: OTF) -> None:
        self.patches, self.floor = 0, noise_energy(tokenizer)
        self.error = self.energy = self.moved = 0.0
        self.still = np.zeros(2)
        """Error and energy of still patches alone."""
        self.codes = np.zeros(tokenizer.codes)
        """How often each code occurs where something moves."""

    def add(self, seen: Seen) -> Float[np.ndarray, "n u v"]:
        """Count what was seen, and tell how strongly each patch moves, from 0 to 1."""
        self.patches += seen.codes.size
        self.error += float(seen.error.sum(dtype=np.float64))
        self.energy += float(seen.energy.sum(dtype=np.float64))
        # What moves is judged by all that was seen so far; noise alone is nothing that moves.
        share = seen.energy / max(self.energy / self.patches, self.floor / MOVING)
        strength = ((share - MOVING) / (1 - MOVING)).clip(0, 1)
        moves = strength > 0
        self.moved += float(moves.sum())
        self.still += [part[~moves].sum(dtype=np.float64) for part in (seen.error, seen.energy)]
        self.codes += np.bincount(seen.codes[moves], minlength=len(self.codes))
        return strength

    @property
    def redrawn(self) -> float:
        """1 - nMSE: the share of the motion's energy that the codes draw again."""
        return 1 - self.error / max(self.energy, 1e-12)

    @property
    def still_error(self) -> float:
        """nMSE of still patches alone: drawing nothing there scores 1."""
        error, energy = self.still
        return float(error / energy) if energy else float("nan")

    @property
    def moving(self) -> float:
        """Share of the patches that move."""
        return self.moved / self.patches


def noise_energy(tokenizer: OTF) -> float:
    """Mean energy of a patch's motion where nothing moves but the noise of a camera."""
    return noise_level(tokenizer.config) * tokenizer.motion_channels * tokenizer.config.patch**2


def mean_energy(tokenizer: MotionAutoencoder, clips: Clips | Mixture, count: int) -> float:
    """Mean squared motion of the data: the measure of what moves."""
    totals = [tokenizer.observe(clips.gather(rows))[1].square().mean((1, 2, 3)).sum() for rows in chunks(clips, count)]
    return float(sum(totals)) / len(clips.evenly_spaced(count))


def moves(signal: Float[Tensor, "b m h w"], patch: int, mean: float) -> Tensor:
    """Which patches move: [b, p]."""
    energy = rearrange(signal.square(), "b m (u i) (v j) -> b (u v) (m i j)", i=patch, j=patch).mean(-1)
    return energy > MOVING * mean


def mean_overlap(vectors: Float[Tensor, "k d"]) -> float:
    """Mean squared cosine of two different codes."""
    return float(overlap(vectors)) / max(1, len(vectors) * (len(vectors) - 1))


def perplexity(counts: Float[Tensor, " k"]) -> float:
    share = counts / counts.sum()
    return float(torch.exp(-(share * share.clamp_min(1e-12).log()).sum()))


def mutual_information(counts: Float[Tensor, "p k"]) -> float:
    """Bits that a code tells about its place: 0 if codes occur everywhere alike."""
    joint = counts / counts.sum()
    apart = joint.sum(0, keepdim=True) * joint.sum(1, keepdim=True)
    return float((joint * (joint.clamp_min(1e-12) / apart.clamp_min(1e-12)).log2()).sum())


@torch.inference_mode()
def factor_metrics(tokenizer: OTF, clips: Clips | Mixture, count: int = 100) -> dict[str, float]:
    """What happens if one code is taken away: does its effect stay in its area, is it local, do effects differ?"""
    inside, locality, apart = [], [], []
    for row in clips.evenly_spaced(count):
        frame, signal = tokenizer.observe(clips.gather(np.array([row])))
        codes = tokenizer.encode(signal, frame)
        effects, areas = ablations(tokenizer, codes, frame)
        mass = effects.sum((1, 2))
        effects, areas = effects[mass > 1e-8], areas[mass > 1e-8]
        if not len(effects):
            continue
        share = effects / effects.sum((1, 2), keepdim=True)
        inside += (share * areas).sum((1, 2)).tolist()
        entropy = -(share * share.clamp_min(1e-12).log()).sum((1, 2))
        locality += (1 - entropy / np.log(share[0].numel())).tolist()
        if len(effects) > 1:
            unit = F.normalize(effects.flatten(1), dim=1)
            cosine = (unit @ unit.T).sum() - len(unit)
            apart.append(float(1 - cosine / (len(unit) * (len(unit) - 1))))
    return {
        "ablation_in_area": float(np.mean(inside)),
        "locality": float(np.mean(locality)),
        "non_redundancy": float(np.mean(apart)),
    }


def ablations(tokenizer: OTF, codes: Tensor, frame: Tensor) -> tuple[Float[Tensor, "f h w"], Float[Tensor, "f h w"]]:
    """For each code of one sample: how the redrawn motion changes without it, and the area of its patches."""
    active = codes.unique()
    rows = frame.shape[-2] // tokenizer.config.patch
    descriptors = tokenizer.describe(tokenizer.codebook.vectors[codes], codes)
    without = torch.stack([descriptors[0] * (codes[0] != code)[:, None] for code in active])
    whole = tokenizer.decode(descriptors, frame)
    changed = tokenizer.decode(without, frame.expand(len(active), -1, -1, -1))
    areas = rearrange(torch.stack([codes[0] == code for code in active]).float(), "f (u v) -> f u v", u=rows)
    areas = areas.repeat_interleave(tokenizer.config.patch, 1).repeat_interleave(tokenizer.config.patch, 2)
    return (changed - whole).abs().sum(1), areas


@torch.inference_mode()
def patch_kmeans_nmse(tokenizer: OTF, train: Clips | Mixture, test: Clips | Mixture, count: int = 600) -> float:
    """The floor: k-means on raw motion patches with as many codes, no network at all."""

    def patches(clips: Clips | Mixture) -> Tensor:
        parts = []
        for rows in chunks(clips, count):
            _, signal = tokenizer.observe(clips.gather(rows))
            size = tokenizer.config.patch
            parts.append(rearrange(signal, "b m (u i) (v j) -> (b u v) (m i j)", i=size, j=size))
        return torch.cat(parts)

    seen, unseen = patches(train), patches(test)
    centres, _ = kmeans(seen, tokenizer.config.codebook.codes, torch.Generator().manual_seed(0))
    nearest = torch.addmm(centres.square().sum(1), unseen, centres.T, alpha=-2).argmin(1)
    return float((unseen - centres[nearest]).square().sum() / unseen.square().sum())


def transfer_metrics(
    tokenizer: MotionAutoencoder, source: Clips | Mixture, target: Clips | Mixture
) -> dict[str, float]:
    """Zero-shot transfer of a vocabulary (paper §6.1, Table 1): trained on one body or carrier, applied to another.

    The drop compares the error on the target with that on held-out episodes of the source. Raw errors depend on how
    much the target moves, so the same drop is also computed on errors normalised by the energy of the motion, and the
    target's normalised error stands beside both, because a bad source error flatters every drop.
    """
    here, there = (reconstruction(tokenizer, clips, transfer=True) for clips in (source, target))
    # A model whose codes say nothing redraws as well with the codes of another episode: foreign_nmse.
    names = ("mse", "nmse", "foreign_nmse", "bits_per_token")
    return {
        **{f"source_{name}": here[name] for name in names},
        **{f"target_{name}": there[name] for name in names},
        "drop": (there["mse"] - here["mse"]) / here["mse"],
        "drop_normalised": (there["nmse"] - here["nmse"]) / here["nmse"],
        "parameters": float(sum(parameter.numel() for parameter in tokenizer.parameters())),
    }
