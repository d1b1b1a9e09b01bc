"""How near `scrapy plan` is to the size of sites of known size, over benchmarks/plan_sites.py.

    python -m benchmarks.plan_accuracy [--sizes 50 300 1200 5000] [--seeds 1 2] [--site shop] [--sample 100]

The crawl's own admission and order of urls are played through without a server: first for the sample, then to the end
of the site. Templates are taken to be told apart well. What is printed of each site: pages as planned and as they are,
calls of the model for page types as planned and as the same rules come to on the whole site; then over all: the median
and the worst error, and how often the range holds the truth.
"""

from __future__ import annotations

import argparse
import heapq
import statistics
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import count

from benchmarks.plan_sites import Site, sites
from llmcrawler.core.frontier.admission import Admission
from llmcrawler.core.frontier.protocol import UrlTask
from llmcrawler.core.llm.batching import BatchRules
from llmcrawler.core.reporting.planning.estimate import CrawlTerms, PageArrival, make_plan, play
from llmcrawler.core.reporting.planning.site_sample import Draw, SampledPage, Sampler
from llmcrawler.core.urls import Scope, TrapGuard, url_pattern

ORIGIN = "http://site.example"
RULES = BatchRules(max_questions=20, max_tokens=12_000, wait_seconds=5.0, patient_seconds=15.0)
TERMS = CrawlTerms(
    max_pages=100_000,
    gap_seconds=0.2,
    concurrency=5,
    model="m",
    batches=RULES,
    record_types={"product", "article", "service"},
    weak_types={"listing", "other"},
)


@dataclass(frozen=True, slots=True)
class Row:
    name: str
    known: int
    actual: int
    low: float
    likely: float
    high: float
    planned_calls: float
    actual_calls: float

    @property
    def error(self) -> float:
        """As a factor, 1 or more."""
        return max(self.likely / self.actual, self.actual / max(1.0, self.likely))

    @property
    def calls_error(self) -> float:
        return max(self.planned_calls, self.actual_calls) / max(1.0, min(self.planned_calls, self.actual_calls))

    @property
    def is_held(self) -> bool:
        return round(self.low) <= self.actual <= round(self.high)


def crawl(site: Site, most: int, *, with_sitemap: bool, is_sample: bool) -> Sampler:
    """The first `most` pages: in the frontier's order, or in that of a plan's sample."""
    admission = Admission(Scope([ORIGIN + "/"]), TrapGuard(date(2026, 1, 1)))
    sampler, draw, arrival = Sampler(), Draw(), count()
    queue: list[tuple[int, int, UrlTask]] = []
    seen: dict[str, None] = {}

    def add(tasks: Iterable[UrlTask]) -> None:
        new = [task for task in tasks if task.url not in seen]
        seen.update(dict.fromkeys(task.url for task in new))
        sampler.add_urls(new)
        for task in map(draw, new) if is_sample else new:
            heapq.heappush(queue, (task.priority, next(arrival), task))

    add(admission.given([ORIGIN + "/"]))
    if with_sitemap:
        add(admission.admit([ORIGIN + path for path in site.pages], 1, ORIGIN + "/sitemap.xml"))
    while queue and most:
        most -= 1
        task = heapq.heappop(queue)[2]
        page = site.pages.get(task.url.removeprefix(ORIGIN))
        links = [] if page is None else [ORIGIN + link for link in page.links]
        add(admission.admit(links, task.depth + 1, task.url))
        sampler.add_links(task.url, links)
        sampler.add_page(sampled(site, task.url))
    return sampler


def sampled(site: Site, url: str) -> SampledPage:
    page = site.pages.get(url.removeprefix(ORIGIN))
    if page is None or page.status != 200:
        return SampledPage(url, url_pattern(url), error="http_404")
    is_item = page.page_type in TERMS.record_types
    return SampledPage(
        url,
        url_pattern(url),
        template=page.kind,
        page_type=page.page_type,
        item_type=page.page_type if is_item else "",
        shown_tokens=300 + zlib.crc32(url.encode()) % 300,
        latency_seconds=0.2,
    )


def measure(site: Site, sample_pages: int, *, with_sitemap: bool) -> Row:
    sample = crawl(site, sample_pages, with_sitemap=with_sitemap, is_sample=True).sample()
    plan = make_plan(ORIGIN + "/", sample, TERMS)
    whole = crawl(site, TERMS.max_pages, with_sitemap=with_sitemap, is_sample=False).sample()
    pages = [page for page in whole.pages if page.error is None]
    asked = play([PageArrival(page.template, page.shown_tokens) for page in pages], TERMS.gap_seconds, 1.5, RULES)
    size, (shape, _, number) = plan["site_pages"], site.name.rpartition(" ")
    name = f"{shape}{', sitemap' * with_sitemap} {number}"
    calls = plan["llm"]["calls_by_task"]["classify"]["likely"], float(asked.calls)
    return Row(name, len(sample.known), len(pages), size["low"], size["likely"], size["high"], *calls)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[50, 300, 1200, 5000])
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--site", default="")
    parser.add_argument("--sample", type=int, default=100)
    parser.add_argument("--maps", action="store_true", help="each site with a sitemap too")
    parser.add_argument("--quiet", action="store_true", help="one line a shape")
    options = parser.parse_args()
    rows = []
    for site in sites(options.sizes, options.seeds, wanted=options.site):
        for with_sitemap in {False, options.maps}:
            rows.append(measure(site, options.sample, with_sitemap=with_sitemap))
            if not options.quiet:
                show(rows[-1])
    for name in dict.fromkeys(row.name.rstrip("0123456789 ") for row in rows) if options.quiet else ():
        summary(name, [row for row in rows if row.name.rstrip("0123456789 ") == name])
    for size in options.sizes:
        summary(f"size {size}", [row for row in rows if row.name.endswith(f" {size}")])
    summary("all", rows)


def show(row: Row) -> None:
    held = "" if row.is_held else "NOT HELD"
    print(
        f"{row.name:32} known {row.known:5} actual {row.actual:5} plan {row.likely:6.0f} ({row.low:.0f}-{row.high:.0f})"
        f" x{row.error:.2f} {held} calls {row.planned_calls:.0f}/{row.actual_calls:.0f}",
        flush=True,
    )


def summary(name: str, rows: Sequence[Row]) -> None:
    errors = sorted(row.error for row in rows)
    calls = sorted(row.calls_error for row in rows)
    within = sum(error <= 1.15 for error in errors) / len(errors)
    held = sum(row.is_held for row in rows) / len(rows)
    width = statistics.median(row.high / max(1.0, row.low) for row in rows)
    print(
        f"{name:28} n {len(rows):3} pages: median x{statistics.median(errors):.2f},"
        f" nine in ten x{errors[int(0.9 * len(errors))]:.2f}, worst x{errors[-1]:.2f}, within 15% {within:4.0%},"
        f" in range {held:4.0%} (high/low {width:.1f}); calls: median x{statistics.median(calls):.2f},"
        f" worst x{calls[-1]:.2f}"
    )


if __name__ == "__main__":
    main()
