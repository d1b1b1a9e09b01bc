"""Pages for people: who may see them, that strangers' texts stay texts, and what forms do."""

from __future__ import annotations

import shutil
import socket
import threading
from contextlib import contextmanager
from typing import Any

import httpx
import pytest
import uvicorn
from lxml.html import document_fromstring
from playwright.sync_api import sync_playwright

from llmcrawler.core.storage import replace_file
from tests.e2e.browsing import BROWSER, needs_browser
from tests.server.job_site import HOSTILE, ID, TOKEN, app_of, make_jobs

HOST = "http://127.0.0.1:8000"
FORM = {"correct": "selector", "site": "shop.example", "template": "t1", "language": "css", "type": ""}


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    return make_jobs(tmp_path_factory.mktemp("jobs"))


@pytest.fixture
async def stranger(stored):
    transport = httpx.ASGITransport(app_of(stored))
    async with httpx.AsyncClient(transport=transport, base_url=HOST, headers={"Origin": HOST}) as client:
        yield client


@pytest.fixture
async def client(stranger):
    answer = await stranger.post("/login", data={"token": TOKEN})
    assert answer.status_code == 303
    return stranger


def parsed(text: str) -> Any:
    return document_fromstring(text)


def text_of(element):
    return " ".join(" ".join(element.itertext()).split())


async def test_who_does_not_know_the_token_sees_only_the_form_for_it(stranger, stored):
    for path in ("/", f"/jobs/{ID}", f"/jobs/{ID}/page?url=x", f"/jobs/{ID}/templates"):
        answer = await stranger.get(path)
        assert (answer.status_code, "shop.example" in answer.text) == (401, False)
    assert (await stranger.post(f"/jobs/{ID}/delete")).status_code == 401
    for token in ("", "x", TOKEN + "x", "é"):
        answer = await stranger.post("/login", data={"token": token})
        assert answer.status_code == 401
        assert "This is not the token" in answer.text
        assert "set-cookie" not in answer.headers
    answer = await stranger.post("/login", data={"token": TOKEN})
    cookie = answer.headers["set-cookie"]
    assert {"HttpOnly", "SameSite=strict", "Path=/"} <= {part.strip() for part in cookie.split(";")}
    assert TOKEN not in cookie
    assert (await stranger.get("/")).status_code == 200


@pytest.mark.parametrize("origin", [None, "", "null", "http://evil.example", "http://127.0.0.1:8001"])
async def test_a_form_of_another_site_does_nothing(client, stored, origin):
    before = [job.id for job in stored.all()]
    del client.headers["Origin"]
    headers = {} if origin is None else {"Origin": origin}
    for path in ("/jobs", f"/jobs/{ID}/delete", f"/jobs/{ID}/stop", f"/jobs/{ID}/templates", "/login"):
        answer = await client.post(path, data={"url": "https://1.1.1.1/", **FORM}, headers=headers)
        assert answer.status_code == 403
    assert [job.id for job in stored.all()] == before
    assert not stored.templates_file.read_text().count('"corrections"')


async def test_texts_of_strangers_stay_texts_and_the_browser_runs_only_our_script(client):
    url = {"url": "https://shop.example/p/1/"}
    for path in (
        "/",
        f"/jobs/{ID}",
        f"/jobs/{ID}/page?{httpx.QueryParams(url)}",
        f"/jobs/{ID}/templates",
        "/jobs/%3Cb%3E",
    ):
        answer = await client.get(path)
        document = parsed(answer.text)
        assert [script.get("src") for script in document.iter("script")] == ["/assets/pages.js"]
        assert not list(document.iter("img"))
        assert not [name for one in document.iter() for name in one.attrib if name.startswith("on")]
        assert "49" not in text_of(document).split("7*7")
        policy = answer.headers["Content-Security-Policy"]
        assert policy.startswith("default-src 'none'; style-src 'self' 'sha256-")
        assert "unsafe" not in policy
        assert answer.headers["Referrer-Policy"] == "same-origin"
        if ID in path and "templates" not in path:
            assert "<img src=x onerror=alert(1)> {{ 7*7 }}" in text_of(document)
    assert "unsafe" not in (await client.get("/assets/pages.css")).text


