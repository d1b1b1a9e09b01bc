"""Two crawls side by side: pages, values, and how many pages have each field."""

from __future__ import annotations

import json
import re
from collections import Counter

import pytest

from llmcrawler.core.reporting.html import make_comparison
from llmcrawler.core.reporting.html.comparison import PageState, compare, comparison_view, differences
from llmcrawler.core.reporting.html.sources import open_source
from tests.core.reporting.stored_jobs import SITE, product

MISSING = {"stage": "fetch", "kind": "http_404", "message": "404 Not Found", "attempts": 1}
BUSY = {"stage": "fetch", "kind": "http_503", "message": "503", "attempts": 3}


def compared(before, after, max_listed=100):
    with open_source(before, 0.0) as then, open_source(after, 0.0) as now:
        found = compare(then, now, max_listed)
        return found, comparison_view(found, then, now)


def feed(path, lines):
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def compared_feeds(tmp_path, monday, tuesday, max_listed=100):
    before, after = feed(tmp_path / "monday.jsonl", monday), feed(tmp_path / "tuesday.jsonl", tuesday)
    return compared(before, after, max_listed)


def failed(number, error):
    return product(number) | {"error": error, "record": None, "template": None, "page_type": None}


@pytest.mark.parametrize(
    ("before", "after", "kind"),
    [
        (product(1), product(1), "unchanged"),
        (product(1), product(1, template="t9"), "unchanged"),
        (product(1), product(1, title="A lamp"), "changed"),
        (product(1), product(1, record={"name": "Lamp 1", "price": 9, "stock": 3}), "changed"),
        (product(1, content_hash="a"), product(1, content_hash="b"), "changed"),
        (product(1, content_hash="a"), product(1), "unchanged"),
        (product(1), failed(1, MISSING), "gone"),
        (product(1), product(1, change="gone"), "gone"),
        (product(1), failed(1, BUSY), "failed"),
        (product(1), None, "gone"),
        (None, product(1), "new"),
        (failed(1, BUSY), product(1), "new"),
        (None, failed(1, BUSY), "failed"),
        (failed(1, BUSY), failed(1, MISSING), "failed in both"),
    ],
)
def test_a_page_is_new_changed_gone_or_the_same(tmp_path, before, after, kind):
    other = product(2)
    found, _view = compared_feeds(tmp_path, *([one for one in (line, other) if one] for line in (before, after)))
    assert +found.kinds == Counter([kind, "unchanged"])
    listed = [] if kind in ("unchanged", "failed in both") else [(kind, product(1)["url"])]
    assert [row[:2] for row in found.rows] == listed


def test_values_stand_before_and_after():
    then = PageState.of(product(1, content_hash="a"))
    record = {"name": "Lamp 1", "price": 9, "new": "x"}
    now = PageState.of(product(1, page_type="offer", content_hash="b", record=record))
    assert differences(then, now) == [
        ("price", 11, 9),
        ("stock", 3, None),
        ("new", None, "x"),
        ("(page type)", "product", "offer"),
        ("(main text)", None, None),
    ]


def test_fields_are_compared_by_template_whatever_its_name_is_now(tmp_path):
    without = {"name": "Lamp", "price": None, "stock": 3}
    monday = [product(number, template="t1") for number in range(10)]
    tuesday = [product(number, template="t5", **({"record": without} if number < 5 else {})) for number in range(20)]
    found, view = compared_feeds(tmp_path, monday, tuesday)
    assert found.fields[0] == ((SITE, "t1"), "price", 1.0, 0.75)
    assert view["findings"][1] == "1 field gives less than before: price of t1, 100% → 75%."


def test_the_list_is_bounded_and_says_so_and_values_come_first(tmp_path):
    monday = [product(number, content_hash="a") for number in range(30)]
    tuesday = [product(number, content_hash="b") for number in range(30)]
    tuesday[20]["record"]["price"] = 1
    found, _view = compared_feeds(tmp_path, monday, tuesday, max_listed=25)
    assert (len(found.rows), found.not_listed, found.kinds["changed"]) == (25, 5, 30)
    assert found.rows[0][4][0] == ("price", 30, 1)


def test_what_pages_say_is_text_in_a_comparison(tmp_path):
    bad = "</script><img src=x onerror=alert(1)>"
    lines = [product(1, title=bad, page_type=bad, template=bad, record={bad: bad}) | {"url": f"javascript:{bad}"}]
    before = feed(tmp_path / "monday.jsonl", [product(2)])
    page, words = make_comparison(before, feed(tmp_path / "tuesday.jsonl", lines), 100, "1.0", 0.0)
    html = page.decode()
    assert words == "1 pages before, 1 after: 0 changed, 1 new, 1 gone, 0 failed, 0 unchanged, 0 failed in both"
    assert "<img" not in html
    (data,) = re.findall(r'id="data">(.*?)</script>', html)
    assert json.loads(data)["rows"][0][2] == bad
    assert "sha256-" in html
