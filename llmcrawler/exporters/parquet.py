"""Parquet of the pages. Memory holds one row group at a time."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from scrapy.exporters import BaseItemExporter

from llmcrawler.exporters.lines import item_columns, line_of
from llmcrawler.feeds.checking import require
from llmcrawler.feeds.columns import Column, columns_of, fitted
from llmcrawler.feeds.values import clean
from llmcrawler.items import Page

logger = logging.getLogger(__name__)

_GROUP_ROWS = 10_000
_GROUP_CHARS = 4 * 2**20  # a group is packed while the crawl waits: some 25 ms


class ParquetExporter(BaseItemExporter):
    """Types come from the item's class, never from the values: every file of every crawl has the same. Records and
    other nested values are JSON text, an error is a struct. The feed's `fields` choose columns and rename them.
    """

    def __init__(self, file: Any, **kwargs: Any) -> None:
        super().__init__(dont_fail=True, **kwargs)
        require("parquet")
        self._sink = _Sink(file)
        self._columns: tuple[Column, ...] = ()
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

        wanted = self.fields_to_export
        by_name = {column.name: column for column in columns}
        self._columns = tuple(
            columns if wanted is None else (by_name.get(name) or Column(name, "text") for name in wanted)
        )
        names = wanted if isinstance(wanted, Mapping) else {}
        self._schema = pa.schema([(names.get(column.name, column.name), _type(pa, column)) for column in self._columns])
        self._writer = pq.ParquetWriter(self._sink, self._schema, compression="zstd")

    def _flush(self) -> None:
        import pyarrow as pa  # noqa: PLC0415 - as above

        rows, self._rows, self._chars = self._rows, [], 0
        if rows:
            arrays = [
                pa.array([row[column.name] for row in rows], field.type)
                for column, field in zip(self._columns, self._schema, strict=True)
            ]
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
    match column.kind:
        case "struct":
            return pa.struct([(part.name, _type(pa, part)) for part in column.parts])
        case "integer":
            return pa.int64()
        case "number":
            return pa.float64()
        case "flag":
            return pa.bool_()
    return pa.string()


class _Sink:
    """What a feed writes to need not say where it is, as a pipe or a compressor; and it is not Arrow's to close."""

    closed = False

    def __init__(self, file: Any) -> None:
        self._file = file
        self._place = 0

    def write(self, data: Any) -> int:
        self._file.write(bytes(data))
        self._place += len(data)
        return len(data)

    def tell(self) -> int:
        return self._place

    def flush(self) -> None:
        """The storage does when it closes the file."""

    def close(self) -> None:
        """The storage does."""

    def readable(self) -> bool:
        return False

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False
