"""Online grouping: what a caller may rely on."""

from __future__ import annotations

import json
import pickle
import random
import subprocess
import sys
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from llmcrawler.core.understanding.templates.clustering import Snapshot, recluster
from llmcrawler.core.understanding.templates.grouping import MAX_GROUPS, RESERVOIR_PAGES, Assignment, TemplateGrouper
from llmcrawler.core.understanding.templates.page_sample import PageSample

Page = tuple[str, frozenset[str]]
ORIGIN = "http://site.test"
LOGIN = frozenset({"html>body", "form:post", "field:password:password"})
CHROME = frozenset({"html>body", "body>nav", "nav>a"})
KINDS = {
    "item": frozenset(f"item>{x}" for x in "abcdefgh"),
    "list": frozenset(f"list>{x}" for x in "abcdefgh"),
    "text": frozenset(f"text>{x}" for x in "abcdefgh"),
}


def pages(count: int, seed: int = 0) -> list[Page]:
    rng = random.Random(seed)
    made = []
    for number in range(count):
        kind = rng.choice(sorted(KINDS))
        made.append((f"http://site.test/{kind}/{number}/", CHROME | KINDS[kind] - {rng.choice(sorted(KINDS[kind]))}))
    return made


def assigned(grouper: TemplateGrouper, stream: Iterable[Page]) -> Iterator[Assignment]:
    """Yield where each page goes, and cluster whenever it is due."""
    for url, features in stream:
        yield grouper.assign(url, features)
        if grouper.due:
            grouper.adopt(recluster(grouper.snapshot()))


def feed(grouper: TemplateGrouper, stream: Iterable[Page]) -> list[str]:
    return [one.template for one in assigned(grouper, stream)]


def kind_of(url: str) -> str:
    return url.split("/")[3]


def test_pages_of_one_template_share_a_group() -> None:
    grouper = TemplateGrouper()
    stream = pages(120)
    ids = [grouper.resolve(i) for i in feed(grouper, stream)]
    assert len({(kind_of(url), i) for (url, _), i in zip(stream, ids, strict=True)}) == len(KINDS)


@pytest.mark.server
@pytest.mark.slow
def test_another_process_gives_the_same_groups() -> None:
    """Sets are ordered anew in each process; nothing may hang on it."""
    trace = "print([*t.assigned(t.TemplateGrouper(), t.pages(150))])"
    command = [sys.executable, "-c", f"import sys; sys.path[:0] = {sys.path!r}; import test_grouping as t; {trace}"]
    traces = set()
    for seed in ("1", "2"):
        env = {"PYTHONHASHSEED": seed, "PYTHONPATH": str(Path(__file__).parent)}
        traces.add(subprocess.run(command, env=env, capture_output=True, check=True, text=True).stdout)
    assert len(traces) == 1


def test_reclustering_is_due_at_page_six_and_then_ever_more_seldom() -> None:
    grouper = TemplateGrouper()
    due_at = [number for number, _ in enumerate(assigned(grouper, pages(100)), 1) if grouper.due]
    assert due_at == [6, 9, 13, 19, 28, 42, 63, 94]


def test_samples_are_spread_over_a_group() -> None:
    items = [(f"http://site.test/item/{number}/", CHROME | KINDS["item"]) for number in range(1, 101)]
    found = assigned(TemplateGrouper(), items)
    assert [assignment.member for assignment in found if assignment.is_sample] == [1, 4, 16, 64]


def test_a_page_unlike_all_known_opens_a_group_of_its_own() -> None:
    grouper = TemplateGrouper()
    known = set(feed(grouper, pages(60)))
    odd = grouper.assign(f"{ORIGIN}/login", LOGIN)
    assert odd.template not in known
    assert odd.is_sample


