"""CSV of the pages."""

from __future__ import annotations

import json
from dataclasses import asdict, is_dataclass
from typing import Any

from scrapy.exporters import CsvItemExporter


class PagesCsvExporter(CsvItemExporter):
    """One table, so pages (or a map's urls) only; what is nested stands as JSON. Items of others pass as they are."""

    def export_item(self, item: Any) -> None:
        if getattr(item, "kind", "page") in ("page", "url"):
            super().export_item(item)

    def serialize_field(self, field: Any, name: str, value: Any) -> Any:
        if is_dataclass(value) and not isinstance(value, type):
            value = asdict(value)
        if isinstance(value, (dict, list)):
            value = json.dumps(value, ensure_ascii=False)
        return super().serialize_field(field, name, value)
