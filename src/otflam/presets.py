"""Every size as a named preset: what to collect and how long to train, from seconds to the paper's scale.

Sizes of latent action models stand in the declarations of their methods (lam/), by the names of these presets.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from otflam.core import Hardware, TrainConfig, require_name
from otflam.data import Collection, MovingMNIST
from otflam.envs import Recipe, World
from otflam.lam import METHODS, ModelConfig
from otflam.motion import MotionConfig
from otflam.policy import PARTS, ActorConfig, PolicyConfig, way_of
from otflam.tokenizer import CodebookConfig, DecoderConfig, FrameTokenizerConfig, TokenizerConfig

GAME = Collection(World(), episodes=384, steps=200, noise=0.1)
"""Levels end early, so that there are more of them; one action of ten is another one, as no state tells."""
LOSSES = {"rec": 1.0, "code": 1.0, "commit": 0.25, "orth": 1e-4}
"""Weights of L_vocab in the authors' public code."""
FRAMES = {"rec": 1.0}


@dataclass(frozen=True, kw_only=True)
class Preset:
    name: str
    """By which methods declare their sizes."""
    collection: Collection
    """What to collect per task: an expert without noise."""
    games: Collection
    """What to collect of each game."""
    noise: float
    """Deviation of the action noise in the episodes that latent actions and policies are learned from."""
    mnist: MovingMNIST
    """How much Moving MNIST to draw (training split)."""
    expert: Recipe
    """How long to train an expert."""
    player: Recipe
    """How long to train an expert of a game."""
    tokenizer: TokenizerConfig
    """Tokenizer for control frames."""
    digit_tokenizer: TokenizerConfig
    """Tokenizer for Moving MNIST: 16 × 16 patches of 8 pixels, frame by frame."""
    tokenizer_training: TrainConfig
    """How long to train a tokenizer for control frames."""
    digit_training: TrainConfig
    """How long to train a tokenizer for digits."""
    general: TokenizerConfig
    """Tokenizer for anything that moves."""
    general_training: TrainConfig
    """How long to train the ones that are packaged; those they are compared with take a quarter of the steps."""
    frame_tokenizer: FrameTokenizerConfig
    """FLAM's tokenizer of frames."""
    frame_training: TrainConfig
    """How long to train it."""
    policy: PolicyConfig
    """The policy, its decoder and how both are trained."""
    clone_steps: dict[str, int]
    """Methods whose policy imitates for another number of steps."""
    game_steps: int | None
    """Steps for which policies of games imitate; None: as many as elsewhere."""
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
    levels: int = 10
    """Levels that an agent plays of a game."""
    stretch: int = 50
    """Steps of the stretches that are played from recorded states."""
    trials: tuple[int, ...] = ()
    """Steps on labelled episodes that are tried for every row of the tables of returns."""
    steps: dict[str, dict[int, int]] = field(default_factory=dict)
    """Those that earned most on validation seeds, by row and budget (trials: docs/results/returns.md); a row that is
    not here takes those of its way, a budget those of the nearest, and a way that is not here what else is set."""
    hardware: Hardware = field(default_factory=lambda: Hardware(accelerator="cpu"))
    """What recorded experiments train on; one processor of the same kind gives the same bits."""

    @property
    def lam(self) -> Mapping[str, ModelConfig]:
        """Every latent action model that has this size, by its method."""
        return {name: method.sizes[self.name].model for name, method in METHODS.items() if self.name in method.sizes}

    @property
    def lam_training(self) -> Mapping[str, TrainConfig]:
        """How long to train each."""
        return {name: method.sizes[self.name].train for name, method in METHODS.items() if self.name in method.sizes}


def control_tokenizer(*, patch: int, warmup: int, patience: int, decoder: DecoderConfig) -> TokenizerConfig:
    return TokenizerConfig(patch=patch, warmup=warmup, codebook=CodebookConfig(patience=patience), decoder=decoder)


def digit_tokenizer(*, warmup: int, patience: int, decoder: DecoderConfig) -> TokenizerConfig:
    motion, book = MotionConfig(stride=1), CodebookConfig(patience=patience)
    return TokenizerConfig("otf", motion, book, decoder, channels=1, grid=16, patch=8, warmup=warmup)


def general_tokenizer(*, patch: int, warmup: int, patience: int, decoder: DecoderConfig) -> TokenizerConfig:
    """One that keeps a code for stillness, and in whose training every transition counts alike."""
    usual = control_tokenizer(patch=patch, warmup=warmup, patience=patience, decoder=decoder)
    return replace(usual, hidden=256, still=0.25, even=True)


def policy(*, actor: ActorConfig, clone: TrainConfig, decode: TrainConfig, finetune: int) -> PolicyConfig:
    """A policy; it is fine-tuned as it was trained, for its own number of steps."""
    clone, decode = replace(clone, weights={"clone": 1.0}), replace(decode, weights={"action": 1.0})
    return PolicyConfig(actor=actor, clone=clone, decode=decode, finetune=replace(clone, steps=finetune))


