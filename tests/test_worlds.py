"""A world from a package of its own: discrete actions, a column more, episodes that end early, through every stage."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from otflam import cli
from otflam.core.config import Hardware
from otflam.core.errors import UserError
from otflam.core.progress import Progress
from otflam.data.collect import collect_episodes, render
from otflam.data.options import Collection
from otflam.data.store import Column, Store, summarise
from otflam.data.writing import StoreWriter
from otflam.envs.environment import Actions, open_world, simulate_world
from otflam.envs.rollout import episode_seed, expert_returns, make_policy, play_episode
from otflam.envs.suite import ControlEnv
from otflam.envs.world import FAMILIES, Family, World, find_family, load_worlds, policy_names, register_world
from otflam.evaluate.control import Stretches, load_agent_for, play, start_returns
from otflam.evaluate.probes import innovation_column
from otflam.lam.train import train_lam
from otflam.policy.agent import load_agent
from otflam.policy.clone import load_clone
from otflam.policy.config import PolicyConfig
from otflam.policy.spaces import ActionSpace
from otflam.policy.train import AgentPlan, train_agent, train_reference
from otflam.presets import get_preset

EXAMPLE = Path(__file__).parents[1] / "examples" / "own-world" / "src"
TINY, CPU, HOME = get_preset("tiny"), Hardware(accelerator="cpu"), World("square-home", size=32)
PLAN = Collection(HOME, episodes=16, mix="expert=0.75,random=0.25", noise=0.2, seed=3)


@pytest.fixture(scope="module", autouse=True)
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The example is installed: on the path, with its entry point, by which worker processes find it too."""
    site = tmp_path_factory.mktemp("site")
    about = site / "square_world-0.1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: square-world\nVersion: 0.1.0\n")
    (about / "entry_points.txt").write_text("[otflam.worlds]\nsquare-world = square_world\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(EXAMPLE))
        patch.syspath_prepend(str(site))
        load_worlds()
        yield
    del FAMILIES["square world"]
    del sys.modules["square_world"]


@pytest.fixture(scope="module")
def store(installed: None, tmp_path_factory: pytest.TempPathFactory) -> Store:
    return collect_episodes(PLAN, tmp_path_factory.mktemp("worlds") / "data", workers=1)


@pytest.fixture(scope="module")
def lam(store: Store, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("worlds") / "lam"
    episodes = (list(range(8)), [8, 9])
    train_lam("lapo-128", store, episodes, TINY.lam["lapo-128"], TINY.lam_training["lapo-128"], CPU, out)
    return out


def task(store: Store, out: Path, config: PolicyConfig = TINY.policy) -> AgentPlan:
    return AgentPlan(store, 2, config.seeded(0), CPU, out)


class Change:
    """Latents of nobody's model: where the picture changed."""

    offsets = (0, 1)

    def infer(self, frames: np.ndarray) -> np.ndarray:
        change = (frames[:, 1].astype(np.float32) - frames[:, 0])[:, 2::4, 2::4, 0]
        return change.reshape(len(frames), -1)


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_family_is_known_by_its_tasks_and_help_loads_nothing() -> None:
    assert find_family("square-home").name == "square world" and find_family("walker-run").name == "control suite"
    assert policy_names("square-home") == ("expert", "random", "zero") == policy_names("walker-run")
    with pytest.raises(UserError, match="unknown task 'square-hom': did you mean 'square-home'"):
        find_family("square-hom")
    with pytest.raises(UserError, match="there is a family of worlds square world already"):
        register_world(Family("square world", (), "nowhere:none"))
    code = "import sys, otflam.commands; print({'torch', 'mujoco', 'gymnasium', 'numpy'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "set()\n"


def test_collecting_is_the_same_with_any_number_of_workers_and_when_interrupted(store: Store, tmp_path: Path) -> None:
    store.check()
    assert set(store.columns) == {"frames", "actions", "rewards", "states", "home"}
    assert store.columns["home"].dtype == "bool" and store.columns["actions"].shape == (1,)
    assert store.meta["action_choices"] == 5 and "action_low" not in store.meta
    assert 1 <= store.lengths.min() < store.lengths.max() == 12  # who is home ends early
    assert set(np.unique(np.asarray(store["actions"]))) <= set(range(5))
    assert "one of 5" in summarise(store)["actions"] and summarise(store)["world"] == "square-home"
    assert files(collect_episodes(PLAN, tmp_path / "two", workers=2).path) == files(store.path)

    class Stop(Progress):
        frames = 0

        def advance(self, count: int = 1) -> None:
            self.frames += 1
            if self.frames == 30:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        collect_episodes(PLAN, tmp_path / "parts", workers=1, progress=Stop())
    assert not (tmp_path / "parts" / "meta.json").exists()
    assert files(collect_episodes(PLAN, tmp_path / "parts", workers=1).path) == files(store.path)


def test_noise_replaces_a_choice() -> None:
    actions, rng = Actions.discrete(5, rest=4), np.random.default_rng(0)
    drawn = [int(actions.disturb(np.float32([2]), 0.5, rng)[0]) for _ in range(2000)]
    shares = np.bincount(drawn, minlength=5) / 2000
    assert np.allclose(shares, [0.1, 0.1, 0.6, 0.1, 0.1], atol=0.03)
    assert [actions.command(actions.bound(np.float32([choice]))) for choice in range(5)] == [0, 1, 2, 3, 4]
    for wrong in ([5], [-1], [0.5], [np.nan], [1, 2]):
        with pytest.raises(UserError, match="of 5 choices: check the policy"):
            actions.bound(np.float32(wrong))


def test_policies_by_name_play_in_the_world_itself() -> None:
    expert, random, zero = (expert_returns("square-home", name, None, 12, 0).mean() for name in policy_names(HOME.task))
    assert zero <= random < expert == 1.0


@pytest.mark.parametrize("grounding", ["decode", "finetune", "relabel"])
def test_agents_choose(grounding: Any, store: Store, lam: Path, tmp_path: Path) -> None:
    trained = train_agent(task(store, tmp_path / "agent"), lam, None, grounding)
    agent = load_agent(tmp_path / "agent")
    assert agent.choices == trained.choices == 5 and (agent.decoder is None) == (grounding != "decode")
    env, folder = open_world(HOME), tmp_path / "agent"
    player = load_agent_for(folder, env)
    episodes = [play_episode(env, player, episode_seed(7, index)) for index in range(6)]
    assert set(np.unique(np.concatenate([episode.actions for episode in episodes]))) <= set(range(5))
    # Side by side, where some end before others, everyone earns what it earns alone.
    earned = [float(episode.rewards.sum()) for episode in episodes]
    assert play(folder, HOME, 7, 6, 1).tolist() == earned
    suite = ControlEnv(World("cheetah-run", size=32))
    with pytest.raises(UserError, match="trained for square-home: it cannot play cheetah-run"):
        load_agent_for(tmp_path / "agent", suite)
    suite.close()


@pytest.mark.parametrize("kind", ["labels-only", "idm", "all-actions"])
def test_references_choose(kind: Any, store: Store, tmp_path: Path) -> None:
    agent = train_reference(task(store, tmp_path / kind), kind)
    assert agent.choices == load_agent(tmp_path / kind).choices == 5
    clone = load_clone(tmp_path / kind / "clone")
    assert isinstance(clone.space, ActionSpace) and clone.space.discrete == clone.space.outputs == 5


def test_imported_choices_are_learned_in_every_way(tmp_path: Path) -> None:
    """Data that do not say what their actions are: the configuration does."""
    columns = {"frames": Column("uint8", (16, 16, 3)), "actions": Column("float32", (1,))}
    writer = StoreWriter(tmp_path / "data", columns, {})
    for index in range(4):
        buttons = (np.arange(10)[:, None] % 3).astype(np.float32)
        frames = np.zeros((10, 16, 16, 3), np.uint8) + (buttons * 80).astype(np.uint8)[:, None, None]
        writer.append(index, {"frames": frames, "actions": buttons}, {})
    data, decoder = writer.finish({}, 4), dataclasses.replace(TINY.policy.decoder, discrete=3)
    for kind in ("labels-only", "idm"):
        made = AgentPlan(data, 1, dataclasses.replace(TINY.policy, decoder=decoder), CPU, tmp_path / kind)
        assert train_reference(made, kind).choices == load_agent(tmp_path / kind).choices == 3


def test_a_clone_of_choices_learns_the_way_home(store: Store, tmp_path: Path) -> None:
    longer = dataclasses.replace(TINY.policy.clone, steps=150, batch=32, lr=3e-3, log_every=150, save_every=150)
    plan = dataclasses.replace(PLAN, episodes=32, mix="expert", seed=5)
    data = collect_episodes(plan, tmp_path / "data", workers=1)
    train_reference(task(data, tmp_path / "agent", dataclasses.replace(TINY.policy, clone=longer)), "all-actions")
    assert play(tmp_path / "agent", HOME, 7, 20, 1).mean() > play("random", HOME, 7, 20, 1).mean() + 0.2


def test_commands(store: Store, lam: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cli.main(
        ["policy", "train", str(lam), str(store.path), "--preset", "tiny", "--labels", "2", "--out", str(tmp_path)]
    )
    words = ["policy", "train", str(lam), str(store.path), "--preset", "tiny", "--labels", "2"]
    cli.main([*words, "--out", str(tmp_path)])
    cli.main(["evaluate", "return", str(tmp_path), "--episodes", "2", "--workers", "1"])
    cli.main(["policy", "run", str(tmp_path), "--video", str(tmp_path / "a.mp4")])
    told = capsys.readouterr().out
    assert "cross entropy" in told and "random: return" in told and "zero: return" in told and "expert: return" in told
    assert (tmp_path / "a.mp4").stat().st_size > 500
    cli.main(["evaluate", "alignment", str(store.path), "--extractor", f"{__name__}:Change", "--labels", "2",
              "--preset", "tiny", "--out", str(tmp_path / "found.json")])  # fmt: skip
    found = json.loads((tmp_path / "found.json").read_text())
    assert 0 < found["action_mse"] < 1 and -1 < found["action_r2"] <= 1 and found["distractor_r2"] is None


def test_what_a_world_cannot_do_is_one_line(store: Store, lam: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="square-home cannot be put back to where it was: collect new episodes"):
        render(store, dataclasses.replace(HOME, size=64), tmp_path / "large", workers=1)
    with pytest.raises(UserError, match="square-home cannot be played without pictures"):
        simulate_world("square-home")
    train_reference(task(store, tmp_path / "agent"), "labels-only")
    whole = tuple(np.flatnonzero(store.lengths == 12)[:1].tolist())
    for player in ("zero", tmp_path / "agent"):
        with pytest.raises(UserError, match="square-home cannot be"):
            start_returns(player, Stretches(store.path, whole, 2))
    assert innovation_column(store) is None
    for change, message in [
        ({"noise": 1.5}, "--noise 1.5: actions are discrete"),
        ({"mix": "nobody"}, "unknown policy in --mix 'nobody'"),
    ]:
        with pytest.raises(UserError, match=message):
            collect_episodes(dataclasses.replace(PLAN, **change), tmp_path / "no", workers=1)
    wrong = dataclasses.replace(TINY.policy, decoder=dataclasses.replace(TINY.policy.decoder, discrete=4))
    with pytest.raises(UserError, match=r"--decoder\.discrete 4 for .*: its actions are one of 5"):
        train_agent(task(store, tmp_path / "four", wrong), lam, None, "decode")
    suite = ControlEnv(World("cheetah-run", size=32))
    with pytest.raises(UserError, match="unknown policy 'nobody'"):
        make_policy("nobody", suite)
    suite.close()
