"""What a person is told when a crawl ended."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from rich.cells import cell_len

from llmcrawler.core.reporting.account import CrawlAccount, read_figures
from llmcrawler.core.reporting.progress import HostThrottle
from llmcrawler.core.reporting.summary import WIDTH, Ending, WrittenFeed, summary
from llmcrawler.core.understanding.extraction.learner import LearningOutcome
from llmcrawler.items import Page, PageError, Template

STATS = {
    "llmcrawler/pages": 12,
    "llmcrawler/max_pages": 10,
    "llmcrawler/frontier/queued": 30,
    "downloader/response_status_count/200": 10,
    "llmcrawler/errors/fetch/timeout": 2,
    "llmcrawler/llm/calls": 2,
    "llmcrawler/llm/calls/classify": 2,
    "llmcrawler/llm/pages_shown": 6,
    "llmcrawler/llm/prompt_tokens": 2000,
    "llmcrawler/llm/completion_tokens": 100,
    "llmcrawler/llm/cost_usd": 0.002,
    "llmcrawler/llm/cached_answers": 3,
}
LIMITS = {"the gap between requests": 3.0, "waiting for links to follow": 1.0, "the speed of this machine": 0.0}
ENDING = Ending("finished", 6.0, LIMITS)


def told(account=None, stats=STATS, width=WIDTH, **ending):
    return summary(read_figures(stats), account or CrawlAccount(), replace(ENDING, **ending), width)


def account_of(*pages, templates=()):
    account = CrawlAccount()
    for page in pages:
        account.count(page.as_line())
    for template in templates:
        account.add_template(template)
    return account


def product(n, decided_by="llm", confidence=0.9, record=None):
    url = f"http://shop.example/p/{n}"
    more = {"decided_by": decided_by, "confidence": confidence, "record": record}
    return Page(url, page_type="product", template="t1", **more)


def shop(*more, templates=()):
    pages = [product(n) for n in range(3)] + [product(n, "template", 0.96) for n in range(6)]
    home = Page("http://shop.example/", page_type="homepage", decided_by="structured-data", template="t1")
    slow = PageError("fetch", "timeout", "no answer in 30 s")
    failed = [Page(f"http://shop.example/slow/{n}", error=slow) for n in range(2)]
    learned = [
        Template("t1", page_count=3),
        Template("t1", page_type="product", url_pattern="/p/{n}/", page_count=10),
    ]
    return account_of(*pages, home, *failed, *more, templates=[*learned, *templates])


def test_a_summary_tells_pages_types_templates_calls_and_errors():
    assert told(shop()).splitlines() == [
        "Summary",
        "Answers by status: 200 10",
        "Held back by: the gap between requests 75% of the time, waiting for links to follow 25%",
        "",
        "Template  pages  page type  agreement  confidence  url pattern",
        "t1           10  product          90%        0.94  /p/{n}/",
        "",
        "LLM: 2 calls (classify 2), 6 pages shown, 3 answers from the cache",
        "     2,100 tokens (2,000 in, 100 out), $0.0020",
        "",
        "Error          pages",
        "fetch/timeout      2",
        "    http://shop.example/slow/0",
        "    no answer in 30 s",
        "",
        "Page type  pages  structured-data  template  llm",
        "product        9                          6    3",
        "homepage       1                1",
        "",
        "Records: none, as no page is of a type that has any",
        "",
        "10 pages and 2 failed urls in 6.0 s, 1.7 pages/s, 0 with errors",
        "Ended: max_pages=10 reached, 30 more urls known",
    ]
    cached = told(stats=STATS | {"llmcrawler/llm/provider_cached_tokens": 900})
    assert "     2,100 tokens (2,000 in, 45% of it cached, 100 out), $0.0020\n" in cached
    cut_short = shop()
    cut_short.templates.clear()
    assert "t1           10  product" in told(cut_short)


def test_what_sites_say_of_the_use_of_their_pages_is_one_line():
    marks = {"verdicts/forbidden": 4, "verdicts/unsaid": 8, "uses/ai-train: no": 4, "signals/rsl": 4}
    text = told(stats=STATS | {f"llmcrawler/rights/{one}": n for one, n in marks.items()})
    assert "Use of the pages: ai-train: no 4; said by rsl 4; for the declared purpose unsaid 8, forbidden 4\n" in text
    assert "Use of the pages" not in told()


def test_the_last_lines_tell_of_the_result():
    changes = {"new": 3, "gone": 1, "unchanged": 8}
    stats: Any = STATS | {f"llmcrawler/changes/{name}": n for name, n in changes.items()}
    stats |= {"llmcrawler/goal": "product", "llmcrawler/goal_records": 3, "llmcrawler/max_records": 100}
    feeds = [WrittenFeed("pages.csv", "csv", 515), WrittenFeed("s3://shop/pages.jsonl", "jsonl", 12, is_whole=False)]
    assert told(stats=stats | {"llmcrawler/page_types/product": 4}, feeds=feeds).splitlines()[-6:] == [
        "10 pages and 2 failed urls in 6.0 s, 1.7 pages/s, 0 with errors",
        "Ended: max_pages=10 reached, 30 more urls known",
        "Since the last crawl: 3 new, 0 changed, 1 gone, 8 unchanged",
        "Goal product: 3 of 100 records, 4 of 10 pages",
        "Feed: pages.csv, 515 lines (csv)",
        "Feed: s3://shop/pages.jsonl, 12 lines (jsonl), NOT WHOLE: the log says why",
    ]


FAILED = {"llmcrawler/pages": 21, "llmcrawler/errors/fetch/http_404": 20, "llmcrawler/max_pages": 2}


@pytest.mark.parametrize(
    ("stats", "why"),
    [
        ({}, "max_pages=10 reached, 30 more urls known"),
        ({"llmcrawler/max_records": 3, "llmcrawler/goal_records": 3}, "max_records=3 reached, 30 more urls known"),
        ({"llmcrawler/frontier/queued": 0}, "finished, no URL is left"),
        ({"llmcrawler/map_end": "max_urls=5 listed"}, "max_urls=5 listed"),
        (FAILED, "too many urls failed (22) before max_pages=2 were there, 30 more urls known"),
    ],
)
def test_the_end_is_told_with_the_limit_that_was_reached(stats, why):
    assert f"Ended: {why}" in told(stats={**STATS, **stats}).splitlines()


def test_records_tell_how_full_their_fields_are_and_why_others_were_not_learned():
    records = [None] + [
        {"title": f"Lamp {n}", "price": {"amount": 10.0, "unit": None}, "tags": [], "upc": None} for n in range(3)
    ]
    account = account_of(*(product(n, record=record) for n, record in enumerate(records)))
    few = "no structured data, fewer than RECORD_MIN_PAGES=5 pages of its template"
    missing = dict.fromkeys(("upc", "ean"), "pointed at on none of 7 samples") | {"tags": "no selector"}
    outcomes = [
        LearningOutcome("product", frozenset({"title", "price.amount"}), missing),
        LearningOutcome("product", frozenset({"tags"}), {"title": "known of the other template"}),
        LearningOutcome("product", frozenset(), {"title": few}, unserved=1, reason=few),
    ]
    blocks = told(account, outcomes=outcomes, record_types={"product"}).split("\n\n")
    assert next(block for block in blocks if block.startswith("Records")).splitlines() == [
        "Records  pages  records",
        "product      4        3",
        "    filled: title 100%, price.amount 100%, price.unit 0%, tags 0%",
        "    not learned: upc, ean (pointed at on none of 7 samples)",
        f"    without a record: 1 ({few})",
        "    title   price",
        '    Lamp 0  {"amount": 10.0, "unit": null}',
        '    Lamp 1  {"amount": 10.0, "unit": null}',
        '    Lamp 2  {"amount": 10.0, "unit": null}',
    ]


def test_the_fullest_records_are_shown_by_the_fields_that_most_records_have():
    records = [{"url": "https://a.example/1", "sku": None, "name": f"Lamp {n}", "price": 0.5 + n} for n in range(6)]
    records[0]["price"], records[5]["name"] = None, ""
    records[2]["name"] = "An elegant lamp for very large rooms"
    account = account_of(*(product(n, record=record) for n, record in enumerate(records)))
    for width in (100, 40):
        *_, heads, first, second, third = (
            told(account, record_types={"product"}, width=width).split("\n\n")[-2].split("\n")
        )
        assert heads.split() == ["name", "price"]
        assert first.split() == ["Lamp", "1", "1.5"]
        assert third.split() == ["Lamp", "3", "3.5"]
        assert ("An elegant lamp for very large…" if width == 100 else "An elegant…") in second
        assert max(map(cell_len, (heads, first, second, third))) <= width


def test_fields_of_one_value_are_named():
    records = [{"title": f"Lamp {n}", "category": "Clothing", "badge": "New" if n < 3 else None} for n in range(6)]
    account = account_of(*(product(n, record=record) for n, record in enumerate(records)))
    assert "    the same on all pages of a template: category\n" in told(account, record_types={"product"})


def test_of_many_hosts_the_busiest_are_named():
    text = told(hosts=[HostThrottle(f"host-{n}.example", 5, 0.2, in_flight=0, requests=n) for n in range(511)])
    shown = [line.split()[0] for line in text.splitlines() if line.startswith("host-")]
    assert shown == [f"host-{n}.example" for n in range(510, 505, -1)]
    assert "... and 506 more" in text


@pytest.mark.parametrize("width", [60, 80, 100])
def test_nothing_is_wider_than_the_terminal_and_no_reason_is_cut(width):
    reason = " ".join(f"word-{n}" for n in range(100))
    account = shop(Page(f"http://shop.example/{'x' * 300}", error=PageError("fetch", "dns", reason)))
    hosts = [HostThrottle("www.a-long-name-of-a-shop.example", 5, 0.2, 0, requests=9, latency_p50=0.1, latency_p95=0.2)]
    text = told(account, STATS | {"llmcrawler/errors/fetch/dns": 1}, width, hosts=hosts, reason="x" * 200)
    assert max(map(cell_len, text.splitlines())) <= width
    joined = " ".join(line.strip() for line in text.splitlines())
    assert reason in joined
    assert "x" * 300 in joined.replace(" ", "")


def test_a_budget_says_what_it_bought():
    budget = {"max_tokens": 2500, "max_cost_usd": 0.01, "tokens": 2450, "cost_usd": 0.0021, "reached": True}
    stats = STATS | {"llmcrawler/decided_by/llm": 3, "llmcrawler/errors/classify/budget": 4}
    stats |= {f"llmcrawler/llm/budget_{name}": value for name, value in budget.items()}
    lines = told(shop(templates=[Template("t2", page_count=3, llm_calls=1)]), stats).splitlines()
    at = lines.index("Budget: 2,450 of 2,500 tokens, $0.0021 of $0.01, reached")
    assert lines[at + 1 : at + 3] == [
        "     bought in this run: 2 calls, 3 pages judged by the model, 1 template learned",
        '     4 pages had to do without the model: their error has the kind "budget"',
    ]


def test_a_crawl_of_nothing_has_a_summary():
    text = told(stats={}, reason="shutdown", elapsed_seconds=0.0, limit_seconds={})
    assert text.splitlines() == [
        "Summary",
        "0 pages in 0.0 s, 0.0 pages/s, 0 with errors",
        "Ended: stopped by Ctrl-C or SIGTERM, 0 urls left in the queue; with -s JOBDIR=FOLDER the same",
        "    command would go on from here",
    ]
    text = told(stats={}, reason="shutdown", goes_on_later=True)
    assert text.endswith("Ended: stopped by Ctrl-C or SIGTERM, 0 urls left in the queue")


def test_hostile_text_neither_breaks_the_columns_nor_reaches_the_terminal():
    hostile = "\x1b]52;c;cm0gLXJm\x07\n\u202eevil " + "日本語" * 200
    named: Any = dict.fromkeys(("page_type", "decided_by", "template"), hostile)
    pages = Page(f"http://x/{hostile}", **named), Page(f"http://x/{hostile}", error=PageError("fetch", "dns", hostile))
    template = Template(hostile, page_type=hostile, url_pattern=hostile, page_count=10**9)
    stats = STATS | {f"llmcrawler/errors/fetch/{hostile}": 1, f"llmcrawler/llm/calls/{hostile}": 1}
    text = told(account_of(*pages, templates=[template]), stats, reason=hostile, limit_seconds={hostile: 1.0})
    assert all(line.isprintable() and cell_len(line) <= WIDTH for line in text.split("\n"))


def test_many_kinds_are_cut_to_the_most_frequent():
    pages = (Page("http://x/", page_type=f"type{n}", decided_by="llm", template=f"t{n}") for n in range(3000))
    account = account_of(*pages)
    text = told(account, {})
    assert "... and 1,981 more" in text  # page types
    assert "... and 1,991 more" in text  # templates
    assert len(text.splitlines()) < 60
    assert len(account.groups) == 2001


def test_what_no_model_told_is_called_a_guess_and_missing_records_have_their_reason():
    template = Template("t1", page_type="product", page_count=1)
    guessed = account_of(product(1, "rule", 0.2), templates=[template])
    stats = {"llmcrawler/decided_by/rule": 1, "llmcrawler/llm/failure": "no network " * 12}
    lines = told(guessed, stats).splitlines()
    assert "1 page type guessed: 1 by rules; no model was asked, or it did not answer" in lines
    at = next(number for number, line in enumerate(lines) if line.startswith("Records come from single pages"))
    assert " ".join(" ".join(lines[at : at + 3]).split()).count("no network") == 12  # whole, however long
    assert max(map(cell_len, lines)) <= WIDTH
    guessed.add_template(replace(template, selectors=[{"field": "price"}]))
    assert "Records come from" not in told(guessed, stats)
    assert "guessed" not in told(shop())


def test_a_resumed_run_says_what_is_of_the_run_and_what_of_the_job():
    stats = {**STATS, "llmcrawler/lines": 130, "llmcrawler/lines_failed": 4}
    assert "which has 130 lines, 4 with errors" in " ".join(told(stats=stats, is_resumed=True).split())
    assert "of the whole job" not in told(stats=stats)


def test_what_was_not_fetched_is_named():
    stats = {"llmcrawler/file_links/.pdf": 12, "llmcrawler/file_links/.json": 1, "llmcrawler/unpressed_pages": 2}
    text = told(stats={**STATS, **stats})
    assert "Links to files, not fetched: .pdf 12, .json 1" in text
    assert "2 pages with a button that loads more of a list, which was not pressed" in text
    assert "RENDER_SCROLLS=20" in text
