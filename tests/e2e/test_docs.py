"""What docs/ tells a reader to type, typed: against a site and a model server on this machine."""

import configparser
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.crawling import FAST, ROOT, TIMEOUT_SECONDS, environment
from tests.e2e.documents import DOCS, NOT_RUN, anchors_of, block, blocks_of, relative_links_of
from tests.e2e.test_records import served
from tests.e2e.test_serve import serving
from tests.servers.fake_llm import FakeLLM
from tests.servers.proxy_server import ProxyServer
from tests.servers.record_sites import make_shop
from tests.servers.redis_server import RedisServer
from tests.servers.serving import all_in_thread
from tests.servers.teacher import answer_from_truth

INDEX = DOCS / "README.md"
PAGES = sorted(set(DOCS.glob("*.md")) - {INDEX})
README = ROOT / "README.md"
# Where the docs say that something is, and a test has it elsewhere.
SITE, CHECKOUT = "https://shop.example", "/srv/llmcrawler"


@pytest.fixture(scope="module")
def site():
    shop = make_shop(20)
    with served(shop).in_thread() as server, FakeLLM(answer_from_truth(shop.truth())).in_thread() as llm:
        yield server.url("").rstrip("/"), llm.base_url


@pytest.fixture
def reader(tmp_path, site):
    return Reader(tmp_path, *site)


@pytest.fixture
def reader_without_a_model(tmp_path, site):
    """It is half as slow: the package of OpenAI's takes a second to load."""
    return Reader(tmp_path, site[0], None)


class Reader:
    """Somebody who types what the docs say, in a checkout of the project, with a key for a model server."""

    def __init__(self, folder: Path, site: str, llm: str | None) -> None:
        self.folder = folder
        self.places = {SITE: site, CHECKOUT: str(folder)}
        for name in ("llmcrawler", "scrapy.cfg"):
            (folder / name).symlink_to(ROOT / name)
        activate = folder / ".venv" / "bin" / "activate"
        activate.parent.mkdir(parents=True)
        activate.write_text(":\n")
        fast = FAST | {"LLM_PROVIDER": "none" if llm is None else "auto"}
        (folder / "fast.py").write_text(f"from llmcrawler.settings import *\nglobals().update({fast!r})\n")
        self._environment = {
            **environment(),
            "PYTHONWARNINGS": "",
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(folder),
            "SCRAPY_SETTINGS_MODULE": "fast",
            "OPENAI_BASE_URL": llm or "",
            "OPENAI_API_KEY": "sk-none",
        }

    def as_here(self, text: str) -> str:
        for there, here in self.places.items():
            text = text.replace(there, here)
        return text

    def write(self, name: str, text: str) -> None:
        (self.folder / name).write_text(self.as_here(text), encoding="utf-8")

    def forget_settings(self) -> None:
        """Have commands use the settings of the folder that they are typed in, as they do for everybody."""
        del self._environment["SCRAPY_SETTINGS_MODULE"]
        self._environment |= {"PYTHONPATH": str(ROOT), "XDG_CACHE_HOME": str(self.folder / "cache")}

    def run(self, text: str) -> "subprocess.CompletedProcess[str]":
        """The commands of a block, in their order, to the first that fails."""
        return subprocess.run(
            ["sh", "-e", "-c", self.as_here(text)],
            cwd=self.folder,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_SECONDS,
            check=False,
        )

    def read(self, page: str) -> "list[subprocess.CompletedProcess[str]]":
        """Make the files of a page, and run its commands in their order; all of them succeed."""
        ran = []
        for one in blocks_of(DOCS / page):
            if one.is_file:
                self.write(one.name, one.text)
            if one.is_run:
                ran.append(self.run(one.text))
                assert ran[-1].returncode == 0, f"{one.text}\n{ran[-1].stdout[-1000:]}{ran[-1].stderr[-3000:]}"
        return ran

    def items(self, feed: str) -> list[dict[str, object]]:
        return [json.loads(line) for line in (self.folder / feed).read_text(encoding="utf-8").splitlines()]

    def pages(self, feed: str) -> list[dict[str, object]]:
        return [line for line in self.items(feed) if line["kind"] == "page"]


def test_own_schema(reader):
    _crawl, shown = reader.read("own-schema.md")
    records = [page["record"] for page in reader.pages("products.jsonl") if page["record"]]
    assert len(records) > 5
    assert all(set(record) <= {"title", "price", "sku", "images"} for record in records)
    assert any(isinstance(record["price"], float) for record in records)
    assert "price" in shown.stdout


