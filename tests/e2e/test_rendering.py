"""Single-page apps, with a real browser where there is one."""

import shutil
from collections import Counter

import pytest

from llmcrawler.browser.executable import INSTALL, system_browser
from tests.e2e.crawling import explore
from tests.servers.app_site import ITEMS, AppSite

needs_browser = pytest.mark.skipif(system_browser("", shutil.which) is None, reason=f"no browser: {INSTALL}")


@pytest.fixture
def site():
    with AppSite().in_thread() as site:
        yield site


@needs_browser
def test_an_app_is_crawled_by_the_browser_and_the_plain_pages_beside_it_are_not(tmp_path, site):
    outcome = explore(tmp_path, site.url("/app/"), allow="/(app|plain|half)/")
    assert outcome.exit_status == 0, outcome.log
    pages = {page["url"].removeprefix(site.origin): page for page in outcome.pages}
    assert {f"/app/item/{number}" for number in range(1, ITEMS + 1)} <= pages.keys()
    assert {"/app/team", "/app/contact"} <= pages.keys()  # no HTML has these links
    assert all(page["error"] is None and len(page["text"]) > 50 for page in outcome.pages)
    assert "$7.00" in pages["/app/item/7"]["text"]
    assert len({pages[f"/app/item/{number}"]["template"] for number in range(1, ITEMS + 1)}) == 1
    hits = site.measures.hits
    assert hits["/app/photo.png"] == hits["/icon.png"] == 0
    assert hits["/app/app.js"] <= 5  # the browser keeps it
    assert {hits[f"/plain/{number}"] for number in range(1, 6)} == {1}
    assert "workshop" in pages["/half/2"]["text"]
    assert site.stats()["max_in_flight"] <= 5
    assert len(site.measures.user_agents) == 1


def test_a_plain_crawl_opens_no_browser(tmp_path, site):
    outcome = explore(tmp_path, site.url("/plain/"))
    assert outcome.exit_status == 0
    assert "playwright" not in outcome.log
    assert "rendering" not in outcome.log


def test_without_rendering_an_app_is_an_empty_shell_that_says_so(tmp_path, site):
    outcome = explore(tmp_path, site.url("/app/"), render="never")
    assert [page["error"]["kind"] for page in outcome.pages] == ["empty_shell"]
    assert "render=auto" in outcome.pages[0]["error"]["message"]


def test_without_a_browser_the_crawl_goes_on_and_the_log_says_how_to_get_one(tmp_path, site):
    outcome = explore(tmp_path, site.url("/half/"), {"PLAYWRIGHT_EXECUTABLE": "/no/such/chromium"}, allow="/half/")
    assert outcome.exit_status == 0
    assert outcome.log.count("apt-get install chromium") == 1
    assert not outcome.error_kinds() - Counter(empty_shell=5)
    assert len(outcome.pages) == 6


@needs_browser
def test_a_list_that_grows_is_scrolled_as_far_as_it_is_asked_for(tmp_path, site):
    outcome = explore(tmp_path, site.url("/feed"), {"RENDER_SCROLLS": 5}, render="always", depth=0)
    (page,) = outcome.pages
    assert all(f"Entry {number}" in page["text"] for number in (0, 1, 2, 10, 12, 22))


@needs_browser
def test_a_rendered_body_is_what_a_job_keeps(tmp_path, site):
    job = {"JOBDIR": str(tmp_path / "job")}
    first = explore(tmp_path, site.url("/app/items"), job, depth=0)
    asked = sum(site.measures.hits.values())
    again = explore(tmp_path, site.url("/app/items"), job, depth=0, force="content")
    assert sum(site.measures.hits.values()) == asked
    assert first.pages[0]["text"] == again.pages[0]["text"]
    assert "Item 12" in again.pages[0]["text"]
