"""A job's stages: recorded, bounded, skipped when they were successful, forced to run again; and refreshes."""

from collections import Counter
from collections.abc import Iterator

import pytest
from aiohttp import web

from llmcrawler.core.storage import read_job_file
from tests.e2e.crawling import explore
from tests.nightly import rest_by_night
from tests.servers.fake_llm import FakeLLM, label_by_url
from tests.servers.mock_site import MockSite

OWN = "tests.e2e.own_stages"
LINK = '<a href="/page/{n}/">Page {n}</a>'
TEXT = "It says something that no other page says, at some length, so that it is a text of its own, number {n}."


@pytest.fixture
def llm() -> Iterator[FakeLLM]:
    with FakeLLM(label_by_url([("/product/", "product"), ("/category/", "listing")])).in_thread() as server:
        yield server


def with_llm(llm, tmp_path, **settings):
    return {"LLM_PROVIDER": "openai", "LLM_BASE_URL": llm.base_url, "JOBDIR": tmp_path / "job", **settings}


def stage_statuses(tmp_path, stage):
    connection = read_job_file(tmp_path / "job" / "crawl.sqlite")
    rows = connection.execute(
        "SELECT status, count(*) FROM stages WHERE stage = ? GROUP BY status", (stage,)
    ).fetchall()
    connection.close()
    return dict(rows)


def test_every_stage_records_itself_and_a_stage_of_ones_own_is_one_of_them(tmp_path, site, llm):
    settings = with_llm(llm, tmp_path, PAGE_STAGES=f"{OWN}.count_words,{OWN}.breaks_on_products")
    outcome = explore(tmp_path, site.url(), settings)
    fine = [page for page in outcome.pages if page["title"]]
    products = [page for page in fine if page["page_type"] == "product"]
    assert all(page["results"]["count_words"] == len(page["text"].split()) for page in fine)
    assert {page["error"]["stage"] for page in products} == {"breaks_on_products"}
    assert "RuntimeError: no products today" in products[0]["error"]["message"]
    assert outcome.exit_status == 1  # an exception is an error of the crawl too
    assert stage_statuses(tmp_path, "classify") == {"success": len(fine)}
    assert stage_statuses(tmp_path, "count_words") == {"success": len(fine)}
    others = len(fine) - len(products)
    assert stage_statuses(tmp_path, "breaks_on_products") == {"success": others, "failed": len(products)}

    requests, calls = site.measures.hits.total(), llm.calls
    again = explore(tmp_path, site.url(), with_llm(llm, tmp_path), force="count_words")
    assert (site.measures.hits.total(), llm.calls) == (requests, calls)
    assert len(again.pages) == len(outcome.pages)


@pytest.mark.nightly
def test_a_stage_that_takes_too_long_is_the_pages_error_and_not_the_crawls(tmp_path, site):
    settings = {"PAGE_STAGES": f"{OWN}.takes_for_ever", "STAGE_TIMEOUT_SECONDS": 2, "RECORD_PAGE_TYPES": "none"}
    outcome = explore(tmp_path, site.url(), settings)
    assert outcome.page("/terms/")["error"] == {
        "stage": "takes_for_ever",
        "kind": "timeout",
        "message": "it took longer than STAGE_TIMEOUT_SECONDS=2",
        "attempts": 1,
    }
    assert outcome.error_kinds() == {"timeout": 1}
    assert outcome.exit_status == 0


def test_a_stage_that_does_what_it_should_not_costs_no_page_its_line(tmp_path, site):
    settings = {"PAGE_STAGES": f"{OWN}.misbehaves,{OWN}.count_words", "JOBDIR": tmp_path / "job"}
    outcome = explore(tmp_path, site.url(), {**settings, "RECORD_PAGE_TYPES": "none"}, depth=1)
    assert outcome.page("/terms/")["error"]["message"] == "RuntimeError: half a pair: \ufffd"
    assert outcome.page("/")["error"]["message"] == "SystemExit: 3"
    others = [page for page in outcome.pages if page["error"] is None]
    assert {page["record"]["price"] for page in others} == {"1.50"}
    assert "Error caught" not in outcome.log


@pytest.mark.nightly
def test_a_page_whose_stage_takes_the_process_down_each_time_is_given_up_and_the_crawl_goes_on(tmp_path, site):
    settings = {"PAGE_STAGES": f"{OWN}.ends_the_process", "JOBDIR": tmp_path / "job", "MAX_LEASES": 2}
    assert [explore(tmp_path, site.url(), settings, depth=1).exit_status for _run in range(2)] == [9, 9]
    outcome = explore(tmp_path, site.url(), settings, depth=1)
    assert outcome.exit_status == 0
    error = outcome.page("/terms/")["error"]
    assert (error["stage"], error["kind"], error["attempts"]) == ("ends_the_process", "lost", 2)
    assert outcome.error_kinds().keys() == {"lost"}  # another page that is in a stage each time is lost with it
    assert outcome.error_kinds()["lost"] < len(outcome.pages) / 2


