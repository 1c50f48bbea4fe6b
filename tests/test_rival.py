"""Two bodies in one picture: the same pixels everywhere, an agent that does not notice, and whose every pixel is."""

from __future__ import annotations

import base64
import dataclasses
import io
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from otflam.core.errors import UserError
from otflam.core.progress import SILENT
from otflam.data.collect import collect_episodes, recorded_collection, render
from otflam.data.masks import make_masks, mask_column, moving_pixels
from otflam.data.options import Collection
from otflam.data.store import Column, Store
from otflam.data.writing import StoreWriter
from otflam.envs.distractors import LEVELS, level_of
from otflam.envs.environment import AGENT, BACKGROUND, RIVAL
from otflam.envs.experts import load_expert
from otflam.envs.rollout import play_episode
from otflam.envs.suite import ControlEnv, make
from otflam.envs.world import World
from otflam.evaluate.probes import innovation_column
from otflam.presets import get_preset
from otflam.report.bodies import body_figures, count_codes
from otflam.tokenizer.build import train_tokenizer

BESIDE = World("cheetah-run", "vanilla", size=32, rival="walker-run", rival_noise=0.4)
PLAN = Collection(BESIDE, episodes=4, steps=14, noise=0.5, seed=3)
ALONE = dataclasses.replace(PLAN, world=World("cheetah-run", "vanilla", size=32))


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return collect_episodes(PLAN, tmp_path_factory.mktemp("rival") / "data", 1)


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return collect_episodes(ALONE, tmp_path_factory.mktemp("alone") / "data", 1)


def test_the_agent_does_not_notice(store: Store, alone: Store) -> None:
    for name in ("actions", "rewards", "states", "physics", "distractors"):
        np.testing.assert_array_equal(store[name], alone[name])
    assert (store["frames"] != alone["frames"]).any((1, 2, 3)).all()
    assert store["rival_actions"].shape == (56, 6) and store["rival_placement"].shape == (56, 6)
    assert recorded_collection(store) == PLAN
    # Old data sets say nothing of rivals, and mean none.
    assert "rival" not in alone.config["world"] and "rival_physics" not in alone.columns


def test_workers_and_kills_change_no_bit(store: Store, tmp_path: Path) -> None:
    assert collect_episodes(PLAN, tmp_path / "two", 2).hash == store.hash
    out = tmp_path / "killed"
    words = ["collect", "cheetah-run", "--difficulty", "vanilla", "--size", "32", "--episodes", "4", "--steps", "14"]
    words += ["--rival", "walker-run", "--rival-noise", "0.4", "--noise", "0.5", "--seed", "3", "--workers", "1"]
    command = [sys.executable, "-m", "otflam", *words, "--out", str(out)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=os.environ)
    limit = time.monotonic() + 60
    while not (out / "parts.jsonl").exists() or not (out / "parts.jsonl").stat().st_size:
        if process.poll() is not None or time.monotonic() > limit:
            break
        time.sleep(0.001)
    process.send_signal(signal.SIGKILL)
    process.wait()
    subprocess.run(command, check=True, capture_output=True)
    assert Store(out).hash == store.hash


def test_drawn_again_it_is_the_same(store: Store, alone: Store, tmp_path: Path) -> None:
    """From its own episodes, and from those that were collected without it."""
    for name, source in {"own": store, "alone": alone}.items():
        again = render(source, BESIDE, tmp_path / name, 1)
        assert again.hash == store.hash
    without = render(store, ALONE.world, tmp_path / "without", 1)
    assert without.hash == alone.hash


def test_an_episode_goes_on_where_it_was(store: Store) -> None:
    env = make("cheetah-run", **{k: v for k, v in dataclasses.asdict(BESIDE).items() if k != "task"})
    seed = store.episodes[1]["seed"]
    env.resume(seed, 7, store.episode(1, "physics")[7])
    frame, _, _, _, info = env.step(store.episode(1, "actions")[7])
    np.testing.assert_array_equal(frame, store.episode(1, "frames")[8])
    np.testing.assert_array_equal(info["rival_actions"], store.episode(1, "rival_actions")[8])
    env.close()


