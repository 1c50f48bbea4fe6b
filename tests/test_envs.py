"""The worlds: published equations, seeded pixels, and pictures that can be drawn again."""

from __future__ import annotations

import hashlib
import math
import subprocess
import sys
from itertools import islice

import gymnasium
import mujoco
import numpy as np
import pytest
from dm_control import suite as dm_suite
from gymnasium.utils.env_checker import check_env
from hypothesis import given, strategies as st

from otflam.core.errors import UserError
from otflam.envs import rendering
from otflam.envs.distractors import (
    LEVELS,
    View,
    camera_pose,
    camera_walk,
    colour_walk,
    from_sphere,
    ground_alpha,
    to_sphere,
)
from otflam.envs.rollout import Random, play_episode
from otflam.envs.suite import ControlEnv, make
from otflam.envs.world import World

TASKS = ("cheetah-run", "walker-run")
CHEETAH = View(np.array([0.0, -3.0, 0.0]), np.zeros(3), tracking=True, upper=True)
scales = st.sampled_from([0.1, 0.2, 0.3])


def played(env: ControlEnv, seed: int, steps: int = 6) -> np.ndarray:
    return play_episode(env, Random(env.facts.actions), seed, steps=steps).frames


@pytest.mark.parametrize("task", TASKS)
def test_gymnasium_accepts_the_environment(task: str) -> None:
    env = gymnasium.make(f"otflam/{task}-v0", size=32)
    check_env(env.unwrapped, skip_render_check=True)
    env.close()


def test_time_limit_ends_an_episode() -> None:
    env = make("cheetah-run", size=16, difficulty="vanilla")
    env.simulation._env._step_limit = env.simulation.steps = 5
    env.reset(seed=0)
    ends = [env.step(np.zeros(6, np.float32))[2:4] for _ in range(5)]
    assert ends == [(False, False)] * 4 + [(False, True)]
    env.close()


@pytest.mark.parametrize("task", TASKS)
def test_same_seed_same_pixels_in_another_process(task: str) -> None:
    program = f"""
import hashlib
from otflam.envs.rollout import Random
from otflam.envs.rollout import play_episode
from otflam.envs.suite import make
env = make({task!r})
episode = play_episode(env, Random(env.facts.actions), 5, steps=12)
print(hashlib.md5(episode.frames.tobytes() + episode.distractors.tobytes()).hexdigest())
env.close()
"""
    there = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.strip()
    env = make(task)
    played(env, 99)  # an earlier episode must leave no trace
    episode = play_episode(env, Random(env.facts.actions), 5, steps=12)
    here = hashlib.md5(episode.frames.tobytes() + episode.distractors.tobytes()).hexdigest()
    assert here == there
    assert not np.array_equal(played(env, 6, 2), played(env, 5, 2))
    env.close()


@pytest.mark.parametrize("task", TASKS)
def test_vanilla_is_exactly_dm_control(task: str) -> None:
    env = make(task, difficulty="vanilla", quality="reference")
    frame, _ = env.reset(seed=3)
    for _ in range(3):
        np.testing.assert_array_equal(frame, env.simulation.physics.render(64, 64, camera_id=0))
        frame, *_ = env.step(np.full(6, 0.5, np.float32))
    env.close()


@pytest.mark.parametrize("quality", ["fast", "reference"])
def test_recorded_physics_redraws_the_same_pixels(quality: str) -> None:
    env = make("walker-run", quality=quality, size=48)
    episode = play_episode(env, Random(env.facts.actions), 11, steps=5)
    played(env, 12, 2)
    again = list(env.redraw(11, episode.physics))
    np.testing.assert_array_equal(np.stack([frame for frame, _ in again]), episode.frames)
    np.testing.assert_array_equal(np.stack([info["distractors"] for _, info in again]), episode.distractors)
    env.close()


def test_fast_shows_what_reference_shows() -> None:
    fast, reference = make("cheetah-run"), make("cheetah-run", quality="reference")
    a, b = played(fast, 1, 3).astype(float), played(reference, 1, 3).astype(float)
    assert np.abs(a - b).mean() < 12 and np.corrcoef(a.ravel(), b.ravel())[0, 1] > 0.9
    assert fast.renderer.sky == 128 and reference.renderer.sky == 800
    fast.close()
    reference.close()


