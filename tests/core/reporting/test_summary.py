"""What a person is told when a crawl ended."""

from __future__ import annotations

from dataclasses import replace

import pytest
from rich.cells import cell_len

from llmcrawler.core.reporting import WIDTH, CrawlAccount, Ending, HostThrottle, WrittenFeed, read_figures, summary
from llmcrawler.core.reporting.text import percent
from llmcrawler.core.understanding.extraction import LearningOutcome
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
ENDING = Ending(
    "finished",
    6.0,
    {"the gap between requests": 3.0, "waiting for links to follow": 1.0, "the speed of this machine": 0.0},
)


def count(account: CrawlAccount, page: Page) -> None:
    account.count(page.as_line())


def product(n: int, decided_by: str, confidence: float) -> Page:
    return Page(
        f"http://shop.example/p/{n}", page_type="product", decided_by=decided_by, confidence=confidence, template="t1"
    )


def account() -> CrawlAccount:
    result = CrawlAccount()
    for n in range(3):
        count(result, product(n, "llm", 0.9))
    for n in range(6):
        count(result, product(n, "template", 0.96))
    count(result, Page("http://shop.example/", page_type="homepage", decided_by="structured-data", template="t1"))
    for n in range(2):
        count(result, Page(f"http://shop.example/slow/{n}", error=PageError("fetch", "timeout", "no answer in 30 s")))
    result.add_template(Template("t1", page_count=3))
    result.add_template(Template("t1", page_type="product", url_pattern="/p/{n}/", page_count=10))
    return result


def test_a_summary_tells_the_share_that_the_provider_had_in_its_cache() -> None:
    stats = STATS | {"llmcrawler/llm/provider_cached_tokens": 900}
    text = summary(read_figures(stats), account(), ENDING)
    assert "     2,100 tokens (2,000 in, 45% of it cached, 100 out), $0.0020\n" in text


