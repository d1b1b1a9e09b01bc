"""What is wrong with settings is said before the first request, with their names."""

from __future__ import annotations

import re
import sys
from typing import Any

import pytest
from scrapy.settings import BaseSettings, Settings

from llmcrawler.crawl.arguments import ExploreOptions
from llmcrawler.crawl.configuration import JobSettings, MonitoringSettings, check_groups
from llmcrawler.crawl.model_building import model_of
from llmcrawler.errors import ConfigError

MODEL = {"LLM_PROVIDER": "openai", "LLM_BASE_URL": "http://127.0.0.1:9/v1", "LLM_MAX_TOKENS": 0, "LLM_MAX_COST_USD": 0}


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"LLM_MAX_COST_USD": 0.5}, "LLM_PRICE_INPUT"),
        ({"LLM_MAX_COST_USD": "0.5", "LLM_MODEL": "qwen", "LLM_PRICE_INPUT": 1}, "price of qwen is not known"),
        ({"LLM_MAX_TOKENS": "many"}, "LLM_MAX_TOKENS='many'"),
        ({"LLM_MAX_TOKENS": "nan"}, "LLM_MAX_TOKENS='nan'"),
        ({"LLM_MAX_COST_USD": -1, "LLM_MODEL": "gpt-4o-mini"}, "LLM_MAX_COST_USD=-1"),
    ],
)
def test_a_budget_that_cannot_be_held_is_refused(settings: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        model_of(Settings({**MODEL, **settings}))


@pytest.mark.parametrize(
    ("settings", "price"),
    [
        ({"LLM_MODEL": "gpt-4o-mini"}, 0.15),
        ({"LLM_PRICE_INPUT": 2, "LLM_PRICE_OUTPUT": 3}, 2.0),
    ],
)
def test_a_limit_in_money_is_held_at_a_price_that_is_known(settings: dict[str, Any], price: float) -> None:
    model = model_of(Settings({**MODEL, "LLM_MAX_COST_USD": 0.5, **settings}))
    assert model is not None
    assert model.budget.limits.price is not None
    assert model.budget.limits.price.input == price


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"METRICS_PORT": "many"}, "METRICS_PORT='many' is not a whole number"),
        ({"METRICS_PORT": 70000}, "METRICS_PORT=70000 is out of range: at most 65535"),
        ({"METRICS_TEXTFILE": "/no/such/folder/crawl.prom"}, "there is no folder /no/such/folder"),
        ({"TRACES": "jaeger"}, "TRACES='jaeger': it is console, otlp, or the path"),
        ({"TRACES": "no.such.Exporter"}, "TRACES='no.such.Exporter'"),
    ],
)
def test_a_wrong_setting_is_named(settings, named):
    with pytest.raises(ConfigError, match=named):
        MonitoringSettings.of(BaseSettings(settings)).check(is_shared=False)


@pytest.mark.parametrize(
    ("settings", "module", "command"),
    [
        ({"METRICS_PORT": 9410}, "prometheus_client", "pip install prometheus-client"),
        ({"TRACES": "console"}, "opentelemetry.sdk.trace", "pip install opentelemetry-sdk"),
        (
            {"TRACES": "otlp"},
            "opentelemetry.exporter.otlp.proto.http.trace_exporter",
            "pip install opentelemetry-sdk opentelemetry-exporter-otlp-proto-http",
        ),
    ],
)
def test_a_library_that_is_missing_is_named_with_the_command_that_brings_it(monkeypatch, settings, module, command):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ConfigError, match=command):
        MonitoringSettings.of(BaseSettings(settings)).check(is_shared=False)


def test_figures_of_one_schedule_have_one_name():
    shared = BaseSettings({"REDIS_URL": "redis://redis:6379/0", "CRAWL_ID": "shop"})
    options = ExploreOptions(urls=("https://shop.example/a", "https://other.example/"))
    assert JobSettings.of(BaseSettings({"JOBDIR": "jobs/shop/"})).crawl_name(options) == "shop"
    assert JobSettings.of(BaseSettings()).crawl_name(options) == "shop.example"
    assert JobSettings.of(shared).crawl_name(options) == "shop"


def test_each_worker_has_a_textfile_of_its_own(tmp_path):
    with pytest.raises(ConfigError, match=r"shop-%\(worker\)s\.prom"):
        MonitoringSettings.of(BaseSettings({"METRICS_TEXTFILE": tmp_path / "shop.prom"})).check(is_shared=True)
    monitoring = MonitoringSettings.of(BaseSettings({"METRICS_TEXTFILE": tmp_path / "shop-%(worker)s.prom"}))
    monitoring.check(is_shared=True)
    assert monitoring.textfile_of("w1") == tmp_path / "shop-w1.prom"


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"LLM_CONCURRENCY": 0}, "LLM_CONCURRENCY=0 is out of range: at least 1"),
        ({"DOWNLOAD_DELAY": "-1"}, "DOWNLOAD_DELAY='-1' is out of range: at least 0"),
        ({"REDIS_LEASE_SECONDS": "inf"}, "REDIS_LEASE_SECONDS='inf' is out of range: it must be finite"),
        ({"CRAWL_MAX_ERRORS_SHARE": 2}, "CRAWL_MAX_ERRORS_SHARE=2 is out of range: at most 1"),
        ({"STOP_SECONDS": "soon"}, "STOP_SECONDS='soon' is not a number; the default is 8.0"),
        ({"RETRY_TIMES": 2.5}, "RETRY_TIMES=2.5 is not a whole number; the default is 5"),
        ({"STORE_BODIES": "perhaps"}, "STORE_BODIES='perhaps' is not True or False; the default is True"),
        ({"PROGRESS": "lve"}, "PROGRESS='lve': did you mean live? it is one of auto, live, log, off"),
        ({"CONTENT_WORKERS": -1}, "CONTENT_WORKERS=-1: it is auto, or a number of processes"),
        ({"PROXY_BAN_STATUSES": "403,99"}, "PROXY_BAN_STATUSES='403,99' are not HTTP statuses: write numbers"),
        ({"TEMPLATES_FILE": "s3://a/b"}, "TEMPLATES_FILE='s3://a/b': it is a file on this machine, not a url"),
        ({"LLM_BUDGET_FILE": "b", "REDIS_URL": "redis://a"}, "LLM_BUDGET_FILE and REDIS_URL: workers of one crawl"),
        ({"LLM_BUDGET_URL": "redis://a", "LLM_BUDGET_FILE": "b"}, "LLM_BUDGET_URL and LLM_BUDGET_FILE: both say"),
        ({"RIGHTS_POLICY": "repsect"}, "RIGHTS_POLICY='repsect': did you mean respect? it is one of record, respect"),
        ({"CRAWL_PURPOSE": "ai-trian"}, "CRAWL_PURPOSE='ai-trian': did you mean ai-train?"),
        ({"RIGHTS_POLICY": "respect"}, "RIGHTS_POLICY=respect: for which use? Set CRAWL_PURPOSE to one of search"),
    ],
)
def test_a_value_out_of_bounds_is_told_with_its_setting(settings, complaint):
    with pytest.raises(ConfigError, match=f"^{re.escape(complaint)}"):
        check_groups(BaseSettings(settings))


def test_values_from_a_command_line_are_read_as_scrapy_reads_them():
    given = {"STORE_BODIES": "0", "PAGE_STAGES": "a.b,c.d", "JOBDIR": "", "MAX_LEASES": "3"}
    kept = JobSettings.of(BaseSettings(given))
    assert (kept.store_bodies, kept.page_stages, kept.jobdir, kept.max_leases) == (False, ["a.b", "c.d"], None, 3)
