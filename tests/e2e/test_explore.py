"""`scrapy crawl explore` over a real site, with a real (fake) model server, as a user runs it."""

import json
import signal
import subprocess
from typing import Any, NamedTuple

import pytest
from aiohttp import web

from llmcrawler.core.reporting.exit_status import ExitStatus
from tests.e2e import warm
from tests.e2e.crawling import ROOT, TIMEOUT_SECONDS, Outcome, command, environment, explore, rest_of_log
from tests.nightly import rest_by_night
from tests.servers.fake_llm import FakeLLM, label_by_url
from tests.servers.mock_site import UNLINKED, MockSite

LABELS = [
    ("/product/", "product"),
    ("/category/", "listing"),
    ("/blog/2024/", "article"),
    ("/blog/", "listing"),
    ("/login/", "login"),
    ("/about/", "about"),
    ("/terms/", "legal"),
    ("/unlinked/", "about"),
]


def blog() -> dict[str, str]:
    """Return a home, 40 posts with three tags each, 40 tags, and a few of their lists ordered by title too."""

    def item(number: int, words: int) -> str:
        text = " ".join(f"w{number * 31 + place}" for place in range(words))
        return f'<h2><a href="/post/rye-{number}/">Rye {number}</a></h2><p>{text}</p>'

    tags = {number: [(number * 3 + n * 7) % 40 for n in range(3)] for number in range(40)}
    cloud = "".join(f'<li><a href="/tag/t{tag}x/">Tag {tag}</a></li>' for tag in range(40))
    pages = {"/": f"<h1>Blog</h1><ul>{cloud}</ul>{''.join(item(number, 9) for number in range(8))}"}
    for tag in range(40):
        listed = "".join(item(number, 9) for number in range(40) if tag in tags[number])
        order = f"/tag/t{tag % 8}x/?order=title"
        pages[f"/tag/t{tag}x/"] = f'<h1>Tag {tag}</h1><a href="{order}">by title</a>{listed}'
        pages[order] = pages[f"/tag/t{tag}x/"]
    for number, named in tags.items():
        links = "".join(f'<a href="/tag/t{tag}x/">{tag}</a> ' for tag in named)
        pages[f"/post/rye-{number}/"] = f"<article>{item(number, 90)}</article><p>{links}</p>"
    return {path: f"<html><body>{body}</body></html>" for path, body in pages.items()}


def llm_settings(llm: FakeLLM) -> dict[str, object]:
    return {"LLM_PROVIDER": "openai", "LLM_BASE_URL": llm.base_url}


class Crawled(NamedTuple):
    outcome: Outcome
    site: MockSite
    llm: FakeLLM


@pytest.fixture(scope="module")
def labelled(tmp_path_factory):
    with MockSite().in_thread() as site, FakeLLM(label_by_url(LABELS, "homepage")).in_thread() as llm:
        return Crawled(explore(tmp_path_factory.mktemp("labelled"), site.url(), llm_settings(llm)), site, llm)


@pytest.fixture(scope="module")
def unlabelled(tmp_path_factory):
    with MockSite().in_thread() as site, FakeLLM().in_thread() as llm:
        return Crawled(explore(tmp_path_factory.mktemp("unlabelled"), site.url()), site, llm)


def test_every_page_has_one_line_with_its_type_for_a_few_calls(labelled):
    outcome, site, llm = labelled
    assert outcome.exit_status == 0, outcome.log
    urls = [page["url"] for page in outcome.pages]
    assert len(urls) == len(set(urls))
    assert set(site.measures.hits.values()) == {1}
    products = [page for page in outcome.pages if "/product/" in page["url"]]
    assert len(products) == 30
    assert {page["page_type"] for page in products} == {"product"}
    # How many a template decides hangs on how soon its first verdict comes. What the model is shown is bounded, below.
    assert {page["decided_by"] for page in products} <= {"llm", "structured-data", "template"}
    assert not outcome.error_kinds()
    classified = [document for document in llm.documents if document["task"] == "classify"]
    assert sum(len(document["pages"]) for document in classified) < len(urls) / 2
    assert len(classified) <= 8
    assert "llmcrawler/llm/calls" in outcome.log


