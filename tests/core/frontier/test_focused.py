from __future__ import annotations

from pathlib import Path

import pytest

from llmcrawler.core.frontier.focused_crawl import FocusedCrawl, restore_link_scorer
from llmcrawler.core.frontier.link_scorer import LEVELS, Branch, LinkScorer, branch_values, shape_of
from llmcrawler.core.frontier.protocol import FIRST, UrlTask
from llmcrawler.core.frontier.sqlite import SqliteFrontier
from llmcrawler.core.storage import Database, Outcome, open_job_file
from llmcrawler.items import Link

HOST = "https://a.example"


@pytest.mark.parametrize(
    ("kinds", "expected"),
    [
        ({"page": Branch(0.4, {})}, {"page": 0.4}),
        ({"item": Branch(1, {}), "list": Branch(0, {"item": 20})}, {"item": 1, "list": 20 / 21}),
        (
            {
                "item": Branch(1, {}),
                "list": Branch(0, {"item": 20}),
                "top": Branch(0, {"list": 5, "dull": 50}),
                "dull": Branch(0, {}),
            },
            {"item": 1, "list": 20 / 21, "top": 100 / 106, "dull": 0},
        ),
        ({"item": Branch(1, {}), "list": Branch(0, {"item": 20, "list": 1})}, {"item": 1, "list": 20 / 21}),
        ({"chain": Branch(0.9, {"chain": 5})}, {"chain": 0.9}),
        # What is little better than the page itself is no reason to go through it.
        ({"good": Branch(0.9, {"poor": 10}), "poor": Branch(0.1, {})}, {"good": 0.9, "poor": 0.1}),
        ({"list": Branch(0, {"stranger": 20})}, {"list": 0}),
        ({}, {}),
    ],
)  # fmt: skip
def test_the_index_of_a_kind_is_the_best_rate_of_wanted_pages_per_fetch(kinds, expected):
    assert branch_values(kinds) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("url", "shape"),
    [
        ("/", "/"),
        ("/breads/rye/", "/breads/*/"),
        ("/breads/hot-cross-bun/", "/breads/*/"),
        ("/about", "/*"),
        ("/about.html", "/*.html"),
        ("/item/red-lamp_17/", "/item/{slug}_{n}/"),
        ("/item/red-lamp_17/reviews/add/", "/item/{slug}_{n}/reviews/*/"),
        ("/list/?page=2", "/list/?page={n}"),
        ("/index.php?id=7", "/index.php?id={n}"),
    ],
)
def test_urls_that_differ_in_their_last_word_have_one_shape(url, shape):
    assert shape_of(HOST + url) == f"a.example{shape}"


def test_while_nothing_wanted_is_known_what_led_to_new_kinds_of_links_comes_before_what_is_known():
    goal = LinkScorer(["job"])
    menu = goal.group_of(f"{HOST}/tea/", Link("", "", "li < ul.menu"))
    for section in ("tea", "herbs", "cups", "spoons"):
        pages = [goal.group_of(f"{HOST}/{section}/a-page-{n}", Link("", "", "h2 < article")) for n in range(1, 11)]
        goal.note_links(menu, pages)
        goal.note_verdict(menu, "listing")
        for _ in range(3):
            goal.note_links(pages[0], [])
            goal.note_verdict(pages[0], "article")
    fresh = goal.group_of(f"{HOST}/pots/a-page-1", Link("", "", "h2 < article"))
    goal.changed_priorities()
    assert goal.priority_of(fresh) <= goal.priority_of(menu) < goal.priority_of(pages[0])


def test_the_number_of_groups_is_bounded():
    goal = LinkScorer(["job"])
    assert len({group(goal, f"/{n}/", f"place {'x' * n}") for n in range(2000)}) < 500


def test_a_group_is_known_again_by_its_name():
    fresh, again = LinkScorer(["job"]), LinkScorer(["job"])
    name = group(fresh, "/breads/rye/", "li < ul < nav")
    again.restore(name)
    again.restore("a.example/tag/*")  # of a crawl without a goal
    assert again.changed_priorities() == fresh.changed_priorities() != {}