def test_a_summary_tells_pages_types_templates_calls_and_errors() -> None:
    assert summary(read_figures(STATS), account(), ENDING).splitlines() == [
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


def test_what_sites_say_of_the_use_of_their_pages_is_one_line() -> None:
    marks = {"verdicts/forbidden": 4, "verdicts/unsaid": 8, "uses/ai-train: no": 4, "signals/rsl": 4}
    lines = summary(
        read_figures(STATS | {f"llmcrawler/rights/{one}": n for one, n in marks.items()}), CrawlAccount(), ENDING
    )
    assert "Use of the pages: ai-train: no 4; said by rsl 4; for the declared purpose unsaid 8, forbidden 4\n" in lines
    assert "Use of the pages" not in summary(read_figures(STATS), CrawlAccount(), ENDING)


def with_records() -> CrawlAccount:
    result = CrawlAccount()
    for n in range(4):
        record = {"title": f"Lamp {n}", "price": {"amount": 10.0, "unit": None}, "tags": [], "upc": None}
        count(result, replace(product(n, "llm", 0.9), record=record if n else None))
    return result


def test_the_last_lines_tell_of_the_result() -> None:
    stats = {
        **STATS,
        "llmcrawler/changes/new": 3,
        "llmcrawler/changes/gone": 1,
        "llmcrawler/changes/unchanged": 8,
        "llmcrawler/goal": "product",
        "llmcrawler/goal_records": 3,
        "llmcrawler/max_records": 100,
        "llmcrawler/page_types/product": 4,
    }
    feeds = [WrittenFeed("pages.csv", "csv", 515), WrittenFeed("s3://shop/pages.jsonl", "jsonl", 12, is_whole=False)]
    lines = summary(read_figures(stats), CrawlAccount(), replace(ENDING, feeds=feeds)).splitlines()
    assert lines[-6:] == [
        "10 pages and 2 failed urls in 6.0 s, 1.7 pages/s, 0 with errors",
        "Ended: max_pages=10 reached, 30 more urls known",
        "Since the last crawl: 3 new, 0 changed, 1 gone, 8 unchanged",
        "Goal product: 3 of 100 records, 4 of 10 pages",
        "Feed: pages.csv, 515 lines (csv)",
        "Feed: s3://shop/pages.jsonl, 12 lines (jsonl), NOT WHOLE: the log says why",
    ]


@pytest.mark.parametrize(
    ("stats", "why"),
    [
        ({}, "max_pages=10 reached, 30 more urls known"),
        ({"llmcrawler/max_records": 3, "llmcrawler/goal_records": 3}, "max_records=3 reached, 30 more urls known"),
        ({"llmcrawler/frontier/queued": 0}, "finished, no url is left"),
        ({"llmcrawler/map_end": "max_urls=5 listed"}, "max_urls=5 listed"),
    ],
)
def test_the_end_is_told_with_the_limit_that_was_reached(stats: dict[str, object], why: str) -> None:
    assert f"Ended: {why}" in summary(read_figures({**STATS, **stats}), CrawlAccount(), ENDING).splitlines()


def block_of(outcomes: list[LearningOutcome], width: int = WIDTH) -> list[str]:
    ending = replace(ENDING, outcomes=outcomes, record_types={"product"})
    text = summary(read_figures(STATS), with_records(), ending, width)
    return next(block for block in text.split("\n\n") if block.startswith("Records")).splitlines()


def test_records_tell_how_full_their_fields_are_and_why_others_were_not_learned() -> None:
    few = "no structured data, fewer than RECORD_MIN_PAGES=5 pages of its template"
    learned = frozenset({"title", "price.amount"})
    missing = {
        "upc": "pointed at on none of 7 samples",
        "ean": "pointed at on none of 7 samples",
        "tags": "no selector",
    }
    other = LearningOutcome("product", frozenset({"tags"}), {"title": "known of the other template"})
    small = LearningOutcome("product", frozenset(), {"title": few}, unserved=1, reason=few)
    assert block_of([LearningOutcome("product", learned, missing), other, small]) == [
        "Records  pages  records",
        "product      4        3",
        "    filled: title 100%, price.amount 100%, price.unit 0%, tags 0%",
        "    not learned: upc, ean (pointed at on none of 7 samples)",
        f"    without a record: 1 ({few})",
    ]


def test_a_share_is_rounded_down_since_a_hundred_percent_is_all() -> None:
    assert [percent(share) for share in (202 / 203, 1.0, 0.29, 1 / 3, 0.0)] == ["99%", "100%", "29%", "33%", "0%"]


def test_one_of_a_thing_is_no_plural() -> None:
    stats = {"llmcrawler/pages": 2, "llmcrawler/errors/fetch/http_404": 1, "llmcrawler/goal": "product"}
    stats |= {"llmcrawler/llm/calls": 1, "llmcrawler/llm/pages_shown": 1, "llmcrawler/goal_records": 1}
    stats |= {"llmcrawler/llm/cached_answers": 1, "llmcrawler/max_pages": 1, "llmcrawler/frontier/queued": 1}
    text = summary(read_figures(stats), CrawlAccount(), replace(ENDING, feeds=[WrittenFeed("a.csv", "csv", 1)]))
    for words in (
        "1 call, 1 page shown, 1 answer from",
        "1 page and 1 failed url in",
        "1 more url known",
        "1 record, ",
    ):
        assert words in text
    assert "a.csv, 1 line (csv)" in text


def test_a_page_type_that_should_have_records_and_has_none_says_so() -> None:
    result = CrawlAccount()
    count(result, product(1, "llm", 0.9))
    outcome = LearningOutcome("product", frozenset(), {"title": "budget: it is spent"}, 1, "budget: it is spent")
    ending = replace(ENDING, outcomes=[outcome], record_types={"product"})
    text = summary(read_figures(STATS), result, ending)
    assert "product      1        0\n    without a record: 1 (budget: it is spent)" in text


def test_of_many_hosts_the_busiest_are_named() -> None:
    hosts = [HostThrottle(f"host-{n}.example", 5, 0.2, in_flight=0, requests=n) for n in range(511)]
    text = summary(read_figures(STATS), CrawlAccount(), replace(ENDING, hosts=hosts))
    shown = [line.split()[0] for line in text.splitlines() if line.startswith("host-")]
    assert shown == [f"host-{n}.example" for n in range(510, 505, -1)]
    assert "... and 506 more" in text


@pytest.mark.parametrize("width", [60, 80, 100])
def test_nothing_is_wider_than_the_terminal_and_no_reason_is_cut(width: int) -> None:
    reason = " ".join(f"word-{n}" for n in range(100))
    result = account()
    count(result, Page(f"http://shop.example/{'x' * 300}", error=PageError("fetch", "dns", reason)))
    hosts = [HostThrottle("www.a-long-name-of-a-shop.example", 5, 0.2, 0, requests=9, latency_p50=0.1, latency_p95=0.2)]
    ending = replace(ENDING, hosts=hosts, reason="x" * 200)
    lines = summary(read_figures({**STATS, "llmcrawler/errors/fetch/dns": 1}), result, ending, width).splitlines()
    assert max(map(cell_len, lines)) <= width
    joined = " ".join(line.strip() for line in lines)
    assert reason in joined
    assert "x" * 300 in joined.replace(" ", "")


def test_a_budget_says_what_it_bought() -> None:
    budget = {"max_tokens": 2500, "max_cost_usd": 0.01, "tokens": 2450, "cost_usd": 0.0021, "reached": True}
    stats = {**STATS, "llmcrawler/decided_by/llm": 3, "llmcrawler/errors/classify/budget": 4}
    stats |= {f"llmcrawler/llm/budget_{name}": value for name, value in budget.items()}
    pages = account()
    pages.add_template(Template("t2", page_count=3, llm_calls=1))
    lines = summary(read_figures(stats), pages, ENDING).splitlines()
    at = lines.index("Budget: 2,450 of 2,500 tokens, $0.0021 of $0.01, reached")
    assert lines[at + 1 : at + 3] == [
        "     bought in this run: 2 calls, 3 pages judged by the model, 1 template learned",
        '     4 pages had to do without: an error of the kind "budget" says so',
    ]


def test_a_crawl_of_nothing_has_a_summary() -> None:
    text = summary(read_figures({}), CrawlAccount(), Ending("shutdown", 0.0, {}))
    assert text.splitlines() == [
        "Summary",
        "0 pages in 0.0 s, 0.0 pages/s, 0 with errors",
        "Ended: stopped by Ctrl-C or SIGTERM, 0 urls left in the queue; with -s JOBDIR=FOLDER the same",
        "    command would go on from here",
    ]
    text = summary(read_figures({}), CrawlAccount(), Ending("shutdown", 0.0, {}, goes_on_later=True))
    assert text.endswith("Ended: stopped by Ctrl-C or SIGTERM, 0 urls left in the queue")


def test_templates_of_a_crawl_that_was_cut_short_are_told_from_its_pages() -> None:
    pages = account()
    pages.templates.clear()
    assert "t1           10  product" in summary(read_figures(STATS), pages, ENDING)


def test_hostile_text_neither_breaks_the_columns_nor_reaches_the_terminal() -> None:
    hostile = "\x1b]52;c;cm0gLXJm\x07\n\u202eevil " + "日本語" * 200
    result = CrawlAccount()
    count(result, Page(f"http://x/{hostile}", page_type=hostile, decided_by=hostile, template=hostile, confidence=1.0))
    count(result, Page(f"http://x/{hostile}", error=PageError("fetch", "dns", hostile)))
    result.add_template(Template(hostile, page_type=hostile, url_pattern=hostile, page_count=10**9))
    stats = {**STATS, f"llmcrawler/errors/fetch/{hostile}": 1, f"llmcrawler/llm/calls/{hostile}": 1}
    text = summary(read_figures(stats), result, Ending(hostile, 1.0, {hostile: 1.0}))
    assert all(line.isprintable() and cell_len(line) <= WIDTH for line in text.split("\n"))


def test_many_kinds_are_cut_to_the_most_frequent() -> None:
    result = CrawlAccount()
    for n in range(3000):
        count(result, Page("http://x/", page_type=f"type{n}", decided_by="llm", template=f"t{n}"))
    text = summary(read_figures({}), result, ENDING)
    assert "... and 1,981 more" in text  # page types
    assert "... and 1,991 more" in text  # templates
    assert len(text.splitlines()) < 60
    assert len(result.groups) == 2001


def test_a_crawl_that_ends_before_max_pages_were_there_says_so() -> None:
    stats = {"llmcrawler/pages": 21, "llmcrawler/errors/fetch/http_404": 20, "llmcrawler/max_pages": 2}
    lines = summary(read_figures({**stats, "llmcrawler/frontier/queued": 5}), CrawlAccount(), ENDING)
    assert "too many urls failed (20) before max_pages=2 were there, 5 more urls known" in lines


def test_what_no_model_told_is_called_a_guess_and_missing_records_have_their_reason() -> None:
    guessed = CrawlAccount()
    count(guessed, product(1, "rule", 0.2))
    guessed.add_template(Template("t1", page_type="product", page_count=1))
    stats = {"llmcrawler/decided_by/rule": 1, "llmcrawler/llm/failure": "no network " * 12}
    lines = summary(read_figures(stats), guessed, ENDING).splitlines()
    assert "1 page type guessed: 1 by rules; no model was asked, or it did not answer" in lines
    at = next(number for number, line in enumerate(lines) if line.startswith("Records are what each page says"))
    assert " ".join(" ".join(lines[at : at + 3]).split()).count("no network") == 12  # whole, however long
    assert max(map(cell_len, lines)) <= WIDTH
    guessed.add_template(Template("t1", page_type="product", page_count=1, selectors=[{"field": "price"}]))
    assert "Records are what" not in summary(read_figures(stats), guessed, ENDING)
    assert "guessed" not in summary(read_figures(STATS), account(), ENDING)


def test_guesses_of_the_classifier_are_told_beside_those_of_rules() -> None:
    stats = {"llmcrawler/decided_by/rule": 4, "llmcrawler/decided_by/classifier": 1_036}
    alone = " ".join(summary(read_figures(stats), CrawlAccount(), ENDING).split())
    guessed = "1,040 page types guessed: 1,036 by the trained classifier, 4 by rules"
    assert f"{guessed}; no model was asked, or it did not answer" in alone
    judged = summary(read_figures({**stats, "llmcrawler/decided_by/llm": 3}), CrawlAccount(), ENDING)
    assert guessed in judged.splitlines()
