"""Writes pages as Parquet, one row group at a time in memory."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from scrapy.exporters import BaseItemExporter

from llmcrawler.exporters.plain import item_columns, line_of
from llmcrawler.items import Page
from llmcrawler.storage.feeds.clean_values import clean
from llmcrawler.storage.feeds.feed_checks import require
from llmcrawler.storage.feeds.tables import Column, columns_of, fitted

logger = logging.getLogger(__name__)

_GROUP_ROWS = 10_000
_GROUP_CHARS = 4 * 2**20  # a group is packed while the crawl waits: some 25 ms


class ParquetExporter(BaseItemExporter):
    """Takes types from the item's class, never from values, so that every file of every crawl has the same. Records and
    other nested values are JSON text, an error is a struct. The feed's `fields` choose columns and rename them.
    """

    lines = 0  # taken

    def __init__(self, file: Any, **kwargs: Any) -> None:
        super().__init__(dont_fail=True, **kwargs)
        require("parquet")
        self._file = file
        self._columns: list[Column] = []
        self._out: ParquetFile | None = None

    @classmethod
    def prepare(cls) -> None:
        """Load pyarrow, and with its first array pandas, before there are pages that wait for it."""
        import pyarrow as pa  # noqa: PLC0415 - only those who want Parquet have it
        import pyarrow.parquet  # noqa: PLC0415

        pa.array([None, "text"], pa.string())

    def export_item(self, item: Any) -> None:
        line = line_of(item)
        if line is None:
            return
        self.lines += 1
        out = self._out or self._open(item_columns(item))
        out.add([clean(line.get(column.name)) for column in self._columns])
        if self.fields_to_export is None:
            for name in line.keys() - {column.name for column in self._columns}:
                out.warn_of_loss(name, "the first item had no such field, so there is no column for it")

    def finish_exporting(self) -> None:
        out = self._out or self._open(columns_of(Page))
        out.close()

    def _open(self, columns: Sequence[Column]) -> ParquetFile:
        fields = self.fields_to_export
        by_name = {column.name: column for column in columns}
        self._columns = [by_name.get(name) or Column(name, "text") for name in (by_name if fields is None else fields)]
        names = fields if isinstance(fields, Mapping) else {}
        self._out = ParquetFile(self._file, [(names.get(one.name, one.name), one) for one in self._columns])
        return self._out


class ParquetFile:
    """Writes rows of clean values, one row group at a time in memory. `columns` come with their headers."""

    def __init__(self, file: Any, columns: Sequence[tuple[str, Column]]) -> None:
        import pyarrow as pa  # noqa: PLC0415 - only those who want Parquet have it
        import pyarrow.parquet as pq  # noqa: PLC0415

        self._columns = [column for _header, column in columns]
        self._schema = pa.schema([(header, _type(pa, column)) for header, column in columns])
        self._writer = pq.ParquetWriter(_Sink(file), self._schema, compression="zstd")
        self._rows: list[list[Any]] = []
        self._chars = 0
        self._warned: set[str] = set()

    def add(self, values: Iterable[Any]) -> None:
        """Add a row of values, in the order of the columns."""
        row = [self._fitted(column, value) for column, value in zip(self._columns, values, strict=True)]
        self._chars += sum(len(value) if isinstance(value, str) else 8 for value in row)
        self._rows.append(row)
        if len(self._rows) >= _GROUP_ROWS or self._chars >= _GROUP_CHARS:
            self._flush()

    def close(self) -> None:
        self._flush()
        self._writer.close()

    def _flush(self) -> None:
        import pyarrow as pa  # noqa: PLC0415 - as above

        rows, self._rows, self._chars = self._rows, [], 0
        if rows:
            arrays = [
                pa.array(values, one.type) for values, one in zip(zip(*rows, strict=True), self._schema, strict=True)
            ]
            self._writer.write_table(pa.Table.from_arrays(arrays, schema=self._schema))

    def _fitted(self, column: Column, value: Any) -> Any:
        try:
            return fitted(column, value)
        except ValueError as error:
            self.warn_of_loss(column.name, error)
            return None

    def warn_of_loss(self, name: str, why: object) -> None:
        """Log once that values of a field are not in the file."""
        if name not in self._warned:
            self._warned.add(name)
            logger.warning("The Parquet feed lacks values of %s: %s", name, why)


def _type(pa: Any, column: Column) -> Any:
    if column.many and column.kind != "json":
        return pa.list_(_type(pa, replace(column, many=False)))
    if column.kind == "struct":
        return pa.struct([(part.name, _type(pa, part)) for part in column.parts])
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
