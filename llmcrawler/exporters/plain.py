"""Items as plain values, for all exporters; and the formats of Python's own. Pickled values need no package of ours."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from itemadapter import ItemAdapter
from scrapy.exporters import JsonLinesItemExporter, MarshalItemExporter, PickleItemExporter

from llmcrawler.core.storage.feeds.tables import Column, columns_of, text_columns
from llmcrawler.items import FeedItem, Template


def line_of(item: Any) -> dict[str, Any] | None:
    """Return the fields of a page or of another spider's item; None for a template, which is about many pages."""
    return None if isinstance(item, Template) else plain(item)


def plain(item: Any) -> dict[str, Any]:
    """Return the item's fields, with plain values in place of dataclasses and other items."""
    return item.as_line() if isinstance(item, FeedItem) else ItemAdapter(item).asdict()


def item_columns(item: Any) -> tuple[Column, ...]:
    """Return the columns of an item's class; text ones for items that say nothing of their types."""
    if isinstance(item, dict) or not hasattr(type(item), "__dataclass_fields__"):
        return text_columns(ItemAdapter(item).field_names())
    return columns_of(type(item))


class PagesJsonLinesExporter(JsonLinesItemExporter):
    """Has each line in the file as soon as it has come, for those who read along."""

    def export_item(self, item: Any) -> None:
        super().export_item(item)
        self.file.flush()


class PagesMarshalExporter(MarshalItemExporter):
    def get_serialized_fields(self, item: Any, *args: Any, **kwargs: Any) -> Iterable[tuple[str, Any]]:
        return super().get_serialized_fields(plain(item), *args, **kwargs)


class PagesPickleExporter(PickleItemExporter):
    def get_serialized_fields(self, item: Any, *args: Any, **kwargs: Any) -> Iterable[tuple[str, Any]]:
        return super().get_serialized_fields(plain(item), *args, **kwargs)