def test_info_tells_the_true_distractor_state() -> None:
    env = make("cheetah-run", size=32)
    fields = env.distraction_fields()
    _, info = env.reset(seed=0)
    videos = []
    for _ in range(20):
        vector = info["distractors"]
        np.testing.assert_allclose(vector[slice(*fields["camera"])], info["camera"], rtol=1e-6)
        np.testing.assert_allclose(vector[slice(*fields["colour"])], info["colour"].ravel(), rtol=1e-6, atol=1e-9)
        assert vector[slice(*fields["background"])].tolist() == [info["video"], info["video_frame"]]
        # What is told is what the picture was drawn with.
        physics = env.simulation.physics
        np.testing.assert_allclose(physics.model.mat_rgba[:, :3] - env._colours, info["colour"], atol=1e-6)
        distance = np.linalg.norm(physics.data.cam_xpos[0] - physics.data.subtree_com[1])
        np.testing.assert_allclose(distance, info["camera"][0], rtol=1e-6)
        videos.append(info["video_frame"])
        *_, info = env.step(env.action_space.low)
    assert set(np.abs(np.diff(videos))) == {1}
    env.close()


def test_static_distractors_stand_still() -> None:
    env = make("walker-run", dynamic=False, difficulty="hard", size=32)
    episode = play_episode(env, Random(env.facts.actions), 2, steps=5)
    assert (episode.distractors == episode.distractors[0]).all() and episode.distractors[0].any()
    env.close()


def test_levels_are_the_published_ones() -> None:
    assert {name: (level.camera, level.colour, level.videos) for name, level in LEVELS.items()} == {
        "vanilla": (0.0, 0.0, 0),
        "easy": (0.1, 0.1, 4),
        "medium": (0.2, 0.2, 8),
        "hard": (0.3, 0.3, -1),
        "scale_easy_video_hard": (0.1, 0.1, -1),
    }
    assert [ground_alpha(domain) for domain in ("reacher", "cheetah", "walker", "hopper", "finger")] == [
        0,
        1,
        1,
        1,
        0.3,
    ]


