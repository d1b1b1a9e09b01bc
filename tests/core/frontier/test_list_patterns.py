"""Archives, facets and sort orders are told from the things by what their pages say."""

from __future__ import annotations

from llmcrawler.core.content import read_page
from llmcrawler.core.frontier.list_patterns import ITEMS, ListPatterns, block_facts
from llmcrawler.core.frontier.protocol import UrlTask

SITE = "http://blog.test"
WORDS = "frost soil kale slug rain wind hedge shed leek bean pear plum jam soup seed leaf root bed gate path".split()


def prose(number: int, count: int = 60) -> str:
    return " ".join(WORDS[(number * 7 + place * (number + 3)) % len(WORDS)] for place in range(count)) + f" {number}."


def post(number: int, tags: str = "") -> str:
    return f"<h1>Post {number}</h1><article><p>{prose(number)}</p><p>{prose(number + 100)}</p></article>{tags}"


def archive(name: str, numbers: range) -> str:
    teasers = (f'<h2><a href="/post/rye-{n}">Post {n}</a></h2><p>{prose(n, 20)}</p>' for n in numbers)
    return f"<h1>{name}</h1>{''.join(teasers)}"


def note(patterns: ListPatterns, path: str, body: str) -> None:
    blocks = read_page(f"<title>x</title><body>{body}</body>", SITE + path).blocks
    patterns.note_page(SITE + path, block_facts(SITE + path, blocks))


def groups(patterns: ListPatterns, *paths: str) -> list[str]:
    return [patterns.group_of("", SITE + path) for path in paths]


def test_one_of_a_family_goes_out_with_the_things_and_the_others_wait() -> None:
    patterns = ListPatterns()
    assert groups(patterns, "/tag/frost", "/tag/kale", "/tag/slug") == ["", *[f"{SITE}/tag/*"] * 2]
    assert patterns.ranks
    assert patterns.changed_priorities()[f"{SITE}/tag/*"] > ITEMS
    assert patterns.changed_priorities() == {}


def test_archives_come_after_the_posts_that_they_list() -> None:
    patterns = ListPatterns()
    groups(patterns, *(f"/tag/t{n}x" for n in "abcd"), *(f"/post/rye-{n}" for n in range(9)))
    note(patterns, "/", archive("Blog", range(5)))
    note(patterns, "/tag/tax", archive("a", range(3, 9)))
    note(patterns, "/post/rye-1", post(1))
    note(patterns, "/tag/tbx", archive("b", range(2, 8)))
    note(patterns, "/post/rye-2", post(2))
    ranks = patterns.changed_priorities()
    assert ranks[f"{SITE}/post/*"] == ITEMS
    assert ranks[f"{SITE}/tag/*"] > ITEMS


def test_a_post_with_many_tags_is_no_view() -> None:
    patterns = ListPatterns()
    groups(patterns, *(f"/post/rye-{n}" for n in range(9)))
    tags = "<ul>" + "".join(f'<li><a href="/tag/{word}">{word}</a></li>' for word in WORDS) + "</ul>"
    for number in range(4):
        note(patterns, f"/post/rye-{number}", post(number, tags))
    assert patterns.changed_priorities()[f"{SITE}/post/*"] == ITEMS


def test_a_short_thing_that_names_things_like_it_is_no_view() -> None:
    patterns = ListPatterns()
    groups(patterns, *(f"/item/i-{n}" for n in range(9)))
    for number in range(4):
        like = "".join(f'<li><a href="/item/i-{number * 9 + n}">Item {number * 9 + n}</a></li>' for n in range(8))
        note(patterns, f"/item/i-{number}", f"<h1>Item {number}</h1><p>{prose(number, 12)}</p><ul>{like}</ul>")
    assert patterns.changed_priorities()[f"{SITE}/item/*"] == ITEMS