def test_a_page_line_tells_what_a_person_wants_to_know(unlabelled):
    outcome, site, llm = unlabelled
    assert llm.calls == 0
    page = [page for page in outcome.pages if "/product/" in page["url"]][-1]
    assert page["status"] == 200
    assert page["depth"] >= 1
    assert page["referer"].startswith(site.url())
    assert page["title"]
    assert page["text"]
    assert len(page["content_hash"]) == 64
    assert page["latency_seconds"] >= 0
    assert page["fetched_at"].startswith("20")
    assert "content" not in page


def test_every_page_line_names_a_template_line_by_its_id_or_an_alias(unlabelled):
    outcome = unlabelled.outcome
    ids = [name for template in outcome.templates for name in (template["template"], *template["aliases"])]
    assert len(ids) == len(set(ids))
    assert {page["template"] for page in outcome.pages if page["template"]} <= set(ids)


def test_templates_stand_at_the_end_with_their_examples(labelled):
    outcome = labelled.outcome
    by_type = {template["page_type"]: template for template in outcome.templates}
    assert by_type["product"]["page_count"] == 30
    assert all("/product/" in url for url in by_type["product"]["examples"])
    assert "/product/" in by_type["product"]["url_pattern"]
    assert sum(template["page_count"] for template in outcome.templates) == len(outcome.pages)


async def guide(_request):
    return web.Response(text="# Guide\n\nHow to [start](/start.txt).\n", content_type="text/markdown")


async def start(_request):
    return web.Response(text="Turn the lamp on.", content_type="text/plain")


def test_text_is_read_and_links_to_files_are_counted(tmp_path):
    files = "".join(f"<a href={name}>{name}</a> " for name in ("/a.pdf", "/b.pdf", "/b.pdf", "/c.docx", "/d.json"))
    routes: dict[str, Any] = {
        "/": f"<h1>Lamps</h1><a href=/guide.md>Guide</a> {files}",
        "/guide.md": guide,
        "/start.txt": start,
    }
    with MockSite(routes).in_thread() as site:
        outcome = explore(tmp_path, site.url("/"), allow=r"\.(md|txt)$")
    assert [page["title"] for page in outcome.pages if page["url"].endswith("/guide.md")] == ["Guide"]
    assert outcome.page("/start.txt")["text"] == "Turn the lamp on."
    assert len(outcome.pages) == 3
    assert "Links to files, not fetched: .pdf 2, .docx 1, .json 1" in outcome.log


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/odd/missing", "http_404"),
        ("/odd/500", "http_500"),
        ("/odd/503", "http_503"),
        ("/odd/paper", "not_html"),
        ("/odd/lying-image", "not_html"),
        ("/odd/empty", "empty"),
        ("/odd/too-large", "too_large"),
        ("/odd/gzip-bomb", "too_large"),
        ("/odd/reset", "connection"),
        ("/odd/truncated", "truncated"),
        ("/odd/slow", "timeout"),
        ("/odd/other-host", "redirect_offsite"),
    ],
)
def test_each_fault_is_a_line_with_its_kind(odd_outcome, path, kind):
    error = odd_outcome.page(path)["error"]
    assert (error["stage"], error["kind"]) == ("fetch", kind)
    assert error["message"]
    assert "cleanly" not in error["message"] or kind != "truncated"


@pytest.fixture(scope="module")
def odd_outcome(tmp_path_factory):
    limits = {"DOWNLOAD_TIMEOUT": 2, "RETRY_TIMES": 1, "DOWNLOAD_MAXSIZE": 3_500_000, "THROTTLE_PUT_BACKS": 2}
    with MockSite().in_thread() as site:
        return explore(tmp_path_factory.mktemp("odd"), site.url("/odd/"), limits)


