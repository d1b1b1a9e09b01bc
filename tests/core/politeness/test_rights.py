"""What sites say of the use of their pages, by standard. The uses and their words: politeness/rights/uses.py."""

import asyncio
import json

import pytest

from llmcrawler.core.content.page import read_page
from llmcrawler.core.politeness.rights import (
    USES,
    RightsPolicy,
    Signal,
    SiteRights,
    ai_txt_signals,
    content_signals,
    header_signals,
    licence_files,
    noai_signals,
    refusal_of,
    rights_of,
    robots_signals,
    rsl_signals,
    signals_of,
    tdmrep_signals,
    uses_of_licence,
    uses_of_reservation,
    uses_of_statement,
)
from llmcrawler.core.politeness.robots import parse_robots, path_of
from llmcrawler.items import PageContent

HOST = "https://shop.example"
WHERE = f"{HOST}/file"
TRAINING = {"ai-train": "no"}
MINING = {"tdm": "no", "ai-train": "no"}


def uses_at(scoped, path="/a"):
    return [dict(one.uses) for one in scoped.of(path_of(HOST + path))]


# -- statements -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "uses"),
    [
        ("train-ai=n", {"ai-train": "no"}),
        ("train-ai=y, search=n", {"ai-train": "yes", "search": "no"}),
        ("search=yes,ai-train=no,use=reference", {"search": "yes", "ai-input": "conditions", "ai-train": "no"}),
        ("ai-train=yes,ai-input=yes,use=reference", {"ai-input": "yes", "ai-train": "yes"}),
        ("use=immediate", {"search": "no", "ai-index": "no", "ai-train": "no", "tdm": "no"}),
        ("search=no, Use=FULL", {"search": "no", "ai-index": "yes", "ai-input": "yes"}),
        ("use=some, use=yes", {}),
        ("Search=YES , ai-input = no", {"search": "yes", "ai-input": "no"}),
        ("train-ai=n;level=2", {"ai-train": "no"}),
        ("train-ai=n, train-ai=y", {"ai-train": "yes"}),  # RFC 9651, 4.2.2: the last one of a key
        ("tdm=n", MINING),
        ("bots=n, search=y", {**dict.fromkeys(USES, "no"), "search": "yes"}),
        ("search=y, bots=n", {**dict.fromkeys(USES, "no"), "search": "yes"}),  # the order has no meaning
        ("train-ai", {}),
        ("train-ai=maybe", {}),
        ("", {}),
        ("=,=n,;;", {}),
        ("x=n," * 10_000, {}),
    ],
)
def test_a_statement_answers_for_the_uses_that_its_words_mean(text, uses):
    assert uses_of_statement(text) == uses


@pytest.mark.parametrize(
    ("reservation", "policy", "uses"),
    [
        ("1", "", MINING),
        ("0", "", {"tdm": "yes", "ai-train": "yes"}),
        ("1", "https://shop.example/policy.json", {"tdm": "conditions", "ai-train": "conditions"}),
        ("true", "", {}),
        ("", "", {}),
    ],
)
def test_a_reservation_is_about_mining_and_training(reservation, policy, uses):
    assert uses_of_reservation(reservation, policy) == uses


@pytest.mark.parametrize(
    ("url", "answer"),
    [
        ("https://creativecommons.org/publicdomain/zero/1.0/", "yes"),
        ("http://www.creativecommons.org/licenses/by-nc/4.0/deed.de", "conditions"),
        ("https://shop.example/terms", None),
        ("https://evil.example/creativecommons.org/publicdomain/", None),
    ],
)
def test_public_licences_are_known_by_their_address(url, answer):
    assert uses_of_licence(url) == ({} if answer is None else dict.fromkeys(USES, answer))


# -- files of a host --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lines", "statements"),
    [
        ("User-agent: *\nContent-Usage: train-ai=n # why", [("content-usage", "train-ai=n")]),
        ("User-agent: *\nDisallow: /x\ncontent-signal : a=b", [("content-signal", "a=b")]),
        ("Content-Usage: train-ai=n", [("content-usage", "train-ai=n")]),  # before all groups, for want of another
        ("License: /a.xml\nUser-agent: *\nLicense: /b.xml", [("license", "/b.xml")]),
        ("License: /a.xml\nUser-agent: *\nDisallow:", [("license", "/a.xml")]),
        # Each is for the agents before it, also where it is all that they are told.
        (
            "User-agent: other\nContent-Usage: bots=n\nUser-agent: *\nContent-Usage: bots=y",
            [("content-usage", "bots=y")],
        ),
        (
            "User-agent: foobot\nContent-Usage: bots=n\nUser-agent: *\nContent-Usage: bots=y",
            [("content-usage", "bots=n")],
        ),
        ("User-agent: other\nUser-agent: *\nContent-Usage: bots=n", [("content-usage", "bots=n")]),
        ("User-agent: other\nContent-Usage: bots=n", []),
        ("User-agent: other\nDisallow: /\nLicense: /x.xml", []),
    ],
)
def test_robots_txt_states_rights_for_the_crawlers_of_a_group(lines, statements):
    assert list(parse_robots(lines.encode(), "foobot").statements) == statements


