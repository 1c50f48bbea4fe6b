"""Stores of many shards: written by many jobs, read as one, bit for bit what one process writes."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import struct
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st

from otflam import cli
from otflam.core.errors import UserError
from otflam.core.pool import Cluster, Failure, Launcher
from otflam.data.clips import Clips
from otflam.data.collect import collect_episodes, collect_shards, recorded_collection, shard_folder
from otflam.data.derived import derive, describe_rows
from otflam.data.joining import join_stores
from otflam.data.options import Collection
from otflam.data.store import Column, Store, plain_hash, summarise
from otflam.data.writing import StoreWriter
from otflam.envs.world import World
from otflam.evaluate.control import play

PLAN = Collection(World("cheetah-run", size=24), episodes=5, steps=120, mix="expert=0.6,random=0.4", noise=0.3, seed=4)
COLUMNS = {"frames": Column("uint8", (3, 5, 1)), "actions": Column("float32", (2,)), "flag": Column("bool", ())}


def submitit_jobs(folder: Path) -> Launcher:
    """The very jobs of a cluster, two of them as processes of this machine."""
    pytest.importorskip("submitit", reason="needs otflam[slurm]")
    return Launcher(2, "submitit", Cluster(hours=0.1, cpus=1, memory=1), folder)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return collect_episodes(PLAN, tmp_path_factory.mktemp("whole") / "data", 1)


@pytest.fixture(scope="module")
def sharded(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """Written by two jobs, of which one is killed and continued."""
    folder = tmp_path_factory.mktemp("sharded")
    out, killer = folder / "data", threading.Thread(target=kill_writer, args=(shard_folder(folder / "data", 1),))
    jobs = submitit_jobs(folder / "jobs")
    killer.start()
    with pytest.raises(UserError, match=r"1 of 2 shards failed, the first being 1 \(job .*: all others are there"):
        collect_shards(PLAN, out, 2, jobs)
    killer.join()
    with pytest.raises(UserError, match="is not finished"):
        Store(out)
    for collect in (lambda: collect_shards(PLAN, out, 3, Launcher(1)), lambda: collect_episodes(PLAN, out, 1)):
        with pytest.raises(UserError, match=r"begun with other settings \(shards differ\)"):
            collect()
    kept = (shard_folder(out, 0) / "meta.json").stat().st_mtime_ns
    assert "digests" in (shard_folder(out, 1) / "parts.jsonl").read_text()
    store = collect_shards(PLAN, out, 2, Launcher(1))
    assert (shard_folder(out, 0) / "meta.json").stat().st_mtime_ns == kept
    return store


def kill_writer(shard: Path) -> None:
    """Kill the process that writes a shard once it has written an episode."""
    limit = time.monotonic() + 300
    while time.monotonic() < limit:
        with suppress(FileNotFoundError):
            if "digests" in (shard / "parts.jsonl").read_text():
                return os.kill(holder(shard / ".lock"), signal.SIGKILL)
        time.sleep(0.002)


def holder(file: Path) -> int:
    """The process that has locked a file."""
    wanted = struct.pack("hhqqi0q", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
    with file.open("rb") as stream:
        return struct.unpack("hhqqi0q", fcntl.fcntl(stream, fcntl.F_GETLK, wanted))[-1]


def facts(store: Store) -> list[dict[str, Any]]:
    """What episodes say of themselves, but where they lie."""
    return [{name: value for name, value in episode.items() if name != "start"} for episode in store.episodes]


def assert_equal(one: Store, other: Store) -> None:
    assert one.hash == other.hash and facts(one) == facts(other) and one.lengths.tolist() == other.lengths.tolist()
    for index in range(len(one)):
        for name in one.columns:
            np.testing.assert_array_equal(one.episode(index, name), other.episode(index, name))


def test_two_jobs_write_what_one_process_writes(whole: Store, sharded: Store) -> None:
    assert [len(Store(shard.folder)) for shard in sharded.shards] == [2, 3]
    assert_equal(sharded, whole)
    sharded.check()
    assert sharded.config == whole.config and recorded_collection(sharded) == PLAN
    told = summarise(sharded)
    assert {**told, "data": ""} == {**summarise(whole), "data": ""}
    assert {entry.name for entry in sharded.path.iterdir()} == {"meta.json", "shard-000", "shard-001"}
    ours, theirs = (Clips(store, (0, 2), ["actions", "states"]) for store in (sharded, whole))
    for step in range(4):
        one, other = ours.batch(16, 0, step), theirs.batch(16, 0, step)
        assert torch.equal(one.frames, other.frames) and _equal(one.columns, other.columns)
    assert recorded_collection(Store(sharded.shards[1].folder)) == PLAN  # a shard is a data set too


def _equal(one: Mapping, other: Mapping) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def test_a_finished_collection_is_found_whatever_its_shards(whole: Store, sharded: Store, tmp_path: Path) -> None:
    assert collect_shards(PLAN, whole.path, 3, Launcher(1)).path == whole.path
    assert collect_episodes(PLAN, sharded.path, 1).shards == sharded.shards
    local = collect_shards(PLAN, tmp_path / "data", 3, Launcher(1))
    assert len(local.shards) == 3
    assert_equal(local, whole)


def run(*words: str | Path) -> None:
    cli.main([str(word) for word in words])


def test_columns_of_two_jobs_are_those_of_one_process(
    whole: Store, sharded: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Codes, latents of a model that stands on them, and an export, of a data set of shards and of a whole one."""
    data = shutil.copytree(whole.path, tmp_path / "whole")
    few = ["--preset", "tiny", "--steps", "8"]
    run("tokenizer", "train", data, "--out", tmp_path / "tokenizer", *few)
    run("lam", "train", "otf-lam-pixel", data, "--tokenizer", tmp_path / "tokenizer", "--out", tmp_path / "lam", *few)
    shards = ["--shards", "2", "--workers", "1"]
    remote = [*shards, "--launcher", "submitit", "--hours", "0.1", "--memory", "1", "--logs", tmp_path / "jobs"]
    found: dict[str, Store] = {}
    for name, source, more in (("one", whole, []), ("two", whole, shards), ("three", sharded, shards)):
        copy = shutil.copytree(source.path, tmp_path / name)
        if name == "two":  # else labelling computes them
            run("tokenizer", "encode", copy, "--tokenizer", tmp_path / "tokenizer", *remote)
        run("lam", "label", copy, "--lam", tmp_path / "lam", *more)
        if more:
            assert "in 2 shards; meta.json says where each episode is" in capsys.readouterr().out
        run("lam", "export", copy, "--lam", tmp_path / "lam", "--to", "npz", "--out", tmp_path / f"{name}.npz")
        for column in ("codes", "latents"):
            (folder,) = (each for each in (tmp_path / f"{name}.derived").glob(f"{column}-*") if _holds(each, 5))
            found[f"{name} {column}"] = Store(folder)
        run("data", "check", copy)
    for column in ("codes", "latents"):
        assert len(found[f"one {column}"].shards) == 1
        for name in ("two", "three"):
            assert len(found[f"{name} {column}"].shards) == 2
            assert_equal(found[f"{name} {column}"], found[f"one {column}"])
    tables = [np.load(tmp_path / f"{name}.npz") for name in ("one", "two", "three")]
    assert all(np.array_equal(tables[0][key], table[key]) for table in tables[1:] for key in tables[0])
    clips = Clips(Store(tmp_path / "three"), (0, 2), derived={"latents": found["three latents"]})
    plain = Clips(Store(tmp_path / "one"), (0, 2), derived={"latents": found["one latents"]})
    assert torch.equal(clips.batch(16, 0, 0).at("latents", 0), plain.batch(16, 0, 0).at("latents", 0))