def test_what_can_be_had_after_all_is_a_page(odd_outcome):
    assert odd_outcome.exit_status == 0
    for path in ("/odd/500-once", "/odd/429-once", "/odd/gzip", "/odd/windows-1251", "/odd/huge"):
        assert odd_outcome.page(path)["error"] is None, path
    assert odd_outcome.page("/odd/shift-jis")["title"] == "時計"
    assert odd_outcome.page("/odd/windows-1251")["title"] == "Лампа"


def test_a_redirected_page_stands_under_the_url_that_was_asked_for(odd_outcome):
    page = odd_outcome.page("/odd/moved")
    assert page["error"] is None
    assert page["final_url"].endswith("/about/?moved=1")
    assert odd_outcome.page("/odd/meta-refresh")["final_url"].endswith("/terms/?refreshed=1")


def test_a_redirect_loop_ends_as_an_error(tmp_path, site):
    outcome = explore(tmp_path, site.url("/odd/loop-a"), depth=0)
    assert outcome.error_kinds() == {"redirect_loop": 1}


@pytest.mark.parametrize(
    ("url", "kind"),
    rest_by_night(
        [
            ("http://127.0.0.1:9/", "refused"),
            ("http://no-such-host.invalid/", "dns"),
        ]
    ),
)
def test_a_site_that_is_not_there_is_a_line_too(tmp_path, url, kind):
    outcome = explore(tmp_path, url, {"RETRY_TIMES": 0})
    assert outcome.error_kinds() == {kind: 1}
    assert outcome.exit_status == ExitStatus.UNREACHABLE


def test_sitemaps_of_robots_txt_are_a_source_of_links(unlabelled):
    outcome = unlabelled.outcome
    for path in UNLINKED:
        assert outcome.page(path)["error"] is None
    assert not [page for page in outcome.pages if page["url"].endswith(".xml")]


@pytest.mark.parametrize("trap", rest_by_night(["calendar", "facets", "session"]))
def test_traps_do_not_eat_the_crawl(tmp_path, site, trap):
    outcome = explore(tmp_path, site.url(f"/trap/{trap}/"), max_pages=2000)
    assert len(outcome.pages) < 1000
    assert outcome.exit_status == 0


@pytest.mark.parametrize("batch_pages", rest_by_night([64, 7]))
def test_waiting_for_large_batches_of_large_pages_does_not_hang(tmp_path, site, batch_pages):
    settings = {"LLM_BATCH_PAGES": batch_pages, "SCRAPER_SLOT_MAX_ACTIVE_SIZE": 2_000_000}
    with FakeLLM().in_thread() as llm:
        outcome = explore(tmp_path, site.url("/large/"), llm_settings(llm) | settings, max_pages=20)
    assert len(outcome.pages) == 20
    assert outcome.exit_status == 0


def test_own_page_types_are_what_the_model_chooses_from(tmp_path, site):
    types = tmp_path / "types.json"
    types.write_text(json.dumps({"thing": "Something for sale", "rest": "All else"}))
    with FakeLLM(label_by_url([("/product/", "thing")], "rest")).in_thread() as llm:
        outcome = explore(tmp_path, site.url(), llm_settings(llm), page_types=types)
    assert {page["page_type"] for page in outcome.pages} == {"thing", "rest"}
    assert [label["name"] for label in llm.documents[0]["labels"]] == ["thing", "rest"]


def test_a_model_that_is_broken_ends_a_crawl_before_its_first_line(tmp_path, site):
    (tmp_path / "feed.jsonl").write_text('{"kind": "page", "url": "of last night"}\n', encoding="utf-8")
    with FakeLLM(refuse=lambda _body: (401, "bad key sk-secret-123")).in_thread() as llm:
        settings = llm_settings(llm) | {"LLM_API_KEY": "sk-secret-123", "JOBDIR": tmp_path / "job"}
        refused = explore(tmp_path, site.url(), settings)
    assert refused.exit_status == 1
    assert [page["url"] for page in refused.pages] == ["of last night"]
    assert "LLM_API_KEY was refused" in refused.log
    assert "LLM_OPTIONAL=True" in refused.log
    assert "Traceback" not in refused.log
    assert "sk-secret-123" not in refused.log


