"""Python's own formats, of plain values: marshal knows no others, and pickled ones need no package of ours."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from scrapy.exporters import MarshalItemExporter, PickleItemExporter

from llmcrawler.exporters.lines import plain


class PagesMarshalExporter(MarshalItemExporter):
    def get_serialized_fields(self, item: Any, *args: Any, **kwargs: Any) -> Iterable[tuple[str, Any]]:
        return super().get_serialized_fields(plain(item), *args, **kwargs)


class PagesPickleExporter(PickleItemExporter):
    def get_serialized_fields(self, item: Any, *args: Any, **kwargs: Any) -> Iterable[tuple[str, Any]]:
        return super().get_serialized_fields(plain(item), *args, **kwargs)