def group(goal: LinkScorer, path: str, place: str = "") -> str:
    return goal.group_of(HOST + path, Link("", "", place))


def test_kinds_that_were_wanted_or_lead_there_come_first_and_dead_ends_last():
    goal = LinkScorer(["product"])
    product, review, listing = (group(goal, path) for path in ("/item/a-1", "/item/a-1/review", "/c/lamps/?page=2"))
    for _ in range(5):
        goal.note_verdict(product, "product")
        goal.note_links(product, [review])
        goal.note_verdict(review, "other")
        goal.note_links(review, [])
        goal.note_verdict(listing, "listing")
        goal.note_links(listing, [product] * 20)
    unseen = group(goal, "/somewhere/else.html")
    priorities = goal.changed_priorities()
    assert priorities[product] <= priorities[listing] <= priorities[unseen] < priorities[review]


def test_a_list_without_anything_new_loses_its_rank():
    goal = LinkScorer(["product"])
    product, listing = group(goal, "/item/a-1"), group(goal, "/c/lamps/?page=2")
    goal.note_verdict(product, "product")
    goal.note_verdict(listing, "listing")
    goal.note_links(listing, [product] * 20)
    fresh = goal.changed_priorities()[listing]
    for _ in range(40):
        goal.note_verdict(product, "product")
        goal.note_links(product, [])
        goal.note_verdict(listing, "listing")
        goal.note_links(listing, [])
    goal.changed_priorities()
    assert goal.priority_of(listing) > fresh + LEVELS // 5


def test_where_urls_say_nothing_the_place_does():
    goal = LinkScorer(["product"])
    card, footer = "h3 < div.card < main", "li < ul < footer"
    for n in range(6):
        goal.note_verdict(group(goal, f"/?id={n}", card), "product")
        goal.note_verdict(group(goal, f"/?id={n}0", footer), "about")
    priorities = goal.changed_priorities()
    assert priorities[group(goal, "/?id=77", card)] < priorities[group(goal, "/?id=78", footer)]


def test_a_kind_never_seen_borrows_from_its_place():
    goal = LinkScorer(["product"])
    for n in range(6):
        goal.note_verdict(group(goal, f"/shop/lamp-{n}", "h3 < main"), "product")
        goal.note_verdict(group(goal, f"/blog/post-{n}.html", "p < main"), "article")
    goal.changed_priorities()
    alike, unlike = group(goal, "/deals/lamp-9", "h3 < main"), group(goal, "/essays/one.html", "p < main")
    priorities = goal.changed_priorities()
    assert priorities[alike] < priorities[unlike]


def test_only_ranks_that_changed_are_told():
    goal = LinkScorer(["product"])
    first = group(goal, "/a/1")
    assert set(goal.changed_priorities()) == {first}
    second = group(goal, "/b/c")
    assert set(goal.changed_priorities()) == {second}
    assert goal.changed_priorities() == {}


class Ahead:
    """A focused_crawl with three kinds of links: of products, of dull pages, and of what was never tried."""

    def __init__(self, max_records: int | None = None) -> None:
        self.now = 0.0
        self.goal = LinkScorer(["product"])
        self.focused_crawl = FocusedCrawl(self.goal, max_records=max_records, clock=lambda: self.now)
        self.product, self.dull = group(self.goal, "/item/a-1"), group(self.goal, "/dull/1")
        for _ in range(10):
            self.goal.note_verdict(self.product, "product")
            self.goal.note_verdict(self.dull, "other")
            self.goal.note_links(self.product, [])
            self.goal.note_links(self.dull, [])
        self.unseen = group(self.goal, "/new/thing.html")
        self.goal.changed_priorities()

    def lease(self, name: str, group: str, *, read: bool) -> None:
        self.focused_crawl.note_lease(UrlTask(name, "a.example", group=group))
        if read:
            self.focused_crawl.note_links(name, [])

    def reaches(self, group: str) -> bool:
        worst = self.focused_crawl.reach()
        return worst is None or self.goal.priority_of(group) <= worst


