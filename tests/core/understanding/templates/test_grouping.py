"""Online grouping: what a caller may rely on."""

from __future__ import annotations

import json
import pickle
import random
import subprocess
import sys
import zlib
from collections import Counter
from pathlib import Path

import pytest

from llmcrawler.core.understanding.templates import Snapshot, TemplateGrouper, recluster
from llmcrawler.core.understanding.templates.grouping import MAX_GROUPS, RESERVOIR_PAGES
from llmcrawler.core.understanding.templates.page_sample import PageSample

CHROME = frozenset({"html>body", "body>nav", "nav>a"})
KINDS = {
    "item": frozenset(f"item>{x}" for x in "abcdefgh"),
    "list": frozenset(f"list>{x}" for x in "abcdefgh"),
    "text": frozenset(f"text>{x}" for x in "abcdefgh"),
}


def pages(count: int, seed: int = 0) -> list[tuple[str, frozenset[str]]]:
    rng = random.Random(seed)
    made = []
    for number in range(count):
        kind = rng.choice(sorted(KINDS))
        made.append((f"http://site.test/{kind}/{number}/", CHROME | KINDS[kind] - {rng.choice(sorted(KINDS[kind]))}))
    return made


def feed(grouper: TemplateGrouper, stream: list[tuple[str, frozenset[str]]]) -> list[str]:
    ids = []
    for url, features in stream:
        ids.append(grouper.assign(url, features).template)
        if grouper.due:
            grouper.adopt(recluster(grouper.snapshot()))
    return ids


def kind_of(url: str) -> str:
    return url.split("/")[3]


def test_pages_of_one_template_share_a_group() -> None:
    grouper = TemplateGrouper()
    stream = pages(120)
    ids = [grouper.resolve(i) for i in feed(grouper, stream)]
    assert len({(kind_of(url), i) for (url, _), i in zip(stream, ids, strict=True)}) == len(KINDS)


def test_the_same_stream_gives_the_same_groups() -> None:
    assert feed(TemplateGrouper(), pages(200)) == feed(TemplateGrouper(), pages(200))


@pytest.mark.server
@pytest.mark.slow
def test_another_process_gives_the_same_groups() -> None:
    """Sets are ordered anew in each process; nothing may hang on it."""
    program = f"import sys; sys.path[:0] = {sys.path!r}; import test_grouping as t; print(t.trace())"
    folder = str(Path(__file__).parent)
    traces = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": folder},
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(traces) == 1


def trace() -> str:
    grouper = TemplateGrouper()
    out = []
    for url, features in pages(150):
        out.append(repr(grouper.assign(url, features)))
        if grouper.due:
            grouper.adopt(recluster(grouper.snapshot()))
    return "\n".join(out)


def test_nothing_is_settled_before_the_first_clustering() -> None:
    grouper = TemplateGrouper()
    assert not any(grouper.assign(url, features).settled for url, features in pages(5))
    assert not grouper.due


def test_reclustering_is_due_at_page_six_and_then_ever_more_seldom() -> None:
    grouper, due_at = TemplateGrouper(), []
    for number, (url, features) in enumerate(pages(100), 1):
        grouper.assign(url, features)
        if grouper.due:
            due_at.append(number)
            grouper.adopt(recluster(grouper.snapshot()))
    assert due_at == [6, 9, 13, 19, 28, 42, 63, 94]


def test_samples_are_spread_over_a_group() -> None:
    grouper = TemplateGrouper()
    samples = []
    for number in range(1, 101):
        assignment = grouper.assign(f"http://site.test/item/{number}/", CHROME | KINDS["item"])
        if assignment.is_sample:
            samples.append(assignment.member)
        if grouper.due:
            grouper.adopt(recluster(grouper.snapshot()))
    assert samples == [1, 4, 16, 64]


def test_a_page_unlike_all_known_opens_a_group_of_its_own() -> None:
    grouper = TemplateGrouper()
    known = set(feed(grouper, pages(60)))
    odd = grouper.assign("http://site.test/login", frozenset({"html>body", "form:post", "field:password:password"}))
    assert odd.template not in known
    assert odd.is_sample


@pytest.mark.slow
def test_memory_is_bounded_whatever_comes() -> None:
    grouper = TemplateGrouper()
    for number in range(1500):
        grouper.assign(f"http://site.test/{number}/x{number}", frozenset(f"{number}>{i}" for i in range(5)))
        if grouper.due:
            grouper.adopt(recluster(grouper.snapshot()))
    assert len(grouper.snapshot().samples) <= RESERVOIR_PAGES
    assert len(grouper.groups()) <= MAX_GROUPS + RESERVOIR_PAGES
    assert sum(group.page_count for group in grouper.groups()) == 1500


def test_every_page_is_counted_once() -> None:
    grouper = TemplateGrouper()
    feed(grouper, pages(700))
    assert sum(group.page_count for group in grouper.groups()) == 700


