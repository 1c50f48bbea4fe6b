"""LAPO that tells a transition in few codes, or through noise.

Axes: b transitions, w words, e code, k codes, d latent.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from otflam.core import Batch, Terms, gather_rows
from otflam.lam.bottlenecks import VAELapoConfig, VQLapoConfig
from otflam.lam.lapo.model import Lapo, Seen
from otflam.lam.model import Latents, at_least_one, latent_stats
from otflam.tokenizer import Codebook, Quantized


class VQLapo(Lapo):
    config: VQLapoConfig

    def __init__(self, config: VQLapoConfig, size: int, colours: int) -> None:
        at_least_one(config, "words")
        super().__init__(config, size, colours)
        self.latent = config.words * config.codebook.dim
        self.name = nn.Linear(config.latent, self.latent)
        self.act = nn.Linear(self.latent, self.wide * self.side**2)
        self.codebook = Codebook(config.codebook)
        self.started = nn.Buffer(torch.zeros((), dtype=torch.bool))

    def words(self, seen: Seen) -> Float[Tensor, "bw e"]:
        """A transition in words, before each becomes the nearest code."""
        return self.name(super().infer_latent(seen)).view(-1, self.config.codebook.dim)

    def quantise(self, seen: Seen) -> tuple[Latents, Quantized]:
        words = self.words(seen)
        if self.training and not self.started:  # k-means of the first batch, as the tokenizer starts its codebook
            self.codebook.start_from(gather_rows(words.detach().float()))
            self.started.fill_(True)
        quantized = self.codebook(words)
        return quantized.tokens.view(-1, self.latent), quantized

    def infer_latent(self, seen: Seen) -> Latents:
        return self.quantise(seen)[0]

    def codes_used(self, batch: Batch, seen: Seen) -> Float[Tensor, " k"]:
        codes = self.codebook.nearest(self.words(seen))
        return torch.bincount(codes, minlength=self.config.codebook.codes) / len(codes)

    def forward(self, batch: Batch) -> Terms:
        seen = self.observe(batch)
        latent, quantized = self.quantise(seen)
        losses = {"next": self.stack_error(batch, seen, latent), "commit": quantized.distance}
        share = torch.bincount(quantized.codes, minlength=self.config.codebook.codes) / len(quantized.codes)
        told = {"active": (share > 0).float().sum(), "perplexity": torch.special.entr(share).sum().exp()}
        return Terms(losses, latent_stats(latent) | told | {"resets": self.codebook.resets.float()})


class VAELapo(Lapo):
    """Its latent action is the mean of a Gaussian; in training the forward half gets a draw from it."""

    config: VAELapoConfig

    def __init__(self, config: VAELapoConfig, size: int, colours: int) -> None:
        super().__init__(config, size, colours)
        self.spread = nn.Linear(config.latent, config.latent)

    def forward(self, batch: Batch) -> Terms:
        seen = self.observe(batch)
        mean = self.infer_latent(seen)
        log_variance = self.spread(mean)
        drawn = mean + torch.randn_like(mean) * (log_variance / 2).exp() if self.training else mean
        # The divergence from a standard normal, in nats for each transition.
        price = 0.5 * (mean.square() + log_variance.exp() - 1 - log_variance).sum(1).mean()
        return Terms({"next": self.stack_error(batch, seen, drawn), "price": price}, latent_stats(mean))
