"""Files of the atlas: compact Parquet, a few columns of small numbers."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from factrank.planning.atlas.atlas_rows import AtlasRows, join_rows, n_rows

ROWS_PER_FILE = 120_000


class AtlasWriter:
    """Collects rows and writes them to atlas-000.parquet, atlas-001.parquet, ..., `rows_per_file` to each."""

    def __init__(self, folder: Path, rows_per_file: int = ROWS_PER_FILE) -> None:
        self._folder, self._most, self._waiting = folder, rows_per_file, list[dict[str, Any]]()
        self._n_waiting = self._n_files = 0
        folder.mkdir(parents=True, exist_ok=True)

    def add(self, rows: dict[str, Any]) -> None:
        """Add rows with their results."""
        self._waiting.append(rows)
        self._n_waiting += n_rows(rows)
        if self._n_waiting >= self._most:
            self.flush()

    def flush(self) -> None:
        """Write the rows that are waiting."""
        if self._waiting:
            write_rows(self._folder / f"atlas-{self._n_files:03d}.parquet", join_rows(self._waiting))
            self._waiting, self._n_waiting, self._n_files = [], 0, self._n_files + 1


def write_rows(path: Path, rows: AtlasRows) -> None:
    """Write one file, sorted by parts and sizes because that compresses best."""
    order = np.lexsort([rows[name] for name in ("n_values", "n_queries", "n_keys", "kind", "search", "part")])
    table = pa.table({name: pa.array(column[order]) for name, column in rows.items()})
    floats = [name for name, column in rows.items() if column.dtype.kind == "f"]
    others = [name for name in rows if name not in floats]
    pq.write_table(
        table,
        path,
        compression="zstd",
        compression_level=9,
        use_dictionary=others,
        use_byte_stream_split=floats,
    )


def read_rows(paths: Iterable[Path]) -> dict[str, Any]:
    """Return the rows of several files."""
    table = pa.concat_tables([pq.read_table(path) for path in paths])
    return {name: table[name].to_numpy() for name in table.column_names}
