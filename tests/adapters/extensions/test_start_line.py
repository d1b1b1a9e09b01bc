"""What is said before the first request, and what is not; and where it is said."""

from __future__ import annotations

import io
import logging
from pathlib import Path
from typing import Any

import pytest
from scrapy.settings import Settings

from llmcrawler.crawl.arguments import ExploreOptions, ExtractOptions, MapOptions
from llmcrawler.crawl.start_checks import CHOSEN_PRIORITY
from llmcrawler.engine import log_setup
from llmcrawler.extensions.start_line import say, start_line

ONE = ExploreOptions.of({"url": "https://a.example"})
PACE = {"CONCURRENT_REQUESTS_PER_DOMAIN": 5, "DOWNLOAD_DELAY": 0.2, "ROBOTSTXT_OBEY": True, "LLM_PROVIDER": "none"}
MODEL = {
    "LLM_PROVIDER": "openai",
    "LLM_BASE_URL": "http://127.0.0.1:9/v1",
    "LLM_MODEL": "qwen",
    "LLM_API_KEY": "secret",
}


def line_of(spider: str, options: ExploreOptions | None, **settings: Any) -> str:
    return start_line(Settings({**PACE, **settings}), spider, options)


def test_one_line_tells_what_the_crawl_will_do():
    options = ExploreOptions.of({"url": "https://a.example,https://b.example,https://c.example,https://d.example"})
    assert line_of("explore", options, FEEDS={"pages.csv": {}}) == (
        "explore https://a.example/, https://b.example/, https://c.example/ and 1 more"
        " | at most 500 pages (max_pages, the default)"
        " | no model: page types from a trained classifier, records from structured data and an annotator"
        " | robots.txt obeyed | 5 requests at a time per host, 0.2 s apart | output: pages.csv"
    )


def test_without_a_model_that_anybody_chose_it_tells_what_brings_one(monkeypatch: pytest.MonkeyPatch):
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "LLM_API_KEY", "LLM_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    line = line_of("explore", ONE, LLM_PROVIDER="auto")
    told = "no model: page types from a trained classifier, records from structured data and an annotator"
    assert f" | {told} (OPENAI_API_KEY or LLM_BASE_URL brings a model) | " in line


def test_whose_name_requests_are_signed_with_is_told_where_they_are():
    agent = "https://bot.example"
    line = line_of("explore", ONE, BOT_AUTH_AGENT=agent)
    assert "| robots.txt obeyed | signed as https://bot.example | 5 requests" in line
    assert "signed" not in line_of("strange", None, BOT_AUTH_AGENT=agent)


def test_limits_of_the_users_own_are_told_with_the_model_and_its_budget():
    given = {"url": "https://a.example", "max_pages": "40", "depth": "3", "goal": "product", "max_records": "100"}
    line = line_of("explore", ExploreOptions.of(given), **MODEL, LLM_MAX_COST_USD=0.05, ROBOTSTXT_OBEY=False)
    assert "| at most 40 pages (max_pages), depth 3, product first, 100 records (max_records) |" in line
    assert "| model qwen at 127.0.0.1:9, $0.05 at most | robots.txt NOT obeyed |" in line
    assert "key7" not in line
    assert line.endswith("| output: none, -O FILE writes one")


def test_it_tells_where_lines_are_kept():
    job = line_of("explore", ONE, JOBDIR="jobs/a")
    assert job.endswith("| job jobs/a | output: none but the job, -O FILE writes it")
    settings = Settings(PACE)
    settings.set("FEEDS", {"a.example.jsonl": {"format": "jsonl"}}, priority=CHOSEN_PRIORITY)
    chosen = start_line(settings, "explore", ONE)
    assert chosen.endswith("| output: a.example.jsonl (chosen, as there is no -O)")