def test_statements_about_rights_change_nothing_of_what_may_be_fetched():
    text = "User-agent: foobot\nContent-Usage: train-ai=n\nUser-agent: other\nDisallow: /x\nContent-Usage: /y bots=n\n"
    assert not parse_robots(text.encode(), "foobot").allows(f"{HOST}/x")  # RFC 9309, 2.2.1: one group of two agents


@pytest.mark.parametrize(
    ("path", "uses"),
    [
        ("/", [TRAINING]),
        ("/ai-ok/page", [{"ai-train": "yes"}]),
        ("/ai-ok/not/this", [TRAINING]),
        ("/deep/old/x.html", [{"search": "no"}, {"search": "yes"}]),  # one path, two statements: both apply
        ("/%7Ealice/", [{"search": "no"}]),
    ],
)
def test_the_longest_path_decides_which_preference_applies(path, uses):
    lines = [
        "train-ai=n",
        "/ai-ok/ train-ai=y",
        "/ai-ok/not/\ttrain-ai=n",
        "/deep/*.html search=n",
        "/~alice/ search=n",
    ]
    statements = [("content-usage", line) for line in [*lines, "/deep/*.html search=y"]]
    (scoped,) = robots_signals(statements, WHERE)
    assert uses_at(scoped, path) == uses


def test_each_standard_in_robots_txt_has_paths_of_its_own():
    statements = [("content-usage", "/a train-ai=n"), ("content-signal", "ai-train=yes"), ("license", "/l.xml")]
    said = [one.of(path_of(f"{HOST}/a")) for one in robots_signals(statements, WHERE)]
    assert [(one.name, one.where, one.value) for (one,) in said] == [
        ("content-usage", WHERE, "/a train-ai=n"),
        ("content-signal", WHERE, "ai-train=yes"),
    ]


@pytest.mark.parametrize(
    ("rules", "path", "uses"),
    [
        ([{"location": "/", "tdm-reservation": 1}], "/a", [MINING]),
        ([{"location": "/", "tdm-reservation": 1}, {"location": "/free/", "tdm-reservation": 0}], "/free/x",
         [{"tdm": "yes", "ai-train": "yes"}]),
        ([{"location": "/img/*.jpg", "tdm-reservation": 1}], "/img/a.jpg", [MINING]),
        ([{"location": "/img/*.jpg", "tdm-reservation": 1}], "/a", []),
        ([{"location": "/a$", "tdm-reservation": 1}], "/ab", []),
        ([{"location": "/", "tdm-reservation": 1, "tdm-policy": "https://shop.example/p"}], "/a",
         [{"tdm": "conditions", "ai-train": "conditions"}]),
        ({"location": "/", "tdm-reservation": "1"}, "/a", [MINING]),  # the brackets forgotten
        ([{"location": "/", "tdm-reservation": 1, "more": json.loads("[" * 500 + "]" * 500)}], "/a", [MINING]),
        ([{"tdm-reservation": 1}, {"location": "/"}, "x", None, {"location": 3, "tdm-reservation": 1}], "/a", []),
    ],
)  # fmt: skip
def test_tdmrep_json(rules, path, uses):
    assert uses_at(tdmrep_signals(json.dumps(rules).encode(), WHERE), path) == uses


@pytest.mark.parametrize(
    "body", [b"", b"<html>not found</html>", b"[" * 100_000, b"[1," * 50_000, b"\xff\xfe\x00", b"null"]
)
def test_what_is_no_tdmrep_json_says_nothing(body):
    assert not tdmrep_signals(body, WHERE)


