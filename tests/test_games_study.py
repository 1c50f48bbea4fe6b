"""The study of games: choices and motions read from anything, who plays, what it shows and what it costs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from sklearn.linear_model import LogisticRegression

from otflam.core.pool import Launcher
from otflam.core.progress import SILENT
from otflam.data.collect import collect_episodes
from otflam.data.options import Collection
from otflam.data.store import Store
from otflam.envs.environment import open_world
from otflam.envs.libenv import INSTALL_GAMES
from otflam.envs.rollout import episode_seed, play_episode, play_together, policy_rng
from otflam.envs.world import World
from otflam.evaluate import games as reading
from otflam.evaluate.alignment import episodes_of
from otflam.evaluate.control import play
from otflam.evaluate.extractors import Rows
from otflam.evaluate.games import (
    balance,
    fit_choices,
    motion_of,
    movers_column,
    read_choices,
    read_movers,
    score_movers,
)
from otflam.evaluate.names import GAME_TRANSFERS, GAMES, TELLING
from otflam.evaluate.records import read_records
from otflam.experiments.agents import Job, config_of
from otflam.experiments.cells import PlannedCell, Site, run_cells
from otflam.experiments.datasets import Lab
from otflam.experiments.estimate import LEVEL_STEPS, pieces_of
from otflam.experiments.games import methods
from otflam.experiments.lams import Job as ModelJob, split
from otflam.experiments.plans import plan_games
from otflam.experiments.studies import film_game
from otflam.policy.agent import load_agent
from otflam.presets import get_preset
from otflam.report.game_films import game_figures
from otflam.report.games import judge_games, sketch_named
from otflam.report.rendering import as_markdown
from otflam.report.tables import TABLES

TINY, LAPTOP = get_preset("tiny"), get_preset("laptop")
GAME = "procgen-bigfish"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    plan = Collection(World("procgen-coinrun", size=32), episodes=12, steps=60, mix="sticky=1")
    return collect_episodes(plan, tmp_path_factory.mktemp("coinrun") / "data", 1)


def rows(store: Store, made: dict[int, np.ndarray]) -> Rows:
    """A column in memory."""
    return Rows({index: made[index].astype(np.float32) for index in range(len(store))})


def test_the_plan() -> None:
    plan = plan_games(LAPTOP)
    assert len(plan) == len(set(plan))
    told = Counter((p.job.method, p.job.data) for p in plan if p.kind == "games")
    assert {data for _, data in told} == set(GAMES)
    assert all(count == 2 * (3 if method in TELLING else 1) for (method, _), count in told.items())
    assert {method for method, _ in told} == set(methods(LAPTOP)) >= set(TELLING)
    seeds: dict[tuple[str, str], set[int]] = {}
    for planned in plan:
        if planned.kind == "agents":
            seeds.setdefault((planned.job.method, planned.job.data), set()).add(planned.job.seed)
    assert {len(seeds[method, game]) for method in (*TELLING, "expert", "idm") for game in GAMES} == {3}
    assert {len(seeds["m-lapo", game]) for game in GAMES} == {1}
    assert {(p.job.source, p.job.target) for p in plan if p.kind == "tokenizers"} == set(GAME_TRANSFERS)
    where = [(p.kind, getattr(p.job, "method", "")) for p in plan]
    order = [
        ("agents", "all-actions"),
        ("games", "hilam"),
        ("agents", "hilam"),
        ("games", "m-lapo"),
        ("agents", "m-lapo"),
    ]
    places = [where.index(each) for each in (*order, ("tokenizers", ""))]
    assert places == sorted(places)


def test_policies_of_games_imitate_for_less_long() -> None:
    steps = {data: config_of(LAPTOP, Job("lapo-256", data, 8, 0)).clone.steps for data in (GAME, "cheetah-run-noisy")}
    assert steps == {GAME: LAPTOP.game_steps, "cheetah-run-noisy": LAPTOP.policy.clone.steps}


def test_who_looks_far_back_is_watched_on_long_levels(store: Store) -> None:
    """HiLAM's windows are longer than most levels of CoinRun; for all others the order stays."""
    (first, held), (again, longest) = (split(TINY, ModelJob(name, GAME), store) for name in ("lapo-256", "hilam"))
    assert first.tolist() == again.tolist() and held.tolist() == sorted(held) and len(longest) == len(held)
    lengths = store.lengths[longest]
    assert lengths.tolist() == sorted(lengths, reverse=True) and lengths.sum() >= store.lengths[held].sum()


