"""Writes pages as Parquet, one row group at a time in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from scrapy.exporters import BaseItemExporter

from llmcrawler.core.storage.feeds.feed_checks import require_format
from llmcrawler.core.storage.feeds.parquet_file import ParquetFile
from llmcrawler.core.storage.feeds.tables import Column, clean, columns_of
from llmcrawler.exporters.plain import item_columns, line_of
from llmcrawler.items import Page


class ParquetExporter(BaseItemExporter):
    """Takes types from the item's class, never from values, so that every file of every crawl has the same. Records and
    other nested values are JSON text, an error is a struct. The feed's `fields` choose columns and rename them.
    """

    lines = 0  # taken

    def __init__(self, file: Any, **kwargs: Any) -> None:
        super().__init__(dont_fail=True, **kwargs)
        require_format("parquet")
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
