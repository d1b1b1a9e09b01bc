"""What a grouper has learned, kept for the next crawl: the same pages get the same templates, and nothing is news."""

from __future__ import annotations

import json
import random
import zlib

import pytest

from llmcrawler.core.understanding.templates import TemplateGrouper, recluster
from tests.core.understanding.templates.test_grouping import CHROME, KINDS, feed, kind_of, pages

ORIGIN = "http://site.test"


def again(grouper: TemplateGrouper, origin: str = ORIGIN) -> TemplateGrouper:
    """The grouper of the next crawl, by way of JSON."""
    return TemplateGrouper.from_json(json.loads(json.dumps(grouper.to_json())), origin)


def learned(count: int = 300, seed: int = 0) -> TemplateGrouper:
    grouper = TemplateGrouper()
    feed(grouper, pages(count, seed))
    return grouper


def test_pages_that_have_not_changed_get_their_templates_from_the_first_page_on() -> None:
    grouper, stream = learned(), pages(300)
    kept = again(grouper)
    for url, features in reversed(stream):
        assigned = kept.assign(url, features)
        assert assigned.template == grouper.match(url, features)
        assert (assigned.is_known, assigned.is_sample, assigned.rivals) == (True, False, ())
        assert not kept.due


def test_a_crawl_that_brings_nothing_new_leaves_the_state_as_it_was() -> None:
    first = learned()
    second = again(first)
    feed(second, pages(300)[:120])
    assert second.to_json() == first.to_json() == again(second).to_json()


def test_new_pages_go_where_they_would_have_gone_in_the_first_crawl() -> None:
    grouper = learned()
    kept = again(grouper)
    for url, features in pages(400)[300:]:
        known, new = grouper.assign(url, features), kept.assign(url, features)
        assert (new.template, new.member, new.is_sample, new.settled, new.rivals) == (
            known.template,
            known.member,
            known.is_sample,
            known.settled,
            known.rivals,
        )
        assert new.similarity == known.similarity


def test_an_id_that_was_ever_given_to_a_page_is_that_of_a_group_or_an_alias_of_one() -> None:
    grouper, rng = TemplateGrouper(), random.Random(0)
    half = [(url, frozenset(one for one in features if rng.random() < 0.6)) for url, features in pages(300)]
    given = set(feed(grouper, half))
    ids = {group.template for group in grouper.learned_groups()}
    assert given - ids  # some groups were merged
    for now in (grouper, again(grouper)):
        groups = now.learned_groups()
        assert given <= {name for group in groups for name in (group.template, *group.aliases)}
        assert all(now.resolve(alias) == group.template for group in groups for alias in group.aliases)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_ids_that_are_given_while_a_clustering_runs_are_not_lost(seed) -> None:
    grouper, rng, given = TemplateGrouper(), random.Random(seed), set()
    running = None
    for url, features in pages(200, seed):
        shown = frozenset(one for one in features if rng.random() < 0.6)
        given.add(grouper.assign(url, shown).template)
        if running is not None and rng.random() < 0.2:
            grouper.adopt(running)
            running = None
        elif running is None and grouper.due:
            running = recluster(grouper.snapshot())
    groups = grouper.learned_groups()
    assert given <= {name for group in groups for name in (group.template, *group.aliases)}


def test_counts_shown_are_of_the_present_crawl_and_those_kept_are_of_all() -> None:
    kept = again(learned())
    assert kept.groups() == []
    assert kept.group_count == 0
    feed(kept, pages(300)[:30])
    assert sum(group.page_count for group in kept.groups()) == 30
    assert sum(group.page_count for group in kept.learned_groups()) == 300


def test_counts_of_the_present_crawl_follow_a_regrouping() -> None:
    kept = again(learned(40))
    feed(kept, pages(500)[20:])
    assert sum(group.page_count for group in kept.groups()) == 480
    assert sum(group.page_count for group in kept.learned_groups()) == 500


def test_a_page_of_an_earlier_run_counts_where_it_has_been_moved_to_since() -> None:
    grouper = learned()
    kept = again(grouper)
    url, features = pages(300)[-1]
    assert kept.count_earlier(url, "a-name-of-before") == grouper.match(url, features)
    assert [group.page_count for group in kept.groups()] == [1]
    assert kept.count_earlier(f"{ORIGIN}/never-seen", "a-name-of-before") == "a-name-of-before"
    assert sum(group.page_count for group in kept.groups()) == 1


def test_urls_are_kept_without_host_and_hold_on_another() -> None:
    grouper = learned()
    text = json.dumps(grouper.to_json())
    assert "site.test" not in text
    kept = again(grouper, "https://staging.test:8443")
    for url, features in pages(300)[:50]:
        assigned = kept.assign(url.replace(ORIGIN, "https://staging.test:8443"), features)
        assert (assigned.template, assigned.is_known) == (grouper.match(url, features), True)
    assert all(url.startswith("https://staging.test:8443/") for group in kept.groups() for url in group.examples)


