"""Archives, facets and sort orders are told from the things by what their pages say."""

from __future__ import annotations

from llmcrawler.content import read_page
from llmcrawler.frontier.site_views import THINGS, SiteViews

SITE = "http://blog.test"
WORDS = "frost soil kale slug rain wind hedge shed leek bean pear plum jam soup seed leaf root bed gate path".split()


def prose(number: int, count: int = 60) -> str:
    return " ".join(WORDS[(number * 7 + place * (number + 3)) % len(WORDS)] for place in range(count)) + f" {number}."


def post(number: int, tags: str = "") -> str:
    return f"<h1>Post {number}</h1><article><p>{prose(number)}</p><p>{prose(number + 100)}</p></article>{tags}"


def archive(name: str, numbers: range) -> str:
    teasers = (f'<h2><a href="/post/rye-{n}">Post {n}</a></h2><p>{prose(n, 20)}</p>' for n in numbers)
    return f"<h1>{name}</h1>{''.join(teasers)}"


def note(views: SiteViews, path: str, body: str) -> None:
    views.note_page(SITE + path, read_page(f"<title>x</title><body>{body}</body>", SITE + path).blocks)


def groups(views: SiteViews, *paths: str) -> list[str]:
    return [views.group_of("", SITE + path) for path in paths]


def test_two_of_a_family_go_out_with_the_things_and_the_others_wait() -> None:
    views = SiteViews()
    assert groups(views, "/tag/frost", "/tag/kale", "/tag/slug", "/tag/rain") == ["", "", *[f"{SITE}/tag/*"] * 2]
    assert views.ranks
    assert views.changed_priorities()[f"{SITE}/tag/*"] > THINGS
    assert views.changed_priorities() == {}


def test_archives_come_after_the_posts_that_they_list() -> None:
    views = SiteViews()
    groups(views, *(f"/tag/t{n}x" for n in "abcd"), *(f"/post/rye-{n}" for n in range(9)))
    note(views, "/", archive("Blog", range(5)))
    note(views, "/tag/tax", archive("a", range(3, 9)))
    note(views, "/post/rye-1", post(1))
    note(views, "/tag/tbx", archive("b", range(2, 8)))
    note(views, "/post/rye-2", post(2))
    ranks = views.changed_priorities()
    assert ranks[f"{SITE}/post/*"] == THINGS
    assert ranks[f"{SITE}/tag/*"] > THINGS


def test_a_post_with_many_tags_is_no_view() -> None:
    views = SiteViews()
    groups(views, *(f"/post/rye-{n}" for n in range(9)))
    tags = "<ul>" + "".join(f'<li><a href="/tag/{word}">{word}</a></li>' for word in WORDS) + "</ul>"
    for number in range(4):
        note(views, f"/post/rye-{number}", post(number, tags))
    assert views.changed_priorities()[f"{SITE}/post/*"] == THINGS


def test_a_short_thing_that_names_things_like_it_is_no_view() -> None:
    views = SiteViews()
    groups(views, *(f"/item/i-{n}" for n in range(9)))
    for number in range(4):
        like = "".join(f'<li><a href="/item/i-{number * 9 + n}">Item {number * 9 + n}</a></li>' for n in range(8))
        note(views, f"/item/i-{number}", f"<h1>Item {number}</h1><p>{prose(number, 12)}</p><ul>{like}</ul>")
    assert views.changed_priorities()[f"{SITE}/item/*"] == THINGS


def test_another_order_of_a_list_is_a_view_as_the_list_is() -> None:
    views = SiteViews()
    note(views, "/start", post(50))
    groups(views, "/query", *(f"/query?owner={owner}&status=new" for owner in ("ann", "bob", "cid")))
    waiting = views.changed_priorities()[f"{SITE}/query?*"]
    note(views, "/query", archive("All", range(8)))
    note(views, "/query?owner=ann&status=new", archive("New", range(4, 12)))
    assert views.changed_priorities()[f"{SITE}/query?*"] > waiting


def test_a_list_that_brings_things_comes_before_one_that_repeats_them() -> None:
    views = SiteViews()
    groups(views, *(f"/{place}/a{n}x" for place in ("tag", "day") for n in "abcd"))
    for n, letter in enumerate("abc"):
        for place in ("tag", "day"):
            path = f"/{place}/a{letter}x"
            note(views, path, archive(place, range(n * 5, n * 5 + 5)))
            found = [f"/post/q-{n}{more}" for more in range(5)] if place == "tag" else []
            views.note_links(SITE + path, groups(views, *found))
    ranks = views.changed_priorities()
    assert THINGS < ranks[f"{SITE}/tag/*"] < ranks[f"{SITE}/day/*"]


def test_a_crawl_of_many_hosts_keeps_a_bounded_number_of_groups() -> None:
    views = SiteViews()
    found = {views.group_of("", f"http://h{n}.test/tag/{word}") for n in range(1000) for word in WORDS[:4]}
    assert len(found) <= 401