async def test_pages_are_a_table_with_a_next_part_and_a_filter(client):
    first = parsed((await client.get(f"/jobs/{ID}")).text)
    rows = first.xpath("//table//tbody/tr")
    assert [cell.text for cell in first.xpath("//thead//th")] == ["page", "type", "template", "name", "price", "stock"]
    assert len(rows) == 50
    assert text_of(rows[1]) == "Lamp 2 product t0 Lamp 2 12 3"
    assert "60" in text_of(first.xpath("//dl")[0])
    (more,) = first.xpath("//p[@class='pager']/a/@href")
    second = parsed((await client.get(f"/jobs/{ID}{more}")).text)
    assert len(second.xpath("//tbody/tr")) == 10
    assert text_of(second.xpath("//tbody/tr")[-1]).startswith("https://shop.example/of-a-map/ –")
    assert not second.xpath("//p[@class='pager']/a")
    again = parsed((await client.get(f"/jobs/{ID}?after={'9' * 5000}")).text)
    assert len(again.xpath("//tbody/tr")) == 50
    none = parsed((await client.get(f"/jobs/{ID}?type=listing&after=x")).text)
    assert not none.xpath("//tbody/tr")
    assert (await client.get(f"/jobs/{'b' * 24}")).status_code == 404


async def test_a_page_stands_beside_its_record_with_its_elements_marked(client):
    path = f"/jobs/{ID}/page?url=https://shop.example/p/2/"
    document = parsed((await client.get(path)).text)
    (frame,) = document.iter("iframe")
    assert frame.get("sandbox") == ""
    stored = parsed(frame.get("srcdoc"))
    marked = {one.get("data-llmcrawler"): one.text_content() for one in stored.xpath("//*[@data-llmcrawler]")}
    assert marked == {"name": "Lamp 2", "price": "£ 12", "stock": "3 left"}
    assert not list(stored.iter("script", "meta", "base", "link"))[1:]  # the first one says the encoding
    places = document.xpath("//dt/a/@href")
    assert {place.removeprefix("about:srcdoc#") for place in places} <= {*stored.xpath("//@id")}
    assert len(places) == 3
    assert "css p.price" in text_of(document)
    assert (await client.get(f"/jobs/{ID}/page?url=https://shop.example/none/")).status_code == 404
    of_map = parsed((await client.get(f"/jobs/{ID}/page?url=https://shop.example/of-a-map/")).text)
    assert "This page has no record." in text_of(of_map)
    assert not list(of_map.iter("iframe"))


async def test_what_is_corrected_by_forms_is_kept_and_shown(client, stored):
    path = f"/jobs/{ID}/templates"

    async def corrected(**fields):
        answer = await client.post(path, data={**FORM, **fields})
        said = parsed(answer.text).xpath("//p[@role]")
        return answer.status_code, text_of(said[0])

    assert await corrected(field="price", query="b") == (
        200,
        "The selector gives a value on 48 of 50 stored pages: 13; 14; 15.",
    )
    status, told = await corrected(field="price", query="p.none")
    assert (status, told) == (400, "selector: it gives no number on any of 50 stored pages of t1")
    assert (await corrected(field="price", query="b", type="<b>"))[0] == 400
    assert (await corrected(correct="name", field="price", name="amount"))[0] == 200
    assert (await corrected(correct="page_type", page_type="article"))[0] == 200
    assert (await corrected(correct="page_type", page_type="<b>"))[0] == 400
    assert (await corrected(template="t9", field="price", query="b"))[0] == 400
    shown = parsed((await client.get(path)).text)
    assert "article (by a person)" in text_of(shown)
    rows = [text_of(row) for row in shown.xpath("//tbody/tr")]
    assert rows[0] == "amount number 96% – css b person"
    page = parsed((await client.get(f"/jobs/{ID}/page?url=https://shop.example/p/9/")).text)
    (frame,) = page.iter("iframe")
    marked = parsed(frame.get("srcdoc")).xpath("//b/@data-llmcrawler")
    assert marked == ["amount"]
    assert (await corrected(correct="nothing"))[0] == 200
    assert '"corrections"' not in stored.templates_file.read_text()


