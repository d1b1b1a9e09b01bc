"""What the tools answer to the SDK's own client, and to one that means harm: in one process, with pretended crawls."""

from __future__ import annotations

import json
import re
from contextlib import closing

import pytest

pytest.importorskip("mcp")

from anyio.from_thread import start_blocking_portal
from mcp import Client

from llmcrawler.api import python_crawl
from llmcrawler.core.storage import open_job_file
from llmcrawler.core.urls.private_addresses import NameLookup
from llmcrawler.items import Page, PageError
from llmcrawler.server.jobs import JobLimits, Jobs
from llmcrawler.server.mcp_tools import _size, build_server
from tests.server.conftest import resolve
from tests.server.stored_jobs import write_pages

pytestmark = pytest.mark.server
TOOLS = (
    *("plan", "start_crawl", "crawl_progress", "stop_crawl", "query_records", "query_pages"),
    *("read_page", "map_site", "extract_url", "templates"),
)
SHOP = "https://1.1.1.1/exit/0"
# Tokenizers give up to one for each byte of these.
ODD_SIGNS = ("\U0002a6d6", "\U00012023", "\u0236", "a\u0345", "\ud55c", "~`", "\x01", "\U0001f9ff\u200d")


class Tools:
    """The tools of a server, called one after the other."""

    def __init__(self, portal, client, jobs):
        self._portal, self._client, self.jobs = portal, client, jobs

    def ask(self, name, **arguments):
        return self._portal.call(self._client.call_tool, name, arguments)

    def __call__(self, name, **arguments):
        """Return a good answer: what is told to programs is told to models too."""
        result = self.ask(name, **arguments)
        (content,) = result.content
        assert not result.is_error, content.text
        assert json.loads(content.text) == result.structured_content
        return result.structured_content

    def listed(self):
        return self._portal.call(self._client.list_tools).tools

    @property
    def instructions(self):
        return self._client.instructions


@pytest.fixture(scope="module")
def tools(tmp_path_factory):
    jobs = Jobs(tmp_path_factory.mktemp("mcp") / "jobs", JobLimits(), NameLookup(resolve=resolve))
    with pytest.MonkeyPatch.context() as patch, start_blocking_portal() as portal:
        patch.setattr(python_crawl, "_CHILD", "tests.server.pretended_job")
        portal.call(jobs.open)
        with portal.wrap_async_context_manager(Client(build_server(jobs))) as client:
            yield Tools(portal, client, jobs)
        portal.call(jobs.close)


@pytest.fixture(scope="module")
def shop(tools):
    """A crawl with 30 products and a page that was not there."""
    job = tools.jobs.get(tools("start_crawl", url=SHOP)["job"])
    pages = [
        Page(
            f"https://shop.test/{number}",
            page_type="product",
            title=f"Thing {number}",
            text=f"# Thing {number}\n\n" + "word “quoted” " * 4_000 * (number == 1),
            record={"title": f"Thing {number}", "price": number, "note": None, "text": "long " * 1_000 * (number > 10)},
            status=200,
        )
        for number in range(1, 31)
    ]
    pages.append(Page("https://shop.test/gone", status=404, error=PageError("fetch", "http_404", "404 Not Found")))
    huge = {f"field {number}": ["value " * 300] * 100 for number in range(100)}
    pages += [Page(f"https://shop.test/odd/{number}", text=sign * 30_000) for number, sign in enumerate(ODD_SIGNS)]
    pages.append(Page("https://shop.test/huge", page_type="table", title="t" * 5_000, record=huge))
    job.jobdir.mkdir()
    with closing(open_job_file(job.jobdir / "crawl.sqlite")) as connection:
        write_pages(connection, pages)
    selectors = [
        {"field": "price", "css": ".price"},
        {"field": "price", "xpath": "//b"},
        {"field": "title", "css": "h1"},
    ]
    learned = [
        {"template": f"t{number}", "page_type": "product", "page_count": number, "selectors": selectors * 50}
        for number in range(20)
    ]
    sites = {"shop.test": learned, "other.test": [{"template": "secret"}]}
    stored = {"format": "llmcrawler-templates", "version": 1, "sites": sites, "state": dict.fromkeys(sites, "")}
    tools.jobs.templates_file.write_text(json.dumps(stored))
    return job.id


def test_the_list_of_tools_says_what_each_does_in_few_tokens(tools):
    listed = tools.listed()
    assert tuple(tool.name for tool in listed) == TOOLS
    told = [tool.model_dump_json(by_alias=True, exclude_none=True) for tool in listed]
    assert len("".join(told)) / 3.5 < 2_500
    for tool in listed:
        assert tool.description
        assert len(tool.description) < 150
        assert tool.input_schema["additionalProperties"] is False
        assert tool.output_schema["properties"]
        assert tool.annotations.read_only_hint is not None
        assert tool.annotations.open_world_hint is not None
    reading = {tool.name for tool in listed if tool.annotations.read_only_hint}
    assert reading == {"crawl_progress", "query_records", "query_pages", "templates"}
    assert "max_pages=100 (at most 1000)" in tools.instructions
    assert len(tools.instructions) < 700