def test_a_rival_plays_as_its_expert_does(store: Store) -> None:
    """Executed is what the expert wants, with noise that its innovation is made of."""
    expert, states = load_expert("walker-run"), store.episode(0, "rival_states")
    wanted = np.stack([expert.action(state) for state in states])
    noise = store.episode(0, "rival_actions") - wanted
    assert 0.1 < np.abs(noise).mean() < 0.6
    column = innovation_column(store, "rival")
    assert column is not None
    found = column.episode(0, "rival_innovation")
    assert found.shape == noise.shape and np.abs(found.mean()) < 0.2
    assert innovation_column(store) is not None
    # Rivals of other episodes start, play and stand elsewhere.
    placements = np.stack([store.episode(index, "rival_placement")[0] for index in range(4)])
    assert len(np.unique(placements, axis=0)) == 4
    assert (store["rival_placement"].reshape(4, 14, 6) == placements[:, None]).all()


def test_masks_are_those_of_the_frames(store: Store, alone: Store) -> None:
    masks = make_masks(store, 2, None)
    owners = np.concatenate([masks.episode(index, "masks") for index in range(4)])
    assert owners.dtype == np.uint8 and set(np.unique(owners)) == {BACKGROUND, AGENT, RIVAL}
    assert set(np.unique(make_masks(alone, 1, None)["masks"])) == {BACKGROUND, AGENT}
    env = ControlEnv(BESIDE)
    for index in range(4):
        for step, (frame, _) in enumerate(env.redraw(store.episodes[index]["seed"], store.episode(index, "physics"))):
            owner = masks.episode(index, "masks")[step]
            # What is no rival's is drawn as without it, but for its floor; and it hides, but never adds, an agent.
            lonely = env.renderer.draw()
            assert (env.mask()[owner == AGENT] == AGENT).all()
            assert (lonely == frame)[owner == AGENT].all()
            assert (lonely == frame)[owner == RIVAL].all(-1).mean() < 0.2
            # Beside another, round shapes have fewer faces than in a world of one's own.
            others = np.abs(lonely.astype(int) - alone.episode(index, "frames")[step]).max(-1) > 8
            assert others.mean() < 0.02
    env.close()
    shares = moving_pixels(store, masks, range(4), 2)
    assert shares["agent"] > 0 and shares["rival"] > 0


def test_own_colours_and_the_same(store: Store) -> None:
    def colours(colour: str) -> np.ndarray:
        env = make("cheetah-run", difficulty="vanilla", size=64, rival="cheetah-run", rival_colour=colour)
        frame, _ = env.reset(seed=5)
        mask = env.mask()
        env.close()
        return np.array([frame[mask == body].mean(0) for body in (AGENT, RIVAL)])

    alike, own = colours("same"), colours("own")
    assert np.abs(alike[0] - alike[1]).max() < 25 < np.abs(own[0] - own[1]).max()


@pytest.mark.parametrize("task", ["cheetah-run", "walker-run"])
def test_cameras_follow_whom_they_are_told_to(task: str) -> None:
    """Whoever is followed is at the centre; between both, each is on a side of its own."""
    centres = {}
    for follow in ("agent", "midpoint", "rival"):
        env = make(task, difficulty="vanilla", size=64, rival=task, rival_colour="same", follow=follow)
        env.reset(seed=8)
        mask = env.mask()
        centres[follow] = [np.nonzero(mask == body)[1].mean() for body in (AGENT, RIVAL)]
        env.close()
    side = np.sign(centres["agent"][1] - centres["agent"][0])
    assert side * centres["rival"][0] < side * centres["midpoint"][0] < side * centres["agent"][0]
    assert side * centres["rival"][1] < side * centres["midpoint"][1] < side * centres["agent"][1]


def test_each_runs_on_its_own_floor() -> None:
    """The rival's floor moves as it runs, whatever the agent does."""
    env = make("cheetah-run", difficulty="vanilla", size=64, rival="cheetah-run")
    env.reset(seed=1)
    rival = env.rival
    assert rival is not None
    moved = []
    for _ in range(40):
        env.step(np.zeros(6, np.float32))
        agent = env.simulation.physics.data.subtree_com[1]
        drawn = rival.centre + rival.shift(agent, tracked=True)
        np.testing.assert_allclose((drawn - agent)[:2], rival.placement.offset[:2], atol=1e-9)
        moved.append(rival.shift(agent, tracked=True)[0] - agent[0])
    assert moved[-1] < moved[0] - 0.3  # it runs, its floor stays behind
    env.close()


