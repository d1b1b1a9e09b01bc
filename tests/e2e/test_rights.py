"""What sites say of rights, over HTTP: read, recorded, respected."""

import json
from collections import Counter

import pytest
from aiohttp import web

from tests.e2e.crawling import crawl, explore, scrapy
from tests.servers.fake_llm import FakeLLM
from tests.servers.mock_site import MockSite

RECORD = {"RIGHTS_POLICY": "record"}
RESPECT = {"RIGHTS_POLICY": "respect", "CRAWL_PURPOSE": "ai-train"}
FILES = {"/.well-known/tdmrep.json", "/ai.txt"}
BY = "https://creativecommons.org/licenses/by/4.0/"
WORDS = " ".join(f"word{number}" for number in range(80))


def page(name, links=(), head=""):
    anchors = "".join(f'<li><a href="{link}">{link}</a></li>' for link in links)
    return (
        f"<html><head><title>{name}</title>{head}</head><body><main><h1>{name}</h1><p>{name} {WORDS}.</p>"
        f"<ul>{anchors}</ul></main></body></html>"
    )


def answer(text, status=200, content_type="text/html", **headers):
    named = {name.replace("_", "-"): value for name, value in headers.items()}

    async def handler(_request):
        return web.Response(text=text, status=status, content_type=content_type, headers=named)

    return handler


def rsl(terms):
    return f'<rsl xmlns="https://rslstandard.org/rsl"><content url="/"><license>{terms}</license></content></rsl>'


def found(line):
    return {(one["name"], one["where"]): one["uses"].get("ai-train") for one in line["rights"]["signals"]}


PROHIBITED = rsl('<prohibits type="usage">ai-train</prohibits>')

# Path of a page -> the page, and the name, place and answer for ai-train of the signal in its line.
SIGNALS = {
    "/usage/": (page("P"), "content-usage", "/robots.txt", "no"),
    "/usage-header/": (answer(page("P"), Content_Usage="train-ai=y"), "content-usage", "header", "yes"),
    "/rsl/": (page("P"), "rsl", "/l.xml", "no"),
    "/tdm/": (page("P"), "tdmrep", "/.well-known/tdmrep.json", "no"),
    "/noai/": (page("P", head='<meta name="robots" content="noai, noimageai">'), "noai", "meta", "no"),
    "/ai/": (page("P"), "ai.txt", "/ai.txt", "no"),
    "/by-link/": (page("P", head=f'<link rel="license" href="{BY}">'), "licence", "link", "conditions"),
    "/pay/": (answer("pay", status=402, Crawler_Price="USD 0.01"), "payment", "header", "conditions"),
}
FILES_OF_SIGNALS = {
    "/robots.txt": "License: /l.xml\nUser-agent: *\nAllow: /\nContent-Usage: /usage/ train-ai=n\n",
    "/l.xml": PROHIBITED.replace('url="/"', 'url="/rsl/*"'),
    "/.well-known/tdmrep.json": '[{"location": "/tdm/", "tdm-reservation": 1}]',
    "/ai.txt": "User-Agent: *\nDisallow: /ai/\n",
}


def test_each_signal_stands_in_the_line_with_where_it_was_found(tmp_path):
    pages = {path: row[0] for path, row in SIGNALS.items()} | {"/": page("Home", SIGNALS)}
    with MockSite({**pages, **FILES_OF_SIGNALS}).in_thread() as site:
        outcome = explore(tmp_path, site.url(), RECORD, duplicates="keep")
        assert all(site.measures.hits[path] == 1 for path in (*FILES, "/l.xml"))
    for path, (_page, name, where, said) in SIGNALS.items():
        line = outcome.page(path)
        place = site.url(where) if where.startswith("/") else where
        assert found(line)[name, place] == said, path
        assert line["rights"]["uses"].get("ai-train") == said, path
        assert (line["rights"]["verdict"], line["rights"]["conflicts"]) == (None, []), path
        assert (line["text"] is None) == (path == "/pay/"), path
        assert line["error"] is None or line["error"]["kind"] == "http_402", path


