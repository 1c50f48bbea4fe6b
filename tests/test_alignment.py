"""What latents know: probes against an independent implementation, controls, leakage; returns and their statistics."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st
from PIL import Image
from scipy import stats as scipy_stats
from sklearn.linear_model import Ridge as SklearnRidge
from sklearn.metrics import r2_score as sklearn_r2
from sklearn.preprocessing import StandardScaler

from otflam.commands.report import EvaluateCurves
from otflam.core.batch import Batch
from otflam.core.config import Hardware
from otflam.core.errors import UserError
from otflam.data.store import Store
from otflam.data.writing import StoreWriter
from otflam.envs.rollout import episode_seed, make_policy, play_episode
from otflam.envs.suite import ControlEnv
from otflam.envs.world import World
from otflam.evaluate.alignment import (
    Ridge,
    aligned_columns,
    change,
    episodes_of,
    leakage_metrics,
    principal_axes,
    r2_score,
    ridge_guess,
    ridge_guesses,
)
from otflam.evaluate.control import play
from otflam.evaluate.records import Cell, read_records, write_record
from otflam.evaluate.stats import bootstrap_interval, interquartile_mean, rms_deviation
from otflam.experiments import agents, alignments, lams
from otflam.experiments.datasets import Lab, prepare_data
from otflam.lam.audit import frozen_future
from otflam.lam.build import load_lam
from otflam.lam.label import label_store
from otflam.lam.otf_lam import PixelConfig
from otflam.lam.train import train_lam
from otflam.policy.train import Splits
from otflam.presets import get_preset
from otflam.report.rendering import as_markdown
from otflam.report.tables import TABLES
from otflam.tokenizer.build import train_frame_tokenizer, train_tokenizer

TINY, LAPTOP, CPU = get_preset("tiny"), get_preset("laptop"), Hardware(accelerator="cpu")


def plain(inputs: np.ndarray, outputs: np.ndarray, alpha: float, rows: np.ndarray) -> np.ndarray:
    ridge = Ridge(inputs)
    return ridge.fit(outputs)(alpha, ridge.standardise(rows))


def test_several_outputs_are_read_as_each_by_itself() -> None:
    rng = np.random.default_rng(0)
    inputs = [rng.normal(size=(20, 7)) for _ in range(5)]
    outputs = {
        name: [rng.normal(size=(20, 3)) + each[:, :3] * scale for each in inputs]
        for name, scale in (("a", 0.0), ("b", 5.0))
    }
    unseen = rng.normal(size=(9, 7))
    for name, guess in ridge_guesses(inputs, outputs, unseen).items():
        np.testing.assert_array_equal(guess, ridge_guess(inputs, outputs[name], unseen))


def test_ridge_is_sklearn_s() -> None:
    rng = np.random.default_rng(0)
    inputs, weights = rng.normal(2, [1, 5, 0.1], (200, 3)), rng.normal(size=(3, 2))
    outputs = inputs @ weights + rng.normal(size=(200, 2))
    scaler = StandardScaler().fit(inputs)
    for alpha in (1e-4, 1.0, 100.0):
        reference = SklearnRidge(alpha=alpha * 200).fit(scaler.transform(inputs), outputs)
        assert np.allclose(
            plain(inputs, outputs, alpha, inputs), reference.predict(scaler.transform(inputs)), atol=1e-4
        )


def test_r2_weighs_outputs_by_their_variance() -> None:
    rng = np.random.default_rng(0)
    truth = rng.normal(size=(50, 3)) * [1, 3, 0.2]
    guess = truth + rng.normal(size=(50, 3))
    assert r2_score(guess, truth) == pytest.approx(sklearn_r2(truth, guess, multioutput="variance_weighted"))


def test_the_ridge_chooses_its_strength_on_other_episodes() -> None:
    """Sixty inputs that tell nothing would be fitted by ten samples; a strong ridge leaves them alone."""
    rng = np.random.default_rng(0)
    inputs = [rng.normal(size=(20, 60)) for _ in range(4)]
    outputs = [rng.normal(size=(20, 1)) for _ in range(4)]
    unseen, truth = rng.normal(size=(500, 60)), rng.normal(size=(500, 1))
    assert r2_score(ridge_guess(inputs, outputs, unseen), truth) > -0.3
    assert r2_score(plain(np.concatenate(inputs), np.concatenate(outputs), 1e-4, unseen), truth) < -1
    signal = [rows[:, :1] * 2 for rows in inputs]
    assert r2_score(ridge_guess(inputs, signal, unseen), unseen[:, :1] * 2) > 0.99


def test_principal_axes_keep_what_varies() -> None:
    rows = torch.randn(300, 5, generator=torch.Generator().manual_seed(0)) * torch.tensor([9.0, 1e-3, 5.0, 1e-3, 2.0])
    mean, axes = principal_axes(rows, 8)
    assert axes.shape == (5, 8) and not axes[:, 5:].any()
    kept = (rows - mean) @ axes[:, :3]
    assert kept.square().sum().item() == pytest.approx((rows - mean).square().sum().item(), rel=1e-4)


def test_a_frozen_future_repeats_the_present_and_forgets_codes() -> None:
    frames = torch.arange(2 * 4 * 2 * 2 * 3, dtype=torch.uint8).view(2, 4, 2, 2, 3)
    columns = {"codes": torch.zeros(2, 4, 3), "features": torch.arange(8.0).view(2, 4)}
    still = frozen_future(Batch(frames, (-1, 0, 1, 2), columns))
    assert torch.equal(still.frames, frames[:, [0, 1, 1, 1]])
    assert still.columns.keys() == {"features"}
    assert torch.equal(still.columns["features"], columns["features"][:, [0, 1, 1, 1]])


@pytest.fixture(scope="module")
def store(noisy_store: Store) -> Store:
    return noisy_store


def test_columns_of_a_real_model(store: Store, tmp_path: Path) -> None:
    """Latents and controls of the same transitions; the state-only row does not change with the future."""
    folder, splits = tmp_path / "lam", Splits.of(store)
    train_lam("lapo-128", store, ([0, 1], [2]), TINY.lam["lapo-128"], TINY.lam_training["lapo-128"], CPU, folder)
    model, last = load_lam(folder)[0], 1
    columns = aligned_columns(store, folder, None, splits.unlabelled, splits.pool)
    lengths = {name: [len(rows) for rows in episodes_of(column, name, splits.pool, last)]
               for name, column in columns.items()}  # fmt: skip
    wanted = [len(rows) for rows in episodes_of(store, "actions", splits.pool, last)]
    assert lengths == dict.fromkeys(columns, wanted)
    latents = episodes_of(columns["latents"], "latents", splits.pool, last)
    still = episodes_of(columns["still"], "still", splits.pool, last)
    assert latents[0].shape == still[0].shape and not np.allclose(latents[0], still[0])
    assert label_store(store, folder, None, splits.pool).path == columns["latents"].path
    assert model.stride == 1


def test_leakage_reads_the_camera_from_latents_that_hold_it(store: Store) -> None:
    splits, (first, last) = Splits.of(store), store.meta["distractor_fields"]["camera"]
    episodes = {int(index): store.episode(int(index), "distractors") for index in range(8)}
    moves = {index: rows[2:, first:last] - rows[:-2, first:last] for index, rows in episodes.items()}
    exact = {index: np.concatenate([rows, rows @ np.ones((4, 8))], 1) for index, rows in moves.items()}
    known, unseen = ([exact[int(index)] for index in part] for part in (splits.pool, splits.probes))
    found = leakage_metrics(store, known, splits.pool, unseen, splits.probes, 2)
    assert found["distractor_r2"] > 0.99
    noise = np.random.default_rng(0)
    blind = [[noise.normal(size=rows.shape) for rows in part] for part in (known, unseen)]
    assert leakage_metrics(store, blind[0], splits.pool, blind[1], splits.probes, 2)["distractor_r2"] < 0.2


@given(st.lists(st.floats(-100, 100), min_size=4, max_size=30))
def test_the_middle_half(values: list[float]) -> None:
    ordered = np.sort(values)
    cut = len(values) // 4
    assert interquartile_mean(values) == pytest.approx(float(ordered[cut : len(values) - cut].mean()), abs=1e-6)


def test_intervals_and_deviations() -> None:
    groups = np.random.default_rng(0).normal(100, 10, (3, 200)).tolist()
    low, high = bootstrap_interval(groups)
    assert low < 100 < high and high - low < 6
    assert bootstrap_interval(groups) == (low, high)
    few, rng = [[1.0, 5.0, 9.0], [20.0, 22.0], [3.0, 3.0, 4.0, 30.0]], np.random.default_rng(1)
    drawn = [
        np.mean([rng.choice(few[seed], len(few[seed])).mean() for seed in rng.integers(3, size=3)]) for _ in range(4000)
    ]
    assert bootstrap_interval(few) == pytest.approx(np.quantile(drawn, [0.025, 0.975]), abs=0.4)
    assert rms_deviation(groups) == pytest.approx(np.sqrt(np.mean([scipy_stats.tvar(group) for group in groups])))


def test_cells_and_their_tables(tmp_path: Path) -> None:
    """The recorded experiments' own functions, on the smallest data, down to the tables."""
    lab, records = Lab(tmp_path / "root", TINY), tmp_path / "records"
    data = "cheetah-run-noisy"
    for name in agents.needs(agents.Job("lapo-256", data, 1, 0)):
        prepare_data(lab, name, 1)
    jobs = [agents.Job("random", data, 0, 0), agents.Job("all-actions", data, 0, 0), agents.Job("expert", data, 0, 0)]
    jobs += [
        agents.Job(method, data, 1, 0)
        for method in ("lapo-256", "lapo-256+relabel", "lapo-256+finetune", "labels-only", "idm")
    ]
    for job in jobs:
        metrics = agents.measure(lab, job)
        write_record(records, agents.cell(lab, job), metrics, 0.0, "test")
    table = as_markdown(*TABLES["control"].make(records, "tiny"))
    assert table.count("\n") == 2 + len(jobs) and "lapo-256+relabel" in table
    job = alignments.Job("lapo-256", data, 1, 0)
    metrics = alignments.measure(lab, job)
    names = {
        "action_r2",
        "action_mse",
        "action_r2_gain",
        "distractor_r2",
        "state_r2",
        "present_r2",
        "still_r2",
        "motion_r2",
    }
    assert names <= metrics.keys()
    assert metrics["action_r2_gain"] == pytest.approx(metrics["action_r2"] - metrics["state_r2"])  # ty: ignore
    cell: Cell = alignments.cell(lab, job)
    write_record(records, cell, metrics, 0.0, "test")
    (record,) = read_records(records, "alignment")
    assert record["labels"] == 1 and len(record["metrics"]["curve_mse"]) == len(record["metrics"]["curve_steps"]) == 2
    assert "lapo-256" in as_markdown(*TABLES["alignment"].make(records, "tiny"))
    figure = tmp_path / "curves.png"
    EvaluateCurves(figure, records, "tiny", 1).run()
    with Image.open(figure) as drawn:
        assert drawn.width > 300 and len(drawn.convert("RGB").getcolors(1 << 20)) > 50  # ty: ignore[invalid-argument-type]
    with pytest.raises(UserError, match="no curves of tiny at 2 labels"):
        EvaluateCurves(figure, records, "tiny", 2).run()


