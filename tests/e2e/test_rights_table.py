"""What sites say of the use of their pages, summed up: the table for a lawyer, status, report and summary."""

import csv
import json

import pytest
from aiohttp import web

from llmcrawler.commands import report, status
from tests.adapters.commands.run_here import printed
from tests.e2e import warm
from tests.e2e.crawling import TIMEOUT_SECONDS, command, environment, scrapy
from tests.servers.mock_site import MockSite
from tests.servers.redis_server import RedisServer

TEXT = "<html><title>{0}</title><body><p>A page about {0}, and about nothing else that there is.</p>{1}</body></html>"
LINKS = "".join(f'<a href="/{name}/">{name}</a>' for name in ("plain", "free", "=1+1", "missing"))
SAID_FOR_ALL = "search=yes, ai-train=no"
PURPOSE = {"RIGHTS_POLICY": "record", "CRAWL_PURPOSE": "ai-train"}


async def _free(_request):
    headers = {"Content-Signal": "ai-train=yes", "tdm-reservation": "0"}
    return web.Response(text=TEXT.format("free", ""), content_type="text/html", headers=headers)


@pytest.fixture(scope="module")
def site():
    """The whole site may be searched and not be learned from; the headers of one page allow that."""
    robots = f"User-agent: *\nContent-Signal: {SAID_FOR_ALL}\nAllow: /\n"
    fine = {f"/{name}/": TEXT.format(name, "") for name in ("plain", "=1+1")}
    with MockSite(
        {"/robots.txt": robots, "/": TEXT.format("home", LINKS), "/free/": _free, **fine}
    ).in_thread() as site:
        yield site


def crawl(folder, site, settings, worker=""):
    """Crawl into the feeds pages.jsonl and rights.csv; return the log."""
    feeds = ["-O", str(folder / f"pages{worker}.jsonl"), "-O", f"{folder / f'rights{worker}.csv'}:rights"]
    done = warm.run([*command({"url": site.url()}, settings, None)[3:], *feeds], environment(), TIMEOUT_SECONDS)
    assert done.returncode == 0, done.stderr
    return done.stderr


@pytest.fixture(scope="module")
def job(site, tmp_path_factory):
    folder = tmp_path_factory.mktemp("rights")
    (folder / "log").write_text(crawl(folder, site, PURPOSE | {"JOBDIR": folder / "job"}))
    return folder


def rows_of(path, site):
    with path.open(newline="", encoding="utf-8") as file:
        return {row["url"].removeprefix(site.origin): row for row in csv.DictReader(file)}


def test_the_table_has_a_row_for_each_page_with_what_was_said_where(job, site):
    rows = rows_of(job / "rights.csv", site)
    assert set(rows) == {"/", "/plain/", "/free/", "/=1+1/", "/missing/"}
    said = f"{site.url('/robots.txt')}: {SAID_FOR_ALL}"
    assert {(row["search"], row["content-signal"].splitlines()[0]) for row in rows.values()} == {("yes", said)}
    plain, free = rows["/plain/"], rows["/free/"]
    assert (plain["purpose"], plain["verdict"], plain["ai-train"]) == ("ai-train", "forbidden", "no")
    assert (plain["host"], plain["status"], plain["conflicts"]) == (site.origin.partition("://")[2], "200", "")
    assert (free["content-signal"], free["tdmrep"]) == (f"{said}\nheader: ai-train=yes", "header: 0")
    assert free["conflicts"].startswith("ai-train: no by content-signal")
    assert rows["/missing/"]["error.kind"] == "http_404"


def test_status_summary_and_report_sum_it_up(job, site):
    rights = json.loads(printed(status.Command(), job / "job", "--json"))["rights"]
    assert rights["verdicts"] == {"forbidden": 5}
    assert rights["signals"] == {"content-signal": 5, "tdmrep": 1}
    assert (rights["uses"]["ai-train: no"], rights["conflicts"], rights["noindex"]) == (5, 1, 0)
    shown = [" ".join(line.split()) for line in printed(status.Command(), job / "job").splitlines()]
    assert {"forbidden for the declared purpose 5", "said by content-signal 5", "signals in conflict 1"} <= {*shown}
    log = (job / "log").read_text()
    assert "Use of the pages: " in log
    assert "said by content-signal 5, tdmrep 1" in log
    made = job / "report.html"
    printed(report.Command(), job / "job", "-o", made)
    section = made.read_text().partition('<section id="rights"')[2].partition("</section>")[0]
    assert "signals in conflict" in section


@pytest.mark.nightly
def test_workers_who_share_a_crawl_sum_it_up_too(site, tmp_path):
    (tmp_path / "redis").mkdir()
    with RedisServer(tmp_path / "redis") as redis:
        crawl(tmp_path, site, PURPOSE | {"REDIS_URL": redis.url, "CRAWL_ID": "rights"}, "-%(worker)s")
        rights = json.loads(scrapy("status", redis.url, "rights", "--json").stdout)["rights"]
        shown = " ".join(scrapy("status", redis.url, "rights").stdout.split())
    assert (rights["verdicts"], rights["conflicts"]) == ({"forbidden": 5}, 1)
    assert "forbidden for the declared purpose 5" in shown
    (table,) = tmp_path.glob("rights-*.csv")
    assert len(rows_of(table, site)) == 5