def test_groups_show_pattern_and_examples() -> None:
    grouper = TemplateGrouper("shop-")
    feed(grouper, pages(90))
    groups = grouper.groups()
    assert {group.url_pattern for group in groups} == {"/item/*/", "/list/*/", "/text/*/"}
    assert all(group.template.startswith("shop-") and 0 < len(group.examples) <= 5 for group in groups)


def test_merged_ids_resolve_to_a_live_group() -> None:
    grouper = TemplateGrouper()
    ids = feed(grouper, pages(300, seed=3))
    live = {group.template for group in grouper.groups()}
    assert {grouper.resolve(i) for i in ids} <= live


def test_pages_that_come_while_clustering_runs_are_kept() -> None:
    grouper = TemplateGrouper()
    stream = pages(40)
    for url, features in stream[:20]:
        grouper.assign(url, features)
    running = recluster(grouper.snapshot())
    for url, features in stream[20:]:
        grouper.assign(url, features)
    grouper.adopt(running)
    assert sum(group.page_count for group in grouper.groups()) == 40
    assert {grouper.match(url, features) for url, features in stream} <= {g.template for g in grouper.groups()}


def test_snapshot_and_clustering_travel_to_another_process() -> None:
    grouper = TemplateGrouper()
    for url, features in pages(30):
        grouper.assign(url, features)
    snapshot = grouper.snapshot()
    assert recluster(pickle.loads(pickle.dumps(snapshot))) == recluster(snapshot)


@pytest.mark.parametrize("count", [0, 1, 2, 7])
@pytest.mark.parametrize("features", [frozenset(), CHROME])
def test_few_or_identical_or_empty_pages_make_one_group_at_most(count: int, features: frozenset[str]) -> None:
    grouper = TemplateGrouper()
    for number in range(count):
        grouper.assign(f"http://site.test/p/{number}", features)
    grouper.adopt(recluster(grouper.snapshot()))
    assert len(grouper.groups()) == min(count, 1)


def test_an_empty_snapshot_can_be_clustered() -> None:
    assert recluster(Snapshot((), ())).clusters == ()


class TestSplit:
    """One group, two kinds of page: the oracle says so, and one feature tells them apart."""

    def grouper(self) -> TemplateGrouper:
        grouper = TemplateGrouper()
        for number in range(30):
            grouper.assign(*self.page(number))  # not clustered yet, so near-twins are one group
        return grouper

    def page(self, number: int) -> tuple[str, frozenset[str]]:
        odd = frozenset({"main>odd"}) if number % 3 == 0 else frozenset()
        return f"http://site.test/p/{number}", CHROME | KINDS["item"] | KINDS["list"] | odd

    def labels(self, *numbers: int) -> dict[str, str]:
        return {self.page(n)[0]: "review" if n % 3 == 0 else "product" for n in numbers}

    def test_pages_go_with_the_label_they_resemble(self) -> None:
        grouper = self.grouper()
        one = grouper.match(*self.page(1))
        assert one == grouper.match(*self.page(3)), "the two kinds look alike at first"
        changes = grouper.split_by(one, self.labels(1, 2, 3, 4, 6))
        (new,) = changes.splits[one]
        assert {url for url, group in changes.moved.items() if group == new} == {
            self.page(n)[0] for n in range(0, 30, 3)
        }
        assert grouper.match(*self.page(301)) == one
        assert grouper.match(*self.page(300)) == new

    def test_parts_stay_apart_in_later_clusterings(self) -> None:
        grouper = self.grouper()
        one = grouper.match(*self.page(1))
        grouper.split_by(one, self.labels(1, 2, 3, 4, 6))
        for number in range(30, 200):
            grouper.assign(*self.page(number))
            if grouper.due:
                grouper.adopt(recluster(grouper.snapshot()))
        assert {grouper.match(*self.page(n)) for n in range(201, 230, 3)}.isdisjoint(
            grouper.match(*self.page(n)) for n in range(202, 230, 3)
        )

    def test_nothing_changes_when_labels_agree_or_nothing_separates(self) -> None:
        grouper = self.grouper()
        one = grouper.match(*self.page(1))
        assert not grouper.split_by(one, self.labels(1, 2, 4)).splits
        same = TemplateGrouper()
        for number in range(8):
            same.assign(f"http://site.test/?v={number}", CHROME)
        urls = ["http://site.test/?v=0", "http://site.test/?v=1"]
        assert not same.split_by("t1", dict(zip(urls, ["a", "b"], strict=True))).splits

    def test_a_page_that_is_moved_counts_for_its_new_group_in_this_crawl_and_the_next(self) -> None:
        grouper = self.grouper()
        one = grouper.match(*self.page(1))
        (new,) = grouper.split_by(one, self.labels(1, 2, 3, 4, 6)).splits[one]
        url = self.page(3)[0]
        grouper.move(url, one)
        grouper.move("http://site.test/not-seen", one)
        assert {group.template: group.page_count for group in grouper.groups()} == {one: 21, new: 9}
        restored = TemplateGrouper.from_json(grouper.to_json(), "http://site.test")
        assert [restored.template_now(place, one) for place in (url, self.page(6)[0])] == [one, new]
        assert {group.template: group.page_count for group in restored.learned_groups()} == {one: 21, new: 9}

    def test_labels_of_unknown_pages_are_ignored(self) -> None:
        grouper = self.grouper()
        assert not grouper.split_by("t1", {"http://site.test/never": "x", "http://site.test/nor": "y"}).splits