def test_plans_of_the_paper_s_tables() -> None:
    supervision, vocabulary = agents.plan(LAPTOP, "supervision"), agents.plan(LAPTOP, "vocabulary")
    assert {(job.method, job.codes) for job in vocabulary} == {
        (method, codes) for method in ("otf-lam-pixel", "otf-lam-dino") for codes in (16, 32, 0, 128)
    }
    assert {job.labels for job in supervision} == set(LAPTOP.labels)
    assert {job.data for job in supervision + vocabulary} == {"cheetah-run-noisy", "walker-run-noisy"}


def test_plans_have_floor_and_ceiling_in_every_world() -> None:
    for preset in (LAPTOP, get_preset("paper")):
        jobs = agents.plan(preset, "control")
        for data in {job.data for job in jobs}:
            methods = {job.method for job in jobs if job.data == data}
            assert {"random", "zero", "expert", "all-actions", "labels-only", "lapo-256"} <= methods
            assert data.endswith("-vanilla") or {*lams.methods(preset), "idm"} <= methods
        assert len(set(jobs)) == len(jobs)
    assert {job.labels for job in alignments.plan(LAPTOP, "alignment")} == set(LAPTOP.labels)


@pytest.mark.parametrize("method", ["otf-lam-pixel", "flam-4", "hilam"])
def test_the_state_only_rows_do_not_change_with_the_future(method: str, store: Store, tmp_path: Path) -> None:
    """Even for a model whose view of the present is modulated by the codes of the transition, or by stored latents."""
    out, splits = tmp_path / "base", Splits.of(store)
    config, training = TINY.lam[method], TINY.lam_training[method]
    if isinstance(config, PixelConfig):
        assert config.usage > 0
        train_tokenizer(store, [0, 1], TINY.tokenizer, TINY.tokenizer_training, CPU, out)
    elif method == "hilam":
        low = TINY.lam["lapo-64"], TINY.lam_training["lapo-64"]
        train_lam("lapo-64", store, ([0, 1], [2]), *low, CPU, out)
    else:
        train_frame_tokenizer(store, [0, 1], TINY.frame_tokenizer, TINY.frame_training, CPU, out)
    train_lam(method, store, ([0, 1], [2]), config, training, CPU, tmp_path / "lam", out)
    here = aligned_columns(store, tmp_path / "lam", None, splits.unlabelled, splits.pool)
    frames = np.array(store["frames"])
    first = int(store.starts[splits.pool[0]])
    # Another future from the tenth frame of the first labelled episode on.
    frames[first + 10 :] = np.random.default_rng(0).integers(0, 256, frames[first + 10 :].shape, np.uint8)
    columns = {name: np.array(store[name]) for name in ("actions", "distractors")} | {"frames": frames}
    writer = StoreWriter(tmp_path / "other", {name: store.columns[name] for name in columns}, {})
    for index in range(len(store)):
        rows = slice(store.starts[index], store.starts[index] + store.lengths[index])
        writer.append(index, {name: column[rows] for name, column in columns.items()}, {})
    there = aligned_columns(writer.finish({}, len(store)), tmp_path / "lam", None, splits.unlabelled, splits.pool)
    for name, same in {"present": True, "still": True, "state": True, "latents": False, "motion": False}.items():
        pair = [np.asarray(columns[name].episode(0, name))[:10] for columns in (here, there)]
        assert np.allclose(*pair, atol=1e-4) == same, name


def test_the_background_s_change_is_what_can_be_seen(store: Store) -> None:
    moved = change(store, 0, "background", 2)
    assert moved.shape == (store.lengths[0] - 2, 16) and moved.std() > 0
    assert change(store, 0, "camera", 2).shape[1] == 4


def test_a_worker_s_problem_is_told_as_it_is(tmp_path: Path) -> None:
    """Not as a process that died, whatever the number of workers."""
    with pytest.raises(UserError, match="give the folder of a trained agent"):
        play(tmp_path / "nothing", World("cheetah-run", size=16), 0, 2, 2, 4)


def test_policies_on_states_play_the_same_episodes_without_pictures() -> None:
    world, seed = World("cheetah-run", size=16), episode_seed(0, 1)
    env = ControlEnv(world)
    for name in ("random", "zero", "expert"):
        drawn = play_episode(env, make_policy(name, env.simulation), seed, steps=12).rewards.sum(dtype=np.float64)
        assert play(name, world, 0, 2, 1, 12)[1] == pytest.approx(drawn, rel=1e-5)
    env.close()
