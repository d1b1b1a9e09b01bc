"""What pages and their headers say to robots: as Google documents it, and what sites make of that."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import pytest

from llmcrawler.core.content import read_outline, read_page
from llmcrawler.core.politeness.robots import PageRobots

NOW = datetime(2026, 6, 1, 12, 0, tzinfo=UTC)
OURS = PageRobots("llmcrawler")
DATE = re.compile(r"unavailable_after: .*?(?=, no\w+$|, no\w+\">|\">|$)")

# The values of X-Robots-Tag headers, and what holds for us, with commas between; "" where nothing does. "DATE"
# is what was said with unavailable_after, in lower case.
HEADERS = [
    # Google's own examples
    (["noindex"], "noindex"),
    (["noarchive", "unavailable_after: 25 Jun 2030 15:00:00 PST"], "noarchive,DATE"),
    (["unavailable_after: 25 Jun 2010 15:00:00 PST"], "noindex,DATE"),
    (["googlebot: nofollow", "otherbot: noindex, nofollow"], ""),
    (["noimageindex, unavailable_after: 7 Jul 2007 16:30:00 GMT"], "noimageindex,noindex,DATE"),
    (["max-snippet: 20, max-image-preview: large"], "max-image-preview: large,max-snippet: 20"),
    (["noindex, nofollow"], "nofollow,noindex"),
    # several headers, several directives, case and spaces
    (["noindex", "nofollow"], "nofollow,noindex"),
    (["NoIndex , NOFOLLOW"], "nofollow,noindex"),
    (["  noindex  "], "noindex"),
    (["noindex,,nofollow,"], "nofollow,noindex"),
    (["noindex, noindex", "noindex"], "noindex"),
    (["noarchive", "noindex"], "noarchive,noindex"),
    ([""], ""),
    ([" , ,"], ""),
    ([], ""),
    # other signs between them than commas
    (["noindex; nofollow"], "nofollow,noindex"),
    (["noindex nofollow"], "nofollow,noindex"),
    (["noindex\tnofollow"], "nofollow,noindex"),
    # what stands for others, and what contradicts itself
    (["none"], "nofollow,noindex"),
    (["NONE"], "nofollow,noindex"),
    (["all"], "all"),
    (["index, follow"], "follow,index"),
    (["index, noindex"], "noindex"),
    (["follow", "nofollow"], "nofollow"),
    (["all, noindex"], "noindex"),
    (["all, none"], "nofollow,noindex"),
    (["index, nofollow"], "index,nofollow"),
    # whom they are for
    (["llmcrawler: noindex"], "noindex"),
    (["LLMCrawler: NOINDEX"], "noindex"),
    (["llmcrawler/0.1: noindex"], "noindex"),
    (["llmcrawler : noindex"], "noindex"),
    (["llmcrawler:noindex,nofollow"], "nofollow,noindex"),
    (["llmcrawler: noindex", "nofollow"], "nofollow,noindex"),
    (["*: noindex"], "noindex"),
    (["robots: noindex"], "noindex"),
    (["googlebot: noindex"], ""),
    (["llm: noindex"], ""),
    (["crawler: noindex"], ""),
    (["llmcrawlers: noindex"], ""),
    (["mllmcrawler: none"], ""),
    (["googlebot: noindex, nofollow"], ""),
    (["googlebot: noindex", "nofollow"], "nofollow"),
    (["noindex, googlebot: nofollow"], "noindex"),
    (["googlebot: noindex, llmcrawler: nofollow"], "nofollow"),  # as a proxy joins two headers
    (["llmcrawler: nofollow, googlebot: noindex"], "nofollow"),
    (["bingbot: noarchive, *: nofollow, googlebot: none"], "nofollow"),
    (["llmcrawler: none"], "nofollow,noindex"),
    (["llmcrawler: all", "noindex"], "noindex"),
    (["llmcrawler: unavailable_after: 25 Jun 2010 15:00:00 PST"], "noindex,DATE"),
    (["googlebot: unavailable_after: 25 Jun 2010 15:00:00 PST"], ""),
    (["googlebot: max-snippet:20, noindex"], ""),
    # values; "none" of an image preview says nothing of the page
    (["max-image-preview:none"], "max-image-preview: none"),
    (["max-snippet:-1,max-video-preview:0"], "max-snippet: -1,max-video-preview: 0"),
    (["max-foo: 3, noindex"], "max-foo: 3,noindex"),
    (["revisit-after: 7 days, noindex"], "noindex,revisit-after: 7 days"),
    (["max-snippet:"], ""),
    # dates, with commas and colons of their own
    (["unavailable_after: Fri, 25 Jun 2010 15:00:00 GMT"], "noindex,DATE"),
    (["unavailable_after: Friday, 25-Jun-10 15:00:00 UTC"], "noindex,DATE"),
    (["unavailable_after: 25-Aug-2007 15:00:00 EST"], "noindex,DATE"),
    (["unavailable_after: 25-Aug-2007"], "noindex,DATE"),
    (["unavailable_after: 2010-06-25"], "noindex,DATE"),
    (["unavailable_after: 2010-06-25T15:00:00+02:00"], "noindex,DATE"),
    (["unavailable_after: 2010-06-25T15:00:00Z, noarchive"], "noarchive,noindex,DATE"),
    (["unavailable_after: Jun 25, 2010 15:00:00, nofollow"], "nofollow,noindex,DATE"),
    (["unavailable_after: Friday, Jun 25, 2010"], "noindex,DATE"),
    (["unavailable_after: Fri, 25 Jun 2010 15:00:00 GMT, nofollow"], "nofollow,noindex,DATE"),
    (["unavailable_after: Mon, 01 Jun 2026 12:00:00 GMT"], "noindex,DATE"),
    (["unavailable_after: Mon, 01 Jun 2026 12:00:01 GMT"], "DATE"),
    (["unavailable_after: Mon, 01 Jun 2026 14:30:00 +0300"], "noindex,DATE"),
    (["unavailable_after: tomorrow, noindex"], "noindex,DATE"),
    (["unavailable_after: 99999999999999999999"], "DATE"),
    (["unavailable_after:"], ""),
    (["noindex, 360Spider: nofollow"], "noindex"),
    # what is recorded only, and what is none
    (["noai, noimageai"], "noai,noimageai"),
    (["noarchive, nosnippet, notranslate, noimageindex"], "noarchive,noimageindex,nosnippet,notranslate"),
    (["indexifembedded, noindex"], "indexifembedded,noindex"),
    (["no-index"], "no-index"),
    (["\"noindex\""], ""),
    (["<noindex>"], ""),
    (["n\xf6index"], ""),
    (["x" * 41], ""),
    (["max-snippet: " + "9" * 101], ""),
    (["noindex\x00"], ""),
    # bounds
    ([",".join(f"word{number}" for number in range(10, 999)) + ", noindex"],
     ",".join(["noindex", *(f"word{number}" for number in range(10, 50))])),
    (["x" * 20_000, "noindex"], ""),
]  # fmt: skip

# What stands in the head of a page, and what holds for us.
METAS = [
    ('<meta name="robots" content="noindex">', "noindex"),
    ('<meta name="ROBOTS" content="NOINDEX, NOFOLLOW">', "nofollow,noindex"),
    ("<META NAME=robots CONTENT=none>", "nofollow,noindex"),
    ('<meta name=" robots " content=" noindex ">', "noindex"),
    ('<meta name="robots" content="noindex"><meta name="robots" content="nofollow">', "nofollow,noindex"),
    ('<meta name="robots" content="index"><meta name="robots" content="noindex">', "noindex"),
    ('<meta name="robots" content="nofollow"><meta name="llmcrawler" content="noindex">', "nofollow,noindex"),
    ('<meta name="robots" content="nofollow"><meta name="googlebot" content="noindex">', "nofollow"),
    ('<meta name="LLMCrawler" content="noindex,nofollow">', "nofollow,noindex"),
    ('<meta name="llmcrawler" content="NOINDEX nofollow">', "nofollow,noindex"),
    ('<meta name="llmcrawler" content="no returns">', ""),
    ('<meta name="llmcrawler" content="index,follow"><meta name="robots" content="noindex">', "follow,noindex"),
    ('<meta name="llmcrawler/2" content="noindex">', ""),  # no name of a robot
    ('<meta name="googlebot" content="noindex"><meta name="bingbot" content="none">', ""),
    ('<meta name="robots" content="index, follow, max-image-preview:large, max-snippet:-1, max-video-preview:-1">',
     "follow,index,max-image-preview: large,max-snippet: -1,max-video-preview: -1"),
    ('<meta name="robots" content="noindex nofollow">', "nofollow,noindex"),
    ('<meta name="robots" content="noindex;nofollow">', "nofollow,noindex"),
    ('<meta name="robots" content="noai, noimageai">', "noai,noimageai"),
    ('<meta name="robots" content="unavailable_after: 25-Aug-2007 15:00:00 EST">',
     "noindex,DATE"),
    ('<meta name="robots" content="unavailable_after: Friday, 25-Jun-10 15:00:00 UTC, nofollow">',
     "nofollow,noindex,DATE"),
    ('<meta content="noindex" name="robots">', "noindex"),
    ("<meta name='robots' content='no&#105;ndex'>", "noindex"),
    ('<meta name="robots" content="no\nindex">', "index,no"),
    ('<meta name="robots" content="noindex,\n nofollow">', "nofollow,noindex"),
    ('<meta property="og:title" name="robots" content="noindex">', "noindex"),
    ('<meta property="robots" content="noindex">', ""),
    ('<meta http-equiv="robots" content="noindex">', ""),
    ('<meta name="robots">', ""),
    ('<meta name="robots" content="">', ""),
    ('<!-- <meta name="robots" content="noindex"> -->', ""),
    ('<script>"<meta name=robots content=noindex>"</script>', ""),
    ('<noscript><meta name="robots" content="noindex"></noscript>', "noindex"),
    ('</head><body><p>Tea.<meta name="robots" content="noindex">', "noindex"),
    ('<meta name="description" content="noindex, nofollow"><meta name="keywords" content="all, none">', ""),
    ('<meta name="dc:robots" content="noindex">', ""),
    ("".join(f'<meta name="bot{number}" content="noindex">' for number in range(500))
     + '<meta name="robots" content="nofollow">', "nofollow"),
    ('<meta name="robots" content="' + "words," * 1000 + 'noindex">', "wo,words"),
]  # fmt: skip


def with_date(expected: str, said: list[str]) -> str:
    date = DATE.search("".join(said))
    return expected if date is None else expected.replace("DATE", date[0].lower())


@pytest.mark.parametrize(("headers", "expected"), HEADERS)
def test_headers(headers: list[str], expected: str) -> None:
    found = OURS.directives(NOW, headers)
    assert ",".join(found or ()) == with_date(expected, headers)
    assert found is None or found
    assert OURS.directives(NOW, found or ()) == found  # what is recorded says the same


@pytest.mark.parametrize(("head", "expected"), METAS)
def test_meta_elements(head: str, expected: str) -> None:
    html = f"<html><head><title>Tea</title>{head}"
    for robots in (read_page(html, "https://a.example/").robots, read_outline(html, "https://a.example/").robots):
        assert ",".join(OURS.directives(NOW, (), robots) or ()) == with_date(expected, [head])


def test_headers_and_meta_elements_add_up() -> None:
    robots = read_page('<meta name="robots" content="index, nofollow">', "https://a.example/").robots
    assert OURS.directives(NOW, ["noindex"], robots) == ["nofollow", "noindex"]


def test_the_metadata_of_a_page_has_all_that_is_said_to_all_robots() -> None:
    head = (
        '<meta name="robots" content="noindex"><meta name="googlebot" content="all"><meta name="robots" content="noai">'
    )
    assert read_page(head, "https://a.example/").metadata["robots"] == "noindex, noai"


def test_a_crawler_without_a_name_takes_what_is_said_to_all() -> None:
    assert PageRobots("").directives(NOW, ["googlebot: noindex, *: nofollow"]) == ["nofollow"]


def test_a_date_is_over_when_it_is() -> None:
    said = OURS.directives(datetime(2026, 1, 1, tzinfo=UTC), ["unavailable_after: 1 May 2026"])
    assert said == ["unavailable_after: 1 may 2026"]
    assert OURS.directives(NOW, said) == ["noindex", "unavailable_after: 1 may 2026"]


@pytest.mark.parametrize(
    ("robots", "withholds", "follows"),
    [
        (None, False, True),
        (["noarchive"], False, True),
        (["noindex"], True, True),
        (["nofollow"], False, False),
        (["nofollow", "noindex"], True, False),
    ],
)
def test_what_is_obeyed(robots: list[str] | None, withholds: bool, follows: bool) -> None:
    assert (OURS.withholds(robots), OURS.follows(robots)) == (withholds, follows)
    records = PageRobots("llmcrawler", obeys=False)
    assert (records.withholds(robots), records.follows(robots)) == (False, True)
