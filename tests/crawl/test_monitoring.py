import sys

import pytest
from scrapy.settings import BaseSettings

from llmcrawler.crawl.arguments import ExploreOptions
from llmcrawler.crawl.monitoring import check_monitoring, crawl_name, metrics_place
from llmcrawler.errors import ConfigError


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
