"""Knows what was learned of the sites of a crawl, and so what a page is now: its line may have been written before its
template was merged with another one, or parted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from llmcrawler.core.content import is_cheap, read_page
from llmcrawler.core.storage import StoredSite
from llmcrawler.core.understanding.extraction import (
    BY_STRUCTURED_DATA,
    Learner,
    RecordTypes,
    Variant,
    extract_best,
    read_learners,
)
from llmcrawler.core.understanding.templates import TemplateGrouper
from llmcrawler.core.urls import origin_of, site_name
from llmcrawler.errors import TooCostly

FeedItem = Mapping[str, Any]

_MAX_CHARS = 400_000  # of HTML that is read anew
_MAX_READ = 1_000  # pages of parted templates that are read anew, 10 ms each
MAX_STEPS = 100_000  # of work on one page: a tenth of a second


@dataclass(slots=True)
class _LearnedSite:
    stored: StoredSite | None = None
    entries: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)
    grouper: TemplateGrouper | None = None
    learners: Sequence[Learner] = ()


class LearnedSites:
    """What was learned, by site. `judged_again` counts the pages that are not what their lines say; `problems` has what
    could not be read.
    """

    def __init__(self) -> None:
        self._sites: dict[str, _LearnedSite] = {}
        self.judged_again = 0
        self.problems: list[str] = []
        self._left = _MAX_READ

    def add(self, site: str, entries: Sequence[Mapping[str, Any]], stored: StoredSite | None = None) -> None:
        """Add what a feed, or the people's part of a file, says of templates. `stored` has the rest of the file."""
        known = self._sites.setdefault(site, _LearnedSite())
        known.stored = stored
        for one in entries:
            known.entries[str(one.get("template"))] = one
            known.aliases |= {str(alias): str(one.get("template")) for alias in one.get("aliases") or ()}

    @property
    def templates(self) -> list[dict[str, Any]]:
        """Return the entries of all templates, each with its `site`."""
        return [{**one, "site": name} for name, site in self._sites.items() for one in site.entries.values()]

    def now(self, item: FeedItem, html: Callable[[], str | None]) -> FeedItem:
        """Return a page's line with the template that it has now. A page type that came from its template is that of
        this template; where it is another one, so is the record. `html` gives the stored page, where it is kept.
        """
        template, url = item.get("template"), str(item.get("url"))
        site = self._site(url)
        if site is None or not isinstance(template, str):
            return item
        now = self._template_now(site, url, template, html)
        page_type, record = item.get("page_type"), item.get("record")
        judged = site.entries.get(now, {}).get("page_type")
        if judged is not None and judged != page_type and item.get("decided_by") == "template":
            page_type, record = judged, self._record(item, now, str(judged), html)
        if (now, page_type) == (template, item.get("page_type")):
            return item
        self.judged_again += 1
        return {**item, "template": now, "page_type": page_type, "record": record}

    def variants(self, url: str, template: str, page_type: str, *, of_others: bool = False) -> list[Variant]:
        """Return how records of a template are taken; where nothing was learned of it, and `of_others`, how those of
        its site's other templates of the page type are.
        """
        site = self._site(url)
        some = [one for one in site.learners if one.key.page_type == page_type] if site is not None else []
        own = [one for one in some if one.key.template == template]
        return [variant for learner in own or (some if of_others else ()) for variant in learner.variants]

    def _template_now(self, site: _LearnedSite, url: str, template: str, html: Callable[[], str | None]) -> str:
        grouper = site.grouper
        if grouper is None:
            return site.aliases.get(template, template)
        now = grouper.template_now(url, template)
        if now is None and self._left > 0:
            self._left -= 1
            text = html()
            if text is not None and is_readable(text):
                content = read_page(text, url)
                now = grouper.match(url, content.features, title=content.title)
        return now or grouper.resolve(template)

    def _site(self, url: str) -> _LearnedSite | None:
        """Return the site of a url; what the file has of it for crawls is unpacked with its first page."""
        name = site_of(url)
        site = self._sites.get(name)
        if site is not None and site.stored is not None:
            stored, site.stored = site.stored, None
            try:
                state = stored.state()
                site.learners = read_learners(name, state["records"]) if "records" in state else ()
                site.grouper = (
                    TemplateGrouper.from_json(state["grouping"], origin_of(url)) if "grouping" in state else None
                )
            except (ValueError, KeyError) as error:
                self.problems.append(
                    f"What was learned of {name} is damaged ({error}): pages are shown as their lines say."
                )
        return site

    def _record(self, item: FeedItem, template: str, page_type: str, html: Callable[[], str | None]) -> Any:
        url, lang = str(item.get("url")), str(item.get("lang") or "")
        variants, text = self.variants(url, template, page_type), html()
        if not variants and item.get("record_by") == BY_STRUCTURED_DATA and page_type in RecordTypes():
            return item.get("record")
        if not variants or text is None or not is_readable(text):
            return None
        try:
            return extract_best(variants, text, str(item.get("final_url") or url), lang, MAX_STEPS)
        except TooCostly:
            return None


def is_readable(html: str) -> bool:
    """Tell whether a stored page costs little to read: strangers wrote it, and nobody may have to wait for it."""
    return len(html) <= _MAX_CHARS and is_cheap(html)


def site_of(url: str) -> str:
    """Return the site of a url, "" for what is none: a feed may have been written by anyone."""
    try:
        return site_name(url)
    except ValueError:
        return ""
