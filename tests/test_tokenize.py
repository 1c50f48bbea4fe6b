"""Any video as codes: what is written, how good it is told to be, and that a browser plays it."""

from __future__ import annotations

import re
import resource
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest
from PIL import Image
from selenium import webdriver
from selenium.webdriver.support.ui import WebDriverWait

from otflam.cli import main
from otflam.core.errors import UserError
from otflam.experiments.tokenize import Tokenized, tokenize_video, verdict
from otflam.report.clip_sheet import Sampler
from otflam.report.episodes import write_video as film
from otflam.tokenizer.api import Tokenizer, packaged_tokenizer
from otflam.tokenizer.build import load_tokenizer

RATE = Fraction(30000, 1001)


def write_video(path: Path, width: int, height: int, frames: int, step: int = 4, dark: int = 30) -> Path:
    """A block that runs over a dark picture whose rest stands still."""
    still = np.random.default_rng(0).integers(0, dark, (height, width, 3)).astype(np.uint8)
    with av.open(str(path), "w") as container:
        stream = container.add_stream("mpeg4", rate=RATE)
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        for t in range(frames):
            picture, left = still.copy(), step * t % width
            picture[10:30, left : left + 20] = 255
            container.mux(stream.encode(av.VideoFrame.from_ndarray(picture)))
        container.mux(stream.encode())
    return path


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_video(tmp_path_factory.mktemp("clip") / "wide.mp4", 160, 80, 38)


@pytest.fixture(scope="module")
def made(clip: Path) -> Tokenized:
    return tokenize_video(clip, clip.parent / "out", None)


def test_the_packaged_tokenizer_reads_any_video(clip: Path, made: Tokenized) -> None:
    tokenizer = load_tokenizer(packaged_tokenizer())
    assert (packaged_tokenizer() / "model.safetensors").stat().st_size < 2_000_000
    assert [path.name for path in made.paths] == ["codes.npy", "overlay.mp4", "sheet.png"]
    codes = np.load(made.paths[0], allow_pickle=False)
    grid, stride = tokenizer.config.grid, tokenizer.config.motion.stride
    assert codes.shape == (38 - stride, grid, 2 * grid) and codes.dtype == np.uint8  # the grid grows with the aspect
    np.testing.assert_array_equal(Tokenizer(tokenizer).encode(clip).numpy(), codes)
    assert sorted(path.name for path in made.paths[0].parent.iterdir()) == ["codes.npy", "overlay.mp4", "sheet.png"]
    assert 0 < made.moving < 0.2 and made.redrawn < 1 and 0.5 < made.still_error <= 1
    still, score = verdict(made, clip, False).splitlines()[:2]
    assert re.fullmatch(r"(8|9)\d % of the patches are still \(nMSE there [01]\.\d\d\)", still) and "redrawn" in score


def test_the_overlay_is_the_clip_with_colours_where_it_moves(clip: Path, made: Tokenized) -> None:
    with av.open(str(clip)) as source, av.open(str(made.paths[1])) as container:
        stream = container.streams.video[0]
        assert (stream.codec.canonical_name, stream.pix_fmt, stream.average_rate) == ("h264", "yuv420p", RATE)
        assert (stream.width, stream.height, stream.frames) == (160, 80, 36)  # the clip's own resolution
        originals = [frame.to_ndarray(format="rgb24").astype(int) for frame in source.decode(video=0)]
        changed = [
            np.abs(frame.to_ndarray(format="rgb24") - original)
            for frame, original in zip(container.decode(video=0), originals, strict=False)
        ]
    still, moving = (np.mean([change[rows].mean() for change in changed]) for rows in (slice(60, 80), slice(10, 30)))
    assert still < 6 and moving > still + 3  # what stands still stays clear
    content = made.paths[1].read_bytes()
    assert content.index(b"moov") < content.index(b"mdat")  # it plays before it is loaded


def test_the_sheet_has_the_clips_pixels_and_a_legend(made: Tokenized) -> None:
    with Image.open(made.paths[2]) as sheet:
        picture = np.asarray(sheet.convert("RGB")).astype(int)
    assert picture.shape[1] > 6 * 2 * 160 and picture.shape[0] > 3 * 2 * 80 + 60
    legend = picture[62 + 3 * (160 + 4) :]
    assert len(np.unique(legend[np.ptp(legend, axis=-1) > 100], axis=0)) >= 5  # swatches of many colours


@pytest.mark.parametrize("kind", ["overlay", "episode"])
def test_a_browser_plays_it(chromium: webdriver.Chrome, made: Tokenized, tmp_path: Path, kind: str) -> None:
    path, length = made.paths[1], 36 / float(RATE)
    if kind == "episode":  # as 'otflam policy run' films it
        frames = np.random.default_rng(0).integers(0, 256, (60, 24, 25, 3), dtype=np.uint8)
        path, length = film(frames, Fraction(50), tmp_path / "agent.mp4"), 60 / 50
    (tmp_path / "page.html").write_text(f'<video src="{path.as_uri()}" muted preload="auto"></video>')
    chromium.get((tmp_path / "page.html").as_uri())

    def ask(what: str) -> float:
        return chromium.execute_script(f"const v = document.querySelector('video'); return {what}")

    WebDriverWait(chromium, 20).until(lambda _: ask("v.readyState >= 3 || v.error !== null"))
    assert ask("v.error === null ? 0 : v.error.code") == 0
    assert ask("v.duration") == pytest.approx(length, abs=0.05)
    assert ask("v.videoWidth") == (160 if kind == "overlay" else 25 * 15 + 1)
    ask("v.play() && 0")
    WebDriverWait(chromium, 20).until(lambda _: ask("v.currentTime") > 0.2)
    ask("(v.pause(), v.currentTime = 1, 0)")
    WebDriverWait(chromium, 20).until(lambda _: ask("!v.seeking && v.currentTime === 1 && v.readyState >= 2"))


