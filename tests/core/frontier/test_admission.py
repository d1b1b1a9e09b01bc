"""Which urls a map lists, when there is enough, and the strings that were met lately."""

from __future__ import annotations

from datetime import date

import pytest

from llmcrawler.core.content import read_outline
from llmcrawler.core.frontier.admission import (
    LISTED_ONLY_PRIORITY,
    TEST_PRIORITY,
    MapAdmission,
    MapRules,
    RecentStrings,
)
from llmcrawler.core.frontier.protocol import UrlTask
from llmcrawler.core.urls import Listed, Scope, TrapGuard, parse_llms_txt
from llmcrawler.items import Page, Url, UrlSource, feed_item_of

HOME = "https://h.example/"
SITEMAP = "https://h.example/sitemap.xml"


def admission(subdomains: bool = False, **rules) -> MapAdmission:
    scope = Scope([HOME], subdomains=subdomains, max_depth=rules.get("max_depth"))
    return MapAdmission(scope, TrapGuard(date(2026, 1, 1)), MapRules(**rules))


class Queue:
    """A frontier's `add`."""

    def __init__(self) -> None:
        self.urls: list[str] = []

    async def add(self, tasks) -> int:
        new = list(dict.fromkeys(task.url for task in tasks if task.url not in self.urls))
        self.urls += new
        return len(new)


def paths(tasks: list[UrlTask]) -> list[str]:
    return [task.url.removeprefix("https://h.example") for task in tasks]


def listed(*references: str) -> list[Listed]:
    return [Listed(reference) for reference in references]


def test_a_list_is_taken_at_its_word_within_the_site():
    entries = listed(
        "https://h.example/a", "/b", "https://www.h.example/c", "https://other.example/", "mailto:x", "/d.pdf"
    )
    tasks = admission().of_list(entries, "sitemap", SITEMAP)
    assert paths(tasks) == ["/a", "/b", "https://www.h.example/c", "/d.pdf"]
    assert [task.priority >= LISTED_ONLY_PRIORITY for task in tasks] == [False, False, False, True]
    assert {task.referer for task in tasks} == {SITEMAP}


def test_a_list_may_have_more_pages_than_a_trap():
    entries = listed(*(f"/page/{number}" for number in range(3000)))
    assert len(admission().of_list(entries, "sitemap", SITEMAP)) == 3000


def test_links_come_breadth_first_and_before_what_is_listed():
    mapped = admission()
    (deep,) = mapped.of_page(["https://h.example/deep"], 3, HOME)
    (near,) = mapped.of_page(["https://h.example/near"], 1, HOME)
    (from_list,) = mapped.of_list(listed("/listed"), "sitemap", SITEMAP)
    (start,) = mapped.of_start([HOME])
    assert start.priority < near.priority < deep.priority < from_list.priority < LISTED_ONLY_PRIORITY


def test_pages_at_the_last_depth_are_listed_and_not_looked_through():
    mapped = admission(max_depth=2)
    priorities = [mapped.of_page([f"https://h.example/{depth}"], depth, HOME) for depth in (1, 2, 3)]
    assert [[task.priority >= LISTED_ONLY_PRIORITY for task in tasks] for tasks in priorities] == [[False], [True], []]


def test_a_link_that_a_list_has_is_no_way_to_more():
    mapped = admission()
    mapped.of_list(listed("/1"), "sitemap", SITEMAP)
    in_list, in_none = mapped.of_page(["https://h.example/1", "https://h.example/2"], 1, HOME)
    assert in_none.priority < TEST_PRIORITY <= in_list.priority
    for _page in range(50):
        mapped.note_links(in_none)
    assert mapped.reason_to_end is None


@pytest.mark.parametrize(("subdomains", "count"), [(False, 1), (True, 3)])
def test_subdomains_belong_to_the_site_when_that_is_asked_for(subdomains, count):
    entries = listed(
        "/x", "https://blog.h.example/", "https://a.b.h.example/", "https://ah.example/", "https://example/"
    )
    assert len(admission(subdomains).of_list(entries, "sitemap", SITEMAP)) == count


async def test_max_urls_counts_each_url_that_matches_once():
    mapped, queue = admission(max_urls=5, match="/p/"), Queue()
    entries = listed("/p/1", "/p/1?utm_source=x", "/other", "/p/2", "/p/3", "/p/4", "/p/5", "/p/6", "/p/7")
    await mapped.add(mapped.of_page(["https://h.example/way"], 1, HOME), queue.add)
    await mapped.add(mapped.of_list(entries, "sitemap", SITEMAP), queue.add)
    assert queue.urls == ["https://h.example/way", *(f"https://h.example/p/{number}" for number in range(1, 6))]
    assert mapped.reason_to_end == "max_urls=5 reached"


