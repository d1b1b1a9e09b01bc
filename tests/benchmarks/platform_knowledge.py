"""How many calls of the model a site takes as more sites of its platform were crawled before, and what it costs in F1.

    python -m tests.benchmarks.platform_knowledge [--platforms 10] [--sites 20] [--at-once 1] [--without]

Sites of each platform (tests/servers/platform_sites.py) are crawled one after the other with one KNOWLEDGE_FILE, by
real crawls with a fake model that knows the truth. Printed: calls of each site, the mean over the first 1, 10, 50 and
200 sites in turn, and of each platform the macro F1 of records. `--without` crawls the same sites without the file.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from urllib.parse import urlsplit

from llmcrawler.core.understanding.classification.page_types import DEFAULT_PAGE_TYPES, FALLBACK_TYPE
from tests.e2e.crawling import explore
from tests.e2e.test_records import served
from tests.servers.fake_llm import FakeLLM
from tests.servers.platform_sites import PLATFORMS, answer_of_sites, platform_site
from tests.servers.record_sites import Site
from tests.servers.record_sites.scoring import Scores
from tests.servers.teacher import path_of

_MARKS = (1, 10, 50, 100, 200)


@dataclass
class Result:
    platform: str
    number: int
    calls: int
    tokens: int
    f1: float
    right_types: float
    adopted: int
    weak: str


def crawl_sites(platform: str, numbers: Sequence[int], folder: Path, knowledge: Path | None) -> list[Result]:
    """Crawl some sites of a platform in one crawl."""
    with ExitStack() as stack:
        sites: dict[str, Site] = {}
        urls = []
        for number in numbers:
            site = platform_site(platform, number)
            server = stack.enter_context(served(site).in_thread())
            urls.append(server.url("/"))
            sites[urlsplit(urls[-1]).netloc] = site
        llm = stack.enter_context(FakeLLM(answer_of_sites(sites)).in_thread())
        settings = {"LLM_PROVIDER": "openai", "LLM_BASE_URL": llm.base_url, "CONTENT_WORKERS": 0, "PROGRESS": "off"}
        shared = {"KNOWLEDGE_FILE": knowledge} if knowledge else {}
        outcome = explore(folder, ",".join(urls), settings | shared, max_pages=1000 * len(urls))
        assert outcome.exit_status == 0, outcome.log
        asked = [urlsplit(document["pages"][0]["url"]).netloc for document in llm.documents]
        results = []
        for number, (netloc, site) in zip(numbers, sites.items(), strict=True):
            lines = {path_of(page["url"]): page for page in outcome.pages if urlsplit(page["url"]).netloc == netloc}
            scores = Scores()
            for page in site.records:
                scores.add(page, lines[page.path]["record"], lines[page.path]["url"])
            right = fmean(lines[page.path]["page_type"] == _known_type(page.page_type) for page in site.pages)
            weak = ", ".join(
                f"{key} {one.f1:.2f}" for key, one in scores.fields.items() if one.wanted and one.f1 < 0.97
            )
            tokens = llm.tokens // len(numbers)
            adopted = sum(f" of {netloc}: its pages fit what sites of" in line for line in outcome.log.splitlines())
            results.append(Result(platform, number, asked.count(netloc), tokens, scores.macro, right, adopted, weak))
        return results


def _known_type(name: str) -> str:
    return name if name in DEFAULT_PAGE_TYPES.names else FALLBACK_TYPE


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--platforms", type=int, default=len(PLATFORMS))
    parser.add_argument("--sites", type=int, default=20)
    parser.add_argument("--first", type=int, default=0, help="the number of the first platform")
    parser.add_argument("--at-once", type=int, default=1, help="sites of a platform in one crawl, from the third on")
    parser.add_argument("--without", action="store_true")
    args = parser.parse_args()
    results: list[Result] = []
    platforms = list(PLATFORMS)[args.first : args.first + args.platforms]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        knowledge = None if args.without else folder / "knowledge.sqlite"
        starts = [1, 2, *range(3, args.sites + 1, args.at_once)]
        for start, end in pairwise([*starts, args.sites + 1]):  # in turn, as a campaign of all platforms meets them
            for platform in platforms:
                for one in crawl_sites(platform, range(start, end), folder, knowledge):
                    results.append(one)
                    print(
                        f"{platform:12} {one.number:4} calls {one.calls:3} tokens {one.tokens:7} F1 {one.f1:.4f} "
                        f"types {one.right_types:.4f} adopted {one.adopted} {one.weak}",
                        flush=True,
                    )
    for most in _MARKS:
        some = results[:most]
        print(f"first {len(some):4} sites: {fmean(one.calls for one in some):.2f} calls a site")
        if most >= len(results):
            break
    for platform in platforms:
        own = [one for one in results if one.platform == platform]
        print(
            f"{platform:12} {fmean(one.calls for one in own):.2f} calls a site, F1 {fmean(one.f1 for one in own):.4f}, "
            f"page types {fmean(one.right_types for one in own):.4f}"
        )


if __name__ == "__main__":
    main()
