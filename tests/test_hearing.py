"""Labels inside the training of every method: what is heard, what it changes, and what is kept of it."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings, strategies as st

from otflam import cli
from otflam.core.batch import Batch
from otflam.core.config import Hardware
from otflam.core.errors import UserError
from otflam.core.progress import Progress
from otflam.data.clips import Clips, RandomBatches
from otflam.data.store import Store
from otflam.lam.build import build_lam, load_lam
from otflam.lam.labels import LABELS, Heard, HeardClips, Labels, let_hear
from otflam.lam.model import LAM, Parts
from otflam.lam.train import train_lam
from otflam.policy.train import Splits
from otflam.presets import get_preset
from otflam.tokenizer.build import train_tokenizer

TINY = get_preset("tiny")
CPU = Hardware(accelerator="cpu")
METHODS = ["lapo-128", "f-lapo", "laom", "lapo-fast", "otf-lam-pixel", "otf-lam-fast"]


@pytest.fixture(scope="module")
def tokenizer(noisy_store: Store, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("tokenizer") / "otf"
    train_tokenizer(noisy_store, [0, 1, 2, 3], TINY.tokenizer, TINY.tokenizer_training, CPU, out)
    return out


def train(
    method: str, store: Store, tokenizer: Path, out: Path, labels: Labels | None, progress: Progress | None = None
) -> LAM:
    base = tokenizer if method.startswith("otf") else None
    training = TINY.lam_training[method]
    if labels is not None:
        training = dataclasses.replace(training, weights=training.weights | {LABELS: 0.5})
    facts = (TINY.lam[method], training, CPU, out, base)
    return train_lam(method, store, ([0, 1, 2, 3], [7]), *facts, progress=progress or Progress(), labels=labels)


@pytest.mark.parametrize("method", METHODS)
def test_every_method_hears(method: str, noisy_store: Store, tokenizer: Path, tmp_path: Path) -> None:
    """Trained with stop and resume to the same bits; other labels and no labels give other latents; no head is left."""
    labels = Labels((4, 5))
    whole = train(method, noisy_store, tokenizer, tmp_path / "whole", labels)
    left = iter(range(4))

    class Stop(Progress):
        def advance(self, count: int = 1) -> None:
            if next(left, None) is None:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(method, noisy_store, tokenizer, tmp_path / "parts", labels, Stop())
    again = train(method, noisy_store, tokenizer, tmp_path / "parts", labels)
    for name, tensor in whole.state_dict().items():
        assert torch.equal(tensor, again.state_dict()[name]), name
    row = json.loads((tmp_path / "parts" / "metrics.jsonl").read_text().splitlines()[-1])
    assert row[LABELS] > 0 and "next" in row
    found = load_lam(tmp_path / "parts")[0]
    assert "label_head.weight" in whole.state_dict() and "label_head.weight" not in found.state_dict()
    assert json.loads((tmp_path / "parts" / "config.json").read_text())["labels"]["episodes"] == [4, 5]
    deaf = train(method, noisy_store, tokenizer, tmp_path / "deaf", None)
    batch = Clips(noisy_store, found.offsets, (), [1]).gather(np.arange(4))
    assert not torch.equal(deaf.infer(batch), found.infer(batch))
    torch.testing.assert_close(whole.infer(batch), found.infer(batch))


def test_the_loss_spelled_out(noisy_store: Store) -> None:
    torch.manual_seed(0)
    model = build_lam("lapo-128", TINY.lam["lapo-128"], Parts((32, 32, 3))).eval()
    batch = Clips(noisy_store, model.training_offsets, ("actions",), [0]).gather(np.arange(5))
    plain = model(batch)
    let_hear(model, noisy_store)
    terms = model(Heard(batch, batch))
    said = F.linear(model.infer(batch), model.label_head.weight, model.label_head.bias)
    torch.testing.assert_close(terms.losses[LABELS], F.mse_loss(said, batch.at("actions", 0)))
    assert torch.equal(terms.losses["next"], plain.losses["next"])
    assert torch.equal(model(batch).losses["next"], plain.losses["next"])  # a batch without labels is as ever


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 4), st.sampled_from([1, 2, 4]), st.floats(0.05, 1.0), st.integers(0, 5))
def test_processes_share_what_is_heard(each: int, world: int, share: float, step: int) -> None:
    class Numbers(RandomBatches):
        def __init__(self, count: int) -> None:
            self.count = count

        def __len__(self) -> int:
            return self.count

        def gather(self, index: np.ndarray) -> Batch:
            return Batch(torch.zeros(len(index), 1, 1, 1, 3, dtype=torch.uint8), (0,), {"number": torch.tensor(index)})

    def numbers(batch: Batch) -> list[int]:
        return batch.columns["number"].tolist()

    feed = HeardClips(Numbers(50), Numbers(20), share)
    size = each * world
    whole, parts = feed.batch(size, 0, step, 0, 1), [feed.batch(size, 0, step, rank, world) for rank in range(world)]
    heard = [numbers(part.labelled) for part in parts]
    assert len({len(part) for part in heard}) == 1 and 1 <= len(heard[0]) <= each
    assert [number for part in parts for number in numbers(part.clips)] == numbers(whole.clips)


def test_the_command_labels_what_policies_would(noisy_store: Store, tmp_path: Path) -> None:
    words = f"lapo-128 {noisy_store.path} --out {tmp_path / 'lam'} --preset tiny --labels 1 --label-seed 3"
    name, rest = cli.find_command(f"lam train {words}".split())
    assert name is not None
    cli.parse(name, rest).run()
    about = json.loads((tmp_path / "lam" / "config.json").read_text())
    assert about["labels"]["episodes"] == Splits.of(noisy_store).labelled(1, 3).tolist()
    assert about["train"]["weights"][LABELS] == 0.05
    assert set(about["labels"]["episodes"]).isdisjoint(about["episodes"][0] + about["episodes"][1])


def test_what_cannot_be_heard(noisy_store: Store, tmp_path: Path, tokenizer: Path) -> None:
    with pytest.raises(UserError, match="labelled episodes that are among the others"):
        train("lapo-128", noisy_store, tokenizer, tmp_path / "a", Labels((7,)))
    with pytest.raises(UserError, match="no labelled episodes"):
        Labels(())
    with pytest.raises(UserError, match=r"--label-share 0\.0"):
        Labels((1,), 0.0)
    assert not (tmp_path / "a").exists()