def test_the_verdict_says_how_much_is_redrawn_and_what_to_do(tmp_path: Path) -> None:
    video = tmp_path / "clips" / "a.mp4"
    good, poor, bad = (verdict(Tokenized((), share, 0.1), video, False) for share in (0.63, 0.2, -0.48))
    assert good == "redrawn motion: 63 % (nMSE 0.37; drawing nothing scores 1)"
    assert "20 %" in poor and "much of it is lost" in poor
    assert "nothing (nMSE 1.48" in bad and "worse than drawing nothing" in bad
    assert f"otflam data import videos {video.parent} --out" in bad and "otflam tokenizer train" in bad
    assert "train this tokenizer longer" in verdict(Tokenized((), -0.1, 0.1), video, True)
    (tmp_path / "still").mkdir()
    for number in range(5):
        Image.fromarray(np.full((20, 30, 3), 90, np.uint8)).save(tmp_path / "still" / f"{number}.png")
    found = tokenize_video(tmp_path / "still", tmp_path / "out", None)
    assert not found.moving and "hardly anything moves" in verdict(found, tmp_path / "still", False)


def test_the_command_tells_progress_at_once_and_ends_with_the_verdict(clip: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "otflam", "tokenize", str(clip), "--out", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None and process.stdout is not None
        assert "loading" in process.stderr.readline()
        assert "torch" not in process.stderr.read()
        lines = process.stdout.read().splitlines()
    assert process.returncode == 0 and [line.startswith("wrote") for line in lines[:3]] == [True] * 3
    assert "of the patches are still" in lines[3] and lines[4].startswith("redrawn motion: ")


def test_memory_does_not_grow_with_the_video(tmp_path: Path) -> None:
    short = write_video(tmp_path / "short.mp4", 480, 360, 45)
    tokenize_video(short, tmp_path / "a", None)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    tokenize_video(write_video(tmp_path / "long.mp4", 480, 360, 170), tmp_path / "b", None)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 35_000, f"{grown / 1000:.0f} MB more"  # its frames have 65 MB more


def test_videos_that_cannot_be_tokenized(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="does not exist"):
        tokenize_video(tmp_path / "no.mp4", tmp_path / "out", None)
    short = write_video(tmp_path / "short.mp4", 64, 64, 2)
    with pytest.raises(UserError, match="has too few frames: its motion needs at least 3"):
        tokenize_video(short, tmp_path / "out", None)
    (tmp_path / "text.mp4").write_text("no video")
    with pytest.raises(UserError, match=r"text\.mp4: is not a readable video"):
        tokenize_video(tmp_path / "text.mp4", tmp_path / "out", None)
    assert not (tmp_path / "out").exists()


def test_evenly_spaced_frames_of_a_stream_whose_end_is_unknown() -> None:
    for count in (1, 5, 24, 25, 300, 1001):
        sampler: Sampler[int] = Sampler()
        for number in range(count):
            sampler.offer(lambda number=number: number)
        chosen = [number for number, _ in sampler.chosen()]
        assert len(chosen) == min(count, 6) and chosen[0] == 0 and len(sampler.kept) <= 24
        assert chosen == [item for _, item in sampler.chosen()] and chosen[-1] > 0.9 * (count - 1) - 1


def test_every_vocabulary_is_judged_on_every_video(
    clip: Path, made: Tokenized, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["tokenizer", "evaluate", str(clip), str(clip), "--tokenizers", "motion-general-64", "walker-run"])
    head, row, again, mean, _ = capsys.readouterr().out.splitlines()
    assert head.split() == ["moves", "motion-general-64", "still", "walker-run", "still"] and row == again
    assert row.split()[3:5] == [f"{1 - made.redrawn:.2f}", f"{made.still_error:.2f}"] == mean.split()[1:3]
    assert float(row.split()[6]) > 1.5 * float(row.split()[4])  # walker-run has no code for what is still


def test_data_sets_are_judged_too_and_a_monolithic_tokenizer_on_these_alone(
    clip: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["data", "import", "videos", str(clip.parent), "--size", "32", "--out", str(tmp_path / "data")])
    call = ["tokenizer", "train", str(tmp_path / "data"), "--preset", "tiny", "--method", "monolithic"]
    main([*call, "--out", str(tmp_path / "whole")])
    capsys.readouterr()
    main(
        ["tokenizer", "evaluate", str(tmp_path / "data"), "--tokenizers", str(tmp_path / "whole"), "motion-general-64"]
    )
    assert all(0 < float(value) < 3 for value in capsys.readouterr().out.splitlines()[1].split()[1:4:2])
    with pytest.raises(SystemExit):
        main(["tokenizer", "evaluate", str(clip), "--tokenizers", str(tmp_path / "whole")])
    assert "reads squares only: import the videos" in capsys.readouterr().err
