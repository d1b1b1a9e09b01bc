"""What a schedule sees of a crawl."""

from llmcrawler.core.reporting.exit_status import ExitStatus
from tests.e2e.crawling import explore, scrapy
from tests.servers.mock_site import MockSite


def test_too_large_a_share_of_errors_is_told_and_also_when_the_lines_are_of_an_earlier_run(tmp_path):
    settings = {"JOBDIR": tmp_path / "job", "CRAWL_MAX_ERRORS_SHARE": 0.4}
    with MockSite().in_thread() as site:
        urls = f"{site.url('/about/')},{site.url('/odd/missing')}"
        first = explore(tmp_path, urls, settings, depth=0)
        requests = site.measures.hits.total()
        again = explore(tmp_path, urls, settings, depth=0)
        assert site.measures.hits.total() == requests
    assert first.exit_status == again.exit_status == ExitStatus.ERRORS_SHARE
    assert "Exit status 6: 1 of 2 pages have errors, 50.0%" in first.log


def test_a_url_in_the_place_of_an_argument_is_told_with_the_argument():
    refused = scrapy("crawl", "explore", "https://a.example")
    assert refused.returncode == ExitStatus.USAGE
    assert "-a url=https://a.example" in refused.stderr