def _holds(folder: Path, episodes: int) -> bool:
    return (folder / "meta.json").exists() and len(Store(folder)) == episodes


def test_features_of_two_jobs(whole: Store, tmp_path: Path, save_dino: Callable[..., Path]) -> None:
    dino, found = save_dino(tmp_path / "dino"), []
    for name, more in (("one", []), ("two", ["--shards", "2", "--workers", "1"])):
        data = shutil.copytree(whole.path, tmp_path / name)
        run("dino", "encode", data, "--dino", dino, "--size", "28", "--episodes", "4", *more)
        found += [Store(each) for each in (tmp_path / f"{name}.derived").iterdir() if _holds(each, 4)]
    assert_equal(*found)


def test_playing_as_a_job_earns_what_one_process_earns(tmp_path: Path) -> None:
    world = World("cheetah-run", size=24)
    away = play("random", world, 7, 3, submitit_jobs(tmp_path / "jobs"), 8)
    assert away.tolist() == play("random", world, 7, 3, 1, 8).tolist() and len(away) == 3


class Losing(Launcher):
    """A cluster that loses every second job."""

    def run(self, make: Any, arguments: tuple, jobs: Iterable[int], *_: Any) -> Iterator[tuple[int, Any]]:
        yield from ((number, [0.0] * 5 if number % 2 else Failure("job 7 ended early; see jobs")) for number in jobs)


def test_a_lost_job_of_playing_is_told() -> None:
    with pytest.raises(UserError, match="random could not play all episodes: job 7 ended early; see jobs"):
        play("random", World("cheetah-run", size=24), 7, 10, Losing(2), 8)


