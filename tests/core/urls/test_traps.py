import hashlib
import itertools
import re
from datetime import date
from uuid import UUID

import pytest

from llmcrawler.core.urls import TrapGuard, traps
from tests.nightly import rest_by_night

HOST = "http://h.example"
TODAY = date(2024, 6, 15)


SITE = ("", "about", "contact", "cart", "category/lamps", "category/chairs", "product/17", "terms", "help/faq", "a/b/c")


def code(number):
    return hashlib.sha256(str(number).encode()).hexdigest()[:40]


def uuid(number):
    return str(UUID(code(number)[:32]))


def admitted(paths):
    guard = TrapGuard(TODAY)
    return sum(guard.reason_to_refuse(HOST + path) is None for path in paths)


ORDINARY = {
    "products": lambda: [f"/product/the-{n * 7919}-thing_{n}/" for n in range(10_000)],
    "products by number in the path": lambda: [f"/product/{n}" for n in range(195_000, 210_000)],
    "posts by number": lambda: [f"/?p={n}" for n in range(10_000)],
    "cursors": lambda: [f"/list?cat={n % 5}&cursor={n * 2654435761:032x}" for n in range(1000)],
    "products by number": lambda: [f"/product.php?id={n}" for n in range(10_000)],
    "products by code": lambda: [f"/item?id={n * 2654435761:032x}" for n in range(10_000)],
    "products by uuid and language": lambda: [f"/item?id={n * 2654435761:032x}&lang=en" for n in range(10_000)],
    "products under categories": lambda: [f"/shop/c{n % 20}/sub{n % 7}/thing-{n}" for n in range(10_000)],
    "joomla": lambda: [
        f"/index.php?option=com_content&view=article&id={n}&catid={n % 30}&Itemid={n % 9}" for n in range(5_000)
    ],
    "cursors that are called next": lambda: [f"/list?next={n * 2654435761:032x}" for n in range(1000)],
    "numbers that are called next": lambda: [f"/list?next={n}" for n in range(1000)],
    "addresses that are looked up": lambda: [f"/check?url=http://h{n}.example/" for n in range(1000)],
    "logins of many sites": lambda: [f"/sites/{n}/login?next=/sites/{n}" for n in range(1000)],
    "forum": lambda: [f"/viewtopic.php?f={n % 20}&t={n}" for n in range(10_000)],
    "forum pages": lambda: [f"/viewtopic.php?f={n % 20}&t={n}&start={p}" for n in range(2_000) for p in (15, 30)],
    "categories and pages": lambda: [f"/list?cat={c}&sub={c * 3}&page={p}" for c in range(50) for p in range(100)],
    "a blog archive": lambda: [f"/blog/page/{n}/" for n in range(1, 1001)],
    "a blog archive by query": lambda: [f"/blog/?page={n}" for n in range(1, 1001)],
    "articles by date": lambda: [
        f"/{y}/{m:02}/{d:02}/entry-{y}-{m}-{d}/" for y in range(2005, 2024) for m in range(1, 13) for d in range(1, 29)
    ],
    "months of a blog": lambda: [f"/blog/{y}/{m:02}/" for y in range(2004, 2024) for m in range(1, 13)],
    "documentation": lambda: [
        f"/{lang}/{version}/part{n % 12}/topic-{n}.html" for lang in ("en", "de") for version in ("1.0", "2.0")
        for n in range(1000)
    ],
    "chapters": lambda: [f"/book/title-{b}/chapter/{c}/" for b in range(100) for c in range(100)],
    "searches": lambda: [f"/?q=word{n}" for n in range(1000)],
    "users": lambda: [f"/user/{n}/{tab}" for n in range(3000) for tab in ("posts", "about", "likes")],
    "products by uuid in the path": lambda: [f"/product/{uuid(n)}" for n in range(5000)],
    "products by uuid below the front": lambda: [f"/{uuid(n)}/" for n in range(5000)],
    "uuids and names": lambda: [f"/item/{uuid(n)}/the-{n * 7919}-thing" for n in range(5000)],
    "users by uuid and their tabs": lambda: [
        f"/user/{uuid(n)}/{tab}" for n in range(1000) for tab in ("", "posts", "about", "likes", "friends", "photos")
    ],
    "tabs by uuid below the front": lambda: [f"/{uuid(n)}/{tab}" for n in range(900) for tab in ("", "likes")],
    "books by hash and their chapters": lambda: [f"/book/{code(n)}/chapter/{c}/" for n in range(99) for c in range(40)],
    "galleries and pages": lambda: [f"/g/{code(n)}/?page={c}" for n in range(300) for c in range(10)],
    "commits": lambda: [f"/repo/commit/{code(n)}" for n in range(3000)],
    "files of commits": lambda: [f"/repo/blob/{code(n)}/src/file_{n}.py" for n in range(3000)],
    "hashed asset folders": lambda: [f"/assets/{code(n)}/index.html" for n in range(1000)],
    "tags": lambda: [f"/tag/{'very-' * 4}long-word-{n}/page/{p}" for n in range(300) for p in range(3)],
    "short links": lambda: [f"/s/{code(n)}" for n in range(3000)],
    "a visit that lasts": lambda: [f"/s/{code(1)}/item/{n}" for n in range(3000)],
    "a wiki": lambda: [f"/index.php?title=Page_{n}" for n in range(10_000)],
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", rest_by_night(ORDINARY, 12))
def test_an_ordinary_site_is_never_cut(name):
    paths = ORDINARY[name]()
    assert admitted(paths) == len(paths)


def _combined(names, choices):
    values = [None, *range(choices)]
    for combination in itertools.product(values, repeat=len(names)):
        yield [(name, value) for name, value in zip(names, combination, strict=True) if value is not None]


FACETS = ("colour", "size", "brand", "price", "material", "shape")
MONTHS = [(year, month) for year in range(1900, 2100) for month in range(1, 13)]
DAYS = [f"{year}-{month:02}-{day:02}" for year, month in MONTHS for day in range(1, 29)]


def _facet_queries(names, choices):
    return ["&".join(f"{name}={value}" for name, value in chosen) for chosen in _combined(names, choices)]


TRAPS = {
    "calendar in the path": (lambda: [f"/cal/{y}/{m}/" for y, m in MONTHS], 300),
    "days in the path": (lambda: [f"/cal/{day}" for day in DAYS], 300),
    "calendar in the query": (lambda: [f"/events?year={y}&month={m}" for y, m in MONTHS], 300),
    "date in the query": (lambda: [f"/yoga/?date={day}" for day in DAYS], 300),
    "plain date in the query": (lambda: [f"/yoga/?date={day.replace('-', '')}" for day in DAYS], 300),
    "logins that lead back": (lambda: [f"/user/login/?next=/t/thread-{n}/" for n in range(1000)], 3),
    "logins that lead back to an address": (
        lambda: [f"/login?lang=en&return_to=https%3A%2F%2Fh.example%2Fp%2F{n}" for n in range(1000)],
        3,
    ),
    "facets": (lambda: [f"/lamps?{query}" for query in _facet_queries(FACETS, 5)], 200),
    "facets of many lists": (
        lambda: [f"/{name}?{query}" for name in ("a", "b", "c", "d") for query in _facet_queries(FACETS, 3)],
        500,
    ),
    "facets with orders and pages": (
        lambda: [
            f"/lamps?{query}&sort={order}&page={page}"
            for query in _facet_queries(FACETS[:4], 4)
            for order in ("price", "name")
            for page in (1, 2, 3)
        ],
        1000,
    ),
    "facets in the path": (
        lambda: [
            "/lamps/" + "/".join(f"{name}-{'abcdef'[value]}" for name, value in chosen)
            for chosen in _combined(FACETS, 4)
        ],
        700,
    ),
    "sort orders": (
        lambda: [
            f"/list?sort={key}&order={order}&view={view}&limit={limit}"
            for key in "abcdefghijklmnopq"
            for order in ("asc", "desc")
            for view in ("grid", "list")
            for limit in (10, 20, 50)
        ],
        30,
    ),
    "orders of folders": (lambda: [f"/pub/{n}/?C={c};O={o}" for n in range(99) for c in "NMSD" for o in "AD"], 130),
    "sessions": (lambda: [f"/item?item={n % 5}&visit={n * 2654435761:032x}" for n in range(10_000)], 15),
    "sessions under any name": (lambda: [f"/item?item={n % 5}&zz={n * 2654435761:032x}" for n in range(10_000)], 150),
    "sessions in the path": (lambda: [f"/s/{code(n)}/page" for n in range(1500)], 30),
    "sessions in the path of pages": (lambda: [f"/s/{code(n)}/page/{n % 20}" for n in range(1500)], 100),
    "sessions in the path of a shop": (
        lambda: [f"/s/{code(n)}/{page}" for n in range(1500) for page in SITE],
        4 * len(SITE),
    ),
    "uuids of sessions": (lambda: [f"/session_id/{uuid(n)}/{page}" for n in range(500) for page in SITE], 40),
    "sessions of ASP.NET": (lambda: [f"/(S({code(n)[:6]}))/{page}" for n in range(500) for page in SITE], 40),
    "sessions that say so": (lambda: [f"/a/PHPSESSID={code(n)[:20]}/{page}" for n in range(500) for page in SITE], 40),
    "sessions with queries": (lambda: [f"/s/{code(n)}/list?page={n % 9}&x={n % 2}" for n in range(1500)], 120),
    "fronts of sessions": (
        lambda: [f"/s/{code(n)}/{page}" for n in range(1500) for page in ("", "about", "contact")],
        30,
    ),
    "endless pages": (lambda: [f"/list?page={n}" for n in range(100_000)], 2000),
    "repeating segments": (lambda: ["/a/b" * n for n in range(3, 50)], 0),
    "growing paths": (lambda: ["/" + "/".join(f"x{m}" for m in range(n)) for n in range(12, 500)], 20),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", rest_by_night(TRAPS, 8))
def test_a_trap_ends(name):
    make, most = TRAPS[name]
    assert admitted(make()) <= most


def test_the_first_urls_of_a_list_with_orders_are_admitted():
    assert admitted([f"/list/{n}?sort=price" for n in range(1000)]) == 1000


def test_the_reason_names_the_trap():
    guard = TrapGuard(TODAY)
    assert guard.reason_to_refuse(f"{HOST}/cal/2031/05/") == "trap: calendar far ahead"
    assert guard.reason_to_refuse(f"{HOST}/a/b/a/b/a/b") == "trap: repeating path"
    assert guard.reason_to_refuse(f"{HOST}/2031/05/01/what-comes-next/") is None


def test_hosts_do_not_use_up_each_other(monkeypatch):
    monkeypatch.setattr(traps, "_CALENDAR", 1)
    guard = TrapGuard(TODAY)
    assert guard.reason_to_refuse("http://a.example/cal/2024/05/") is None
    assert guard.reason_to_refuse("http://a.example/cal/2024/06/")
    assert guard.reason_to_refuse("http://b.example/cal/2024/05/") is None


def test_memory_is_bounded():
    guard = TrapGuard(TODAY, remembered=100)
    for n in range(5000):
        guard.reason_to_refuse(f"{HOST}/word{n}/?a={n}&b={n}")
    assert len(guard._counts) == 100
    assert len(guard._combinations) <= 2


def test_values_that_are_always_new_are_forgotten():
    guard = TrapGuard(TODAY, remembered=1000)
    for n in range(2000):
        query = "&".join(f"k{k}={n}-{k}" for k in range(20))
        guard.reason_to_refuse(f"{HOST}/word{n % 97}/?{query}")
        guard.reason_to_refuse(f"http://h{n}.example/s/{code(n)}/page?k{n}=1&l{n}=2")
    assert guard._values == sum(one.size for one in guard._combinations.values())
    kept = [values for one in guard._combinations.values() for values in one.values.values() if values is not None]
    assert guard._values == sum(map(len, kept)) <= 4000
    assert len(guard._counts) == 1000


@pytest.mark.parametrize("key", ["sess_", "cache_", "visit_", "sort_", "page_", "date"])
def test_long_keys_are_not_looked_into(key, monkeypatch):
    tried = []
    says = traps._says
    monkeypatch.setattr(traps, "_says", lambda meaning, name: tried.append(name) or says(meaning, name))
    guard = TrapGuard(TODAY)
    assert guard.reason_to_refuse(f"{HOST}/list?{key * 300}!={code(1)}&n=1") is None
    assert tried
    assert traps._says(re.compile(r"(?:.*_)?(?:page)"), "a_page")
