"""Who sees which episodes, stated once.

    first half       latent action models and clones: frames only
    third quarter    the pool from which labelled episodes are drawn
    last quarter     probes: held out from everything

Returns are measured on simulator seeds that no data set has.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Int64

from otflam.core.errors import UserError
from otflam.data.clips import split_episodes
from otflam.data.store import Store

Episodes = Int64[np.ndarray, " _"]
SHARES = (0.5, 0.25, 0.25)


@dataclass(frozen=True)
class Splits:
    unlabelled: Episodes
    pool: Episodes
    probes: Episodes

    @classmethod
    def of(cls, store: Store) -> Splits:
        return cls(*split_episodes(store, *SHARES))

    def labelled(self, count: int, seed: int) -> Episodes:
        """Some episodes of the pool; another seed draws others, and a larger budget holds a smaller one."""
        if not 1 <= count <= len(self.pool):
            raise UserError(
                f"{count} labelled episodes of a pool of {len(self.pool)}",
                f"ask for 1 to {len(self.pool)}, or collect more: a quarter of the episodes may be labelled",
            )
        return np.random.default_rng([seed, 3]).permutation(self.pool)[:count]
