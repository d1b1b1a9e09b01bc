"""`scrapy crawl extract`, as a user runs it."""

import json
import subprocess
import sys
from collections import Counter
from typing import Any

import pytest

from tests.e2e.crawling import FAST, ROOT, TIMEOUT_SECONDS, Outcome, environment, scrapy
from tests.e2e.killing import lines_of
from tests.servers.echo import Echo, heard
from tests.servers.fake_llm import FakeLLM, label_by_url
from tests.servers.many_pages import ManyPages
from tests.servers.mock_site import MockSite
from tests.servers.proxy_server import ProxyServer

LAMP = """<title>Desk lamp</title><h1>Desk lamp</h1><p>Only 12,50 €.</p>
<meta property="og:image" content="/i.png">
<script type="application/ld+json">{"@type": "Product", "name": "Desk lamp", "brand": {"name": "Acme"}, "offers": {
"@type": "Offer", "price": "12,50", "priceCurrency": "EUR", "availability": "https://schema.org/InStock"}}</script>"""


@pytest.fixture
def echo():
    return Echo()


@pytest.fixture
def site(echo):
    with MockSite({**echo.routes(), "/lamp": LAMP}).in_thread() as site:
        yield site


def extract(tmp_path, settings=None, **arguments) -> Outcome:
    feed = tmp_path / "feed.jsonl"
    given = [part for name, value in arguments.items() for part in ("-a", f"{name}={value}")]
    done = scrapy("crawl", "extract", *given, "-O", feed, settings=settings)
    return Outcome(done.returncode, done.stderr, lines_of(feed) if feed.exists() else [])


def tasks_file(tmp_path, **tasks):
    path = tmp_path / "tasks.json"
    path.write_text(json.dumps(tasks))
    return path


def by_key(outcome: Outcome) -> dict[str, dict[str, Any]]:
    assert max(Counter(page["key"] for page in outcome.pages).values()) == 1
    return {page["key"]: page for page in outcome.pages}


def test_tasks_are_asked_as_they_say_and_told_by_their_keys(tmp_path, echo, site):
    url = site.url("/echo")
    tasks = tasks_file(
        tmp_path,
        plain={"url": url, "meta": {"shelf": 7}},
        form={"url": url, "post_payload": {"q": "süß"}, "headers": {"X-Token": "t1"}, "cookies": {"who": "form"}},
        other={"url": url, "post_payload": {"q": "salty"}, "cookies": {"who": "other"}},
        json={"url": url, "json": {"q": [1, 2]}, "timeout": 20},
        flaky={"url": site.url("/flaky"), "post_payload": {"again": "1"}},
        moved={"url": site.url("/moved"), "post_payload": {"carried": "on"}},
        cookie={"url": site.url("/cookie"), "cookies": {"who": "cookie"}},
        missing={"url": site.url("/nowhere"), "json": {}},
        lamp={"url": site.url("/lamp")},
    )
    outcome = extract(tmp_path, tasks=tasks)
    pages = by_key(outcome)
    assert outcome.exit_status == 0, outcome.log
    assert set(pages) == {"plain", "form", "other", "json", "flaky", "moved", "cookie", "missing", "lamp"}
    assert pages["missing"]["error"]["kind"] == "http_404"
    assert (pages["lamp"]["page_type"], pages["lamp"]["record_by"]) == ("product", "structured-data")
    assert pages["lamp"]["record"] == {
        "@type": "Product",
        "name": "Desk lamp",
        "brand": "Acme",
        "offers": {"price": "12.50", "priceCurrency": "EUR", "availability": "InStock"},
        "image": [site.url("/i.png")],
    }
    assert {key for key, page in pages.items() if page["record"]} == {"lamp"}
    assert pages["plain"]["meta"] == {"shelf": 7}
    assert {page["url"] for key, page in pages.items() if key in ("plain", "form", "other", "json")} == {url}
    assert heard(pages["plain"])["method"] == "GET"
    assert heard(pages["form"])["form"] == {"q": "süß"}
    assert heard(pages["form"])["headers"]["x-token"] == "t1"
    assert [heard(pages[key])["cookies"] for key in ("plain", "form", "other")] == [
        {},
        {"who": "form"},
        {"who": "other"},
    ]
    assert json.loads(heard(pages["json"])["body"]) == {"q": [1, 2]}
    assert heard(pages["json"])["headers"]["content-type"] == "application/json"
    assert (heard(pages["flaky"])["method"], heard(pages["flaky"])["form"]) == ("POST", {"again": "1"})
    assert (heard(pages["moved"])["method"], heard(pages["moved"])["form"]) == ("POST", {"carried": "on"})
    assert pages["moved"]["final_url"] == url