@pytest.mark.parametrize(
    ("text", "path", "uses"),
    [
        ("User-Agent: *\nDisallow: /", "/a", [TRAINING]),
        ("User-Agent: *\nDisallow: *.jpg\nDisallow: *.html", "/a.html", [TRAINING]),
        ("User-Agent: *\nDisallow: *.jpg", "/a", []),
        ("User-Agent: *\nDisallow: /\nAllow: /open/", "/open/a", [{"ai-train": "yes"}]),
        ("User-Agent: other\nDisallow: /", "/a", []),
        ("# About us\nWe sell lamps.", "/a", []),
        ("<!doctype html><p>Not found", "/a", []),
        ("", "/a", []),
    ],
)
def test_ai_txt(text, path, uses):
    assert uses_at(ai_txt_signals(text.encode(), WHERE, "foobot"), path) == uses


def rsl(contents):
    return f'<?xml version="1.0" encoding="utf-8"?><rsl xmlns="https://rslstandard.org/rsl">{contents}</rsl>'.encode()


def licence(inner, url="/", **attributes):
    given = "".join(f' {name}="{value}"' for name, value in attributes.items())
    return f'<content url="{url}"{given}><license>{inner}</license></content>'


AI = ("ai-index", "ai-input", "ai-train")


def only(uses):
    """Return the uses of a licence that lists what it permits: nothing else is."""
    return {**dict.fromkeys(USES, "no"), **uses}


@pytest.mark.parametrize(
    ("contents", "uses"),
    [
        (licence('<prohibits type="usage">ai-train</prohibits>'), [TRAINING]),
        (licence('<prohibits type="usage">train-ai</prohibits>'), [TRAINING]),
        (licence('<permits type="usage">search, ai-input</permits>'), [only({"search": "yes", "ai-input": "yes"})]),
        (licence('<permits type="usage">all</permits><prohibits type="usage">ai-all</prohibits>'),
         [{**dict.fromkeys(USES, "yes"), **dict.fromkeys(AI, "no")}]),
        (licence('<permits type="usage">ai-train</permits><payment type="crawl"/>'),
         [only({"ai-train": "conditions"})]),
        (licence('<permits type="usage">ai-train</permits><payment type="free"/>'), [only({"ai-train": "yes"})]),
        (licence('<permits type="usage">ai-train</permits><payment type="attribution"/>'), [only({"ai-train": "yes"})]),
        (licence('<permits type="usage">ai-train</permits>', server="https://rsl.example/api"),
         [only({"ai-train": "conditions"})]),
        (licence('<permits type="usage">ai-train</permits><permits type="user">education</permits>'),
         [only({"ai-train": "conditions"})]),
        (licence('<payment type="subscription"/>'), [dict.fromkeys(USES, "conditions")]),
        # The licences of a content are offers beside each other; one that is free goes before one that is not.
        (('<content url="/"><license><permits type="usage">search</permits></license><license>'
         '<permits type="usage">search ai-train</permits><payment type="purchase"/></license></content>'),
         [only({"search": "yes", "ai-train": "conditions"})]),
        # One that permits everything for money lists nothing.
        (('<content url="/"><license><permits type="usage">search</permits></license><license>'
         '<payment type="purchase"/></license></content>'), [{**dict.fromkeys(USES, "conditions"), "search": "yes"}]),
        (licence('<prohibits type="usage">ai-train</prohibits>', url="/b/"), []),
        (licence('<prohibits type="usage">ai-train</prohibits>', url=f"{HOST}/*"), [TRAINING]),
        (licence('<prohibits type="usage">ai-train</prohibits>', url="https://other.example/"), []),
        (licence('<prohibits type="usage">ai-train</prohibits>', url="//other.example/"), []),
        (licence('<prohibits type="usage">ai-train</prohibits>', url=""), [TRAINING]),
        (licence('<prohibits type="usage">ai-train</prohibits>') + licence("", url="/a"), [{}]),
        ("", []),
    ],
)  # fmt: skip
def test_rsl_licences(contents, uses):
    assert uses_at(rsl_signals(rsl(contents), WHERE, "shop.example")) == uses


BOMB = b"""<!DOCTYPE rsl [<!ENTITY a "aaaaaaaaaa">%s]><rsl><content url="/"><license>
<permits type="usage">&z9;</permits></license></content></rsl>""" % b"".join(
    b'<!ENTITY z%d "%s">' % (n, b"&z%d;" % (n - 1) * 10 if n else b"&a;" * 10) for n in range(10)
)


