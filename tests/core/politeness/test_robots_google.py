"""Google's own cases for its parser (robots_test.cc of github.com/google/robotstxt), told anew: all of its verdicts.

Where Google's parser differs from RFC 9309 ours follows the RFC; these cases stand apart, with the reason.
"""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from llmcrawler.core.politeness.robots import parse_robots

SITE = "http://foo.bar"


@dataclass(frozen=True, slots=True)
class Case:
    """A file, and the urls that it allows and forbids to an agent. A url may begin with its path."""

    text: str
    agent: str = "FooBot"
    allowed: tuple[str, ...] = ()
    forbidden: tuple[str, ...] = ()
    is_google_only: bool = False  # the RFC wants the contrary of what Google does

    @property
    def verdicts(self) -> list[tuple[str, bool]]:
        return [*((url, True) for url in self.allowed), *((url, False) for url in self.forbidden)]


def ours(*lines: str) -> str:
    return "user-agent: FooBot\n" + "".join(f"{line}\n" for line in lines)


FOR_FOO = ours("disallow: /")
GROUPS = (
    "allow: /foo/bar/\n\nuser-agent: FooBot\ndisallow: /\nallow: /x/\nuser-agent: BarBot\ndisallow: /\nallow: /y/\n"
    "\n\nallow: /w/\nuser-agent: BazBot\n\nuser-agent: FooBot\nallow: /z/\ndisallow: /\n"
)
SITEMAP_BETWEEN = "User-agent: BarBot\nSitemap: https://foo.bar/sitemap\nUser-agent: *\nDisallow: /\n"
UNKNOWN_BETWEEN = "User-agent: FooBot\nInvalid-Unknown-Line: unknown\nUser-agent: *\nDisallow: /\n"
KEYS = [f"{agent}: FooBot\n{allow}: /x/\n{disallow}: /\n" for agent, allow, disallow in (
    ("USER-AGENT", "ALLOW", "DISALLOW"),
    ("user-agent", "allow", "disallow"),
    ("uSeR-aGeNt", "AlLoW", "dIsAlLoW"),
)]  # fmt: skip
NAMES = [f"User-Agent: {name}\nAllow: /x/\nDisallow: /\n" for name in ("FOO BAR", "foo bar", "FoO bAr")]
TWO_WORDS = "User-Agent: *\nDisallow: /\nUser-Agent: Foo Bar\nAllow: /x/\nDisallow: /\n"
FOR_ALL = "user-agent: *\nallow: /\nuser-agent: FooBot\ndisallow: /\n"
FOR_OTHERS = "user-agent: FooBot\nallow: /\nuser-agent: BarBot\ndisallow: /\nuser-agent: BazBot\ndisallow: /\n"
OWN_GROUP = "User-agent: *\nDisallow: /x/\nUser-agent: FooBot\nDisallow: /y/\n"
INDEX = "User-Agent: *\nAllow: /allowed-slash/index.html\nDisallow: /\n"
# Google reads 8 * 2083 characters of a line, with its key.
LONG_SHUT = "/x/" + "a" * (2083 * 8 - len("disallow: ") - 5)
LONG_A = "/x/" + "a" * (2083 * 8 - len("allow: ") - 5)
LONG_B = LONG_A.replace("a", "b")
LONG_OPEN = ours("disallow: /", f"allow: {LONG_A}/qux", f"allow: {LONG_B}/qux")


def only(path: str) -> str:
    return ours("disallow: /", f"allow: {path}")


