"""Suggestions: that they follow the data they are measured on, and say what they cannot tell."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from otflam.cli import main
from otflam.core.errors import UserError
from otflam.core.progress import SILENT
from otflam.core.types import Column
from otflam.data.store import Store
from otflam.data.writing import StoreWriter
from otflam.experiments.settings import (
    SIZES,
    Gap,
    Point,
    choose_codes,
    choose_gap,
    measure_gaps,
    point,
    suggest,
)
from otflam.experiments.suggestions import amount_words, code_words, gap_words, told

SIDE = 32


def drifting(folder: Path, speed: float, episodes: int = 4, length: int = 40, fps: float | None = 10.0) -> Store:
    """Blobs that drift over a picture; the size of what a patch sees of them is about a third of it."""
    writer = StoreWriter(folder, {"frames": Column("uint8", (SIDE, SIDE, 3))}, {})
    x, y = np.meshgrid(np.arange(SIDE), np.arange(SIDE))
    for index in range(episodes):
        random = np.random.default_rng(index)
        places, turns = random.uniform(0, SIDE, (3, 2)), random.uniform(0, 2 * np.pi, 3)
        frames = np.zeros((length, SIDE, SIDE, 3), np.uint8)
        for t in range(length):
            for (left, top), turn in zip(places, turns, strict=True):
                at = (left + speed * t * np.cos(turn)) % SIDE, (top + speed * t * np.sin(turn)) % SIDE
                frames[t][(x - at[0]) ** 2 + (y - at[1]) ** 2 < 16] = 220
        writer.append(index, {"frames": frames}, {"fps": fps})
    return writer.finish({}, episodes)


def test_what_moves_faster_gets_a_smaller_gap(tmp_path: Path) -> None:
    slow, fast = (drifting(tmp_path / str(speed), speed) for speed in (0.5, 3.0))
    gaps = [measure_gaps(store, 3, SILENT) for store in (slow, fast)]
    assert choose_gap(gaps[1]) < choose_gap(gaps[0])
    for found in gaps:
        assert [gap.frames for gap in found] == [1, 2, 3, 4, 6, 8, 12, 16, 24, 32]
        assert all(0 < gap.still < 1 for gap in found) and found[0].energy < found[3].energy


def test_a_whole_suggestion(tmp_path: Path) -> None:
    store = drifting(tmp_path / "data", 1.0)
    found = suggest(store)
    lost = [size.lost for size in found.sizes]
    assert [size.amount for size in found.sizes] == list(SIZES) and lost[-1] < lost[0] <= 1.05 and found.apart
    assert [amount.amount for amount in found.amounts] == [1, 2] and found.codes in SIZES
    out = "\n".join(told(found))
    assert f"--codes {found.codes} --stride {found.gap}" in out and "not measured" in out
    assert "4 episodes, 160 frames, 0.3 minutes; frames a second: 10" in out and "of other episodes" in out


def test_one_video_is_cut_in_time_and_told_as_such(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["suggest", str(drifting(tmp_path / "one", 1.0, episodes=1, fps=None).path)])
    out = capsys.readouterr().out
    assert "of the end of the same video" in out and "frames a second: unknown" in out


def test_what_cannot_be_measured_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="nothing moves"):
        suggest(drifting(tmp_path / "still", 0.0))
    with pytest.raises(UserError, match="episodes of one frame"):
        suggest(drifting(tmp_path / "single", 1.0, length=1))


def test_the_words_admit_what_is_unclear() -> None:
    sure, unsure, none = (Point(2, 0.5, gain, 0.002) for gain in (0.1, 0.021, 0.001))
    first = Point(1, 0.6, None, None)
    assert choose_codes([first, sure, Point(4, 0.4, 0.001, 0.001), Point(8, 0.1, 0.3, 0.001)]) == 2
    assert choose_codes([first, unsure]) == 1 and choose_codes([first, unsure, Point(4, 0.4, 0.1, 0.001)]) == 4
    assert "cannot be told whether that is enough" in code_words([first, unsure], 1)
    assert "not worth it" in code_words([first, none], 1) and "or more" in code_words([first, sure], 2)
    assert amount_words([first], "episodes").startswith("cannot be told from 1 episodes")
    assert amount_words([first, sure], "episodes").startswith("more episodes would help")
    assert amount_words([first, unsure], "episodes").startswith("more episodes might help")
    assert amount_words([first, none], "episodes").startswith("enough for the codes")
    gaps = [Gap(1, 0.2, 0.5), Gap(2, 0.4, 0.4), Gap(3, 0.7, 0.3)]
    assert choose_gap(gaps) == 2 and "rule of thumb" in gap_words(gaps, 2, [10.0])
    assert choose_gap(gaps[2:]) == 3 and "smallest there is" in gap_words(gaps[2:], 3, [])
    assert "or more" in gap_words(gaps[:2], 2, [])


def test_a_gain_and_its_error() -> None:
    before, after = (np.array([[share * 10, 10.0]] * 4) for share in (0.5, 0.3))
    same = point(8, after, before)
    assert same.gain == pytest.approx(0.2) and same.error == pytest.approx(0) and same.worth and not same.unclear
    after[0, 0] += 3
    assert point(8, after, before).error > 0.05