def test_videos_that_are_shown_again_look_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether their frames were kept on the renderer's side, all, some or none of them."""
    seen = []
    for kept in (2**26, 5 * 6 * 4 * 48**2 * 4 // 3, 0):
        monkeypatch.setattr(rendering, "KEPT_BYTES", kept)
        env = make("cheetah-run", size=24)
        seen.append([env.reset(seed=seed)[0] for seed in (0, 1, 0)])
        seen[-1] += [env.step(np.zeros(6))[0] for _ in range(150)]  # there and back again
        assert env.renderer._room == max(kept // (6 * 4 * 48**2 * 4 // 3), 1)
        env.close()
    np.testing.assert_array_equal(seen[0], seen[1])
    np.testing.assert_array_equal(seen[0], seen[2])
    assert len({frame.tobytes() for frame in seen[0]}) > 100


def test_easy_uses_only_the_first_videos() -> None:
    env = make("cheetah-run", difficulty="easy", size=16)
    assert {env.reset(seed=seed)[1]["video"] for seed in range(16)} == {0, 1, 2, 3}
    env.close()


@given(scales, st.integers(0, 10_000))
def test_camera_stays_in_its_published_range(scale: float, seed: int) -> None:
    walk = np.array(list(islice(camera_walk(CHEETAH, scale, True, np.random.default_rng(seed)), 200)))
    radius, horizontal, vertical, roll = walk.T
    assert (radius >= 3 * (1 - 0.5 * scale) - 1e-9).all() and (radius <= 3 * (1 + 1.5 * scale) + 1e-9).all()
    assert (np.abs(horizontal + math.pi / 2) <= math.pi / 2 * scale + 1e-9).all()
    assert (vertical <= math.pi / 2 + 1e-9).all() and (vertical >= math.pi / 2 * (1 - scale) - 1e-9).all()
    assert (np.abs(roll) <= math.pi / 2 * scale + 1e-9).all()
    points = np.array([from_sphere(state[:3]) for state in walk])
    # Clipping angles can stretch a step a little: the limit holds for the velocity before it is clipped.
    assert np.median(np.linalg.norm(np.diff(points, axis=0), axis=1)) <= 0.4 * scale * 3 / 4 + 1e-9
    assert (np.abs(np.diff(roll)) <= math.pi / 50 * scale + 1e-9).all()
    assert np.ptp(walk, axis=0).min() > 0


@given(st.floats(0.5, 5), st.floats(-math.pi, 0), st.floats(0.3, math.pi / 2), st.floats(-0.5, 0.5))
def test_camera_looks_at_its_target(radius: float, horizontal: float, vertical: float, roll: float) -> None:
    agent = np.array([7.0, 0.2, 1.0])
    for upper in (True, False):
        view = View(CHEETAH.start, np.array([0.0, 0.1, 0.2]), tracking=True, upper=upper)
        position, axes = camera_pose(view, np.array([radius, horizontal, vertical, roll]), agent)
        np.testing.assert_allclose(axes.T @ axes, np.eye(3), atol=1e-9)
        assert np.linalg.det(axes) == pytest.approx(1)
        towards = agent + view.target - position
        np.testing.assert_allclose(-axes[:, 2], towards / np.linalg.norm(towards), atol=1e-9)
    # An upright camera without roll holds its right side level.
    _, level = camera_pose(CHEETAH, np.array([radius, horizontal, vertical, 0.0]), agent)
    assert abs(level[2, 0]) < 1e-12 and level[2, 1] >= 0


def test_camera_without_distraction_is_the_models_own() -> None:
    """Independent check of the geometry: at the start pose the look-at camera equals MuJoCo's."""
    for task in TASKS:
        env = make(task, size=16, difficulty="vanilla")
        env.begin(0)
        physics = env.simulation.physics
        start = np.array([*to_sphere(env._view.start), 0.0])
        position, axes = camera_pose(env._view, start, physics.data.subtree_com[1])
        np.testing.assert_allclose(position, physics.data.cam_xpos[0], atol=1e-9)
        np.testing.assert_allclose(axes.ravel(), physics.data.cam_xmat[0], atol=1e-6)
        env.close()


@given(scales, st.integers(0, 10_000))
def test_colours_walk_inside_their_range(scale: float, seed: int) -> None:
    base = np.array([[0.0, 0.5, 1.0], [0.3, 0.9, 0.1]])
    walk = np.array(list(islice(colour_walk(base, scale, True, np.random.default_rng(seed)), 100)))
    assert (walk >= np.clip(base - scale, 0, 1)).all() and (walk <= np.clip(base + scale, 0, 1)).all()
    steps = np.diff(walk, axis=0)
    assert 0.005 * scale < steps.std() < 0.04 * scale


@given(st.tuples(*[st.floats(-5, 5)] * 3).filter(lambda p: math.hypot(*p) > 1e-3))
def test_sphere_round_trip(point: tuple[float, float, float]) -> None:
    np.testing.assert_allclose(from_sphere(to_sphere(np.array(point))), point, atol=1e-9)


@pytest.mark.parametrize(
    "task", ["reacher-easy", "hopper-hop", "ball_in_cup-catch", "quadruped-walk", "cartpole-swingup"]
)
def test_other_tasks_take_the_same_path(task: str) -> None:
    env = make(task, size=24)
    episode = play_episode(env, Random(env.facts.actions), 0, steps=4)
    again = np.stack([frame for frame, _ in env.redraw(0, episode.physics)])
    np.testing.assert_array_equal(again, episode.frames)
    assert episode.frames.std() > 5
    env.close()


@pytest.mark.campaign
@pytest.mark.parametrize("task", [f"{domain}-{name}" for domain, name in dm_suite.ALL_TASKS])
def test_every_suite_task(task: str) -> None:
    env = make(task, size=16)
    played(env, 0, 3)
    env.close()


def test_bad_input_is_one_clear_line() -> None:
    with pytest.raises(UserError, match="unknown task 'cheetah-rum': did you mean 'cheetah-run'"):
        make("cheetah-rum")
    with pytest.raises(UserError, match="no camera 7"):
        make("cheetah-run", camera=7)
    with pytest.raises(UserError, match="frame size 4"):
        make("cheetah-run", size=4)
    with pytest.raises(UserError, match="nowhere"):
        make("cheetah-run", backgrounds="/nowhere/at/all")
    env = make("cheetah-run", size=16, difficulty="vanilla")
    env.reset(seed=0)
    with pytest.raises(UserError, match="non-finite action"):
        env.step(np.array([0, 0, np.nan, 0, 0, 0], np.float32))
    with pytest.raises(UserError, match="takes 6 numbers"):
        env.step(np.zeros(5, np.float32))
    env.close()


def test_mujoco_is_the_supported_one() -> None:
    assert mujoco.__version__.startswith("3.")
    assert World().quality == "fast"


def test_a_world_that_was_never_closed_ends_quietly() -> None:
    """The graphics library shuts down at exit; an open world must let go before it."""
    program = (
        "import weakref, numpy; weakref.finalize(numpy.ones(1).view(type('A', (numpy.ndarray,), {})), int)\n"
        "from otflam.envs.suite import make\n"
        "worlds = [make('cheetah-run', size=16) for _ in range(2)]\n"
        "worlds[0].reset(seed=0); worlds[0].close(); worlds[0].close()\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
