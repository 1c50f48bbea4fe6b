"""Motion LAPO (paper E.4): the inverse model of LAPO is also told what moved.

The motion enters the inverse model only: in the forward model it would hand over the target.

Axes: b transitions, m motion channels, h w pixels.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from otflam.lam.lapo import MLapoConfig
from otflam.lam.lapo.model import Lapo, Seen
from otflam.lam.model import Latents
from otflam.motion import TRANSFORMS, MotionConfig


class MotionLapo(Lapo):
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
