"""robots.txt files that are made to do harm."""

import gzip

from aiohttp import web

from tests.e2e.crawling import explore
from tests.servers.listed_site import index
from tests.servers.mock_site import MockSite


def site_with(body, **headers):
    async def robots(_request: web.Request) -> web.Response:
        return web.Response(body=body, content_type="text/plain", headers=headers)

    return MockSite({"/robots.txt": robots})


def test_thousands_of_agents_before_thousands_of_rules_cost_nothing(tmp_path):
    agents = "".join(f"User-agent: bot{number}\n" for number in range(4000))
    rules = "".join(f"Disallow: /path/{number}\n" for number in range(4000))
    ours = "User-agent: llmcrawler\nDisallow: /about/\n"
    with site_with(f"{agents}{rules}{ours}".encode()).in_thread() as site:
        outcome = explore(tmp_path, site.url("/terms/"), depth=1)
        assert "/about/" not in site.measures.hits
    assert outcome.page("/terms/")["error"] is None
    assert outcome.error_kinds() == {"robots": 1}
    assert outcome.exit_status == 0


def test_a_robots_txt_of_many_megabytes_holds_as_far_as_it_is_read(tmp_path):
    rules = "".join(f"Disallow: /path/{number}\n" for number in range(600_000))
    with site_with(f"User-agent: *\nDisallow: /about/\n{rules}".encode()).in_thread() as site:
        outcome = explore(tmp_path, site.url("/terms/"), depth=1)
        assert "/about/" not in site.measures.hits
    assert outcome.error_kinds() == {"robots": 1}


def test_a_robots_txt_that_unpacks_to_gigabytes_forbids_everything(tmp_path):
    bomb = gzip.compress(b"\n" * 2**28)
    with site_with(bomb, **{"Content-Encoding": "gzip"}).in_thread() as site:
        outcome = explore(tmp_path, site.url("/about/"))
        assert site.measures.hits == {"/robots.txt": 1}
    assert outcome.error_kinds() == {"robots": 1}
    assert "everything is forbidden" in outcome.log


def test_rules_for_words_of_our_user_agent_are_not_for_us(tmp_path):
    text = "".join(f"User-agent: {name}\nDisallow: /\n" for name in ("github", "com", "llm", "crawler"))
    with site_with(text.encode()).in_thread() as site:
        assert explore(tmp_path, site.url("/about/"), depth=0).page("/about/")["error"] is None


def test_rules_for_our_name_and_a_version_are_for_us(tmp_path):
    with site_with(b"User-agent: LLMcrawler/2\nDisallow: /\n").in_thread() as site:
        assert explore(tmp_path, site.url("/about/"), depth=0).error_kinds() == {"robots": 1}


def test_lists_beyond_the_limit_are_counted_and_not_named_one_by_one(tmp_path):
    count = 1000

    async def sitemap(request: web.Request) -> web.Response:
        number = request.path.rpartition("/")[2]
        return web.Response(body=index(str(request.url.origin()), [f"/sitemap/{number}-{n}" for n in range(count)]))

    named = "".join(f"Sitemap: /sitemap/{number}\n" for number in range(20_000))
    with MockSite({"/robots.txt": named, "/sitemap/*": sitemap}).in_thread() as site:
        outcome = explore(tmp_path, site.url("/about/"), max_pages=3)
        asked = [path for path in site.measures.hits if path.startswith("/sitemap/")]
    assert len(asked) == 50
    warnings = [line for line in outcome.log.splitlines() if "WARNING" in line]
    assert len([line for line in warnings if "19,950 lists over 50 are not read" in line]) == 1
    assert len([line for line in warnings if f"{count:,} lists over 50 are not read" in line]) == 50
    assert len(warnings) < 60
