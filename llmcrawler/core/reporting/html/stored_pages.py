"""Looks at the stored pages of a job: where the values of their records stand, and what each selector still gives."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from llmcrawler.core.reporting.html.learned_sites import FeedItem, is_readable, site_of
from llmcrawler.core.reporting.html.marked_page import Looked, look_at
from llmcrawler.core.reporting.html.page_details import PageDetails
from llmcrawler.core.reporting.html.sources import ReportSource
from llmcrawler.core.reporting.templates_table import selector_text
from llmcrawler.core.understanding.extraction import SelectorResult

SelectorKey = tuple[str, str, str]  # field, language, text


@dataclass(slots=True)
class SelectorCounts:
    """What the selectors of a template gave on its stored pages. `given` counts pages on which one gives a value,
    `used` those whose record has that value, as the selectors before it gave none; `others` pages by field that have a
    value which no selector gives now.
    """

    pages: int = 0
    given: Counter[SelectorKey] = field(default_factory=Counter)
    used: Counter[SelectorKey] = field(default_factory=Counter)
    others: Counter[str] = field(default_factory=Counter)

    def add(self, record: Any, results: Sequence[SelectorResult]) -> None:
        """Count a page with its record and what the selectors gave on it."""
        self.pages += 1
        explained = set()
        for one in results:
            key = selector_key(one.field, one.selector.language, one.selector.query, one.selector.attribute,
                               one.selector.pattern)  # fmt: skip
            self.given[key] += 1
            self.used[key] += one.is_used
            explained.add(one.field.split(".")[0])
        for name, value in record.items() if isinstance(record, dict) else ():
            if value not in (None, "", []) and name.split(".")[0] not in explained:
                self.others[name] += 1


def selector_key(name: str, language: str, query: str, attribute: str | None, pattern: str | None) -> SelectorKey:
    return name, *selector_text({language: query, "attribute": attribute, "pattern": pattern})


class StoredPages:
    """Goes through the pages of a report, as far as there is room for them."""

    def __init__(self, source: ReportSource, details: PageDetails) -> None:
        self._source = source
        self.details = details
        self.counts: dict[tuple[str, str], SelectorCounts] = {}
        self.missing = 0  # pages without stored HTML, of those that were to be looked at

    def add(self, row: int | None, item: FeedItem) -> None:
        """Take a page that is in this row of the list."""
        if row is None or item.get("kind") == "url":
            return
        key = (site_of(str(item.get("url"))), str(item.get("template")))
        looked = self._look(key, item) if self.details.wants_html(key) and item.get("status") is not None else None
        if looked is not None and item.get("template") is not None:
            self.counts.setdefault(key, SelectorCounts()).add(item.get("record"), looked.results)
        self.details.add(row, key, item, looked)

    def _look(self, key: tuple[str, str], item: FeedItem) -> Looked | None:
        html = self._source.html_of(str(item.get("url")))
        if html is None:
            self.missing += 1
            return None
        if not is_readable(html):
            return None
        url, page_type = str(item.get("final_url") or item.get("url")), str(item.get("page_type"))
        learned, has_record = self._source.learned, isinstance(item.get("record"), dict)
        variants = learned.variants(str(item.get("url")), key[1], page_type, of_others=has_record)
        return look_at(html, variants, url, str(item.get("lang") or ""))