def test_a_rival_whose_time_is_over_starts_again() -> None:
    env = make("cheetah-run", difficulty="vanilla", size=16, rival="walker-run:random")
    env.reset(seed=1)
    rival = env.rival
    assert rival is not None
    first, ended = rival.state.copy(), False
    for _ in range(rival.simulation.steps):
        rival.step()
        ended = ended or rival._steps == 0
    assert ended and not np.array_equal(rival.state, first)
    env.close()


def test_distractors_one_by_one() -> None:
    """Each by itself moves only what is its own; the published difficulties are bundles of them."""
    single = {"camera": {"camera_scale": 0.1}, "colour": {"colour_scale": 0.1}, "background": {"videos": -1}}
    for name, options in single.items():
        env = make("cheetah-run", difficulty="vanilla", size=24, **options)
        episode = play_episode(env, load_expert("cheetah-run"), 3, steps=6)
        for group, (first, last) in env.distraction_fields().items():
            moves = (np.diff(episode.distractors[:, first:last], axis=0) != 0).any()
            assert moves == (group == name), (group, name)
        env.close()
    world = World(difficulty="easy", camera_scale=0.0, videos=2)
    assert level_of(world) == dataclasses.replace(LEVELS["easy"], camera=0.0, videos=2)
    bundle = World(difficulty="vanilla", camera_scale=0.1, colour_scale=0.1, videos=-1)
    assert (
        level_of(bundle) == level_of(World()) and level_of(bundle).any and not level_of(World(difficulty="vanilla")).any
    )


def refused(text: str, **world: object) -> None:
    with pytest.raises(UserError) as error:
        make("cheetah-run", size=16, **world)
    assert text in str(error.value), error.value


def test_what_cannot_be_is_told_in_a_line(tmp_path: Path) -> None:
    refused("no expert of fish-swim comes with the package", rival="fish-swim")
    refused("unknown task 'nobody-run'", rival="nobody-run")
    refused("unknown policy", rival="walker-run:dancing")
    refused("--follow rival without a rival", follow="rival")
    refused("--camera-scale 2", camera_scale=2.0)
    refused("--videos -2", videos=-2)
    refused("--rival-noise -1", rival="walker-run", rival_noise=-1.0)
    writer = StoreWriter(tmp_path / "video", {"frames": Column("uint8", (8, 8, 3))}, {})
    writer.append(0, {"frames": np.zeros((3, 8, 8, 3), np.uint8)}, {})
    with pytest.raises(UserError, match="was not made by the simulator"):
        mask_column(writer.finish({}, 1))


def test_frames_that_are_drawn_otherwise_have_no_masks(store: Store, tmp_path: Path) -> None:
    writer = StoreWriter(tmp_path / "data", store.columns, store.config)
    rows = {name: store.episode(0, name).copy() for name in store.columns}
    rows["frames"][3] += 1
    writer.append(0, rows, {key: store.episodes[0][key] for key in ("seed", "policy", "return")})
    with pytest.raises(UserError, match="frame 3 of episode 0 is drawn otherwise here"):
        mask_column(writer.finish({"kind": "simulation"}, 1))


def test_film_and_codes_of_two_bodies(store: Store, tmp_path: Path) -> None:
    """What the page shows of a data set with a rival and a vocabulary of its own; of others nothing."""
    preset, runs = get_preset("tiny"), tmp_path / "runs"
    shutil.copytree(store.path, runs / "data" / "two")
    data = Store(runs / "data" / "two")
    assert body_figures(runs, SILENT) == []
    parts = (np.array([0, 1]), preset.tokenizer, preset.tokenizer_training, preset.hardware)
    tokenizer = train_tokenizer(data, *parts, runs / "tokenizer")
    film, chart = body_figures(runs, SILENT)
    assert film.src.startswith("data:image/webp") and chart.src.startswith("data:image/svg+xml")
    masks = mask_column(data, episodes=[2])
    picture = Image.open(io.BytesIO(base64.b64decode(film.src.partition(",")[2])))
    assert picture.n_frames > 5 and picture.size == (3 * 192 + 8, 192)
    counts = count_codes(data, tokenizer, masks, 2)
    # Every pixel of a body in a moving patch is counted once, with the code of its patch.
    assert 0 < counts.sum() <= (masks.episode(masks.places[2], "masks") > 0).sum()
