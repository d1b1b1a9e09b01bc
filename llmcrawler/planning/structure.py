"""What the links say of templates: which of them are the things that lists lead to.

Rules of thumb tell the kind of one page and take many a product for a list, for it shows its neighbours. Seen over a
site the two come apart: a list leads to several pages of another template, to others on each of its pages.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection
from dataclasses import replace

from llmcrawler.planning.sample import SampledPage, SiteSample

# So many links of a page to one other template make a list of it.
_LISTED = 3.0
# What so many pages of a template link to is their menu.
_MENU_SHARE = 0.5


def with_items(sample: SiteSample, weak_types: Collection[str]) -> SiteSample:
    """Items that the rules took for something weak (a list, or nothing in particular) as what they are likeliest."""
    items = _items(sample)

    def judged(page: SampledPage) -> SampledPage:
        is_item = page.template in items and not page.is_sure and page.page_type in weak_types and page.item_type
        return replace(page, page_type=page.item_type) if is_item else page

    return SiteSample([judged(page) for page in sample.pages], sample.known, sample.listed, sample.depths)


def _items(sample: SiteSample) -> set[str]:
    leads = _leads(sample)
    lists = {source for (source, target), links in leads.items() if links >= _LISTED and source != target}
    listed = {target for (source, target), links in leads.items() if links >= _LISTED and source != target}
    return listed - lists


def _leads(sample: SiteSample) -> dict[tuple[str, str], float]:
    """Mean number of links of a template's pages to another's, without those of the menu."""
    template_of = _template_of_patterns(sample)
    pages_of: defaultdict[str, list[SampledPage]] = defaultdict(list)
    for page in sample.pages:
        if page.error is None:
            pages_of[page.template].append(page)
    leads: Counter[tuple[str, str]] = Counter()
    for source, pages in pages_of.items():
        counts = Counter(url for page in pages for url in page.links)
        for url, count in counts.items():
            target = template_of.get(sample.known.get(url, ""))
            if target is not None and (len(pages) == 1 or count < _MENU_SHARE * len(pages) or count == 1):
                leads[source, target] += count
    return {(source, target): links / len(pages_of[source]) for (source, target), links in leads.items()}


def _template_of_patterns(sample: SiteSample) -> dict[str, str]:
    found = {}
    for pattern, pages in sample.by_pattern.items():
        templates = Counter(page.template for page in pages if page.error is None)
        if templates:
            found[pattern] = templates.most_common(1)[0][0]
    return found
