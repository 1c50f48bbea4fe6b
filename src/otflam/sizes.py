"""What presets are made of: settings of all methods from a few sizes."""

from __future__ import annotations

import dataclasses

from otflam.core.training import TrainConfig
from otflam.lam.config import (
    AbstractionConfig,
    DinoConfig,
    FlamConfig,
    FLapoConfig,
    HilamConfig,
    LamConfig,
    LapoConfig,
    MLapoConfig,
    PixelConfig,
    PredictorConfig,
)
from otflam.motion.config import MotionConfig
from otflam.policy.config import ActionDecoderConfig, ActorConfig, PolicyConfig
from otflam.tokenizer.config import CodebookConfig, DecoderConfig, TokenizerConfig

LOSSES = {"rec": 1.0, "code": 1.0, "commit": 0.25, "orth": 1e-4}
"""Weights of L_vocab in the authors' public code."""
FLAM_LOSSES = {"next": 1.0, "kl": 2e-4, "commit": 0.25}
"""The last one counts for the discrete bottleneck only, the one before for the Gaussian."""
HILAM_LOSSES = {"latent": 1.0, "rec": 1.0, "ratio": 0.03}
FRAMES = {"rec": 1.0}


def tokenizer_for_control(patch: int, warmup: int, patience: int, decoder: DecoderConfig) -> TokenizerConfig:
    return TokenizerConfig(patch=patch, warmup=warmup, codebook=CodebookConfig(patience=patience), decoder=decoder)


def tokenizer_for_digits(warmup: int, patience: int, decoder: DecoderConfig) -> TokenizerConfig:
    motion, book = MotionConfig(stride=1), CodebookConfig(patience=patience)
    return TokenizerConfig("otf", motion, book, decoder, channels=1, grid=16, patch=8, warmup=warmup)


def lams(
    abstraction: AbstractionConfig,
    predictor: PredictorConfig,
    pixel: PixelConfig,
    lapo: LapoConfig,
    patch: int,
    flam: FlamConfig,
    hilam: HilamConfig,
    dino_mlp: int | None = None,
) -> dict[str, LamConfig]:
    """All methods at one size; `lapo` gives the sizes of its whole family, `dino_mlp` another inner width for DINO."""
    sizes = (lapo.scale, lapo.blocks, lapo.frames, lapo.stride, lapo.reach)
    read = dataclasses.replace(abstraction, mlp=dino_mlp or abstraction.mlp)
    foresee = dataclasses.replace(predictor, mlp=dino_mlp or predictor.mlp)
    return {
        "otf-lam-pixel": dataclasses.replace(pixel, abstraction=abstraction, predictor=predictor),
        "otf-lam-dino": DinoConfig(read, foresee, cell=pixel.cell, size=14 * pixel.side),
        "lapo-64": LapoConfig(hilam.width, *sizes),
        "lapo-128": LapoConfig(128, *sizes),
        "lapo-256": LapoConfig(256, *sizes),
        "m-lapo": MLapoConfig(128, *sizes),
        "f-lapo": FLapoConfig(128, *sizes, patch=patch),
        "flam-4": dataclasses.replace(flam, slots=4),
        "flam-8": dataclasses.replace(flam, slots=8),
        "hilam": hilam,
    }


def lam_trainings(
    ours: TrainConfig,
    lapo: TrainConfig,
    flam: TrainConfig,
    hilam: TrainConfig,
    dino: TrainConfig | None = None,
    pixel: float = 1000.0,
) -> dict[str, TrainConfig]:
    """OTF-LAM's training for ours, `dino` for the one in feature space, and the baselines' own."""
    next_only, coded = {"next": 1.0}, {"next": 1.0, "commit": 0.25}
    # The paper writes sums of squares, ours are means. A mean over pixels in [0, 1] has gradients so small that Adam's
    # epsilon of 1e-8 holds back the layers far from the output, so `pixel` weighs it; the clip at 1 is then active.
    # Features of DINO vary by about 1 and need no weight.
    return {
        "otf-lam-pixel": dataclasses.replace(ours, weights={"next": pixel}),
        "otf-lam-dino": dataclasses.replace(dino or ours, weights=next_only),
        **{
            name: dataclasses.replace(lapo, weights=next_only) for name in ("lapo-64", "lapo-128", "lapo-256", "m-lapo")
        },
        "f-lapo": dataclasses.replace(lapo, weights=coded),
        **{name: dataclasses.replace(flam, weights=FLAM_LOSSES) for name in ("flam-4", "flam-8")},
        "hilam": dataclasses.replace(hilam, weights=HILAM_LOSSES),
    }


def policy(actor: ActorConfig, clone: TrainConfig, decode: TrainConfig, finetune: int) -> PolicyConfig:
    """A policy; it is fine-tuned as it was trained, for its own number of steps."""
    clone, decode = (
        dataclasses.replace(train, weights={name: 1.0}) for train, name in ((clone, "clone"), (decode, "action"))
    )
    tuned = dataclasses.replace(clone, steps=finetune)
    return PolicyConfig(actor, ActionDecoderConfig(), clone, decode, tuned)
