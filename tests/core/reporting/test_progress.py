"""What a person is told while a crawl runs."""

from __future__ import annotations

import io
from collections import Counter
from dataclasses import replace

import pytest
from rich.console import Console

from llmcrawler.core.reporting.display import fitted, panel
from llmcrawler.core.reporting.progress import CrawlProgress, DownloadFlow, HostThrottle, ModelWait, binding_limit
from llmcrawler.core.reporting.text import duration
from llmcrawler.core.reporting.timeline import Timeline
from tests.virtual_time import Clock

STATS = {
    "llmcrawler/pages": 100,
    "llmcrawler/max_pages": 500,
    "llmcrawler/frontier/queued": 1000,
    "llmcrawler/frontier/leased": 8,
    "downloader/request_count": 112,
    "downloader/response_status_count/200": 96,
    "downloader/response_status_count/404": 4,
    "llmcrawler/templates": 7,
    "llmcrawler/page_types/product": 80,
    "llmcrawler/page_types/listing": 16,
    "llmcrawler/decided_by/classifier": 9,
    "llmcrawler/decided_by/rule": 3,
    "llmcrawler/errors/fetch/http_404": 4,
    "llmcrawler/llm/calls": 3,
    "llmcrawler/llm/calls/classify": 3,
    "llmcrawler/llm/pages_shown": 24,
    "llmcrawler/llm/prompt_tokens": 9000,
    "llmcrawler/llm/completion_tokens": 500,
    "llmcrawler/llm/faults/timeout": 1,
    "start_time": "a value of another kind",
}
FLOW = DownloadFlow([HostThrottle("shop.example", 5, 0.2, in_flight=5, waiting=2)], 32)


class Sampled(CrawlProgress):
    """Progress by a clock of its own."""

    def __init__(self, **options):
        self.time = Clock()
        super().__init__(self.time, **options)

    def after(self, seconds, stats=STATS, flow=FLOW, latency=None, waiting=None):
        self.time.now += seconds
        return self.sample(stats, flow, latency, waiting)


def test_the_log_line_tells_it_all():
    assert Sampled().after(25, latency=1.1).as_line() == (
        "96 pages (max_pages 500) in 25 s, 4 failed urls, 3.8/s (3.8/s overall) | 1,000 queued, 5 in flight"
        " | about 1 min 45 s left"
        " | limit: requests in flight per host: 4.4/s x 1.10 s = 4.8 of 5"
        " | throttle: latency 1.10 s, shop.example 5 of 5 in flight, gap 0.20 s"
        " | status: 200 96, 404 4 | templates: 7 | types: product 80, listing 16, 12 of them guessed"
        " | llm: 3 calls, 24 pages, 9,500 tokens, cost unknown, faults timeout 1 | errors: fetch/http_404 4"
    )
    assert "$0.0123" in Sampled().after(0, {**STATS, "llmcrawler/llm/cost_usd": 0.01234}).as_line()


def test_a_crawl_without_figures_yet_has_a_line_too():
    assert Sampled().after(0, {}, DownloadFlow()).as_line() == (
        "0 pages in 0.0 s, 0.0/s (0.0/s overall) | 0 queued, 0 in flight "
        "| limit: waiting for links to follow: none is left to fetch"
    )


def test_the_rate_of_now_forgets_what_is_older_than_its_window():
    progress = Sampled(window_seconds=10)
    for second in range(100):
        pages = 10 * min(second + 1, 50)  # 10 a second, then nothing more
        report = progress.after(1, {"llmcrawler/pages": pages})
        if second == 49:
            assert report.rate_now == pytest.approx(10)
    assert report.rate_now == 0
    assert report.rate_overall == pytest.approx(5)


def test_many_samples_a_second_keep_the_window_small():
    progress = Sampled(window_seconds=10)
    for _ in range(500):
        progress.after(0.25)
    assert len(progress._samples) <= 13


LEARNING = {
    "llmcrawler/pages": 29,
    "llmcrawler/errors/fetch/http_404": 6,
    "llmcrawler/max_pages": 100,
    "llmcrawler/frontier/queued": 140,
    "llmcrawler/goal": "product",
}


def learning(pages):
    return ModelWait(pages - 2, 2, 1, 3, 2.0, by_type=Counter(product=pages - 1))


def test_pages_that_were_fetched_and_wait_for_the_model_count_as_progress():
    progress, bars, lefts = Sampled(), [], []
    for waiting in (11, 31, 51):
        stats = {**LEARNING, "llmcrawler/frontier/leased": waiting + 1}
        report = progress.after(10, stats, latency=0.1, waiting=learning(waiting))
        bars.append((report.fetched, report.pages_left))
        lefts.append(report.seconds_left)
    assert bars == [(34, 66), (54, 46), (74, 26)]
    assert lefts == sorted(lefts, reverse=True)
    line = report.as_line()
    assert "74 fetched (max_pages 100) in 30 s, 23 written, 6 failed urls, 2.5/s (2.5/s overall)" in line
    assert "waiting: 49 pages wait for the model: 1 of 3 calls, about 4.0 s" in line
    assert "goal: learning product: 50 pages wait" in line
    assert "about 11 s left" in line
    # They wait no longer, and are not written yet: the bar does not go back.
    assert progress.after(0, LEARNING).fetched == 74


