"""What is wrong with settings is said before the first request, with their names."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from scrapy.settings import BaseSettings, Settings

from llmcrawler.crawl.arguments import ExploreOptions
from llmcrawler.crawl.configuration import check_monitoring, crawl_name, metrics_place
from llmcrawler.crawl.model_settings import model_of
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
        ({"LLM_PROVIDER": "embedded"}, 0.0),
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
        ({"METRICS_PORT": "many"}, "METRICS_PORT='many' is no port"),
        ({"METRICS_PORT": 70000}, "METRICS_PORT=70000 is no port"),
        ({"METRICS_TEXTFILE": "/no/such/folder/crawl.prom"}, "there is no folder /no/such/folder"),
        ({"TRACES": "jaeger"}, "TRACES='jaeger': it is console, otlp, or the path"),
        ({"TRACES": "no.such.Exporter"}, "TRACES='no.such.Exporter'"),
    ],
)
def test_a_wrong_setting_is_named(settings, named):
    with pytest.raises(ConfigError, match=named):
        check_monitoring(BaseSettings(settings))


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
        check_monitoring(BaseSettings(settings))


def test_figures_of_one_schedule_have_one_name():
    options = ExploreOptions(urls=("https://shop.example/a", "https://other.example/"))
    assert crawl_name(BaseSettings({"JOBDIR": "jobs/shop/"}), options) == "shop"
    assert crawl_name(BaseSettings(), options) == "shop.example"
    assert crawl_name(BaseSettings({"REDIS_URL": "redis://redis:6379/0", "CRAWL_ID": "shop"}), options) == "shop"


def test_each_worker_has_a_textfile_of_its_own(tmp_path):
    shared = {"REDIS_URL": "redis://redis:6379/0", "METRICS_TEXTFILE": tmp_path / "shop.prom"}
    with pytest.raises(ConfigError, match=r"shop-%\(worker\)s\.prom"):
        check_monitoring(BaseSettings(shared))
    settings = BaseSettings({**shared, "METRICS_TEXTFILE": tmp_path / "shop-%(worker)s.prom"})
    check_monitoring(settings)
    place = metrics_place(settings)
    assert place is not None
    assert place.of("w1").textfile == tmp_path / "shop-w1.prom"
