"""The data behind a report, and that strangers' text stays text in it."""

from __future__ import annotations

import asyncio
import gzip
import json
import re
from typing import Any

import pytest
from lxml.html import document_fromstring

from llmcrawler.core.reporting.account import FAILED, UNKNOWN, lasting_stats
from llmcrawler.core.reporting.html.digest import Digest
from llmcrawler.core.reporting.html.render import embedded_json, render, web_link
from llmcrawler.core.reporting.html.sources import open_lines, open_source
from llmcrawler.core.reporting.html.view import (
    build,
    by_type,
    costs_of,
    depth_table,
    template_names,
    template_views,
)
from llmcrawler.core.reporting.timeline import Timeline, chart_data, pace_of
from llmcrawler.core.storage import SiteState, TemplatesFile
from llmcrawler.core.storage.job_file import JOB_FILE, Run, open_job_file, write_run
from llmcrawler.errors import ConfigError
from tests.crawl.jobs import make_job

HOSTILE = "</script><img src=x onerror=alert(1)> {{ 7*7 }} \u202e\ud800 <!--"


def page(path="/", page_type="product", **more):
    url = f"https://a.example{path}"
    return {"kind": "page", "url": url, "page_type": page_type, "depth": 1, "error": None, **more}


LINES = [
    page("/p/1/", template="t1", record={"name": "Lamp", "price": "1.00"}, decided_by="llm", latency_seconds=0.5),
    page("/p/2/", template="t1", record={"name": "Desk", "price": None}, decided_by="template"),
    page("/list/", "listing", template="t2", depth=0, change="new", title="All"),
    page("/gone/", None, error={"stage": "fetch", "kind": "http_404", "message": "404 Not Found", "attempts": 1}),
]
TEMPLATE = {
    "kind": "template",
    "template": "t1",
    "url_pattern": "/p/*/",
    "examples": ["https://a.example/p/1/"],
    "llm_calls": 2,
    "selectors": [
        {"field": "name", "type": "string", "css": "h1", "coverage": 1.0, "agreement": 0.9},
        {"field": "name", "xpath": "//h1", "coverage": 0.8},
    ],
    "schema": {"type": "object"},
}
_OF_TASKS = {"classify": (1, 900, 100, 0.001), "induce": (2, 4000, 1000, 0.01)}
STATS = {
    "llmcrawler/pages": 4,
    "llmcrawler/changes/new": 1,
    **{
        f"llmcrawler/llm/{name}/{task}": value
        for task, values in _OF_TASKS.items()
        for name, value in zip(("calls", "prompt_tokens", "completion_tokens", "cost_usd"), values, strict=True)
    },
}


def digest(*lines, max_listed=100):
    found = Digest(max_listed)
    for line in lines:
        found.add(line)
    return found


def run_of(stats, number=1, **settings):
    return Run(number, 100.0, 110.0, "finished", {"stats": stats, "settings": settings}, Timeline().as_json())


def job_of(tmp_path, *runs):
    folder = asyncio.run(make_job(tmp_path / "job"))
    connection = open_job_file(folder / JOB_FILE)
    for run in runs:
        write_run(connection, run)
    connection.close()
    return folder


def feed(tmp_path, lines, name="feed.jsonl"):
    path = tmp_path / name
    text = "".join(json.dumps(line) + "\n" for line in lines)
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return path


def report_of(path, max_listed=100):
    with open_source(path, 0.0) as source:
        view = build(source, max_listed)
    return view, render(view, "1.0", 0.0).decode()


def view_of_template(runs, entry):
    found, learned = digest(*LINES), {("a.example", "t1"): entry}
    (view, _list) = template_views(found, learned, template_names(found, learned), costs_of(runs))
    return view


def test_pages_are_counted_by_type_template_and_depth():
    found = digest(*LINES)
    assert found.in_words == "3 pages and 1 failed url"
    assert depth_table(found, ["product", "listing", FAILED]) == [(0, [0, 1, 0], 1), (1, [2, 0, 1], 3)]
    boxes = by_type(found, template_names(found, {("a.example", "t1"): TEMPLATE}))
    assert [(box["name"], box["value"]) for box in boxes] == [("product", 2), (FAILED, 1), ("listing", 1)]
    place = {"type": "product", "template": "t1", "site": "a.example"}
    assert boxes[0]["children"][0] == {"name": "/p/*/", "value": 2, **place}
    ((kind, one),) = found.errors.items()
    assert (kind, one.examples) == (("fetch", "http_404"), [("https://a.example/gone/", "404 Not Found")])
    assert found.changed == {"new": [("https://a.example/list/", "All")]}