def test_a_crawl_that_has_fetched_all_has_the_time_left_that_the_model_takes():
    stats = {**LEARNING, "llmcrawler/max_pages": 74, "llmcrawler/frontier/leased": 51}
    progress = Sampled()
    report = progress.after(10, stats, latency=0.1, waiting=learning(51))
    assert (report.fetched, report.pages_left, report.seconds_left) == (74, 0, 4.0)
    del stats["llmcrawler/max_pages"]
    report = progress.after(0, {**stats, "llmcrawler/frontier/queued": 0}, latency=0.1, waiting=learning(51))
    assert report.pages_left == 0  # the bar stays, and is full


@pytest.mark.parametrize(
    ("most", "in_flight", "backing_out", "is_said"),
    [(74, 0, False, True), (74, 1, False, False), (100, 0, False, False), (100, 0, True, True)],
)
def test_a_crawl_that_waits_for_the_model_alone_says_how_to_go_on_without_it(most, in_flight, backing_out, is_said):
    stats = {**LEARNING, "llmcrawler/max_pages": most, "llmcrawler/frontier/leased": 51}
    flow = DownloadFlow([HostThrottle("shop.example", 5, 0.2, in_flight)], 32, backing_out)
    report = Sampled().after(10, stats, flow, latency=0.1, waiting=learning(51))
    assert report.waits_for_model == is_said
    assert ("-s LLM_PROVIDER=none" in report.as_line()) == is_said


@pytest.mark.parametrize(
    ("stats", "waiting", "words"),
    [
        ({}, 0, "product: no page of it yet"),
        ({}, 1, "learning product: 1 page waits"),
        ({"max_records": 9}, 4, "learning product: 4 pages wait, 0 of 9 records"),
        ({"goal_records": 1, "page_types/product": 1}, 4, "product: 1 record, 1 of 23 pages, 4 more wait"),
    ],
)
def test_the_goal_says_what_its_pages_wait_for(stats, waiting, words):
    wait = ModelWait(for_model=waiting + 1, by_type=Counter(product=waiting, other=1))
    stats = LEARNING | {f"llmcrawler/{name}": value for name, value in stats.items()}
    assert f" | goal: {words}" in Sampled().after(0, stats, waiting=wait).as_line()


def test_a_crawl_that_may_find_more_urls_takes_at_least_so_long():
    report = Sampled().after(10, {**STATS, "llmcrawler/frontier/queued": 40, "llmcrawler/frontier/leased": 10})
    assert report.pages_left == 50
    assert "at least 5.2 s left" in report.as_line()


def test_the_time_is_shared_out_among_the_limits_that_held_the_crawl_back():
    progress, timeline = Sampled(), Timeline()
    for seconds, flow in ((25, FLOW), (5, replace(FLOW, backing_out=True))):
        timeline.add_sample(progress.after(seconds, flow=flow, latency=1.1), seconds)
    assert timeline.total().limits == {"requests in flight per host": 25, "pages in process": 5}


def drawn_on(report, columns, lines, title="llmcrawler explore"):
    file = io.StringIO()
    drawing = panel(report, title, columns, lines)
    Console(file=file, width=columns, height=lines, force_terminal=False).print(drawing)
    return file.getvalue()


def busy_report():
    stats = {
        **STATS,
        **{f"llmcrawler/page_types/a-page-type-{n}": 10 - n for n in range(8)},
        **{f"llmcrawler/errors/fetch/http_{n}": 1 for n in range(500, 508)},
        "llmcrawler/goal": "product",
        "llmcrawler/goal_records": 46,
        "llmcrawler/max_records": 200,
        "llmcrawler/page_records/product": 46,
        "llmcrawler/page_records/article": 1,
        "llmcrawler/page_types/article": 3,
        "llmcrawler/llm/cached_answers": 12,
    }
    hosts = [HostThrottle(f"host-{n}.example", 5, 0.2, 5, 2, latency_p50=0.1, latency_p95=0.2) for n in range(5)]
    return Sampled().after(25, stats, DownloadFlow(hosts, 32), 1.1)


