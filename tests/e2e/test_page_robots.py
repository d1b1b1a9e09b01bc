"""Crawls of pages that say to robots that they are not to be indexed, or that their links are not to be followed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from aiohttp import web

from tests.e2e.browsing import needs_browser
from tests.e2e.crawling import Outcome, crawl, explore, scrapy
from tests.e2e.strangers_project import SPIDER, StrangersProject
from tests.servers.fake_llm import FakeLLM, label_by_url
from tests.servers.mock_pages import paragraphs
from tests.servers.mock_site import MockSite, html

PAST, COMING = "Fri, 25 Jun 2010 15:00:00 GMT", "Fri, 25 Jun 2100 15:00:00 GMT"
# Path -> the robots meta elements of the page, its X-Robots-Tag headers, and what its line has of them.
SAYING: dict[str, tuple[str, list[str], list[str] | None]] = {
    "/noindex/by-meta/": ('<meta name="robots" content="noindex">', [], ["noindex"]),
    "/noindex/by-header/": ("", ["NOINDEX"], ["noindex"]),
    "/noindex/by-name/": ('<meta name="llmcrawler" content="noindex">', [], ["noindex"]),
    "/noindex/by-header-name/": ("", ["googlebot: none", "llmcrawler: noindex, noarchive"], ["noarchive", "noindex"]),
    "/noindex/by-date/": ("", [f"unavailable_after: {PAST}"], ["noindex", f"unavailable_after: {PAST.lower()}"]),
    "/noindex/second-meta/": (
        '<meta name="robots" content="max-snippet:20"><meta name="robots" content="noindex">',
        [],
        ["max-snippet: 20", "noindex"],
    ),
    "/none/": ('<meta name="robots" content="none">', [], ["nofollow", "noindex"]),
    "/nofollow/by-meta/": ('<meta name="robots" content="index, nofollow">', [], ["index", "nofollow"]),
    "/nofollow/by-header/": ("", ["nofollow"], ["nofollow"]),
    "/fine/other-bot/": ('<meta name="googlebot" content="none">', ["googlebot: noindex, nofollow"], None),
    "/fine/coming-date/": ("", [f"unavailable_after: {COMING}"], [f"unavailable_after: {COMING.lower()}"]),
    "/fine/no-training/": ('<meta name="robots" content="noai, noimageai">', [], ["noai", "noimageai"]),
    "/fine/no-archive/": ("", ["noarchive"], ["noarchive"]),
    "/fine/silent/": ("", [], None),
}
WITHHELD = [path for path in SAYING if path.startswith(("/noindex/", "/none/"))]
SEALED = [path for path in SAYING if path.startswith(("/nofollow/", "/none/"))]
OTHERS = {
    "/paper": ["noindex"],
    "/gone/": ["noindex, nofollow"],
    "/moved": ["noindex, nofollow"],
}  # no page, an error, and a redirect to /after-redirect/


def behind(path: str) -> str:
    """The address of the page that only one other page leads to."""
    return f"/behind{path}"


def page_of(path: str, head: str = "") -> str:
    number = len(path)
    ways = f'<link rel="next" href="{behind(path)}next"><link rel="canonical" href="{path}">'
    main = f"<h1>Words of {path}</h1>{paragraphs(3, number)}<a href='{behind(path)}'>More</a>"
    title = f"<title>Page {path}</title>"
    return f'<!DOCTYPE html><html lang="en"><head>{title}{head}{ways}</head><body><main>{main}</main></body></html>'


def site_of(saying: dict[str, tuple[str, list[str], list[str] | None]]) -> MockSite:
    async def page(request: web.Request) -> web.Response:
        head, headers, _ = saying[request.path]
        answer = html(page_of(request.path, head))
        for value in headers:
            answer.headers.add("X-Robots-Tag", value)
        return answer

    async def other(request: web.Request) -> web.Response:
        headers = {"X-Robots-Tag": OTHERS[request.path][0]}
        if request.path == "/moved":
            return web.Response(status=301, headers={**headers, "Location": "/after-redirect/"})
        if request.path == "/paper":
            return web.Response(body=b"%PDF-1.4\n%\xe2\xe3\xcf\xd3\n", content_type="application/pdf", headers=headers)
        return web.Response(status=404, text="gone", headers=headers)

    async def plain(request: web.Request) -> web.Response:
        return html(f"<title>Plain</title><h1>Plain {request.path}</h1>{paragraphs(3, len(request.path))}")

    links = "".join(f'<p><a href="{path}">Page {path}</a></p>' for path in (*saying, *OTHERS))
    routes: dict[str, Any] = {"/": f"<title>Home</title><h1>Home</h1>{paragraphs(2, 1)}{links}", "/robots.txt": plain}
    routes |= dict.fromkeys(saying, page) | dict.fromkeys(OTHERS, other)
    routes |= {"/behind/*": plain, "/after-redirect/": plain}
    return MockSite(routes)


@pytest.fixture
def site() -> Iterator[MockSite]:
    with site_of(SAYING).in_thread() as site:
        yield site


def asked_behind(site: MockSite) -> set[str]:
    """The pages whose links were followed."""
    return {path for path in SAYING for asked in site.measures.hits if asked.startswith(behind(path))}


def check_lines(outcome: Outcome, *, withheld: list[str]) -> None:
    for path, (_, _, robots) in SAYING.items():
        line = outcome.page(path)
        assert (line["status"], line["error"], line["robots"]) == (200, None, robots), path
        content = [line[name] for name in ("title", "lang", "text", "content_hash", "page_type", "template", "record")]
        if path in withheld:
            assert content == [None] * 7, path
        else:
            assert "workshop near the harbour" in line["text"], path
            assert None not in content[:-1], path


def test_what_is_not_to_be_indexed_has_no_text_and_no_model_sees_it(tmp_path, site):
    with FakeLLM(label_by_url([("/", "article")])).in_thread() as llm:
        settings = {"LLM_PROVIDER": "openai", "LLM_BASE_URL": llm.base_url, "RECORD_MIN_PAGES": 2}
        outcome = explore(tmp_path, site.url(), settings)
        shown = json.dumps(llm.documents)
    assert outcome.exit_status == 0, outcome.log
    check_lines(outcome, withheld=WITHHELD)
    assert {path for path in SAYING if f"Words of {path}" in shown} <= SAYING.keys() - WITHHELD
    assert any(f"Words of {path}" in shown for path in SAYING)
    assert asked_behind(site) == SAYING.keys() - SEALED
    counted = sum(template["page_count"] for template in outcome.templates)
    assert counted == len([page for page in outcome.pages if page["template"]])
    # A document that is no page, an error, and the target of a redirect, whose own headers say nothing of it.
    lines = {path: outcome.page(path) for path in OTHERS}
    assert [lines[path]["robots"] for path in OTHERS] == [["noindex"], ["nofollow", "noindex"], None]
    assert lines["/moved"]["final_url"] == site.url("/after-redirect/")
    assert lines["/moved"]["text"]
    assert f"{len(WITHHELD)} pages without text because of robots: noindex" in outcome.log


def test_without_obeying_it_is_recorded_what_pages_say(tmp_path, site):
    outcome = explore(tmp_path, site.url(), {"ROBOTS_META_OBEY": False})
    check_lines(outcome, withheld=[])
    assert asked_behind(site) == SAYING.keys()


@pytest.mark.nightly
def test_a_map_lists_the_pages_and_does_not_follow_their_links(tmp_path, site):
    outcome = crawl("map", tmp_path, {"url": site.url()}, {})
    lines = {item["url"].removeprefix(site.origin): item for item in outcome.items}
    assert {path: lines[path]["robots"] for path in SAYING} == {path: said[2] for path, said in SAYING.items()}
    assert lines["/moved"]["robots"] == lines["/gone/"]["robots"] == ["nofollow", "noindex"]
    assert not [path for path in lines for sealed in SEALED if path.startswith(behind(sealed))]
    assert asked_behind(site) == SAYING.keys() - SEALED


@pytest.mark.nightly
def test_a_job_that_goes_on_and_stages_that_run_again_keep_to_it(tmp_path, site):
    job = {"JOBDIR": tmp_path / "job"}
    explore(tmp_path, site.url(), {**job, "CLOSESPIDER_PAGECOUNT": 5})
    check_lines(explore(tmp_path, site.url(), job), withheld=WITHHELD)
    asked = sum(site.measures.hits.values())
    check_lines(explore(tmp_path, site.url(), {**job, "ROBOTS_META_OBEY": False}, force="content"), withheld=[])
    check_lines(explore(tmp_path, site.url(), job, force="classify"), withheld=WITHHELD)
    assert sum(site.measures.hits.values()) == asked, "stored bodies have the headers too"
    assert asked_behind(site) == SAYING.keys() - SEALED


class Tagged:
    """A site of one page, whose header and whose robots meta element change and nothing else."""

    def __init__(self) -> None:
        self.header = self.meta = ""

    async def page(self, request: web.Request) -> web.Response:
        headers = {"ETag": f'"{self.meta}"'} | ({"X-Robots-Tag": self.header} if self.header else {})
        body = page_of("/", f'<meta name="robots" content="{self.meta}">' if self.meta else "")
        if request.headers.get("If-None-Match") == headers["ETag"]:
            return web.Response(status=304, headers=headers)
        return web.Response(text=body, content_type="text/html", headers=headers)


def test_a_refresh_sees_what_a_page_says_now(tmp_path):
    tagged = Tagged()
    with MockSite({"/": tagged.page, "/robots.txt": "", "/behind/*": page_of("/")}).in_thread() as site:
        for header, meta, change, robots, has_text in (
            ("", "", "new", None, True),
            ("noindex", "", "changed", ["noindex"], False),
            ("noindex", "", "unchanged", ["noindex"], False),
            ("", "", "changed", None, True),
            ("", "noindex", "changed", ["noindex"], False),
            ("nofollow", "noindex", "changed", ["nofollow", "noindex"], False),
        ):
            tagged.header, tagged.meta = header, meta
            (line,) = explore(tmp_path, site.url(), {"JOBDIR": tmp_path / "job"}, depth=0, refresh=1).pages
            assert (line["change"], line["robots"]) == (change, robots), (header, meta)
            assert (line["text"] is not None, line["title"] is not None) == (has_text, has_text), (header, meta)


def test_parse_shows_no_link_that_is_not_to_be_followed(site):
    for path in ("/nofollow/by-meta/", "/noindex/by-meta/"):
        shown = scrapy("parse", "--nocolour", "--pipelines", site.url(path))
        assert "Traceback" not in shown.stderr
        assert (f"<GET {site.url(behind(path))}>" in shown.stdout) == (path not in SEALED)
        assert ("workshop near the harbour" in shown.stdout) == (path not in WITHHELD)


@pytest.mark.nightly
def test_a_plan_counts_pages_that_no_model_will_see(tmp_path, site):
    done = scrapy("plan", site.url(), "--json", "--models", "m", settings={"LLM_PROVIDER": "openai"})
    plan = json.loads(done.stdout)
    assert plan["errors"]["likely"] == 2
    assert plan["pages"]["likely"] == len(explore(tmp_path, site.url()).pages) - 2
    assert asked_behind(site) == SAYING.keys() - SEALED


@pytest.mark.nightly
def test_a_project_of_somebody_elses_is_told_what_pages_say(tmp_path, site):
    project = StrangersProject(tmp_path, SPIDER)
    project.set("PageUnderstanding", UNDERSTANDING_FIELDS={"robots": "robots", "text": "text"})
    items = {item["url"].removeprefix(site.origin): item for item in project.crawl(site.url()).items}
    said = [items[path]["robots"] for path in ("/noindex/by-meta/", "/noindex/by-name/", "/fine/silent/")]
    assert said == [["noindex"], None, None], "that project has another name"
    assert "workshop near the harbour" in items["/noindex/by-meta/"]["text"]


RENDERED = """<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>App</title>{head}</head><body>
<div id="root"></div><script>
const robots = document.querySelector("meta[name=robots]");
{script}
document.getElementById("root").innerHTML = `{main}`;
</script></body></html>"""
# What the HTML that the server sent says, what its scripts do with that, the header, and what the line has.
SCRIPTED: dict[str, tuple[str, str, str, list[str] | None]] = {
    "/app/kept/": ('<meta name="robots" content="noindex">', "", "", ["noindex"]),
    "/app/removed/": ('<meta name="robots" content="none">', "robots.remove();", "", ["nofollow", "noindex"]),
    "/app/changed/": ('<meta name="robots" content="nofollow">', 'robots.content = "all";', "", ["nofollow"]),
    "/app/added/": (
        "",
        'document.head.insertAdjacentHTML("beforeend", "<meta name=llmcrawler content=nofollow>");',
        "",
        ["nofollow"],
    ),
    "/app/header/": ("", "", "googlebot: none|nofollow", ["nofollow"]),
    "/app/other-bot/": ('<meta name="bingbot" content="none">', "", "googlebot: none", None),
    "/app/tampering/": ("", "window.__llmcrawler.metas().push(1);", "", None),
}


@needs_browser
@pytest.mark.parametrize("render", ["auto", "always"])
def test_rendered_pages_say_it_before_and_after_their_scripts_have_run(tmp_path, render):
    async def page(request: web.Request) -> web.Response:
        head, script, header, _ = SCRIPTED[request.path]
        main = f"<h1>Page</h1>{paragraphs(3, 1)}<a href='{behind(request.path)}'>More</a>"
        answer = html(RENDERED.format(head=head, script=script, main=main))
        for value in filter(None, header.split("|")):
            answer.headers.add("X-Robots-Tag", value)
        return answer

    links = "".join(f'<p><a href="{path}">Page {path}</a></p>' for path in SCRIPTED)
    routes = {"/": f"<title>Home</title><h1>Home</h1>{paragraphs(2, 1)}{links}", "/robots.txt": ""}
    with MockSite({**routes, **dict.fromkeys(SCRIPTED, page), "/behind/*": page_of("/")}).in_thread() as site:
        outcome = explore(tmp_path, site.url(), render=render, duplicates="keep")
        followed = {path for path in SCRIPTED if site.measures.hits[behind(path)]}
    assert outcome.exit_status == 0, outcome.log
    for path, (_, _, _, robots) in SCRIPTED.items():
        line = outcome.page(path)
        assert (line["error"], line["robots"]) == (None, robots), path
        assert bool(line["text"]) == ("noindex" not in (robots or ())), path
    assert followed == {path for path, said in SCRIPTED.items() if "nofollow" not in (said[3] or ())}
