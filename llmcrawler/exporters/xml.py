"""Writes pages as XML that is well-formed whatever they hold."""

from __future__ import annotations

from codecs import getincrementalencoder
from typing import Any

from scrapy.exporters import BaseItemExporter

from llmcrawler.core.storage.feeds.tables import clean
from llmcrawler.core.storage.feeds.xml_elements import element, tags
from llmcrawler.exporters.plain import plain


class PagesXmlExporter(BaseItemExporter):
    """Takes the options of Scrapy's own, and writes an item in one go, so that one that fails leaves no half of it."""

    def __init__(self, file: Any, *, item_element: str = "item", root_element: str = "items", **kwargs: Any) -> None:
        super().__init__(dont_fail=True, **kwargs)
        self._file = file
        self._item = item_element
        self._start, self._end = tags(root_element)
        self.encoding = self.encoding or "utf-8"
        self._encoder = getincrementalencoder(self.encoding)("xmlcharrefreplace")  # it writes one byte order mark

    def start_exporting(self) -> None:
        self._write(f'<?xml version="1.0" encoding="{self.encoding}"?>\n{self._start}{self._line_end}')

    def export_item(self, item: Any) -> None:
        fields = clean(dict(self.get_serialized_fields(plain(item), default_value="")))
        self._write(element(self._item, fields, 1, self.indent or 0))
        if not self.indent:
            self._write(self._line_end)

    def finish_exporting(self) -> None:
        self._write(self._end)

    @property
    def _line_end(self) -> str:
        return "" if self.indent is None else "\n"

    def _write(self, text: str) -> None:
        self._file.write(self._encoder.encode(text))
