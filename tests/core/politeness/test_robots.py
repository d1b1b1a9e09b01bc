"""robots.txt by RFC 9309. Cases of Google's parser: test_robots_google.py."""

from __future__ import annotations

import re
import tracemalloc
from datetime import UTC, datetime

import pytest

from llmcrawler.core.content import read_outline, read_page
from llmcrawler.core.politeness import robots as path_rules
from llmcrawler.core.politeness.robots import (
    MAX_BYTES,
    PageRobots,
    RobotsCache,
    has_robots,
    parse_robots,
    product_token,
)
from tests.virtual_time import Clock

FORBIDDEN = "User-agent: *\nDisallow: /\n"


def robots(text, token="foobot"):
    return parse_robots(text if isinstance(text, bytes) else text.encode(), token)


def allows(text, path, token="foobot"):
    return robots(text, token).allows(f"http://foo.bar{path}")


# -- which group is ours (2.2.1) --------------------------------------------------------------------------------------

FOR_FOO = "User-agent: FooBot\nDisallow: /\n"
FOR_BAR = "User-agent: BarBot\nDisallow: /\n"


@pytest.mark.parametrize(
    ("text", "allowed"),
    [
        ("\n\r\n\r", True),
        # A name ends where such names have no character.
        ("User-agent: FooBot/2.1\nDisallow: /", False),
        ("User-agent: FooBot 2\nDisallow: /", False),
        ("User-agent: foobot2\nDisallow: /", False),
        ("User-agent: foobot*\nDisallow: /", False),
        # The whole name counts, not the beginning or a part of it.
        ("User-agent: foo\nDisallow: /", True),
        ("User-agent: bot\nDisallow: /", True),
        ("User-agent: foobot-image\nDisallow: /", True),
        ("User-agent: Mozilla/5.0 (compatible; FooBot/1.0)\nDisallow: /", True),
        ("User-agent:\nDisallow: /", True),
        ("User-agent: /\nDisallow: /", True),
        # Everybody's group.
        ("User-agent: * \nDisallow: /", False),
        ("User-agent: * baz\nDisallow: /", False),
        ("User-agent: *baz\nDisallow: /", True),
        (f"{FORBIDDEN}User-agent: foobot\nAllow: /", True),
        (f"User-agent: foobot\nAllow: /\n{FORBIDDEN}", True),
        # A group of our own holds alone, even one without rules.
        (f"User-agent: foobot\n\n{FORBIDDEN}", False),  # a blank line ends no group: both agents have the rule
        (f"User-agent: foobot\nDisallow:\n{FORBIDDEN}", True),
        (f"User-agent: foobot\nAllow: /x\nDisallow: /y\n\n{FORBIDDEN}", True),
        # Rules of several agents, and several groups of one.
        ("User-agent: FooBot\nUser-agent: BarBot\nDisallow: /", False),
        ("User-agent: FooBot\nAllow: /x\nUser-agent: BarBot\nAllow: /\nUser-agent: foobot\nDisallow: /", False),
        ("User-agent: *\nAllow: /x\nUser-agent: BarBot\nAllow: /\nUser-agent: *\nDisallow: /", False),
        # What is no rule splits nothing.
        ("User-agent: FooBot\nCrawl-delay: 5\nUser-agent: BarBot\nDisallow: /", False),
        ("User-agent: FooBot\nNoindex: /x\nwhat is this\n\nUser-agent: BarBot\nDisallow: /", False),
        # Rules before any agent are nobody's.
        ("Disallow: /\nUser-agent: FooBot\nAllow: /x", True),
        ("Disallow: /\n", True),
    ],
)
def test_the_group_is_chosen_by_the_exact_product_token(text, allowed):
    assert allows(text, "/page") is allowed


@pytest.mark.parametrize(
    ("user_agent", "token"),
    [
        ("llmcrawler/0.1 (+https://github.com/llmcrawler/llmcrawler)", "llmcrawler"),
        ("LLMcrawler", "llmcrawler"),
        ("my_Bot-X 2", "my_bot-x"),
        ("Mozilla/5.0 (compatible; MyBot/1.0; +http://my.example/bot)", "mybot"),
        ("Mozilla/5.0 (X11; Linux x86_64)", "mozilla"),
        ("", ""),
        ("2bots", ""),
    ],
)
def test_our_own_name_is_the_product_token_of_the_user_agent(user_agent, token):
    assert product_token(user_agent) == token


