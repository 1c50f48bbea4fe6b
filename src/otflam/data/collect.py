"""Episodes from the simulator into a store, in parallel, resumable, the same bits whatever the number of workers."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Int64

from otflam.core import (
    SILENT,
    Column,
    Launcher,
    Progress,
    UserError,
    disk_errors,
    from_json,
    run_jobs,
    stable_hash,
    to_json,
)
from otflam.data.joining import ShardWorker, cut, join_stores, make_shards
from otflam.data.options import Collection
from otflam.data.store import FORMAT, VERSION, Store
from otflam.data.writing import StoreWriter, finished_store, take_folder, tidy
from otflam.envs import (
    Environment,
    Policy,
    World,
    episode_seed,
    level_of,
    make_policy,
    open_world,
    parse_mix,
    play_episode,
    policy_names,
    restorable,
)

SIMULATION = "simulation"
SHARD = "shard"
"""What a shard says beside its collection: its first and its last episode."""


class Prepared(NamedTuple):
    """What a collection comes to in its world."""

    steps: int
    """Of an episode, at most."""
    columns: dict[str, Column]
    plan: dict[str, Any]
    """What a store of it was made with."""
    extra: dict[str, Any]


def prepare_collection(collection: Collection) -> Prepared:
    """Open the world once; what cannot be collected is refused before anything is written."""
    if collection.episodes < 1 or (collection.steps is not None and collection.steps < 2):
        raise UserError("an empty collection", "ask for at least one episode of at least two steps")
    if collection.seed < 0:
        raise UserError(f"--seed {collection.seed}", "give a number of 0 or more")
    if not 0 <= collection.noise < np.inf:
        raise UserError(f"--noise {collection.noise}", "give a standard deviation of 0 or more")
    env = open_world(collection.world)
    facts = env.facts
    if facts.actions.choices and collection.noise > 1:
        raise UserError(f"--noise {collection.noise}", "actions are discrete: give the share of random ones, 0 to 1")
    steps, policies = min(collection.steps or facts.steps, facts.steps), make_policies(collection, env)
    plan = to_json(collection) | {"expert_digest": digest_of(policies), "background_set": facts.scenery}
    columns, extra = facts.all_columns(), _about(env)
    env.close()
    return Prepared(steps, columns, plan, extra)


def collect_episodes(collection: Collection, out: Path, workers: int, progress: Progress = SILENT) -> Store:
    """Collect what is missing in `out`; an interrupted collection continues where it stopped."""
    steps, columns, plan, extra = prepare_collection(collection)
    lengths = np.full(collection.episodes, steps)
    return _write_missing(Collector, (collection, 0), lengths, out, columns, plan, extra, workers, progress)


def collect_shards(
    collection: Collection, out: Path, shards: int, jobs: Launcher, progress: Progress = SILENT
) -> Store:
    """The same episodes, neighbouring ones in a shard that a job of its own writes; each continues where it stopped."""
    prepared = prepare_collection(collection)
    if (store := finished_store(out, prepared.plan)) is not None:
        return store
    parts = cut(range(collection.episodes), shards)
    begun = {"format": FORMAT, "version": VERSION, "config": prepared.plan, "shards": shards}
    with disk_errors(out):
        held = take_folder(out, begun, lock=True)
    try:
        # Those that are there need no job, which might wait for long in a queue.
        there = [finished_store(shard_folder(out, n), shard_plan(prepared.plan, part)) for n, part in enumerate(parts)]
        missing = [number for number, store in enumerate(there) if store is None]
        make_shards(jobs, ShardCollector, (collection, out, parts, jobs.share(shards)), missing, progress)
        stores = [Store(shard_folder(out, number)) for number in range(shards)]
        episodes = [(store, place) for store in stores for place in range(len(store))]
        return join_stores(out, episodes, prepared.plan, prepared.extra)
    finally:
        if not any(out.glob("shard-*")):  # no job was sent: another number of shards may be tried
            tidy(out)
        if held is not None:
            os.close(held)


def shard_folder(out: Path, number: int) -> Path:
    return out / f"shard-{number:03}"


def shard_plan(plan: dict[str, Any], episodes: list[int]) -> dict[str, Any]:
    """What a shard of these episodes was made with."""
    return plan | {SHARD: [episodes[0], episodes[-1]]}


class ShardCollector(ShardWorker):
    """One job: collects its shard with its own processes."""

    def __init__(self, collection: Collection, out: Path, parts: list[list[int]], workers: int) -> None:
        self.collection, self.out, self.parts, self.workers = collection, out, parts, workers

    def work(self, number: int, progress: Progress) -> None:
        steps, columns, plan, extra = prepare_collection(self.collection)
        episodes, out = self.parts[number], shard_folder(self.out, number)
        plan, lengths = shard_plan(plan, episodes), np.full(len(episodes), steps)
        arguments = (self.collection, episodes[0])
        _write_missing(Collector, arguments, lengths, out, columns, plan, extra, self.workers, progress)


def _write_missing(
    worker: type,
    arguments: tuple,
    lengths: Int64[np.ndarray, " n"],
    out: Path,
    columns: dict[str, Column],
    plan: dict[str, Any],
    extra: dict[str, Any],
    workers: int,
    progress: Progress,
) -> Store:
    """Let workers write the episodes that are not there yet, each of at most so many rows."""
    if (store := finished_store(out, plan)) is not None:
        return store
    slot = int(lengths.max())
    writer = StoreWriter(out, columns, plan, slot=slot, lock=True)
    writer.reserve(len(lengths) * slot)
    writer.drop_damaged()
    done = writer.done()
    progress.start(int(lengths[list(done)].sum()), int(lengths.sum()))
    missing = [index for index in range(len(lengths)) if index not in done]
    for _ in run_jobs(worker, (*arguments, out, columns, plan, slot), missing, workers, progress):
        pass
    return writer.finish(extra, len(lengths))


def choose_policy(shares: dict[str, float], seed: int, index: int) -> str:
    """Who plays an episode. Steps of the golden ratio spread the policies evenly, so any number of episodes has them
    in nearly their shares, and an episode does not depend on how many there are."""
    place = (np.random.default_rng([seed, 2]).random() + index * 0.6180339887498949) % 1
    return list(shares)[int(np.searchsorted(np.cumsum([*shares.values()])[:-1], place, side="right"))]


class Collector:
    """One worker: a world, the policies and the store it writes into."""

    def __init__(
        self, collection: Collection, first: int, out: Path, columns: dict[str, Column], plan: Any, steps: int
    ) -> None:
        """The store's episodes are those of the collection from the `first` on."""
        self.collection, self.first, self.steps = collection, first, steps
        self.env = open_world(collection.world)
        self.writer = StoreWriter(out, columns, plan, slot=steps)
        self.shares = _shares(collection)
        self.policies = make_policies(collection, self.env)

    def __call__(self, index: int, progress: Progress) -> None:
        number = self.first + index
        seed = episode_seed(self.collection.seed, number)
        name = choose_policy(self.shares, self.collection.seed, number)
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
    env = restorable(open_world(world))
    facts = env.facts
    plan = {**to_json(dataclasses.replace(collected, world=world)), "background_set": facts.scenery}
    plan |= {"expert_digest": source.config["expert_digest"], "rendered_from": source.hash}
    columns, extra = facts.all_columns(), _about(env)
    env.close()
    arguments = (source.path, world)
    return _write_missing(Redrawer, arguments, source.lengths, out, columns, plan, extra, workers, progress)


