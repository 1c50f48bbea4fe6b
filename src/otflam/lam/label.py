"""The latent action of every transition of a data set, computed once, and other columns a trained model gives it.

And latent actions as a table for other programs: a row for every frame, with where it is from and when it was.
"""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from einops import rearrange
from torch import Tensor

from otflam.core import SILENT, Batch, Progress, UserError, read_release, release_hash, replacing, stable_hash
from otflam.data import Beside, Clips, Column, Store, derive, find_derived, known_rows
from otflam.lam.build import LAM_KIND, load_lam
from otflam.lam.features import FEATURES, Backbone
from otflam.lam.method import find_method
from otflam.lam.model import LAM

LATENTS = "latents"
CPU = torch.device("cpu")
LABEL_VERSION = 2
"""Bump when the same model would give other columns."""
Format = Literal["parquet", "npz"]
BLOCK = 1 << 16
"""Rows of a table that are in memory at a time, if an episode does not have more."""


def label_store(
    store: Store,
    folder: Path,
    backbone: Backbone | None = None,
    episodes: Sequence[int] | np.ndarray | None = None,
    progress: Progress = SILENT,
    keep_features: bool = False,
    device: torch.device = CPU,
) -> Store:
    """The column of latents that a trained model gives a data set, or some of its episodes.

    A row holds the latent of the transition that starts there, at the stride the model was trained with; rows whose
    transition would leave the episode hold zeros; clips must have the model's last offset `inside`. What a model wants
    to see from before the episode is its first frame.
    """
    return derive_with(
        *(store, folder, backbone, LATENTS, None, lambda lam: lam.infer, episodes, progress),
        keep_features=keep_features,
        device=device,
    )


def has_base(folder: Path) -> bool:
    """Whether a trained model stands on another, whose columns labelling needs."""
    return find_method(read_release(folder, LAM_KIND)["method"]).base is not None


def label_base(
    store: Store, folder: Path, episodes: Sequence[int] | None = None, device: torch.device = CPU
) -> dict[str, Store]:
    """The columns, of all episodes or of some, that labelling needs of what a trained model stands on."""
    model, parts = load_lam(folder, None)
    return {} if parts.base_hash is None else model.to(device).base_columns(store, parts.base_hash, SILENT, episodes)


def derive_with(
    store: Store,
    folder: Path,
    backbone: Backbone | None,
    name: str,
    width: int | None,
    function: Callable[[LAM], Callable[[Batch], Tensor]],
    episodes: Sequence[int] | np.ndarray | None = None,
    progress: Progress = SILENT,
    about: Any = None,
    keep_features: bool = False,
    device: torch.device = CPU,
) -> Store:
    """A column of vectors that a function of a trained model gives the transitions of a data set.

    Without a `width` they are as wide as latents; `about` is whatever else decides them. Features of a backbone are
    kept if more than this column will need them.
    """
    model, parts = load_lam(folder, backbone)
    width = width or model.latent
    used = np.arange(len(store)) if episodes is None else np.asarray(episodes)
    if len(shape := store.columns["frames"].shape) != 3:
        raise UserError(f"{store.path} has frames of shape {list(shape)}", "they need a height, a width and channels")
    parts.check_frames(shape)
    Clips(store, model.offsets, (), used, pad=True)  # refuses data that do not fit before anything is written
    key = stable_hash([release_hash(folder), LABEL_VERSION, about])
    if (done := find_derived(store, name, key, sorted({int(index) for index in used}))) is not None:
        return done
    model.to(device)
    if backbone is not None:
        backbone.to(device)
    columns = model.columns(parts, store, episodes, progress, online=not keep_features)
    if model.offsets[0] < 0:  # stored codes begin where all frames are there, latents at the start of an episode
        columns.pop("codes", None)
    featured = {} if backbone is None else known_rows(store, FEATURES, backbone.hash)

    @cache
    @torch.no_grad()
    def prepared() -> Callable[[Batch], Tensor]:
        return function(model)  # late: it may be costly, and the column may be there already

    def episode(index: int) -> np.ndarray:
        known = {FEATURES: featured[index]} if index in featured else {}
        if name == LATENTS:
            return model.label(store, index, columns | known)
        return model.each_transition(prepared(), width, store, index, columns | known)

    return derive(store, name, key, Column("float32", (width,)), episode, progress.part(name), episodes)


def label_data(
    store: Store,
    folder: str | Path,
    backbone: Backbone | None = None,
    progress: Progress = SILENT,
    device: torch.device = CPU,
) -> Beside:
    """The latent actions of a whole data set, as exports want them."""
    latents = label_store(store, Path(folder), backbone, None, progress, device=device)
    return Beside(latents, LATENTS, ahead=load_lam(Path(folder), backbone)[0].offsets[-1])


