"""Parts of this project in one of somebody else's, where nothing but ADDONS and settings changes."""

from __future__ import annotations

import ast
import re
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from llmcrawler.core.understanding.classification.page_types import DEFAULT_PAGE_TYPES
from tests.e2e.crawling import Outcome, scrapy
from tests.e2e.killing import lines_of
from tests.e2e.strangers_project import SPIDER, StrangersProject
from tests.e2e.test_records import served
from tests.nightly import rest_by_night
from tests.servers.fake_llm import FakeLLM
from tests.servers.limited_site import limited_site
from tests.servers.many_pages import ManyPages
from tests.servers.mock_site import TRIES, MockSite, html
from tests.servers.proxy_server import ProxyServer, answer
from tests.servers.record_sites import Site, make_site
from tests.servers.record_sites.scoring import Scores
from tests.servers.serving import all_in_thread
from tests.servers.teacher import answer_from_truth, path_of

LINKS = "".join(f'<a href="/page/{number}">{number}</a>' for number in range(12))


@pytest.fixture
def project(tmp_path: Path) -> StrangersProject:
    return StrangersProject(tmp_path)


def crawled(project: StrangersProject, url: str) -> Outcome:
    outcome = project.crawl(url)
    assert outcome.exit_status == 0, outcome.log
    assert "Traceback" not in outcome.log, outcome.log
    assert "'finish_reason': 'finished'" in outcome.log
    return outcome


def stat(outcome: Outcome, name: str) -> int:
    found = re.search(rf"'{re.escape(name)}': (\d+)", outcome.log)
    return int(found[1]) if found else 0


def paths(outcome: Outcome) -> Counter[str]:
    return Counter(path_of(item["url"]) for item in outcome.items)


# -- Politeness --------------------------------------------------------------------------------------------------------


def test_a_limit_of_items_ends_the_crawl_with_what_is_in_flight(project):
    project.set("Politeness", CLOSESPIDER_ITEMCOUNT=20, AUTOTHROTTLE_ENABLED=False)
    with limited_site(pages=150, latency_seconds=0.1).in_thread() as site:
        outcome = project.crawl(site.url())
    assert "'finish_reason': 'closespider_itemcount'" in outcome.log
    assert 20 <= len(outcome.items) <= 20 + 16  # CONCURRENT_REQUESTS, as without the add-on


def test_the_limit_of_a_host_holds_at_the_server_and_its_robots_txt_from_the_first_request(project):
    project.set("Politeness", AUTOTHROTTLE_ENABLED=False)
    robots = "User-agent: *\nDisallow: /page/5\n"
    with limited_site(pages=60, latency_seconds=0.1, robots=robots).in_thread() as site:
        outcome = crawled(project, site.url())
    assert site.measures.max_in_flight <= 5
    allowed = {f"/page/{number}" for number in range(60) if not str(number).startswith("5")}
    assert {path for path in paths(outcome) if path.startswith("/page/")} == allowed
    assert not [path for path in site.measures.hits if path.startswith("/page/5")]


def test_a_crawl_with_scrapys_own_scheduler_stops_when_it_is_told_to(project):
    project.set("Politeness")
    pages = ManyPages(400)
    with MockSite(pages.routes()).in_thread() as site:
        status = project.run_until(
            pages, 5, "crawl", "pages", "-a", f"url={site.url()}", "-O", "items.jsonl", number=signal.SIGTERM
        )
    assert status == 0  # that of Scrapy's own command
    assert "Stopping: waiting for " in project.log
    assert "Traceback" not in project.log, project.log


@pytest.mark.parametrize("status", rest_by_night([429, 503]))
def test_a_pause_that_a_host_asks_for_is_kept_and_costs_no_try(project, status):
    async def busy_once(request: web.Request) -> web.Response:
        if request.app[TRIES][request.path] == 1:
            return web.Response(status=status, headers={"Retry-After": "2"})
        return html("<title>Page 3</title>")

    project.set("Politeness", RETRY_TIMES=0, AUTOTHROTTLE_DEBUG=True)  # each decision has its line
    pages = dict.fromkeys((f"/page/{number}" for number in range(12)), "<title>Page</title>")
    with MockSite({"/": LINKS, **pages, "/page/3": busy_once}).in_thread() as site:
        outcome = crawled(project, site.url())
    assert paths(outcome) == dict.fromkeys(pages, 1)
    assert site.measures.hits["/page/3"] == 2
    assert stat(outcome, f"llmcrawler/throttle/put_back/status/{status}") == 1
    assert re.search(rf"{status}, Retry-After 2 s.*cools down for", outcome.log) is not None, outcome.log


