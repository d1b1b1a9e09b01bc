"""What a report shows of single pages: records, the stored page with its values marked, and the template it has now."""

from __future__ import annotations

import json
import re
import zlib
from base64 import b64decode

import pytest

from llmcrawler.core.reporting.html.digest import RecordRows
from llmcrawler.core.reporting.html.render import render
from llmcrawler.core.reporting.html.sources import LearnedSites, ReportSource, open_source
from llmcrawler.core.reporting.html.stored_pages import StoredPages, look_at
from llmcrawler.core.reporting.html.view import build
from llmcrawler.core.reporting.text import shown_value
from llmcrawler.core.storage import SiteState
from tests.core.reporting.stored_jobs import (
    SITE,
    make_stored_job,
    product,
    product_html,
    template_entry,
)


def view_of(path, max_listed=100):
    with open_source(path, 0.0) as source:
        return build(source, max_listed)


def unpacked(details):
    return [json.loads(zlib.decompress(b64decode(piece))) for piece in details.pieces]


def detail_of(view, row):
    piece, place = view["data"]["details"][row]
    return unpacked(view["details"])[piece][place]


def test_records_stand_by_page_type_with_the_fields_of_all():
    rows = RecordRows()
    rows.add(0, "product", {"name": "Lamp", "price": 10.5})
    rows.add(1, "product", {"name": "Desk", "tags": ["wood", "old"], "price": None})
    rows.add(2, "article", {"title": "News"})
    products = [[0, "Lamp", 10.5, None], [1, "Desk", None, "wood, old"]]
    assert rows.as_json() == {
        "product": {"fields": ["name", "price", "tags"], "rows": products, "head": None},
        "article": {"fields": ["title"], "rows": [[2, "News"]], "head": None},
    }


def test_short_fields_that_most_records_have_come_before_rare_ones_and_long_texts():
    rows = RecordRows()
    for number in range(4):
        record = {"text": "a long text " * 9, "size": "L" if number == 3 else None, "name": "Lamp", "price": number}
        rows.add(number, "product", record)
    (found,) = rows.as_json().values()
    assert found["fields"] == ["name", "price", "size", "text"]
    assert found["rows"][3] == [3, "Lamp", 3, "L", "a long text " * 9]


@pytest.mark.parametrize(
    ("titles", "head"), [(["Lamp 0 | Shop", "lamp  1", "Lamp 2"], 1), (["Shop", "Shop", "Lamp 2"], None)]
)
def test_a_field_that_the_titles_of_the_pages_repeat_is_the_head_of_its_row(titles, head):
    rows = RecordRows()
    for number, title in enumerate(titles):
        rows.add(number, "product", {"upc": str(number), "name": f"Lamp {number}"}, title)
    assert rows.as_json()["product"]["head"] == head


def test_records_beyond_a_bound_are_left_out_and_counted():
    rows = RecordRows(max_chars=100)
    for number in range(10):
        rows.add(number, "product", {"name": "x" * 30})
    rows.add(None, "product", {"name": "of a page that is not listed"})
    assert (len(rows), rows.left_out) == (3, 8)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, None),
        ([], None),
        (float("nan"), None),
        (3, 3),
        (True, "true"),
        ("a\u202eb", "ab"),
        ([1, "b"], "1, b"),
        ([{"a": 1}], '[{"a": 1}]'),
        ("x" * 300, "x" * 199 + "…"),
    ],
)
def test_values_are_shown_short_and_without_controls(value, shown):
    assert shown_value(value) == shown


def test_a_page_shows_where_each_value_of_its_record_stands(tmp_path):
    lines = [(product(1), product_html(1)), (product(2), product_html(2, price="<b>{}</b>"))]
    view = view_of(make_stored_job(tmp_path, lines))
    first = detail_of(view, 0)
    assert [(name, value, selector) for name, value, selector, _place in first["record"]] == [
        ("name", "Lamp 1", "css  h1"),
        ("price", 11, "css  p.price"),
        ("stock", 3, r"css  td.stock  ~ ^(\d+) left$"),
    ]
    price = first["record"][1][3]
    assert re.search(rf'<p class="price" data-llmcrawler="price" id="{price}">£ 11</p>', first["html"])
    assert first["text"] == "A lamp."
    assert detail_of(view, 1)["record"][1][2] == "css  b"


