"""The list of a campaign's sites."""

from __future__ import annotations

from typing import Any

import pytest

from llmcrawler.campaigns.sites_file import SiteRow, make_bundles, places_of, read_sites
from llmcrawler.errors import ConfigError


@pytest.fixture
def listed(tmp_path):
    path = tmp_path / "sites.csv"

    def read(text, common=None, check=lambda _options: None):
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return read_sites(path, common or {}, check)

    return read


def test_a_row_has_a_site_and_its_arguments_over_those_of_all(listed):
    rows = listed("url,goal,max_pages\nwww.a.example,,\nhttp://b.example:81/x,article,5\n\n", {"goal": "product"})
    assert [(row.line, row.name, row.url, dict(row.arguments)) for row in rows] == [
        (2, "a.example", "https://www.a.example/", {"goal": "product"}),
        (3, "b.example:81", "http://b.example:81/x", {"goal": "article", "max_pages": "5"}),
    ]


def test_cells_may_be_parted_as_spreadsheets_do(listed):
    (row,) = listed('"URL";goal\r\na.example;"product,article"\r\n')
    assert (row.url, dict(row.arguments)) == ("https://a.example/", {"goal": "product,article"})


def test_arguments_of_all_sites_are_checked_too(listed):
    for common in ({"url": "a.example"}, {"gaol": "product"}):
        with pytest.raises(ConfigError, match=r"^-a: "):
            listed("url\na.example\n", common)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("site\na.example\n", "no column url; there are: site"),
        ("url,goals\na.example,product\n", "no argument of explore is called 'goals': did you mean goal?"),
        ("url,max_pages_per_site\na.example,5\n", "max_pages of a row is its site's"),
        (f"url,max_pages\na.example,{'9' * 23}\n", "line 2: max_pages=99"),
        (f"url,depth\na.example,{'9' * 5000}\n", "is too large"),
        ("url,refresh\na.example,maybe\n", "refresh='maybe': it is 1 or 0"),
        ("url,url\na.example,b.example\n", "twice"),
        ("url\n", "no site"),
        (b"url\n\xff\n", "not CSV in UTF-8"),
        ('url\n"a.example\n', "not CSV"),
    ],
)
def test_a_list_that_is_none_is_refused(listed, text, told):
    with pytest.raises(ConfigError, match=r"sites\.csv") as refused:
        listed(text)
    assert told in str(refused.value)


def test_all_bad_rows_are_told_with_their_lines(listed):
    text = "url,max_pages\na.example,5\nwww.a.example,6\nmailto:x,\nc.example,many\nd.example,1,2\n,5\n"
    with pytest.raises(ConfigError) as refused:
        listed(text)
    assert [told.partition(":")[0].strip() for told in str(refused.value).splitlines()[1:]] == [
        f"line {number}" for number in (3, 4, 5, 6, 7)
    ]


def test_of_many_bad_rows_the_first_are_told_and_the_others_counted(listed):
    with pytest.raises(ConfigError, match=r"and 70 more$"):
        listed("url\n" + "ftp://a.example\n" * 120)


def test_arguments_are_checked_once_for_all_sites_that_have_them(listed):
    seen: list[Any] = []
    listed("url,goal\na.example,product\nb.example,product\nc.example,\n", check=seen.append)
    assert [options.goal for options in seen] == [("product",), ()]


def test_what_no_crawl_could_be_made_of_is_told_for_each_row(listed):
    def check(_options):
        raise ConfigError("goal: there is no page type 'shop'")

    with pytest.raises(ConfigError, match=r"line 2: goal.*\n.*line 3: goal"):
        listed("url,goal\na.example,shop\nb.example,shop\n", check=check)


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
