"""Crawls with a JOBDIR that are taken down, or lose a server, at random moments: what is lost, and what comes twice.

    python -m benchmarks.kill_crawl [--pages 500] [--kills 20] [--signal KILL|TERM|INT|mixed] [--seed 1]
    python -m benchmarks.kill_crawl --victim site|llm [--down 20]      stops that server, once, in mid-crawl

The site has a latency of --latency seconds, the model (a fake one, a server too) of --llm-latency. After each kill the
same command goes on. Exit status 1 when a page is missing or comes twice in the feed, when one of them has an error, or
when the site was asked again for a page that was stored at a kill.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import time
from collections import Counter
from functools import partial
from pathlib import Path
from random import Random

from tests.e2e.killing import JobCrawl, lines_of, paths_of, wait_until
from tests.servers.fake_llm import FakeLLM, label_by_url
from tests.servers.many_pages import ManyPages
from tests.servers.mock_site import MockSite

LABELS = [("/item/", "product"), ("/list/", "listing")]


def _has_asked(pages: ManyPages, count: int) -> bool:
    return len(pages.requested) >= count


def kill_at_random(crawl: JobCrawl, pages: ManyPages, options: argparse.Namespace) -> None:
    random = Random(options.seed)
    for number in range(options.kills):
        name = options.signal if options.signal != "mixed" else random.choice(("KILL", "TERM", "INT"))
        most = len(pages.requested) + random.randint(0, 2 * options.pages // (options.kills + 1))
        with crawl.running() as process:
            if random.random() < 0.25:  # while it starts, or reads what it has
                time.sleep(random.uniform(0.0, 3.0))
            else:
                wait_until(partial(_has_asked, pages, most), pages, process)
                time.sleep(random.uniform(0.0, 0.3))
            crawl.pending_at_ends.append(pages.pending)
            process.send_signal(getattr(signal, f"SIG{name}"))
        print(f"kill {number + 1:3}: {name:4} with {len(pages.requested)} requests, exit status {process.returncode}")


def report(pages: ManyPages, crawl: JobCrawl, feed: Path) -> bool:
    lines = [line for line in lines_of(feed) if line["kind"] == "page"]
    found, wanted = paths_of(lines), Counter(pages.paths)
    errors = Counter(line["error"]["kind"] for line in lines if line["error"])
    missing, twice = wanted - found, found - wanted
    again = crawl.repeats_of_stored() if crawl.pages else Counter()
    print(f"pages {len(wanted)}, missing {missing.total()}, twice or unknown {twice.total()}, errors {dict(errors)}")
    if crawl.pending_at_ends:
        repeats = Counter(pages.requested) - wanted
        unanswered = Counter(path for paths in crawl.pending_at_ends for path in set(paths))
        print(
            f"requests {len(pages.requested)}, repeated {repeats.total()}; in flight at kills {unanswered.total()}; "
            f"repeated though answered {(repeats - unanswered).total()}, of which stored {again.total()}"
        )
    return not (missing or twice or errors or again)


def kill_crawls(folder: Path, options: argparse.Namespace) -> bool:
    pages, feed = ManyPages(options.pages, latency_seconds=options.latency), folder / "pages.jsonl"
    llm = FakeLLM(label_by_url(LABELS, "homepage"), latency_seconds=options.llm_latency)
    with MockSite(pages.routes()).in_thread() as site, llm.in_thread():
        settings = {"LLM_PROVIDER": "openai", "LLM_BASE_URL": llm.base_url}
        crawl = JobCrawl(folder, site.url(), settings, feeds=["-O", feed], pages=pages)
        kill_at_random(crawl, pages, options)
        status = crawl.run()
    if status:
        print(crawl.logs[-1][-3000:])
    return report(pages, crawl, feed) and status == 0


def kill_server(folder: Path, options: argparse.Namespace) -> bool:
    pages, feed = ManyPages(options.pages, latency_seconds=options.latency), folder / "pages.jsonl"
    llm = FakeLLM(label_by_url(LABELS, "homepage"), latency_seconds=options.llm_latency)
    with MockSite(pages.routes()).in_thread() as site, llm.in_thread():
        settings = {"LLM_PROVIDER": "openai", "LLM_BASE_URL": llm.base_url}
        crawl = JobCrawl(folder, site.url(), settings, feeds=["-O", feed])
        with crawl.running() as process:
            share = Random(options.seed).uniform(0.05, 0.6)
            wait_until(partial(_has_asked, pages, round(share * options.pages)), pages, process)
            print(f"stops the {options.victim} server after {share:.0%} of the pages, for {options.down} s")
            with site.away() if options.victim == "site" else llm.away():
                time.sleep(options.down)
    if process.returncode:
        print(crawl.logs[-1][-3000:])
    return report(pages, crawl, feed) and process.returncode == 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pages", type=int, default=500)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--signal", choices=("KILL", "TERM", "INT", "mixed"), default="KILL")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--latency", type=float, default=0.1)
    parser.add_argument("--llm-latency", type=float, default=1.0)
    parser.add_argument("--victim", choices=("crawl", "site", "llm"), default="crawl")
    parser.add_argument("--down", type=float, default=20.0, help="seconds that a server is away")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        is_well = (kill_crawls if options.victim == "crawl" else kill_server)(Path(folder), options)
    sys.exit(0 if is_well else 1)


if __name__ == "__main__":
    main()
