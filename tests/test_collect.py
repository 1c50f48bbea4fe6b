"""Collecting: the same bits whatever the number of workers and however often it was killed."""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from otflam.core.errors import UserError
from otflam.core.progress import Progress
from otflam.data.collect import choose_policy, collect_episodes, recorded_collection, render
from otflam.data.derived import derive, find_derived
from otflam.data.options import Collection
from otflam.data.store import Column, Store
from otflam.envs.experts import load_expert
from otflam.envs.rollout import episode_seed
from otflam.envs.suite import ControlEnv
from otflam.envs.world import World

PLAN = Collection(World("cheetah-run", size=24), episodes=5, steps=12, mix="expert=0.6,random=0.4", noise=0.3, seed=4)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return collect_episodes(PLAN, tmp_path_factory.mktemp("collect") / "data", workers=1)


def files(store: Store) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in store.path.iterdir()}


def test_workers_do_not_change_a_bit(store: Store, tmp_path: Path) -> None:
    ticks: list[int] = []

    class Counter(Progress):
        def advance(self, count: int = 1) -> None:
            ticks.append(count)

    parallel = collect_episodes(PLAN, tmp_path / "data", 2, Counter())
    assert files(parallel) == files(store)
    assert sum(ticks) == 60


def test_what_is_recorded(store: Store) -> None:
    store.check()
    assert store.lengths.tolist() == [12] * 5
    assert store["frames"].shape == (60, 24, 24, 3) and store["actions"].dtype == np.float32
    assert np.abs(store["actions"]).max() == 1.0  # noise was clipped: actions are as executed
    assert {episode["policy"] for episode in store.episodes} == {"expert", "random"}
    assert [episode["seed"] for episode in store.episodes] == [episode_seed(4, index) for index in range(5)]
    assert recorded_collection(store) == PLAN
    assert store.config["background_set"] == "builtin-v1" and len(store.config["expert_digest"]) == 32
    assert set(store.meta["distractor_fields"]) == {"camera", "colour", "background"}


def test_a_data_set_rebuilds_its_world(store: Store) -> None:
    """Replaying the recorded actions from the recorded seed gives the recorded frames, rewards and states."""
    env = ControlEnv(recorded_collection(store).world)
    for index in (0, 3):
        frame, info = env.reset(seed=store.episodes[index]["seed"])
        for t in range(12):
            np.testing.assert_array_equal(frame, store.episode(index, "frames")[t])
            np.testing.assert_array_equal(info["state"], store.episode(index, "states")[t])
            frame, reward, _, _, info = env.step(store.episode(index, "actions")[t])
            assert np.float32(reward) == store.episode(index, "rewards")[t]
    env.close()


def test_seeds_and_noise_matter(store: Store, tmp_path: Path) -> None:
    other = collect_episodes(dataclasses.replace(PLAN, seed=5, episodes=1), tmp_path / "seed", workers=1)
    assert not np.array_equal(other.episode(0, "frames"), store.episode(0, "frames"))
    quiet = collect_episodes(dataclasses.replace(PLAN, noise=0.0, episodes=1), tmp_path / "quiet", workers=1)
    assert np.array_equal(quiet.episode(0, "frames")[0], store.episode(0, "frames")[0])
    assert not np.array_equal(quiet.episode(0, "actions"), store.episode(0, "actions"))


def test_collecting_again_finds_it_done(store: Store) -> None:
    before = (store.path / "meta.json").stat().st_mtime_ns
    assert collect_episodes(PLAN, store.path, workers=1).hash == store.hash
    assert (store.path / "meta.json").stat().st_mtime_ns == before
    with pytest.raises(UserError, match="already holds a data set"):
        collect_episodes(dataclasses.replace(PLAN, seed=9), store.path, workers=1)