def test_a_broken_model_that_is_optional_costs_verdicts_and_no_pages(tmp_path, site):
    with FakeLLM(refuse=lambda _body: (401, "bad key sk-secret-123")).in_thread() as llm:
        settings = llm_settings(llm) | {"LLM_API_KEY": "sk-secret-123", "LLM_OPTIONAL": True}
        outcome = explore(tmp_path, site.url(), settings)
    assert outcome.exit_status == 0
    assert len(outcome.pages) > 40
    assert set(outcome.error_kinds()) == {"llm_unavailable"}
    classified = [page for page in outcome.pages if page["error"] and page["error"]["stage"] == "classify"]
    assert {page["decided_by"] for page in classified} <= {"classifier", "rule"}
    assert "sk-secret-123" not in outcome.log + json.dumps(outcome.items)
    assert "LLM_API_KEY" in outcome.log


def test_a_page_that_nobody_can_classify_takes_no_other_with_it(tmp_path, site):
    label = label_by_url(LABELS, "homepage")

    def answer(document):
        if document["task"] == "induce":
            return label(document)
        return {
            "pages": [
                verdict
                for verdict, page in zip(label(document)["pages"], document["pages"], strict=True)
                if "/login/" not in page["url"]
            ]
        }

    with FakeLLM(answer).in_thread() as llm:
        outcome = explore(tmp_path, site.url(), llm_settings(llm))
    failed = outcome.page("/login/")["error"]
    assert (failed["stage"], failed["kind"]) == ("classify", "bad_answer")
    assert outcome.error_kinds() == {"bad_answer": 1}
    assert {page["page_type"] for page in outcome.pages if "/product/" in page["url"]} == {"product"}


def test_wrong_usage_is_named_before_the_first_request(tmp_path, site):
    outcome = explore(tmp_path, site.url(), max_page=5)
    assert outcome.exit_status == 2
    assert "no argument 'max_page': did you mean max_pages?" in outcome.log
    assert "Traceback" not in outcome.log
    assert site.measures.hits.total() == 0


@pytest.mark.nightly
def test_ctrl_c_while_a_crawl_is_being_opened_ends_it(tmp_path, site):
    feed = tmp_path / "feed.jsonl"
    settings = {"EXTENSIONS": '{"tests.e2e.extensions.SlowOpening": 1}', "JOBDIR": tmp_path / "job"}
    crawl = subprocess.Popen(
        command({"url": site.url()}, settings, feed), cwd=ROOT, env=environment(), stderr=subprocess.PIPE, text=True
    )
    assert crawl.stderr is not None
    assert any("still being opened" in line for line in iter(crawl.stderr.readline, ""))
    crawl.send_signal(signal.SIGINT)
    log = rest_of_log(crawl)
    assert crawl.returncode == ExitStatus.INTERRUPTED, log
    assert "Traceback" not in log
    assert "Stopping: waiting for" in log
    assert warm.run(command({"url": site.url()}, settings, feed)[3:], environment(), TIMEOUT_SECONDS).returncode == 0
    assert len(feed.read_text().splitlines()) > 10


@pytest.mark.nightly
def test_posts_come_before_archives_and_the_next_run_brings_all_pages(tmp_path):
    async def no_robots(_: web.Request) -> web.Response:
        return web.Response(status=404)

    pages = blog()
    with MockSite({**pages, "/robots.txt": no_robots}).in_thread() as site:
        # One at a time: with more, those that were queued before the lists were known make most of the first run.
        settings = {"JOBDIR": tmp_path / "job", "CONCURRENT_REQUESTS": 1}
        first = explore(tmp_path, site.url(), {**settings, "CLOSESPIDER_PAGECOUNT": 30})
        whole = explore(tmp_path, site.url(), settings)
    found = [page["url"].removeprefix(site.url("/")) for page in first.pages]
    assert len(found) < len(pages) // 2
    # As they are linked, the home page and 29 tags would come first.
    assert sum("post/" in path for path in found) >= len(found) / 4, found
    assert not any("order=" in path for path in found)
    assert sorted(page["url"] for page in whole.pages) == sorted(site.url(path) for path in pages)
