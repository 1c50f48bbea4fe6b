"""Every size as a named preset: what to collect and how long to train, from seconds to the paper's scale."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

from otflam.core.errors import require_name
from otflam.core.training import Hardware, TrainConfig
from otflam.data.options import Collection, MovingMNIST
from otflam.envs.recipe import Recipe
from otflam.envs.world import World
from otflam.lam.config import (
    AbstractionConfig,
    FlamConfig,
    HilamConfig,
    LamConfig,
    LapoConfig,
    PixelConfig,
    PredictorConfig,
)
from otflam.policy.config import PARTS, ActorConfig, PolicyConfig, way_of
from otflam.sizes import FRAMES, LOSSES, lam_trainings, lams, policy, tokenizer_for_control, tokenizer_for_digits
from otflam.tokenizer.config import DecoderConfig, FrameTokenizerConfig, TokenizerConfig


@dataclass(frozen=True)
class Preset:
    collection: Collection
    """What to collect per task: an expert without noise."""
    noise: float
    """Deviation of the action noise in the episodes that latent actions and policies are learned from."""
    mnist: MovingMNIST
    """How much Moving MNIST to draw (training split)."""
    expert: Recipe
    """How long to train an expert."""
    tokenizer: TokenizerConfig
    """Tokenizer for control frames."""
    digit_tokenizer: TokenizerConfig
    """Tokenizer for Moving MNIST: 16 × 16 patches of 8 pixels, frame by frame."""
    tokenizer_training: TrainConfig
    """How long to train a tokenizer for control frames."""
    digit_training: TrainConfig
    """How long to train a tokenizer for digits."""
    frame_tokenizer: FrameTokenizerConfig
    """FLAM's tokenizer of frames."""
    frame_training: TrainConfig
    """How long to train it."""
    lam: dict[str, LamConfig]
    """Every latent action model, by its name."""
    lam_training: dict[str, TrainConfig]
    """How long to train each."""
    policy: PolicyConfig
    """The policy, its decoder and how both are trained."""
    clone_steps: dict[str, int]
    """Methods whose policy imitates for another number of steps."""
    labels: dict[int, int]
    """Budgets of labelled episodes, and the steps for each of a network that reads actions from them."""
    compared: tuple[int, ...]
    """Budgets at which methods are compared by their returns: with distractors the first, without them the last."""
    played: int | None
    """Steps of the episodes that returns are measured on; None: to their time limit."""
    featured: int
    """Episodes whose DINO features are stored to train on; 0: none, the backbone runs in every step."""
    evaluated: int = 10
    """Episodes that an agent plays in its world."""
    stretch: int = 50
    """Steps of the stretches that are played from recorded states."""
    trials: tuple[int, ...] = ()
    """Steps on labelled episodes that are tried for every row of the tables of returns."""
    steps: dict[str, dict[int, int]] = field(default_factory=dict)
    """Those that earned most on validation seeds, by row and budget (docs/results.md has the trials); a row that is
    not here takes those of its way, a budget those of the nearest, and a way that is not here what else is set."""
    hardware: Hardware = field(default_factory=lambda: Hardware(accelerator="cpu"))
    """What recorded experiments train on; one processor of the same kind gives the same bits."""


SMALL, PUBLIC = DecoderConfig(width=96), DecoderConfig("bilinear", width=128, reference=16)
# At this scale: a quarter of the tokens, each told its own part of the latent; no modulation by code usage, which would
# tell the forward model about the future past the latent; the same stride for all methods (docs/decisions.md).
LAPTOP_FLAM = FlamConfig(dim=96, blocks=1, heads=4, mlp=192, rounds=2, frames=3, ahead=2, stride=2, annealed=3000)
LAPTOP_LAMS = lams(
    AbstractionConfig(dim=128, mlp=512, dropout=0.0),
    PredictorConfig(128, 2, 4, 512, dropout=0.0, placed=True),
    PixelConfig(cell=2, channels=(16, 32, 64), blocks=0, usage=0, head=64, drawn=2),
    LapoConfig(scale=1, blocks=0, stride=2, reach=1),
    5,
    LAPTOP_FLAM,
    HilamConfig(dim=128, blocks=1, heads=4, mlp=256, window=32, chunks=(4, 2)),
    dino_mlp=256,
)

LAPTOP_FRAMES = FrameTokenizerConfig(dim=64, scale=2, blocks=0)
LAPTOP_ACTOR = ActorConfig(scale=1, blocks=0, state=256, changes=4.0)

