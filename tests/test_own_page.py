"""The report of one's own videos: all files, their codes, a title, and nothing of the paper."""

from __future__ import annotations

from pathlib import Path

import av
import numpy as np
import pytest

from otflam.cli import main
from otflam.core.errors import UserError
from otflam.data.formats.videos.sources import import_videos
from otflam.data.options import VideoImport
from otflam.data.store import Store
from otflam.report.own_page import fullest_moments, make_own_page, own_stores, show_moment
from otflam.tokenizer import OTF, encode_store, load_tokenizer, packaged_tokenizer


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("own")
    (folder / "in").mkdir()
    for name, way in (("left & right", 3), ("slow", 1)):
        with av.open(str(folder / "in" / f"{name}.mkv"), "w") as container:
            stream = container.add_stream("ffv1", rate=10)
            stream.height, stream.width, stream.pix_fmt = 48, 48, "bgr0"
            for t in range(12):
                frame = np.full((48, 48, 3), 90, np.uint8)
                frame[20:32, (np.arange(12) + way * t) % 48] = 220
                container.mux(stream.encode(av.VideoFrame.from_ndarray(frame, format="rgb24")))
            container.mux(stream.encode())
    import_videos(folder / "in", folder / "runs" / "data", VideoImport(size=32, split_seconds=0.6), lambda _: None)
    return folder / "runs"


def test_the_page_shows_every_video_and_no_claims(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["report", str(runs), "--out", str(tmp_path), "--title", "Cats <3"])
    page = (tmp_path / "index.html").read_text()
    assert "<title>Cats &lt;3</title>" in page and "left &amp; right.mkv" in page and "slow.mkv" in page
    assert page.count("class=strip") == 2 and "2 episodes, 12 frames, 0:01.20 at 10 fps" in page
    assert (
        "the packaged vocabulary motion-general-64" in page
        and "patches are still; of the others" in page
        and "2 videos, 4 episodes, 24 frames" in page
    )
    assert 1 <= page.count("<figure title=") <= 3 * 18 and "left &amp; right.mkv at 0:0" in page
    assert "://" not in page and "width=device-width" in page and "prefers-color-scheme: dark" in page
    for word in ("claim", "paper", "Ambiguity", "http"):
        assert word not in page.partition("</head>")[2], word
    assert page.index("slow.mkv") < page.index("Codes of data, their nearest patches")
    assert f"wrote {tmp_path / 'index.html'}" in capsys.readouterr().out and not (tmp_path / "explorer").exists()


def test_codes_are_shown_where_most_of_them_is(runs: Path) -> None:
    store, tokenizer = Store(runs / "data"), load_tokenizer(packaged_tokenizer())
    assert isinstance(tokenizer, OTF)
    column = encode_store(store, packaged_tokenizer())
    times, most = fullest_moments(column, store, tokenizer)
    index, code = divmod(int(most[:, 1:].argmax()), tokenizer.codes - 1)
    rows = column.episode(column.places[index], "codes")
    counted = (rows == code + 1).sum(1)
    assert counted.max() == most[index, code + 1] == counted[times[index, code + 1]] > 0
    shown = show_moment(store, column, index, int(times[index, code + 1]), code + 1)
    assert store.episodes[index]["source"].replace("&", "&amp;") in shown and "at 0:0" in shown


def test_only_imported_videos_are_ones_own(runs: Path, tmp_path: Path) -> None:
    assert [store.path.name for store in own_stores(runs)] == ["data"]
    assert own_stores(Path(__file__).parent / "data" / "released") == [] == own_stores(tmp_path / "nowhere")
    with pytest.raises(UserError, match="no data set of imported videos"):
        make_own_page(tmp_path, "mine", tmp_path / "out")
