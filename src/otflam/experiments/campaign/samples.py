"""Examples of every kind of file that we read, the commands that read them, and the commands that are killed.

Names are words that no message has by chance, so that a message that holds one names the file.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TypeVar

COLLECT = "collect cheetah-run --preset tiny --noise 0.5 --episodes 4 --steps 12 --workers 1 --out {}"
VIDEOS = "data import videos clips --size 32 --actions {} --out {}"
LAOM = "data import laom cheetah.hdf5 --out {}"
VOCAB = "tokenizer train cheetah --preset tiny --steps 6 --save-every 2 --log-every 1 --out {}"
MOVER = (
    "lam train otf-lam-pixel cheetah --preset tiny --steps 4 --save-every 2 --log-every 1 --tokenizer vocab --out {}"
)
PLAYER = "policy train mover cheetah --preset tiny --labels 1 --out {}"
ENCODE, LABEL = "tokenizer encode {} --tokenizer vocab", "lam label {} --lam mover"
STORE = ("{0}/meta.json", "{0}/*.npy")
MODEL = ("{0}/model.safetensors", "{0}/config.json")


@dataclass(frozen=True)
class Reader:
    """A command that reads a sample."""

    words: str
    results: tuple[str, ...] = ()
    """What it makes: files whose bytes must be the same as from the intact sample."""
    writes: tuple[str, ...] = ()
    """Folders and files whose old contents it may change when it succeeds."""


@dataclass(frozen=True)
class Sample:
    """Files of one kind and who reads them."""

    name: str
    needs: tuple[str, ...]
    """What of the prepared folder a case has."""
    files: tuple[str, ...]
    """What is damaged, one at a time."""
    readers: tuple[Reader, ...]
    optional: bool = False
    """Whether a sample that lacks one of the files is a sample all the same."""


def filled(patterns: tuple[str, ...], *names: str) -> tuple[str, ...]:
    return tuple(pattern.format(name) for name in names for pattern in patterns)


def continued(
    name: str, words: str, needs: tuple[str, ...], files: tuple[str, ...], results: tuple[str, ...]
) -> Sample:
    """An interrupted piece of work, which the same command continues to the same bits."""
    out = f"begun-{name}"
    reader = Reader(words.format(out), filled(results, out), (out,))
    return Sample(f"unfinished {name}", (*needs, out), tuple(f"{out}/{file}" for file in files), (reader,))


TRY = "--preset tiny --steps 6 --log-every 6 --save-every 6"
JOURNAL = ("plan.json", "parts.jsonl", "*.npy")
RUN = ("config.json", "metrics.jsonl", "checkpoint.pt")
TRAINED = ("{}/*.json", "{}/*.jsonl", "{}/*.safetensors")
RECORDS = "results/records"
PICTURES = ("clips/*.mp4", "clips/still/*")
PAGE = Reader("report . --preset tiny --out r", ("r/index.html",))
EVALUATE = "expert evaluate cheetah-run --episodes 1 --expert {}"
BEHIND = "collect cheetah-run --preset tiny --episodes 1 --steps 2 --workers 1 --backgrounds clips --out c"

OURS = (
    Sample(
        "data set",
        ("cheetah", "victim"),
        filled(STORE, "cheetah"),
        (
            Reader("data check cheetah"),
            Reader("data info cheetah", ("cheetah/sheet.png",)),
            Reader(f"tokenizer train cheetah {TRY} --out v", filled(MODEL[:1], "v")),
            Reader("data export laom cheetah --out l.hdf5", ("l.hdf5",)),
        ),
    ),
    Sample(
        "data set with some labels",
        ("mine", "seer", "victim"),
        filled(STORE, "mine"),
        (
            Reader("data check mine"),
            Reader("data info mine", ("mine/sheet.png",)),
            Reader("policy train seer mine --preset tiny --labels 1 --out p", ("p/model.safetensors",)),
        ),
    ),
    continued("collection", COLLECT, (), JOURNAL, STORE[:1]),
    continued("import", VIDEOS.format("clips.csv", "{}"), ("clips", "clips.csv"), JOURNAL, STORE[:1]),
    continued("laom", LAOM, ("cheetah.hdf5",), JOURNAL, STORE[:1]),
    continued("vocab", VOCAB, ("cheetah",), RUN, MODEL),
    continued("mover", MOVER, ("cheetah", "cheetah.derived", "vocab"), RUN, MODEL),
    continued(
        "player",
        PLAYER,
        ("cheetah", "cheetah.derived", "vocab", "mover"),
        ("*/*.json*", "*/*.pt", "*/*.safetensors"),
        MODEL,
    ),
    Sample(
        "unfinished codes",
        ("part", "part.derived", "vocab"),
        ("part.derived/*/*",),
        (Reader(ENCODE.format("part"), ("part.derived/*/meta.json",), ("part.derived",)),),
    ),
    Sample(
        "derived columns",
        ("cheetah", "cheetah.derived", "vocab", "mover"),
        ("cheetah.derived/*/*",),
        (
            Reader(ENCODE.format("cheetah")),
            Reader(LABEL.format("cheetah")),
            Reader(MOVER.format("m"), ("m/model.safetensors",)),
            Reader(PLAYER.format("p"), ("p/model.safetensors",)),
        ),
    ),
    Sample(
        "tokenizer",
        ("cheetah", "vocab"),
        filled(TRAINED, "vocab"),
        (
            Reader(ENCODE.format("cheetah")),
            Reader(VOCAB.format("vocab")),
        ),
    ),
    Sample(
        "latent action model",
        ("cheetah", "vocab", "mover"),
        filled(TRAINED, "mover"),
        (Reader(LABEL.format("cheetah")), Reader(MOVER.format("mover")), PAGE),
    ),
    Sample(
        "agent",
        ("player",),
        ("player/config.json", "player/model.safetensors"),
        (
            Reader("evaluate return player --steps 5 --episodes 1 --workers 1"),
            Reader("policy run player --steps 10 --video v.mp4", ("v.mp4",)),
        ),
    ),
    Sample(
        "records",
        (RECORDS, "page.md"),
        (f"{RECORDS}/*.json",),
        (
            Reader("tables page.md", ("page.md",), ("page.md",)),
            PAGE,
        ),
        optional=True,
    ),
    Sample(
        "expert", ("skilled.safetensors",), ("skilled.safetensors",), (Reader(EVALUATE.format("skilled.safetensors")),)
    ),
)
"""What this package writes: a change of content must be noticed."""
FOREIGN = (
    Sample("PPO expert", ("skilled.pt",), ("skilled.pt",), (Reader(EVALUATE.format("skilled.pt")),)),
    Sample("actions (.csv)", ("clips", "clips.csv"), ("clips.csv",), (Reader(VIDEOS.format("clips.csv", "m")),)),
    Sample("actions (.npz)", ("clips", "clips.npz"), ("clips.npz",), (Reader(VIDEOS.format("clips.npz", "m")),)),
    Sample("LAOM file", ("cheetah.hdf5",), ("cheetah.hdf5",), (Reader(LAOM.format("m")),)),
    Sample("videos and images", ("clips",), PICTURES, (Reader("data import videos clips --size 16 --out m"),)),
    Sample(
        "one video", ("clips", "vocab"), ("clips/0.mp4",), (Reader("tokenize clips/0.mp4 --out c --tokenizer vocab"),)
    ),
    Sample("backgrounds", ("clips",), PICTURES, (Reader(BEHIND),)),
)
"""What other programs write: there is no checksum, so that another content is just another file."""
SAMPLES = (*OURS, *FOREIGN, *OURS)
"""What cases take in turn: files of ours twice as often."""


@dataclass(frozen=True)
class Work:
    """A command that is killed and run again."""

    name: str
    words: str
    needs: tuple[str, ...]
    results: tuple[str, ...]

    @property
    def reader(self) -> Reader:
        return Reader(self.words, self.results)


T = TypeVar("T", Sample, Work)
WORKS = (
    Work("collect", COLLECT.format("k"), (), filled(STORE, "k")),
    Work("import videos", VIDEOS.format("clips.csv", "k"), ("clips", "clips.csv"), filled(STORE, "k")),
    Work("import a LAOM file", LAOM.format("k"), ("cheetah.hdf5",), filled(STORE, "k")),
    Work("tokenizer train", VOCAB.format("k"), ("cheetah",), filled(MODEL, "k")),
    Work("tokenizer encode", ENCODE.format("cheetah"), ("cheetah", "vocab"), ("cheetah.derived/*/*",)),
    Work("lam train", MOVER.format("k"), ("cheetah", "vocab"), filled(MODEL, "k")),
    Work("lam label", LABEL.format("cheetah"), ("cheetah", "vocab", "mover"), ("cheetah.derived/*/*",)),
    Work("policy train", PLAYER.format("k"), ("cheetah", "vocab", "mover"), filled(MODEL, "k")),
    Work("collect, two workers", COLLECT.format("k").replace("workers 1", "workers 2"), (), filled(STORE, "k")),
)


def pick(choices: Sequence[T], number: int) -> T:
    """The choices in turn, without those for which something is not installed: LAOM's files need an extra."""
    possible = [each for each in choices if "cheetah.hdf5" not in each.needs or find_spec("h5py") is not None]
    return possible[number % len(possible)]