@pytest.mark.parametrize("deed", ["its links come", "it takes too long"])
def test_while_a_good_page_is_on_its_way_dull_ones_wait_for_its_links_for_some_time(deed):
    ahead = Ahead()
    assert ahead.reaches(ahead.dull)
    ahead.lease("1", ahead.product, read=False)
    assert not ahead.reaches(ahead.dull)
    assert ahead.reaches(ahead.product)
    if deed == "its links come":
        ahead.focused_crawl.note_links("1", [])
    else:
        ahead.now += 60
    assert ahead.reaches(ahead.dull)


def test_while_many_pages_are_to_be_judged_only_what_is_known_to_be_good_goes_out():
    ahead = Ahead()
    for n in range(10):
        ahead.lease(str(n), ahead.unseen, read=True)
    assert ahead.reaches(ahead.product)
    assert not ahead.reaches(ahead.unseen)
    ahead.focused_crawl.note_verdict("3", "other")
    assert ahead.reaches(ahead.unseen)


def test_a_page_that_failed_or_came_back_holds_nothing_up():
    ahead = Ahead()
    ahead.lease("1", ahead.product, read=False)
    ahead.lease("2", ahead.product, read=False)
    ahead.focused_crawl.note_end("1", None, has_record=False)
    ahead.focused_crawl.note_return("2")
    assert ahead.focused_crawl.reach() is None


def test_the_crawl_ends_with_so_many_records_and_fetches_none_that_would_be_too_many():
    ahead = Ahead(max_records=2)
    ahead.lease("1", ahead.product, read=True)
    ahead.lease("2", ahead.product, read=True)
    assert ahead.focused_crawl.reach() == FIRST
    ahead.focused_crawl.note_end("1", "product", has_record=True)
    ahead.focused_crawl.note_end("2", "product", has_record=False)
    assert not ahead.focused_crawl.is_done
    assert ahead.reaches(ahead.product)
    ahead.lease("3", ahead.product, read=True)
    ahead.focused_crawl.note_end("3", "product", has_record=True)
    assert ahead.focused_crawl.is_done


async def test_a_crawl_that_goes_on_knows_what_the_earlier_runs_have_learned(tmp_path: Path):
    path = tmp_path / "crawl.sqlite"
    first = FocusedCrawl(LinkScorer(["product"]), max_records=None, clock=lambda: 0.0)
    database = Database(open_job_file(path), path)
    frontier = SqliteFrontier(database, max_leases=3)
    await frontier.open()

    async def add(paths: list[str], referer: str) -> list[UrlTask]:
        tasks = [UrlTask(HOST + path, "a.example", 1, referer, 0, group(first.scorer, path)) for path in paths]
        await frontier.set_priorities(first.scorer.changed_priorities())
        await frontier.add(tasks)
        return tasks

    lists = [f"/lists/?page={n}" for n in range(4)]
    await add([*lists, *(f"/dull/{n}.html" for n in range(4)), "/unseen/thing/"], f"{HOST}/")
    for lease in await frontier.lease(8, {}, 10):
        first.note_lease(lease.task)
        is_list = "lists" in lease.url
        found = await add([f"/item/lamp-{lease.url[-1]}-{n}" for n in range(6)], lease.url) if is_list else []
        first.note_links(lease.url, found)
        page_type = "product" if is_list else "other"  # what a list counts as matters to nobody else here
        first.note_end(lease.url, page_type, has_record=True)
        record = {"n": 1} if "=1" in lease.url else None
        line = {"url": lease.url, "page_type": page_type, "error": None, "record": record}
        await frontier.ack(lease.url, Outcome(line, {}))
    first.scorer.changed_priorities()

    second = FocusedCrawl(LinkScorer(["product"]), max_records=None, clock=lambda: 0.0, record_types={"product"})
    await database.run(lambda connection: restore_link_scorer(connection, second))
    priorities = second.scorer.changed_priorities()
    await database.close()
    assert second.records == 1
    assert priorities == {group: first.scorer.priority_of(group) for group in priorities}
    assert len(set(priorities.values())) > 2
