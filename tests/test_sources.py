"""Files of strangers: known by their content, and unable to stop an import, fill the memory or hide behind a tag."""

from __future__ import annotations

import json
import random
import struct
import zipfile
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import av
import h5py
import numpy as np
import pytest
from PIL import Image

from otflam.cli import main
from otflam.core.config import stable_hash
from otflam.core.errors import UserError
from otflam.core.files import digest_file, digest_files
from otflam.core.progress import Progress
from otflam.data.decoding import count_frames, decode_video, read_frames
from otflam.data.formats.laom.trajectories import import_laom
from otflam.data.formats.videos.sources import import_videos
from otflam.data.options import VideoImport
from otflam.data.pictures import UnusableVideoError
from otflam.data.store import Store
from otflam.envs.backgrounds import open_backgrounds
from otflam.report.progress import ProgressBar

SMALL = VideoImport(size=16)


def write_video(path: Path, seed: int = 0, aspect: Fraction | None = None, title: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(seed).integers(0, 256, (6, 32, 32, 3), dtype=np.uint8)
    with av.open(str(path), "w") as container:
        container.metadata.update({"title": title} if title else {})
        stream = container.add_stream("ffv1", rate=Fraction(30000, 1001))
        stream.width, stream.height, stream.pix_fmt = 32, 32, "bgr0"
        stream.codec_context.sample_aspect_ratio = Fraction(2 if aspect else 1)
        for frame in pixels:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(frame, format="rgb24")))
        container.mux(stream.encode())
    if aspect:  # ffmpeg itself writes none so absurd
        content = path.read_bytes()
        place = content.index(b"pasp") + 4
        shape = struct.pack(">II", aspect.numerator, aspect.denominator)
        path.write_bytes(content[:place] + shape + content[place + 8 :])
    return path


def write_images(folder: Path, seed: int = 0, count: int = 4) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for number, pixels in enumerate(np.random.default_rng(seed).integers(0, 256, (count, 9, 12, 3), dtype=np.uint8)):
        Image.fromarray(pixels).save(folder / f"{number}.bmp")
    return folder


def write_laom(path: Path, seed: int) -> Path:
    rng = np.random.default_rng(seed)
    with h5py.File(path, "w") as root:
        for index in range(4):
            group = root.create_group(str(index))
            group["obs"] = rng.integers(0, 256, (5, 16, 16, 3), dtype=np.uint8)
            group["states"] = rng.normal(size=(5, 4)).astype(np.float32)
            group["actions"] = rng.uniform(-1, 1, (5, 2)).astype(np.float32)
    return path


class Stop(Progress):
    """Interrupts an import at the second episode."""

    def reach(self, done: int, total: int) -> None:
        if done == 2:
            raise KeyboardInterrupt


def forget_digests(path: Path) -> None:
    """Make a data set as it was before sources had digests."""
    meta = json.loads((path / "meta.json").read_text())
    meta["config"].pop("digest")
    meta.pop("digest")
    (path / "meta.json").write_text(json.dumps(meta | {"digest": stable_hash(meta)}))


# --- Another file is not taken for the same one


def test_another_laom_file_of_one_name_and_size(tmp_path: Path) -> None:
    file = write_laom(tmp_path / "cheetah.hdf5", 0)
    size, first = file.stat().st_size, import_laom(file, tmp_path / "out")
    assert import_laom(file, tmp_path / "out").hash == first.hash
    with pytest.raises(KeyboardInterrupt):
        import_laom(file, tmp_path / "half", Stop())
    assert write_laom(file, 1).stat().st_size == size
    with pytest.raises(UserError, match="already holds a data set"):
        import_laom(file, tmp_path / "out")
    with pytest.raises(UserError, match="digest differ"):
        import_laom(file, tmp_path / "half")
    write_laom(file, 0)
    assert import_laom(file, tmp_path / "half").hash == first.hash
    forget_digests(tmp_path / "out")
    assert Store(tmp_path / "out").hash == first.hash  # older data sets open as ever