@pytest.mark.parametrize(
    "body",
    [b"", b"<html><p>no", b"{}", b"<a>" * 50_000, b"<rsl><content url='http://[x'><license/></content></rsl>", BOMB],
)
def test_what_is_no_rsl_licence_permits_and_forbids_nothing(body):
    assert [uses for uses in uses_at(rsl_signals(body, WHERE, "shop.example")) if uses] == []


# -- pages ------------------------------------------------------------------------------------------------------------

BY = "https://creativecommons.org/licenses/by/4.0/"


def said(signals):
    return [(one.name, one.where, one.uses.get("ai-train"), one.value) for one in signals]


@pytest.mark.parametrize(
    ("status", "headers", "found"),
    [
        (200, {}, []),
        (200, {"content-usage": "train-ai=n"}, [("content-usage", "header", "no", "train-ai=n")]),
        (200, {"content-signal": "ai-train=yes"}, [("content-signal", "header", "yes", "ai-train=yes")]),
        (200, {"tdm-reservation": "1"}, [("tdmrep", "header", "no", "1")]),
        (200, {"tdm-reservation": "1", "tdm-policy": "/p"}, [("tdmrep", "header", "conditions", "1 /p")]),
        (200, {"tdm-reservation": "yes"}, []),
        (200, {"link": f'<{BY}>; rel="license"'}, [("licence", "header", "conditions", BY)]),
        (200, {"link": '</style.css>; rel=preload, <x>; rel="next license", <y>'}, [("licence", "header", None, "x")]),
        (200, {"link": '</l.xml>; rel="license"; type="application/rsl+xml"'}, []),
        (402, {"crawler-price": "USD 0.01"}, [("payment", "header", "conditions", "USD 0.01")]),
        (402, {}, []),
        (200, {"crawler-price": "USD 0.01"}, []),
    ],
)
def test_headers(status, headers, found):
    assert said(header_signals(status, headers)) == found


@pytest.mark.parametrize(
    ("html", "found"),
    [
        ("<p>Nothing", []),
        ('<meta name="tdm-reservation" content="1">', [("tdmrep", "meta", "no", "1")]),
        ('<meta name="TDM-Reservation" content="0">', [("tdmrep", "meta", "yes", "0")]),
        (f'<link rel="license" href="{BY}">', [("licence", "link", "conditions", BY)]),
        (f'<p><a rel="nofollow license" href="{BY}">CC</a> <a rel="license" href="{BY}">again</a>',
         [("licence", "link", "conditions", BY)]),
        ('<p><a rel="license-like" href="/x">x</a>', []),
        ('<p><a href="/x" rel="license">x</a>', [("licence", "link", None, f"{HOST}/x")]),
        ('<script type="application/ld+json">{"@type": "Article", "license": "' + BY + '"}</script>',
         [("licence", "structured-data", "conditions", BY)]),
        (('<script type="application/ld+json">{"@type": "Dataset", "license": [{"@id": "u"}, {"url": 3}, null],'
         ' "acquireLicensePage": "/buy"}</script>'),
         [("licence", "structured-data", None, "u"), ("licence", "structured-data", None, "/buy")]),
        ('<script type="application/ld+json">{"@type": ["ImageObject"], "license": "' + BY + '"}</script>', []),
        ('<link rel="license" type="application/rsl+xml" href="/l.xml">', []),
    ],
)  # fmt: skip
def test_elements_of_a_page(html, found):
    assert said(content_signals(read_page(html, f"{HOST}/page"))) == found


def test_rsl_licences_that_a_page_names():
    content = read_page('<link rel="license" type="application/rsl+xml" href="/l.xml">', f"{HOST}/page")
    header = '</k.xml>; rel="license"; type="application/rsl+xml", <x>; rel=license'
    assert licence_files({"link": header}, content) == ["/k.xml", f"{HOST}/l.xml"]
    assert licence_files({}, None) == []


@pytest.mark.parametrize(
    ("header", "meta", "robots", "found"),
    [
        ("noai, noimageai", "", None, [("noai", "header", "no"), ("noimageai", "header", None)]),
        ("", "NOAI", None, [("noai", "meta", "no")]),
        ("other: noai", "", [], []),  # for another crawler
        ("", "index,noai", ["noai"], [("noai", "meta", "no")]),
        ("noaid", "", None, []),
    ],
)
def test_noai(header, meta, robots, found):
    content = PageContent(metadata={"robots": meta})
    signals = noai_signals({"x-robots-tag": header}, content, robots)
    assert [(one.name, one.where, one.uses.get("ai-train")) for one in signals] == found


# -- the field of a line ----------------------------------------------------------------------------------------------