def mixed_site():
    """A site of which all that /free/ leads to is allowed for training, and what any standard forbids is not."""
    free = [f"/free/{number}/" for number in range(6)]
    allowed = {
        **{path: page(path, [free[(n + 1) % 6], "/noai/"]) for n, path in enumerate(free)},
        "/": page("Home", [*free, *(f"/no-{name}/" for name in ("usage", "signal", "tdm", "ai", "rsl")), "/noai/"]),
        "/commons/": page("Commons", head=f'<link rel="license" href="{BY}">'),
        "/granted/": answer(page("Granted"), Content_Usage="train-ai=y", tdm_reservation="0"),
        "/unread/": page("Unread", head='<meta name="robots" content="noimageai">'),
    }
    forbidden = {
        **{f"/no-{name}/": page(name, ["/behind/"]) for name in ("usage", "signal", "tdm", "ai", "rsl")},
        "/noai/": page("Noai", ["/commons/", "/granted/", "/unread/"], '<meta name="robots" content="noai">'),
        "/tdm-meta/": page("TDM", head='<meta name="tdm-reservation" content="1">'),
        "/tdm-header/": answer(page("TDM"), tdm_reservation="1"),
        "/usage-header/": answer(page("Usage"), Content_Usage="train-ai=n"),
        "/both/": answer(page("Both", head=f'<link rel="license" href="{BY}">'), X_Robots_Tag="noai"),
        "/pay/": answer(page("Pay"), status=402, Crawler_Price="USD 0.01"),
    }
    own = ["/tdm-meta/", "/tdm-header/", "/usage-header/", "/both/", "/pay/"]
    allowed["/unread/"] = page("Unread", own, '<meta name="robots" content="noimageai">')
    files = {
        "/robots.txt": "License: /l.xml\nUser-agent: *\nContent-Usage: search=y\nContent-Usage: /no-usage/ train-ai=n\n"
        "Content-Signal: /no-signal/ search=yes,ai-train=no\n",
        "/.well-known/tdmrep.json": json.dumps([{"location": "/no-tdm/", "tdm-reservation": 1}]),
        "/ai.txt": "User-agent: *\nDisallow: /no-ai/\n",
        "/l.xml": PROHIBITED.replace('url="/"', 'url="/no-rsl/*"'),
    }
    return allowed, forbidden, files


def test_respect_leaves_text_to_the_allowed_pages_of_a_mixed_site_and_to_no_other(tmp_path):
    allowed, forbidden, files = mixed_site()
    with (
        MockSite({**allowed, **forbidden, **files}).in_thread() as site,
        FakeLLM().in_thread() as llm,
    ):
        model = {"LLM_PROVIDER": "openai", "LLM_BASE_URL": llm.base_url}
        outcome = explore(tmp_path, site.url(), {**RESPECT, **model})
        asked = set(site.measures.hits)
        questions = json.dumps(llm.bodies)
    lines = {"/" + line["url"].split("/", 3)[3]: line for line in outcome.pages}
    assert lines.keys() == allowed.keys() | forbidden.keys()
    assert {path for path, line in lines.items() if line["text"] is not None} == allowed.keys()
    assert {path for path, line in lines.items() if line["rights"]["verdict"] == "forbidden"} == forbidden.keys()
    for path in forbidden:
        line = lines[path]
        assert (line["title"], line["record"], line["page_type"], line["content_hash"]) == (None,) * 4
        assert line["error"]["kind"] == ("http_402" if path == "/pay/" else "rights")
    assert lines["/no-ai/"]["error"]["message"] == f"ai-train: no by ai.txt ({site.url('/ai.txt')})"
    assert lines["/pay/"]["rights"]["signals"][-1]["value"] == "USD 0.01"
    # What the host forbids itself is not asked for, nor what only such pages lead to.
    assert not {path for path in asked if path.startswith(("/no-", "/behind"))}
    assert any(name in questions for name in ("/free/", "Commons", "Granted", "Unread"))
    assert not [name for name in ("Noai", "TDM", "Usage", "Both") if name in questions]


def test_a_start_page_that_is_forbidden_leads_to_those_that_are_allowed(tmp_path):
    routes = {
        "/robots.txt": "User-agent: *\nContent-Usage: train-ai=n\nContent-Usage: /ok/ train-ai=y\n",
        "/": page("Home", ["/ok/", "/other/"]),
        "/ok/": page("Ok"),
        "/other/": page("Other"),
    }
    with MockSite(routes).in_thread() as site:
        outcome = explore(tmp_path, site.url(), RESPECT)
        assert site.measures.hits["/other/"] == 0
    assert {line["url"] for line in outcome.pages if line["text"]} == {site.url("/ok/")}
    assert outcome.error_kinds() == Counter(rights=2)


def test_a_host_that_forbids_all_of_it_is_not_crawled(tmp_path):
    routes = {"/robots.txt": "User-agent: *\nContent-Signal: ai-train=no\n", "/": page("Home", ["/a/"])}
    with MockSite(routes).in_thread() as site:
        outcome = explore(tmp_path, site.url(), RESPECT)
        assert set(site.measures.hits) == {"/robots.txt", *FILES}
        search = explore(tmp_path, site.url(), {**RESPECT, "CRAWL_PURPOSE": "search"}, depth=0)
    line = outcome.page("/")
    assert (line["error"]["stage"], line["error"]["kind"], line["status"]) == ("fetch", "rights", None)
    assert line["error"]["message"] == f"ai-train: no by content-signal ({site.url('/robots.txt')})"
    assert line["rights"]["verdict"] == "forbidden"
    assert (search.page("/")["rights"]["verdict"], search.page("/")["error"]) == ("unsaid", None)