@pytest.mark.parametrize("name", ["llm", "github", "com", "https", "crawler", "0.1", ""])
def test_words_of_our_user_agent_are_not_our_name(name):
    token = product_token("llmcrawler/0.1 (+https://github.com/llmcrawler/llmcrawler)")
    assert allows(f"User-agent: {name}\nDisallow: /", "/", token)


def test_a_crawler_without_a_name_has_everybodys_rules():
    assert allows("User-agent:\nDisallow: /\n\nUser-agent: 2\nDisallow: /\n", "/x", "")
    assert not allows(FORBIDDEN, "/x", "")


# -- lines ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "allowed"),
    [
        ("user-agent: foobot\rdisallow: /\r", False),
        ("user-agent: foobot\n\rdisallow: /", False),
        ("  user-agent\t:  foobot  \n\tdisallow :\t/  ", False),
        ("user-agent:foobot\ndisallow:/", False),
        ("user-agent: foobot # us\ndisallow: / # all", False),
        ("user-agent: foobot\n#disallow: /", True),
        ("user-agent: foobot\ndisallow: #/", True),
        # Misspelt, and without a colon.
        ("user agent: foobot\ndisalow: /", False),
        ("useragent: foobot\ndissallow: /", False),
        ("user-agent: foobot\ndisallow / x", True),
        ("user-agent: foobot\ndisallowed: /", True),
        ("user-agent: foobot\nxdisallow: /", True),
        # Lines end at CR and LF and nowhere else.
        ("user-agent: foobot\nfoo\x0bdisallow: /", True),
        ("user-agent: foobot\nfoo\x85disallow: /", True),
        ("user-agent: foobot\nfoo\u2028disallow: /", True),
        # NUL ends what counts of a line.
        ("user-agent: foobot\ndisallow: /p\0xyz", False),
        ("user-agent: foobot\n\0disallow: /", True),
        ("user-agent: foobot\0nonsense\ndisallow: /", False),
        ("\ufeffuser-agent: foobot\ndisallow: /".encode("utf-16-le"), False),
        ("\ufeffuser-agent: foobot\ndisallow: /".encode("utf-16-be"), False),
        # No robots.txt at all.
        ("<!doctype html><title>Not found</title>", True),
        (bytes(range(256)) * 10, True),
    ],
)
def test_lines_are_read_as_the_rfc_has_them(text, allowed):
    assert allows(text, "/page") is allowed


# -- rules (2.2.2, 2.2.3) ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lines", "path", "allowed"),
    [
        # The longest match holds, wherever it stands, and Allow among equals.
        ("allow: /page\ndisallow: /*.ph", "/page.php5", True),
        # Paths are compared with case, from their start.
        ("disallow: /x", "/a/x", True),
        ("disallow: x", "/x", True),
        ("disallow: http://foo.bar/x", "/x", True),
        ("disallow: /", "", False),
        ("disallow: /?", "?x=1", False),
        # Wildcards.
        ("disallow: *", "/x", False),
        ("disallow: /*", "/x", False),
        ("disallow: *.php", "/a/b.php?c", False),
        ("disallow: /*.php$", "/a.php/b.php", False),
        ("disallow: /foo/bar/*/qux", "/foo/bar/baz/qux", False),
        ("disallow: /foo/bar/*/qux", "/foo/bar/qux", True),
        ("disallow: /a***b", "/ab", False),
        ("disallow: /a*b*c$", "/a-b-b-c-c", False),
        ("disallow: /a*b*c$", "/a-c-b", True),
        ("disallow: /*aa$", "/a", True),
        ("disallow: /a*a$", "/a", True),
        ("disallow: /a$", "/a/", True),
        ("disallow: /a*$", "/abc", False),
        ("disallow: /a**\nallow: /ab", "/abc", False),  # stars are octets too
        ("disallow: $", "/x", True),
        # "$" that is not at the end stands for itself, and so do both when they are escaped.
        ("disallow: /a$b", "/a$b", False),
        ("disallow: /a$b", "/a%24b", False),
        ("disallow: /a$b", "/a", True),
        ("disallow: /a%24", "/a$b", False),
        ("disallow: /a%2a", "/a*", False),
        ("disallow: /a%2A", "/ab", True),
        ("disallow: /a*$b$", "/a-$b", False),
        # Escapes.
        ("disallow: /foo/bar/%e3%83%84", "/foo/bar/%E3%83%84", False),
        ("disallow: /foo/bar/baz", "/foo/bar/%62%61%7a", False),
        ("disallow: /~joe/", "/%7Ejoe/page", False),
        ("disallow: /a%3Fb", "/a?b", True),
        ("disallow: /a?b", "/a%3Fb", True),
        ("disallow: /a%2fb", "/a%2Fb", False),
        ("disallow: /a%2fb", "/a/b", True),
        ("disallow: /a b", "/a%20b", False),
        ("disallow: /100%", "/100%25", False),
        ("disallow: /%zz", "/%25zz", False),
        ('disallow: /"x"', "/%22x%22", False),
        # What is compared of a url.
        ("disallow: /#x", "/", False),
        ("disallow: /x", "/#/x", True),
        ("disallow: /x", "/?/x", True),
        ("disallow: /", "/robots.txt", True),
        ("disallow: /", "/robots.txt?x", False),
    ],
)
def test_the_longest_match_decides(lines, path, allowed):
    assert allows(f"user-agent: foobot\n{lines}", path) is allowed