def export_latents(
    store: Store,
    folder: Path,
    to: Format,
    out: Path,
    backbone: Backbone | None = None,
    episodes: Sequence[int] | np.ndarray | None = None,
    progress: Progress = SILENT,
) -> int:
    """Write the latents that a trained model gives a data set, or some of its episodes, and return how many rows."""
    if out.is_dir():
        raise UserError(f"--out {out} is a folder", "give the name of a file")
    write = {"parquet": _parquet_writer, "npz": lambda: _write_npz}[to]()  # what is missing is told before any work
    latents = label_store(store, folder, backbone, episodes, progress)
    model, parts = load_lam(folder, backbone)
    codes = model.columns(parts, store, episodes, progress, online=True).get("codes")
    chosen = range(len(store)) if episodes is None else sorted({int(index) for index in episodes})
    table = Table(store, latents, codes, model.offsets, chosen, progress.part("export"))
    with replacing(out) as temporary:
        write(table, temporary)
    return int(store.lengths[list(chosen)].sum())


class Table:
    """The rows of an export, episode by episode."""

    def __init__(
        self,
        store: Store,
        latents: Store,
        codes: Store | None,
        offsets: tuple[int, ...],
        episodes: Sequence[int],
        progress: Progress,
    ) -> None:
        self.store, self.latents, self.codes, self.offsets = store, latents, codes, offsets
        self.episodes, self.progress = episodes, progress
        facts = [store.episodes[index] for index in episodes]
        self.named = any("source" in each for each in facts)
        self.timed = any(each.get("fps") for each in facts)
        self.widest = max(len(str(each.get("source", ""))) for each in facts)

    def __len__(self) -> int:
        return int(self.store.lengths[list(self.episodes)].sum())

    def __iter__(self) -> Iterator[dict[str, np.ndarray]]:
        for done, index in enumerate(self.episodes, 1):
            yield self.rows(index)
            self.progress.reach(done, len(self.episodes))

    def rows(self, index: int) -> dict[str, np.ndarray]:
        """The rows of an episode, one for each frame; what is not known of the whole data set is left out."""
        length, facts = int(self.store.lengths[index]), self.store.episodes[index]
        frame = np.arange(length, dtype=np.int32)
        columns = {"episode": np.full(length, index, np.int32), "frame": frame}
        if self.named:
            columns["video"] = np.full(length, str(facts.get("source", "")), f"<U{self.widest}")
        if self.timed:
            times = facts.get("begin", 0) + frame / facts["fps"] if facts.get("fps") else np.full(length, np.nan)
            columns["time"] = times  # of the video, of which an episode may be a part
        first = -self.offsets[0] if self.codes is not None else 0  # frames before an episode are padded, codes are not
        columns["valid"] = (frame >= first) & (frame + self.offsets[-1] < length)
        for name, column in (("latents", self.latents), ("codes", self.codes)):
            if column is not None:
                columns[name.replace("latents", "latent")] = column.episode(column.places[index], name)
        return columns


def _write_npz(table: Table, file: Path) -> None:
    """One array after the other, so that none is ever whole in memory."""
    first = table.rows(table.episodes[0])
    with zipfile.ZipFile(file, "w") as archive:
        for name, some in first.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as stream:
                fields = {"descr": some.dtype.str, "fortran_order": False, "shape": (len(table), *some.shape[1:])}
                np.lib.format.write_array_header_1_0(stream, fields)
                for rows in table:
                    stream.write(np.ascontiguousarray(rows[name]).tobytes())


def _parquet_writer() -> Callable[[Table, Path], None]:
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError:
        cure = "pip install 'otflam[parquet]', or choose --to npz"
        raise UserError("parquet files need pyarrow, which is not installed", cure) from None

    def convert(rows: np.ndarray) -> Any:
        if rows.ndim == 1:
            return pa.array(rows, mask=np.isnan(rows) if rows.dtype.kind == "f" else None)
        return pa.FixedSizeListArray.from_arrays(pa.array(rearrange(rows, "n d -> (n d)")), rows.shape[1])

    def write(table: Table, file: Path) -> None:
        with file.open("wb") as sink:
            writer, block = None, []
            for rows in table:
                block.append(pa.table({name: convert(values) for name, values in rows.items()}))
                writer = writer or parquet.ParquetWriter(sink, block[0].schema)
                if sum(map(len, block)) >= BLOCK:
                    writer.write_table(pa.concat_tables(block))
                    block = []
            if writer is not None:
                writer.write_table(pa.concat_tables(block)) if block else None
                writer.close()

    return write