@pytest.mark.parametrize("kill", [signal.SIGKILL, signal.SIGINT])
def test_killed_and_continued(store: Store, tmp_path: Path, kill: signal.Signals) -> None:
    """A real process is killed once it has finished an episode; the same command then completes the same bits."""
    out = tmp_path / "data"
    command = [sys.executable, "-m", "otflam", "collect", "cheetah-run", "--size", "24", "--episodes", "5"]
    command += ["--steps", "12", "--mix", "expert=0.6,random=0.4", "--noise", "0.3", "--seed", "4", "--out", str(out)]
    heard = signal.getsignal(signal.SIGINT)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job's children are born deaf to Ctrl-C
    process = subprocess.Popen([*command, "--workers", "2"], stderr=subprocess.PIPE, text=True, start_new_session=True)
    signal.signal(signal.SIGINT, heard)
    journal, limit = out / "parts.jsonl", time.monotonic() + 60
    while not (journal.exists() and "digests" in journal.read_text()) and process.poll() is None:
        assert time.monotonic() < limit
        time.sleep(0.001)
    workers = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    assert len(workers) >= 2
    if kill == signal.SIGINT:
        os.killpg(process.pid, kill)  # a terminal's Ctrl-C reaches the workers too
    else:
        process.send_signal(kill)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == (-signal.SIGKILL if kill == signal.SIGKILL else 130)
    assert kill == signal.SIGKILL or errors.endswith("otflam: stopped; run the same command to continue\n")
    assert all(map(_ended, workers)) and not (out / "meta.json").exists()
    done = subprocess.run([*command, "--workers", "1"], capture_output=True, text=True, check=True)
    assert "60 in all" in done.stdout
    assert files(Store(out)) == files(store)


def _ended(pid: str) -> bool:
    """Whether a process ends by itself within ten seconds."""
    for _ in range(100):
        if not Path("/proc", pid).exists():
            return True
        time.sleep(0.1)
    return False


def test_render_shows_the_same_behaviour_in_another_world(store: Store, tmp_path: Path) -> None:
    world = dataclasses.replace(PLAN.world, size=32, difficulty="vanilla")
    plain = render(store, world, tmp_path / "plain", workers=2)
    assert plain["frames"].shape == (60, 32, 32, 3) and plain.config["rendered_from"] == store.hash
    for column in ("actions", "rewards", "states", "physics"):
        np.testing.assert_array_equal(plain[column], store[column])
    assert recorded_collection(plain).world == world
    back = render(plain, PLAN.world, tmp_path / "back", workers=1)
    np.testing.assert_array_equal(back["frames"], store["frames"])
    np.testing.assert_array_equal(back["distractors"], store["distractors"])
    with pytest.raises(UserError, match="holds cheetah-run"):
        render(store, dataclasses.replace(world, task="walker-run"), tmp_path / "no", workers=1)


def test_rendering_needs_no_expert_and_keeps_its_record(store: Store, tmp_path: Path) -> None:
    load_expert("cheetah-run").save(tmp_path / "mine.safetensors", {})
    plan = dataclasses.replace(PLAN, expert=str(tmp_path / "mine.safetensors"), mix="expert", episodes=1)
    own = collect_episodes(plan, tmp_path / "own", workers=1)
    (tmp_path / "mine.safetensors").unlink()
    world = dataclasses.replace(PLAN.world, difficulty="vanilla")
    plain = render(own, world, tmp_path / "plain", workers=1)
    assert plain.config["expert_digest"] == own.config["expert_digest"]
    assert render(own, world, tmp_path / "plain", workers=1).hash == plain.hash  # done before: nothing to do


def test_policies_play_their_shares() -> None:
    for seed in range(5):
        for count in (10, 64):
            names = [choose_policy({"expert": 0.8, "random": 0.2}, seed, index) for index in range(count)]
            assert abs(names.count("random") - 0.2 * count) <= 1.5


