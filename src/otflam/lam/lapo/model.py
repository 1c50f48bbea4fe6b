"""LAPO in LAOM's form (paper E.1), M-LAPO and F-LAPO: one latent action for the whole scene, from stacked frames.

The inverse model sees two observations and names what lies between them; the forward model redraws the next stack of
frames from the current one. Frames are in [-1, 1] inside; errors and pictures are of the newest frame in [0, 1].

Axes: b transitions, k c stacked frames and their colours, h w pixels, m motion channels, p patches, e code, d latent.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64
from torch import Tensor, nn

from otflam.core import (
    IMPALA,
    Batch,
    Pointwise,
    Terms,
    conv_encoder,
    gather_rows,
    grow,
    interleave,
    place_of,
    start_orthogonal,
)
from otflam.data import Store
from otflam.lam.lapo import FLapoConfig, LapoConfig, MLapoConfig
from otflam.lam.model import BATCH, LAM, Latents, Parts, at_least_one, latent_stats
from otflam.motion import TRANSFORMS, MotionConfig
from otflam.tokenizer import Codebook, Quantized, code_weights, placed_patches

LABELLED = 32
"""Transitions that a CPU labels at once: more of them leave the cache between one layer and the next."""


class Seen(NamedTuple):
    now: Float[Tensor, "b kc h w"]
    ahead: Float[Tensor, "b kc h w"]
    """The observation that the inverse model compares with."""
    motion: Float[Tensor, "b m h w"] | None
    """What changed, for a method whose inverse model is told."""
    pair: Float[Tensor, "b 2*kc h w"] | None = None
    """Both observations, where they lie side by side in memory."""


class Stacked(LAM):
    """A model that compares two observations, each a stack of frames."""

    def __init__(self, config: LapoConfig, size: int, colours: int) -> None:
        super().__init__()
        self.config, self.latent, self.stride = config, config.latent, config.stride
        self.colours, self.side = colours, size // 2 ** len(IMPALA)
        self.offsets, self.training_offsets = self._offsets(1), self._offsets(config.reach)
        self.widths, self.stacked = [config.scale * channels for channels in IMPALA], config.frames * colours
        self.wide = self.widths[-1]

    @classmethod
    def build(cls, config: LapoConfig, parts: Parts) -> Stacked:
        size = parts.square(2 ** len(IMPALA), "LAPO")
        at_least_one(config, "reach", "stride", "frames", "scale", "latent")
        return cls(config, size, parts.frames[2])

    def _offsets(self, reach: int) -> tuple[int, ...]:
        """Frames of the current observation and of those up to `reach` strides ahead."""
        # Stacks hold successive frames at any stride. With LAOM's stride 1 the inverse model sees t-2..t and t-1..t+1:
        # one new frame; with stride 2 t-2..t and t..t+2, so also t+1, which OTF-LAM and FLAM never see
        # (docs/decisions.md).
        stack = range(1 - self.config.frames, 1)
        return tuple(sorted({first + ahead * self.stride for ahead in range(reach + 1) for first in stack}))

    def observe(self, batch: Batch) -> Seen:
        now = signed(batch.stack(0, self.config.frames))
        if not self.training or self.config.reach == 1:
            return self.see(now, signed(batch.stack(self.stride, self.config.frames)))
        ahead = torch.randint(1, self.config.reach + 1, (len(batch.frames),), device=batch.frames.device)
        return self.see(now, signed(self._stack_at(batch, ahead)))

    def see(self, now: Tensor, ahead: Tensor) -> Seen:
        """What the two halves get of two observations."""
        return Seen(now, ahead, None)

    def _stack_at(self, batch: Batch, strides: Int64[Tensor, " b"]) -> Float[Tensor, "b kc h w"]:
        """For each sample the observation that many strides ahead."""
        samples = torch.arange(len(strides), device=strides.device)
        parts = []
        for back in range(self.config.frames - 1, -1, -1):
            place = torch.tensor(
                [batch.offsets.index(ahead * self.stride - back) for ahead in strides.tolist()], device=strides.device
            )
            chosen = batch.frames[samples, place]
            parts.append(Batch(chosen[:, None], (0,), {}).images(0))
        return torch.cat(parts, 1)

    @torch.inference_mode()
    def label(self, store: Store, index: int, columns: dict[str, Store]) -> Float[np.ndarray, "t d"]:
        """As any model does it, to the bit; but a frame, which up to six observations show, becomes numbers once."""
        frames = store.episode(index, "frames")
        rows, (first, *_, last) = np.zeros((len(frames), self.latent), np.float32), self.offsets
        place = place_of(self)
        count = LABELLED if place.type == "cpu" else BATCH
        for start in range(0, len(frames) - last, count):
            stop = min(start + count, len(frames) - last)
            shown = frames[np.arange(start + first, stop + last).clip(0)]  # the first stands for those before it
            block = Batch(torch.from_numpy(shown)[:, None], (0,), {}).to(place)
            seen = self._seen_along(signed(block.images(0)), stop - start)
            rows[start:stop] = self.infer_latent(seen).cpu().numpy()
        return rows

    def _seen_along(self, images: Float[Tensor, "n c h w"], count: int) -> Seen:
        """What is seen of successive transitions, from all the frames that they need."""
        stack = range(1 - self.config.frames, 1)
        places = [ahead + back - self.offsets[0] for ahead in (0, self.stride) for back in stack]
        pair = interleave([images[place : place + count].permute(0, 2, 3, 1) for place in places])
        return self.see(*pair.chunk(2, 1))._replace(pair=pair)


class Lapo(Stacked):
    def __init__(self, config: LapoConfig, size: int, colours: int) -> None:
        super().__init__(config, size, colours)
        self.inverse = self.make_inverse(self.widths, self.stacked)
        self.encode = self.encoder_of(self.stacked, self.widths)
        self.act = nn.Linear(config.latent, self.wide * self.side**2)
        self.decode = self.decoder_of(self.widths, self.stacked)
        start_orthogonal(self)

    def make_inverse(self, widths: list[int], stacked: int) -> nn.Module:
        return self.inverse_of(2 * stacked, widths)

    def inverse_of(self, inputs: int, widths: list[int]) -> nn.Sequential:
        flat = self.wide * self.side**2
        return nn.Sequential(self.encoder_of(inputs, widths), nn.Flatten(), nn.GELU(), nn.Linear(flat, self.latent))

    def encoder_of(self, inputs: int, widths: list[int]) -> nn.Sequential:
        return conv_encoder(inputs, widths, self.config.blocks)

    def decoder_of(self, widths: list[int], stacked: int) -> nn.Sequential:
        up, blocks = [2 * self.wide, *reversed(widths)], self.config.blocks
        return nn.Sequential(
            *(grow(a, b, blocks) for a, b in itertools.pairwise(up)), nn.GELU(), Pointwise(up[-1], stacked)
        )

    def infer_latent(self, seen: Seen) -> Latents:
        return self.inverse(torch.cat([seen.now, seen.ahead], 1) if seen.pair is None else seen.pair)

    def present(self, seen: Seen) -> Tensor:
        return self.encode(seen.now)

    def predict_stack(self, seen: Seen, latent: Latents) -> Float[Tensor, "b kc h w"]:
        return self.decode(self.told(seen, latent)).tanh()  # LAOM's bound: frames are from -1 to 1

    def told(self, seen: Seen, latent: Latents) -> Float[Tensor, "b w u v"]:
        """What the decoder is told: the current observation, and at every place its part of the latent."""
        state = self.present(seen)
        return torch.cat([state, self.act(latent).view_as(state)], 1)

    def predict_future(self, seen: Seen, latent: Latents) -> Float[Tensor, "b c h w"]:
        return self.predict_all(seen, latent)[self.stride]

    def predict_all(self, seen: Seen, latent: Latents) -> dict[int, Tensor]:
        frames = ((self.predict_stack(seen, latent) + 1) / 2).split(self.colours, 1)
        return {self.stride - back: frame for back, frame in enumerate(reversed(frames))}

    def forward(self, batch: Batch) -> Terms:
        seen = self.observe(batch)
        latent = self.infer_latent(seen)
        return Terms({"next": self.stack_error(batch, seen, latent)}, latent_stats(latent))

    def stack_error(self, batch: Batch, seen: Seen, latent: Latents) -> Float[Tensor, ""]:
        """Error of the next stack of frames, two of which the model has already seen if the stride is 1, as in LAOM."""
        # Without a longer reach the inverse model was shown what is to be predicted.
        target = seen.ahead if self.config.reach == 1 else signed(batch.stack(self.stride, self.config.frames))
        return F.mse_loss(self.predict_stack(seen, latent), target)


def signed(images: Tensor) -> Tensor:
    """From [0, 1] to [-1, 1], in place: memory that is new at every step costs more than the arithmetic."""
    return images.mul_(2).sub_(1)


class MotionLapo(Lapo):
    """M-LAPO (paper E.4): its inverse model is also told what moved; the forward one would get the target with it."""

    config: MLapoConfig

    def make_inverse(self, widths: list[int], stacked: int) -> nn.Module:
        return self.inverse_of(2 * stacked + MotionConfig(self.config.transform).channels(self.colours), widths)

    def see(self, now: Tensor, ahead: Tensor) -> Seen:
        """The change from the newest frame of one observation to that of the other, however far apart."""
        transform = TRANSFORMS[self.config.transform]
        before, after = ((stack[:, -self.colours :] + 1) / 2 for stack in (now, ahead))
        return Seen(now, ahead, transform(after) - transform(before))

    def infer_latent(self, seen: Seen) -> Latents:
        assert seen.motion is not None
        return self.inverse(torch.cat([seen.now, seen.ahead, seen.motion], 1))


class FactorisedLapo(Lapo):
    """F-LAPO (paper E.5): its inverse model is a patch encoder with one code for every pair of patches.

    All codes together, flattened and projected, are the latent action. No motion is computed, and the forward model
    sees nothing but that vector.
    """

    config: FLapoConfig

    def make_inverse(self, widths: list[int], stacked: int) -> nn.Module:
        pixels, config = 2 * self.colours * self.config.patch**2, self.config
        self.codebook = Codebook(config.codebook)
        self.started = nn.Buffer(torch.zeros((), dtype=torch.bool))
        self.out = nn.Linear(config.grid**2 * config.codebook.dim, config.latent)
        return nn.Sequential(
            nn.Linear(pixels + 2, config.hidden), nn.GELU(), nn.Linear(config.hidden, config.codebook.dim)
        )

    def embed(self, seen: Seen) -> Float[Tensor, "b p e"]:
        """Continuous tokens of pairs of patches, each with its place."""
        size = self.config.grid * self.config.patch
        pair = torch.cat([seen.now[:, -self.colours :], seen.ahead[:, -self.colours :]], 1)
        if pair.shape[-1] != size:
            pair = F.interpolate(pair, (size, size), mode="bilinear", align_corners=False)
        return self.inverse(placed_patches(pair, self.config.patch))

    def quantise(self, seen: Seen) -> tuple[Latents, Quantized]:
        tokens = self.embed(seen)
        flat = tokens.flatten(0, 1)
        if self.training and not self.started:  # k-means of the first batch, as the tokenizer starts its codebook
            self.codebook.start_from(gather_rows(flat.detach().float()))
            self.started.fill_(True)
        quantized = self.codebook(flat)
        return self.out(quantized.tokens.view(len(tokens), -1)), quantized

    def codes_used(self, batch: Batch, seen: Seen) -> Tensor:
        codes = self.codebook.nearest(self.embed(seen).flatten(0, 1))[None]
        return code_weights(codes, self.config.codebook.codes).mean(0)

    def infer_latent(self, seen: Seen) -> Latents:
        return self.quantise(seen)[0]

    def forward(self, batch: Batch) -> Terms:
        seen = self.observe(batch)
        latent, quantized = self.quantise(seen)
        losses = {"next": self.stack_error(batch, seen, latent), "commit": quantized.distance}
        used = torch.bincount(quantized.codes, minlength=self.config.codebook.codes) > 0
        return Terms(losses, {**latent_stats(latent), "active": used.float().sum()})
