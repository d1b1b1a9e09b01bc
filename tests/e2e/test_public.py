"""The Python interface: what `import llmcrawler` gives to programs without Scrapy."""

from __future__ import annotations

import asyncio
import doctest
import subprocess
import sys

import pandas as pd
import pytest

import llmcrawler
from llmcrawler.api import public_api
from llmcrawler.core.reporting.exit_status import ExitStatus
from llmcrawler.errors import ConfigError
from tests.e2e.crawling import FAST, ROOT, command, environment, explore
from tests.e2e.test_explore import LABELS, llm_settings
from tests.e2e.test_templates_file import answering
from tests.servers import mock_pages
from tests.servers.fake_llm import FakeLLM, label_by_url
from tests.servers.mock_site import MockSite


def loaded_after(statement: str) -> set[str]:
    code = f"import sys; {statement}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    return {name.partition(".")[0] for name in done.stdout.split()}


def test_the_package_is_light_to_import():
    assert not loaded_after("import llmcrawler") & {"scrapy", "twisted", "numpy", "pydantic", "lxml", "pandas"}


# What a crawl of a page loads none of, the modules below these included: it has no model, job, goal or workers, learns
# no template, and writes lines of JSON to a file.
NOT_NEEDED = """
aiohttp dateparser jinja2 openai pandas pyarrow redis regex requests rich.console tldextract twisted.conch
llmcrawler.api llmcrawler.campaigns
llmcrawler.core.frontier.focused_crawl llmcrawler.core.frontier.link_scorer llmcrawler.core.frontier.sqlite
llmcrawler.core.llm.budget llmcrawler.core.llm.call_limits llmcrawler.core.llm.client llmcrawler.core.llm.usage
llmcrawler.core.politeness.proxies
llmcrawler.core.reporting.crawl_metrics llmcrawler.core.reporting.html llmcrawler.core.reporting.planning
llmcrawler.core.storage.job_status llmcrawler.core.storage.recovery llmcrawler.core.storage.requeueing
llmcrawler.core.understanding.classification.classify_prompt llmcrawler.core.understanding.classification.page_asker
llmcrawler.core.understanding.extraction.annotators llmcrawler.core.understanding.extraction.column_annotator
llmcrawler.core.understanding.extraction.induce_prompt llmcrawler.core.understanding.extraction.repeated_parts
llmcrawler.core.understanding.extraction.selector_induction llmcrawler.core.understanding.extraction.value_scorer
llmcrawler.crawl.job llmcrawler.fleet.session
""".split()


def test_a_crawl_loads_only_what_it_needs(tmp_path):
    with MockSite().in_thread() as site:
        parts = command({"url": site.url(), "max_pages": 1}, FAST, tmp_path / "page.jsonl")
        env = {**environment(), "PYTHONPROFILEIMPORTTIME": "1"}
        done = subprocess.run(parts, cwd=ROOT, env=env, capture_output=True, text=True, check=True)
    loaded = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if line.startswith("import time:")}
    assert "llmcrawler.core.understanding.site_reader" in loaded
    assert not [name for name in loaded if any(f"{name}.".startswith(f"{one}.") for one in NOT_NEEDED)]


def test_no_public_name_needs_scrapy():
    assert not loaded_after("import llmcrawler; [getattr(llmcrawler, name) for name in llmcrawler.__all__]") & {
        "scrapy",
        "twisted",
    }
    for name in llmcrawler.__all__:
        assert getattr(llmcrawler, name).__doc__, name
        assert name in dir(llmcrawler)


def test_other_names_are_not_there():
    with pytest.raises(AttributeError, match="no attribute 'read_pages'"):
        llmcrawler.read_pages  # noqa: B018 - it is the access that raises


def test_a_page_is_read_from_bytes_by_the_header_or_by_what_it_says():
    body = "<title>Grüner Tee</title><p>Süß".encode("latin-1")
    assert llmcrawler.read_page(body, "https://a.example").title == "Grüner Tee"
    page = llmcrawler.read_page("<p>é".encode("cp1251", "replace"), "https://a.example", content_type="text/html")
    assert page.url == "https://a.example"


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    """The folder of a crawl of a shop, the html of a product, its url, and its line in the feed."""
    folder = tmp_path_factory.mktemp("shop")
    label = answering(label_by_url(LABELS, "homepage"))
    with MockSite().in_thread() as site, FakeLLM(label).in_thread() as llm:
        settings = llm_settings(llm) | {"TEMPLATES_FILE": folder / "shop.json", "JOBDIR": folder / "job"}
        explored = explore(folder, site.url(), settings)
    path = mock_pages.product_path(7)
    assert explored.page(path)["page_type"] == "product"
    return folder, dict(mock_pages.shop_pages())[path], site.url(path), explored.page(path)


def test_an_extractor_gives_what_the_crawl_gave(shop):
    folder, html, url, line = shop
    with llmcrawler.Extractor.load(folder / "shop.json") as extractor:
        assert extractor.record(html, url) == (line["page_type"], line["record"])
        assert extractor.record(html.encode(), url).record == line["record"]
        assert extractor.record("<p>Something else", url.replace("product", "no-such")).record is None


def test_a_site_is_explored_from_within_an_event_loop():
    """As in a notebook."""

    async def cell(url: str) -> pd.DataFrame:
        crawl = llmcrawler.explore(url, fields="name,price", max_pages=60, progress=False, settings=FAST)
        return crawl.to_pandas()

    with MockSite().in_thread() as site:
        records = asyncio.run(cell(site.url()))
    products = records[records["page_type"] == "product"]
    assert len(products) > 5
    assert products["price"].gt(3).all()


def test_a_crawl_that_is_left_ends_as_one_that_is_told_to():
    with MockSite(latency_seconds=0.3).in_thread() as slow:
        crawl = llmcrawler.explore(slow.url(), progress=False, settings=FAST)
        assert next(iter(crawl))["status"] == 200
        assert crawl.exit_status == ExitStatus.INTERRUPTED
    assert len({page["url"] for page in crawl}) == len(list(crawl)) > 0


def test_a_wrong_file_of_templates_is_named(tmp_path):
    with pytest.raises(ConfigError, match=r"templates\.json: no such file"):
        llmcrawler.Extractor.load(tmp_path)


@pytest.mark.parametrize("module", [llmcrawler, public_api], ids=lambda one: one.__name__)
def test_the_examples_of_the_documentation_run(module, shop, monkeypatch):
    folder, html, url, _line = shop
    monkeypatch.chdir(folder)
    tried = doctest.testmod(module, extraglobs={"html": html, "url": url})
    assert tried.failed == 0
    assert tried.attempted
