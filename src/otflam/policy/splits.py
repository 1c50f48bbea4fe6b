"""Who sees which episodes, stated once.

    first half       latent action models and clones: frames only
    third quarter    the pool from which labelled episodes are drawn
    last quarter     probes: held out from everything

Quarters are by the order of the episodes; where only some of them have labels, these are put into the pool first.

Returns are measured on simulator seeds that no data set has.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Int64

from otflam.core import UserError
from otflam.data import SHARES, Store, labelled_episodes, split_episodes

Episodes = Int64[np.ndarray, " _"]


@dataclass(frozen=True)
class Splits:
    unlabelled: Episodes
    pool: Episodes
    probes: Episodes

    @classmethod
    def of(cls, store: Store) -> Splits:
        unlabelled, pool, probes = split_episodes(store, *SHARES)
        if "action_mask" in store:
            pool = pool[labelled_episodes(store)[pool]]
        return cls(unlabelled, pool, probes)

    def labelled(self, count: int, seed: int) -> Episodes:
        """Some episodes of the pool; another seed draws others, and a larger budget holds a smaller one."""
        if not 1 <= count <= len(self.pool):
            raise UserError(
                f"{count} labelled episodes of a pool of {len(self.pool)}",
                f"ask for 1 to {len(self.pool)}, or get more: a quarter of the episodes may be labelled",
            )
        return np.random.default_rng([seed, 3]).permutation(self.pool)[:count]