PLAYER = Recipe(1_000_000, environments=32, width=128, lr=1e-3, evaluate_every=30, evaluate_episodes=50)
GENERAL = DecoderConfig(width=112, reference=96, depth=1)
NARROW, PUBLIC = DecoderConfig(width=96), DecoderConfig("bilinear", width=128, reference=16)
TINY_DECODER = DecoderConfig(width=16, reference=8)
TINY_VOCABULARY = TrainConfig(steps=24, batch=8, lr=1e-3, log_every=4, save_every=4, weights=LOSSES)
LAPTOP_FRAMES = FrameTokenizerConfig(dim=64, scale=2, blocks=0)
LAPTOP_ACTOR = ActorConfig(scale=1, blocks=0, state=256, changes=4.0)

TINY = Preset(
    name="tiny",  # tests: seconds
    collection=Collection(World(size=32), episodes=4, steps=24),
    games=replace(GAME, world=World(size=32), episodes=8, steps=24, mix="scripted=1"),
    noise=0.5,
    mnist=MovingMNIST(sequences=105),
    expert=Recipe(decisions=4000, environments=2, updates_per_decision=0.02, evaluate_every=1, evaluate_episodes=1),
    player=replace(PLAYER, decisions=512, environments=2, width=16, evaluate_every=1, evaluate_episodes=1),
    tokenizer=control_tokenizer(patch=2, warmup=4, patience=5, decoder=TINY_DECODER),
    digit_tokenizer=digit_tokenizer(warmup=4, patience=5, decoder=TINY_DECODER),
    tokenizer_training=TINY_VOCABULARY,
    digit_training=TINY_VOCABULARY,
    general=general_tokenizer(patch=2, warmup=4, patience=5, decoder=TINY_DECODER),
    general_training=TINY_VOCABULARY,
    frame_tokenizer=FrameTokenizerConfig(dim=8, scale=1, blocks=0),
    frame_training=replace(TINY_VOCABULARY, weights=FRAMES),
    policy=policy(
        actor=ActorConfig(scale=1, blocks=0, state=16),
        clone=TrainConfig(steps=8, batch=8, lr=1e-3, log_every=2, save_every=2),
        decode=TrainConfig(steps=8, batch=8, lr=1e-3, log_every=4, save_every=4),
        finetune=4,
    ),
    clone_steps={},
    game_steps=None,
    labels={1: 8},
    compared=(1,),
    played=24,
    featured=2,
    evaluated=2,
    stretch=6,
    trials=(4, 8),
)

DEMO = Preset(
    name="demo",  # the whole story in minutes
    collection=Collection(episodes=12, steps=250),
    games=replace(GAME, episodes=36),
    noise=0.5,
    mnist=MovingMNIST(sequences=420),
    expert=Recipe(decisions=80_000),
    player=replace(PLAYER, decisions=200_000),
    tokenizer=control_tokenizer(patch=5, warmup=40, patience=50, decoder=NARROW),
    digit_tokenizer=digit_tokenizer(warmup=40, patience=50, decoder=NARROW),
    tokenizer_training=TrainConfig(steps=250, batch=32, lr=1e-3, weights=LOSSES),
    digit_training=TrainConfig(steps=250, batch=32, lr=1e-3, weights=LOSSES),
    general=general_tokenizer(patch=5, warmup=40, patience=50, decoder=NARROW),
    general_training=TrainConfig(steps=1000, batch=32, lr=1e-3, schedule="cosine", weights=LOSSES),
    frame_tokenizer=LAPTOP_FRAMES,
    frame_training=TrainConfig(steps=300, batch=32, lr=1e-3, schedule="cosine", ramp=20, weights=FRAMES),
    policy=policy(
        actor=LAPTOP_ACTOR,
        clone=TrainConfig(steps=700, batch=64, lr=1e-3, schedule="cosine", ramp=50),
        decode=TrainConfig(steps=300, batch=256, lr=1e-3, schedule="linear", log_every=50, save_every=50),
        finetune=150,
    ),
    clone_steps={},
    game_steps=None,
    labels={3: 300},
    compared=(3,),
    played=None,
    featured=6,
    evaluated=2,
)

