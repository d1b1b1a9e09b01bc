"""How near `scrapy plan` is to the size of sites of known size, over benchmarks/plan_sites.py.

    python -m benchmarks.plan_accuracy [--sizes 50 300 1200 5000] [--seeds 1 2] [--site shop] [--sample 100]

The crawl's own admission and order of urls are played through without a server: first for the sample, then to the end
of the site. Templates are taken to be told apart well. What is printed of each site: pages as planned and as they are,
calls of the model for page types as planned, and as the crawl's own rules come to on the whole site; then over all: the
median and the worst error, and how often the range holds the truth.
"""

from __future__ import annotations

import argparse
import heapq
import math
import statistics
import zlib
from collections import defaultdict, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import count
from typing import Any, cast

from benchmarks.plan_sites import Site, sites
from llmcrawler.core.frontier.admission import Admission
from llmcrawler.core.frontier.protocol import UrlTask
from llmcrawler.core.llm.batching import BatchQueue, BatchRules, WaitingQuestion
from llmcrawler.core.reporting.planning.estimate import CrawlTerms, ExpectedCalls, PageArrival, make_plan
from llmcrawler.core.reporting.planning.site_sample import Draw, SampledPage, Sampler
from llmcrawler.core.understanding.classification.template_samples import SampleStep, TemplateSamples
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
    return SampledPage(
        url,
        url_pattern(url),
        template=page.kind,
        page_type=page.page_type,
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


def play(
    arrivals: Sequence[PageArrival | None], pace_seconds: float, call_seconds: float, rules: BatchRules
) -> ExpectedCalls:
    """What the model is asked when a page comes every `pace_seconds` and an answer takes `call_seconds`: the pages go
    through the sampling rules and the batch queue of a real crawl, by a simulated clock.
    """
    crawl = _PlayedCrawl(call_seconds, rules)
    for number, arrival in enumerate(arrivals):
        crawl.pass_time(number * pace_seconds)
        if arrival is not None:
            crawl.pages[str(number)] = arrival
            crawl.go_on(str(number), is_new=True)
    crawl.pass_time(math.inf)
    shown = [crawl.pages[name] for batch in crawl.batches for name in batch]
    return ExpectedCalls(len(crawl.batches), len(shown), sum(page.tokens for page in shown))


class _PlayedCrawl:
    """A crawl in counted time. `pages` are those that have come, by name; `batches` of them went to the model."""

    def __init__(self, call_seconds: float, rules: BatchRules) -> None:
        self.pages: dict[str, PageArrival] = {}
        self.batches: list[list[str]] = []
        self._call_seconds = call_seconds
        self._rules = rules
        self._samples: defaultdict[str, TemplateSamples] = defaultdict(TemplateSamples)
        self._queue: BatchQueue[str, None] = BatchQueue(rules)
        self._answers: deque[tuple[float, list[str]]] = deque()  # the batches that are out, and when they are answered
        self._now = 0.0

    def go_on(self, name: str, *, is_new: bool = False) -> None:
        """Let a page take its template's type, wait for others, or wait for a batch."""
        page = self.pages[name]
        samples = self._samples[page.template]
        step = samples.step(name, samples.page_count + is_new)
        if step in (SampleStep.ASK, SampleStep.ASK_PATIENTLY) or not page.is_settled:
            patient = step is SampleStep.ASK_PATIENTLY and page.is_settled
            samples.note_asked(name, patient=patient)
            no_future = cast("Any", None)  # nobody awaits an answer that is only played
            most = self._rules.max_questions
            self._queue.add(WaitingQuestion(name, page.tokens, patient, self._now, most, no_future))
            self._send_due()
        elif step is SampleStep.WAIT:
            samples.waiting[name] = None
        else:
            samples.note_taken(name)

    def pass_time(self, until: float) -> None:
        """Let answers come and batches go; while pages wait, in the steps in which the crawl looks after them."""
        while True:
            while self._answers and self._answers[0][0] <= self._now:
                self._take_answers(self._answers.popleft()[1])
            self._send_due(is_at_end=until == math.inf)
            next_answer = self._answers[0][0] if self._answers else math.inf
            next_poll = self._now + self._rules.poll_seconds if self._queue else math.inf
            if self._now >= until or until == next_answer == next_poll:
                return
            self._now = min(until, next_answer, next_poll)

    def _send_due(self, *, is_at_end: bool = False) -> None:
        """Send the batches that are due; at the end, when no page comes any more, all."""
        while self._queue and len(self._answers) < self._rules.max_in_flight:
            if not is_at_end and self._queue.due(self._now) is None:
                return
            self.batches.append([entry.question for entry in self._queue.take(self._queue.oldest())])
            self._answers.append((self._now + self._call_seconds, self.batches[-1]))

    def _take_answers(self, batch: list[str]) -> None:
        """Answer a batch, taking the model to be right and templates to be uniform; doubts would cost extra."""
        asked = {self.pages[name].template: self._samples[self.pages[name].template] for name in batch}
        for name in batch:
            asked[self.pages[name].template].note_answer(name, "the type")
        for samples in asked.values():
            for name in list(samples.waiting):
                self.go_on(name)


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