def look_through(mapped: MapAdmission, pages: int) -> None:
    for _page in range(pages):
        task = UrlTask("https://h.example/x", "h.example", priority=TEST_PRIORITY)
        mapped.note_links(task, mapped.of_page(["https://h.example/1", "https://h.example/2"], 1, HOME))


def test_lists_that_have_what_links_lead_to_are_believed_after_some_pages():
    mapped = admission(barren_pages=5)
    look_through(mapped, 1)
    mapped.of_list(listed(*(f"/{number}" for number in range(100))), "sitemap", SITEMAP)
    look_through(mapped, 4)
    assert mapped.reason_to_end is None
    look_through(mapped, 1)
    assert "lists are complete" in str(mapped.reason_to_end)


@pytest.mark.parametrize("known", [(), ("/1",)], ids=["no list", "a list of little"])
def test_without_whole_lists_every_page_may_have_more(known):
    mapped = admission(barren_pages=5)
    mapped.of_list(listed(*known), "sitemap", SITEMAP)
    look_through(mapped, 50)
    assert mapped.reason_to_end is None


async def test_a_map_that_goes_on_counts_the_urls_it_has():
    mapped = admission(max_urls=3)
    mapped.restore(["https://h.example/1", "https://moved.example/2"])
    assert mapped.room == 1
    assert mapped.of_page(["https://moved.example/3"], 1, HOME)


def test_of_two_places_the_better_one_names_the_source():
    assert UrlSource("link").merged(UrlSource("sitemap", "2026")) == UrlSource("sitemap", "2026")
    assert UrlSource("start").merged(UrlSource("feed", "2026", "T")) == UrlSource("start", "2026", "T")
    assert UrlSource("sitemap", "2025").merged(UrlSource("feed", "2026", "T")) == UrlSource("sitemap", "2025", "T")


def test_lines_become_the_items_that_they_were():
    for item in (Url(HOME, source="feed", status=200), Page(HOME)):
        assert feed_item_of(item.as_line()) == item


def test_llms_txt_has_links_with_titles():
    body = b'# Site\n> [Docs](/docs): all\n- [A  page](https://h.example/a "T")\nhttps://h.example/b.\n[x](#top)\n'
    assert parse_llms_txt(body).urls == (
        Listed("/docs", "", "Docs"),
        Listed("https://h.example/a", "", "A page"),
        Listed("https://h.example/b"),
    )


@pytest.mark.parametrize(
    ("body", "fault"), [(b" <!doctype html>", "web page"), (b"", "no URLs"), (b"\xff\xfe", "no URLs")]
)
def test_what_is_no_llms_txt_says_so(body, fault):
    assert fault in parse_llms_txt(body).fault


def test_a_page_has_a_title_links_feeds_and_a_description():
    html = """<title> A\n page </title><base href="/sub/"><link rel="alternate" type="application/rss+xml" href="feed">
        <link rel="canonical" href="/c"><link rel="alternate" hreflang="de" href="/de">
        <link rel="stylesheet" href="x.css">
        <link rel="alternate" type="application/json" href="/x.json"><a href="1">1</a><map><area href="2"></map>
        <meta name=description content=""><meta name=Description content=" Of
 tea "><meta name=description content=b>
        <a href="mailto:x@y">m</a><a href="1">again</a>"""
    outline = read_outline(html, HOME)
    assert (outline.title, outline.description) == ("A page", "Of tea")
    assert outline.feeds == ("https://h.example/sub/feed",)
    assert outline.links == tuple(f"https://h.example/{path}" for path in ("sub/1", "sub/2", "c", "de"))


def test_what_was_met_lately_is_known_and_what_was_met_long_ago_is_not():
    remembered = RecentStrings(100)
    assert "a0" not in remembered
    for n in range(1000):
        assert f"a{n}" not in remembered
        remembered.add(f"a{n}")
        remembered.add(f"a{n}")  # once more makes no difference
        assert all(f"a{m}" in remembered for m in range(max(0, n - 99), n + 1))
    assert not any(f"a{n}" in remembered for n in range(799))
    assert "b" not in remembered
