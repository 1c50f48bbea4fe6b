"""Every size as a named preset: what to collect and how long to train, from seconds to the paper's scale."""

from __future__ import annotations

from dataclasses import dataclass

from otflam.core.errors import require_name
from otflam.data.options import Collection, MovingMNIST
from otflam.envs.recipe import Recipe
from otflam.envs.world import World


@dataclass(frozen=True)
class Preset:
    collection: Collection
    """What to collect per task."""
    mnist: MovingMNIST
    """How much Moving MNIST to draw (training split)."""
    expert: Recipe
    """How long to train an expert."""


PRESETS = {
    # Tests: seconds.
    "tiny": Preset(
        Collection(World(size=32), episodes=4, steps=24),
        MovingMNIST(sequences=42),
        Recipe(decisions=4000, environments=2, updates_per_decision=0.02, evaluate_every=1, evaluate_episodes=1),
    ),
    # The whole story in minutes.
    "demo": Preset(Collection(episodes=12, steps=250), MovingMNIST(sequences=420), Recipe(decisions=80_000)),
    # Our recorded results: hours in total.
    "laptop": Preset(Collection(episodes=128, steps=500), MovingMNIST(), Recipe()),
    # The paper's values: 2,000 full trajectories per task, rendered as the original does.
    "paper": Preset(Collection(World(quality="reference"), episodes=2000), MovingMNIST(), Recipe(decisions=5_000_000)),
}


def preset(name: str) -> Preset:
    return PRESETS[require_name("preset", name, PRESETS)]