def test_classification_can_be_forced_again_without_a_request_to_the_site(tmp_path, site, llm):
    first = explore(tmp_path, site.url(), with_llm(llm, tmp_path))
    requests, calls = site.measures.hits.total(), llm.calls
    llm.answer = label_by_url([("/product/", "article")], "listing")
    again = explore(tmp_path, site.url(), with_llm(llm, tmp_path), force="classify")
    assert site.measures.hits.total() == requests
    assert llm.calls > calls
    assert {page["url"] for page in again.pages} == {page["url"] for page in first.pages}
    before = {page["url"]: page for page in first.pages}
    for page in again.pages:
        earlier = before[page["url"]]
        if earlier["decided_by"] in ("llm", "template"):
            assert page["page_type"] == ("article" if "/product/" in page["url"] else "listing")
        assert [page[name] for name in ("fetched_at", "error", "title")] == [
            earlier[name] for name in ("fetched_at", "error", "title")
        ]


async def _no_robots(_request):
    return web.Response(status=404)


class Changing:
    """A site of some pages, each with an ETag or without, that can be changed."""

    def __init__(self, *, has_etags: bool) -> None:
        self.texts = {n: TEXT.format(n=n) for n in range(8)}
        self.has_etags = has_etags
        self.statuses: Counter[int] = Counter()

    def routes(self):
        return {"/": self._home, "/robots.txt": _no_robots, **{f"/page/{n}/": self._page for n in range(20)}}

    def _answer(self, request, body):
        headers = {"ETag": f'"{hash(body)}"'} if self.has_etags else {}
        status = 304 if headers and request.headers.get("If-None-Match") == headers["ETag"] else 200
        self.statuses[status] += 1
        if status == 304:
            return web.Response(status=304, headers=headers)
        # A token in every page: no two answers are the same, byte for byte.
        token = "" if self.has_etags else f'<meta name="token" content="{sum(self.statuses.values())}">'
        return web.Response(text=f"<html><head>{token}{body}</html>", content_type="text/html", headers=headers)

    async def _home(self, request):
        links = " ".join(LINK.format(n=n) for n in self.texts)
        return self._answer(request, f"<title>Home</title></head><body><h1>Home</h1>{links}</body>")

    async def _page(self, request):
        n = int(request.path.split("/")[2])
        if n not in self.texts:
            return web.Response(status=404)
        return self._answer(
            request, f"<title>Page {n}</title></head><body><h1>Page {n}</h1><p>{self.texts[n]}</p></body>"
        )


@pytest.mark.parametrize("has_etags", rest_by_night([True, False]))
def test_a_refresh_tells_what_has_changed_and_asks_the_model_nothing_of_the_rest(tmp_path, llm, has_etags):
    changing = Changing(has_etags=has_etags)
    with MockSite(changing.routes()).in_thread() as site:
        settings = with_llm(llm, tmp_path)
        first = explore(tmp_path, site.url(), settings, refresh=1)
        assert Counter(page["change"] for page in first.pages) == {"new": 9}
        calls = llm.calls
        second = explore(tmp_path, site.url(), settings, refresh=1)
        assert Counter(page["change"] for page in second.pages) == {"unchanged": 9}
        assert llm.calls == calls
        if has_etags:
            assert changing.statuses == {200: 9, 304: 9}

        changing.texts[2] += " And one more thing that is new about this page."
        del changing.texts[3]
        changing.texts[9] = TEXT.format(n=9)
        third = explore(tmp_path, site.url(), settings, refresh=1)
        changes = {page["url"].split("/", 3)[3]: page["change"] for page in third.pages}
        expected = dict.fromkeys([f"page/{n}/" for n in (0, 1, 4, 5, 6, 7)], "unchanged")
        assert changes == expected | {"": "changed", "page/2/": "changed", "page/3/": "gone", "page/9/": "new"}
        kept = ("page_type", "record", "title", "text", "template")
        assert [third.page("/page/4/")[name] for name in kept] == [first.page("/page/4/")[name] for name in kept]

        fourth = explore(tmp_path, site.url(), settings, refresh=1)
        assert {page["change"] for page in fourth.pages} == {"unchanged"}
        assert fourth.page("/page/3/")["error"]["kind"] == "http_404"

        changing.texts[3] = TEXT.format(n=3)
        fifth = explore(tmp_path, site.url(), settings, refresh=1)
        assert fifth.page("/page/3/")["change"] == "new"
