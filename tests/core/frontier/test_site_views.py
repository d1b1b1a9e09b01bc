"""Archives, facets and sort orders are told from the things by what their pages say."""

from __future__ import annotations

from llmcrawler.core.content import read_page
from llmcrawler.core.frontier import UrlTask
from llmcrawler.core.frontier.site_views import THINGS, SiteViews, block_facts

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
    blocks = read_page(f"<title>x</title><body>{body}</body>", SITE + path).blocks
    views.note_page(SITE + path, block_facts(SITE + path, blocks))


def groups(views: SiteViews, *paths: str) -> list[str]:
    return [views.group_of("", SITE + path) for path in paths]


def test_one_of_a_family_goes_out_with_the_things_and_the_others_wait() -> None:
    views = SiteViews()
    assert groups(views, "/tag/frost", "/tag/kale", "/tag/slug") == ["", *[f"{SITE}/tag/*"] * 2]
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


def test_a_search_is_a_view_until_its_pages_say_otherwise() -> None:
    views = SiteViews()
    assert groups(views, *(f"/query?owner={n}&status=new" for n in "abc")) == ["", *[f"{SITE}/query?*"] * 2]
    groups(views, *(f"/?topic={n}" for n in range(3)))
    waiting = views.changed_priorities()
    assert waiting[f"{SITE}/query?*"] > THINGS
    assert waiting[f"{SITE}/?topic"] > THINGS
    note(views, "/query?owner=a&status=new", f"<p>No tickets.</p><ul>{prose(1, 6)}</ul>{archive('New', range(4))}")
    note(views, "/?topic=0", post(9))
    assert views.changed_priorities() == {f"{SITE}/?topic": THINGS}


def test_what_a_query_makes_of_things_are_copies_of_them() -> None:
    views = SiteViews()
    groups(views, *(f"/wiki/W{n}x" for n in range(3)))
    copies = groups(views, *(f"/wiki/W{n}x?version=1" for n in range(3)))
    assert copies == [f"{SITE}/wiki/*?version"] * 3
    note(views, "/wiki/W0x", post(1))
    for number in (1, 2):
        note(views, f"/wiki/W{number}x?version=1", post(number + 1))
    ranks = views.changed_priorities()
    assert ranks[f"{SITE}/wiki/*?version"] > ranks[f"{SITE}/wiki/*"] == THINGS


def test_a_list_that_brings_things_comes_before_one_that_repeats_them() -> None:
    views = SiteViews()
    groups(views, *(f"/{place}/a{n}x" for place in ("tag", "day") for n in "abcd"))
    for n, letter in enumerate("abc"):
        for place in ("tag", "day"):
            path = f"/{place}/a{letter}x"
            note(views, path, archive(place, range(n * 5, n * 5 + 5)))
            found = [f"/post/q-{n}{more}" for more in range(5)] if place == "tag" else []
            views.note_links(SITE + path, [UrlTask("", "", group=group) for group in groups(views, *found)])
    ranks = views.changed_priorities()
    assert THINGS < ranks[f"{SITE}/tag/*"] < ranks[f"{SITE}/day/*"]


def test_a_crawl_of_many_hosts_keeps_a_bounded_number_of_groups() -> None:
    views = SiteViews()
    found = {views.group_of("", f"http://h{n}.test/tag/{word}") for n in range(1000) for word in WORDS[:4]}
    assert len(found) <= 401


def test_a_run_that_goes_on_takes_things_first_and_says_anew_what_it_finds() -> None:
    """A list of the run before may be what this run finds to be a thing: the frontier has its old rank."""
    views = SiteViews()
    note(views, "/item/rye-1", post(1))
    note(views, "/item/rye-2", post(2))
    groups(views, *(f"/item/rye-{n}" for n in range(3, 6)))
    assert views.changed_priorities()[f"{SITE}/item/*"] == THINGS


def test_a_topic_whose_posts_link_to_themselves_is_a_thing() -> None:
    views = SiteViews()
    groups(views, *(f"/topic/rye-{n}" for n in range(9)))
    for number in range(3):
        url = f"/topic/rye-{number}"
        posts = (f'<h3><a href="{url}?post={n}#{n}">Re: rye</a></h3><p>{prose(9 * number + n)}</p>' for n in range(4))
        note(views, url, f"<h1>Rye {number}</h1>{''.join(posts)}")
    assert views.changed_priorities()[f"{SITE}/topic/*"] == THINGS


def test_a_post_that_stood_whole_in_a_list_is_a_thing() -> None:
    views = SiteViews()
    groups(views, *(f"/post/rye-{n}" for n in range(9)))
    whole = (f'<h2><a href="/post/rye-{n}">Post {n}</a></h2><h3>Then</h3><p>{prose(n)}</p>' for n in range(4))
    note(views, "/", "".join(whole))
    for number in range(3):
        note(views, f"/post/rye-{number}", f"<h1>Post {number}</h1><h3>Then</h3><p>{prose(number)}</p>")
    assert views.changed_priorities()[f"{SITE}/post/*"] == THINGS