def test_octets_that_are_no_utf_8_are_compared_as_they_are():
    text = b"user-agent: foobot\ndisallow: /caf\xe9"
    assert not allows(text, "/caf%E9")
    assert allows(text, "/café")


@pytest.mark.parametrize(
    "url", ["http://foo.bar", "https://foo.bar:81/x?y", "HTTP://u@foo.bar/x", "data:x", "", "\ud800"]
)
def test_any_url_can_be_asked_for(url):
    assert not robots(FORBIDDEN).allows(url)


# -- what else stands there -------------------------------------------------------------------------------------------


_LONG = "9" * 5000


@pytest.mark.parametrize(
    ("text", "gap"),
    [
        ("User-agent: *\nCrawl-delay: 5", 5),
        ("User-agent: foobot\nCrawl-delay: 0.5\n", 0.5),
        ("User-agent: foobot\nCrawl-delay: 2\nAllow: /\nUser-agent: *\nCrawl-delay: 5", 2),
        ("User-agent: foobot\nAllow: /\nUser-agent: *\nCrawl-delay: 5", None),
        ("User-agent: bar\nCrawl-delay: 5\nUser-agent: foobot\nAllow: /", 5),  # one group, of both
        ("User-agent: *\nRequest-rate: 1/10", 10),
        ("User-agent: *\nRequest-rate: 30/1m 0900-1700", 2),
        ("User-agent: *\nRequest-rate: 1/1h\nCrawl-delay: 5", 3600),
        ("User-agent: *\nRequest-rate: 10/1s\nCrawl-delay: 5", 5),
        ("User-agent: *\nRequest-rate: 3/2m\nCrawl-delay: 1.5", 40),
        ("Crawl-delay: 5", None),
        *((f"User-agent: *\nCrawl-delay: {odd}", None) for odd in ("-1", "nan", "inf", "1e999", "x", "", "1,5", _LONG)),
        *((f"User-agent: *\nRequest-rate: {odd}", None) for odd in ("0/1", "1", "-1/5", "1/x", f"1/{_LONG}")),
    ],
)
def test_the_gap_is_the_longest_that_is_asked_of_us(text, gap):
    assert robots(text).gap_seconds == gap


def test_sitemaps_are_everybodys():
    text = "Sitemap: http://a/1.xml\nUser-agent: x\nDisallow: /\nsite-map:/2.xml # c\nSITEMAP : http://a/ü.xml"
    assert robots(text).sitemaps == ("http://a/1.xml", "/2.xml", "http://a/ü.xml")


# -- bounds -----------------------------------------------------------------------------------------------------------


def test_at_most_500_kib_are_read_and_no_half_line():
    head = f"{FORBIDDEN}Allow: /page\n"
    room = MAX_BYTES - len(head)
    assert not allows(f"{head}{'#' * (room - 20)}\nDisallow: /page-9", "/page-9/x")  # the whole file is within
    assert allows(f"{head}{'#' * (room - 10)}\nAllow: /x\nDisallow: /page-9", "/page-9")
    assert not allows(f"{head}{'#' * (room - 10)}\nAllow: /x-and-more", "/x")
    assert allows(b"Disallow: /" + b"x" * 2 * MAX_BYTES, "/")


@pytest.mark.parametrize("end", ["\n", "\r", "\r\n"])
def test_no_line_is_lost_where_a_long_file_is_cut_into_pieces(end):
    paths = [f"/{'x' * (number % 37)}{number}" for number in range(9000)]
    found = robots(end.join(["User-agent: *", *(f"Disallow: {path}$" for path in paths)]))
    assert not [path for path in paths if found.allows(f"http://foo.bar{path}")]
    assert allows(f"user-agent: *{end * 300_000}disallow: /x", "/y")
    assert not allows(f"user-agent: *{end * 200_000}disallow: /x", "/x")


