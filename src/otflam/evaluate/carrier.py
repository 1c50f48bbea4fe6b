"""Do codes know the motion, and not the digit that carries it? A test the paper lacks, on controlled Moving MNIST.

Linear probes are trained on sequences of digits 0-4. One reads the motion and is tested on digits 5-9, which no part of
the model has seen. The other reads which digit it is, on held-out sequences of 0-4: the less it can, the better.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from otflam.data.store import Store
from otflam.tokenizer.build import motion_clips
from otflam.tokenizer.model import MotionAutoencoder

VERSION = 1


def carrier_metrics(tokenizer: MotionAutoencoder, train: Store, transfer: Store, features: str) -> dict[str, float]:
    """Accuracy of both probes on a kind of features: `codes` or `motion`."""
    read = FEATURES[features]
    seen, unseen = sequence_features(tokenizer, train, read), sequence_features(tokenizer, transfer, read)
    labels = {name: np.array([episode[name] for episode in train.episodes]) for name in ("motion", "digit")}
    motion = probe(seen, labels["motion"])
    half = len(seen) // 2
    digit = probe(seen[:half], labels["digit"][:half])
    return {
        "motion_accuracy": float(motion.score(unseen, np.array([episode["motion"] for episode in transfer.episodes]))),
        "digit_accuracy": float(digit.score(seen[half:], labels["digit"][half:])),
        "features": float(seen.shape[1]),
    }


def probe(features: Float[np.ndarray, "n f"], labels: np.ndarray):
    return make_pipeline(StandardScaler(), LogisticRegression(max_iter=300, C=0.1)).fit(features, labels)


@torch.inference_mode()
def sequence_features(
    tokenizer: MotionAutoencoder, store: Store, read: Callable[[MotionAutoencoder, torch.Tensor], torch.Tensor]
) -> Float[np.ndarray, "n f"]:
    """The mean over time of what is read from each motion of a sequence."""
    rows = []
    for index in range(len(store)):
        clips = motion_clips(store, tokenizer.config, [index])
        _, signal = tokenizer.observe(clips.gather(np.arange(len(clips))))
        rows.append(read(tokenizer, signal).mean(0).numpy())
    return np.stack(rows)


def read_codes(tokenizer: MotionAutoencoder, signal: torch.Tensor) -> torch.Tensor:
    """How often each code occurs (OTF), or the latent's code vectors in their fixed order (monolithic)."""
    codes = tokenizer.encode(signal)
    if tokenizer.config.method == "otf":
        return F.one_hot(codes, tokenizer.config.codebook.codes).float().mean(1)
    return tokenizer.codebook.vectors[codes].flatten(1)


def read_motion(tokenizer: MotionAutoencoder, signal: torch.Tensor) -> torch.Tensor:
    """The raw signal at the resolution of the grid, which is what the codes are made from."""
    return F.adaptive_avg_pool2d(signal, tokenizer.config.grid).flatten(1)


FEATURES = {"codes": read_codes, "motion": read_motion}