def test_a_close_call_names_its_rivals() -> None:
    grouper = TemplateGrouper()
    feed(grouper, pages(90))
    item = grouper.match("http://site.test/item/1/", CHROME | KINDS["item"])
    mixed = grouper.assign("http://site.test/item/9999/", CHROME | KINDS["item"] | KINDS["list"])
    assert mixed.template != item or mixed.rivals or mixed.is_sample or not mixed.settled


def test_a_page_unlike_the_rest_of_its_group_is_not_settled_but_its_like_is() -> None:
    grouper = TemplateGrouper()
    feed(grouper, pages(90))
    extra = frozenset(f"aside>{x}" for x in "abcdef")
    url = "http://site.test/item/{}/"
    first = grouper.assign(url.format(9001), CHROME | KINDS["item"] | extra)
    second = grouper.assign(url.format(9002), CHROME | KINDS["item"] | extra)
    assert first.template == second.template
    assert (first.settled, second.settled) == (False, True)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_names_tell_templates_apart_whose_structure_hardly_does(seed: int) -> None:
    """Titles and file names say what made a page; its structure differs by one part, which some lack."""
    kinds = {"struct": "fields", "trait": "methods", "fn": "result"}

    def clusters(*, named: bool) -> Counter[tuple[str, int]]:
        rng = random.Random(seed)
        samples, of = [], {}
        for _ in range(150):
            kind = rng.choice(sorted(kinds))
            name = "".join(rng.choices("abcdefghijklmnop", k=8))
            url = f"http://site.test/lib/{kind + '.' if named else ''}{name}.html"
            part = {"main>" + kinds[kind]} if rng.random() < 0.8 else set()
            features = CHROME | part | set(rng.sample([f"main>{n}" for n in range(8)], 3))
            samples.append(PageSample.of(url, frozenset(features), f"{name}: {kind} - Lib" if named else ""))
            of[url] = kind
        made = recluster(Snapshot(tuple(samples), ("t1",) * len(samples)))
        return Counter((of[one.url], cluster) for one, cluster in zip(samples, made.clusters, strict=True))

    found = clusters(named=True)
    biggest = {cluster: max(n for (_, other), n in found.items() if other == cluster) for _, cluster in found}
    assert sum(biggest.values()) >= 0.9 * 150
    assert len(biggest) <= 9 < len({cluster for _, cluster in clusters(named=False)})


def test_freely_filled_template_stays_one_where_names_say_so() -> None:
    """Half of the pages of a kind have parts that the other half lacks; names say that they are one kind."""
    rng = random.Random(4)

    def clusters(name: str) -> set[tuple[str, int]]:
        samples, of = [], {}
        for number in range(160):
            kind = ("guide", "entry")[number % 2]
            url = f"http://site.test/{(kind + '-' if name else '') + 'abcdefgh'[number % 8]}{number}x.html"
            parts = f"{kind}{rng.randrange(3)}"
            features = CHROME | {f"{kind}>{n}" for n in range(6)} | {f"{parts}>{n}" for n in range(9)}
            samples.append(PageSample.of(url, frozenset(features), f"{number}x: {kind} page" if name else ""))
            of[url] = kind
        made = recluster(Snapshot(tuple(samples), ("t1",) * len(samples)))
        return {(of[one.url], cluster) for one, cluster in zip(samples, made.clusters, strict=True)}

    assert len(clusters("named")) == 2
    assert len(clusters("")) > 2


def test_title_goes_into_the_next_crawl() -> None:
    grouper = TemplateGrouper()
    grouper.assign("http://site.test/a.html", CHROME, title="A Class Reference")
    kept = TemplateGrouper.from_json(grouper.to_json(), "http://site.test")
    assert kept.snapshot().samples == grouper.snapshot().samples
    assert kept.snapshot().samples[0].title == "A Class Reference"


def test_samples_without_titles_are_refused() -> None:
    grouper = TemplateGrouper()
    grouper.assign("http://site.test/a.html", CHROME)
    value = grouper.to_json()
    value["samples"]["rows"] = [[path, *numbers] for path, _, *numbers in value["samples"]["rows"]]
    with pytest.raises(ValueError, match="no title in a row of samples"):
        TemplateGrouper.from_json(value, "http://site.test")


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