LAPTOP = Preset(
    name="laptop",  # our recorded results: hours in total
    collection=Collection(episodes=128, steps=500),
    games=GAME,
    noise=0.5,
    mnist=MovingMNIST(),
    expert=Recipe(),
    player=PLAYER,
    tokenizer=control_tokenizer(patch=5, warmup=120, patience=100, decoder=NARROW),
    digit_tokenizer=digit_tokenizer(warmup=120, patience=100, decoder=NARROW),
    tokenizer_training=TrainConfig(steps=800, batch=32, lr=1e-3, weights=LOSSES),
    digit_training=TrainConfig(steps=800, batch=32, lr=1e-3, weights=LOSSES),
    general=general_tokenizer(patch=5, warmup=200, patience=100, decoder=GENERAL),
    general_training=TrainConfig(steps=4000, batch=32, lr=1e-3, schedule="cosine", ramp=50, weights=LOSSES),
    frame_tokenizer=LAPTOP_FRAMES,
    frame_training=TrainConfig(steps=1500, batch=32, lr=1e-3, schedule="cosine", ramp=50, weights=FRAMES),
    policy=policy(
        actor=LAPTOP_ACTOR,
        clone=TrainConfig(steps=3400, batch=64, lr=2e-3, weight_decay=0.5, schedule="cosine", ramp=50),
        decode=TrainConfig(steps=1000, batch=256, lr=1e-3, schedule="linear", log_every=25, save_every=25),
        finetune=1500,
    ),
    clone_steps={},
    game_steps=1500,
    # By held-out error, which is what probes are read for; returns ask for more (docs/log.md).
    labels={2: 50, 4: 100, 8: 200, 16: 500, 32: 1000},
    compared=(8, 32),
    played=None,
    featured=60,
    evaluated=20,
    levels=100,
    trials=(500, 1500, 3400),
    steps={
        "decode": {8: 3400, 32: 1500},  # what every method that has been tried chose
        "lapo-256": {8: 3400, 32: 1500},
        "otf-lam-pixel": {8: 3400, 32: 1500},
        "otf-lam-dino": {8: 3400, 32: 3400},
        "labels-only": {8: 1500, 32: 1500},
        "idm": {8: 3400, 32: 1500},
        "lapo-256+finetune": {8: 1500, 32: 1500},
        "otf-lam-pixel+finetune": {8: 1500, 32: 1500},
        "otf-lam-dino+finetune": {8: 1500, 32: 3400},
    },
)

PAPER = Preset(
    name="paper",  # 2,000 full trajectories per task, rendered as the original does, half of them for learning
    collection=Collection(World(quality="reference"), episodes=2000),
    games=replace(GAME, episodes=20_000, steps=None),
    noise=0.0,
    mnist=MovingMNIST(),
    expert=Recipe(decisions=5_000_000),
    player=replace(PLAYER, decisions=25_000_000),
    tokenizer=control_tokenizer(patch=7, warmup=1949, patience=1000, decoder=PUBLIC),
    digit_tokenizer=digit_tokenizer(warmup=55, patience=1000, decoder=PUBLIC),
    # 10 epochs of 1,949 batches, the first without quantisation; for digits 10 epochs of 55.
    tokenizer_training=TrainConfig(steps=19_490, batch=512, lr=1e-4, weights=LOSSES),
    digit_training=TrainConfig(steps=550, batch=512, lr=1e-4, weights=LOSSES),
    general=general_tokenizer(patch=7, warmup=1949, patience=1000, decoder=PUBLIC),
    general_training=TrainConfig(steps=80_000, batch=512, lr=3e-4, schedule="cosine", ramp=500, weights=LOSSES),
    frame_tokenizer=FrameTokenizerConfig(),
    # 10 epochs of 31,250 batches of frames.
    frame_training=TrainConfig(steps=312_500, batch=32, lr=1e-4, weights=FRAMES),
    # 10 epochs of 1,949 batches, 5 for OTF-LAM-DINO; the public code's linear decay.
    policy=policy(
        actor=ActorConfig(),
        clone=TrainConfig(19_490, 512, lr=1e-4, schedule="linear", clip=0.0),
        decode=TrainConfig(5000, 512, lr=3e-4, schedule="linear", clip=0.0),
        finetune=2500,
    ),
    clone_steps={"otf-lam-dino": 9745},
    game_steps=None,
    labels={16: 2500, 32: 5000, 64: 10_000, 128: 20_000},
    compared=(32,),
    played=None,
    featured=0,
    hardware=Hardware(),
)

PRESETS = {each.name: each for each in (TINY, DEMO, LAPTOP, PAPER)}


def get_preset(name: str) -> Preset:
    return PRESETS[require_name("preset", name, PRESETS)]


def steps_on_labels(preset: Preset, method: str, labels: int) -> int | None:
    """How long a row of the tables is trained on labelled actions; None: as its training says."""
    way = way_of(method)
    base = [method.partition("+")[0]] if way == "decode" else []  # labels in training change nothing here
    for name in (method, *base, way):
        if budgets := preset.steps.get(name):
            return budgets[min(budgets, key=lambda budget: abs(math.log2(budget / max(labels, 1))))]
    return preset.labels.get(labels) if PARTS.get(way) == "decode" else None