class Redrawer:
    """One worker that draws recorded episodes."""

    def __init__(self, source: Path, world: World, out: Path, columns: dict[str, Column], plan: Any, slot: int) -> None:
        self.source, self.env = Store(source), restorable(open_world(world))
        self.writer = StoreWriter(out, columns, plan, slot=slot)

    def __call__(self, index: int, progress: Progress) -> None:
        facts, known = self.env.facts, self.source.episodes[index]
        rendered: dict[str, list[np.ndarray]] = {name: [] for name in ("frames", *facts.drawn)}
        rows = {name: self.source.episode(index, name) for name in facts.all_columns() if name not in rendered}
        for frame, columns in self.env.redraw(known["seed"], rows[facts.snapshot_column()]):
            for name, values in rendered.items():
                values.append(frame if name == "frames" else columns[name])
            progress.advance()
        info = {name: known[name] for name in ("seed", "policy", "return")}
        self.writer.write(index, rows | {name: np.stack(values) for name, values in rendered.items()}, info)


def recorded_collection(store: Store) -> Collection:
    """The collection that made a store: enough to rebuild its worlds."""
    if store.meta.get("kind") != SIMULATION:
        raise UserError(
            f"{store.path} was not made by the simulator ({store.meta.get('kind')})",
            "only collected data can be redrawn",
        )
    beside = ("expert_digest", "background_set", "rendered_from", SHARD)
    values = {name: value for name, value in store.config.items() if name not in beside}
    return from_json(Collection, values, "meta.json config")


def has_distractors(store: Store) -> bool:
    """Whether a data set shows any; nobody knows of videos."""
    world = store.config.get("world")
    return world is not None and level_of(from_json(World, world, "meta.json world")).any


def has_rival(store: Store) -> bool:
    """Whether a data set shows another body beside the agent's; nobody knows of videos."""
    return store.meta.get("kind") == SIMULATION and recorded_collection(store).world.has_rival


def make_policies(collection: Collection, env: Environment) -> dict[str, Policy]:
    """All policies of a mix."""
    return {name: make_policy(name, env, collection.expert) for name in _shares(collection)}


def digest_of(policies: dict[str, Policy]) -> str | None:
    """Content of those that come from files, so that another file under the same name is not mistaken for it."""
    found = [digest for policy in policies.values() if (digest := getattr(policy, "digest", None)) is not None]
    return stable_hash(found) if len(found) > 1 else next(iter(found), None)


def _shares(collection: Collection) -> dict[str, float]:
    return parse_mix(collection.mix, policy_names(collection.world.task))


def _about(env: Environment) -> dict[str, Any]:
    return {"kind": SIMULATION, **env.facts.actions.about(), **env.facts.about}
