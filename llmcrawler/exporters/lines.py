"""What an exporter of pages makes of the items that come its way."""

from __future__ import annotations

from typing import Any

from itemadapter import ItemAdapter

from llmcrawler.feeds.columns import Column, columns_of, text_columns
from llmcrawler.items import Line, Template


def line_of(item: Any) -> dict[str, Any] | None:
    """The item's fields; None for what is no page, but says something about many. Items of other spiders pass."""
    return None if isinstance(item, Template) else plain(item)


def plain(item: Any) -> dict[str, Any]:
    """The item's fields, with plain values in place of dataclasses and other items."""
    return item.as_line() if isinstance(item, Line) else ItemAdapter(item).asdict()


def item_columns(item: Any) -> tuple[Column, ...]:
    """Scrapy's items and plain dictionaries say nothing of their types; what they hold goes as text."""
    if isinstance(item, dict) or not hasattr(type(item), "__dataclass_fields__"):
        return text_columns(ItemAdapter(item).field_names())
    return columns_of(type(item))