def test_a_second_run_does_what_failed(tmp_path, echo, site):
    tasks = tasks_file(
        tmp_path,
        **{f"fine-{n}": {"url": site.url("/echo"), "json": n} for n in range(5)},
        down={"url": site.url("/down"), "post_payload": "late=1"},
        slow={"url": site.url("/down"), "post_payload": "late=2"},
    )
    job = {"JOBDIR": tmp_path / "job", "RETRY_TIMES": 0}
    first = by_key(extract(tmp_path, job, tasks=tasks))
    assert {key: page["error"] and page["error"]["kind"] for key, page in first.items()} == {
        **{f"fine-{n}": None for n in range(5)},
        "down": "http_500",
        "slow": "http_500",
    }
    echo.is_up = True
    echo.asked.clear()
    second = by_key(extract(tmp_path, job, tasks=tasks))
    assert echo.bodies() == {"late=1": 1, "late=2": 1}
    assert len(second) == 7
    assert not [page for page in second.values() if page["error"]]
    echo.asked.clear()
    assert len(extract(tmp_path, job, tasks=tasks).pages) == 7
    assert not echo.asked


def test_pages_that_no_batch_could_judge_are_judged_in_the_next_run_without_a_fetch(tmp_path):
    pages = ManyPages(30)
    urls = tmp_path / "urls.txt"
    job = {"JOBDIR": tmp_path / "job", "LLM_PROVIDER": "openai", "LLM_BATCH_PAGES": 20}
    labels = label_by_url([("/item/", "product")], "listing")
    with MockSite(pages.routes()).in_thread() as site:
        urls.write_text("".join(f"{site.url(path)}\n" for path in pages.paths) + site.url("/gone") + "\n")
        with FakeLLM(labels, faults=["400"] * 200).in_thread() as llm:
            first = extract(tmp_path, job | {"LLM_BASE_URL": llm.base_url}, urls=urls)
        asked = len(pages.requested)
        with FakeLLM(labels).in_thread() as llm:
            second = extract(tmp_path, job | {"LLM_BASE_URL": llm.base_url}, urls=urls)
    assert len(first.pages) == len(second.pages) == 31
    assert [page for page in first.pages if (page["error"] or {}).get("stage") == "classify"]
    assert len(pages.requested) == asked == 30
    assert second.error_kinds() == {"http_404": 1}
    assert {page["page_type"] for page in second.pages if "/item/" in page["url"]} == {"product"}


def test_a_country_chooses_the_proxy(tmp_path, echo, site):
    tasks = tasks_file(
        tmp_path,
        de={"url": site.url("/echo"), "json": 1, "country": "de"},
        fr={"url": site.url("/echo"), "country": "FR"},
    )
    with ProxyServer().in_thread() as german, ProxyServer().in_thread() as french:
        proxies = {"PROXIES": json.dumps({"DE": [german.url], "FR": [french.url]})}
        outcome = extract(tmp_path, proxies, tasks=tasks)
    assert not outcome.error_kinds(), outcome.log
    assert [head.split()[0] for head in german.heads if "/echo" in head] == ["POST"]
    assert [head.split()[0] for head in french.heads if "/echo" in head] == ["GET"]


def test_urls_come_from_standard_input_and_two_that_lead_to_one_page_have_a_line_each(tmp_path, echo, site):
    urls = "".join(f"{site.url(path)}\n" for path in ("/moved", "/echo", "/echo"))
    feed = tmp_path / "feed.jsonl"
    settings = [f"-s{name}={value}" for name, value in FAST.items()]
    command = [sys.executable, "-m", "scrapy", "crawl", "extract", "-a", "urls=-", "-O", feed, *settings]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env=environment(),
        input=urls.encode(),
        capture_output=True,
        timeout=TIMEOUT_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    pages = [line for line in lines_of(feed) if line["kind"] == "page"]
    assert sorted(page["url"] for page in pages) == [site.url("/echo"), site.url("/moved")]
    assert not [page for page in pages if page["error"]]


def test_a_bad_entry_of_a_list_is_a_line_with_its_error_in_every_run(tmp_path, echo, site):
    urls = tmp_path / "urls.txt"
    urls.write_text(f"not a url\n{site.url('/echo')}\nhttp://[::1\n")
    for asked in (1, 1):  # the second run writes what the first one has found
        outcome = extract(tmp_path, {"JOBDIR": tmp_path / "job"}, urls=str(urls))
        assert outcome.exit_status == 6  # more than half of them
        assert "2 of 3 entries cannot be fetched" in outcome.log
        errors = {page["url"]: page["error"] and page["error"]["message"].partition(":")[0] for page in outcome.pages}
        assert errors == {"not a url": "line 1", site.url("/echo"): None, "http://[::1": "line 3"}
        assert len(echo.asked) == asked
