"""`scrapy report`, as a user runs it, and what a browser makes of the page."""

from html import escape

import pytest

from tests.e2e.browsing import looking_at, needs_browser
from tests.e2e.crawling import explore, scrapy
from tests.servers.mock_site import MockSite

HOSTILE = "</script><img src=x onerror=alert(1)> & co"
PAGE = "<html><title>{0}</title><nav>{1}</nav><p>A page about {0}, and about nothing else that there is.</p></html>"


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    """A crawl of a few pages, one of them missing, one with a title that is not meant well."""
    paths = [f"/item/{number}/" for number in range(6)]
    links = "".join(f'<a href="{path}">item</a>' for path in [*paths, "/hostile/", "/missing/"])
    pages = {path: PAGE.format(f"item {number}", links) for number, path in enumerate(paths)}
    pages |= {"/": PAGE.format("home", links), "/hostile/": PAGE.format(escape(HOSTILE), links)}
    folder = tmp_path_factory.mktemp("report")
    with MockSite(pages).in_thread() as site:
        outcome = explore(folder, site.url(), {"JOBDIR": folder / "job", "ROBOTSTXT_OBEY": False}, max_pages=50)
    assert outcome.exit_status == 0, outcome.log
    return folder


@needs_browser
def test_a_report_opens_and_filters_and_the_text_of_pages_stays_text(job):
    report = job / "report.html"
    done = scrapy("report", job / "job", "-o", report)
    assert done.returncode == 0, done.stderr
    assert f"{report}: 9 pages" in done.stdout
    with looking_at(report) as (page, complaints):
        for chart in ("structure", "depth", "pace"):
            assert page.locator(f"#chart-{chart} svg path").count() > 2
        assert "finished" in page.inner_text("header")
        assert page.locator("#changes tbody tr").count() == 1

        rows, found = page.locator("#list tbody tr"), page.locator("#found")
        assert (rows.count(), found.inner_text()) == (9, "9 pages")
        page.fill("#filters [name=text]", "onerror")
        assert rows.count() == 1
        assert rows.locator("a").inner_text() == HOSTILE
        page.click("#filters [type=reset]")
        page.locator("#found", has_text="9 pages").wait_for()
        page.select_option("#filters [name=error]", "!any")
        assert "fetch/http_404" in rows.inner_text()
        page.click("#errors button[data-filter=error]")
        assert found.inner_text() == "1 of 9 pages fit"

        page.click("#list [data-sort=depth]")
        assert page.get_attribute("#list th[aria-sort]", "aria-sort") == "ascending"
        page.emulate_media(color_scheme="dark")
        page.set_viewport_size({"width": 390, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") == 390
        assert page.locator("img").count() == 0
        assert complaints == []


def test_what_cannot_be_shown_is_a_usage_error(job, tmp_path):
    nowhere = scrapy("report", tmp_path)
    assert (nowhere.returncode, nowhere.stdout) == (2, "")
    assert "there is no such file: no crawl with this JOBDIR has been started" in nowhere.stderr
    unwritable = scrapy("report", job / "feed.jsonl", "-o", tmp_path / "no" / "folder.html")
    assert unwritable.returncode == 1
    assert "cannot be written" in unwritable.stderr
