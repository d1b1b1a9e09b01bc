"""What `scrapy apply` takes for an archive of many pages, and whether its records are those of the crawls.

    python -m benchmarks.archive_apply [SITE_DIR ...] [--pages 100000] [--processes 1 2] [--keep DIR] [--plain]

Each generated site (tests/servers/record_sites) and each stored one (SITE_DIR/index.jsonl, pages beside it) is crawled
once, with a model that answers from its truth, into one archive and one TEMPLATES_FILE. The archive is repeated up to
so many pages, and applied with so many processes. Printed for each: pages a second, processor time a page, the
memory of the largest process, the share of lines with the page type and record of the crawl, and the F1 of the records,
of the crawls and of the lines. `--keep` has the archive made once for several runs; `--plain` leaves it unpacked.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from statistics import fmean
from typing import Any
from urllib.parse import urlsplit

from benchmarks.records_quality import stored_sites
from benchmarks.throughput import ROOT, SCRAPY, load_pages, run
from tests.e2e.crawling import explore
from tests.servers.campaign_sites import FINE, CampaignSites, HostedSite
from tests.servers.fake_llm import FakeLLM
from tests.servers.record_sites import SITES, SitePage, make_site
from tests.servers.record_sites.scoring import Scores
from tests.servers.teacher import Truth, answer_from_truth, path_of

Line = dict[str, Any]
Pages = dict[str, dict[str, SitePage]]  # with their truth, by host and path


def stored_pages(folder: Path) -> list[SitePage]:
    """All pages of a stored site, with the truth that its records are measured by."""
    fields = {page.path: page.fields for site in stored_sites(folder) for page in site.pages}
    rows = [json.loads(line) for line in (folder / "index.jsonl").open(encoding="utf-8")]
    types = {path_of(row["url"]): row["page_type"] for row in rows}
    bodies = load_pages(folder).items()
    return [SitePage(path, body.decode(), types[path], fields.get(path, {})) for path, body in bodies]


def crawled(sites: Pages, server: CampaignSites, folder: Path, suffix: str) -> tuple[Path, list[Line]]:
    """Learn of all sites, and return their archive and their lines."""
    lines: list[Line] = []
    archive = folder / f"all{suffix}"
    with archive.open("wb") as out:
        for host, pages in sites.items():
            truth: Truth = {path: {"page_type": page.page_type, "fields": page.fields} for path, page in pages.items()}
            with FakeLLM(answer_from_truth(truth)).in_thread() as llm:
                settings = {
                    "LLM_PROVIDER": "openai",
                    "LLM_BASE_URL": llm.base_url,
                    "TEMPLATES_FILE": folder / "learned.json",
                    "CRAWL_MAX_ERRORS_SHARE": 1,  # some sites link to pages that they do not have
                    "FEEDS": json.dumps({str(folder / f"site{suffix}"): {"format": "warc", "overwrite": True}}),
                }
                start = f"http://{host}:{server.port}{next(iter(pages))}"
                done = explore(folder, start, settings, duplicates="keep", max_pages=10_000)
            assert done.exit_status == 0, done.log
            found = [page for page in done.pages if page["content_hash"]]
            print(f"{host}: {len(found)} pages of {len(pages)}, {len(llm.documents)} calls of the model", flush=True)
            lines += found
            out.write((folder / f"site{suffix}").read_bytes())
    return archive, lines


def repeated(archive: Path, times: int) -> Path:
    many = archive.with_name(f"many-{archive.name}")
    with many.open("wb") as out:
        for _ in range(times):
            out.write(archive.read_bytes())
    return many


def lines_in(folder: Path) -> Iterator[Line]:
    for part in sorted(folder.glob("part-*.jsonl")):
        with part.open(encoding="utf-8") as opened:
            yield from (line for line in map(json.loads, opened) if line["status"] == 200)


def f1(lines: Iterable[Line], sites: Pages) -> float:
    """The mean over the sites and their page types of their fields' F1."""
    scores: dict[tuple[str, str], Scores] = {}
    for line in lines:
        parts = urlsplit(line["url"])
        page = sites[str(parts.hostname)].get(path_of(line["url"]))
        if page is not None and page.fields:
            scores.setdefault((parts.netloc, page.page_type), Scores()).add(page, line["record"], line["url"])
    return fmean(one.macro for one in scores.values())


def applied(folder: Path, archive: Path, processes: int) -> Path:
    out = folder / f"lines-{processes}"
    given = [str(folder / "learned.json"), str(archive), "-o", str(out), "--processes", str(processes)]
    done = run([*SCRAPY, "apply", *given], ROOT, folder / "log")
    pages = sum(1 for _ in lines_in(out))
    cpu = done.user_seconds + done.system_seconds
    print(
        f"{processes} processes: {pages:,} pages in {done.wall_seconds:,.0f} s: {pages / done.wall_seconds:,.0f}/s; "
        f"CPU {cpu / pages * 1000:.2f} ms a page; at most {done.peak_bytes / 2**20:.0f} MB a process",
        flush=True,
    )
    return out


def compare(out: Path, lines: list[Line], sites: Pages) -> None:
    crawl = {line["url"]: (line["page_type"], line["record"]) for line in lines}
    pages = same = records = 0
    others: dict[str, Line] = {}
    once: dict[str, Line] = {}
    for line in lines_in(out):
        pages += 1
        is_same = crawl[line["url"]] == (line["page_type"], line["record"])
        same += is_same
        records += line["record"] is not None
        once.setdefault(line["url"], line)
        if not is_same:
            others.setdefault(line["url"], line)
    print(f"  as in the crawl: {same:,} of {pages:,} ({same / pages:.2%}); {records:,} have a record")
    for url, line in list(others.items())[:10]:
        print(f"    {url}: {line['page_type']} {line['record']} and not {crawl[url]}"[:400])
    print(f"  F1 {f1(once.values(), sites):.4f}, of the crawls {f1(lines, sites):.4f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stored", type=Path, nargs="*")
    parser.add_argument("--pages", type=int, default=100_000)
    parser.add_argument("--processes", type=int, nargs="*", default=[1, 2])
    parser.add_argument("--keep", type=Path, help="a folder for what is made")
    parser.add_argument("--plain", action="store_true")
    options = parser.parse_args()
    server = CampaignSites([FINE] * len(SITES))
    sites: Pages = {
        host: {page.path: page for page in sorted(make_site(name, number).pages, key=lambda one: one.path != "/")}
        for number, (host, name) in enumerate(zip(server.sites, SITES, strict=True))
    }
    for number, folder in enumerate(options.stored):
        host, pages = f"127.2.0.{number + 1}", stored_pages(folder)
        sites[host] = {page.path: page for page in pages}
        server.sites[host] = HostedSite(host, FINE, {page.path: page.html for page in pages})
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        with server.in_thread():
            archive, lines = crawled(sites, server, folder, ".warc" if options.plain else ".warc.gz")
        many = repeated(archive, -(-options.pages // len(lines)))
        print(f"{len(lines):,} pages of {len(sites)} sites; {many.stat().st_size / 2**20:,.0f} MB", flush=True)
        for processes in options.processes:
            out = applied(folder, many, processes)
            compare(out, lines, sites)


if __name__ == "__main__":
    sys.exit(main())