@pytest.mark.parametrize(("columns", "lines"), [(80, 24), (120, 40), (60, 12)])
def test_a_panel_fits_its_terminal_with_whole_names(columns, lines):
    drawn = drawn_on(busy_report(), columns, lines).splitlines()
    assert {len(line) for line in drawn} == {columns}
    assert len(drawn) < lines
    names = [name for name, _ in busy_report().as_rows()]
    shown = [line[2:].split()[0] for line in drawn[2:-1]]
    assert shown == names[: len(shown)]
    assert len(shown) == min(len(names), lines - 5)
    parts = [line.rstrip("│ ").rpartition(", ")[2] for line in drawn[2:-1]]
    assert columns < 80 or all("…" not in last or last == "…" for last in parts)  # none is cut in its middle
    if columns >= 80:
        assert "goal       product: 46 of 200 records, 80 of 88 pages" in "\n".join(drawn)
        assert "records    product 46 of 80 pages, article 1 of 3 pages" in "\n".join(drawn)


@pytest.mark.parametrize(
    ("width", "shown"),
    [
        (40, "first, second, third"),
        (20, "first, second, third"),
        (19, "first, second, …"),
        (15, "first, …"),
        (7, "first"),
        (4, "fir…"),
    ],
)
def test_parts_are_left_out_whole(width, shown):
    assert fitted(["first", "second", "third"], width) == shown


def test_a_name_from_a_page_cannot_steer_the_terminal():
    report = Sampled().after(0, {**STATS, "llmcrawler/page_types/[bold]\x1b[2Jx\n": 200})
    assert "\x1b" not in report.as_line()
    assert "\n" not in report.as_line()
    drawn = drawn_on(report, 100, 40, "crawl [red]\x1b[2J")
    assert "\x1b" not in drawn
    for words in ("[bold]�[2Jx", "crawl [red]", "96 pages"):
        assert words in drawn


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.04, "0.0 s"),
        (9.94, "9.9 s"),
        (59.4, "59 s"),
        (59.7, "1 min 0 s"),
        (61, "1 min 1 s"),
        (3599.9, "1 h 0 min"),
        (7260, "2 h 1 min"),
    ],
)
def test_durations_are_written_as_people_say_them(seconds, words):
    assert duration(seconds) == words


def flow(concurrency=5, gap=0.2, waiting=2, hosts=1, total=32):
    return DownloadFlow([HostThrottle(f"h{n}", concurrency, gap, 1, waiting) for n in range(hosts)], total)


@pytest.mark.parametrize(
    ("state", "rate", "latency", "name", "words"),
    [
        # 5 in flight at 1.4 s allow 3.6 starts/s, the gap would allow 5.
        (flow(), 3.5, 1.4, "requests in flight per host", "3.5/s x 1.40 s = 4.9 of 5"),
        (flow(), 4.9, 0.1, "the gap between requests", "4.9 of 5.0 requests/s"),
        # Ten hosts with room for 50 in flight, but 8 over all.
        (flow(gap=0, hosts=10, total=8), 7.9, 1.0, "requests in flight over all hosts", "7.9/s x 1.00 s = 7.9 of 8"),
        # The slower of the limits would let 50 through.
        (flow(gap=0), 20, 0.1, "the speed of this machine", "20.0 requests/s where 50.0 are allowed"),
        (flow(gap=0), 100, 0.0, "the speed of this machine", "5000.0 are allowed"),
        (replace(flow(), backing_out=True), 4.9, 0.1, "pages in process", "downloads wait"),
        (
            DownloadFlow([HostThrottle("shop.example", 1, 0.2, in_flight=1, failures=2, failure="timeout")], 32),
            *(0.0, None, "hosts that do not answer", "shop.example failed 2 times in a row: timeout"),
        ),
    ],
)
def test_the_limit_that_binds_is_named_with_its_figures(state, rate, latency, name, words):
    limit = binding_limit(state, rate, latency, queued=100)
    assert limit.startswith(f"{name}: ")
    assert words in limit


def test_a_crawl_with_nothing_waiting_is_held_back_by_the_urls_it_knows():
    assert binding_limit(flow(waiting=0), 1.0, 0.1, queued=0).startswith("waiting for links to follow: ")


@pytest.mark.parametrize(
    ("rate", "latency", "state"), [(0.0, 0.1, flow()), (1.0, None, flow()), (1.0, 0.1, DownloadFlow())]
)
def test_nothing_is_said_before_there_is_something_to_judge_by(rate, latency, state):
    assert binding_limit(state, rate, latency, queued=10) == ""


@pytest.mark.parametrize(
    ("waiting", "words"),
    [
        (ModelWait(), ""),
        (ModelWait(for_template=1), "1 page waits for more pages of its template"),
        (ModelWait(for_model=3), "3 pages wait for the model"),
        (ModelWait(5, 0, 2, 3, 40.0), "5 pages wait for the model: 2 of 3 calls, about 40 s"),
        (
            ModelWait(7, 4, 0, 3),
            "7 pages wait for the model: 0 of 3 calls; 4 pages wait for more pages of their template",
        ),
    ],
)
def test_a_line_says_what_pages_wait_for(waiting, words):
    assert "; ".join(waiting.parts()) == words