NO_BY_ROBOTS = Signal(
    "content-signal", f"{HOST}/robots.txt", {"search": "yes", "ai-train": "no"}, "search=yes, ai-train=no"
)
YES_BY_HEADER = Signal("content-usage", "header", {"ai-train": "yes"}, "train-ai=y")
PAID = Signal("rsl", f"{HOST}/l.xml", {"ai-train": "conditions"}, "<content/>")
COMMONS = Signal("licence", "link", dict.fromkeys(USES, "conditions"), BY)


def test_the_strictest_answer_holds_and_the_conflict_is_named():
    rights = rights_of([YES_BY_HEADER, NO_BY_ROBOTS, NO_BY_ROBOTS], "ai-train")
    assert rights == {
        "uses": {"search": "yes", "ai-train": "no"},
        "verdict": "forbidden",
        "signals": [
            {"name": "content-usage", "where": "header", "uses": {"ai-train": "yes"}, "value": "train-ai=y"},
            {"name": "content-signal", "where": f"{HOST}/robots.txt", "uses": {"search": "yes", "ai-train": "no"},
             "value": "search=yes, ai-train=no"},
        ],
        "conflicts": [f"ai-train: no by content-signal ({HOST}/robots.txt), yes by content-usage (header)"],
    }  # fmt: skip
    assert list(rights["uses"]) == ["search", "ai-train"]
    assert rights_of(signals_of(rights), "ai-train") == rights


@pytest.mark.parametrize(
    ("signals", "purpose", "verdict"),
    [
        ([], "ai-train", "unsaid"),
        ([NO_BY_ROBOTS], None, None),
        ([NO_BY_ROBOTS], "search", "allowed"),
        ([NO_BY_ROBOTS], "monitoring", "unsaid"),
        ([YES_BY_HEADER], "ai-train", "allowed"),
        ([PAID], "ai-train", "forbidden"),  # it needs an agreement
        ([COMMONS], "ai-train", "allowed"),  # its conditions can be kept without one
        ([COMMONS, NO_BY_ROBOTS], "ai-train", "forbidden"),
    ],
)
def test_the_verdict_is_for_the_purpose_of_the_crawl(signals, purpose, verdict):
    assert rights_of(signals, purpose)["verdict"] == verdict
    if purpose is not None:
        assert (refusal_of(signals, purpose) is not None) == (verdict == "forbidden")


def test_a_page_of_which_nothing_is_said_or_asked_has_no_rights():
    assert rights_of([], None) is None


def test_what_a_page_says_by_tdmrep_replaces_what_its_host_says():
    file, header = (Signal("tdmrep", where, dict.fromkeys(("tdm", "ai-train"), answer), "") for where, answer in
                    ((WHERE, "no"), ("header", "yes")))  # fmt: skip
    rights = rights_of([file, header], "ai-train")
    assert (rights["verdict"], rights["conflicts"], len(rights["signals"])) == ("allowed", [], 2)


def test_a_field_is_bounded():
    many = [Signal("licence", "x" * 5_000, {}, f"{number}" * 5_000) for number in range(1, 200)]
    rights = rights_of(many, None)
    assert len(rights["signals"]) == 40
    assert {len(one["value"]) for one in rights["signals"]} == {len(one["where"]) for one in rights["signals"]} == {500}


# -- asking hosts -----------------------------------------------------------------------------------------------------


class Files:
    def __init__(self, **bodies):
        self.bodies = {
            f"{HOST}/{name.replace('__', '/.well-known/').lstrip('/')}": text for name, text in bodies.items()
        }
        self.asked = []
        self.refusals = 0

    async def __call__(self, url, _base):
        self.asked.append(url.removeprefix(HOST))
        if self.refusals:
            self.refusals -= 1
            raise ConnectionError("not now")
        await asyncio.sleep(0)
        return self.bodies.get(url)


BOTH = ["/.well-known/tdmrep.json", "/ai.txt"]
PROHIBITED = rsl(licence('<prohibits type="usage">ai-train</prohibits>'))


async def ask(rights, files, *urls):
    for url in urls:
        rights.ask(url, files)
    await asyncio.gather(*(rights.answers(url) for url in urls))


async def test_a_host_is_asked_once_for_all_who_wait():
    files = Files(**{"ai.txt": b"User-agent: *\nDisallow: /a"})
    rights = SiteRights(RightsPolicy("respect", "ai-train"))
    await ask(rights, files, f"{HOST}/a", f"{HOST}/b")
    await ask(rights, files, f"{HOST}/c")
    assert files.asked == BOTH
    assert rights.refusal_of(f"{HOST}/a") == f"ai-train: no by ai.txt ({HOST}/ai.txt)"
    assert rights.refusal_of(f"{HOST}/b") is None