def test_a_crawl_whose_host_has_no_robots_txt_to_be_had_fetches_nothing_and_ends(project):
    async def fails(_request: web.Request) -> web.Response:
        return web.Response(status=500)

    project.set("Politeness", THROTTLE_BREAKER_REST_SECONDS=0.2)
    with MockSite({"/": LINKS, "/robots.txt": fails}).in_thread() as site:
        outcome = crawled(project, site.url())
    assert site.measures.hits.keys() == {"/robots.txt"}
    assert 8 <= site.measures.hits["/robots.txt"] <= 20  # twice each time
    assert (
        "cannot be fetched, so nothing else is fetched from this host until it can: 500 Internal Server Error"
        in outcome.log
    )
    assert "is given up, nothing else is left to do" in outcome.log


def test_another_downloader_than_ours_is_refused(project):
    project.set("Politeness", DOWNLOADER="scrapy.core.downloader.Downloader")
    outcome = project.crawl("http://127.0.0.1:9/")
    assert outcome.exit_status == 1
    assert "ConfigError: DOWNLOADER='scrapy.core.downloader.Downloader' does not hold" in outcome.log


# -- PageUnderstanding -------------------------------------------------------------------------------------------------

TYPED_SPIDER = (
    SPIDER.replace('{"url": response.url, "html": response.text}', "PageItem(response.url, response.text)")
    + """
from dataclasses import dataclass

@dataclass
class PageItem:
    url: str
    html: str | None
    kind: str | None = None
    record: dict | None = None
"""
)


@pytest.fixture(scope="module")
def shop() -> Site:
    return make_site("shop")


def understood(project: StrangersProject, shop: Site, **settings: Any) -> tuple[Outcome, FakeLLM]:
    with served(shop).in_thread() as site, FakeLLM(answer_from_truth(shop.truth())).in_thread() as llm:
        model = {"LLM_PROVIDER": "openai", "LLM_BASE_URL": llm.base_url}
        project.set("PageUnderstanding", **{**model, **settings})
        return crawled(project, site.url()), llm


def check_records(items: dict[str, dict[str, Any]], shop: Site) -> None:
    """The values are those of the site's truth. One field that few pages have may be on no sample."""
    scores = Scores()
    for page in shop.records:
        scores.add(page, items[page.path]["record"], items[page.path]["url"])
    found = sorted(field.f1 for field in scores.fields.values())[1:]
    assert sum(found) / len(found) >= 0.95, str(scores)
    some = shop.records[0]
    assert scores.fields["name" if "name" in some.fields else next(iter(some.fields))].f1 > 0.95


def test_items_get_page_types_and_records(project, shop):
    outcome, llm = understood(project, shop)
    items = {path_of(item["url"]): item for item in outcome.items}
    assert len(items) == len(outcome.items) > len(shop.records)
    known = DEFAULT_PAGE_TYPES.names
    for path, item in items.items():
        truth = shop.truth()[path]["page_type"]
        assert item["page_type"] == (truth if truth in known else "other"), path
    assert {item["decided_by"] for item in items.values()} <= {"llm", "template", "structured-data"}
    assert all(0 < item["confidence"] <= 1 and item["template"] and item["error"] is None for item in items.values())
    assert all("<html" in item["html"].lower() or "<title" in item["html"].lower() for item in items.values())
    check_records(items, shop)
    assert llm.calls < len(items) / 3  # samples of the templates


@pytest.mark.nightly
def test_items_of_a_declared_type_get_what_they_have_fields_for(tmp_path, shop):
    project = StrangersProject(tmp_path, TYPED_SPIDER)
    fields = {"page_type": "kind", "record": "record", "template": "template"}
    outcome, _llm = understood(project, shop, UNDERSTANDING_FIELDS=fields, UNDERSTANDING_KEEP_HTML=False)
    assert {frozenset(item) for item in outcome.items} == {frozenset({"url", "kind", "record"})}
    items = {path_of(item["url"]): item for item in outcome.items}
    assert items[shop.records[0].path]["kind"] == "product"
    check_records(items, shop)


def test_records_have_the_fields_that_the_project_asks_for(project, shop):
    outcome, _llm = understood(project, shop, UNDERSTANDING_OPTIONS={"fields": "title,price:number"})
    records = [item["record"] for item in outcome.items if item["record"]]
    assert len(records) > 5
    assert all(set(record) <= {"title", "price"} for record in records)
    assert any(isinstance(record.get("price"), float) for record in records)


