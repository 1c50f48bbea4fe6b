"""Observed Transition Factorization (paper §3.1, B.4): a patchwise VQ-VAE on motion.

Every patch of the motion signal becomes one of K codes. A code's factor is (c_k, M_k, w_k): its vector, where it occurs
and how much; a shared network ρ makes a descriptor of it, which is put back wherever the code occurs, and the decoder
redraws the motion from these descriptors and the current frame.

Axes: b samples, c channels, h w pixels, u v grid, p patches (u·v), d features, k codes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

import torch
import torch.nn.functional as F
from einops import rearrange, reduce, repeat
from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn

from otflam.core import Batch, Terms, gather_rows, sum_over_processes
from otflam.motion import motion
from otflam.tokenizer.config import TokenizerConfig
from otflam.tokenizer.decoder import Decoder
from otflam.tokenizer.quantize import Codebook, overlap

KMEANS_TOKENS, KMEANS_BATCHES = 20_000, 8
"""Tokens that k-means starts the codebook from, taken evenly from the last batches of the warm-up."""
QUIET = 1e-3
"""Mean squared motion of a transition that counts half as much as one that moves more, where all count alike."""
NOISE = 1 / 255
"""Deviation of pixels in which nothing is seen to move."""
TOKEN_SCALE = 0.3
"""Makes the tokens of a monolithic tokenizer about as large as OTF's, so that the commitment loss weighs alike."""


class Factors(NamedTuple):
    """E_t: for every code its vector, where it occurs and how strongly (eq. 6)."""

    vectors: Float[Tensor, "k d"]
    occupancy: Float[Tensor, "b k u v"]
    weights: Float[Tensor, "b k"]


