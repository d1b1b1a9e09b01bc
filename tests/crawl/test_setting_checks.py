"""Slips in the names and values of settings, before anything is fetched."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import scrapy
import scrapy_playwright  # type: ignore[import-untyped]
from scrapy.settings import Settings, default_settings

import llmcrawler
from llmcrawler import settings as own_settings
from llmcrawler.crawl.arguments import ExploreOptions, argument_names
from llmcrawler.crawl.configuration import SettingsGroup
from llmcrawler.crawl.setting_checks import (
    check_log,
    check_names,
    check_objects,
    check_paths,
    check_values,
    known_settings,
    near_name,
)
from llmcrawler.crawl.start_checks import check
from llmcrawler.errors import ConfigError

READ = re.compile(r'settings(?:\.get(?:\w*)\(\s*|\[)\s*"([A-Z][A-Z0-9_]+)"|"([A-Z][A-Z0-9_]+)" in \w*\.?settings')
READ_AS_FLOAT = re.compile(r'settings\.getfloat\(\s*"([A-Z][A-Z0-9_]+)"')


def given(**values: object) -> Settings:
    settings = Settings()
    settings.setmodule(own_settings)
    settings.update(values, priority="cmdline")
    return settings


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("LLM_MAX_COSTS_USD", "LLM_MAX_COST_USD"),
        ("JOB_DIR", "JOBDIR"),
        ("DOWNLOAD_DELY", "DOWNLOAD_DELAY"),
        ("download_delay", "DOWNLOAD_DELAY"),
        ("LLM_KEY", "LLM_API_KEY"),
        ("TEMPLATE_FILE", "TEMPLATES_FILE"),
        ("LOGFILE", "LOG_FILE"),
        ("CONCURRENT_REQUEST_PER_DOMAIN", "CONCURRENT_REQUESTS_PER_DOMAIN"),
        ("PLAYWRIGHT_LAUNCH_OPTION", "PLAYWRIGHT_LAUNCH_OPTIONS"),
        ("max_pages", "-a max_pages="),
        ("max_page", "-a max_pages="),
    ],
)
def test_a_name_that_looks_like_a_setting_or_an_argument_is_refused_with_that(name, meant):
    with pytest.raises(ConfigError, match=f"-s {name}: .*{meant}"):
        check_names([name], argument_names())


def test_names_of_the_users_own_and_known_ones_pass():
    check_names(["SHOP_KEY", "MONGO_URI", "REDIS_HOST", "LLM_PROMPT", "_job", "FILES_STORE", "DOWNLOAD_DELAY"])


@pytest.mark.parametrize("package", [scrapy, scrapy_playwright, llmcrawler], ids=lambda one: one.__name__)
def test_each_setting_that_is_read_somewhere_is_known(package):
    folder = Path(package.__path__[0])
    files = [file for file in folder.rglob("*.py") if "templates" not in file.relative_to(folder).parts[:1]]
    read = {name for file in files for match in READ.findall(file.read_text()) for name in match if name}
    assert len(read) > 10
    assert read - known_settings() == set()


def test_each_setting_of_this_project_is_typed_or_read_with_the_environment_by_the_core():
    grouped = {name.upper() for group in SettingsGroup.__subclasses__() for name in group.model_fields}
    assert grouped - known_settings() == set()
    ours = {name for name in vars(own_settings) if name.isupper() and not hasattr(default_settings, name)}
    others = {name for name in ours - grouped if not name.startswith(("PROXIES", "PROXY_", "LLM_"))}
    assert others == {"META_COPY_WARN_SKIP_KEYS"}  # of scrapy.spidermiddlewares.metacopy


def test_whole_numbers_that_scrapy_reads_as_fractions_may_be_such():
    files = Path(scrapy.__path__[0]).rglob("*.py")
    read = {name for file in files for name in READ_AS_FLOAT.findall(file.read_text())}
    assert "DOWNLOAD_TIMEOUT" in read
    check_values(given(**dict.fromkeys(read, "0.5")))


@pytest.mark.parametrize(
    ("name", "value", "kind"),
    [
        ("CONCURRENT_REQUESTS", "many", "a whole number"),
        ("RETRY_TIMES", "2.5", "a whole number"),
        ("DOWNLOAD_TIMEOUT", "30s", "a number"),
        ("ROBOTSTXT_OBEY", "maybe", "True or False"),
        ("RECORD_SINGLETONS", "yes", "True or False"),
    ],
)
def test_a_value_of_another_type_is_named_with_its_setting(name, value, kind):
    check_values(given())
    with pytest.raises(ConfigError, match=f"{name}='{value}' is not {kind}"):
        check_values(given(**{name: value}))


def test_another_reactor_than_that_of_asyncio_is_refused():
    with pytest.raises(ConfigError, match="TWISTED_REACTOR='twisted"):
        check_values(given(TWISTED_REACTOR="twisted.internet.selectreactor.SelectReactor"))


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"LOG_LEVEL": "LOUD"}, "LOG_LEVEL='LOUD': it is one of CRITICAL"),
        ({"LOG_FILE": "no/such/folder/log.txt"}, "LOG_FILE=no/such/folder/log.txt: it cannot be written: No such"),
    ],
)
def test_a_log_that_cannot_be_is_refused(values, named):
    with pytest.raises(ConfigError, match=named):
        check_log(given(**values))
    check_log(given(LOG_LEVEL="DEBUG"))


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"ITEM_PIPELINES": {"no.such.Pipe": 1}}, "ITEM_PIPELINES: 'no.such.Pipe' cannot be loaded: No module"),
        ({"SCHEDULER": "llmcrawler.engine.scheduler.Nothing"}, "SCHEDULER: .* doesn't define any object"),
        ({"FEED_EXPORTERS": {"xlsx": "nothing"}}, "FEED_EXPORTERS: 'nothing'"),
    ],
)
def test_a_class_that_is_not_there_is_named_with_its_setting(values, named):
    with pytest.raises(ConfigError, match=named):
        check_paths(given(**values))
    check_paths(given(ITEM_PIPELINES={"no.such.Pipe": None}))


@pytest.mark.parametrize("one", ["ITEM_PIPELINES=shop.Pipe", "FEEDS={o", "FEEDS=[]", "DOWNLOAD_DELAY"])
def test_an_object_is_given_as_json_and_a_setting_with_its_value(one):
    with pytest.raises(ConfigError, match=one.partition("=")[0]):
        check_objects([one])
    check_objects(['FEEDS={"o.jsonl": {}}', "DOWNLOAD_DELAY=1"])


def test_case_and_hyphens_do_not_hide_what_was_meant():
    assert near_name("MAX-PAGES", ["max_pages", "depth"]) == "max_pages"
    assert near_name("colour", ["max_pages", "depth"]) is None


def test_a_value_is_refused_before_anything_is_built_from_it():
    settings = given(LLM_BASE_URL="http://127.0.0.1:9/v1", LLM_CONCURRENCY="many")
    with pytest.raises(ConfigError, match="LLM_CONCURRENCY='many' is not a whole number"):
        check(settings, ExploreOptions.of({"url": "a.example"}), "explore")
