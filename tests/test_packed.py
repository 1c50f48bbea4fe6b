"""Derived columns through the command line: row i belongs to frame i, whatever the lengths of videos."""

from __future__ import annotations

import sys
from pathlib import Path

import av
import numpy as np
import pytest
import torch

from otflam import cli
from otflam.core.batch import Batch
from otflam.data.clips import Clips
from otflam.data.derived import derive, describe_rows
from otflam.data.store import Column, Store
from otflam.data.writing import StoreWriter
from otflam.lam.build import load_lam
from otflam.tokenizer.build import load_tokenizer

LENGTHS = {"a": 9, "b": 21, "c": 13}
SIZE = 32


def write_video(path: Path, length: int) -> None:
    """A square that crosses a frame at a speed of its own, without loss."""
    with av.open(path, "w") as container:
        stream = container.add_stream("ffv1", rate=10)
        stream.width, stream.height, stream.pix_fmt = SIZE, SIZE, "bgr0"
        for time in range(length):
            picture = np.random.default_rng(length).integers(0, 60, (SIZE, SIZE, 3), np.uint8)
            left = (time * (1 + length % 4)) % (SIZE - 8)
            picture[10:18, left : left + 8] = 255
            container.mux(stream.encode(av.VideoFrame.from_ndarray(picture, "rgb24")))
        container.mux(stream.encode())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Videos of different lengths, imported, with a tokenizer and a model of them, all through the command line."""
    root = tmp_path_factory.mktemp("packed")
    (root / "videos").mkdir()
    for name, length in LENGTHS.items():
        write_video(root / "videos" / f"{name}.mkv", length)
    data, tokenizer, lam = (str(root / name) for name in ("data", "tokenizer", "lam"))
    cli.main(["data", "import", "videos", str(root / "videos"), "--size", str(SIZE), "--no-cuts", "--out", data])
    cli.main(["tokenizer", "train", data, "--preset", "tiny", "--out", tokenizer])
    cli.main(["lam", "train", "otf-lam-pixel", data, "--preset", "tiny", "--tokenizer", tokenizer, "--out", lam])
    cli.main(["lam", "label", data, "--lam", lam])
    return root


def column_of(root: Path, name: str) -> np.ndarray:
    (file,) = (root / "data.derived").glob(f"{name}-*/{name}.npy")
    return np.load(file)


def inside(stride: int) -> list[int]:
    """Rows of frames whose transition stays in its video."""
    ends = np.cumsum(list(LENGTHS.values()))
    return [row for row in range(ends[-1]) if row + stride < ends[np.searchsorted(ends, row, side="right")]]


def test_latents_belong_to_frames(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    frames, latents = np.load(folder / "data" / "frames.npy"), column_of(folder, "latents")
    assert len(frames) == len(latents) == sum(LENGTHS.values())
    model, _ = load_lam(folder / "lam")
    rows = inside(model.stride)
    pairs = torch.from_numpy(frames[np.array(rows)[:, None] + [0, model.stride]])
    with torch.inference_mode():
        expected = model.infer(Batch(pairs, model.offsets, {})).numpy()
    np.testing.assert_allclose(latents[rows], expected, atol=1e-5)
    assert not np.delete(latents, rows, 0).any()
    cli.main(["lam", "label", str(folder / "data"), "--lam", str(folder / "lam")])
    assert f"row i belongs to row i of {folder / 'data' / 'frames.npy'}" in capsys.readouterr().out


def test_codes_belong_to_frames(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cli.main(["tokenizer", "encode", str(folder / "data"), "--tokenizer", str(folder / "tokenizer")])
    assert "row i belongs to row i of" in capsys.readouterr().out
    frames, codes = np.load(folder / "data" / "frames.npy"), column_of(folder, "codes")
    tokenizer = load_tokenizer(folder / "tokenizer")
    rows = inside(tokenizer.config.motion.stride)
    pairs = torch.from_numpy(frames[np.array(rows)[:, None] + [0, tokenizer.config.motion.stride]])
    with torch.inference_mode():
        batch = Batch(pairs, tokenizer.config.motion.offsets, {})
        frame, signal = tokenizer.observe(batch)
        expected = tokenizer.encode(signal, frame).numpy()
    assert len(codes) == len(frames)
    np.testing.assert_array_equal(codes[rows], expected)


@pytest.mark.parametrize("to", ["npz", "parquet"])
def test_export(folder: Path, tmp_path: Path, to: str) -> None:
    out = tmp_path / f"table.{to}"
    cli.main(["lam", "export", str(folder / "data"), "--lam", str(folder / "lam"), "--to", to, "--out", str(out)])
    if to == "npz":
        table = dict(np.load(out))
    else:
        from pyarrow import parquet

        whole = parquet.read_table(out)
        assert str(whole.schema.field("latent").type).startswith("fixed_size_list<")
        table = {name: np.array(whole[name].to_pylist()) for name in whole.column_names}
    assert list(table) == ["episode", "frame", "video", "time", "valid", "latent", "codes"]
    lengths = list(LENGTHS.values())
    assert table["episode"].tolist() == np.repeat([0, 1, 2], lengths).tolist()
    assert table["video"].tolist() == np.repeat([f"{name}.mkv" for name in LENGTHS], lengths).tolist()
    assert table["frame"].tolist() == [frame for length in lengths for frame in range(length)]
    np.testing.assert_allclose(table["time"], table["frame"] / 10)
    assert np.flatnonzero(table["valid"]).tolist() == inside(2)
    np.testing.assert_array_equal(table["latent"], column_of(folder, "latents"))
    np.testing.assert_array_equal(table["codes"], column_of(folder, "codes"))


def test_export_of_some_episodes_of_a_model_without_codes(folder: Path, tmp_path: Path) -> None:
    data, lam, out = str(folder / "data"), str(tmp_path / "lapo"), tmp_path / "some.npz"
    cli.main(["lam", "train", "lapo-64", data, "--preset", "tiny", "--out", lam])
    cli.main(["lam", "export", data, "--lam", lam, "--to", "npz", "--episodes", "2", "--out", str(out)])
    table = dict(np.load(out))
    assert "codes" not in table and len(table["latent"]) == LENGTHS["a"] + LENGTHS["b"]
    assert (~table["valid"]).sum() == 2 * load_lam(Path(lam))[0].offsets[-1]
    assert table["latent"][table["valid"]].any(1).all() and not table["latent"][~table["valid"]].any()


def test_export_without_pyarrow_is_one_line(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    words = ["lam", "export", str(folder / "data"), "--lam", str(folder / "lam"), "--to", "parquet"]
    with pytest.raises(SystemExit):
        cli.main([*words, "--out", str(tmp_path / "table.parquet")])
    assert capsys.readouterr().err.strip().endswith("pip install 'otflam[parquet]', or choose --to npz")
    with pytest.raises(SystemExit):
        cli.main([*words[:-1], "npz", "--out", str(tmp_path)])
    assert "is a folder: give the name of a file" in capsys.readouterr().err


def numbered(path: Path, lengths: list[int], slot: int = 0) -> Store:
    """Episodes whose frames tell their number and time."""
    writer = StoreWriter(path, {"frames": Column("uint8", (2,))}, {}, slot=slot)
    for index, length in enumerate(lengths):
        rows = np.stack([np.full(length, index), np.arange(length)], 1).astype(np.uint8)
        (writer.write if slot else writer.append)(index, {"frames": rows}, {})
    return writer.finish({}, len(lengths))


COLUMN = Column("uint8", (2,))


@pytest.mark.parametrize("slot", [0, 7])
def test_rows_lie_where_the_frames_do(tmp_path: Path, slot: int) -> None:
    """Also where the data set's own slots leave gaps."""
    store = numbered(tmp_path / "data", [3, 7, 1, 5], slot)
    found = derive(store, "twin", "model", COLUMN, lambda index: store.episode(index, "frames"))
    frames, twin = (np.load(path) for path in (store.path / "frames.npy", found.path / "twin.npy"))
    for index in range(4):
        rows = slice(store.starts[index], store.starts[index] + store.lengths[index])
        np.testing.assert_array_equal(twin[rows], frames[rows])
    assert twin.shape == frames.shape and found.starts.tolist() == store.starts.tolist()
    some = derive(store, "twin", "other", COLUMN, lambda index: store.episode(index, "frames"), episodes=[3, 1])
    np.testing.assert_array_equal(
        np.load(some.path / "twin.npy"), np.concatenate([store.episode(index, "frames") for index in (1, 3)])
    )
    assert describe_rows(store, some).startswith("of 2 of 4 episodes")


