"""What is compared when vocabularies are applied to what they have not seen: like with like."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import numpy as np
import pytest
import torch

from otflam.data.clips import Clips
from otflam.data.moving_mnist import make_moving_mnist
from otflam.data.options import MovingMNIST
from otflam.data.store import Column, Store
from otflam.data.writing import StoreWriter
from otflam.evaluate.codes import clips_of_other_episodes, reconstruction, transfer_metrics
from otflam.evaluate.names import CONTROL
from otflam.experiments.plans import plan_demo
from otflam.experiments.studies import STUDIES
from otflam.experiments.tokenizers import plan
from otflam.lam.otf_lam import OTFConfig
from otflam.motion.config import MotionConfig
from otflam.presets import PRESETS, Preset, get_preset
from otflam.report.tables import TABLES
from otflam.tokenizer.build import build_tokenizer, motion_clips
from otflam.tokenizer.model import MotionAutoencoder

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """Sequences of a drawn digit: what moves in a sequence is what moved before."""
    folder, image = tmp_path_factory.mktemp("digits"), np.zeros((28, 28), np.uint8)
    image[6:22, 10:18] = 255
    np.savez(folder / "digits.npz", images=[image] * 10, labels=np.arange(10, dtype=np.uint8))
    plan = MovingMNIST("train", 21, 8, 32, digits=str(folder / "digits.npz"))
    return make_moving_mnist(plan, folder / "train")


@pytest.fixture(scope="module")
def tokenizer(digits: Store) -> MotionAutoencoder:
    """One that has seen a few batches, so that its codes differ."""
    torch.manual_seed(0)
    config = dataclasses.replace(get_preset("tiny").digit_tokenizer, grid=4, warmup=1)
    model, clips = build_tokenizer(config), motion_clips(digits, config)
    for step in range(4):
        model(clips.batch(16, 0, step))
    return model.eval()


def uneven(folder: Path, lengths: tuple[int, ...]) -> Store:
    writer = StoreWriter(folder, {"frames": Column("uint8", (4, 4, 3))}, {})
    for index, length in enumerate(lengths):
        writer.append(index, {"frames": np.zeros((length, 4, 4, 3), np.uint8)}, {})
    return writer.finish({}, len(lengths))


@pytest.mark.parametrize("lengths", [(9, 9, 9), (2, 30, 3), (3, 3, 40), (5, 2)])
@pytest.mark.parametrize("count", [4, 12, 99])
def test_strangers_are_of_another_episode(lengths: tuple[int, ...], count: int, tmp_path: Path) -> None:
    clips = Clips(uneven(tmp_path / "data", lengths), (0, 1))
    chosen = clips.evenly_spaced(count)
    others = clips_of_other_episodes(clips, chosen)
    assert others is not None and set(others) <= set(chosen)
    assert (clips.episode_of(others) != clips.episode_of(chosen)).all()


def test_one_episode_has_no_stranger(digits: Store, tokenizer: MotionAutoencoder) -> None:
    clips = motion_clips(digits, tokenizer.config, [3])
    assert clips_of_other_episodes(clips, clips.evenly_spaced(5)) is None
    assert np.isnan(reconstruction(tokenizer, clips)["foreign_nmse"])


def test_codes_are_swapped_between_sequences_whatever_their_number(digits: Store, tokenizer: MotionAutoencoder) -> None:
    """One transition of each sequence or all of them: the codes that are put in its place are another sequence's."""
    clips = motion_clips(digits, tokenizer.config)
    frame, signal = tokenizer.observe(clips.gather(np.arange(len(clips))))
    others = clips_of_other_episodes(clips, np.arange(len(clips)))
    assert others is not None
    with torch.inference_mode():
        wrong = tokenizer.redraw(tokenizer.encode(signal, frame)[torch.from_numpy(others)], frame)
    found = reconstruction(tokenizer, clips, len(clips))
    assert found["foreign_nmse"] == pytest.approx(float((wrong - signal).square().sum() / signal.square().sum()), 1e-4)
    both = transfer_metrics(tokenizer, motion_clips(digits, tokenizer.config, np.arange(10)), clips)
    assert both["target_foreign_nmse"] == pytest.approx(found["foreign_nmse"])
    assert not [name for name in both if "shuffled" in name], "neighbours in a sample are no fair comparison"


def test_sizes_are_recorded_and_told(digits: Store, tokenizer: MotionAutoencoder) -> None:
    """The opponent is much larger: the page and the table's caption say by how much."""
    clips = motion_clips(digits, tokenizer.config, [0, 1])
    assert transfer_metrics(tokenizer, clips, clips)["parameters"] == size(tokenizer)
    page = re.sub(r"\s+", " ", (ROOT / "docs" / "methods" / "otf.md").read_text())
    for method in ("otf", "monolithic"):
        laptop = get_preset("laptop")
        models = [dataclasses.replace(base, method=method) for base in (laptop.tokenizer, laptop.digit_tokenizer)]
        control, drawn = (size(build_tokenizer(model)) for model in models)
        assert f"{control:,} parameters on control frames and {drawn:,} on digits" in page
        told = [f"{number / 1e6:.{1 if number > 1e6 else 2}f} M" for number in (control, drawn)]
        assert all(number in TABLES["transfer"].caption for number in told)


def size(model: torch.nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def motions(preset: Preset, source: str) -> set[MotionConfig]:
    return {each.job.model.motion for each in STUDIES["pictures"].plan(preset) if each.job.source == source}


@pytest.mark.parametrize("name", PRESETS)
def test_pictures_show_the_motion_that_latent_actions_are_learned_from(name: str) -> None:
    preset = get_preset(name)
    told = {config.motion for config in preset.lam.values() if isinstance(config, OTFConfig)}
    assert motions(preset, CONTROL[0]) == told == {preset.tokenizer.motion}
    assert motions(preset, "mnist-train") == {preset.digit_tokenizer.motion}


def test_the_pictured_motion_follows_the_preset() -> None:
    for order in (1, 2):
        motion = MotionConfig(order=order)
        tokenizer = dataclasses.replace(get_preset("tiny").tokenizer, motion=motion)
        other = dataclasses.replace(get_preset("tiny"), tokenizer=tokenizer)
        assert motions(other, CONTROL[0]) == {motion}
        models = [planned.job.model for planned in plan_demo(other) if planned.kind == "tokenizers"]
        assert {model.method for model in models} == {"otf", "monolithic"}
        assert {model.motion for model in models} == {motion}
    assert {job.model.motion.order for job in plan(get_preset("laptop"), "transfer")} == {1, 2}, "Table 1 has both"