def rows(length: int, seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    frames, flags = rng.integers(0, 256, (length, 3, 5, 1), np.uint8), rng.random(length) < 0.5
    return {"frames": frames, "actions": rng.standard_normal((length, 2), np.float32), "flag": flags}


def write(path: Path, lengths: list[int], first: int = 0) -> Store:
    writer = StoreWriter(path, COLUMNS, {"first": first})
    for index, length in enumerate(lengths):
        writer.append(index, rows(length, first + index), {"seed": first + index})
    return writer.finish({"kind": "test"}, len(lengths))


def join(path: Path, shards: list[list[int]]) -> Store:
    stores: list[Store] = []
    for number, lengths in enumerate(shards):
        stores.append(write(path / f"shard-{number:03}", lengths, sum(map(len, shards[:number]))))
    return join_stores(path, [(store, place) for store in stores for place in range(len(store))], {}, {"kind": "test"})


@settings(max_examples=8, deadline=None)
@given(st.lists(st.lists(st.integers(1, 40), min_size=1, max_size=4), min_size=1, max_size=5))
def test_rows_are_found_in_any_shards(tmp_path_factory: pytest.TempPathFactory, shards: list[list[int]]) -> None:
    folder, lengths = tmp_path_factory.mktemp("rows"), [length for shard in shards for length in shard]
    store, plain = join(folder / "joined", shards), write(folder / "plain", lengths)
    assert_equal(store, plain)
    store.check()
    assert store.rows == plain.rows and not store["frames"].flags.writeable
    ours, theirs = (Clips(each, (-1, 0), ["actions", "flag"], pad=True) for each in (store, plain))
    one, other = ours.gather(np.arange(len(ours))), theirs.gather(np.arange(len(theirs)))
    assert torch.equal(one.frames, other.frames) and _equal(one.columns, other.columns)
    column = derive(store, "twin", "model", COLUMNS["flag"], lambda index: np.array(store.episode(index, "flag")))
    assert column.rows == plain.rows  # between shards are addresses, no rows
    assert "meta.json says where each starts" in describe_rows(store, column) or len(shards) == 1


def test_an_array_outlives_its_store(tmp_path: Path) -> None:
    """The addresses belong to the array, not to whoever opened it."""
    frames = join(tmp_path / "data", [[3], [4]])["frames"]
    last = frames[len(frames) - 4 :]
    del frames
    np.testing.assert_array_equal(last, rows(4, 1)["frames"])


def edit(path: Path, change: Callable[[dict], Any]) -> None:
    """Change meta.json as one who knows its checksum would."""
    meta = json.loads((path / "meta.json").read_text())
    change(meta)
    del meta["digest"]
    (path / "meta.json").write_text(json.dumps({**meta, "digest": plain_hash(meta)}))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda meta: meta.update(shards=[]), "shards is not a list of shards"),
        (lambda meta: meta["shards"].append("x"), r"shards\.2 names no folder and its rows"),
        (lambda meta: meta["shards"][1].update(folder="../../victim"), r"shards\.1 names no folder"),
        (lambda meta: meta["shards"][1].update(folder="/tmp"), r"shards\.1 names no folder"),
        (lambda meta: meta["shards"][1].update(rows=-1), r"shards\.1 names no folder"),
        (lambda meta: meta["shards"][1].update(folder="shard-009"), "lacks its shard shard-009"),
        (lambda meta: meta["shards"].pop(), "episode 2 lies in no shard"),
        (lambda meta: meta["episodes"][1].update(start=0), "episodes 0 and 1 lie in the same rows"),
        (lambda meta: meta["episodes"][1].update(start=5), "lie in the same rows|lies in no shard"),
    ],
)
def test_what_cannot_be_is_refused(tmp_path: Path, change: Callable[[dict], Any], message: str) -> None:
    store = join(tmp_path / "data", [[3, 4], [5]])
    edit(store.path, change)
    with pytest.raises(UserError, match=message) as told:
        Store(store.path)
    assert "\n" not in str(told.value)


def test_damaged_and_missing_shards_are_named(tmp_path: Path) -> None:
    store = join(tmp_path / "data", [[3, 4], [5]])
    file = store.path / "shard-001" / "frames.npy"
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
    with pytest.raises(UserError, match=r"shard-001/frames.npy was altered in episode 2 \(rows 0 to 4\)"):
        Store(store.path).check()
    file.write_bytes(data[:-1])
    with pytest.raises(UserError, match=r"shard-001/frames.npy has \d+ bytes, expected \d+"):
        Store(store.path)["frames"]
    shutil.rmtree(store.path / "shard-001")
    with pytest.raises(UserError, match=r"lacks its shard shard-001: restore it, or delete .* and make it again"):
        Store(store.path)
