"""Two videos side by side: their codes, their distance, and a picture of both."""

from __future__ import annotations

import csv
from pathlib import Path

import av
import numpy as np
import pytest

from otflam.cli import main
from otflam.core.errors import UserError
from otflam.experiments.compare import compare_videos, hellinger


def film(path: Path, way: tuple[int, int], count: int = 24, rate: int = 10, side: int = 64) -> Path:
    """A bright block that moves over a plain picture and comes in again."""
    with av.open(str(path), "w") as container:
        stream = container.add_stream("ffv1", rate=rate)
        stream.height, stream.width, stream.pix_fmt = side, side, "bgr0"
        for t in range(count):
            frame = np.full((side, side, 3), 90, np.uint8)
            rows, columns = (np.arange(16) + 20 + way[0] * t) % side, (np.arange(16) + 9 + way[1] * t) % side
            frame[np.ix_(rows, columns)] = 230
            container.mux(stream.encode(av.VideoFrame.from_ndarray(frame, format="rgb24")))
        container.mux(stream.encode())
    return path


def test_videos_that_move_alike_are_nearer_than_others(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    across, faster = film(tmp_path / "a.mkv", (0, 2)), film(tmp_path / "b.mkv", (0, 2), rate=20, count=40)
    down = film(tmp_path / "c.mkv", (2, 0))
    alike, unlike = (compare_videos(across, video, tmp_path / video.stem) for video in (faster, down))
    assert 0 <= alike.distance < unlike.distance <= 1 and max(alike.within) < unlike.distance
    np.testing.assert_allclose(alike.shares.sum(1), 1)
    np.testing.assert_array_equal(alike.shares[0], unlike.shares[0])
    with av.open(str(alike.paths[0])) as container:
        stream = container.streams.video[0]
        assert (stream.width, stream.height, stream.average_rate) == (720, 360, 20)  # the faster one sets the rate
        assert stream.frames in (43, 44)  # 22 moments at 10 a second last longer than 38 at 20
    with alike.paths[1].open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == alike.shares.shape[1] and sum(float(row["second"]) for row in rows) == pytest.approx(
        1, abs=1e-3
    )
    main(["data", "compare", str(across), str(down), "--out", str(tmp_path / "again")])
    assert f"distance of the codes: {unlike.distance:.3f}" in capsys.readouterr().out


def test_a_video_without_motion_is_told(tmp_path: Path) -> None:
    still, moving = film(tmp_path / "still.mkv", (0, 0)), film(tmp_path / "moving.mkv", (0, 2))
    with pytest.raises(UserError, match=r"nothing moves in .*still\.mkv"):
        compare_videos(moving, still, tmp_path / "out")


def test_distances_have_ends() -> None:
    one, other = np.array([0.5, 0.5, 0.0]), np.array([0.0, 0.0, 1.0])
    assert hellinger(one, one) == 0 and hellinger(one, other) == pytest.approx(1)
