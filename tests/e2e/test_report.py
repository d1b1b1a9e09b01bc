"""`scrapy report`, as a user runs it, and what a browser makes of the page."""

from html import escape

import pytest
from scrapy.exceptions import UsageError

from llmcrawler.commands.report import Command
from llmcrawler.core.reporting.html import make_report
from tests.adapters.commands.run_here import run_here
from tests.core.reporting.stored_jobs import make_stored_job, product, product_html
from tests.e2e.browsing import looking_at, needs_browser
from tests.e2e.crawling import explore, scrapy
from tests.servers.mock_site import MockSite

HOSTILE = "</script><img src=x onerror=alert(1)> & co"
RUNS = "<script>alert(1)</script><img src=/a.png onerror=alert(1)><meta http-equiv=refresh content='3600;url=/'>"
PAGE = "<html><title>{0}</title><nav>{1}</nav><p>A page about {0}, and about nothing else that there is.</p></html>"


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    """A crawl of a few pages, one of them missing, one with a title that is not meant well."""
    paths = [f"/item/{number}/" for number in range(6)]
    links = "".join(f'<a href="{path}">item</a>' for path in [*paths, "/hostile/", "/missing/"])
    pages = {path: PAGE.format(f"item {number}", links) for number, path in enumerate(paths)}
    pages |= {"/": PAGE.format("home", links), "/hostile/": PAGE.format(escape(HOSTILE), links + RUNS)}
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
    assert f"{report}: 8 pages and 1 failed url" in done.stdout
    with looking_at(report) as (page, complaints):
        for chart in ("structure", "depth", "pace"):
            assert page.locator(f"#chart-{chart} svg path").count() > 2
        assert "finished" in page.inner_text("header")
        assert page.locator("#changes tbody tr").count() == 1

        rows, found = page.locator("#pages tbody tr"), page.locator("#pages .found")
        assert (rows.count(), found.inner_text()) == (9, "9 pages and failed urls")
        page.fill("#pages [name=text]", "onerror")
        assert rows.count() == 1
        assert rows.locator("button").inner_text() == HOSTILE
        rows.locator("button").click()
        frame = page.locator("#look-page iframe")
        frame.wait_for()
        assert frame.get_attribute("sandbox") == ""
        shown = page.frame_locator("#look-page iframe")
        shown.locator("p", has_text="A page about").wait_for()
        assert shown.locator("script, [onerror], [src], meta[http-equiv=refresh]").count() == 0
        page.keyboard.press("Escape")
        page.click("#pages [type=reset]")
        page.locator("#pages .found", has_text="9 pages and").wait_for()
        page.select_option("#pages [name=error]", "!any")
        assert "fetch/http_404" in rows.inner_text()
        page.click("#errors button[data-filter=error]")
        assert found.inner_text() == "1 of 9 pages and failed urls fit"

        page.click("#pages [data-sort=depth]")
        assert page.get_attribute("#pages th[aria-sort]", "aria-sort") == "ascending"
        page.emulate_media(color_scheme="dark")
        page.set_viewport_size({"width": 390, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") == 390
        assert page.locator("img").count() == 0
        assert complaints == []


@needs_browser
def test_records_are_searched_and_sorted_and_show_where_on_the_page_a_value_stands(tmp_path):
    lines = [(product(number), product_html(number)) for number in (2, 10, 1)]
    job, report = make_stored_job(tmp_path / "job", lines), tmp_path / "report.html"
    report.write_bytes(make_report(job, 100, "1.0", 0.0)[0])
    with looking_at(report) as (page, complaints):
        names = page.locator("#records tbody tr td:nth-child(1) button")
        assert page.locator("#records thead th").all_inner_texts() == ["name", "price", "stock", "template"]
        page.click("#records [data-sort='1']")  # the price
        assert names.all_inner_texts() == ["Lamp 1", "Lamp 2", "Lamp 10"]
        page.click("#records [data-sort='1']")
        assert names.all_inner_texts() == ["Lamp 10", "Lamp 2", "Lamp 1"]
        page.fill("#records [name=text]", "p/1")
        assert page.inner_text("#records .found") == "2 of 3 records fit"
        page.click("#records tbody button >> nth=1")
        page.click("#look [aria-label='Show price on the page']")
        marked = page.frame_locator("#look-page iframe").locator("[data-llmcrawler=price]:target")
        marked.wait_for()
        assert marked.inner_text() == "£ 11"
        assert page.inner_text("#look-place") == "2 of 2"
        page.click("#look [data-by='-1']")
        page.locator("#look-title", has_text="Lamp 10").wait_for()
        assert complaints == []


def test_what_cannot_be_shown_is_a_usage_error(tmp_path):
    with pytest.raises(UsageError, match="no such file: no crawl with this JOBDIR has been started"):
        run_here(Command(), tmp_path)
