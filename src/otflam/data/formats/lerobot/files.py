"""Files that are begun anew at a size, and the tables among them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from otflam.core import write_json
from otflam.data.formats.lerobot.layout import FACTS, INFO, STATS, TASKS, VERSION, pa, parquet
from otflam.data.formats.lerobot.stats import Stats, of_all

MB = 1 << 20
PLACE = "chunk-{chunk_index:03d}/file-{file_index:03d}"
EPISODES, DATA = f"meta/episodes/{PLACE}.parquet", f"data/{PLACE}.parquet"
FILMS = f"videos/{{video_key}}/{PLACE}.mp4"
CAMERA = "observation.images.main"
"""Of data that name none."""


@dataclass
class Files:
    """Numbered files, of which a new one is begun before the last grows too large, and numbered folders of them."""

    limit: float
    """Megabytes."""
    chunk: int
    number: int = 0
    rows: int = 0
    """In the file that is being written."""

    def is_full(self, size: int, more: int) -> bool:
        """Whether as many rows more as an episode has, as large as those before them, are too much."""
        return self.rows > 0 and size + size / self.rows * more >= self.limit * MB

    def turn(self) -> None:
        self.number, self.rows = self.number + 1, 0

    @property
    def place(self) -> dict[str, int]:
        chunk, file = divmod(self.number, self.chunk)
        return {"chunk_index": chunk, "file_index": file}


@dataclass
class Tables:
    """Parquet files of a kind."""

    folder: Path
    pattern: str
    files: Files
    _writer: Any = None
    _sink: Any = None

    def place(self, rows: int) -> dict[str, int]:
        """In which file so many rows will be."""
        if self._sink is not None and self.files.is_full(self._sink.tell(), rows):
            self.close()
            self.files.turn()
        return self.files.place

    def write(self, cells: Mapping[str, Any]) -> dict[str, int]:
        """Append columns of rows, which stay together, and say in which file they are."""
        table = pa.table(dict(cells))
        self.place(table.num_rows)
        if self._sink is None:
            file = self.folder / self.pattern.format(**self.files.place)
            file.parent.mkdir(parents=True, exist_ok=True)
            self._sink = file.open("wb")
            self._writer = parquet.ParquetWriter(self._sink, table.schema, compression="snappy")
        self._writer.write_table(table)
        self.files.rows += table.num_rows
        return self.files.place

    def close(self) -> None:
        if self._sink is not None:
            self._writer.close()
            self._sink.close()
            self._sink = self._writer = None


def as_cells(values: np.ndarray) -> Any:
    """Rows of a feature as a column of a table: numbers, or lists of one length."""
    flat = pa.array(np.ascontiguousarray(values).reshape(-1))
    return (
        flat if values.ndim == 1 or values.shape[1] == 1 else pa.FixedSizeListArray.from_arrays(flat, values.shape[1])
    )


PANDAS = {
    "index_columns": ["task"],
    "column_indexes": [
        {"name": None, "field_name": None, "pandas_type": "unicode", "numpy_type": "object", "metadata": None}
    ],
    "columns": [
        {"name": name, "field_name": name, "pandas_type": kind, "numpy_type": stored, "metadata": None}
        for name, kind, stored in (("task_index", "int64", "int64"), ("task", "unicode", "object"))
    ],
    "pandas_version": "2.0.0",
}
"""Tells pandas, with which LeRobot reads tasks, that their words are the index."""


def as_pictures(frames: Sequence[bytes]) -> Any:
    """PNG files as a column of a table, each with a name."""
    cells = [{"bytes": data, "path": f"frame-{place:06d}.png"} for place, data in enumerate(frames)]
    return pa.array(cells, pa.struct({"bytes": pa.binary(), "path": pa.string()}))


def write_meta(
    folder: Path,
    info: dict[str, Any],
    tasks: list[str],
    stats: Mapping[str, Sequence[Stats]],
    facts: dict[str, Any],
) -> None:
    """What is known only at the end: of all episodes, and the words of tasks by number."""
    table = pa.table({"task_index": pa.array(range(len(tasks)), pa.int64()), "task": pa.array(tasks, pa.string())})
    told = {b"pandas": json.dumps(PANDAS).encode()}
    parquet.write_table(table.replace_schema_metadata(told), folder / TASKS)
    write_json(folder / STATS, {key: of_all(parts) for key, parts in stats.items()})
    if facts:
        write_json(folder / FACTS, facts)
    write_json(folder / INFO, {"codebase_version": VERSION, "data_path": DATA, **info})