def test_fields_have_what_was_learned_beside_what_the_pages_gave():
    view = view_of_template([run_of(STATS)], TEMPLATE)
    fields = [tuple(one[name] for name in ("name", "type", "filled", "example")) for one in view["fields"]]
    assert fields == [("name", "string", 2, "Lamp"), ("price", "", 1, "1.00")]
    selectors = [(one["language"], one["text"], one["coverage"]) for one in view["fields"][0]["selectors"]]
    assert selectors == [("css", "h1", 1.0), ("xpath", "//h1", 0.8)]
    assert view["tokens"] == 6000  # the one page that was judged, and both calls for learning


def test_the_findings_name_pages_and_failed_urls_so_that_they_add_up(tmp_path):
    untyped = page("/x/", None)
    view, html = report_of(feed(tmp_path, [*LINES, untyped]))
    assert view["findings"][:2] == [
        "4 pages and 1 failed url; 2 templates; 2 page types: product 2, listing 1, without a type 1.",
        "20% of the urls failed, most often with fetch/http_404: 1 of 1.",
    ]
    assert "<dt>pages</dt><dd>4</dd>" in html
    assert "<dt>records</dt><dd>2</dd>" in html
    assert view["types"][-2:] == [(FAILED, 1), (UNKNOWN, 1)]


def test_costs_are_summed_over_runs_and_an_unknown_price_is_not_nothing():
    known = costs_of([run_of(STATS), run_of(STATS, 2), run_of({}, 3)])
    assert (known["calls"], known["tokens"]) == (6, 12_000)
    assert known["cost_usd"] == pytest.approx(0.022)
    unknown = costs_of([run_of({key: value for key, value in STATS.items() if "cost" not in key})])
    assert unknown["cost_usd"] is None
    assert (costs_of([])["calls"], costs_of([])["cost_usd"]) == (0, 0)
    sums = {"llmcrawler/llm/prompt_tokens": 4900, "llmcrawler/llm/provider_cached_tokens": 980}
    assert costs_of([run_of(STATS | sums)])["provider_cached_share"] == pytest.approx(0.2)
    assert costs_of([])["provider_cached_share"] == 0


def test_pace_names_the_limit_that_held_most():
    timeline = Timeline()
    for second in range(10):
        bucket = timeline.at(second)
        bucket.answers += 4
        bucket.pages += 4
        bucket.latencies[40] += 4
        bucket.latency_sum += 2.0
        bucket.samples, bucket.in_flight_sum, bucket.allowed_sum = 1, 2.0, 5.0
        bucket.hold("the gap between requests" if second else "waiting for links to follow", 1.0)
    pace = pace_of(timeline, 10.0)
    assert pace.words == "4.00 answers/s × 0.50 s on average = 2.0 requests in flight; 5.0 were allowed"
    assert pace.bound == "90% of the time it was limited by the gap between requests"
    data = chart_data(timeline, 100.0, 10.0, is_whole=True)
    assert data["columns"]["pages"] == [4.0] * 10
    few = chart_data(timeline.coarse(4), 100.0, 10.0, is_whole=True)
    assert few["columns"]["at"] == [0, 4, 8]
    assert few["columns"]["pages"] == [4.0] * 3
    assert len(timeline.buckets) == 10
    empty = pace_of(Timeline(), 0.0)
    assert (empty.words, empty.bound, empty.urls_per_second) == ("", "", 0.0)


def test_a_map_has_no_report(tmp_path):
    urls = [{"kind": "url", "url": f"https://a.example/p/{n}/", "depth": 1, "error": None} for n in range(8)]
    with pytest.raises(ConfigError, match="there is no page in it"):
        report_of(feed(tmp_path, urls))


def test_the_list_is_bounded_and_the_figures_are_not(tmp_path):
    view, html = report_of(feed(tmp_path, LINES), max_listed=2)
    assert len(view["data"]["pages"]["columns"]["path"]) == 2
    assert view["data"]["total"] == 4
    assert "The list has the first 2 pages; 2 more are in the figures above" in html


def test_groups_beyond_a_bound_are_counted_together():
    found = digest(*(page(f"/{n}/", template=f"t{n}") for n in range(2_100)), max_listed=0)
    assert len(found.groups) == 2_001
    assert found.groups["", "…"].pages == 100


