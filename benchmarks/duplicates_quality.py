"""How many duplicates are found, what that costs, and what the model is asked with and without them.

    python -m benchmarks.duplicates_quality [--site FOLDER ...] [--crawl]

Reads the pages of tests/servers/duplicate_site.py in several orders, and those of stored sites (an index.jsonl with
`file` and `url`), whose duplicates are printed to be looked at: milliseconds a page, and memory. `--crawl` also crawls
the site with its duplicates and without, and compares the calls of a model that answers by the url.
"""

from __future__ import annotations

import argparse
import gzip
import json
import tempfile
import time
import tracemalloc
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from random import Random

from llmcrawler.core.content import Boilerplate, main_blocks, read_page
from llmcrawler.core.understanding.templates.duplicates import DuplicateIndex, PageSketch, sketch_page
from llmcrawler.core.urls import canonical_link, site_name
from llmcrawler.items import PageContent
from tests.e2e.crawling import explore
from tests.servers.duplicate_site import DuplicateSite
from tests.servers.fake_llm import FakeLLM, label_by_url
from tests.servers.mock_site import MockSite

_ORIGIN = "http://lamps.test"
_LABELS = [("/lamp/", "product"), ("/story/", "article"), ("/lists/", "listing")]


def judged(pages: Iterable[tuple[str, PageContent]]) -> tuple[dict[str, str | None], float]:
    """Return what each page repeats, and the processor time for that in milliseconds a page."""
    indexes: dict[str, tuple[DuplicateIndex, Boilerplate]] = {}
    found: dict[str, str | None] = {}
    seconds = 0.0
    for url, content in pages:
        index, boilerplate = indexes.setdefault(site_name(url), (DuplicateIndex(), Boilerplate()))
        boilerplate.observe(content.blocks)
        main = main_blocks(content.blocks, boilerplate)
        started = time.process_time()
        sketch = sketch_page(content, main, url)
        found[url] = index.first_of(url, sketch, address=url, canonical=content.metadata.get("canonical"))
        seconds += time.process_time() - started
    return found, 1000 * seconds / max(1, len(found))


def generated() -> None:
    site = DuplicateSite()
    pages = []
    for path, page in site.pages.items():
        url = _ORIGIN + path
        content = read_page(page.html(), url)
        if named := canonical_link(page.header, url):
            content = replace(content, metadata={**content.metadata, "canonical": named})
        pages.append((url, content))
    for order in range(6):
        if order:
            Random(order).shuffle(pages)
        found, ms = judged(pages)
        missed, wrong = site.faults({"url": url, "duplicate_of": first} for url, first in found.items())
        print(
            f"generated site, order {order}: {100 - len(missed)} of 100 found, {len(wrong)} wrong, {ms:.3f} ms a page"
        )


def stored(folder: Path) -> None:
    pages = []
    for line in (folder / "index.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        html = gzip.decompress((folder / row["file"]).read_bytes()).decode("utf-8", "replace")
        pages.append((row["url"], read_page(html, row["url"])))
    found, ms = judged(pages)
    repeats = {url: first for url, first in found.items() if first is not None}
    print(f"{folder.name}: {len(repeats)} of {len(found)} pages are duplicates, {ms:.3f} ms a page")
    for url, first in repeats.items():
        print(f"  {url} = {first}")


def memory(count: int = 20_000) -> None:
    random, index = Random(1), DuplicateIndex(count)
    tracemalloc.start()
    for number in range(count):
        url = f"https://shop.example/catalogue/{random.randbytes(12).hex()}_{number}/"
        index.first_of(url, PageSketch(*(random.getrandbits(64) for _ in range(6))), address=url)
    held, _peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    started = time.process_time()
    size = len(index.to_json())
    ms = 1000 * (time.process_time() - started)
    print(f"{count:,} pages: {held / count:.0f} bytes a page in memory, {size / count:.0f} saved, in {ms:.0f} ms")


def crawled() -> None:
    for has_duplicates in (False, True):
        site = DuplicateSite(with_duplicates=has_duplicates)
        with (
            MockSite(site.routes(), latency_seconds=0.02).in_thread() as server,
            FakeLLM(label_by_url(_LABELS)).in_thread() as llm,
            tempfile.TemporaryDirectory() as folder,
        ):
            settings = {"LLM_PROVIDER": "openai", "LLM_BASE_URL": llm.base_url, "LLM_BATCH_WAIT_SECONDS": 5}
            outcome = explore(Path(folder), server.url("/"), settings, max_pages=300)
        missed, wrong = site.faults(outcome.pages)
        shown = sum(len(document["pages"]) for document in llm.documents if document["task"] == "classify")
        print(
            f"crawl of {len(outcome.pages)} urls: {len(missed)} of {len(site.first)} missed, {len(wrong)} wrong, "
            f"{llm.calls} calls, {shown} pages shown for their types"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--site", type=Path, action="append", default=[])
    parser.add_argument("--crawl", action="store_true")
    given = parser.parse_args()
    generated()
    memory()
    for folder in given.site:
        stored(folder)
    if given.crawl:
        crawled()


if __name__ == "__main__":
    main()
