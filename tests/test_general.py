"""Vocabularies of many data sets, and a code of its own for what is still."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st

from otflam.cli import main
from otflam.core import Hardware, Progress, TrainConfig, UserError
from otflam.core.batch import Batch
from otflam.data import Clips, Column, Store, StoreWriter
from otflam.evaluate import reconstruction, stillness
from otflam.experiments import lams, vocabularies
from otflam.experiments.datasets import Lab, prepare_data
from otflam.experiments.general import ALL, BUT, Job, domains_of, measure, plan, training_of
from otflam.experiments.plans import plan_general
from otflam.experiments.sources import DOMAINS, FILMED
from otflam.lam import load_lam
from otflam.presets import get_preset
from otflam.tokenizer import (
    OTF,
    CodebookConfig,
    DecoderConfig,
    Gap,
    Portion,
    Tokenizer,
    TokenizerConfig,
    load_tokenizer,
    mix_motion,
    noise_level,
    train_on_mixture,
)
from otflam.tokenizer.model import patch_energy

SMALL = TokenizerConfig(
    codebook=CodebookConfig(8, 6, patience=4),
    decoder=DecoderConfig(width=12, reference=5, depth=1),
    grid=4,
    patch=3,
    hidden=16,
    descriptor=7,
    warmup=3,
    still=0.25,
    even=True,
)
TRAIN = TrainConfig(
    steps=8, batch=6, lr=1e-3, log_every=2, save_every=4, weights=get_preset("tiny").general_training.weights
)
HARDWARE = Hardware(accelerator="cpu")


def square(out: Path, size: int, colours: int, fps: float | None) -> Store:
    """A bright square that runs over a flat ground."""
    writer = StoreWriter(out, {"frames": Column("uint8", (size, size, colours))}, {}, lock=True)
    for index in range(4):
        frames = np.full((20, size, size, colours), 60, np.uint8)
        for t in range(20):
            frames[t, index + 1 : index + 4, t % (size - 4) : t % (size - 4) + 3] = 255
        writer.append(index, {"frames": frames}, {"fps": fps} if fps else {})
    return writer.finish({}, 4)


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> list[Store]:
    folder = tmp_path_factory.mktemp("general")
    return [square(folder / "a", 12, 3, 50.0), square(folder / "b", 16, 1, None)]


@pytest.fixture(scope="module")
def otf(stores: list[Store], tmp_path_factory: pytest.TempPathFactory) -> OTF:
    portions = [Portion(store, [0, 1]) for store in stores]
    out = tmp_path_factory.mktemp("trained")
    found = train_on_mixture(portions, Gap(0.04, 0.08), SMALL, TRAIN, HARDWARE, out)
    assert isinstance(found, OTF)
    return found


def test_still_patches_have_a_code_that_draws_nothing(stores: list[Store], otf: OTF) -> None:
    clips = Clips(stores[0], (0, 2), episodes=[2, 3])
    frame, signal = otf.observe(clips.gather(np.arange(20)))
    codes, redrawn = otf.encode(signal, frame), otf.redraw(otf.encode(signal, frame), frame)
    energy = signal.view(20, 3, 4, 3, 4, 3).square().mean((1, 3, 5)).flatten(1)
    still = (energy < 0.25 * energy.mean(1, keepdim=True)) | (energy < noise_level(SMALL))
    assert (codes[still] == 0).all() and 0 < still.float().mean() < 1 and (codes > 0).any()
    drawn = redrawn.view(20, 3, 4, 3, 4, 3).square().mean((1, 3, 5)).flatten(1)
    assert (drawn[still] == 0).all() and (drawn[~still] > 0).any()
    assert (otf.codebook.vectors[0] == 0).all() and otf.codebook.counts[0] == 0


def test_no_code_draws_worse_than_nothing(stores: list[Store], otf: OTF) -> None:
    """A code that would gives way to stillness; its neighbours are drawn anew without it, so that it is nearly so."""
    frame, signal = otf.observe(Clips(stores[0], (0, 2), episodes=[2, 3]).gather(np.arange(20)))
    codes = otf.encode(signal, frame)
    error = patch_energy(otf.redraw(codes, frame) - signal, 3) / patch_energy(signal, 3)
    assert (error[codes > 0] < 1).float().mean() > 0.95
    careless = otf.codebook.nearest(otf.embed(signal).flatten(0, 1)).view_as(codes) * otf.moving(signal)
    worse = patch_energy(otf.redraw(careless, frame) - signal, 3) >= patch_energy(signal, 3)
    assert torch.equal(codes, careless * ~worse)


def test_stillness_scores_one_where_nothing_is_drawn(stores: list[Store], otf: OTF) -> None:
    clips = Clips(stores[0], (0, 2), episodes=[2, 3])
    assert stillness(otf, clips, 20) == pytest.approx(1, abs=0.05)
    reckless = OTF(dataclasses.replace(SMALL, still=0.0))
    state = {name: value for name, value in otf.state_dict().items() if name != "floor"}
    reckless.load_state_dict(state, strict=False)
    assert stillness(reckless.eval(), clips, 20) != pytest.approx(1, abs=0.05)


def test_every_transition_counts_alike(otf: OTF) -> None:
    frames = torch.randint(0, 256, (4, 2, 12, 12, 3), dtype=torch.uint8)
    _, signal = otf.observe(Batch(frames, (0, 2), {}))
    redrawn = signal * torch.tensor([0.5, 0.5, 1.0, 0.0])[:, None, None, None]
    wanted = torch.tensor([0.25, 0.25, 0.0, 1.0]).mean()
    assert otf.error(redrawn, signal) == pytest.approx(float(wanted), rel=1e-2)
    assert otf.error(0.5 * redrawn, 0.5 * signal) == pytest.approx(float(wanted), rel=5e-2)


class StoppedError(RuntimeError):
    """What ends a training here."""


class Stopper(Progress):
    """Stops a training after its first checkpoint."""

    steps = 0

    def advance(self, count: int = 1) -> None:
        self.steps += 1
        if self.steps == 6:
            raise StoppedError


def test_a_mixture_goes_on_where_it_was_stopped(stores: list[Store], otf: OTF, tmp_path: Path) -> None:
    portions = [Portion(store, [0, 1]) for store in stores]
    again = train_on_mixture(portions, Gap(0.04, 0.08), SMALL, TRAIN, HARDWARE, tmp_path / "again")
    with pytest.raises(StoppedError):
        train_on_mixture(portions, Gap(0.04, 0.08), SMALL, TRAIN, HARDWARE, tmp_path / "part", Stopper())
    train_on_mixture(portions, Gap(0.04, 0.08), SMALL, TRAIN, HARDWARE, tmp_path / "part")
    ended = load_tokenizer(tmp_path / "part").state_dict()
    for name, value in again.state_dict().items():
        assert name in again.transient or torch.equal(value, ended[name])
    with pytest.raises(UserError, match="gap differ"):
        train_on_mixture(portions, Gap(0.04, 0.2), SMALL, TRAIN, HARDWARE, tmp_path / "again")


def test_gaps_become_frames_of_each_rate(stores: list[Store]) -> None:
    mixture = mix_motion([Portion(store, [0]) for store in stores], Gap(0.04, 0.08), SMALL)
    assert [clips.offsets for clips in mixture.sources] == [(0, 2), (0, 3), (0, 4), (0, 1), (0, 2)]
    assert mixture.shares == pytest.approx([1 / 6] * 3 + [1 / 4] * 2)


@given(st.floats(0.001, 1), st.floats(1, 4), st.floats(1, 240))
def test_a_gap_is_at_least_one_frame(least: float, times: float, rate: float) -> None:
    gap = Gap(least, least * times)
    steps = list(gap.frames(rate))
    assert steps and min(steps) >= 1
    if len(steps) > 1:
        assert all(gap.least - 1e-6 <= step / rate <= gap.most + 1e-6 for step in steps)


def test_one_command_for_several_folders(
    stores: list[Store], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folders, out = [str(store.path) for store in stores], tmp_path / "tokenizer"
    call = ["tokenizer", "train", *folders, "--preset", "tiny", "--still", "0.25", "--out", str(out)]
    main([*call, "--weights", "2", "1", "--gap", "0.04..0.08"])
    printed = capsys.readouterr().out
    assert all(folder in printed for folder in folders) and printed.count("held out:") == 2
    about = json.loads((out / "config.json").read_text())
    assert [part["weight"] for part in about["mixture"]] == [2.0, 1.0] and about["gap"] == {"least": 0.04, "most": 0.08}


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--gap", "0.1"], "--gap 0.1: give the shortest"),
        (["--gap", "0.2..0.1"], "--gap 0.2..0.1"),
        (["--weights", "1"], "1 weights for 2 data sets"),
        (["--still", "1.5"], "still is 1.5"),
        (["--still", "0.2", "--method", "monolithic"], "a monolithic tokenizer has no code for still patches"),
    ],
)
def test_bad_options(
    stores: list[Store], tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], told: str
) -> None:
    folders = [str(store.path) for store in stores]
    with pytest.raises(SystemExit):
        main(["tokenizer", "train", *folders, "--preset", "tiny", "--out", str(tmp_path / "out"), *options])
    assert told in capsys.readouterr().err


def test_training_without_data_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["tokenizer", "train", "--preset", "tiny", "--out", str(tmp_path / "out")])
    assert "data" in capsys.readouterr().err


def test_still_videos_train_nothing(tmp_path: Path) -> None:
    writer = StoreWriter(tmp_path / "data", {"frames": Column("uint8", (12, 12, 3))}, {}, lock=True)
    writer.append(0, {"frames": np.full((20, 12, 12, 3), 9, np.uint8)}, {})
    portions = [Portion(writer.finish({}, 1), [0])]
    with pytest.raises(UserError, match="nothing moves"):
        train_on_mixture(portions, None, SMALL, TRAIN, HARDWARE, tmp_path / "out")


def test_the_study_leaves_each_domain_out_once() -> None:
    jobs = plan(get_preset("laptop"), "general")
    assert domains_of(ALL) == list(DOMAINS) and domains_of("games") == ["games"]
    assert domains_of(BUT + "games") == [domain for domain in DOMAINS if domain != "games"]
    assert len(jobs) == 2 * (1 + 2 * len(DOMAINS)) + 1 and [job.codes for job in jobs[:2]] == [256, 64]
    preset = get_preset("laptop")
    assert training_of(preset, jobs[0]).steps == 4 * training_of(preset, jobs[-1]).steps
    assert all(name.endswith(FILMED) for name in DOMAINS["videos"])


def test_a_cell_of_the_study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    few = {name: DOMAINS[name][:1] for name in ("digits", "textures")} | {"videos": ("general-textures-h264",)}
    for module in ("sources", "general"):
        monkeypatch.setattr(f"otflam.experiments.{module}.DOMAINS", few)
    lab = Lab(tmp_path, get_preset("tiny"))
    for names in few.values():
        for name in names:
            assert len(prepare_data(lab, name, 1)) > 0
    found = measure(lab, Job("otf", BUT + "digits", 16))
    assert {f"{kind}_{domain}" for kind in ("nmse", "still_nmse") for domain in few} | {"nmse", "train_seconds"} == {
        *found
    }
    assert found["nmse"] == pytest.approx(np.mean([found[f"nmse_{domain}"] for domain in few]))


def test_latent_actions_on_the_general_vocabulary_differ_in_nothing_else(tmp_path: Path) -> None:
    lab = Lab(tmp_path, get_preset("tiny"))
    job = next(planned.job for planned in plan_general(lab.preset) if planned.kind == "vocabularies")
    own = dataclasses.replace(job, method="otf-lam-pixel")
    for name in {*vocabularies.needs(job), *vocabularies.needs(own)}:
        prepare_data(lab, name, 1)
    found, (cell, other) = vocabularies.measure(lab, job), (vocabularies.cell(lab, each) for each in (job, own))
    assert np.isfinite(found["action_mse"]) and {"innovation_r2", "distractor_r2", "episode_mse"} <= {*found}
    assert not (tmp_path / "tokenizers").exists()  # none was trained
    read = lams.lam_folder(lab, lams.job_for(job.method, job.data, job.labels, job.seed))
    assert load_lam(read)[0].tokenizer.config == Tokenizer.from_pretrained().model.config
    assert cell.config["lam"].pop("tokenizer") != other.config["lam"].pop("tokenizer")
    assert other.config["lam"].pop("vocabulary") and cell.config == other.config


def test_a_mixture_is_measured_like_a_data_set(stores: list[Store], otf: OTF) -> None:
    """One source in its own size: the same numbers, whether it is read as it is or as a mixture."""
    alone, mixed = Clips(stores[0], (0, 2)), mix_motion([Portion(stores[0], range(4))], None, SMALL)
    assert stores[0].columns["frames"].shape[0] == SMALL.grid * SMALL.patch
    for name, value in reconstruction(otf, alone, 30).items():
        assert reconstruction(otf, mixed, 30)[name] == pytest.approx(value, nan_ok=True)