@pytest.mark.parametrize("name", ["feed.jsonl", "feed.jsonl.gz"])
def test_a_feed_says_what_it_cannot_know(tmp_path, name):
    view, html = report_of(feed(tmp_path, [*LINES, TEMPLATE], name))
    assert "This report is made of a feed" in html
    assert "With -s JOBDIR=FOLDER a crawl keeps these" in html
    assert [one["name"] for one in view["templates"]] == ["/p/*/", "t2 /list/"]
    assert view["data"]["timeline"]["columns"].keys() == {"at", "pages", "errors", "p50", "p95"}
    cut = feed(tmp_path, LINES)
    cut.write_text(cut.read_text() + '{"kind": "page", "url": "https://a.exam')
    assert report_of(cut)[0]["digest"].pages == 4


def test_the_feeds_of_workers_who_shared_a_crawl_are_one_with_each_url_once(tmp_path):
    whole, _html = report_of(feed(tmp_path, [*LINES, TEMPLATE]))
    first = feed(tmp_path, LINES[:2], "pages-w1.jsonl")
    first.write_text(first.read_text() + '{"kind": "page", "url": "https://a.exam')  # its worker was killed
    feed(tmp_path, [*LINES[1:], TEMPLATE], "pages-w2.jsonl")
    feed(tmp_path, [], "pages-w3.jsonl").write_text("{")
    view, html = report_of(tmp_path / "pages-*.jsonl")
    assert view["digest"].pages == whole["digest"].pages == len(LINES)
    assert len(view["templates"]) == len(whole["templates"]) > 0
    assert "pages-*.jsonl" in html
    with open_lines(tmp_path / "pages-*.jsonl") as lines:
        assert len(list(lines)) == len(LINES)
    with pytest.raises(ConfigError, match="no such folder or file"):
        report_of(tmp_path / "none-*.jsonl")
    for name in ("empty-1.jsonl", "empty-2.jsonl"):
        feed(tmp_path, [], name)
    with pytest.raises(ConfigError, match="no page in them"):
        report_of(tmp_path / "empty-*.jsonl")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("not json\n", "line 1 is not JSON"),
        ("[1]\n", "line 1 is not a line of a feed"),
        ("", "there is no page in it"),
        ('{"a": 1}\n', "there is no page in it"),
    ],
)
def test_what_is_no_feed_is_refused(tmp_path, text, reason):
    path = tmp_path / "feed.jsonl"
    path.write_text(text)
    with pytest.raises(ConfigError, match=reason):
        report_of(path)
    packed = feed(tmp_path, LINES, "feed.jsonl.gz")
    packed.write_bytes(packed.read_bytes()[:-20])
    with pytest.raises(ConfigError, match="is damaged"):
        report_of(packed)


def test_a_job_is_shown_with_its_runs_and_what_was_learned(tmp_path):
    folder = job_of(tmp_path, run_of({"llmcrawler/pages": 5}), run_of(STATS, 2))
    TemplatesFile(folder / "templates.json").save({"a.example": SiteState([TEMPLATE], {})})
    view, html = report_of(folder)
    assert view["digest"].pages == 7
    runs = [(one["run"].number, one["delta_pages"], one["changes"]["new"]) for one in view["runs"]]
    assert runs == [(2, -1, 1), (1, None, 0)]
    assert "$0.0110" in html
    assert "This report is made of a feed" not in html


def test_what_was_learned_is_read_where_the_last_run_kept_it(tmp_path):
    folder = job_of(tmp_path, run_of({}, TEMPLATES_FILE=str(tmp_path / "shop.json")))
    TemplatesFile(tmp_path / "shop.json").save({"a.example": SiteState([TEMPLATE], {})})
    with open_source(folder, 0.0) as source:
        assert [one["template"] for one in source.learned.templates] == ["t1"]
        assert source.gaps == []
    (tmp_path / "shop.json").write_text("no json")
    with open_source(folder, 0.0) as source:
        assert "TEMPLATES_FILE=" in source.gaps[0]


def test_what_is_kept_of_the_stats_can_be_written_and_has_no_proxies():
    stats = {
        **STATS,
        "llmcrawler/politeness/proxies/accounts": {"http://user:password@proxy": 1},
        "llmcrawler/politeness/proxies/alive": 3,
        "llmcrawler/map_end": "a text",
        "start_time": object(),
        "downloader/response_status_count/200": 5,
    }
    assert lasting_stats(stats) == {**STATS, "downloader/response_status_count/200": 5}


def test_a_job_without_runs_or_templates_says_so(tmp_path):
    _view, html = report_of(job_of(tmp_path))
    assert "has not written its history yet" in html
    assert "No file of learned templates" in html
    with pytest.raises(ConfigError, match="no such file"):
        report_of(tmp_path)