def test_rules_of_other_crawlers_take_no_memory():
    agents = "".join(f"User-agent: bot{'x' * (number % 50)}\n" for number in range(4000))
    lines = "".join(f"Disallow: /path/{number}\n" for number in range(4000))
    for text in (agents + lines, agents + "User-agent: *\n" + lines):
        body = text.encode()
        tracemalloc.start()
        found = robots(body)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 8 * 2**20
        assert found.size_bytes < 2**20
        assert found.allows("http://foo.bar/path/3999") is (text == agents + lines)


def test_many_stars_are_no_work_without_end():
    stars = "*a" * 500
    assert allows(f"user-agent: *\ndisallow: /{stars}b", f"/{'a' * 2000}")
    assert not allows(f"user-agent: *\ndisallow: /{stars}b", f"/{'a' * 2000}b")


@pytest.mark.slow
def test_a_path_that_would_take_too_much_work_is_not_allowed():
    text = "user-agent: *\n" + "".join(f"disallow: /*aa{number:x}b\n" for number in range(30_000))
    assert allows(text, "/an/ordinary/page.html?id=1")
    assert not allows(text, f"/{'a' * 2000}")


def test_the_work_of_a_path_is_within_its_bound(monkeypatch):
    """Counted at worst: each character of the path beside each of the rules that was looked at."""
    looked_at = []
    match = path_rules._Wildcard.matches
    monkeypatch.setattr(path_rules._Wildcard, "matches", lambda rule, path: looked_at.append(rule) or match(rule, path))
    lines = "".join(f"disallow: /*{'a' * 100}{number}b\n" for number in range(4000))
    assert not allows(f"user-agent: *\n{lines}", f"/{'a' * 2000}")
    assert sum(len(rule.needle) * (2001 - rule.least) for rule in looked_at) <= path_rules.MAX_STEPS


HOUR, DAY = 3600.0, 24 * 3600.0
HTTP, HTTPS = "http://a.example", "https://a.example"


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_hosts_not_asked_for_are_forgotten_first(clock: Clock) -> None:
    kept = RobotsCache[str](clock, max_bytes=100)
    for host in "abc":
        kept.keep(host, host.upper(), 40)
        kept.get("a")
    assert [kept.get(host) for host in "abc"] == ["A", None, "C"]
    kept.keep("a", "larger", 500)
    assert [kept.get(host) for host in "ac"] == ["larger", None]
    kept.keep("a", "small", 1)
    kept.keep("d", "D", 99)
    assert [kept.get(host) for host in "ad"] == ["small", "D"]


def test_a_copy_serves_for_a_day(clock: Clock) -> None:
    kept = RobotsCache[str](clock)
    kept.keep(HTTPS, "one", 10)
    clock.now += DAY - 1
    assert kept.get(HTTPS) == "one"
    clock.now += 1
    assert kept.get(HTTPS) is None
    assert kept.last(HTTPS) == "one"
    kept.keep(HTTPS, "two", 10)
    assert kept.get(HTTPS) == "two"
    assert (kept.get(HTTP), kept.last(HTTP)) == (None, None)  # the schemes of a host have files of their own


def test_the_last_copy_serves_while_no_new_one_can_be_had_but_not_for_ever(clock: Clock) -> None:
    kept = RobotsCache[str](clock)
    assert not kept.renew(HTTP)
    kept.keep(HTTP, "one", 10)
    clock.now += DAY
    hours = 0
    while kept.renew(HTTP):
        assert kept.get(HTTP) == "one"
        clock.now += HOUR
        assert kept.get(HTTP) is None  # it is to be asked for again
        hours += 1
    assert hours == 29 * 24


def test_what_is_kept_for_a_time_is_asked_for_after_it(clock: Clock) -> None:
    kept = RobotsCache[str](clock)
    kept.keep(HTTP, "nothing", 10, until=1005.0)
    assert kept.get(HTTP) == "nothing"
    clock.now = 1005.0
    assert kept.get(HTTP) is None
    assert kept.last(HTTP) == "nothing"


@pytest.mark.parametrize(
    ("statuses", "answer"),
    [
        (range(200, 300), True),
        (range(300, 400), False),  # one that leads nowhere, or on and on
        ([*range(400, 429), *range(430, 500)], False),
        ([429], None),
        (range(500, 1000), None),
        (range(100, 200), None),
    ],
)
def test_each_status_has_a_meaning(statuses: list[int], answer: bool | None) -> None:
    assert {has_robots(status) for status in statuses} == {answer}