CASES = [
    # -- the whole
    Case("", allowed=("",)),
    Case(FOR_FOO, "", allowed=("",)),
    Case(FOR_FOO, forbidden=("",)),
    Case("", "", allowed=("",)),
    # -- lines
    Case("foo: FooBot\nbar: /\n", allowed=("/x/y",)),
    *(Case(text, allowed=("/x/y",), forbidden=("/a/b",)) for text in KEYS),
    # -- groups
    Case(GROUPS, "FooBot", allowed=("/x/b", "/z/d"), forbidden=("/y/c", "/foo/bar/")),
    Case(GROUPS, "BarBot", allowed=("/y/c", "/w/a"), forbidden=("/z/d", "/foo/bar/")),
    Case(GROUPS, "BazBot", allowed=("/z/d",), forbidden=("/foo/bar/",)),
    *(
        Case(text, agent, forbidden=("/",))
        for text in (SITEMAP_BETWEEN, UNKNOWN_BETWEEN)
        for agent in ("FooBot", "BarBot")
    ),
    *(Case(text, agent, allowed=("/x/y",), forbidden=("/a/b",)) for text in NAMES for agent in ("Foo", "foo")),
    Case(TWO_WORDS, "Foo", allowed=("/x/y",)),
    Case(TWO_WORDS, "Foo Bar", forbidden=("/x/y",)),
    Case(FOR_ALL, forbidden=("/x/y",)),
    Case(FOR_ALL, "BarBot", allowed=("/x/y",)),
    Case(FOR_OTHERS, "QuxBot", allowed=("/x/y",)),
    Case(OWN_GROUP, allowed=("/x/page",), forbidden=("/y/page",)),
    # -- matches
    Case(ours("disallow: /X/"), allowed=("/x/y",)),
    Case(ours("disallow: /x/page.html", "allow: /x/"), forbidden=("/x/page.html",)),
    Case(ours("allow: /x/page.html", "disallow: /x/"), allowed=("/x/page.html",), forbidden=("/x/",)),
    Case(ours("disallow: /", "allow: /"), allowed=("/x/page.html",)),
    Case(ours("disallow: /x", "allow: /x/"), allowed=("/x/",), forbidden=("/x",)),
    Case(ours("disallow: /x/page.html", "allow: /x/page.html"), allowed=("/x/page.html",)),
    Case(ours("allow: /page", "disallow: /*.html"), allowed=("/page",), forbidden=("/page.html",)),
    Case(ours("allow: /x/page.", "disallow: /*.html"), allowed=("/x/page.html",), forbidden=("/x/y.html",)),
    # -- escapes
    Case(only("/foo/bar?qux=taz&baz=http://foo.bar?tar&par"), allowed=("/foo/bar?qux=taz&baz=http://foo.bar?tar&par",)),
    Case(only("/foo/bar/ツ"), allowed=("/foo/bar/%E3%83%84",)),
    Case(only("/foo/bar/%E3%83%84"), allowed=("/foo/bar/%E3%83%84",)),
    # 2.2.2: octets outside of US-ASCII are escaped before they are compared. Google leaves that to its callers.
    Case(only("/foo/bar/ツ"), forbidden=("/foo/bar/ツ",), is_google_only=True),
    Case(only("/foo/bar/%E3%83%84"), forbidden=("/foo/bar/ツ",), is_google_only=True),
    Case(only("/foo/bar/%62%61%7A"), allowed=("/foo/bar/%62%61%7A",)),
    # 2.2.2 has just this pair, as one that matches.
    Case(only("/foo/bar/%62%61%7A"), forbidden=("/foo/bar/baz",), is_google_only=True),
    # -- special characters
    Case(
        ours("Disallow: /foo/bar/quz", "Allow: /foo/*/qux"),
        allowed=("/foo/quz", "/foo//quz", "/foo/bax/quz"),
        forbidden=("/foo/bar/quz",),
    ),
    Case(
        ours("Disallow: /foo/bar$", "Allow: /foo/bar/qux"),
        allowed=("/foo/bar/qux", "/foo/bar/", "/foo/bar/baz"),
        forbidden=("/foo/bar",),
    ),
    Case(ours("# Disallow: /", "Disallow: /foo/quz#qux", "Allow: /"), allowed=("/foo/bar",), forbidden=("/foo/quz",)),
    # -- Google's own
    Case(INDEX, allowed=("/allowed-slash/index.html",), forbidden=("/allowed-slash/index.htm", "/anyother-url")),
    # "index.html" stands for itself in the RFC.
    Case(INDEX, allowed=("/allowed-slash/",), is_google_only=True),
    Case(ours(f"disallow: {LONG_SHUT}/qux"), allowed=("/fux",)),
    Case(LONG_OPEN, allowed=(f"{LONG_A}/qux",), forbidden=("/",)),
    # The RFC has no longest line but what 500 KiB hold: a rule is not cut, as half of it is another rule.
    Case(ours(f"disallow: {LONG_SHUT}/qux"), forbidden=(f"{LONG_SHUT}/fux",), is_google_only=True),
    Case(LONG_OPEN, allowed=(f"{LONG_B}/fux",), is_google_only=True),
    # -- Google's documentation
    *(
        Case(
            only(path),
            allowed=(
                *("/fish", "/fish.html", "/fish/salmon.html", "/fishheads", "/fishheads/yummy.html"),
                "/fish.html?id=anything",
            ),
            forbidden=("/bar", other, "/catfish", "/?id=fish"),
        )
        for path, other in (("/fish", "/Fish.asp"), ("/fish*", "/Fish.bar"))
    ),
    Case(
        only("/fish/"),
        allowed=("/fish/", "/fish/salmon", "/fish/?salmon", "/fish/salmon.html", "/fish/?id=anything"),
        forbidden=("/bar", "/fish", "/fish.html", "/Fish/Salmon.html"),
    ),
    Case(
        only("/*.php"),
        allowed=(
            *("/filename.php", "/folder/filename.php", "/folder/filename.php?parameters"),
            *("//folder/any.php.file.html", "/filename.php/", "/index?f=filename.php/"),
        ),
        forbidden=("/bar", "/php/", "/index?php", "/windows.PHP"),
    ),
    Case(
        only("/*.php$"),
        allowed=("/filename.php", "/folder/filename.php"),
        forbidden=(
            *("/bar", "/filename.php?parameters", "/filename.php/", "/filename.php5", "/php/", "/filename?php"),
            *("/aaaphpaaa", "//windows.PHP"),
        ),
    ),
    Case(
        only("/fish*.php"), allowed=("/fish.php", "/fishheads/catfish.php?parameters"), forbidden=("/bar", "/Fish.PHP")
    ),
    Case(ours("allow: /p", "disallow: /"), allowed=("/page",)),
    Case(ours("allow: /folder", "disallow: /folder"), allowed=("/folder/page",)),
    Case(ours("allow: /page", "disallow: /*.htm"), forbidden=("/page.htm",)),
    Case(ours("allow: /$", "disallow: /"), allowed=("/",), forbidden=("/page.html",)),
]
VERDICTS = [(case, url, verdict) for case in CASES for url, verdict in case.verdicts]


@pytest.mark.parametrize(("case", "url", "verdict"), VERDICTS)
def test_a_verdict_is_googles_or_the_rfcs(case: Case, url: str, verdict: bool) -> None:
    found = parse_robots(case.text.encode(), case.agent.lower()).allows(f"{SITE}{url}" if url else "")
    assert found is (verdict is not case.is_google_only)


# -- lines, sitemaps and spellings ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("start", "middle", "agent_counts", "rule_counts"),
    [
        (b"\xef\xbb\xbf", b"", True, True),
        (b"\xef\xbb", b"", True, True),
        (b"\xef", b"", True, True),
        (b"\xef\x11\xbf", b"", False, True),
        (b"", b"\xef\xbb\xbf", True, False),
    ],
)
def test_a_byte_order_mark_counts_at_the_start_alone(
    start: bytes, middle: bytes, agent_counts: bool, rule_counts: bool
) -> None:
    text = start + b"User-Agent: foo\n" + middle + b"Disallow: /AnyValue\n"
    assert parse_robots(text, "foo").allows(f"{SITE}/AnyValue") is not (agent_counts and rule_counts)