@pytest.mark.parametrize("write", [lambda path, seed: write_video(path / "a.avi", seed), write_images])
def test_other_videos_and_images_of_one_name_and_size(write: Callable[[Path, int], Path], tmp_path: Path) -> None:
    write_images(tmp_path / "in" / "z")
    changed = tmp_path / "in" / "b"
    for folder, seed in ((changed, 0), (tmp_path / "other", 1)):
        write(folder, seed)
    store = import_videos(tmp_path / "in", tmp_path / "out", SMALL)
    assert import_videos(tmp_path / "in", tmp_path / "out", SMALL).hash == store.hash
    for file in changed.iterdir():  # equal in name and size, whatever the codec made of it
        content = (tmp_path / "other" / file.name).read_bytes()
        file.write_bytes(content[: file.stat().st_size].ljust(file.stat().st_size, b"\0"))
    with pytest.raises(UserError, match="already holds a data set"):
        import_videos(tmp_path / "in", tmp_path / "out", SMALL)


def test_other_backgrounds_of_one_name_and_size(tmp_path: Path) -> None:
    write_images(tmp_path / "a")
    name = open_backgrounds(str(tmp_path), "train").name
    assert name == open_backgrounds(str(tmp_path), "validation").name
    write_images(tmp_path / "a", 1)
    assert open_backgrounds(str(tmp_path), "train").name != name