def test_a_crawl_is_started_watched_listed_and_stopped(tools):
    done = tools("start_crawl", url=SHOP, goal=["product"], budget={"max_pages": 3}, deny=None)
    assert (done["state"], done["cause"]) == ("finished", "so it is: 0")
    job = tools.jobs.get(done["job"])
    assert (job.origin, job.arguments, job.budget.max_pages) == ("mcp", {"url": SHOP, "goal": ["product"]}, 3)
    running = tools("start_crawl", url="https://1.1.1.1/wait", wait_seconds=0)
    assert running["state"] in ("queued", "running")
    listed = tools("crawl_progress")["jobs"][0]
    assert (listed["job"], listed["url"]) == (running["job"], ["https://1.1.1.1/wait"])
    assert tools("stop_crawl", job=running["job"])["state"] == "stopped"


def test_records_come_with_their_source_and_in_slices(tools, shop):
    few = tools("query_records", job=shop, page_type="product", where={"price": "<=3"}, fields=["price", "note"])
    assert few["rows"] == [{"url": f"https://shop.test/{n}", "record": {"price": n}} for n in (1, 2, 3)]
    assert "next" not in few
    assert tools("query_records", job=shop, where={"price": 4})["rows"][0]["page_type"] == "product"
    found, cursor = [], 0
    while cursor is not None:
        part = tools("query_records", job=shop, page_type="product", cursor=cursor, limit=20)
        assert _size(part) < 30_000
        found += part["rows"]
        cursor = part.get("next")
    assert [row["record"]["price"] for row in found] == [*range(1, 31)]
    assert len(found[-1]["record"]["text"]) == 1_001


def test_pages_are_listed_with_the_fields_asked_for(tools, shop):
    (gone,) = tools("query_pages", job=shop, where={"status": 404})["rows"]
    assert gone == {"url": "https://shop.test/gone", "status": 404, "error": "http_404: 404 Not Found"}
    first = tools("query_pages", job=shop, fields=["text", "record.price"], limit=1)
    assert first["rows"][0]["record.price"] == 1
    assert len(first["rows"][0]["text"]) == 1_001
    assert first["next"] == 1


def test_a_row_that_is_too_large_is_cut_or_says_so(tools, shop):
    (cut,) = tools("query_pages", job=shop, page_type="table")["rows"]
    assert cut["title"] == "t" * 1_000 + "…"
    (row,) = tools("query_records", job=shop, page_type="table")["rows"]
    assert row["note"] == "this row is too large: name fewer fields"
    (row,) = tools("query_records", job=shop, page_type="table", fields=["field 1"])["rows"]
    assert len(row["record"]["field 1"]) == 100


def test_a_page_is_read_in_parts(tools, shop):
    parts, offset = [], 0
    while offset is not None:
        part = tools("read_page", job=shop, url="https://shop.test/1", offset=offset)
        assert part["source"] == "https://shop.test/1"
        assert _size(part) < 30_000
        parts.append(part["text"])
        offset = part.get("next")
    assert len(parts) > 2
    assert "".join(parts) == "# Thing 1\n\n" + "word “quoted” " * 4_000
    assert tools("read_page", job=shop, url="https://shop.test/1", offset=10**9)["text"] == ""


@pytest.mark.parametrize("number", range(len(ODD_SIGNS)))
def test_no_page_makes_an_answer_of_more_than_20_000_tokens(tools, shop, number):
    part = tools("read_page", job=shop, url=f"https://shop.test/odd/{number}")
    assert len(json.dumps(part, ensure_ascii=False).encode()) <= 20_000
    assert part["next"] == len(part["text"]) > 1_000
    rows = tools("query_pages", job=shop, fields=["text"], where={"url": "~/odd/"})
    assert len(json.dumps(rows, ensure_ascii=False).encode()) <= 20_000


def test_templates_are_those_of_the_crawl_with_their_selectors(tools, shop):
    found, cursor = [], 0
    while cursor is not None:
        part = tools("templates", job=shop, cursor=cursor)
        found += part["rows"]
        cursor = part.get("next")
    assert [row["template"] for row in found] == [f"t{number}" for number in reversed(range(20))]
    assert found[0]["selectors"]["price"][:2] == [".price", "//b"]
    assert found[0]["site"] == "shop.test"