def test_items_without_fields_for_it_and_projects_without_such_items_are_told(tmp_path):
    bare = TYPED_SPIDER.replace("    kind: str | None = None\n    record: dict | None = None\n", "")
    project = StrangersProject(tmp_path, bare)
    project.set("PageUnderstanding")
    with MockSite({"/": '<a href="/page">x</a>', "/page": "<title>Page</title>"}).in_thread() as site:
        refused = project.crawl(site.url())
        project.write_spider(SPIDER.replace('"html"', '"body"'))
        passed = crawled(project, site.url())
    assert "ConfigError: PageItem has no field for the results: declare some of page_type" in refused.log
    assert "No item had a `url` and the page's `html`" in passed.log
    assert [sorted(item) for item in passed.items] == [["body", "url"]]


# -- Proxies -----------------------------------------------------------------------------------------------------------


def test_proxies_take_turns_and_what_is_not_the_page_is_asked_for_through_another(project):
    project.write(
        "shop/checks.py",
        "from llmcrawler.errors import NotThePage\n\n"
        "def is_the_page(response):\n"
        "    if 'please wait' in response.text:\n"
        "        raise NotThePage('a waiting room')\n",
    )
    waiting = ProxyServer(answer("200 OK", "<title>Shop</title>please wait"))
    good = [ProxyServer(), ProxyServer()]
    pages = {f"/page/{number}": f"<title>Page {number}</title>" for number in range(12)}
    with all_in_thread(waiting, *good), MockSite({"/": LINKS, **pages}).in_thread() as site:
        proxies = [one.url for one in (waiting, *good)]
        project.set("Proxies", PROXIES=proxies, VALIDATE_RESPONSE="shop.checks.is_the_page")
        outcome = crawled(project, site.url())
    assert paths(outcome) == dict.fromkeys(pages, 1)
    assert not [item for item in outcome.items if "please wait" in item["html"]]
    assert all(one.targets for one in (waiting, *good))
    asked_again = [target for target in waiting.targets if not target.endswith("/robots.txt")]
    assert set(asked_again) <= {target for one in good for target in one.targets}
    assert stat(outcome, "llmcrawler/not_the_page") == len(asked_again) > 0
    assert stat(outcome, "llmcrawler/politeness/proxies/switches") == len(asked_again)


# -- all of them -------------------------------------------------------------------------------------------------------


def test_all_of_them_work_together(project, tmp_path):
    source = (Path(__file__).parents[2] / "llmcrawler" / "addons.py").read_text(encoding="utf-8")
    addons = [node.name for node in ast.parse(source).body if isinstance(node, ast.ClassDef)]
    shop = make_site("shop")
    with served(shop).in_thread() as site, FakeLLM(answer_from_truth(shop.truth())).in_thread() as llm:
        one, other = ProxyServer(), ProxyServer()
        with all_in_thread(one, other):
            model = {"LLM_PROVIDER": "openai", "LLM_BASE_URL": llm.base_url, "JOBDIR": str(tmp_path / "job")}
            project.set(*addons, **model, PROXIES=[one.url, other.url])
            outcome = crawled(project, site.url())
    check_records({path_of(item["url"]): item for item in outcome.items}, shop)
    assert site.measures.max_in_flight <= 5
    assert one.targets
    assert other.targets


# -- somebody else's spider in this project ----------------------------------------------------------------------------

OWN_SPIDER = """
from scrapy.linkextractors import LinkExtractor
from scrapy.spiders import CrawlSpider, Rule


class TitlesSpider(CrawlSpider):
    name = "titles"
    rules = [Rule(LinkExtractor(), callback="parse_page", follow=True)]

    def __init__(self, at, **kwargs):
        super().__init__(**kwargs)
        self.start_urls = [at]

    def parse_page(self, response):
        yield {"url": response.url, "title": response.css("title::text").get()}
"""


def test_a_plain_spider_run_in_this_project_has_scrapys_scheduler_and_follows_a_link_once(tmp_path):
    (tmp_path / "titles.py").write_text(OWN_SPIDER, encoding="utf-8")
    pages, feed, job = ManyPages(30), tmp_path / "titles.jsonl", tmp_path / "job"
    with MockSite(pages.routes()).in_thread() as site:
        given = ("-a", f"at={site.url()}", "-O", feed)
        done = scrapy("runspider", tmp_path / "titles.py", *given, settings={"JOBDIR": job})
    assert done.returncode == 0, done.stderr
    # Scrapy sends the first request past its filter, so that a link to the start page is followed once more.
    asked = Counter(path for path in pages.requested if path != "/")
    assert asked == dict.fromkeys(pages.paths - {"/"}, 1)
    assert {line["url"] for line in lines_of(feed)} == {site.url(path) for path in pages.paths}
    assert (job / "requests.seen").exists()