class MotionAutoencoder(nn.Module, ABC):
    """What the factorised and the monolithic tokenizer share: motion in, codes between, motion out."""

    transient = ("recent",)
    """State that only training needs."""

    def __init__(self, config: TokenizerConfig) -> None:
        super().__init__()
        self.config = config
        self.motion_channels = config.motion.channels(config.channels)
        self.codebook = Codebook(config.codebook, reserved=1 if config.still else 0)
        sizes = (config.descriptor, config.patch, config.channels, self.motion_channels)
        self.decoder = Decoder(config.decoder, *sizes)
        self.step = nn.Buffer(torch.zeros((), dtype=torch.int64))
        # The latest tokens of the warm-up, from which k-means starts; a buffer, so that a resumed warm-up has them too.
        self.recent = nn.Buffer(torch.zeros(KMEANS_TOKENS, config.codebook.dim))
        if config.still:
            self.floor = nn.Buffer(torch.tensor(noise_level(config)))

    def resize(self, frames: Float[Tensor, "b c h w"]) -> Float[Tensor, "b c h2 w2"]:
        """Scale frames so that the shorter side has `grid` patches and the longer one a whole number of them."""
        height, width = frames.shape[-2:]
        scale = self.config.grid / min(height, width)
        size = [max(1, round(side * scale)) * self.config.patch for side in (height, width)]
        if size == [height, width]:
            return frames
        return F.interpolate(frames, size, mode="bilinear", align_corners=False)

    def observe(self, batch: Batch) -> tuple[Float[Tensor, "b c h w"], Float[Tensor, "b m h w"]]:
        """The current frame x_t and the motion o_t, at the tokenizer's resolution."""
        frames = [self.resize(batch.images(offset)) for offset in self.config.motion.offsets]
        return frames[self.config.motion.offsets.index(0)], motion(self.config.motion, frames)

    @abstractmethod
    def embed(self, signal: Float[Tensor, "b m h w"]) -> Float[Tensor, "b p d"]:
        """Continuous tokens of a motion signal."""

    @abstractmethod
    def describe(self, tokens: Float[Tensor, "b p d"], codes: Int64[Tensor, "b p"] | None) -> Float[Tensor, "b p e"]:
        """Descriptors on the grid, from tokens that were quantised to `codes`, or not quantised in the warm-up."""

    def moving(self, signal: Float[Tensor, "b m h w"]) -> Bool[Tensor, "b p"] | None:
        """Which patches move at all; none if stillness has no code of its own."""
        if not self.config.still:
            return None
        energy = patch_energy(signal, self.config.patch)
        return energy >= (self.config.still * energy.mean(1, keepdim=True)).clamp_min(self.floor)

    def encode(self, signal: Float[Tensor, "b m h w"], frame: Float[Tensor, "b c h w"]) -> Int64[Tensor, "b p"]:
        """The code of every token; where stillness has one, a code that draws worse than nothing gives way to it."""
        tokens, moving = self.embed(signal), self.moving(signal)
        codes = self.codebook.nearest(tokens.flatten(0, 1)).view(tokens.shape[:2])
        if moving is None:
            return codes
        codes, size = codes * moving, self.config.patch
        error = patch_energy(self.redraw(codes, frame) - signal, size)
        return codes * (error < patch_energy(signal, size))

    def redraw(self, codes: Int64[Tensor, "b p"], frame: Float[Tensor, "b c h w"]) -> Float[Tensor, "b m h w"]:
        """The motion that codes make of a frame."""
        moving = codes > 0 if self.config.still else None
        return self.draw(self.describe(self.codebook.vectors[codes], codes), frame, moving)

    def draw(
        self, descriptors: Float[Tensor, "b p e"], frame: Float[Tensor, "b c h w"], moving: Bool[Tensor, "b p"] | None
    ) -> Float[Tensor, "b m h w"]:
        """The motion that descriptors make of a frame, where something moves."""
        if moving is None:
            return self.decode(descriptors, frame)
        drawn = self.decode(descriptors * moving[..., None], frame)
        rows, size = frame.shape[-2] // self.config.patch, self.config.patch
        return drawn * repeat(moving, "b (u v) -> b 1 (u i) (v j)", u=rows, i=size, j=size)

    def decode(self, descriptors: Float[Tensor, "b p e"], frame: Float[Tensor, "b c h w"]) -> Float[Tensor, "b m h w"]:
        rows = frame.shape[-2] // self.config.patch
        return self.decoder(rearrange(descriptors, "b (u v) e -> b e u v", u=rows), frame)

    def forward(self, batch: Batch) -> Terms:
        """L_vocab (eqs. 7-10), with means in place of sums."""
        frame, signal = self.observe(batch)
        tokens, moving = self.embed(signal), self.moving(signal)
        flat = tokens.flatten(0, 1) if moving is None else tokens[moving]
        if self.training:
            self._advance(flat.detach().float())
        if self.step <= self.config.warmup:
            redrawn, zero = self.draw(self.describe(tokens, None), frame, moving), signal.new_zeros(())
            return Terms({"rec": self.error(redrawn, signal), "code": zero, "commit": zero, "orth": zero}, {})
        quantized = self.codebook(flat)
        if moving is None:
            codes, chosen = quantized.codes.view(tokens.shape[:2]), quantized.tokens.view_as(tokens)
        else:  # whatever is still has the code 0 and draws nothing
            codes = torch.zeros_like(moving, dtype=torch.int64).masked_scatter(moving, quantized.codes)
            chosen = torch.zeros_like(tokens).masked_scatter(moving[..., None], quantized.tokens)
        redrawn = self.draw(self.describe(chosen, codes), frame, moving)
        used = sum_over_processes(torch.bincount(quantized.codes, minlength=len(self.codebook.vectors)).float())
        share = used / used.sum()
        losses = {
            "rec": self.error(redrawn, signal),
            "code": quantized.distance.detach(),  # moving averages take the place of its gradient
            "commit": quantized.distance,
            "orth": overlap(
                self.codebook.vectors[used > 0]
            ).detach(),  # a diagnostic: averages, not gradients, move codes
        }
        metrics = {
            "bits": bits_per_token(count_codes(codes, len(self.codebook.vectors))),
            "perplexity": torch.exp(-(share * share.clamp_min(1e-12).log()).sum()),
            "active": (used > 0).float().sum(),
            "resets": self.codebook.resets.float(),
        }
        return Terms(losses, metrics)

    def error(self, redrawn: Float[Tensor, "b m h w"], signal: Float[Tensor, "b m h w"]) -> Float[Tensor, ""]:
        """Of redrawn motion: its mean square, or the mean over transitions of its share of their motion."""
        if not self.config.even:
            return F.mse_loss(redrawn, signal)
        errors, energies = ((part.square()).mean((1, 2, 3)) for part in (redrawn - signal, signal))
        return (errors / (energies + QUIET)).mean()

    def _advance(self, tokens: Float[Tensor, "n d"]) -> None:
        """Count training steps, keep recent tokens of the warm-up, and start the codebook when it ends."""
        self.step += 1
        if self.config.warmup - KMEANS_BATCHES < self.step <= self.config.warmup:
            tokens = gather_rows(tokens)
            size = min(len(tokens), KMEANS_TOKENS // KMEANS_BATCHES)
            kept = tokens[torch.linspace(0, len(tokens) - 1, size, device=tokens.device).long()]
            self.recent.copy_(torch.cat([self.recent[size:], kept]))
        elif self.step == self.config.warmup + 1:
            known = self.recent[self.recent.abs().sum(1) > 0]
            self.codebook.start_from(known if len(known) else gather_rows(tokens))


@torch.no_grad()
def noise_level(config: TokenizerConfig) -> float:
    """Mean squared motion where nothing moves but the noise of a camera."""
    random, side = torch.Generator().manual_seed(0), config.grid * config.patch
    size = (1, config.channels, side, side)
    with torch.device("cpu"):  # models are loaded without memory, where nothing can be computed
        frames = [0.5 + NOISE * torch.randn(size, generator=random) for _ in config.motion.offsets]
        return float(motion(config.motion, frames).square().mean())


class OTF(MotionAutoencoder):
    """The factorised tokenizer: each patch is encoded by itself."""

    def __init__(self, config: TokenizerConfig) -> None:
        super().__init__(config)
        pixels, dim = self.motion_channels * config.patch**2, config.codebook.dim
        self.encoder = nn.Sequential(nn.Linear(pixels + 2, config.hidden), nn.GELU(), nn.Linear(config.hidden, dim))
        self.rho = nn.Sequential(
            nn.Linear(dim + 1, config.hidden), nn.GELU(), nn.Linear(config.hidden, config.descriptor), nn.GELU()
        )

    def embed(self, signal: Float[Tensor, "b m h w"]) -> Float[Tensor, "b p d"]:
        return self.encoder(placed_patches(signal, self.config.patch))

    def describe(self, tokens: Float[Tensor, "b p d"], codes: Int64[Tensor, "b p"] | None) -> Float[Tensor, "b p e"]:
        """H(u, v) = Σ_k M_k(u, v) ρ(c_k, w_k).

        A patch has exactly one code, so the sum has one term: ρ of the patch's own code and its weight. Computed so,
        the cost does not grow with the size of the vocabulary, and every patch gets its own straight-through gradient.
        """
        weight = tokens.new_zeros(tokens.shape[:2])
        if codes is not None:
            weight = code_weights(codes, self.codes).gather(1, codes)
        return self.rho(torch.cat([tokens, weight[..., None]], -1))

    @property
    def codes(self) -> int:
        return len(self.codebook.vectors)

    def factors(self, codes: Int64[Tensor, "b p"], rows: int) -> Factors:
        """The transition factors (c_k, M_k, w_k) of encoded motions."""
        occupancy = F.one_hot(codes, self.codes).to(torch.float32)
        return Factors(
            self.codebook.vectors,
            rearrange(occupancy, "b (u v) k -> b k u v", u=rows),
            occupancy.mean(1),
        )


def patch_energy(signal: Float[Tensor, "b m h w"], patch: int) -> Float[Tensor, "b p"]:
    """Mean squared motion of every patch."""
    return reduce(signal.square(), "b m (u i) (v j) -> b (u v)", "mean", i=patch, j=patch)


def placed_patches(images: Float[Tensor, "b c h w"], patch: int) -> Float[Tensor, "b p f"]:
    """The pixels of every patch, followed by its row and column in [-1, 1]."""
    patches = rearrange(images, "b c (u i) (v j) -> b u v (c i j)", i=patch, j=patch)
    rows, columns = (torch.linspace(-1, 1, n, device=images.device) for n in patches.shape[1:3])
    place = torch.stack(torch.meshgrid(rows, columns, indexing="ij"), -1).expand(len(images), -1, -1, -1)
    return torch.cat([patches, place.to(patches.dtype)], -1).flatten(1, 2)


def code_weights(codes: Int64[Tensor, "b p"], count: int) -> Float[Tensor, "b k"]:
    """w_k: the fraction of a sample's patches that have each code."""
    ones = torch.ones_like(codes, dtype=torch.float32)
    return torch.zeros(len(codes), count, device=codes.device).scatter_add_(1, codes, ones) / codes.shape[1]


def count_codes(codes: Int64[Tensor, "b p"], count: int) -> Float[Tensor, "p k"]:
    """How often each code occurs at each place of the grid (or in each vector of a monolithic latent)."""
    counts = torch.zeros(codes.shape[1], count, device=codes.device)
    return sum_over_processes(counts.scatter_add_(1, codes.T, torch.ones_like(codes.T, dtype=counts.dtype)))


def bits_per_token(counts: Float[Tensor, "p k"]) -> Float[Tensor, ""]:
    """Mean entropy of a token over samples: 0 if every place always has the same code, so that nothing is said."""
    share = counts / counts.sum(1, keepdim=True).clamp_min(1)
    return -(share * share.clamp_min(1e-12).log2()).sum(1).mean()


class Monolithic(MotionAutoencoder):
    """The counterpart of OTF (paper §6.1): one global encoder, the same number of bits, the same decoder.

    As many vectors as OTF has patches are quantised with as many codes, so both spend P·log2 K bits on a motion. But
    here every vector is computed from the whole motion signal, and every place of the decoded map from all vectors.
    Layers over the whole are not shared by patches: it has some 70 times OTF's parameters (docs/methods/otf.md).
    """

    def __init__(self, config: TokenizerConfig) -> None:
        super().__init__(config)
        count, dim, side = config.grid**2, config.codebook.dim, config.grid * config.patch
        size = side
        for _ in range(3):
            size = (size + 1) // 2
        # Normalised over samples at every layer, and without a bias at the end: else the vectors differ more from each
        # other than samples do when k-means starts the codebook, and every vector keeps one code for ever.
        self.encoder = nn.Sequential(
            *(part for sizes in ((self.motion_channels, 32), (32, 64), (64, 64)) for part in _stage(*sizes)),
            nn.Flatten(),
            nn.Linear(64 * size**2, config.whole),
            nn.GELU(),
            nn.BatchNorm1d(config.whole, affine=False),
            nn.Linear(config.whole, count * dim, bias=False),
        )
        self.spread = nn.Sequential(
            nn.Linear(count * dim, config.whole), nn.GELU(), nn.Linear(config.whole, count * config.descriptor)
        )

    def embed(self, signal: Float[Tensor, "b m h w"]) -> Float[Tensor, "b n d"]:
        return rearrange(TOKEN_SCALE * self.encoder(signal), "b (n d) -> b n d", d=self.config.codebook.dim)

    def describe(self, tokens: Float[Tensor, "b n d"], codes: Int64[Tensor, "b n"] | None) -> Float[Tensor, "b p e"]:
        return rearrange(self.spread(tokens.flatten(1)), "b (p e) -> b p e", e=self.config.descriptor)


def _stage(inputs: int, outputs: int) -> tuple[nn.Module, ...]:
    return nn.Conv2d(inputs, outputs, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.GELU()
