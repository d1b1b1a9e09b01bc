"""Writes rows of clean values as Parquet, with the types of their columns."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from llmcrawler.core.storage.feeds.tables import Column, fitted

logger = logging.getLogger(__name__)

_GROUP_ROWS = 10_000
_GROUP_CHARS = 4 * 2**20  # a group is packed while the crawl waits: some 25 ms


class ParquetFile:
    """Writes rows of clean values, one row group at a time in memory. `columns` come with their headers."""

    def __init__(self, file: Any, columns: Sequence[tuple[str, Column]]) -> None:
        import pyarrow as pa  # only those who want Parquet have it
        import pyarrow.parquet as pq

        self._columns = [column for _header, column in columns]
        self._schema = pa.schema([(header, arrow_type(column)) for header, column in columns])
        self._writer = pq.ParquetWriter(_Sink(file), self._schema, compression="zstd")
        self._rows: list[list[Any]] = []
        self._chars = 0
        self._warned: set[str] = set()

    def add(self, values: Iterable[Any]) -> None:
        """Add a row of values, in the order of the columns."""
        row = []
        for column, value in zip(self._columns, values, strict=True):
            try:
                row.append(fitted(column, value))
            except ValueError as error:
                self.warn_of_loss(column.name, error)
                row.append(None)
            self._chars += len(row[-1]) if isinstance(row[-1], str) else 8
        self._rows.append(row)
        if len(self._rows) >= _GROUP_ROWS or self._chars >= _GROUP_CHARS:
            self._flush()

    def close(self) -> None:
        self._flush()
        self._writer.close()

    def _flush(self) -> None:
        rows, self._rows, self._chars = self._rows, [], 0
        if rows:
            self._writer.write_table(arrow_table(self._schema, rows))

    def warn_of_loss(self, name: str, why: object) -> None:
        """Log once that values of a field are not in the file."""
        if name not in self._warned:
            self._warned.add(name)
            logger.warning("The Parquet file lacks values of %s: %s", name, why)


def arrow_table(schema: Any, rows: Sequence[Sequence[Any]]) -> Any:
    """Return the pyarrow.Table of rows, whose values are fitted to their columns."""
    import pyarrow as pa

    values = zip(*rows, strict=True) if rows else [[]] * len(schema)
    return pa.Table.from_arrays([pa.array(one, of.type) for one, of in zip(values, schema, strict=True)], schema=schema)


def arrow_type(column: Column) -> Any:
    """Return the pyarrow type of a column."""
    import pyarrow as pa

    if column.many and column.kind != "json":
        return pa.list_(arrow_type(replace(column, many=False)))
    if column.kind == "struct":
        return pa.struct([(part.name, arrow_type(part)) for part in column.parts])
    return {"integer": pa.int64, "number": pa.float64, "flag": pa.bool_}.get(column.kind, pa.string)()


class _Sink(io.RawIOBase):
    """Counts where it is, as a pipe or a compressor need not know; and leaves its file to the storage to close."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self._position = 0

    def write(self, data: Any) -> int:
        self._file.write(bytes(data))
        self._position += len(data)
        return len(data)

    def tell(self) -> int:
        return self._position

    def writable(self) -> bool:
        return True
