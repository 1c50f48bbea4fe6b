"""Do codes know the motion, and not the digit that carries it? A test the paper lacks, on controlled Moving MNIST.

Linear probes are trained on sequences of digits 0-4. One reads the motion and is tested on digits 5-9, which no part of
the model has seen. The other reads which digit it is, on held-out sequences of 0-4: the less it can, the better.
"""

from __future__ import annotations

import warnings

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import Tensor

from otflam.data import Store
from otflam.tokenizer import MotionAutoencoder, code_weights, motion_clips

CARRIER_VERSION = 2


def carrier_metrics(
    tokenizer: MotionAutoencoder, train: Store, held_out: np.ndarray, transfer: Store
) -> dict[str, float]:
    """Accuracy of both probes on each kind of features; `held_out` are episodes no part of the model has seen."""
    seen = np.setdiff1d(np.arange(len(train)), held_out)
    labels = {name: np.array([episode[name] for episode in train.episodes]) for name in ("motion", "digit")}
    unseen_motion = np.array([episode["motion"] for episode in transfer.episodes])
    metrics = {}
    known, unknown = sequence_features(tokenizer, train), sequence_features(tokenizer, transfer)
    for name, here in known.items():
        motion = probe(here[seen], labels["motion"][seen])
        digit = probe(here[seen], labels["digit"][seen])
        metrics[f"{name}_motion_accuracy"] = float(motion.score(unknown[name], unseen_motion))
        metrics[f"{name}_digit_accuracy"] = float(digit.score(here[held_out], labels["digit"][held_out]))
    return metrics


def probe(features: Float[np.ndarray, "n f"], labels: np.ndarray):
    """A linear classifier, given 200 iterations whether it needs them or more."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return make_pipeline(StandardScaler(), LogisticRegression(max_iter=200, C=0.1)).fit(features, labels)


@torch.inference_mode()
def sequence_features(tokenizer: MotionAutoencoder, store: Store) -> dict[str, Float[np.ndarray, "n f"]]:
    """The means over time of what is read from the motions of each sequence."""
    rows: dict[str, list[np.ndarray]] = {"histogram": [], "latent": [], "raw": []}
    for index in range(len(store)):
        clips = motion_clips(store, tokenizer.config, [index])
        frame, signal = tokenizer.observe(clips.gather(np.arange(len(clips))))
        codes = tokenizer.encode(signal, frame)
        read = (read_histogram(tokenizer, codes), read_latent(tokenizer, codes), read_motion(tokenizer, signal))
        for name, features in zip(rows, read, strict=True):
            rows[name].append(features.mean(0).numpy())
    return {name: np.stack(features) for name, features in rows.items()}


def read_histogram(tokenizer: MotionAutoencoder, codes: Int64[Tensor, "t p"]) -> Tensor:
    """How often each code occurs, wherever it occurs."""
    return code_weights(codes, tokenizer.config.codebook.codes)


def read_latent(tokenizer: MotionAutoencoder, codes: Int64[Tensor, "t p"]) -> Tensor:
    """All code vectors in their order: what the decoder sees. Averaged by fours to keep the probe small."""
    return F.avg_pool1d(tokenizer.codebook.vectors[codes].flatten(1), 4)


def read_motion(tokenizer: MotionAutoencoder, signal: Float[Tensor, "t m h w"]) -> Tensor:
    """The raw signal at half the grid's resolution, its positive and negative parts apart.

    First differences alone would cancel over a sequence, leaving only where it starts and ends.
    """
    parts = torch.cat([signal.relu(), (-signal).relu()], 1)
    return F.adaptive_avg_pool2d(parts, tokenizer.config.grid // 2).flatten(1)
