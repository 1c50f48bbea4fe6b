"""What a store's files say is checked where they are read: nothing leads out of a folder, and fields are named."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from otflam import cli
from otflam.core.errors import UserError
from otflam.data.derived import derive
from otflam.data.store import CHECKED_BYTES, HEADER, Column, Store, plain_hash
from otflam.data.writing import JOURNAL, StoreWriter

COLUMNS = {"frames": Column("uint8", (4, 4, 3)), "rewards": Column("float32", ())}


def rows(length: int, seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    frames = rng.integers(0, 256, (length, 4, 4, 3), np.uint8)
    return {"frames": frames, "rewards": rng.standard_normal(length, np.float32)}


def begin(path: Path, lengths: list[int]) -> StoreWriter:
    writer = StoreWriter(path, COLUMNS, {"x": 1})
    for index, length in enumerate(lengths):
        writer.append(index, rows(length, index), {"seed": index, "policy": "expert", "return": 1.5})
    return writer


def write(path: Path, lengths: list[int]) -> Store:
    return begin(path, lengths).finish({"kind": "test"}, len(lengths))


def edit(path: Path, change: Callable[[dict], Any]) -> None:
    """Change meta.json as one who knows its checksum would."""
    meta = json.loads((path / "meta.json").read_text())
    change(meta)
    del meta["digest"]
    (path / "meta.json").write_text(json.dumps({**meta, "digest": plain_hash(meta)}))


@pytest.mark.parametrize("name", ["../victim/rewards", "/tmp/rewards", "a/b", "..", "", "a\nb", ".hidden", "x" * 65])
def test_names_do_not_lead_out_of_the_folder(tmp_path: Path, name: str) -> None:
    victim = write(tmp_path / "victim", [3])
    before = (victim.path / "rewards.npy").read_bytes()
    with pytest.raises(UserError, match="is no name of a column"):
        StoreWriter(tmp_path / "data", {name: Column("float32", ())}, {})
    assert not (tmp_path / "data").exists()
    evil = write(tmp_path / "evil", [3])
    edit(evil.path, lambda meta: meta["columns"].update({name: meta["columns"].pop("rewards")}))
    with pytest.raises(UserError, match=r"meta.json: .* is no name of a column"):
        Store(evil.path)
    assert (victim.path / "rewards.npy").read_bytes() == before


EDITS: dict[str, Callable[[dict], Any]] = {
    "columns is not an object": lambda meta: meta.update(columns=[]),
    "columns.frames.dtype is none": lambda meta: meta["columns"]["frames"].update(dtype="object"),
    "columns.rewards.dtype is none": lambda meta: meta["columns"]["rewards"].update(dtype=["f4"]),
    r"columns.frames.shape is \[-4": lambda meta: meta["columns"]["frames"].update(shape=[-4]),
    r"columns.frames.shape is \[10+,": lambda meta: meta["columns"]["frames"].update(shape=[10**12, 10**12]),
    r"columns.frames.shape is \[1, 1, 1": lambda meta: meta["columns"]["frames"].update(shape=[1] * 40),
    "columns.frames.shape is 4": lambda meta: meta["columns"]["frames"].update(shape=4),
    "episodes is not a list": lambda meta: meta.update(episodes=[]),
    "episodes.1 is not an object": lambda meta: meta["episodes"].__setitem__(1, 7),
    "episodes.1.start is -1": lambda meta: meta["episodes"][1].update(start=-1),
    "episodes.1.start is 1.5": lambda meta: meta["episodes"][1].update(start=1.5),
    "episodes.1.start is 10+$": lambda meta: meta["episodes"][1].update(start=10**30),
    "episodes.0.length is True": lambda meta: meta["episodes"][0].update(length=True),
    "episodes.0.length is None": lambda meta: meta["episodes"][0].pop("length"),
    "episodes 0 and 1 lie in the same rows": lambda meta: meta["episodes"][1].update(start=2),
    "the episodes have 3 rows": lambda meta: [part.update(length=0) for part in meta["episodes"]],
    "episodes.0.digests does not name": lambda meta: meta["episodes"][0]["digests"].pop("frames"),
    "episodes.0.digests holds something": lambda meta: meta["episodes"][0]["digests"].update(frames=1),
    "episodes.1.policy is None": lambda meta: meta["episodes"][1].update(policy=None),
    "episodes.1.return is high": lambda meta: meta["episodes"][1].update({"return": "high"}),
    "hash is none": lambda meta: meta.update(hash="../../elsewhere"),
    "config is not an object": lambda meta: meta.update(config=None),
    "action_names is no list": lambda meta: meta.update(action_names=3),
}


@pytest.mark.parametrize("told", EDITS)
def test_meta_that_cannot_be_is_one_line(tmp_path: Path, told: str, capsys: pytest.CaptureFixture[str]) -> None:
    store = write(tmp_path / "data", [3, 4])
    edit(store.path, EDITS[told])
    with pytest.raises(UserError) as caught:
        Store(store.path)
    assert str(caught.value.problem).startswith(str(store.path / "meta.json"))
    assert re.search(told, caught.value.problem)
    with pytest.raises(SystemExit):
        cli.main(["data", "info", str(store.path)])
    assert "unexpected" not in (err := capsys.readouterr().err) and err.count("\n") == 1


def test_numbers_that_are_not_finite(tmp_path: Path) -> None:
    store = write(tmp_path / "data", [3, 4])
    text = (store.path / "meta.json").read_text()
    (store.path / "meta.json").write_text(text.replace("1.5", "NaN", 1))
    with pytest.raises(UserError, match=r"meta.json is not readable JSON \(episodes.0.return is NaN"):
        Store(store.path)
    writer = begin(tmp_path / "other", [3])
    with pytest.raises(UserError, match="episode 1 has a non-finite number in its facts"):
        writer.append(1, rows(3, 1), {"return": float("nan")})
    assert list(writer.done()) == [0]


@pytest.mark.parametrize("text", ["[]", "7", '{"config": 3}', '{"config": NaN}', "{"])
def test_plans_of_unfinished_stores(tmp_path: Path, text: str) -> None:
    writer = begin(tmp_path / "data", [3])
    (writer.path / "plan.json").write_text(text)
    with pytest.raises(UserError, match=r"plan.json.*: delete the folder and start again"):
        begin(tmp_path / "data", [3])
    assert (writer.path / "plan.json").read_text() == text


def test_altered_lines_of_the_journal_are_written_again(tmp_path: Path) -> None:
    """A line has a checksum: what it says of an episode cannot change in silence."""
    whole = write(tmp_path / "whole", [3, 4, 2])
    writer = begin(tmp_path / "data", [3, 4, 2])
    journal = writer.path / JOURNAL
    for old, new in (('"return": 1.5', '"return": 9.5'), ('"start": 3', '"start": 0'), ('"index": 2', "\ud800")):
        changed = journal.read_bytes().replace(old.encode(), new.encode(errors="surrogatepass"), 1)
        journal.write_bytes(changed)
        done = writer.done()
        assert len(done) < 3
        again = StoreWriter(writer.path, COLUMNS, {"x": 1})
        for index in {0, 1, 2} - done.keys():
            again.append(index, rows([3, 4, 2][index], index), {"seed": index, "policy": "expert", "return": 1.5})
    store = writer.finish({"kind": "test"}, 3)
    store.check()
    assert store.hash == whole.hash and [episode["return"] for episode in store.episodes] == [1.5] * 3


JOURNALS = {
    "line 1 is not that of an episode": 7,
    "line 1: part is not an object": {"index": 0, "part": 7},
    "line 1: part.start is None": {"index": 0, "part": {}},
    "line 1: part.length is -2": {"index": 0, "part": {"start": 0, "length": -2}},
    "line 1: part.digests does not name": {"index": 0, "part": {"start": 0, "length": 2, "digests": {"x": "y"}}},
}


@pytest.mark.parametrize("told", JOURNALS)
def test_journals_of_earlier_versions_are_checked_too(tmp_path: Path, told: str) -> None:
    """Their lines have no checksum."""
    writer = begin(tmp_path / "data", [])
    (writer.path / JOURNAL).write_text(json.dumps(JOURNALS[told]) + "\n")
    with pytest.raises(UserError, match=rf"parts.jsonl {told}.*: delete the folder and start again"):
        writer.drop_damaged()
    part = {"start": 0, "length": 3, "digests": dict.fromkeys(COLUMNS, "0")}
    (writer.path / JOURNAL).write_text(json.dumps({"index": 0, "part": part}))
    assert list(writer.done()) == [0]


def flip(file: Path, place: int) -> None:
    content = bytearray(file.read_bytes())
    content[place] ^= 1
    file.write_bytes(content)


@pytest.mark.parametrize("episode", range(3))
def test_altered_rows_are_found_when_a_small_column_is_opened(tmp_path: Path, episode: int) -> None:
    store = write(tmp_path / "data", [3, 4, 2])
    flip(store.path / "frames.npy", HEADER + int(store.starts[episode]) * 48 + 5)
    with pytest.raises(UserError, match=rf"frames.npy was altered in episode {episode} "):
        Store(store.path)["frames"]
    assert len(Store(store.path)["rewards"]) == 9
    with pytest.raises(UserError, match="was altered"):
        derive(Store(store.path), "twin", "model", COLUMNS["frames"], lambda i: Store(store.path).episode(i, "frames"))


def test_of_a_large_column_some_is_compared(tmp_path: Path) -> None:
    """Not more than a few hundredths of a second; the end, which a broken copy lacks, always."""
    wide = {"frames": Column("uint8", (CHECKED_BYTES // 8, 1, 1))}
    writer = StoreWriter(tmp_path / "data", wide, {}, slot=2)
    for index in range(8):
        writer.write(index, {"frames": np.full((2, CHECKED_BYTES // 8, 1, 1), index, np.uint8)}, {})
    store = writer.finish({}, 8)
    compared = []
    store._check = lambda index, column: compared.append(index)
    store["frames"]
    assert len(compared) == 4 == len(set(compared)) and compared[0] == 7
    flip(store.path / "frames.npy", -1)
    with pytest.raises(UserError, match="was altered in episode 7"):
        Store(store.path)["frames"]


def test_check_finds_what_was_altered_beside_the_data(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = write(tmp_path / "data", [3, 4])
    twin = derive(store, "twin", "model", COLUMNS["frames"], lambda index: store.episode(index, "frames"))
    cli.main(["data", "check", str(store.path)])
    assert "1 derived columns: all checksums match" in capsys.readouterr().out
    flip(twin.path / "twin.npy", -1)
    with pytest.raises(SystemExit):
        cli.main(["data", "check", str(store.path)])
    assert "twin.npy was altered in episode 1" in capsys.readouterr().err
    edit(store.path, lambda meta: meta.update(hash="0" * 32))
    with pytest.raises(UserError, match="hash is not that of the episodes"):
        Store(store.path).check()


def test_opening_many_episodes_is_fast(tmp_path: Path) -> None:
    count, store = 10_000, write(tmp_path / "data", [1])
    part = store.episodes[0]
    edit(store.path, lambda meta: meta.update(episodes=[part | {"start": index} for index in range(count)]))
    began = time.process_time()
    assert len(Store(store.path)) == count
    assert time.process_time() - began < 2