def test_nothing_of_a_stored_page_runs_or_is_fetched():
    more = (
        "<iframe srcdoc='<script>stolen()</script>'></iframe><svg onload=stolen()></svg><!-- stolen() -->"
        "<div style='background:url(//e.example)'>x</div><style>@import '//e.example'</style>"
        "<form action='//e.example'><input autofocus onfocus=stolen()></form>"
    )
    html = look_at(product_html(1, more=more), (), "https://shop.example/", "")[0]
    assert "e.example" not in html
    assert not re.search(r"<(script|iframe|meta|style|link)|stolen|javascript|autofocus|\son\w+=", html)
    assert "a lamp" in html


def test_a_job_that_keeps_no_bodies_says_which_setting_keeps_them(tmp_path):
    view = view_of(make_stored_job(tmp_path, [(product(1), None)]))
    assert "STORE_BODIES=True" in view["data"]["no_html"]
    assert "html" not in detail_of(view, 0)
    assert detail_of(view, 0)["record"][0][:2] == ["name", "Lamp 1"]


def test_what_can_be_looked_at_is_bounded_and_shared_out_among_templates():
    details = StoredPages(ReportSource("job", (), LearnedSites()), text_bytes=20_000)
    noise = [bytes([number * 7 % 251, number % 13 + 60]).hex() * 400 for number in range(2_000)]
    for number in range(2_000):
        details.add(number, product(number, text=f"{noise[number]}{number}"))
    details.add(5_000, product(5_000, template="t2"))
    details.close()
    assert 5_000 in details.places
    assert 100 <= len(details.places) < 2_000
    assert sum(map(len, details.pieces)) < 60_000


def test_pages_of_many_templates_are_packed_before_they_fill_the_memory():
    numbers = " ".join(map(str, range(60_000)))
    source = ReportSource("job", (), LearnedSites(), lambda url: f"<p>{url} {numbers}")
    details = StoredPages(source, html_bytes=100_000)
    for number in range(40):
        details.add(number, product(number, template=f"t{number}"))
    assert details.pieces
    assert details.html_pages < 40


def test_the_report_of_a_hostile_job_has_no_markup_of_its_pages(tmp_path):
    bad = "</script><img src=x onerror=alert(1)>"
    line = product(1, title=bad, text=bad, record={bad: bad, "name": bad}, url=f"https://{SITE}/{bad}")
    html = render(view_of(make_stored_job(tmp_path, [(line, f"<h1>{bad}</h1>")])), "1.0", 0.0).decode()
    assert "<img" not in html
    (data,) = re.findall(r'id="data">(.*?)</script>', html)
    assert bad in json.loads(data)["records"]["product"]["fields"]


def test_pages_have_the_template_that_theirs_was_merged_into(tmp_path):
    entries = [template_entry("t1", "product", aliases=["t7"])]
    job = make_stored_job(tmp_path, [(product(1), None), (product(2, template="t7"), None)], SiteState(entries, {}))
    view = view_of(job)
    assert [one["group"].template for one in view["templates"]] == ["t1"]


def test_pages_of_a_feed_follow_the_aliases_of_its_templates(tmp_path):
    path = tmp_path / "feed.jsonl"
    template = {**template_entry("t1", "product", aliases=["t7"]), "kind": "template", "examples": [f"https://{SITE}/"]}
    path.write_text("".join(json.dumps(one) + "\n" for one in (product(1, template="t7"), product(2), template)))
    view = view_of(path)
    assert [(one["group"].template, one["group"].pages) for one in view["templates"]] == [("t1", 2)]


def test_what_is_damaged_of_a_site_is_said_and_its_pages_are_shown_as_they_were(tmp_path):
    state = {"records": {"templates": "none"}, "grouping": {}}
    job = make_stored_job(tmp_path, [(product(1), "<p>1")], SiteState([template_entry("t1", "product")], state))
    with open_source(job, 0.0) as source:
        view = build(source, 100)
        assert f"What was learned of {SITE} is damaged" in "".join(source.gaps)
    assert [one["group"].template for one in view["templates"]] == ["t1"]