def test_digests_cover_all_bytes_and_tell_how_far_they_are(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    content, bar = bytearray(9_500_000), ProgressBar("read", "bytes")
    (tmp_path / "a").write_bytes(content)
    bar.start(0, len(content))
    bar.tell()
    first = digest_file(tmp_path / "a", bar)
    bar.tell()
    lines = capsys.readouterr().err.splitlines()
    assert (
        lines[0] == "read: 0/10 MB" and lines[1].startswith("read: 9/10 MB, ") and lines[1].endswith(", 0:00:00 left")
    )
    content[6_000_000] = 1
    (tmp_path / "a").write_bytes(content)
    assert digest_file(tmp_path / "a") != first
    assert digest_files([("x", tmp_path / "a")]) != digest_files([("y", tmp_path / "a")])


# --- One source stops nothing


def test_a_tag_that_is_not_utf8_stops_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tagged = write_video(tmp_path / "in" / "a.mkv", title="TITEL-TITEL")
    tagged.write_bytes(tagged.read_bytes().replace(b"TITEL-TITEL", b"T\xe4tel-\xff\xfe\xc3\xe4l"))
    write_video(tmp_path / "in" / "b.mkv")
    (tmp_path / "in" / "c.mp4").write_bytes(b"no video")
    main(["data", "import", "videos", str(tmp_path / "in"), "--size", "16", "--out", str(tmp_path / "out")])
    assert [episode["source"] for episode in Store(tmp_path / "out").episodes] == ["a.mkv", "b.mkv"]
    assert "skipped c.mp4: is not a readable video" in capsys.readouterr().out.splitlines()[-1]
    assert open_backgrounds(str(tmp_path / "in"), "train").clip(0, 8).shape == (6, 8, 8, 3)
    assert sum(1 for _ in read_frames(tagged, 70, 5)) == 6 == count_frames(tagged)


# --- Memory


@pytest.mark.parametrize("aspect", [Fraction(30_000, 1), Fraction(1, 30_000)])
def test_an_absurd_pixel_aspect_is_refused(aspect: Fraction, tmp_path: Path) -> None:
    path = write_video(tmp_path / "a.mp4", aspect=aspect)
    for read in (lambda: decode_video(path, SMALL), lambda: next(read_frames(path, 70, 5))):
        with pytest.raises(UnusableVideoError, match=r"a\.mp4: its pixels are .*30000"):
            read()


def test_frames_that_are_all_length_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    for number in range(3):
        Image.new("RGB", (4000, 2)).save(tmp_path / "a" / f"{number}.png")
    with pytest.raises(UnusableVideoError, match="frames of 4000×2: at most 16:1"):
        next(read_frames(tmp_path / "a", 70, 5))
    Image.new("RGB", (8, 9)).save(tmp_path / "b.png")
    (tmp_path / "c").mkdir()
    (tmp_path / "b.png").rename(tmp_path / "c" / "1.png")
    Image.new("RGB", (9, 8)).save(tmp_path / "c" / "0.png")
    with pytest.raises(UnusableVideoError, match="frame 1 is 8×9: those before it are 9×8"):
        list(read_frames(tmp_path / "c", 70, 5))


def test_huge_frames_are_refused_before_they_are_decoded(tmp_path: Path) -> None:
    (tmp_path / "in" / "a").mkdir(parents=True)
    Image.new("1", (10_000, 9_000)).save(tmp_path / "in" / "a" / "0.png")  # a few kilobytes
    with pytest.raises(UserError, match=r"0\.png is not a readable image: it has 10000×9000 pixels"):
        import_videos(tmp_path / "in", tmp_path / "out", SMALL)
    with pytest.raises(UserError, match=r"0\.png .*10000×9000"):
        open_backgrounds(str(tmp_path / "in"), "train").clip(0, 8)


def test_a_labels_archive_that_unpacks_to_far_more(tmp_path: Path) -> None:
    write_video(tmp_path / "in" / "a.mkv")
    with zipfile.ZipFile(tmp_path / "l.npz", "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for number in range(9):
            with archive.open(f"{number}.npy", "w") as file:
                file.write(bytes(1 << 27))
    with pytest.raises(UserError, match=r"l\.npz unpacks to 1\.2 GB"):
        import_videos(tmp_path / "in", tmp_path / "out", VideoImport(size=16, actions=str(tmp_path / "l.npz")))
    np.savez(tmp_path / "cut.npz", a=np.ones((6, 1)))
    whole = (tmp_path / "cut.npz").read_bytes()
    for length in (0, 30, 100, len(whole) - 30):
        (tmp_path / "cut.npz").write_bytes(whole[:length])
        with pytest.raises(UserError, match=r"cut\.npz cannot be read as \.npz"):
            import_videos(tmp_path / "in", tmp_path / "out", VideoImport(size=16, actions=str(tmp_path / "cut.npz")))


# --- Damage


def test_laom_arrays_that_are_none(tmp_path: Path) -> None:
    for name, change in {
        "group": lambda root: root.create_group("1/obs"),
        "empty": lambda root: root.__setitem__("1/obs", h5py.Empty("u1")),
        "bomb": lambda root: root.create_dataset("1/obs", (10**9, 16, 16, 3), "u1", chunks=(1, 16, 16, 3)),
    }.items():
        with h5py.File(write_laom(tmp_path / f"{name}.hdf5", 0), "a") as root:
            del root["1/obs"]
            change(root)
        with pytest.raises(UserError, match=rf"{name}\.hdf5: trajectory 1: obs (is no array|has 768\.0 GB)"):
            import_laom(tmp_path / f"{name}.hdf5", tmp_path / "out")
    with h5py.File(write_laom(tmp_path / "odd.hdf5", 0), "a") as root:
        root.attrs["difficulty"] = 1 + 2j
    with pytest.raises(UserError, match="attribute difficulty"):
        import_laom(tmp_path / "odd.hdf5", tmp_path / "out")


def test_damaged_sources_end_in_one_line_that_names_them(tmp_path: Path) -> None:
    """A small part of the campaign: whatever is done to a file, it is read, or named in one line."""
    draw = random.Random(7)
    makers = [lambda path: write_video(path / "a.mkv"), lambda path: write_video(path / "a.avi"), write_images]
    for number in range(60):
        folder = tmp_path / str(number)
        makers[number % 3](folder)
        file = draw.choice(sorted(folder.iterdir()))
        content = bytearray(file.read_bytes())
        for _ in range(draw.randrange(1, 12)):
            content[draw.randrange(min(len(content), draw.choice((60, 600, 10**6))))] = draw.randrange(256)
        file.write_bytes(content[: draw.choice((len(content), draw.randrange(len(content))))])
        source = folder if file.suffix == ".bmp" else file
        for read in (
            lambda folder=folder: import_videos(folder, folder / "out", SMALL, lambda text: None),
            lambda source=source: list(read_frames(source, 70, 5)),
            lambda folder=folder: open_backgrounds(str(folder), "train").clip(0, 8),
        ):
            try:
                read()
            except UserError as error:
                assert (file.name in str(error) or folder.name in str(error)) and "\n" not in str(error)
