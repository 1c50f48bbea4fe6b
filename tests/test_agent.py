"""Agents: trained by every path, saved as one folder, played, compared; bad input."""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from otflam import cli
from otflam.core.config import Hardware
from otflam.core.errors import UserError
from otflam.data.store import Store
from otflam.envs.rollout import Observation, episode_seed, play_episode
from otflam.envs.suite import ControlEnv
from otflam.envs.world import World
from otflam.evaluate.control import EVALUATION, check_agent, load_agent_for, play
from otflam.lam.label import label_store
from otflam.lam.train import train_lam
from otflam.policy.agent import load_agent
from otflam.policy.clone import Actor, load_clone
from otflam.policy.config import ActionDecoderConfig
from otflam.policy.decode import Pairs, labelled_pairs, said_by, train_decoder
from otflam.policy.spaces import ActionSpace
from otflam.policy.train import AgentPlan, Splits, train_agent, train_reference
from otflam.presets import get_preset

TINY, CPU = get_preset("tiny"), Hardware(accelerator="cpu")


@pytest.fixture(scope="module")
def store(noisy_store: Store) -> Store:
    return noisy_store


@pytest.fixture(scope="module")
def lam(store: Store, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train(store, tmp_path_factory.mktemp("policy") / "lam", 0)


def train(store: Store, out: Path, seed: int) -> Path:
    training = dataclasses.replace(TINY.lam_training["lapo-128"], seed=seed)
    train_lam("lapo-128", store, ([0, 1, 2, 3], [4]), TINY.lam["lapo-128"], training, CPU, out)
    return out


def task(store: Store, out: Path, labels: int = 2, seed: int = 0) -> AgentPlan:
    return AgentPlan(store, labels, TINY.policy.seeded(seed), CPU, out)


def test_decoders_are_watched_where_nothing_is_reported(store: Store, tmp_path: Path) -> None:
    some = task(store, tmp_path, labels=1)
    watched = set(some.watched.tolist())
    assert watched and watched < set(some.splits.pool.tolist())
    assert not watched & {*some.labelled.tolist(), *some.splits.probes.tolist()}


@pytest.mark.parametrize("grounding", ["decode", "finetune", "relabel"])
def test_an_agent_is_one_folder(grounding: Any, store: Store, lam: Path, tmp_path: Path) -> None:
    """Trained, copied away from all it was made of, it plays the same episode."""
    agent = train_agent(task(store, tmp_path / "agent"), lam, None, grounding)
    shutil.copytree(
        tmp_path / "agent", tmp_path / "copy", ignore=shutil.ignore_patterns("clone", "decoder", "finetune")
    )
    env = ControlEnv(World("cheetah-run", size=32))
    played = [
        play_episode(env, policy, episode_seed(EVALUATION, 0), steps=6)
        for policy in (agent, load_agent(tmp_path / "copy"))
    ]
    env.close()
    assert np.array_equal(played[0].actions, played[1].actions)
    assert (agent.decoder is None) == (grounding != "decode")
    assert agent.about["stride"] == 1 and len(agent.about["made_from"]["labelled"]) == 2
    before = (tmp_path / "agent" / "model.safetensors").read_bytes()
    train_agent(task(store, tmp_path / "agent"), lam, None, grounding)
    assert (tmp_path / "agent" / "model.safetensors").read_bytes() == before


def test_an_agent_sees_the_frames_that_it_was_trained_on(store: Store, lam: Path, tmp_path: Path) -> None:
    """At every step its action is the decoder's for that frame of the data set, the first ones included."""
    agent = train_agent(task(store, tmp_path / "agent"), lam, None, "decode")
    assert agent.decoder is not None
    wanted = agent.decoder.act(labelled_pairs(agent.clone.actor, store, [5]).inputs)
    for step, frame in enumerate(store.episode(5, "frames")):
        state = np.zeros(17, np.float32)
        found = agent.act(Observation(np.array(frame), state, step), np.random.default_rng(0))
        assert np.allclose(found, wanted[step].detach().numpy(), atol=1e-5)


def test_the_policy_is_frozen_while_its_decoder_learns(
    store: Store, lam: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = train_agent(task(store, tmp_path / "agent"), lam, None, "decode")
    trained = load_clone(tmp_path / "agent" / "clone")
    for name, tensor in trained.state_dict().items():
        assert torch.equal(tensor, agent.clone.state_dict()[name]), name
    inputs = said_by(trained.actor, torch.rand(4, 9, 32, 32)).detach()
    assert inputs.shape[1] == trained.actor.width + trained.space.outputs

    def called(*_: Any) -> None:
        raise AssertionError("the frozen policy ran in a training step")

    monkeypatch.setattr(Actor, "state", called)
    pairs, space = Pairs(inputs, torch.zeros(4, 6)), ActionSpace.of(store)
    train_decoder(pairs, ActionDecoderConfig(), space, TINY.policy.decode, CPU, tmp_path / "decoder", {})


def test_seeds_and_budgets_matter_and_clones_are_shared(store: Store, lam: Path, tmp_path: Path) -> None:
    agents = [
        train_agent(task(store, tmp_path / name, labels, seed), lam, None, "decode", tmp_path / f"clone{seed}")
        for name, labels, seed in (("a", 1, 0), ("b", 2, 0), ("c", 1, 1))
    ]
    states = [agent.state_dict() for agent in agents]
    weight = "clone.actor.leave.weight"
    assert torch.equal(states[0][weight], states[1][weight]) and not torch.equal(states[0][weight], states[2][weight])
    decoder = "decoder.layers.0.weight"
    assert not torch.equal(states[0][decoder], states[1][decoder])


@pytest.mark.parametrize("kind", ["labels-only", "idm", "all-actions"])
def test_references(kind: Any, store: Store, tmp_path: Path) -> None:
    agent = train_reference(task(store, tmp_path / kind, 1), kind)
    assert agent.decoder is None and agent.about["made_from"]["reference"] == kind
    known = json.loads((tmp_path / kind / "clone" / "config.json").read_text())["episodes"]
    pool = Splits.of(store)
    labelled = pool.labelled(1, 0).tolist()
    unlabelled = pool.unlabelled.tolist()
    wanted = {"labels-only": labelled, "idm": unlabelled + labelled, "all-actions": unlabelled + pool.pool.tolist()}
    assert known == wanted[kind]
    returns = [play(tmp_path / kind, World("cheetah-run", size=32), EVALUATION, 2, workers, 8) for workers in (1, 2)]
    assert np.array_equal(returns[0], returns[1])


def test_relabelled_episodes_keep_the_labels_they_have(store: Store, lam: Path, tmp_path: Path) -> None:
    train_agent(task(store, tmp_path / "agent", 1), lam, None, "relabel")
    about = json.loads((tmp_path / "agent" / "clone" / "config.json").read_text())
    (folder,) = (
        path for path in store.path.parent.glob("data.derived/actions-*") if Store(path).hash == about["target"]
    )
    guessed = Store(folder)
    for place, entry in enumerate(guessed.episodes):
        index, rows = entry["episode"], guessed.episode(place, "actions")
        same = np.array_equal(rows, store.episode(index, "actions"))
        assert same == (index in Splits.of(store).labelled(1, 0))


def test_bad_input_gets_one_clear_line(store: Store, lam: Path, tmp_path: Path) -> None:
    train_agent(task(store, tmp_path / "agent"), lam, None, "decode")
    agent = load_agent(tmp_path / "agent")
    with pytest.raises(UserError, match="trained for cheetah-run: it cannot play walker-run"):
        check_agent(agent, World("walker-run"))
    env = ControlEnv(World("cheetah-run", size=24))
    with pytest.raises(UserError, match="frames of 24×24×3 for an agent trained on 32×32×3"):
        play_episode(env, agent, 0, steps=1)
    env.close()
    # Latents of another model under the same clone are stale.
    other = train(store, tmp_path / "other", 1)
    with pytest.raises(UserError, match=r"holds another training \(.*target differ\)"):
        train_agent(task(store, tmp_path / "new", 1), other, None, "decode", tmp_path / "agent" / "clone")
    # An agent from videos of another robot has another number of actions.
    config = tmp_path / "agent" / "config.json"
    about = json.loads(config.read_text())
    config.write_text(json.dumps(about | {"world": None}))
    (tmp_path / "agent" / "digest.json").unlink()
    env = ControlEnv(World("hopper-hop", size=32))
    with pytest.raises(UserError, match="puts out 6 numbers: hopper-hop takes 4"):
        load_agent_for(tmp_path / "agent", env)
    env.close()


def test_latents_label_whole_episodes_and_stop_before_their_end(store: Store, lam: Path) -> None:
    latents = label_store(store, lam, None, [1])
    rows = latents.episode(0, "latents")
    assert len(rows) == store.lengths[1] and (rows[:-1] != 0).any(1).all() and not rows[-1].any()


def test_commands(store: Store, lam: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["policy", "train", str(lam), str(store.path), "--preset", "tiny", "--labels", "2"]
    cli.main([*words, "--out", str(tmp_path / "agent")])
    cli.main(["evaluate", "return", str(tmp_path / "agent"), "--episodes", "2", "--steps", "5", "--workers", "1"])
    cli.main(["policy", "run", str(tmp_path / "agent"), "--steps", "5", "--video", str(tmp_path / "a.mp4")])
    told = capsys.readouterr().out
    assert f"agent: {tmp_path / 'agent'}" in told and "random: return" in told and "expert: return" in told
    assert (tmp_path / "a.mp4").stat().st_size > 1000
    with pytest.raises(SystemExit):
        cli.main([*words[:-1], "3", "--out", str(tmp_path / "more")])
    assert "3 labelled episodes of a pool of 2" in capsys.readouterr().err


def test_another_agent_in_the_same_folder_is_refused(store: Store, lam: Path, tmp_path: Path) -> None:
    train_agent(task(store, tmp_path / "agent"), lam, None, "decode")
    with pytest.raises(UserError, match=r"holds another agent \(grounding differ\)"):
        train_agent(task(store, tmp_path / "agent"), lam, None, "relabel")
    with pytest.raises(UserError, match=r"holds another agent \(labelled differ\)"):
        train_agent(task(store, tmp_path / "agent", 1), lam, None, "decode")


def test_a_model_that_has_seen_the_probes_is_refused(store: Store, tmp_path: Path) -> None:
    everything = list(range(8))
    config, training = TINY.lam["lapo-128"], TINY.lam_training["lapo-128"]
    train_lam("lapo-128", store, (everything, [4]), config, training, CPU, tmp_path / "lam")
    with pytest.raises(UserError, match="episodes that are to be labelled or held out"):
        train_agent(task(store, tmp_path / "agent"), tmp_path / "lam", None, "decode")