def test_bad_plans(tmp_path: Path) -> None:
    for change, message in [
        ({"episodes": 0}, "empty collection"),
        ({"steps": 1}, "empty collection"),
        ({"noise": float("nan")}, "--noise"),
        ({"mix": "expert=2"}, "--mix"),
        ({"expert": "nowhere.pt"}, "no expert file"),
    ]:
        with pytest.raises(UserError, match=message):
            collect_episodes(dataclasses.replace(PLAN, **change), tmp_path / "data", workers=1)
    with pytest.raises(UserError, match="no packaged expert for 'hopper-hop'"):
        collect_episodes(Collection(World("hopper-hop"), episodes=1), tmp_path / "data", workers=1)
    assert not (tmp_path / "data").exists()


def test_an_expert_that_fails_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A policy that says NaN stops the collection with its name; finished episodes stay."""
    expert = load_expert("cheetah-run")
    weight, bias = expert.layers[-1]
    broken = dataclasses.replace(expert, layers=(*expert.layers[:-1], (weight, np.full_like(bias, np.nan))))
    broken.save(tmp_path / "nan.safetensors", {})
    shares = {"random": 0.5, "expert": 0.5}
    seed = next(seed for seed in range(99) if choose_policy(shares, seed, 0) == "random")
    plan = dataclasses.replace(PLAN, expert=str(tmp_path / "nan.safetensors"), mix="random=0.5,expert=0.5", seed=seed)
    with pytest.raises(UserError, match="some of its numbers are not finite"):
        collect_episodes(plan, tmp_path / "data", workers=1)  # a damaged expert is refused before anything is written
    assert not (tmp_path / "data").exists()
    huge = tuple((weight * 1e200, bias) for weight, bias in expert.layers)  # finite, until it is used
    monkeypatch.setattr("otflam.envs.experts.load_expert", lambda *_: dataclasses.replace(expert, layers=huge))
    with np.errstate(all="ignore"), pytest.raises(UserError, match="non-finite action"):
        collect_episodes(plan, tmp_path / "data", workers=1)
    with pytest.raises(UserError, match="not finished"):
        Store(tmp_path / "data")
    assert "digests" in (tmp_path / "data" / "parts.jsonl").read_text()  # what random played is kept


def test_derived_columns_are_keyed_computed_once_and_outside_the_data(store: Store) -> None:
    before, calls = files(store), []

    def brightness(index: int) -> np.ndarray:
        calls.append(index)
        return store.episode(index, "frames").mean((1, 2, 3)).astype(np.float32)

    class Stop(Progress):
        def reach(self, done: int, total: int) -> None:
            if done == 3:
                raise KeyboardInterrupt

    column = Column("float32", ())
    everything = list(range(len(store)))
    assert find_derived(store, "brightness", "model-a", everything) is None
    with pytest.raises(KeyboardInterrupt):
        derive(store, "brightness", "model-a", column, brightness, Stop())
    first = derive(store, "brightness", "model-a", column, brightness)
    assert derive(store, "brightness", "model-a", column, brightness).hash == first.hash
    assert calls == [0, 1, 2, 3, 4]
    found = find_derived(store, "brightness", "model-a", everything)
    assert found is not None and found.path == first.path
    assert find_derived(store, "brightness", "model-b", everything) is None
    assert files(store) == before


def test_a_derived_column_of_more_episodes_begins_with_what_is_known(store: Store) -> None:
    calls = []

    def number(index: int) -> np.ndarray:
        calls.append(index)
        return np.full(store.lengths[index], index, np.float32)

    column = Column("float32", ())
    derive(store, "number", "model-a", column, number, episodes=[1, 4])
    more = derive(store, "number", "model-a", column, number, episodes=[4, 2, 1])
    assert calls == [1, 4, 2]
    assert [more.episode(more.places[index], "number")[0] for index in (1, 2, 4)] == [1, 2, 4]
    derive(store, "number", "model-b", column, number, episodes=[2, 4])  # another model's rows are not taken
    assert calls == [1, 4, 2, 2, 4]