def test_a_search_is_a_view_until_its_pages_say_otherwise() -> None:
    patterns = ListPatterns()
    assert groups(patterns, *(f"/query?owner={n}&status=new" for n in "abc")) == ["", *[f"{SITE}/query?*"] * 2]
    groups(patterns, *(f"/?topic={n}" for n in range(3)))
    waiting = patterns.changed_priorities()
    assert waiting[f"{SITE}/query?*"] > ITEMS
    assert waiting[f"{SITE}/?topic"] > ITEMS
    note(patterns, "/query?owner=a&status=new", f"<p>No tickets.</p><ul>{prose(1, 6)}</ul>{archive('New', range(4))}")
    note(patterns, "/?topic=0", post(9))
    assert patterns.changed_priorities() == {f"{SITE}/?topic": ITEMS}


def test_what_a_query_makes_of_things_are_copies_of_them() -> None:
    patterns = ListPatterns()
    groups(patterns, *(f"/wiki/W{n}x" for n in range(3)))
    copies = groups(patterns, *(f"/wiki/W{n}x?version=1" for n in range(3)))
    assert copies == [f"{SITE}/wiki/*?version"] * 3
    note(patterns, "/wiki/W0x", post(1))
    for number in (1, 2):
        note(patterns, f"/wiki/W{number}x?version=1", post(number + 1))
    ranks = patterns.changed_priorities()
    assert ranks[f"{SITE}/wiki/*?version"] > ranks[f"{SITE}/wiki/*"] == ITEMS


def test_a_list_that_brings_things_comes_before_one_that_repeats_them() -> None:
    patterns = ListPatterns()
    groups(patterns, *(f"/{place}/a{n}x" for place in ("tag", "day") for n in "abcd"))
    for n, letter in enumerate("abc"):
        for place in ("tag", "day"):
            path = f"/{place}/a{letter}x"
            note(patterns, path, archive(place, range(n * 5, n * 5 + 5)))
            found = [f"/post/q-{n}{more}" for more in range(5)] if place == "tag" else []
            patterns.note_links(SITE + path, [UrlTask("", "", group=group) for group in groups(patterns, *found)])
    ranks = patterns.changed_priorities()
    assert ITEMS < ranks[f"{SITE}/tag/*"] < ranks[f"{SITE}/day/*"]


def test_a_crawl_of_many_hosts_keeps_a_bounded_number_of_groups() -> None:
    patterns = ListPatterns()
    found = {patterns.group_of("", f"http://h{n}.test/tag/{word}") for n in range(1000) for word in WORDS[:4]}
    assert len(found) <= 401


def test_a_run_that_goes_on_takes_things_first_and_says_anew_what_it_finds() -> None:
    """A list of the run before may be what this run finds to be a thing: the frontier has its old rank."""
    patterns = ListPatterns()
    note(patterns, "/item/rye-1", post(1))
    note(patterns, "/item/rye-2", post(2))
    groups(patterns, *(f"/item/rye-{n}" for n in range(3, 6)))
    assert patterns.changed_priorities()[f"{SITE}/item/*"] == ITEMS


def test_a_topic_whose_posts_link_to_themselves_is_a_thing() -> None:
    patterns = ListPatterns()
    groups(patterns, *(f"/topic/rye-{n}" for n in range(9)))
    for number in range(3):
        url = f"/topic/rye-{number}"
        posts = (f'<h3><a href="{url}?post={n}#{n}">Re: rye</a></h3><p>{prose(9 * number + n)}</p>' for n in range(4))
        note(patterns, url, f"<h1>Rye {number}</h1>{''.join(posts)}")
    assert patterns.changed_priorities()[f"{SITE}/topic/*"] == ITEMS


def test_a_post_that_stood_whole_in_a_list_is_a_thing() -> None:
    patterns = ListPatterns()
    groups(patterns, *(f"/post/rye-{n}" for n in range(9)))
    whole = (f'<h2><a href="/post/rye-{n}">Post {n}</a></h2><h3>Then</h3><p>{prose(n)}</p>' for n in range(4))
    note(patterns, "/", "".join(whole))
    for number in range(3):
        note(patterns, f"/post/rye-{number}", f"<h1>Post {number}</h1><h3>Then</h3><p>{prose(number)}</p>")
    assert patterns.changed_priorities()[f"{SITE}/post/*"] == ITEMS