def test_what_is_kept_is_small() -> None:
    """A shop of 500 pages with 150 features each, its names shared within a template."""
    grouper = TemplateGrouper()
    for number in range(500):
        kind = number % 7
        features = {f"layout{kind}.some-class>part.{part}.another-class" for part in range(140)}
        features |= {f"own>{number * 7 + extra}" for extra in range(10)}
        grouper.assign(f"http://site.test/kind-{kind}/a-rather-long-name-of-a-product_{number}/", frozenset(features))
    packed = zlib.compress(json.dumps(grouper.to_json(), separators=(",", ":")).encode(), 9)
    assert len(packed) < 60_000


def test_a_new_page_unlike_its_group_is_still_not_settled() -> None:
    extra = frozenset(f"aside>{x}" for x in "abcdef")
    kept = again(learned(90))
    odd = kept.assign("http://site.test/item/9001/", CHROME | KINDS["item"] | extra)
    assert (odd.settled, odd.is_known) == (False, False)


def test_a_known_page_that_has_changed_a_little_is_no_news() -> None:
    grouper = learned(90)
    kept = again(grouper)
    url, features = [page for page in pages(90) if kind_of(page[0]) == "item"][-1]
    changed = kept.assign(url, features | {f"aside>{x}" for x in "abcd"})
    assert (changed.template, changed.settled, changed.is_known) == (grouper.match(url, features), True, True)
    assert sum(group.page_count for group in kept.learned_groups()) == 90


def test_a_known_page_that_is_another_now_is_news() -> None:
    kept = again(learned(90))
    known = {group.template for group in kept.learned_groups()}
    url, _ = pages(90)[0]
    changed = kept.assign(url, frozenset({"html>body", "form:post", "field:password:password"}))
    assert changed.template not in known
    assert (changed.settled, changed.is_known) == (False, False)


def test_a_page_that_was_not_settled_is_so_the_next_time_too() -> None:
    """Nobody may have judged it; if somebody has, that judgement is kept by its url."""
    grouper = TemplateGrouper()
    first, *_ = stream = pages(60)
    feed(grouper, stream)
    assert not again(grouper).assign(*first).settled


def test_parts_of_a_split_stay_apart_in_the_next_crawl() -> None:
    def page(number: int) -> tuple[str, frozenset[str]]:
        odd = frozenset({"main>odd"}) if number % 3 == 0 else frozenset()
        return f"http://site.test/p/{number}", CHROME | KINDS["item"] | KINDS["list"] | odd

    grouper = TemplateGrouper()
    for number in range(30):
        grouper.assign(*page(number))
    labels = {page(n)[0]: "review" if n % 3 == 0 else "product" for n in (1, 2, 3, 4, 6)}
    grouper.split_by(grouper.match(*page(1)) or "", labels)
    kept = again(grouper)
    for number in range(200):
        assert kept.assign(*page(number)).template == grouper.match(*page(number))


def test_new_groups_get_ids_of_their_own() -> None:
    grouper = learned(90)
    kept = again(grouper)
    odd = kept.assign("http://site.test/login", frozenset({"form:post", "field:password:password"}))
    assert odd.template not in json.dumps(grouper.to_json()["groups"])


def test_a_grouper_that_has_seen_nothing_can_be_kept() -> None:
    assert again(TemplateGrouper("s2t")).to_json() == TemplateGrouper("s2t").to_json()


def test_pages_of_a_short_crawl_are_recognised_though_nothing_was_clustered() -> None:
    grouper = TemplateGrouper()
    ids = feed(grouper, pages(4))
    kept = again(grouper)
    assert [kept.assign(*page).template for page in pages(4)] == ids


@pytest.mark.parametrize(
    "spoil",
    [
        lambda value: value.pop("known"),
        lambda value: value.update(groups=None),
        lambda value: value.update(issued=0),
        lambda value: value["groups"].pop("t1"),
        lambda value: value["reservoir"].append([99_999, "t1", 0]),
        lambda value: value["matched"].append([0, "t999"]),
        lambda value: value["samples"].update(names=[]),
        lambda value: value["clustering"].update(weights="AAA"),
        lambda value: value["clustering"].update(names=["one"]),
        lambda value: value["known"].update(templates=["t404"]),
        lambda value: value.update(aliases=["t1"]),
        lambda value: value["aliases"].update({"t999": "t1"}),
        lambda value: value["aliases"].update({"t1": "t2"}),
    ],
)
def test_what_is_no_state_is_a_value_error(spoil) -> None:
    value = json.loads(json.dumps(learned(60).to_json()))
    spoil(value)
    with pytest.raises(ValueError, match=r"\w"):
        TemplateGrouper.from_json(value, ORIGIN)
