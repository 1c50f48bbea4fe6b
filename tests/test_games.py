"""Games: the same pixels for the same seed, true states, actions that differ, and experts that are trained."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import gymnasium
import numpy as np
import pytest

from otflam.core import Progress, UserError
from otflam.data import Collection, collect_episodes, render
from otflam.envs import Environment, World, episode_seed, make_policy, open_world, play_episode, train_expert
from otflam.envs.games import MOVED, THINGS_COLUMN, VIEW, GameWorld, level_options, state_size
from otflam.envs.libenv import Game
from otflam.envs.players import towards
from otflam.envs.procgen import AGENT, ENEMY, GAMES, KINDS, REST, State, kinds_of, read_state
from otflam.envs.world import GAMES as TASKS
from otflam.presets import get_preset

PLAY = """
import hashlib, sys
from otflam.envs import World, make_policy, open_world, play_episode
env = open_world(World("procgen-dodgeball"))
episode = play_episode(env, make_policy("sticky", env), 5, steps=40)
print(hashlib.sha256(b"".join(column.tobytes() for column in episode.columns().values())).hexdigest())
"""


@pytest.fixture(params=["coinrun", "starpilot"])
def env(request: pytest.FixtureRequest) -> Iterator[Environment]:
    env = open_world(World(f"procgen-{request.param}"))
    yield env
    env.close()


def test_the_lists_of_games_agree() -> None:
    assert tuple(GAMES) == TASKS


def test_the_same_seed_is_the_same_episode_in_any_process() -> None:
    both = [subprocess.run([sys.executable, "-c", PLAY], capture_output=True, text=True, check=True) for _ in range(2)]
    assert both[0].stdout == both[1].stdout and len(both[0].stdout) == 65


def test_what_is_recorded(env: GameWorld) -> None:
    episode = play_episode(env, make_policy("scripted", env), 3, steps=30)
    things, view = episode.more[THINGS_COLUMN], episode.more[VIEW]
    assert (things[:, 0, 0] == AGENT).all() and set(np.unique(things[..., 0])) <= {-1.0, *range(len(KINDS))}
    assert episode.frames.shape[1:] == (64, 64, 3) and episode.more["states"].shape[1:] == (env.facts.state_size,)
    follows = np.abs(view[:, :2] - things[:, 0, 1:3]).max() < 1e-4
    assert follows == GAMES[env.name].scrolls


@pytest.mark.parametrize("game", sorted(GAMES))
def test_things_are_where_the_picture_shows_them(game: str) -> None:
    """Pixels that change without backgrounds are inside of the boxes of moving things, or near them."""
    if GAMES[game].scrolls:
        pytest.skip("the whole picture moves")
    env = GameWorld(World(f"procgen-{game}", difficulty="vanilla"))
    episode = play_episode(env, make_policy("sticky", env), 11, steps=30)
    changed = (episode.frames[1:] != episode.frames[:-1]).any(-1)
    inside = np.zeros_like(changed)
    for step in range(len(changed)):
        for row in (step, step + 1):
            width = episode.more[VIEW][row, 2]
            for _, x, y, _, _, rx, ry in episode.more[THINGS_COLUMN][row]:
                left, right, top, bottom = (
                    (x - rx, x + rx, width - y - ry, width - y + ry) / width * 64 + np.array([-3, 3, -3, 3])
                )[[0, 1, 2, 3]]
                inside[step, max(int(top), 0) : int(bottom) + 1, max(int(left), 0) : int(right) + 1] = True
    assert changed.any() and (changed & inside).sum() > 0.9 * changed.sum()
    env.close()


@pytest.mark.parametrize("game", sorted(GAMES))
def test_distinct_actions_differ_and_the_others_do_not(game: str) -> None:
    same = np.ones((15, 15), bool)
    for level in range(5):
        running, rng = Game(level_options(game, level, True)), np.random.default_rng(level)
        for step in range(40):
            running.act(int(rng.integers(15)) if rng.random() < 0.5 else 7)
            if step % 8 == 0:
                before, after = running.state(), []
                for action in range(15):
                    running.restore(before)
                    for each in (action, REST, REST):
                        running.act(each)
                    state = read_state(running.state(), kinds_of(game))
                    after.append((state.things.tobytes(), state.cells.tobytes()))
                same &= np.array([[one == other for other in after] for one in after])
        running.close()
    distinct = GAMES[game].distinct
    assert not (same[np.ix_(distinct, distinct)] & ~np.eye(len(distinct), dtype=bool)).any()
    like_another = same[:, distinct].any(1)
    if game == "coinrun":  # down lets one fall through crates, where there are any
        like_another[[0, 3, 6]] = True
    assert like_another.all() and REST in distinct


def test_levels_of_the_splits_differ_and_backgrounds_go(env: GameWorld) -> None:
    worlds = {name: World(env.world.task, **more) for name, more in CHANGED.items()}
    seen = {name: open_world(world).reset(seed=4)[0] for name, world in worlds.items()}
    assert (seen["again"] == env.reset(seed=4)[0]).all()
    assert (seen["validation"] != seen["again"]).any() and (seen["vanilla"] != seen["again"]).any()
    assert seen["small"].shape == (32, 32, 3) and abs(seen["small"].mean() - seen["again"].mean()) < 1


CHANGED = {
    "again": {},
    "validation": {"split": "validation"},
    "vanilla": {"difficulty": "vanilla"},
    "small": {"size": 32},
}


def test_collected_redrawn_and_gone_on_with(tmp_path: Path, env: GameWorld) -> None:
    """One or two workers give the same bits; another look changes pictures only; an episode goes on where it was."""
    collection = Collection(World(env.world.task, size=32), episodes=3, steps=20, mix="sticky=1")
    stores = [collect_episodes(collection, tmp_path / str(workers), workers) for workers in (1, 2)]
    assert stores[0].hash == stores[1].hash
    store = stores[0]
    assert store.meta["action_choices"] == 15 and store.meta["action_names"][REST] == "rest"
    actions = np.concatenate([store.episode(each, "actions") for each in range(len(store))])
    assert set(np.unique(actions)) <= set(GAMES[env.name].distinct)
    again = render(store, World(env.world.task, size=32), tmp_path / "again", 1)
    assert (again.episode(2, "frames") == store.episode(2, "frames")).all()
    plain = render(store, World(env.world.task, size=32, difficulty="vanilla"), tmp_path / "plain", 1)
    assert (plain.episode(2, "frames") != store.episode(2, "frames")).any()
    assert (plain.episode(2, THINGS_COLUMN) == store.episode(2, THINGS_COLUMN)).all()
    look = GameWorld(World(env.world.task, difficulty="vanilla"))
    look.resume(store.episodes[1]["seed"], 7, store.episode(1, MOVED)[7])
    for action, things in zip(store.episode(1, "actions")[7:12], store.episode(1, THINGS_COLUMN)[8:13], strict=False):
        assert (look.step(int(action[0]))[4][THINGS_COLUMN] == things).all()


def test_an_expert_is_trained_stopped_and_continued(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    recipe = get_preset("tiny").player

    class Kill(Progress):
        def log(self, row: dict) -> None:
            raise KeyboardInterrupt

    whole = train_expert("procgen-starpilot", tmp_path / "whole", recipe, 0)
    with pytest.raises(KeyboardInterrupt):
        train_expert("procgen-starpilot", tmp_path / "parts", recipe, 0, Kill())
    parts = train_expert("procgen-starpilot", tmp_path / "parts", recipe, 0)
    assert whole.read_bytes() == parts.read_bytes()
    rows = [json.loads(line) for line in (tmp_path / "whole" / "log.jsonl").read_text().splitlines()]
    assert [row["round"] for row in rows] == [1, 2] and all(len(row["returns"]) == 1 for row in rows)
    env = open_world(World("procgen-starpilot"))
    chosen = play_episode(env, make_policy("expert", env, str(whole)), 2, steps=20).actions
    assert set(np.unique(chosen)) <= set(GAMES["starpilot"].distinct)
    with pytest.raises(UserError, match="use the expert of this game"):
        make_policy("expert", open_world(World("procgen-coinrun")), str(whole))


def test_rules_play_better_than_chance() -> None:
    """Of thirty levels each; the rules of the other games are no better than chance."""
    for game in ("coinrun", "bigfish"):
        env = open_world(World(f"procgen-{game}"))
        earned = {
            name: np.mean(
                [play_episode(env, make_policy(name, env), episode_seed(0, n)).rewards.sum() for n in range(30)]
            )
            for name in ("random", "scripted")
        }
        assert earned["scripted"] > 1.5 * earned["random"], (game, earned)


def test_a_choice_can_be_held(env: GameWorld) -> None:
    """As if it was made again and again, until the level ends."""
    env.reset(seed=2)
    once = [env.step(7) for _ in range(6)]
    env.reset(seed=2)
    total, ended, info = env.hold(7, 6)
    assert total == sum(reward for _, reward, *_ in once) and ended == once[-1][2]
    assert all((info[name] == once[-1][4][name]).all() for name in info)


def test_moves() -> None:
    moves = {(x, y): towards(np.array([x, y], np.float32)) for x in (-1, 0, 1) for y in (-1, 0, 1)}
    assert moves[0, 0] == REST and sorted(moves.values()) == list(range(9)) and moves[1, 0] == 7 and moves[0, 1] == 5


def test_gymnasium_knows_them() -> None:
    env = gymnasium.make("otflam/procgen-bigfish-v0", disable_env_checker=False, size=32)
    frame, info = env.reset(seed=1)
    assert frame.shape == (32, 32, 3) and info["state"].shape == (state_size("bigfish"),)
    assert (env.reset(seed=1)[0] == frame).all()
    env.close()


def test_bad_input_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match="unknown task 'procgen-coinrum': did you mean 'procgen-coinrun'"):
        open_world(World("procgen-coinrum"))
    with pytest.raises(UserError, match="--size 48 in procgen-coinrun: games are drawn with 64, 32 or 16"):
        open_world(World("procgen-coinrun", size=48))
    with pytest.raises(UserError, match="games show one body only"):
        open_world(World("procgen-coinrun", rival="walker-run"))
    monkeypatch.setattr("otflam.envs.libenv.importlib.util.find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"the games are not installed: pip install --no-deps procgen-mirror==0\.10\.7"):
        open_world(World("procgen-coinrun")).reset(seed=0)


def test_states_are_read_whole() -> None:
    """What is read of a state ends where its grid ends, and Chaser has three enemies."""
    running = Game(level_options("chaser", 3, True))
    for _ in range(60):
        running.act(REST)
    state = read_state(running.state(), kinds_of("chaser"))
    assert isinstance(state, State) and state.cells.shape == (11, 11) and (state.things[:, 0] == ENEMY).sum() == 3
    running.close()