@pytest.mark.slow
def test_memory_is_bounded_whatever_comes() -> None:
    grouper = TemplateGrouper()
    feed(grouper, [(f"{ORIGIN}/{n}/x{n}", frozenset(f"{n}>{i}" for i in range(5))) for n in range(1500)])
    assert len(grouper.snapshot().samples) <= RESERVOIR_PAGES
    assert len(grouper.groups()) <= MAX_GROUPS + RESERVOIR_PAGES
    assert sum(group.page_count for group in grouper.groups()) == 1500


def test_every_page_is_counted_once_and_groups_show_pattern_and_examples() -> None:
    grouper = TemplateGrouper("shop-")
    feed(grouper, pages(700))
    groups = grouper.groups()
    assert sum(group.page_count for group in groups) == 700
    assert {group.url_pattern for group in groups} == {"/item/*/", "/list/*/", "/text/*/"}
    assert all(group.template.startswith("shop-") and 0 < len(group.examples) <= 5 for group in groups)


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


def mixed(number: int) -> Page:
    """A page of one group that holds two kinds: one feature of each third page tells them apart."""
    odd = frozenset({"main>odd"}) if number % 3 == 0 else frozenset()
    return f"{ORIGIN}/p/{number}", CHROME | KINDS["item"] | KINDS["list"] | odd


def labels_of(*numbers: int) -> dict[str, str]:
    return {mixed(n)[0]: "review" if n % 3 == 0 else "product" for n in numbers}


@pytest.fixture
def in_one() -> TemplateGrouper:
    """Thirty such pages in the group t1: nothing is clustered yet, so near-twins are one."""
    grouper = TemplateGrouper()
    for number in range(30):
        assert grouper.assign(*mixed(number)).template == "t1"
    return grouper


def test_pages_go_with_the_label_they_resemble(in_one: TemplateGrouper) -> None:
    changes = in_one.split_by("t1", labels_of(1, 2, 3, 4, 6))
    (new,) = changes.splits["t1"]
    assert {url for url, group in changes.moved.items() if group == new} == {mixed(n)[0] for n in range(0, 30, 3)}
    assert [in_one.match(*mixed(number)) for number in (301, 300)] == ["t1", new]


def test_parts_of_a_split_stay_apart_in_later_clusterings_and_in_the_next_crawl(in_one: TemplateGrouper) -> None:
    in_one.split_by("t1", labels_of(1, 2, 3, 4, 6))
    kept = again(in_one)
    for number in range(200):
        assert kept.assign(*mixed(number)).template == in_one.match(*mixed(number))
    feed(in_one, map(mixed, range(30, 200)))
    reviews, products = ({in_one.match(*mixed(n)) for n in range(first, 230, 3)} for first in (201, 202))
    assert reviews.isdisjoint(products)


def test_nothing_changes_when_labels_agree_or_are_of_unknown_pages_or_nothing_separates(
    in_one: TemplateGrouper,
) -> None:
    assert not in_one.split_by("t1", labels_of(1, 2, 4)).splits
    assert not in_one.split_by("t1", {f"{ORIGIN}/never": "x", f"{ORIGIN}/nor": "y"}).splits
    same = TemplateGrouper()
    for number in range(8):
        same.assign(f"{ORIGIN}/?v={number}", CHROME)
    assert not same.split_by("t1", {f"{ORIGIN}/?v=0": "a", f"{ORIGIN}/?v=1": "b"}).splits


def test_a_page_that_is_moved_counts_for_its_new_group_in_this_crawl_and_the_next(in_one: TemplateGrouper) -> None:
    (new,) = in_one.split_by("t1", labels_of(1, 2, 3, 4, 6)).splits["t1"]
    url = mixed(3)[0]
    in_one.move(url, "t1")
    in_one.move(f"{ORIGIN}/not-seen", "t1")
    assert {group.template: group.page_count for group in in_one.groups()} == {"t1": 21, new: 9}
    restored = again(in_one)
    assert {group.template: group.page_count for group in restored.learned_groups()} == {"t1": 21, new: 9}
    assert [restored.count_earlier(place, "t1") for place in (url, mixed(6)[0])] == ["t1", new]