PRESETS = {
    # Tests: seconds.
    "tiny": Preset(
        Collection(World(size=32), episodes=4, steps=24),
        0.5,
        MovingMNIST(sequences=105),
        Recipe(decisions=4000, environments=2, updates_per_decision=0.02, evaluate_every=1, evaluate_episodes=1),
        tokenizer_for_control(2, 4, 5, DecoderConfig(width=16, reference=8)),
        tokenizer_for_digits(4, 5, DecoderConfig(width=16, reference=8)),
        TrainConfig(steps=24, batch=8, lr=1e-3, log_every=4, save_every=4, weights=LOSSES),
        TrainConfig(steps=24, batch=8, lr=1e-3, log_every=4, save_every=4, weights=LOSSES),
        FrameTokenizerConfig(dim=8, scale=1, blocks=0),
        TrainConfig(steps=24, batch=8, lr=1e-3, log_every=4, save_every=4, weights=FRAMES),
        lams(
            AbstractionConfig(8, dim=8, heads=2, mlp=16),
            PredictorConfig(8, 1, 2, 16),
            PixelConfig(cell=7, channels=(4, 4, 8), head=8),
            LapoConfig(scale=1, blocks=1, reach=2),
            2,
            FlamConfig(latent=16, dim=8, blocks=1, heads=2, mlp=16, frames=4, ahead=2, annealed=4),
            HilamConfig(width=8, skill=4, dim=8, blocks=1, heads=2, mlp=16, window=6, chunks=(2, 2)),
        ),
        lam_trainings(
            TrainConfig(steps=8, batch=8, lr=1e-3, log_every=2, save_every=2),
            TrainConfig(steps=8, batch=8, optimiser="adam", lr=1e-3, log_every=2, save_every=2),
            TrainConfig(steps=8, batch=8, lr=1e-3, log_every=2, save_every=2),
            TrainConfig(steps=8, batch=8, lr=1e-3, log_every=2, save_every=2),
        ),
        policy(
            ActorConfig(scale=1, blocks=0, state=16),
            TrainConfig(steps=8, batch=8, lr=1e-3, log_every=2, save_every=2),
            TrainConfig(steps=8, batch=8, lr=1e-3, log_every=4, save_every=4),
            4,
        ),
        {},
        {1: 8},
        (1,),
        24,
        2,
        evaluated=2,
        stretch=6,
        trials=(4, 8),
    ),
    # The whole story in minutes.
    "demo": Preset(
        Collection(episodes=12, steps=250),
        0.5,
        MovingMNIST(sequences=420),
        Recipe(decisions=80_000),
        tokenizer_for_control(5, 40, 50, SMALL),
        tokenizer_for_digits(40, 50, SMALL),
        TrainConfig(steps=250, batch=32, lr=1e-3, weights=LOSSES),
        TrainConfig(steps=250, batch=32, lr=1e-3, weights=LOSSES),
        LAPTOP_FRAMES,
        TrainConfig(steps=300, batch=32, lr=1e-3, schedule="cosine", ramp=20, weights=FRAMES),
        LAPTOP_LAMS | {f"flam-{slots}": replace(LAPTOP_FLAM, slots=slots, annealed=250) for slots in (4, 8)},
        lam_trainings(
            TrainConfig(steps=800, batch=32, lr=4e-4, schedule="cosine", ramp=20),
            TrainConfig(steps=600, batch=32, optimiser="adam", lr=1e-3, schedule="linear", ramp=20),
            TrainConfig(steps=300, batch=32, lr=1e-3, schedule="cosine", ramp=20),
            TrainConfig(steps=300, batch=32, lr=4e-4, schedule="cosine", ramp=20),
        ),
        policy(
            LAPTOP_ACTOR,
            TrainConfig(steps=700, batch=64, lr=1e-3, schedule="cosine", ramp=50),
            TrainConfig(steps=300, batch=256, lr=1e-3, schedule="linear", log_every=50, save_every=50),
            150,
        ),
        {},
        {3: 300},
        (3,),
        None,
        6,
        evaluated=2,
    ),
    # Our recorded results: hours in total.
    "laptop": Preset(
        Collection(episodes=128, steps=500),
        0.5,
        MovingMNIST(),
        Recipe(),
        tokenizer_for_control(5, 120, 100, SMALL),
        tokenizer_for_digits(120, 100, SMALL),
        TrainConfig(steps=800, batch=32, lr=1e-3, weights=LOSSES),
        TrainConfig(steps=800, batch=32, lr=1e-3, weights=LOSSES),
        LAPTOP_FRAMES,
        TrainConfig(steps=1500, batch=32, lr=1e-3, schedule="cosine", ramp=50, weights=FRAMES),
        LAPTOP_LAMS,
        lam_trainings(
            TrainConfig(steps=2800, batch=32, lr=4e-4, schedule="cosine", ramp=50),
            TrainConfig(steps=1500, batch=32, optimiser="adam", lr=1e-3, schedule="linear", ramp=50),
            TrainConfig(steps=3200, batch=32, lr=1e-3, schedule="cosine", ramp=50),
            TrainConfig(steps=1500, batch=32, lr=4e-4, schedule="cosine", ramp=50),
            # Smaller steps than Pixel's: larger ones unlearn its latents before they are of use (docs/log.md).
            TrainConfig(steps=3400, batch=32, lr=2e-4, schedule="cosine", ramp=50),
        ),
        policy(
            LAPTOP_ACTOR,
            TrainConfig(steps=3400, batch=64, lr=2e-3, weight_decay=0.5, schedule="cosine", ramp=50),
            TrainConfig(steps=1000, batch=256, lr=1e-3, schedule="linear", log_every=25, save_every=25),
            1500,
        ),
        {},
        # By held-out error, which is what probes are read for; returns ask for more (docs/log.md).
        {2: 50, 4: 100, 8: 200, 16: 500, 32: 1000},
        (8, 32),
        None,
        60,
        evaluated=20,
        trials=(500, 1500, 3400),
        steps={
            "decode": {8: 3400, 32: 1500},  # what every method that has been tried chose
            "lapo-256": {8: 3400, 32: 1500},
            "otf-lam-pixel": {8: 3400, 32: 1500},
            "labels-only": {8: 1500, 32: 1500},
        },
    ),
    # The paper's values: 2,000 full trajectories per task, rendered as the original does, half of them for learning;
    # 10 epochs of 1,949 batches, the first without quantisation; for digits 10 epochs of 55.
    "paper": Preset(
        Collection(World(quality="reference"), episodes=2000),
        0.0,
        MovingMNIST(),
        Recipe(decisions=5_000_000),
        tokenizer_for_control(7, 1949, 1000, PUBLIC),
        tokenizer_for_digits(55, 1000, PUBLIC),
        TrainConfig(steps=19_490, batch=512, lr=1e-4, weights=LOSSES),
        TrainConfig(steps=550, batch=512, lr=1e-4, weights=LOSSES),
        FrameTokenizerConfig(),
        # 10 epochs of 31,250 batches of frames, and of 30,969 batches of sub-trajectories.
        TrainConfig(steps=312_500, batch=32, lr=1e-4, weights=FRAMES),
        lams(AbstractionConfig(), PredictorConfig(), PixelConfig(), LapoConfig(), 7, FlamConfig(), HilamConfig()),
        lam_trainings(
            TrainConfig(steps=20_000, batch=512, lr=1e-4),
            # LAOM's: Adam, no clipping, warm-up over three of ten epochs, then linearly to zero.
            TrainConfig(20_000, 512, "adam", 1e-4, schedule="linear", ramp=6000, clip=0.0),
            TrainConfig(309_690, 32, lr=1e-4, schedule="cosine", ramp=1000),
            TrainConfig(50_000, 32, lr=1e-4),
            pixel=1.0,
        ),
        # 10 epochs of 1,949 batches, 5 for OTF-LAM-DINO; the public code's linear decay.
        policy(
            ActorConfig(),
            TrainConfig(19_490, 512, lr=1e-4, schedule="linear", clip=0.0),
            TrainConfig(5000, 512, lr=3e-4, schedule="linear", clip=0.0),
            2500,
        ),
        {"otf-lam-dino": 9745},
        {16: 2500, 32: 5000, 64: 10_000, 128: 20_000},
        (32,),
        None,
        0,
        hardware=Hardware(),
    ),
}


def preset(name: str) -> Preset:
    return PRESETS[require_name("preset", name, PRESETS)]


def steps_on_labels(chosen: Preset, method: str, labels: int) -> int | None:
    """How long a row of the tables is trained on labelled actions; None: as its training says."""
    way = way_of(method)
    for name in (method, way):
        if budgets := chosen.steps.get(name):
            return budgets[min(budgets, key=lambda budget: abs(math.log2(budget / max(labels, 1))))]
    return chosen.labels.get(labels) if PARTS.get(way) == "decode" else None
