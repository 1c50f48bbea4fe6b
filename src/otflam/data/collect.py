"""Episodes from the simulator into a store, in parallel, resumable, the same bits whatever the number of workers."""

from __future__ import annotations

import dataclasses
import hashlib
from pathlib import Path
from typing import Any

import numpy as np

from otflam.core import SILENT, Progress, UserError, from_json, run_jobs, to_json, versions
from otflam.data.options import Collection
from otflam.data.store import Column, Store
from otflam.data.writing import StoreWriter, finished_store
from otflam.envs import ControlEnv, World, episode_seed, make_policy, packaged_experts, parse_mix, play_episode

SIMULATION = "simulation"


def collect_episodes(collection: Collection, out: Path, workers: int, progress: Progress = SILENT) -> Store:
    """Collect what is missing in `out`; an interrupted collection continues where it stopped."""
    if collection.episodes < 1 or (collection.steps is not None and collection.steps < 2):
        raise UserError("an empty collection", "ask for at least one episode of at least two steps")
    if collection.seed < 0:
        raise UserError(f"--seed {collection.seed}", "give a number of 0 or more")
    if not 0 <= collection.noise < np.inf:
        raise UserError(f"--noise {collection.noise}", "give a standard deviation of 0 or more")
    env = ControlEnv(collection.world)
    steps = min(collection.steps or env.simulation.steps, env.simulation.steps)
    for name in parse_mix(collection.mix):
        make_policy(name, env.simulation, collection.expert)
    plan = to_json(collection) | {"expert_digest": _expert_digest(collection), "background_set": _background_set(env)}
    columns, extra = _columns(env), _about(env)
    env.close()
    if (store := finished_store(out, plan)) is not None:
        return store
    writer = StoreWriter(out, columns, plan, slot=steps, lock=True)
    writer.reserve(collection.episodes * steps)
    writer.drop_damaged()
    done = writer.done()
    progress.start(len(done) * steps, collection.episodes * steps)
    missing = [index for index in range(collection.episodes) if index not in done]
    for _ in run_jobs(Collector, (collection, out, columns, plan, steps), missing, workers, progress):
        pass
    return writer.finish(extra, collection.episodes)


def choose_policy(shares: dict[str, float], seed: int, index: int) -> str:
    """Who plays an episode. Steps of the golden ratio spread the policies evenly, so any number of episodes has them
    in nearly their shares, and an episode does not depend on how many there are."""
    place = (np.random.default_rng([seed, 2]).random() + index * 0.6180339887498949) % 1
    return list(shares)[int(np.searchsorted(np.cumsum([*shares.values()])[:-1], place, side="right"))]


class Collector:
    """One worker: a world, the policies and the store it writes into."""

    def __init__(self, collection: Collection, out: Path, columns: dict[str, Column], plan: Any, steps: int) -> None:
        self.collection, self.steps = collection, steps
        self.env = ControlEnv(collection.world)
        self.writer = StoreWriter(out, columns, plan, slot=steps)
        self.shares = parse_mix(collection.mix)
        self.policies = {name: make_policy(name, self.env.simulation, collection.expert) for name in self.shares}

    def __call__(self, index: int, progress: Progress) -> None:
        seed = episode_seed(self.collection.seed, index)
        name = choose_policy(self.shares, self.collection.seed, index)
        episode = play_episode(
            self.env, self.policies[name], seed, steps=self.steps, noise=self.collection.noise, progress=progress
        )
        info = {"seed": seed, "policy": name, "return": float(episode.rewards.sum(dtype=np.float64))}
        self.writer.write(index, episode.columns(), info)


def render(source: Store, world: World, out: Path, workers: int, progress: Progress = SILENT) -> Store:
    """Draw the episodes of a store again, as another world shows them; everything but the pictures stays the same."""
    collected = recorded_collection(source)
    if world.task != collected.world.task:
        raise UserError(f"{source.path} holds {collected.world.task}", f"it cannot be drawn as {world.task}")
    env = ControlEnv(world)
    plan = {**to_json(dataclasses.replace(collected, world=world)), "background_set": _background_set(env)}
    plan |= {"expert_digest": source.config["expert_digest"], "rendered_from": source.hash}
    columns = source.columns | {name: _columns(env)[name] for name in ("frames", "distractors")}
    extra = _about(env)
    env.close()
    slot = int(source.lengths.max())
    if (store := finished_store(out, plan)) is not None:
        return store
    writer = StoreWriter(out, columns, plan, slot=slot, lock=True)
    writer.reserve(len(source) * slot)
    writer.drop_damaged()
    done = writer.done()
    progress.start(int(source.lengths[list(done)].sum()), int(source.lengths.sum()))
    missing = [index for index in range(len(source)) if index not in done]
    for _ in run_jobs(Redrawer, (source.path, world, out, columns, plan, slot), missing, workers, progress):
        pass
    return writer.finish(extra, len(source))


class Redrawer:
    """One worker that draws recorded physics states."""

    def __init__(self, source: Path, world: World, out: Path, columns: dict[str, Column], plan: Any, slot: int) -> None:
        self.source, self.env = Store(source), ControlEnv(world)
        self.writer = StoreWriter(out, columns, plan, slot=slot)

    def __call__(self, index: int, progress: Progress) -> None:
        rows = {name: self.source.episode(index, name) for name in self.source.columns}
        frames, distractors = [], []
        for frame, distraction in self.env.redraw(self.source.episodes[index]["seed"], rows["physics"]):
            frames.append(frame)
            distractors.append(distraction.vector())
            progress.advance()
        info = {name: self.source.episodes[index][name] for name in ("seed", "policy", "return")}
        self.writer.write(index, rows | {"frames": np.stack(frames), "distractors": np.stack(distractors)}, info)


def recorded_collection(store: Store) -> Collection:
    """The collection that made a store: enough to rebuild its worlds."""
    if store.meta.get("kind") != SIMULATION:
        raise UserError(
            f"{store.path} was not made by the simulator ({store.meta.get('kind')})",
            "only collected data can be redrawn",
        )
    beside = ("expert_digest", "background_set", "rendered_from")
    values = {name: value for name, value in store.config.items() if name not in beside}
    return from_json(Collection, values, "meta.json config")


def _expert_digest(collection: Collection) -> str | None:
    """Content of the expert that plays, so that another file under the same name is not mistaken for it."""
    expert = Path(collection.expert) if collection.expert else packaged_experts().get(collection.world.task)
    if "expert" not in parse_mix(collection.mix) or expert is None:
        return None
    return hashlib.blake2b(expert.read_bytes(), digest_size=16).hexdigest()


def _background_set(env: ControlEnv) -> str | None:
    return env.backgrounds.name if env.backgrounds is not None else None


def _columns(env: ControlEnv) -> dict[str, Column]:
    simulation, size = env.simulation, env.world.size
    return {
        "frames": Column("uint8", (size, size, 3)),
        "actions": Column("float32", (simulation.action_size,)),
        "rewards": Column("float32", ()),
        "states": Column("float32", (simulation.state_size,)),
        "physics": Column("float64", (simulation.physics_size,)),
        "distractors": Column("float32", (env.distraction_fields()["background"][1],)),
    }


def _about(env: ControlEnv) -> dict[str, Any]:
    return {
        "kind": SIMULATION,
        "distractor_fields": env.distraction_fields(),
        "action_low": env.simulation.low.tolist(),
        "action_high": env.simulation.high.tolist(),
        "versions": versions("numpy", "mujoco", "dm_control"),
    }