def padded(store: Store, folder: Path, episodes: int) -> StoreWriter:
    """Some of a column as earlier versions wrote it: every episode in a slot as long as the longest."""
    plan = {"data": store.hash, "model": "model"}
    writer = StoreWriter(folder, {"twin": COLUMN}, plan, slot=int(store.lengths.max()))
    for index in range(episodes):
        writer.write(index, {"twin": np.array(store.episode(index, "frames"))}, {"episode": index})
    return writer


def test_padded_columns_of_earlier_versions_are_read(tmp_path: Path) -> None:
    store = numbered(tmp_path / "data", [3, 7, 1, 5])
    folder = tmp_path / "data.derived" / f"twin-{store.hash[:12]}-model"
    old = padded(store, folder, 4).finish({"kind": "derived"}, 4)
    found = derive(store, "twin", "model", COLUMN, lambda index: pytest.fail("it is there"))
    assert found.path == folder and found.rows == 26 and found.hash == old.hash
    assert "padded to the longest" in describe_rows(store, found)
    clips = Clips(store, (0,), derived={"twin": found})
    batch = clips.gather(np.arange(len(clips)))
    assert torch.equal(batch.frames[:, 0], batch.at("twin", 0))


def test_a_padded_column_that_was_begun_is_finished_packed(tmp_path: Path) -> None:
    store = numbered(tmp_path / "data", [3, 7, 1, 5])
    padded(store, tmp_path / "data.derived" / f"twin-{store.hash[:12]}-model", 3)
    calls = []

    def compute(index: int) -> np.ndarray:
        calls.append(index)
        return np.array(store.episode(index, "frames"))

    found = derive(store, "twin", "model", COLUMN, compute)
    assert calls == [1, 2, 3] and found.starts.tolist() == store.starts.tolist()
    np.testing.assert_array_equal(np.load(found.path / "twin.npy"), np.load(store.path / "frames.npy"))


def test_episodes_of_equal_length_give_the_bits_of_earlier_versions(tmp_path: Path) -> None:
    store = numbered(tmp_path / "data", [4, 4, 4])
    old = padded(store, tmp_path / "old", 3).finish({"kind": "derived"}, 3)
    new = derive(store, "twin", "model", COLUMN, lambda index: store.episode(index, "frames"))
    assert new.hash == old.hash
    for file in ("twin.npy", "meta.json"):
        assert (new.path / file).read_bytes() == (old.path / file).read_bytes()


def test_a_column_of_other_lengths_is_refused(tmp_path: Path) -> None:
    store = numbered(tmp_path / "data", [4, 3])
    with pytest.raises(ValueError, match="twin of episode 1 has 4 rows, not 3"):
        derive(store, "twin", "model", COLUMN, lambda index: np.zeros((4, 2), np.uint8))
