"""Which sites of a campaign share a process."""

from __future__ import annotations

from llmcrawler.campaigns.bundles import make_bundles, places_of
from llmcrawler.campaigns.sites_file import SiteRow


def row(name, **arguments):
    return SiteRow(1, name, f"https://{name}/", arguments)


def names(bundles):
    return [[one.name for one in bundle.sites] for bundle in bundles]


def test_sites_with_the_same_arguments_share_a_bundle_of_a_bounded_size():
    rows = [row(f"{number:03}.example") for number in range(7)] + [row("x.example", goal="product")]
    bundles = make_bundles(rows, {}, cores=2, most_sites=3)
    assert [len(one) for one in names(bundles)] == [3, 3, 1, 1]
    assert bundles[0].crawl_arguments() == {"max_pages": "1500", "max_pages_per_site": "500"}
    assert bundles[3].crawl_arguments() == {"goal": "product", "max_pages": "500"}


def test_there_are_enough_bundles_for_all_cores_and_none_is_too_large():
    few = make_bundles([row(f"{number}.example") for number in range(16)], {}, cores=2)
    assert [len(one.sites) for one in few] == [2] * 8
    many = make_bundles([row(f"{number}.example") for number in range(1000)], {}, cores=2)
    assert {len(one.sites) for one in many} == {50}


def test_big_sites_rendered_ones_and_limits_of_records_are_alone_and_big_ones_begin():
    rows = [
        *(row(f"{number}.example") for number in range(4)),
        *(row(f"app{number}.example", render="always") for number in range(2)),
        *(row(f"big{number}.example", max_pages="50000") for number in range(2)),
        *(row(f"some{number}.example", goal="product", max_records="10") for number in range(2)),
    ]
    bundles = make_bundles(rows, {}, cores=1, most_sites=10)
    assert names(bundles)[:2] == [["big0.example"], ["big1.example"]]
    assert sorted(len(one.sites) for one in bundles) == [1, 1, 1, 1, 1, 1, 4]
    assert [one.is_rendered for one in bundles].count(True) == 2


def test_sites_of_one_host_or_address_come_side_by_side():
    rows = [row(f"{number}.example") for number in range(8)]
    addresses = {f"{number}.example": [f"192.0.2.{number % 2}"] for number in range(8)}
    assert {frozenset(one) for one in names(make_bundles(rows, addresses, cores=1, most_sites=4))} == {
        frozenset(f"{number}.example" for number in (0, 2, 4, 6)),
        frozenset(f"{number}.example" for number in (1, 3, 5, 7)),
    }
    assert places_of(["a.example:81", "a.example:82"], {"a.example:81": ["192.0.2.1"]}) == {"a.example", "192.0.2.1"}


def test_a_refresh_is_no_matter_of_the_first_crawl():
    (bundle,) = make_bundles([row("a.example", refresh="1")], {}, cores=1)
    assert bundle.refreshes
    assert "refresh" not in bundle.crawl_arguments()
