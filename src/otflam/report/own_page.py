"""The report of one's own videos: every file with its frames and its codes, and no word of the paper.

Axes: n episodes, k codes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Float, Int64
from markupsafe import Markup
from PIL import Image, ImageDraw

from otflam.core import SILENT, Progress, UserError, write_text
from otflam.data import Store
from otflam.report.moments import as_picture, as_png, clock
from otflam.report.runs import find_releases, find_stores
from otflam.report.style import page_style
from otflam.report.vocabulary import colours_of, make_atlas, name_code
from otflam.tokenizer import OTF, TOKENIZER_KIND, encode_store, load_tokenizer, motion_clips, packaged_tokenizer

SHOWN, SIDE = 8, 96
"""Frames of a video that are shown, and pixels along one."""
TOP = 6
"""Codes that are listed for a video."""
CLIPS = 3
"""Clips, each of another episode, that are shown of a code."""
LOOK = """a{color:var(--accent)} h1{margin:34px 0 8px} h2{margin:34px 0 2px} h3{margin:26px 0 2px}
p.facts{display:block;color:var(--muted);margin:2px 0 8px}
.vocabulary{display:flex;flex-wrap:wrap;gap:8px 16px} .strip{width:100%;max-width:784px;height:auto;display:block}
.code{display:inline-block;margin:4px 12px 0 0;font-size:.86rem;white-space:nowrap}
.dot{display:inline-block;width:12px;height:12px;margin-right:4px;border-radius:3px}
.near{width:312px;margin-bottom:14px;white-space:normal}
.near figure{display:inline-block;width:98px;margin:3px 4px 0 0}
.near figcaption{color:var(--muted);font-size:.7rem;overflow:hidden;text-overflow:ellipsis;white-space:nowrap}
.patch{display:inline-block;width:28px;height:28px;margin:2px 2px 0 0;image-rendering:pixelated}"""
HEAD = """<!doctype html><html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1"><meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; img-src data:; style-src 'unsafe-inline'">
<title>{}</title><style>{}</style></head>"""


def own_stores(runs: Path) -> list[Store]:
    """The data sets under a folder, if all of them are imported videos; else none."""
    stores = sorted(find_stores(runs), key=lambda store: store.path.name) if runs.is_dir() else []
    return stores if all(store.meta.get("kind") == "videos" for store in stores) else []


def make_own_page(runs: Path, title: str, out: Path, explorer: Path | None = None, progress: Progress = SILENT) -> Path:
    """Write the page of all imported videos under a folder, with a link to an explorer, if there is one."""
    stores = own_stores(runs)
    if not stores:
        raise UserError(f"there is no data set of imported videos in {runs}", "see 'otflam data import videos --help'")
    link = (
        Markup('<p><a href="{}">Explorer of codes and predictions</a></p>').format(explorer) if explorer else Markup("")
    )
    parts = Markup("").join(part for store in stores for part in show_store(runs, store, progress))
    head = Markup(HEAD).format(title, Markup(f"{page_style()}\n{LOOK}"))
    body = Markup('<body><main class="wide"><h1>{}</h1>{}{}</main></body></html>').format(title, link, parts)
    path = out / "index.html"
    write_text(path, str(head + body))
    return path


def tokenizer_of(runs: Path, store: Store) -> tuple[Path, bool]:
    """The folder of a tokenizer that was trained on a data set, or that of the packaged one; and whether it is own."""
    for release in find_releases(runs, TOKENIZER_KIND):
        if release.config["data"] == store.hash and release.config["model"]["method"] == "otf":
            return release.folder, True
    return packaged_tokenizer(), False


def show_store(runs: Path, store: Store, progress: Progress) -> Iterator[Markup]:
    """A data set: what it holds, its vocabulary, and every video."""
    folder, own = tokenizer_of(runs, store)
    tokenizer = load_tokenizer(folder)
    assert isinstance(tokenizer, OTF)
    column = encode_store(store, folder, progress.part(f"codes of {store.path.name}", "episodes"))
    span = tokenizer.config.motion.offsets[-1]
    videos: dict[str, list[int]] = {}
    for index, episode in enumerate(store.episodes):
        videos.setdefault(str(episode.get("source", f"episode {index}")), []).append(index)
    counts = {name: count_codes(column, episodes, tokenizer.codes, span) for name, episodes in videos.items()}
    whole = np.sum(list(counts.values()), 0)
    vocabulary = "a vocabulary that was trained on them" if own else f"the packaged vocabulary {folder.name}"
    facts = f"{len(videos)} videos, {len(store)} episodes, {int(store.lengths.sum())} frames; codes of {vocabulary}"
    link = Markup('<a href="#{}">what they look like</a>').format(store.hash)
    yield Markup("<h2>{}</h2><p class=facts>{}: {}</p>").format(store.path.name, facts, link)
    for name, episodes in videos.items():
        yield show_video(store, name, episodes, tokenizer, counts[name], whole)
    yield show_vocabulary(tokenizer, store, column, whole)


def count_codes(column: Store, episodes: Sequence[int], codes: int, span: int) -> Float[np.ndarray, " k"]:
    """How often each code occurs in some episodes."""
    total = np.zeros(codes)
    for index in episodes:
        rows = column.episode(column.places[index], "codes")
        total += np.bincount(rows[: max(0, len(rows) - span)].ravel(), minlength=codes)
    return total


def show_vocabulary(tokenizer: OTF, store: Store, column: Store, counts: np.ndarray) -> Markup:
    """The most frequent codes, each with the patches of motion that are nearest to it, and clips with most of it."""
    entries = make_atlas(tokenizer, motion_clips(store, tokenizer.config), samples=100)
    times, most = fullest_moments(column, store, tokenizer)
    items = []
    for code in np.argsort(-counts, kind="stable")[: 3 * TOP]:
        tiles = [
            Markup('<img class=patch src="{}" alt="">').format(as_png(Image.fromarray(patch)))
            for patch in entries[code].nearest
        ]
        tiles.append(Markup("<br>"))
        episodes = [index for index in np.argsort(-most[:, code], kind="stable")[:CLIPS] if most[index, code]]
        tiles += [show_moment(store, column, int(index), int(times[index, code]), int(code)) for index in episodes]
        about = (swatch(tokenizer, int(code), counts), Markup("").join(tiles))
        items.append(Markup('<div class="code near">{}<br>{}</div>').format(*about))
    title = "Codes of {}, their nearest patches of motion, and the clips that have most of them"
    head = Markup(f'<h3 id="{{}}">{title}</h3>').format(store.hash, store.path.name)
    return head + Markup('<div class="vocabulary">{}</div>').format(Markup("").join(items))


def fullest_moments(
    column: Store, store: Store, tokenizer: OTF
) -> tuple[Int64[np.ndarray, "n k"], Int64[np.ndarray, "n k"]]:
    """For every episode and code the frame that has most of it, and how many patches that are."""
    times, most = np.zeros((2, len(store), tokenizer.codes), np.int64)
    for index in range(len(store)):
        rows = column.episode(column.places[index], "codes")[: -tokenizer.config.motion.offsets[-1]]
        if len(rows):  # behind them no motion has room
            found = np.stack([np.bincount(row, minlength=tokenizer.codes) for row in rows])
            times[index], most[index] = found.argmax(0), found.max(0)
    return times, most


def show_moment(store: Store, column: Store, index: int, time: int, code: int) -> Markup:
    """A frame with a frame around every patch of a code, and where it is from."""
    codes, episode = column.episode(column.places[index], "codes")[time], store.episodes[index]
    picture, grid = as_picture(store.episode(index, "frames")[time]).resize((SIDE, SIDE)), math.isqrt(len(codes))
    pen, size = ImageDraw.Draw(picture), SIDE / grid
    for place in np.flatnonzero(codes == code):
        row, number = divmod(int(place), grid)
        pen.rectangle((number * size, row * size, (number + 1) * size - 1, (row + 1) * size - 1), outline="white")
    rate = episode.get("fps")
    when = clock((episode.get("begin") or 0) + time / rate) if rate else f"frame {time}"
    name = episode.get("source", f"episode {index}")
    return Markup(
        '<figure title="{0} at {1}"><img src="{2}" alt=""><figcaption>{0}<br>{1}</figcaption></figure>'
    ).format(name, when, as_png(picture))


def show_video(
    store: Store, name: str, episodes: Sequence[int], tokenizer: OTF, counts: np.ndarray, whole: np.ndarray
) -> Markup:
    """A video: its length, some of its frames, how much of it is still, and the codes of what moves."""
    frames = int(store.lengths[list(episodes)].sum())
    rate = store.episodes[episodes[0]].get("fps")
    length = f", {clock(frames / rate)} at {rate:g} fps" if rate else ""
    facts = f"{len(episodes)} episode{'s' * (len(episodes) != 1)}, {frames} frames{length}"
    still = ""
    if tokenizer.config.still:
        still = f"{100 * counts[0] / max(counts.sum(), 1):.0f} % of the patches are still; of the others: "
        counts, whole = (np.concatenate([[0], each[1:]]) for each in (counts, whole))
    used = counts / max(counts.sum(), 1)
    entropy = -(used[used > 0] * np.log(used[used > 0])).sum()
    apart = np.sqrt(np.square(np.sqrt(used) - np.sqrt(whole / max(whole.sum(), 1))).sum() / 2)
    told = f"{still}effective number of codes {np.exp(entropy):.1f}; distance from all videos' codes {apart:.2f}"
    top = [swatch(tokenizer, int(code), counts) for code in np.argsort(-counts, kind="stable")[:TOP] if counts[code]]
    codes = Markup("").join(Markup("<span class=code>{}</span>").format(each) for each in top)
    return Markup('<h3>{}</h3><p class=facts>{}; {}</p><img class=strip src="{}" alt="{}"><div>{}</div>').format(
        name, facts, told, strip(store, episodes), f"Frames of {name}, evenly spaced", codes
    )


def swatch(tokenizer: OTF, code: int, counts: np.ndarray) -> Markup:
    """A code with its colour and its share."""
    colour = f"#{bytes(colours_of(tokenizer)[code]).hex()}"
    share = 100 * counts[code] / max(counts.sum(), 1)
    named = (colour, name_code(tokenizer, code), share)
    return Markup('<span class=dot style="background:{}"></span>{} ({:.1f} %)').format(*named)


def strip(store: Store, episodes: Sequence[int]) -> str:
    """Evenly spaced frames of all episodes of a video."""
    places = [(index, time) for index in episodes for time in range(int(store.lengths[index]))]
    chosen = np.unique(np.linspace(0, len(places) - 1, SHOWN).round().astype(int))
    sheet = Image.new("RGB", (len(chosen) * (SIDE + 2), SIDE), "white")
    for column, place in enumerate(chosen):
        index, time = places[place]
        sheet.paste(as_picture(store.episode(index, "frames")[time]).resize((SIDE, SIDE)), (column * (SIDE + 2), 0))
    return as_png(sheet)