@given(st.lists(st.integers(0, 3), min_size=1, max_size=30))
def test_changes_count_as_much_as_all_else(actions: list[int]) -> None:
    now = np.array(actions, np.float32)
    before = np.array([-1, *actions[:-1]], np.float32)
    weights, changed = balance(now, before), now != before
    assert weights.sum() == pytest.approx(1)
    assert weights[changed].sum() == pytest.approx(1.0 if changed.all() else 0.5)


def test_the_linear_classifier_is_the_usual_one() -> None:
    rng = np.random.default_rng(0)
    table = rng.normal(size=(300, 5))
    truth = (table @ rng.normal(size=(5, 4)) + 0.5 * rng.normal(size=(300, 4))).argmax(1)
    odds = fit_choices([table[:200]], [truth[:200]], table[200:], 4, 1e-2)
    scaled = (table - table[:200].mean(0)) / table[:200].std(0)
    usual = LogisticRegression(C=1 / (200 * 1e-2), tol=1e-8, max_iter=2000).fit(scaled[:200], truth[:200])
    assert np.abs(np.exp(odds) - usual.predict_proba(scaled[200:])).max() < 1e-3


def test_choices_are_read_from_what_knows_them(store: Store) -> None:
    rng, last = np.random.default_rng(0), 2
    actions = {i: store.episode(i, "actions")[:, 0].astype(int) for i in range(len(store))}
    knows = rows(store, {i: np.eye(15)[choice] for i, choice in actions.items()})
    guesses = rows(store, {i: rng.normal(size=(len(choice), 4)) for i, choice in actions.items()})
    labelled, probes = np.arange(6), np.arange(6, 12)
    found = read_choices(store, {"latents": knows, "state": guesses}, labelled, probes, last)
    assert found["choice_accuracy"] == found["choice_changed"] == pytest.approx(found["choice_balanced"]) == 1
    assert found["choice_entropy"] < 0.1 < found["choice_entropy_state"]
    assert found["choice_changed_state"] < 0.6 and found["choice_accuracy_before"] > 0.5