# Which addresses are private, which arguments and budgets too large: test_jobs.py.
PRIVATE = ("http://127.0.0.1/", "http://inside.test/")
OTHERS = ("../../etc", "..", "0" * 24, "0" * 10_000, "a\u0000b", "templates.json")
OF_JOBS = ("stop_crawl", "query_records", "query_pages", "templates")
HOSTILE = [
    *(
        (name, {"url": url}, "private")
        for name in ("start_crawl", "plan", "read_page", "extract_url", "map_site")
        for url in PRIVATE
    ),
    ("start_crawl", {"url": ""}, "url=|no start URL"),
    *((name, {"url": "file:///etc/passwd"}, "url=") for name in ("plan", "read_page", "extract_url", "map_site")),
    *(
        ("start_crawl", {"url": url}, "url")
        for url in ("https://shop.test/" + "a" * 3_000, "https://shop.test/\n", "-s")
    ),
    *((name, {"job": job}, "there is no job") for name in OF_JOBS for job in OTHERS),
    *(("crawl_progress", {"job": job, "wait_seconds": 0}, "there is no job") for job in OTHERS),
    *(
        (name, {"url": SHOP, "job": job}, "there is no job")
        for name in ("read_page", "extract_url")
        for job in OTHERS[:3]
    ),
    ("map_site", {"job": "../.."}, "there is no job"),
    *(
        ("start_crawl", {"url": SHOP, name: "1"}, f"start_crawl has no argument '{name}'")
        for name in ("settings", "JOBDIR", "urls", "spider")
    ),
    ("query_pages", {"job": "a", "after": 1}, "query_pages has no argument 'after'"),
    ("shell", {"command": "id"}, "Unknown tool: shell"),
    ("start_crawl", {}, "url: Field required"),
    ("start_crawl", {"url": 5}, "url: Input should be a valid string"),
    ("start_crawl", {"url": [SHOP]}, "url: Input should be a valid string"),
    ("start_crawl", {"url": SHOP, "budget": {"max_pages": 1_001}}, "max_pages=1001 is more than a job may have here"),
    ("plan", {"url": SHOP, "budget": {"max_pages": 10**9}}, "max_pages=1000000000 is more than"),
    ("start_crawl", {"url": SHOP, "wait_seconds": 10**9}, "wait_seconds: Input should be less than or equal to 45"),
    ("start_crawl", {"url": SHOP, "allow": "("}, "is not a regular expression"),
    ("start_crawl", {"url": SHOP, "depth": "x"}, "depth: Input should be a valid integer"),
    ("start_crawl", {"url": SHOP, "goal": ["a"] * 60_000}, "the arguments have more than 100,000 bytes"),
    ("start_crawl", {"url": SHOP, "schema": "/etc/passwd"}, "schema: Input should be a valid"),
    ("start_crawl", {"url": SHOP, "schema": {"$ref": "file:///etc/passwd"}}, "ref"),
    ("start_crawl", {"url": SHOP, "schema": {"properties": {}}, "fields": ["title"]}, "schema"),
    ("extract_url", {"url": SHOP, "schema": {"a": "b" * 100_000}}, "the arguments have more than 100,000 bytes"),
    ("extract_url", {"url": SHOP, "fields": ["price:nothing"]}, "nothing"),
    ("query_records", {"job": "a", "limit": 0}, "limit: Input should be greater than or equal to 1"),
    ("query_records", {"job": "a", "limit": 10**6}, "limit: Input should be less than or equal to 500"),
    ("query_records", {"job": "a", "cursor": -1}, "cursor: Input should be greater than or equal to 0"),
    ("query_records", {"job": "a", "where": "1=1; DROP TABLE pages"}, "where: Input should be a valid"),
    ("query_pages", {"job": "a", "fields": ["html"]}, "fields: no 'html': there are "),
    ("read_page", {"url": SHOP, "offset": -5}, "offset: Input should be greater than or equal to 0"),
    ("map_site", {}, "no start URL"),
    ("map_site", {"url": SHOP, "match": "["}, "is not a regular expression"),
]


@pytest.mark.parametrize(("name", "arguments", "told"), HOSTILE, ids=range(len(HOSTILE)))
def test_what_may_not_be_asked_for_gives_an_error_for_the_model(tools, name, arguments, told):
    before = len(tools.jobs.all())
    result = tools.ask(name, **arguments)
    assert result.is_error
    (content,) = result.content
    assert re.search(told, content.text), content.text
    assert len(content.text) < 1_200
    assert str(tools.jobs.folder) not in content.text
    assert "Traceback" not in content.text
    assert len(tools.jobs.all()) == before


def test_places_far_behind_the_end_are_empty(tools, shop):
    assert tools("query_records", job=shop, cursor=2**62)["rows"] == []
    assert tools("templates", job=shop, cursor=2**62)["rows"] == []


@pytest.mark.parametrize("where", [{"price": ">cheap"}, {"price": {"$gt": 0}}, {"a" * 1_000: "b"}, {"price": ["1"]}])
def test_odd_filters_find_nothing_or_say_why(tools, shop, where):
    result = tools.ask("query_records", job=shop, where=where)
    if result.is_error:
        assert result.content[0].text.endswith("'>cheap' compares with no number")
    else:
        assert result.structured_content["rows"] == []


def test_pages_of_another_crawl_are_not_shown(tools, shop):
    other = tools("start_crawl", url=SHOP)["job"]
    result = tools.ask("read_page", job=other, url="https://shop.test/1")
    assert result.is_error
    assert result.content[0].text == f"job {other} has no page https://shop.test/1: so it is: 0"
    assert tools("query_records", job=other)["rows"] == []


def test_nothing_is_written_outside_of_the_jobs_folder(tools, shop):
    assert [path.name for path in tools.jobs.folder.parent.iterdir()] == ["jobs"]
