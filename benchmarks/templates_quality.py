"""How well templates are told apart on stored sites: python -m benchmarks.templates_quality SITE_DIR...

A site is a folder with an index.jsonl (url, file, route, page_type) and gzipped pages; `route` is the truth of the
groups; the oracle answers with it, too, or with the page type (--types). The crawl is
simulated with a perfect oracle in two orders: as the crawler would go (breadth first over links, unseen url shapes
before known ones) and at random. Printed per order:

h, V      homogeneity and V-measure of the online ids (aliases resolved) against the routes
h2, V2    the same when every page is matched once more at the end
online    share of pages whose label was right at the time they were seen; final: with each group's last label
spread3   share of right labels by three members of each group (h2's groups), spread by url hash
shown     pages shown to the oracle; groups (routes); ms: CPU time a page for assign and reclustering
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import time
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from math import log
from pathlib import Path
from urllib.parse import urljoin

from selectolax.lexbor import LexborHTMLParser

from llmcrawler.core.content.fingerprint import fingerprint
from llmcrawler.core.content.markup import tokens
from llmcrawler.core.understanding.templates.clustering import recluster
from llmcrawler.core.understanding.templates.grouping import Assignment, TemplateGrouper
from llmcrawler.core.understanding.templates.page_sample import common_pattern


@dataclass(frozen=True)
class StoredPage:
    url: str
    route: str
    features: frozenset[str]
    links: tuple[str, ...] = ()
    title: str = ""
    page_type: str = ""

    @property
    def label(self) -> str:
        """What the oracle says of the page."""
        return self.page_type or self.route


@dataclass
class Outcome:
    """Lists are parallel to the order of pages."""

    online_labels: list[str] = field(default_factory=list)
    templates: list[str] = field(default_factory=list)
    shown: int = 0
    splits: int = 0
    seconds: float = 0.0


class OracleCrawl:
    """What a classifier does with the grouper, with an oracle that is never wrong."""

    def __init__(self, grouper: TemplateGrouper) -> None:
        self.grouper = grouper
        self.labels: dict[str, dict[str, str]] = {}  # template -> url -> label
        self.votes: set[str] = set()  # the spread samples; pages asked because they are odd do not represent a group
        self.outcome = Outcome()

    def run(self, pages: Sequence[StoredPage]) -> Outcome:
        for page in pages:
            started = time.process_time()
            assignment = self.grouper.assign(page.url, page.features, title=page.title)
            changes = self.grouper.adopt(recluster(self.grouper.snapshot())) if self.grouper.due else None
            self.outcome.seconds += time.process_time() - started
            self.outcome.templates.append(assignment.template)
            known = self.labels.setdefault(assignment.template, {})
            if assignment.is_sample or not assignment.settled or not known or self.disputed(assignment):
                self.outcome.shown += 1
                known[page.url] = page.label
                if assignment.is_sample:
                    self.votes.add(page.url)
                label = page.label
            else:
                label = self.label_of(assignment.template)
            self.outcome.online_labels.append(label)
            if changes:
                self.follow(changes)
            self.part(self.grouper.resolve(assignment.template))
        return self.outcome

    def disputed(self, assignment: Assignment) -> bool:
        verdicts = {self.label_of(self.grouper.resolve(t)) for t in (assignment.template, *assignment.rivals)}
        return len(verdicts - {""}) > 1

    def label_of(self, template: str) -> str:
        labelled = self.labels.get(template, {})
        counts = Counter(label for url, label in labelled.items() if url in self.votes) or Counter(labelled.values())
        return counts.most_common(1)[0][0] if counts else ""

    def part(self, template: str) -> None:
        labelled = self.labels.get(template, {})
        common = Counter(labelled.values()).most_common(2)
        if len(common) > 1 and common[1][1] > 1:  # a single odd answer parts nothing, as in TemplateSamples
            changes = self.grouper.split_by(template, labelled)
            self.outcome.splits += bool(changes.splits)
            self.follow(changes)

    def follow(self, changes) -> None:
        for old, new in changes.aliases.items():
            self.labels.setdefault(new, {}).update(self.labels.pop(old, {}))
        for labelled in list(self.labels.values()):
            for url in [url for url in labelled if url in changes.moved]:
                label = labelled.pop(url)
                self.labels.setdefault(changes.moved[url], {})[url] = label


def evaluate(pages: Sequence[StoredPage]) -> dict[str, float]:
    crawl = OracleCrawl(TemplateGrouper())
    outcome = crawl.run(pages)
    truth = [page.route for page in pages]
    labels = [page.label for page in pages]
    ids = [crawl.grouper.resolve(template) for template in outcome.templates]
    again = [crawl.grouper.match(page.url, page.features, title=page.title) for page in pages]
    homogeneity, v = homogeneity_and_v(truth, ids)
    homogeneity_again, v_again = homogeneity_and_v(truth, again)
    return {
        "pages": len(pages),
        "h": homogeneity,
        "V": v,
        "h2": homogeneity_again,
        "V2": v_again,
        "online": _share(zip(outcome.online_labels, labels, strict=True)),
        "final": _share(zip([crawl.label_of(i) for i in again], labels, strict=True)),
        "spread3": spread_label_share(pages, again),
        "shown": outcome.shown,
        "splits": outcome.splits,
        "groups": len(set(ids)),
        "groups2": len(set(again)),
        "routes": len(set(truth)),
        "ms": outcome.seconds / len(pages) * 1e3,
    }


def spread_label_share(pages: Sequence[StoredPage], groups: Sequence[str]) -> float:
    """Share of right labels when each group gets the commonest of three members, taken by hash of the url."""
    members: dict[str, list[StoredPage]] = {}
    for page, group in zip(pages, groups, strict=True):
        members.setdefault(group, []).append(page)
    right = 0
    for together in members.values():
        together.sort(key=lambda page: blake2b(page.url.encode()).digest())
        label = Counter(page.label for page in together[:3]).most_common(1)[0][0]
        right += sum(page.label == label for page in together)
    return right / len(pages)


def homogeneity_and_v(truth: Sequence[str], groups: Sequence[str]) -> tuple[float, float]:
    """Rosenberg and Hirschberg, V-Measure (2007), with beta 1."""
    both, of_truth, of_groups = (_entropy(x) for x in (list(zip(truth, groups, strict=True)), truth, groups))
    homogeneity = 1 - (both - of_groups) / of_truth if of_truth else 1.0
    completeness = 1 - (both - of_truth) / of_groups if of_groups else 1.0
    total = homogeneity + completeness
    return homogeneity, 2 * homogeneity * completeness / total if total else 0.0


def _entropy(values: Iterable[object]) -> float:
    counts = Counter(values)
    total = sum(counts.values())
    return -sum(n / total * log(n / total) for n in counts.values())


def _share(pairs: Iterable[tuple[str, str]]) -> float:
    same = [one == other for one, other in pairs]
    return sum(same) / len(same)


def novelty_order(pages: Sequence[StoredPage]) -> list[StoredPage]:
    """Breadth first over the links, the least seen url shape first; pages that nothing links to come last."""
    by_url = {page.url: page for page in pages}
    waiting = deque([pages[0].url])
    queued = {pages[0].url}
    seen_shapes: Counter[str] = Counter()
    order = []
    while waiting or len(queued) < len(pages):
        if not waiting:
            orphan = next(url for url in by_url if url not in queued)
            waiting.append(orphan)
            queued.add(orphan)
        url = min(waiting, key=lambda u: seen_shapes[_shape(u)])
        waiting.remove(url)
        seen_shapes[_shape(url)] += 1
        order.append(by_url[url])
        for link in by_url[url].links:
            if link in by_url and link not in queued:
                queued.add(link)
                waiting.append(link)
    return order


def _shape(url: str) -> str:
    pattern = common_pattern([url])
    head = pattern.split("?")
    parts = [p for p in head[0].split("/") if p]
    return "/".join("*" if any(c.isdigit() for c in p) or "-" in p else p for p in parts[:-1]) + "?".join(head[1:])


def read_site(folder: Path, *, types: bool = False) -> list[StoredPage]:
    pages = []
    for line in (folder / "index.jsonl").read_text("utf-8").splitlines():
        row = json.loads(line)
        if not row.get("route"):
            continue
        tree = LexborHTMLParser(gzip.decompress((folder / row["file"]).read_bytes()))
        links = tuple(
            dict.fromkeys(
                urljoin(row["url"], (a.attributes.get("href") or "").split("#")[0]) for a in tree.css("a[href]")
            )
        )
        kind = row["page_type"] if types else ""
        pages.append(StoredPage(row["url"], row["route"], fingerprint(tokens(tree)), links, row["title"], kind))
    return pages


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sites", nargs="+", type=Path)
    parser.add_argument("--seeds", type=int, default=2, help="random orders to run")
    parser.add_argument("--types", action="store_true", help="the oracle answers with page types, not with routes")
    options = parser.parse_args()
    for folder in options.sites:
        pages = read_site(folder, types=options.types)
        orders = {"novelty": novelty_order(pages)}
        for seed in range(options.seeds):
            orders[f"random{seed}"] = random.Random(seed).sample(pages, len(pages))
        for name, order in orders.items():
            figures = evaluate(order)
            print(
                f"{folder.name:12} {name:8}",
                *(f"{k}={v:.3f}" if isinstance(v, float) else f"{k}={v}" for k, v in figures.items()),
            )


if __name__ == "__main__":
    main()
