"""The model: the change of a small picture goes through a bottleneck, and comes back as a change of the frame."""

import torch.nn.functional as F
from torch import Tensor, nn

from change_lam import ChangeConfig
from otflam.core import Batch
from otflam.lam import LAM, Parts


class ChangeLAM(LAM):
    def __init__(self, config: ChangeConfig, colours: int) -> None:
        super().__init__()
        self.config, self.latent, self.stride = config, config.latent, config.stride
        self.offsets = self.training_offsets = (0, config.stride)
        pixels = colours * config.side**2
        self.squeeze, self.unfold = nn.Linear(pixels, config.latent), nn.Linear(config.latent, pixels)

    @classmethod
    def build(cls, config: ChangeConfig, parts: Parts) -> "ChangeLAM":
        return cls(config, parts.frames[2])

    def observe(self, batch: Batch) -> tuple[Tensor, Tensor]:
        return batch.images(0), batch.images(self.stride)

    def infer_latent(self, seen: tuple[Tensor, Tensor]) -> Tensor:
        return self.squeeze(F.adaptive_avg_pool2d(seen[1] - seen[0], self.config.side).flatten(1))

    def predict_future(self, seen: tuple[Tensor, Tensor], latent: Tensor) -> Tensor:
        change = self.unfold(latent).view(len(latent), -1, self.config.side, self.config.side)
        return seen[0] + F.interpolate(change, seen[0].shape[-2:])

    def present(self, seen: tuple[Tensor, Tensor]) -> Tensor:
        return F.adaptive_avg_pool2d(seen[0], self.config.side)