def test_a_page_unlike_the_rest_of_its_group_is_not_settled_but_its_like_is() -> None:
    grouper = learned(90)
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


def test_title_goes_into_the_next_crawl_and_samples_without_titles_are_refused() -> None:
    grouper = TemplateGrouper()
    grouper.assign(f"{ORIGIN}/a.html", CHROME, title="A Class Reference")
    kept = again(grouper)
    assert kept.snapshot().samples == grouper.snapshot().samples
    assert kept.snapshot().samples[0].title == "A Class Reference"
    value = grouper.to_json()
    value["samples"]["rows"] = [[path, *numbers] for path, _, *numbers in value["samples"]["rows"]]
    with pytest.raises(ValueError, match="no title in a row of samples"):
        TemplateGrouper.from_json(value, ORIGIN)


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
        assert kept.assign(url, features) == grouper.assign(url, features)


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


@pytest.mark.parametrize(("before", "seen", "in_all"), [(300, (0, 30), 300), (40, (20, 500), 500)])
def test_counts_shown_are_of_the_present_crawl_and_those_kept_are_of_all_whatever_is_regrouped(
    before: int, seen: tuple[int, int], in_all: int
) -> None:
    kept = again(learned(before))
    assert kept.groups() == []
    assert kept.group_count == 0
    feed(kept, pages(500)[slice(*seen)])
    assert sum(group.page_count for group in kept.groups()) == seen[1] - seen[0]
    assert sum(group.page_count for group in kept.learned_groups()) == in_all


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


def test_a_known_page_is_news_where_it_is_another_now_but_not_where_it_has_changed_a_little() -> None:
    grouper = learned(90)
    kept, known = again(grouper), {group.template for group in grouper.learned_groups()}
    url, features = [page for page in pages(90) if kind_of(page[0]) == "item"][-1]
    changed = kept.assign(url, features | {f"aside>{x}" for x in "abcd"})
    assert (changed.template, changed.settled, changed.is_known) == (grouper.match(url, features), True, True)
    assert sum(group.page_count for group in kept.learned_groups()) == 90
    another = kept.assign(pages(90)[0][0], LOGIN)
    assert another.template not in known
    assert (another.settled, another.is_known) == (False, False)
    odd = kept.assign(f"{ORIGIN}/item/9001/", CHROME | KINDS["item"] | {f"aside>{x}" for x in "abcdef"})
    assert (odd.settled, odd.is_known) == (False, False), "a new page unlike its group"


def test_a_page_that_was_not_settled_is_so_the_next_time_too() -> None:
    assert not again(learned(60)).assign(*pages(60)[0]).settled


@pytest.mark.parametrize("count", [0, 4])
def test_pages_of_a_short_crawl_are_recognised_though_nothing_was_clustered(count: int) -> None:
    grouper = TemplateGrouper("s2t")
    ids = feed(grouper, pages(count))
    kept = again(grouper)
    assert kept.to_json() == grouper.to_json()
    assert [kept.assign(*page).template for page in pages(count)] == ids


@pytest.mark.parametrize(
    "spoil",
    [
        lambda value: value.pop("known"),
        lambda value: value.update(groups=None),
        lambda value: value.update(issued=0),
        lambda value: value["groups"].pop("t1"),
        lambda value: value["groups"]["t1"][2].append("[/"),
        lambda value: value["reservoir"].append([99_999, "t1", 0]),
        lambda value: value["matched"].append([0, "t999"]),
        lambda value: value["samples"].update(names=[]),
        lambda value: value["clustering"].update(weights="AAA"),
        lambda value: value["clustering"].update(names=["one"]),
        lambda value: value["known"].update(templates=["t404"]),
        lambda value: value["known"].update(templates=[[]] * 9),
        lambda value: value["samples"]["names"].append(1),
        lambda value: value["clustering"]["names"].__setitem__(0, 1),
        lambda value: value["apart"].append(["t1", 1]),
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