@pytest.mark.nightly
def test_own_page_types(reader):
    _first, counted, _again = reader.read("own-page-types.md")
    types = {page["page_type"] for page in reader.pages("pages.jsonl") if not page["error"]}
    assert {"product", "review_form"} <= types <= {"product", "review_form", "listing", "legal", "other"}
    assert "'review_form'" in counted.stdout


@pytest.mark.nightly
def test_own_stage(reader_without_a_model):
    reader = reader_without_a_model
    *_, status = reader.read("own-stage.md")
    fine = [page for page in reader.pages("pages.jsonl") if not page["error"]]
    assert all(page["results"]["words"] == len(page["text"].split()) for page in fine)
    assert "words" in status.stdout


@pytest.mark.nightly
def test_a_nightly_schedule_by_script_by_cron_and_by_systemd(reader_without_a_model):
    reader = reader_without_a_model
    reader.read("schedules.md")
    (feed,) = (reader.folder / "feeds").iterdir()
    assert {page["change"] for page in reader.pages(feed)} == {"new"}
    feed.unlink()
    (crontab,) = (one.text for one in blocks_of(DOCS / "schedules.md") if one.language == "cron")
    *fields, command = crontab.splitlines()[-1].split(" ", 5)
    assert all(re.fullmatch(r"[\d*,/-]+", field) for field in fields)
    night = reader.run(command)
    assert (night.stdout, night.stderr) == ("", "")  # so that cron sends no mail
    assert {page["change"] for page in reader.pages(feed)} == {"unchanged"}
    unit = configparser.ConfigParser(interpolation=None)
    setattr(unit, "optionxform", str)  # noqa: B010 (names keep their case; it is typed as a method)
    unit.read(reader.folder / "llmcrawler-shop.service")
    assert unit["Service"]["ExecStart"] == f"{reader.folder}/nightly.sh"
    reader.write("nightly.sh", block("schedules.md", "nightly.sh").replace(SITE, "http://127.0.0.1:9"))
    down = reader.run(command.replace("shop.log", "down.log").replace("nightly.sh", "nightly.sh --"))
    assert "ended with 2" in down.stdout  # other arguments than before


@pytest.mark.nightly
def test_monitoring(reader):
    _crawl, shown = reader.read("monitoring.md")
    assert 'llmcrawler_exit_status{crawl="' in (reader.folder / "shop.prom").read_text()
    assert '"name": "page"' in (reader.folder / "spans.json").read_text()
    assert "Exit status 0: finished" in shown.stdout


@pytest.mark.nightly
def test_bot_auth(reader_without_a_model):
    made, headers, _crawl = reader_without_a_model.read("bot-auth.md")
    assert "keyid: " in made.stdout
    assert headers.stdout.startswith("Content-Type: application/http-message-signatures-directory+json\n")
    assert len(reader_without_a_model.pages("pages.jsonl")) == 5


@pytest.mark.nightly
def test_campaigns(reader_without_a_model):
    reader = reader_without_a_model
    (ran,) = reader.read("campaigns.md")
    assert ran.stdout.count("shops: 1 site: 1 done") == 2
    (feed,) = (reader.folder / "shops" / "pages").glob("site=*/pages.jsonl")
    assert len(reader.pages(str(feed))) >= 15


@pytest.mark.nightly
def test_workers(reader_without_a_model, tmp_path_factory):
    reader = reader_without_a_model
    with RedisServer(tmp_path_factory.mktemp("redis")) as redis:
        reader.places["redis://localhost:6379/0"] = redis.url
        _crawl, watched, deleted = reader.read("workers.md")
    assert re.search(r"shop in redis.*: finished", watched.stdout)
    assert "shop in redis://127.0.0.1" in watched.stdout
    assert "report.html: 10 pages" in watched.stdout
    assert deleted.stdout.startswith("shop: deleted 10 pages done, ")


@pytest.mark.nightly
def test_troubleshooting(reader_without_a_model):
    reader = reader_without_a_model
    status, parsed, *_ = reader.read("troubleshooting.md")
    assert "collection" in status.stdout
    assert '"kind": "page"' in parsed.stdout or "'kind': 'page'" in parsed.stdout


@pytest.mark.nightly
def test_feeds_of_each_kind_and_a_report_of_one(reader_without_a_model):
    reader = reader_without_a_model
    reader.read("feeds.md")
    assert len(reader.pages("pages.jsonl")) == 15
    assert all((reader.folder / feed).exists() for feed in ("docs.jsonl", "site/index.jsonl", "pages.parquet"))
    assert (reader.folder / "products.csv").read_text(encoding="utf-8").startswith("url,page_type,name,price,tags\n")
    assert len((reader.folder / "rights.csv").read_text(encoding="utf-8").splitlines()) == 1 + 15
    reader.read("report.md")
    assert "crawl report</title>" in (reader.folder / "report.html").read_text(encoding="utf-8")


