"""Writes pages as Parquet, one row group at a time in memory."""

from __future__ import annotations

import io
import logging
from collections.abc import Mapping, Sequence
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
        self._sink = _Sink(file)
        self._columns: list[Column] = []
        self._writer: Any = None
        self._schema: Any = None
        self._rows: list[dict[str, Any]] = []
        self._chars = 0
        self._warned: set[str] = set()

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
        if self._writer is None:
            self._open(item_columns(item))
        row = {}
        for column in self._columns:
            value = self._fitted(column, line.get(column.name))
            self._chars += len(value) if isinstance(value, str) else 8
            row[column.name] = value
        for name in line.keys() - row.keys():
            if self.fields_to_export is None:
                self._warn(name, "the first item had no such field, so there is no column for it")
        self._rows.append(row)
        self.lines += 1
        if len(self._rows) >= _GROUP_ROWS or self._chars >= _GROUP_CHARS:
            self._flush()

    def finish_exporting(self) -> None:
        if self._writer is None:
            self._open(columns_of(Page))
        self._flush()
        self._writer.close()

    def _open(self, columns: Sequence[Column]) -> None:
        import pyarrow as pa  # noqa: PLC0415 - only those who want Parquet have it
        import pyarrow.parquet as pq  # noqa: PLC0415

        fields = self.fields_to_export
        by_name = {column.name: column for column in columns}
        self._columns = [by_name.get(name) or Column(name, "text") for name in (by_name if fields is None else fields)]
        names = fields if isinstance(fields, Mapping) else {}
        self._schema = pa.schema([(names.get(column.name, column.name), _type(pa, column)) for column in self._columns])
        self._writer = pq.ParquetWriter(self._sink, self._schema, compression="zstd")

    def _flush(self) -> None:
        import pyarrow as pa  # noqa: PLC0415 - as above

        rows, self._rows, self._chars = self._rows, [], 0
        if rows:
            columns = zip(self._columns, self._schema, strict=True)
            arrays = [pa.array([row[column.name] for row in rows], field.type) for column, field in columns]
            self._writer.write_table(pa.Table.from_arrays(arrays, schema=self._schema))

    def _fitted(self, column: Column, value: Any) -> Any:
        try:
            return fitted(column, clean(value))
        except ValueError as error:
            self._warn(column.name, str(error))
            return None

    def _warn(self, name: str, why: str) -> None:
        if name not in self._warned:
            self._warned.add(name)
            logger.warning("The Parquet feed lacks values of %s: %s", name, why)


def _type(pa: Any, column: Column) -> Any:
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
