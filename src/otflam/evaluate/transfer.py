"""Zero-shot transfer of a motion vocabulary (paper §6.1, Table 1): trained on one body or carrier, applied to another.

The drop compares the error on the target with the error on held-out episodes of the source. Raw errors depend on how
much the target moves, so the same drop is also computed on errors normalised by the energy of the motion, and the
target's normalised error stands beside both, because a bad source error flatters every drop.
"""

from __future__ import annotations

from otflam.data import Clips
from otflam.evaluate.codes import reconstruction
from otflam.tokenizer import MotionAutoencoder


def transfer_metrics(tokenizer: MotionAutoencoder, source: Clips, target: Clips) -> dict[str, float]:
    """Errors on held-out source and on target, the relative degradation between them, and the model's size."""
    here, there = reconstruction(tokenizer, source), reconstruction(tokenizer, target)
    return {
        "source_mse": here["mse"],
        "target_mse": there["mse"],
        "drop": (there["mse"] - here["mse"]) / here["mse"],
        "source_nmse": here["nmse"],
        "target_nmse": there["nmse"],
        "drop_normalised": (there["nmse"] - here["nmse"]) / here["nmse"],
        # A model whose codes say nothing redraws as well with the codes of another episode.
        "source_foreign_nmse": here["foreign_nmse"],
        "target_foreign_nmse": there["foreign_nmse"],
        "source_bits_per_token": here["bits_per_token"],
        "target_bits_per_token": there["bits_per_token"],
        "parameters": float(sum(parameter.numel() for parameter in tokenizer.parameters())),
    }