def test_listed_urls_are_respected_too(tmp_path):
    listed = tmp_path / "urls.txt"
    with MockSite({"/.well-known/tdmrep.json": '[{"location": "/a", "tdm-reservation": 1}]'}).in_thread() as site:
        listed.write_text("".join(f"{site.url(path)}\n" for path in ("/about/", "/terms/")))
        recorded = crawl("extract", tmp_path, {"urls": listed}, RECORD)
        assert set(site.measures.hits) == {"/robots.txt", "/about/", "/terms/"}  # nothing more than that is asked for
        respected = crawl("extract", tmp_path, {"urls": listed}, RESPECT)
        assert site.measures.hits["/about/"] == 1
    assert not recorded.error_kinds()
    assert respected.error_kinds() == Counter(rights=1)
    assert respected.page("/terms/")["text"]


def test_a_host_of_which_no_more_than_a_page_is_wanted_is_asked_for_robots_txt_only(tmp_path):
    with MockSite({"/robots.txt": "", "/": page("Home", ["/"])}).in_thread() as site:
        explore(tmp_path, site.url(), RECORD)
        assert site.measures.hits == {"/robots.txt": 1, "/": 1}


@pytest.mark.nightly
def test_a_file_that_hangs_or_is_huge_holds_nothing_up_for_long(tmp_path):
    async def endless(request):
        response = web.StreamResponse()
        await response.prepare(request)
        for _ in range(1_000):
            await response.write(b"x" * 10_000)
        return response

    routes = {
        "/": page("Home", ["/about/"]),
        "/ai.txt": endless,
        "/.well-known/tdmrep.json": answer("[" * 200_000, content_type="application/json"),
    }
    with MockSite(routes).in_thread() as site:
        outcome = explore(tmp_path, site.url(), RESPECT)
        assert all(site.measures.hits[path] == 1 for path in FILES)
    assert outcome.page("/")["error"] is None
    assert outcome.page("/")["rights"] == {"uses": {}, "verdict": "unsaid", "signals": [], "conflicts": []}
    assert "Traceback" not in outcome.log


def test_robots_txt_holds_for_the_files_too(tmp_path):
    with MockSite({"/robots.txt": "User-agent: *\nDisallow: /ai.txt\n"}).in_thread() as site:
        explore(tmp_path, site.url("/about/"), RECORD)
        assert FILES & site.measures.hits.keys() == FILES - {"/ai.txt"}


@pytest.mark.nightly
def test_a_job_keeps_rights_when_its_stages_run_again_and_no_body_of_what_is_forbidden(tmp_path):
    routes = {
        "/": page("Home", ["/no/", "/yes/"]),
        "/no/": page("No", head='<meta name="robots" content="noai">'),
        "/yes/": answer(page("Yes"), Content_Usage="train-ai=y"),
        "/ai.txt": "User-agent: *\nAllow: /",
    }
    job = {"JOBDIR": tmp_path / "job"}
    with MockSite(routes).in_thread() as site:
        first = explore(tmp_path, site.url(), {**RECORD, **job})
        asked = sum(site.measures.hits.values())
        again = explore(tmp_path, site.url(), {**RECORD, **job}, force="content")
        assert sum(site.measures.hits.values()) == asked
        refreshed = explore(tmp_path, site.url(), {**RECORD, **job}, refresh=1)
        respected = explore(tmp_path, site.url(), {**RESPECT, **job}, force="content")
        scrapy("requeue", tmp_path / "job", "--kind", "rights")
        forgotten = explore(tmp_path, site.url(), {**RECORD, **job})
        assert site.measures.hits["/yes/"] == 2
        assert site.measures.hits["/no/"] == 3  # its body was not kept, so it is fetched when it is wanted again
    rights = {line["url"]: line["rights"] for line in first.pages}
    assert rights == {line["url"]: line["rights"] for line in again.pages}
    assert rights == {line["url"]: line["rights"] for line in refreshed.pages}
    assert found(first.page("/no/")) == {("noai", "meta"): "no", ("ai.txt", site.url("/ai.txt")): "yes"}
    assert respected.error_kinds() == Counter(rights=1)
    assert (respected.page("/no/")["text"], respected.page("/no/")["title"]) == (None, None)
    assert respected.page("/yes/")["rights"]["verdict"] == "allowed"
    assert forgotten.page("/no/")["text"]