def test_motions_are_read_from_what_knows_them(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """CoinRun's camera follows the agent; walls do not move, and what is never in sight is no number."""
    monkeypatch.setattr(reading, "FEWEST", 20)
    moved = {}
    for index in range(len(store)):
        there = motion_of(store, index, "camera", 2)
        assert np.allclose(there, motion_of(store, index, "agent", 2), atol=1e-4)
        moved[index] = np.concatenate([there, np.zeros((2, 2))])
    still = rows(store, {i: np.zeros((int(store.lengths[i]), 1)) for i in range(len(store))})
    columns = {"latents": rows(store, moved), "state": still, "motion": still}
    found = read_movers(store, columns, np.arange(8), np.arange(8, 12), 2)
    assert found["agent_motion_r2"] > 0.99 and found["camera_motion_r2"] > 0.99
    assert found["agent_motion_r2_state"] < 0.1 and np.isnan(found["shot_motion_r2"])


def test_guesses_of_frames_are_held_against_what_is_seen(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """True motions are all there is to tell, no guess tells nothing; kinds out of sight do not count."""
    monkeypatch.setattr(reading, "FEWEST", 20)
    known, probes = np.arange(8), np.arange(8, 12)
    column = movers_column(store, known, 2)
    guess = np.concatenate(episodes_of(column, "movers", probes, 2))
    found = score_movers(guess, column, store, probes, 2)
    linear = read_movers(store, {name: column_as(column, name) for name in reading.READ}, known, probes, 2)
    assert {mover for mover in reading.MOVERS if np.isfinite(found[f"{mover}_motion_r2"])} == {"agent", "camera"}
    assert found["agent_motion_r2"] == 1 and linear["agent_motion_r2"] > 0.99
    rows = np.concatenate(episodes_of(column, "movers", known, 2))
    nothing = score_movers(np.zeros_like(rows), column, store, known, 2)
    assert nothing["agent_motion_r2"] == pytest.approx(0, abs=1e-5)
    assert np.square(rows[:, :2]).mean() == pytest.approx(1, abs=1e-4)


def column_as(column: Store, name: str) -> Rows:
    return Rows({index: column.episode(place, "movers") for index, place in column.places.items()})


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    """A model, what it knows, and who plays, at tiny size in one game."""
    folder = tmp_path_factory.mktemp("games")
    found = Site(Lab(folder / "lab", TINY), folder / "records", Launcher(1))
    wanted = {
        "games": ("lapo-256", "flam-4"),
        "readers": ("all-labels", "labels-alone"),
        "lams": ("lapo-256",),
        "agents": ("lapo-256", "all-actions", "labels-only", "idm", "random"),
    }
    plan = [
        p
        for p in plan_games(TINY)
        if p.needs == [GAME, GAME] or (p.kind in ("agents", "readers") and p.needs == [GAME])
        if p.job.seed == 0 and p.job.method in wanted[p.kind]
    ]
    assert len(plan) == sum(map(len, wanted.values())) and run_cells(found, plan, "test", SILENT) == {}
    return found


def test_agents_draw_their_choices(site: Site) -> None:
    """By their own odds: side by side as alone, from the episode's own generator, and not the likeliest every time."""
    folder = next((site.lab.root / "agents").glob(f"{GAME}-all-actions-*"))
    world, agent, seeds = site.lab.world(GAME), load_agent(folder), [episode_seed(7, index) for index in range(3)]
    with closing(open_world(world)) as env:
        alone = [play_episode(env, agent, seed, steps=20).actions[:, 0].tolist() for seed in seeds]
    played: list[list[float]] = [[] for _ in seeds]
    with ExitStack() as stack:
        envs = [stack.enter_context(closing(open_world(world))) for _ in seeds]
        frames = np.stack([env.reset(seed=seed)[0] for env, seed in zip(envs, seeds, strict=True)])
        for env, kept in zip(envs, played, strict=True):
            env.step = listening(env.step, kept)
        play_together(envs, agent, frames[:, None].repeat(agent.seen, 1), 20, [policy_rng(seed) for seed in seeds])
    assert played == alone and len({tuple(actions) for actions in alone}) == 3
    assert all(len(set(actions)) > 2 for actions in alone)
    assert play(folder, world, 7, 3, 1, 20).tolist() == play(folder, world, 7, 3, 2, 20).tolist()


def listening(step: Callable[[Any], Any], kept: list[float]) -> Callable[[Any], Any]:
    """Keeps the actions that are taken."""

    def taken(action: Any) -> Any:
        kept.append(float(np.asarray(action).ravel()[0]))
        return step(action)

    return taken


def test_it_is_recorded_and_shown(site: Site) -> None:
    told = {record["method"]: set(record["metrics"]) for record in read_records(site.records, "games")}
    assert {"choice_balanced", "choice_entropy_state", "agent_motion_r2", "gain_over_shuffled"} <= told["lapo-256"]
    assert told["labels-alone"] == {"choice_accuracy", "choice_balanced", "choice_changed"}
    assert told["labels-alone"] | {f"{mover}_motion_r2" for mover in reading.MOVERS} == told["all-labels"]
    played = {r["method"]: r["metrics"] for r in read_records(site.records, "gameplay")}
    assert len(played) == 5 and all(len(each["returns"]) == TINY.levels for each in played.values())
    for name in ("games", "gameplay"):
        shown = as_markdown(*TABLES[name].make(site.records, "tiny"))
        assert "bigfish" in shown and "lapo-256" in shown
    assert sketch_named(site.records, "tiny") is None  # so few levels tell of no motion
    found = [verdict.status for verdict in judge_games(site.records, "tiny")]
    assert found == ["unmeasured", "open", "unmeasured", "unmeasured"]
    assert game_figures(site.lab.root, SILENT) == []  # FLAM's tokenizer is one of frames


def test_it_is_counted(site: Site) -> None:
    kinds = {kind: [piece.kind for piece in pieces_of(site.lab, cell)] for kind, cell in first_of_each().items()}
    assert "collect games" in kinds["tokenizers"] and {"lam lapo-256", "probes"} <= set(kinds["games"])
    play = next(piece for piece in pieces_of(site.lab, first_of_each()["agents"]) if piece.kind == "play games")
    assert play.amount == TINY.levels * TINY.played
    long = Lab(site.lab.root / "none", LAPTOP)
    play, data = (
        next(piece for piece in pieces_of(long, PlannedCell("agents", Job("random", GAME, 0, 0))) if piece.kind == kind)
        for kind in ("play games", "collect games")
    )
    assert play.amount == LAPTOP.levels * LEVEL_STEPS[GAME]
    assert data.amount == LAPTOP.games.episodes * LEVEL_STEPS[GAME]  # which end before they are cut


def first_of_each() -> dict[str, PlannedCell]:
    """One cell of each kind, of a game without data."""
    found: dict[str, PlannedCell] = {}
    for planned in plan_games(TINY):
        method = planned.job.model.method if planned.kind == "tokenizers" else planned.job.method
        if GAME not in planned.needs and method in ("lapo-256", "otf", "labels-only"):
            found.setdefault(planned.kind, planned)
    return found


def test_a_film_or_how_to_get_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert film_game(tmp_path / "game.mp4").endswith("game.mp4") and (tmp_path / "game.mp4").stat().st_size > 10_000
    monkeypatch.setattr("otflam.envs.libenv.importlib.util.find_spec", lambda name: None)
    assert film_game(tmp_path / "none.mp4") == f"no game is shown, since the games are not installed: {INSTALL_GAMES}"