async def test_a_form_starts_a_job_within_the_limits_and_says_what_is_wrong(client, stored):
    asked = {"url": "https://1.1.1.1/", "goal": "", "fields": "name,price", "max_pages": "7", "max_cost_usd": "0.01"}
    answer = await client.post("/jobs", data=asked)
    assert answer.status_code == 303
    job = stored.get(answer.headers["location"].removeprefix("/jobs/"))
    assert (job.origin, job.arguments) == ("page", {"url": "https://1.1.1.1/", "fields": "name,price"})
    assert (job.budget.max_pages, job.budget.max_cost_usd, job.budget.max_seconds) == (7, 0.01, 900)
    page = parsed((await client.get(answer.headers["location"])).text)
    assert page.xpath("//*[@data-live]"), "its figures are read again while it is not over"
    for wrong, told in (
        ({"max_pages": "100000"}, "at most 1000"),
        ({"max_pages": "many"}, "numbers"),
        ({"url": "http://127.0.0.1/"}, "private"),
        ({"url": HOSTILE.encode("utf-8", "replace").decode()}, "url"),
    ):
        answer = await client.post("/jobs", data={**asked, **wrong})
        document = parsed(answer.text)
        assert (answer.status_code, told in text_of(document.xpath("//p[@role='alert']")[0])) == (400, True)
        assert document.xpath("//input[@name='fields']/@value") == ["name,price"]
    assert (await client.post("/jobs", content=b"url=%ff&" + b"a=1&" * 60)).status_code == 400
    shutil.rmtree(job.folder)


@contextmanager
def served(jobs):
    """The address of a real server of these jobs, on a thread of its own."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        server = uvicorn.Server(uvicorn.Config(app_of(jobs), log_level="critical", lifespan="off"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        listening.listen()
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        server.should_exit = True
        thread.join()


@contextmanager
def browsing(jobs, **screen):
    """A real browser in which somebody has logged in, and the address of the server."""
    with served(jobs) as origin, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=BROWSER, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(**screen)
        page.goto(origin)
        yield page, origin
        browser.close()


def log_in(page):
    page.fill("[name=token]", TOKEN)
    page.click("button")
    page.wait_for_selector("[name=url]")


@needs_browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_axe_finds_nothing_and_no_page_is_wider_than_the_screen(stored, width, scheme):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()

    def check():
        page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
        assert axe.run(page).response["violations"] == []
        assert page.evaluate("document.documentElement.scrollWidth") == width

    with browsing(stored, viewport={"width": width, "height": 900}, color_scheme=scheme) as (page, origin):
        check()
        log_in(page)
        check()
        for path in ("", "/templates", "/page?url=https://shop.example/p/2/"):
            page.goto(f"{origin}/jobs/{ID}{path}")
            check()
        page.click("dt a >> nth=1")
        page.frame_locator("iframe").locator("p.price:target").wait_for()


@needs_browser
def test_figures_are_read_again_until_the_job_has_ended(tmp_path):
    jobs = make_jobs(tmp_path)
    file = jobs.get(ID).folder / "job.json"
    ended = file.read_text()
    file.write_text(ended.replace('"finished"', '"running"'))
    with browsing(jobs) as (page, origin):
        log_in(page)
        page.goto(f"{origin}/jobs/{ID}")
        assert page.query_selector("[data-live]")
        with page.expect_response(lambda answer: "?after=" in answer.url):
            pass
        replace_file(file, ended.encode())
        page.wait_for_selector("[data-live]", state="detached")
        assert "finished" in page.inner_text("header")