NOW = datetime(2026, 6, 1, 12, 0, tzinfo=UTC)
OURS = PageRobots("llmcrawler")
DATE = re.compile(r"unavailable_after: .*?(?=, no\w+$|, no\w+\">|\">|$)")

# The values of X-Robots-Tag headers, and what holds for us, with commas between; "" where nothing does. "DATE"
# is what was said with unavailable_after, in lower case.
HEADERS = [
    # Google's own examples
    (["noarchive", "unavailable_after: 25 Jun 2030 15:00:00 PST"], "noarchive,DATE"),
    (["unavailable_after: 25 Jun 2010 15:00:00 PST"], "noindex,DATE"),
    (["googlebot: nofollow", "otherbot: noindex, nofollow"], ""),
    (["noimageindex, unavailable_after: 7 Jul 2007 16:30:00 GMT"], "noimageindex,noindex,DATE"),
    (["max-snippet: 20, max-image-preview: large"], "max-image-preview: large,max-snippet: 20"),
    (["noindex, nofollow"], "nofollow,noindex"),
    # several headers, several directives, case and spaces
    (["noindex", "nofollow"], "nofollow,noindex"),
    (["  noindex  "], "noindex"),
    ([""], ""),
    ([], ""),
    # other signs between them than commas
    (["noindex; nofollow"], "nofollow,noindex"),
    (["noindex nofollow"], "nofollow,noindex"),
    # what stands for others, and what contradicts itself
    (["none"], "nofollow,noindex"),
    (["all"], "all"),
    (["index, follow"], "follow,index"),
    (["index, noindex"], "noindex"),
    (["all, noindex"], "noindex"),
    (["index, nofollow"], "index,nofollow"),
    # whom they are for
    (["LLMCrawler: NOINDEX"], "noindex"),
    (["llmcrawler/0.1: noindex"], "noindex"),
    (["llmcrawler : noindex"], "noindex"),
    (["llmcrawler:noindex,nofollow"], "nofollow,noindex"),
    (["llmcrawler: noindex", "nofollow"], "nofollow,noindex"),
    (["*: noindex"], "noindex"),
    (["robots: noindex"], "noindex"),
    (["llm: noindex"], ""),
    (["crawler: noindex"], ""),
    (["llmcrawlers: noindex"], ""),
    (["mllmcrawler: none"], ""),
    (["googlebot: noindex", "nofollow"], "nofollow"),
    (["noindex, googlebot: nofollow"], "noindex"),
    (["googlebot: noindex, llmcrawler: nofollow"], "nofollow"),  # as a proxy joins two headers
    (["llmcrawler: nofollow, googlebot: noindex"], "nofollow"),
    (["bingbot: noarchive, *: nofollow, googlebot: none"], "nofollow"),
    (["llmcrawler: all", "noindex"], "noindex"),
    (["llmcrawler: unavailable_after: 25 Jun 2010 15:00:00 PST"], "noindex,DATE"),
    (["googlebot: unavailable_after: 25 Jun 2010 15:00:00 PST"], ""),
    (["googlebot: max-snippet:20, noindex"], ""),
    # values; "none" of an image preview says nothing of the page
    (["max-image-preview:none"], "max-image-preview: none"),
    (["max-foo: 3, noindex"], "max-foo: 3,noindex"),
    (["revisit-after: 7 days, noindex"], "noindex,revisit-after: 7 days"),
    (["max-snippet:"], ""),
    # dates, with commas and colons of their own
    (["unavailable_after: Fri, 25 Jun 2010 15:00:00 GMT"], "noindex,DATE"),
    (["unavailable_after: Friday, 25-Jun-10 15:00:00 UTC"], "noindex,DATE"),
    (["unavailable_after: 25-Aug-2007 15:00:00 EST"], "noindex,DATE"),
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
    ('<meta name=" robots " content=" noindex ">', "noindex"),
    ('<meta name="robots" content="noindex"><meta name="robots" content="nofollow">', "nofollow,noindex"),
    ('<meta name="robots" content="nofollow"><meta name="llmcrawler" content="noindex">', "nofollow,noindex"),
    ('<meta name="robots" content="nofollow"><meta name="googlebot" content="noindex">', "nofollow"),
    ('<meta name="llmcrawler" content="index,follow"><meta name="robots" content="noindex">', "follow,noindex"),
    ('<meta name="llmcrawler/2" content="noindex">', ""),  # no name of a robot
    ('<meta name="robots" content="index, follow, max-image-preview:large, max-snippet:-1, max-video-preview:-1">',
     "follow,index,max-image-preview: large,max-snippet: -1,max-video-preview: -1"),
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