async def test_a_licence_that_robots_txt_names_is_the_third_file_and_for_all_pages():
    files = Files(**{"l.xml": PROHIBITED})
    rights = SiteRights(RightsPolicy())
    rights.note_robots(f"{HOST}/a", [("license", "/l.xml"), ("content-usage", "search=y")])
    await ask(rights, files, f"{HOST}/a")
    assert files.asked == [*BOTH, "/l.xml"]
    assert [one.name for one in rights.signals_for(f"{HOST}/a")] == ["content-usage", "rsl"]
    (other,) = await rights.licence_signals(f"{HOST}/a", "/m.xml", files)
    assert (other.uses, other.value, files.asked[3:]) == ({}, f"{HOST}/m.xml", [])


async def test_a_licence_that_a_page_names_is_for_the_pages_that_name_it():
    files = Files(**{"l.xml": PROHIBITED})
    rights = SiteRights(RightsPolicy())
    await ask(rights, files, f"{HOST}/a")
    for page in (f"{HOST}/a", f"{HOST}/b"):
        (signal,) = await rights.licence_signals(page, "/l.xml", files)
        assert signal.uses == TRAINING
    assert files.asked == [*BOTH, "/l.xml"]
    assert rights.signals_for(f"{HOST}/c") == []


async def test_a_licence_of_a_third_host_is_read_for_each_host_that_names_it():
    files = Files()
    files.bodies["https://rsl.example/l.xml"] = PROHIBITED
    rights = SiteRights(RightsPolicy())
    pages = [f"{HOST}/a", "https://other.example/a"]
    await ask(rights, files, *pages)
    named = "https://rsl.example/l.xml"
    both = await asyncio.gather(*(rights.licence_signals(page, named, files) for page in pages))
    assert [dict(one.uses) for (one,) in both] == [TRAINING, TRAINING]
    assert files.asked[4:] == [named, named]


@pytest.mark.parametrize("named", ["", "http://[x", "javascript:alert(1)", "#", "data:,x"])
async def test_a_licence_that_is_at_no_address_is_not_asked_for(named):
    files = Files()
    rights = SiteRights(RightsPolicy())
    rights.note_robots(f"{HOST}/a", [("license", named)])
    await ask(rights, files, f"{HOST}/a")
    assert len(files.asked) <= 3
    await rights.licence_signals(f"{HOST}/a", named, files)
    assert [dict(one.uses) for one in rights.signals_for(f"{HOST}/a")] in ([], [{}])


async def test_a_host_that_has_no_time_is_asked_again():
    files = Files()
    files.refusals = 1
    rights = SiteRights(RightsPolicy())
    with pytest.raises(ConnectionError):
        await ask(rights, files, f"{HOST}/a")
    await ask(rights, files, f"{HOST}/a")
    assert files.asked == BOTH * 2


async def test_without_files_there_is_what_robots_txt_says():
    files = Files(**{"l.xml": PROHIBITED})
    rights = SiteRights(RightsPolicy(), reads_files=False)
    rights.note_robots(f"{HOST}/a", [("license", "/l.xml"), ("content-signal", "ai-train=no")])
    await ask(rights, files, f"{HOST}/a")
    assert files.asked == []
    assert [(one.name, dict(one.uses)) for one in rights.signals_for(f"{HOST}/a")] == [
        ("content-signal", TRAINING),
        ("rsl", {}),
    ]


async def test_where_robots_txt_is_not_obeyed_it_is_one_of_the_files():
    files = Files(**{"robots.txt": b"User-agent: *\nContent-Usage: train-ai=n"})
    rights = SiteRights(RightsPolicy(), "foobot", reads_robots=True)
    await ask(rights, files, f"{HOST}/a")
    assert [one.name for one in rights.signals_for(f"{HOST}/a")] == ["content-usage"]


def test_a_new_robots_txt_replaces_the_old_one():
    rights = SiteRights(RightsPolicy("respect", "ai-train"))
    rights.note_robots(f"{HOST}/a", [("content-usage", "train-ai=n")])
    assert rights.refusal_of(f"{HOST}/a") is not None
    rights.note_robots(f"{HOST}/a", [])
    assert rights.refusal_of(f"{HOST}/a") is None
