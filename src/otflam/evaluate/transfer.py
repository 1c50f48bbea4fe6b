"""Zero-shot transfer of a motion vocabulary (paper §6.1, Table 1): trained on one body or carrier, applied to another.

The drop compares the error on the target with the error on held-out episodes of the source. Raw errors depend on how
much the target moves, so the same drop is also computed on errors normalised by the energy of the motion, and the
target's normalised error stands beside both, because a bad source error flatters every drop.
"""

from __future__ import annotations

from otflam.data.clips import Clips
from otflam.evaluate.codes import reconstruction
from otflam.tokenizer.model import MotionAutoencoder

VERSION = 1
"""Bump when the results of this file would change."""


def transfer_metrics(tokenizer: MotionAutoencoder, source: Clips, target: Clips) -> dict[str, float]:
    """Errors on held-out source and on target, and the relative degradation between them."""
    here, there = reconstruction(tokenizer, source), reconstruction(tokenizer, target)
    return {
        "source_mse": here["mse"],
        "target_mse": there["mse"],
        "drop": (there["mse"] - here["mse"]) / here["mse"],
        "source_nmse": here["nmse"],
        "target_nmse": there["nmse"],
        "drop_normalised": (there["nmse"] - here["nmse"]) / here["nmse"],
    }