def test_a_list_and_a_map_have_limits_of_their_own(tmp_path: Path):
    urls = tmp_path / "urls.txt"
    urls.write_text("https://a.example/1\n")
    assert line_of("extract", ExtractOptions.of({"urls": str(urls)})).startswith(f"extract urls={urls} | no model: ")
    given = line_of("map", MapOptions.of({"url": "https://a.example", "max_urls": "9"}))
    assert given.startswith(
        "map https://a.example/ | at most 1,000 pages (max_pages, the default), 9 urls (max_urls) | robots.txt"
    )


@pytest.fixture
def loggers_as_they_were() -> Any:
    loggers = [logging.getLogger(name) for name in ("scrapy.middleware", "scrapy.crawler", "scrapy.core.engine")]
    before = [list(one.filters) for one in loggers]
    yield
    for one, filters in zip(loggers, before, strict=True):
        one.filters = filters


@pytest.mark.usefixtures("loggers_as_they_were")
@pytest.mark.parametrize(
    ("settings", "silent", "opened"),
    [
        ({"LOG_LEVEL": "INFO", "EXTENSIONS": {log_setup.START_LINE: 400}}, True, False),
        ({"LOG_LEVEL": "INFO"}, True, True),
        ({"LOG_LEVEL": "INFO", "EXTENSIONS": {log_setup.START_LINE: 400}, "PROGRESS": "off"}, True, True),
        ({"LOG_LEVEL": "DEBUG", "EXTENSIONS": {log_setup.START_LINE: 400}}, False, True),
        ({"LOG_LEVEL": 10}, False, True),
    ],
)
def test_what_scrapy_says_of_its_own_parts_is_for_debugging(settings, silent, opened, caplog):
    caplog.set_level(logging.DEBUG)
    log_setup.silence(Settings(settings))
    middleware = logging.getLogger("scrapy.middleware")
    middleware.info("Enabled %(componentname)ss:\n%(enabledlist)s", {"componentname": "addon", "enabledlist": "[]"})
    middleware.warning("Disabled %(clspath)s: %(eargs)s", {"clspath": "a.B", "eargs": "no key"})
    logging.getLogger("scrapy.crawler").info("Overridden settings:\n%(settings)s", {"settings": "{}"})
    logging.getLogger("scrapy.crawler").info("Received %(signame)s", {"signame": "SIGINT"})
    logging.getLogger("scrapy.core.engine").info("Spider opened")
    logging.getLogger("scrapy.core.engine").info("Closing spider (%(reason)s)", {"reason": "finished"})
    said = [message.split(":")[0].split(" (")[0] for message in caplog.messages]
    internals = [] if silent else ["Enabled addons", "Overridden settings"]
    opening = ["Spider opened"] if opened else []
    assert sorted(said) == sorted([*internals, "Disabled a.B", "Received SIGINT", *opening, "Closing spider"])


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def say_on(monkeypatch):
    """Says a text where this is stderr, and this the only handler of the log."""

    def say_it(screen, handler, text):
        logger = logging.getLogger("llmcrawler.some")
        monkeypatch.setattr("sys.stderr", screen)
        monkeypatch.setattr(logging.root, "handlers", [handler])
        monkeypatch.setattr(logger, "level", logging.INFO)
        say(logger, text)
        handler.close()
        return screen.getvalue()

    return say_it


@pytest.mark.parametrize(
    ("stderr", "log", "level", "shown"),
    [
        (Terminal, "", logging.INFO, 1),  # by the log
        (Terminal, "", logging.ERROR, 1),
        (Terminal, "log.txt", logging.INFO, 1),
        (io.StringIO, "log.txt", logging.INFO, 0),
        (io.StringIO, "", logging.INFO, 1),
        (io.StringIO, "", logging.ERROR, 0),
    ],
)
def test_a_result_reaches_the_terminal_once_wherever_the_log_goes(  # noqa: PLR0917 - fixtures
    stderr, log, level, shown, tmp_path, say_on
):
    screen = stderr()
    handler = logging.FileHandler(tmp_path / log) if log else logging.StreamHandler(screen)
    handler.setLevel(level)
    assert say_on(screen, handler, "Summary").count("Summary") == shown
    assert not log or (tmp_path / log).read_text() == "Summary\n"
