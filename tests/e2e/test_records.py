"""Records, as a user gets them: crawls of sites whose truth is known, with a (fake) model that is asked a few times."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from aiohttp import web

from tests.e2e.crawling import Outcome, explore
from tests.nightly import rest_by_night
from tests.servers.fake_llm import FakeLLM
from tests.servers.mock_site import MockSite, html
from tests.servers.record_sites import REDESIGNED, Site, SitePage, make_site
from tests.servers.record_sites.scoring import Scores, texts_of
from tests.servers.teacher import answer_from_truth, path_of

DATE = re.compile(r"(\d{4})-(\d{2})-(\d{2})(?:T.*)?")


async def _nothing(_request: web.Request) -> web.Response:
    raise web.HTTPNotFound


def served(site: Site, **changed: Any) -> MockSite:
    return MockSite({**site.routes(), "/robots.txt": _nothing, "/sitemap.xml": _nothing, **changed})


def crawled(
    tmp_path: Path, server: MockSite, llm: FakeLLM, settings: dict[str, Any] | None = None, **arguments: Any
) -> Outcome:
    # Most of some sites' links lead nowhere.
    model = {"LLM_PROVIDER": "openai", "LLM_BASE_URL": llm.base_url, "CRAWL_MAX_ERRORS_SHARE": 1}
    outcome = explore(tmp_path, server.url("/"), {**model, **(settings or {})}, **arguments)
    assert outcome.exit_status == 0, outcome.log
    assert "Traceback" not in outcome.log
    return outcome


def crawl_of_site(tmp_path: Path, site: Site, settings: dict[str, Any] | None = None, **arguments: Any) -> Outcome:
    with served(site).in_thread() as server, FakeLLM(answer_from_truth(site.truth())).in_thread() as llm:
        return crawled(tmp_path, server, llm, settings, **arguments)


def lines_of(outcome: Outcome) -> dict[str, dict[str, Any]]:
    return {path_of(page["url"]): page for page in outcome.pages}


def scores_of(outcome: Outcome, site: Site) -> Scores:
    """Over all pages of the site that have records in truth."""
    lines, scores = lines_of(outcome), Scores()
    for page in site.records:
        scores.add(page, lines[page.path]["record"], lines[page.path]["url"])
    return scores


def assert_nearly_all_is_found(scores: Scores) -> None:
    """Which pages are samples hangs on the order in which they come: one field that few pages have may be on none."""
    most = max(field.wanted for field in scores.fields.values())
    unseen = [name for name, field in scores.fields.items() if not field.right and field.wanted < 0.75 * most]
    found = [field.f1 for name, field in scores.fields.items() if name not in unseen[:1]]
    assert sum(found) / len(found) >= 0.93, str(scores)


def induced(llm: FakeLLM) -> list[dict[str, Any]]:
    return [document for document in llm.documents if document["task"] == "induce"]


@pytest.fixture(scope="module")
def shop() -> Site:
    return make_site("shop")


@pytest.fixture(scope="module")
def shop_outcome(shop: Site, tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    return crawl_of_site(tmp_path_factory.mktemp("shop"), shop)


@pytest.mark.parametrize("name", rest_by_night(["news", "jobs", "people", "forum"]))
def test_records_come_out_with_their_values(tmp_path, name):
    site = make_site(name)
    outcome = crawl_of_site(tmp_path, site)
    scores = scores_of(outcome, site)
    assert_nearly_all_is_found(scores)
    assert_nothing_is_invented(outcome, site)


def test_every_product_has_its_record(shop, shop_outcome):
    scores = scores_of(shop_outcome, shop)
    assert_nearly_all_is_found(scores)
    assert {lines_of(shop_outcome)[page.path]["page_type"] for page in shop.records} == {"product"}


def test_what_a_page_lacks_is_null(shop, shop_outcome):
    lines = lines_of(shop_outcome)
    unavailable = [page for page in shop.records if page.fields["price"] is None]
    assert len(unavailable) >= 3
    for page in unavailable:
        record = lines[page.path]["record"]
        assert record["price"] is None
        assert record["title"] == page.fields["title"]


def test_forms_that_show_a_products_title_are_no_products(shop, shop_outcome):
    forms = [lines_of(shop_outcome)[page.path] for page in shop.pages if page.page_type == "review_form"]
    assert len(forms) == len(shop.records)
    assert not [form for form in forms if form["page_type"] == "product" or form["record"] is not None]


def test_no_value_is_invented(shop, shop_outcome):
    assert_nothing_is_invented(shop_outcome, shop)


def test_the_template_tells_how_its_records_are_made(shop_outcome):
    (template,) = [one for one in shop_outcome.templates if one["page_type"] == "product"]
    assert {"title", "price", "sku"} <= set(template["schema"]["properties"])
    assert {"title", "price", "sku"} <= {selector["field"] for selector in template["selectors"]}


def test_four_pages_of_a_template_are_enough(tmp_path, shop):
    gone = {page.path: _nothing for page in shop.records[4:]}
    with served(shop, **gone).in_thread() as server, FakeLLM(answer_from_truth(shop.truth())).in_thread() as llm:
        outcome = crawled(tmp_path, server, llm)
    for page in shop.records[:4]:
        assert lines_of(outcome)[page.path]["record"]["title"] == page.fields["title"]


def test_a_page_alone_has_no_record_and_costs_no_call(tmp_path, shop):
    gone = {page.path: _nothing for page in shop.records[1:]}
    with served(shop, **gone).in_thread() as server, FakeLLM(answer_from_truth(shop.truth())).in_thread() as llm:
        outcome = crawled(tmp_path, server, llm)
        assert not induced(llm)
    assert lines_of(outcome)[shop.records[0].path]["page_type"] == "product"
    assert not [page for page in outcome.pages if page["record"] is not None]
    assert set(outcome.error_kinds()) == {"http_404"}


def test_only_the_fields_that_were_asked_for_come(tmp_path, shop):
    outcome = crawl_of_site(tmp_path, shop, fields="title,price")
    records = [lines_of(outcome)[page.path]["record"] for page in shop.records]
    assert {tuple(record) for record in records} == {("title", "price")}
    assert scores_of(outcome, shop).fields["title"].f1 == 1
    assert scores_of(outcome, shop).fields["price"].f1 >= 0.95


def test_listings_have_objects_when_asked_for(tmp_path):
    site = make_site("cards")
    outcome = crawl_of_site(tmp_path, site, {"RECORD_PAGE_TYPES": "listing"}, deny="/item/")
    assert scores_of(outcome, site).fields["cards"].f1 >= 0.95
    assert_nothing_is_invented(outcome, site)


@pytest.mark.parametrize("name", rest_by_night(REDESIGNED))
def test_a_redesign_in_the_middle_of_a_crawl_is_learned(tmp_path, name):
    before, after = make_site(name), make_site(name, redesign=True)
    new = {page.path: page for page in after.pages}
    shown: dict[str, SitePage] = {}

    def design(old: SitePage) -> Any:
        async def answer(_request: web.Request) -> web.Response:
            shown[old.path] = old if len(shown) < len(before.records) // 2 else new[old.path]
            return html(shown[old.path].html)

        return answer

    routes = {page.path: design(page) for page in before.records}
    with served(before, **routes).in_thread() as server, FakeLLM(answer_from_truth(before.truth())).in_thread() as llm:
        outcome = crawled(tmp_path, server, llm)
    crawled_site = Site(name, before.page_type, tuple(shown.values()))
    scores = scores_of(outcome, crawled_site)
    assert_nearly_all_is_found(scores)
    lessons = re.search(r"'llmcrawler/records/lessons': (\d+)", outcome.log)
    assert lessons is not None
    assert int(lessons[1]) <= 3
    assert_nothing_is_invented(outcome, crawled_site)


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["shop", "jobs"])
def test_a_model_that_slips_and_a_server_that_fails_do_little_harm(tmp_path, name):
    site = make_site(name)
    model = FakeLLM(answer_from_truth(site.truth(), slip=0.1), fault_rate=0.2)
    with served(site).in_thread() as server, model.in_thread() as llm:
        outcome = crawled(tmp_path, server, llm)
    scores = scores_of(outcome, site)
    assert_nearly_all_is_found(scores)
    assert_nothing_is_invented(outcome, site)


def assert_nothing_is_invented(outcome: Outcome, site: Site) -> None:
    """Every value of every record is on its page."""
    pages = {page.path: page for page in site.pages}
    checked = 0
    for path, line in lines_of(outcome).items():
        if line["record"] is None:
            continue
        texts = texts_of(pages[path].html)
        for value in leaves(line["record"]):
            assert is_on_page(value, texts), (path, value)
            checked += 1
    assert checked > len(site.records)


def leaves(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [inner for one in value.values() for inner in leaves(one)]
    if isinstance(value, list):
        return [inner for one in value for inner in leaves(one)]
    return [] if value is None else [value]


def is_on_page(value: Any, texts: str) -> bool:
    """As it stands; of a number its digits, of a date its day and year, of a url at least its path."""
    if isinstance(value, bool):
        return True
    if isinstance(value, int | float):
        whole, _, fraction = str(value).partition(".")
        digits = r"[.,' \u00a0]?".join(whole.lstrip("-")) + (rf"[.,]{fraction}" if fraction.strip("0") else "")
        return re.search(rf"(?<!\d){digits}", texts) is not None
    date = DATE.fullmatch(value)
    if date and value not in texts:
        return all(re.search(rf"(?<!\d)0?{int(part)}(?!\d)", texts) for part in (date[1], date[3]))
    if value.startswith("http") and value not in texts:
        parts = urlsplit(value)
        return parts.path + (f"?{parts.query}" if parts.query else "") in texts
    squeezed = texts.replace(" ", "")  # `<p>One.</p><p>Two.</p>` is "One. Two." to a reader
    return all("".join(line.split()) in squeezed for line in value.split("\n"))
