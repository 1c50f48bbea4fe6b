"""Latent actions as a table for other programs: a row for every frame, with where it is from and when it was."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from einops import rearrange

from otflam.core import SILENT, Progress, UserError, replacing
from otflam.data import Store
from otflam.lam.build import load_lam
from otflam.lam.features import Backbone
from otflam.lam.label import label_store

Format = Literal["parquet", "npz"]
BLOCK = 1 << 16
"""Rows of a table that are in memory at a time, if an episode does not have more."""


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
            columns["time"] = frame / facts["fps"] if facts.get("fps") else np.full(length, np.nan)
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