def said(path, *signals, conflicts=(), **more):
    """A page of whose use something is said, each signal as (name, where, value)."""
    found = [{"name": one, "where": where, "value": value, "uses": {"tdm": "no"}} for one, where, value in signals]
    rights = {"uses": {"tdm": "no"}, "verdict": None, "signals": found, "conflicts": [*conflicts]}
    return page(path, rights=rights, **more)


def test_what_sites_say_of_use_is_counted(tmp_path):
    where = "https://a.example/robots.txt"
    lines = [
        said("/1", ("content-signal", where, "tdm=no"), ("tdmrep", "header", "1"), conflicts=["tdm: no, yes"]),
        said("/2", ("content-signal", where, "tdm=no"), ("content-signal", where, "tdm=no"), robots=["noindex"]),
        said("/5", ("rsl", "link", "free")) | {"url": "https://b.example/5"},
    ]
    view, html = report_of(feed(tmp_path, lines))
    assert view["rights"] == [
        ("tdm: no", "3"),
        ("said by content-signal", "2"),
        ("said by rsl", "1"),
        ("said by tdmrep", "1"),
        ("signals in conflict", "1"),
        ("noindex", "1"),
    ]
    assert "tdm: no 3; said by content-signal 2, rsl 1, tdmrep 1; signals in conflict 1" in html


def test_no_text_of_a_page_becomes_markup_or_a_link_that_runs(tmp_path):
    names: Any = dict.fromkeys(("title", "template", "change", "decided_by"), HOSTILE)
    signal = dict.fromkeys(("name", "where", "value"), HOSTILE) | {"uses": {HOSTILE: HOSTILE}}
    rights = {"uses": {HOSTILE: HOSTILE}, "verdict": HOSTILE, "signals": [signal], "conflicts": [HOSTILE]}
    error = dict.fromkeys(("stage", "kind", "message"), HOSTILE)
    more = {"record": {HOSTILE: HOSTILE}, "error": error, "robots": [HOSTILE], "rights": rights}
    hostile = page(f"/{HOSTILE}", HOSTILE, **names, **more)
    odd = {"error": {"kind": []}, "robots": [[]], "rights": {"signals": [{"name": []}]}}
    lines = [
        hostile,
        page(title="x", latency_seconds=float("nan")) | {"url": "javascript:alert(1)//"},
        {"kind": "page", "url": "http://[", **odd},
        TEMPLATE | dict.fromkeys(("template", "url_pattern"), HOSTILE) | {"examples": [hostile["url"]]},
    ]
    lines[-1]["schema"] = {"x": HOSTILE}
    _view, html = report_of(feed(tmp_path, lines))
    tree: Any = document_fromstring(html)
    assert (len(tree.findall(".//img")), len(tree.findall(".//script"))) == (0, 5)
    assert not tree.xpath("//@*[starts-with(name(), 'on')]")
    assert all(link.startswith(("https://a.example/", "#")) for link in tree.xpath("//@href"))
    assert "49" not in re.sub(r"<(script|style)>.*?</\1>", "", html, flags=re.DOTALL)
    data = json.loads(re.search(r'id="data">(.*?)</script>', html)[1])
    assert data["pages"]["columns"]["title"][0].startswith("</script><img")
    text = "".join(tree.xpath("//text()[not(parent::script)]"))
    assert "<img src=x" in text
    assert "\u202e" not in text


def test_the_page_runs_its_own_scripts_only_and_fetches_nothing(tmp_path):
    _view, html = report_of(feed(tmp_path, LINES))
    markup = re.sub(r"<script>.*?</script>", "", html, flags=re.DOTALL)
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]+)"', markup)
    assert policy.startswith("default-src &#39;none&#39;; script-src &#39;sha256-")
    assert not re.search(r"<(?:link|img|iframe)\b|\bsrc=|@import|url\(", markup)


@pytest.mark.parametrize(
    ("url", "link"),
    [
        ("https://a.example/?a=1", "https://a.example/?a=1"),
        ("http://a.example", "http://a.example"),
        ("javascript:alert(1)", ""),
        ("data:text/html,x", ""),
        ("//a.example/", ""),
        ("http://[", ""),
        (None, ""),
    ],
)
def test_only_urls_of_the_web_are_links(url, link):
    assert web_link(url) == link


def test_embedded_json_cannot_end_its_script():
    value = {"a": "</script><!--&\u2028", "b": [1, None]}
    text = str(embedded_json(value))
    assert not set("<>&\u2028") & set(text)
    assert json.loads(text) == value
