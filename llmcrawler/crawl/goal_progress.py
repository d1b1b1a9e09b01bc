"""Tells how far a crawl with a goal has come: which of its pages count, and whether they are enough."""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Any

from llmcrawler.frontier import FocusedCrawl
from llmcrawler.frontier.link_history import restore_link_scorer
from llmcrawler.items import Page
from llmcrawler.storage.keys import JobConnection


class GoalProgress:
    """Tells the focused crawl what each page came to. `record_types` are the page types that have records."""

    def __init__(self, pursuit: FocusedCrawl, record_types: Container[str]) -> None:
        self.pursuit = pursuit
        self._record_types = record_types

    def end_page(self, page: Page) -> bool:
        """Count a page that is through. False: it was the last that is wanted, and nothing more is to be fetched."""
        self.pursuit.note_end(page.url, page.page_type, has_record=self._has_record(page.as_line()))
        return not self.pursuit.is_done

    def relearn(self, connection: JobConnection) -> None:
        """Take over what earlier runs of the job have learned of its links."""
        restore_link_scorer(connection, self.pursuit, self._has_record)

    def _has_record(self, line: Mapping[str, Any]) -> bool:
        """Tell whether a page's line counts as a record: it has one, or its type has none."""
        return line["error"] is None and (line["record"] is not None or line["page_type"] not in self._record_types)