@pytest.mark.nightly
def test_archives(reader_without_a_model):
    reader = reader_without_a_model
    reader.read("archives.md")
    assert len(reader.pages("pages.jsonl")) == 15
    assert (reader.folder / "site.warc.gz").read_bytes().startswith(b"\x1f\x8b")
    assert len(reader.pages("again.jsonl")) == 15
    lines = (reader.folder / "lines" / "part-00000-00000.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["error"] for line in lines] == [None] * 15


@pytest.mark.nightly
def test_extract(reader_without_a_model):
    reader = reader_without_a_model
    reader.read("extract.md")
    assert [page["error"] for page in reader.pages("pages.jsonl")] == [None, None]


@pytest.mark.nightly
def test_map(reader_without_a_model):
    reader = reader_without_a_model
    reader.read("map.md")
    assert '"kind": "url"' in (reader.folder / "urls.jsonl").read_text(encoding="utf-8")


@pytest.mark.nightly
def test_server(reader_without_a_model):
    reader = reader_without_a_model
    with serving(reader.folder / "jobs", "--allow-private") as server:
        reader.places["http://127.0.0.1:8787/"] = server.url
        asked = reader.run(block("server.md", "client"))
        assert asked.returncode == 0, asked.stderr
        job = json.loads((reader.folder / "job.json").read_text())
        assert job["arguments"] == {"url": reader.places[SITE], "goal": "product"}
        assert server.ended(job)["state"] == "finished"
        assert len(server.lines(job, "records?where=price:%3E50")) > 5


@pytest.mark.nightly
def test_parts(reader):
    """A stranger's project has settings of its own."""
    reader.forget_settings()
    proxies = [ProxyServer(), ProxyServer()]
    with all_in_thread(*proxies):
        reader.places |= {f"http://proxy-{number}.example:8080": one.url for number, one in enumerate(proxies, 1)}
        *_, read, crawled, loaded = reader.read("parts.md")
    assert all(len(one.targets) > 5 for one in proxies)
    assert {"url", "html"} == set(reader.items("shop/polite.jsonl")[0])
    understood = reader.items("shop/pages.jsonl")
    assert {"product", "listing"} <= {item["page_type"] for item in understood}
    assert len([item for item in understood if item["record"]]) > 5
    assert len(reader.items("shop/proxied.jsonl")) == len(understood)
    assert "product {'" in read.stdout
    assert read.stdout.endswith("explore\n")
    assert crawled.stdout.count("200 product ") > 2  # of fifteen pages, in whatever order they came
    assert re.search(r"price +float64\n", crawled.stdout)
    assert loaded.stdout.startswith("{'source': 'http")
    kept = reader.items("shop/kept.jsonl")
    assert len(kept) > 5
    (command,) = (one.text for one in blocks_of(DOCS / "parts.md") if 'CrashSafeQueue": 100' in one.text and one.is_run)
    assert f"'llmcrawler/replayed': {len(kept)}" in reader.run(command).stderr
    assert reader.items("shop/kept.jsonl") == kept


def test_commands_that_cannot_run_here_are_at_least_commands():
    for page in PAGES:
        for one in blocks_of(page):
            if one.name == NOT_RUN:
                assert subprocess.run(["sh", "-n", "-c", one.text], check=False).returncode == 0, one.text
                assert all(shlex.split(line) for line in one.text.splitlines())


def test_every_page_has_its_test():
    tests = "".join((Path(__file__).parent / name).read_text("utf-8") for name in ("test_docs.py", "scrapyd_server.py"))
    run = {page for page in PAGES if any(one.is_run for one in blocks_of(page))}
    assert not [page.name for page in run if f'"{page.name}"' not in tests]


def test_every_link_leads_to_a_page_and_a_heading_that_are_there():
    for page in (README, ROOT / "CONTRIBUTING.md", ROOT / "deploy" / "README.md", INDEX, *PAGES):
        for path, heading in relative_links_of(page):
            target = page.parent / path if path else page
            assert target.exists(), f"{page.name}: {path}"
            assert not heading or heading in anchors_of(target), f"{page.name}: {path}#{heading}"


def test_the_index_leads_to_every_page_and_the_readme_to_the_index():
    assert {page.name for page in PAGES} <= {Path(path).name for path, _heading in relative_links_of(INDEX)}
    assert "docs/README.md" in {path for path, _heading in relative_links_of(README)}
