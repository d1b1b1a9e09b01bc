"""Feeds are read back by the libraries that people read them with, whatever the pages were."""

from __future__ import annotations

import csv
import functools
import io
import json
import subprocess
import sys
from dataclasses import asdict, dataclass
from typing import Any, cast
from xml.etree import ElementTree

import pyarrow.parquet as pq
import pytest
import yaml
from langchain_core.documents import Document
from lxml import etree
from scrapy.statscollectors import MemoryStatsCollector
from scrapy.utils.misc import load_object
from scrapy.utils.project import get_project_settings
from scrapy.utils.test import get_crawler

from llmcrawler.core.storage.feeds import parquet_file
from llmcrawler.core.storage.feeds.markdown_files import MarkdownFolder
from llmcrawler.core.storage.feeds.rights_table import RIGHTS_COLUMNS
from llmcrawler.core.understanding.extraction.record_schema import requested_fields
from llmcrawler.core.understanding.extraction.record_table import RecordTable
from llmcrawler.crawl.arguments import ExploreOptions, MapOptions
from llmcrawler.crawl.start_checks import check
from llmcrawler.errors import ConfigError
from llmcrawler.exporters.page_formats import (
    DocumentsExporter,
    MarkdownExporter,
    PagesCsvExporter,
    PagesXmlExporter,
    ParquetExporter,
)
from llmcrawler.exporters.table_formats import RecordsExporter, RightsExporter
from llmcrawler.items import Page, PageError, Template, Url
from llmcrawler.pipelines.stages import FeedPipeline

SITE = "https://a.test"


@dataclass
class Found:
    url: str
    source: str
    priority: float | None = None
    kind: str = "url"


GONE = PageError("fetch", "http_404", "404 Not Found", 2)
NO_RECORD: Any = ["no", "object"]
NO_STATUS: Any = "two hundred"
PAGES = [
    Page(url=f"{SITE}/Lamp", status=200, title="Lamp", text="# Lamp", confidence=1, record={"price": 10, "in": ["x"]}),
    Page(url=f"{SITE}/lamp", status=200, title="a\ud800b", text="half \udc00 pair", record={"price": "ten", "in": "y"}),
    Page(
        url=f"{SITE}/lamp?a=1", title='"quoted"\n---\n: #', text="---\n\x00\u2028---\n", record={"price": {"eur": 1.5}}
    ),
    Page(url=f"{SITE}/con", title="", text="", record={}),
    Page(url=f"{SITE}/{'x' * 200}", title="=1+1", text="long " * 10, record={"price": float("nan"), "é.\ud800": True}),
    Page(url=f"{SITE}/gone", status=404, error=GONE),
    Page(url=f"{SITE}/odd", text="odd", record=NO_RECORD, results={"words": {"a": 1}, "n": 2}),
    Page(url=f"{SITE}/typed", text="typed", status=NO_STATUS, confidence=None, record={"price": 2**70}),
]
TEMPLATE = Template("t1", examples=[f"{SITE}/lamp"])
WITH_TEXT = [page.url for page in PAGES if page.text]


def exported(exporter_class, items=(*PAGES, TEMPLATE), file=None, **options):
    file = file or io.BytesIO()
    exporter = exporter_class(file, **{"encoding": "utf-8", "indent": 0, "fields_to_export": None, **options})
    exporter.start_exporting()
    for item in items:
        exporter.export_item(item)
    exporter.finish_exporting()
    return file


def rows_of(data: bytes) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(data.decode(), newline="")))


def test_documents_load_into_langchain():
    documents = [Document(**json.loads(line)) for line in exported(DocumentsExporter).getvalue().splitlines()]
    assert [document.metadata["source"] for document in documents] == WITH_TEXT
    assert len({document.id for document in documents}) == len(documents)
    lamp, half, *_others = documents
    assert (lamp.page_content, lamp.metadata["record.price"], lamp.metadata["record.in"]) == ("# Lamp", 10, '["x"]')
    assert (half.page_content, half.metadata["title"]) == ("half \ufffd pair", "a\ufffdb")
    assert all(type(value) in (str, int, float, bool) for one in documents for value in one.metadata.values())


def test_markdown_files_have_a_front_matter_that_yaml_reads(tmp_path):
    folder = MarkdownFolder(tmp_path / "site", overwrite=True)
    exported(MarkdownExporter, file=folder)
    folder.close()
    files = {file.name: file.read_text("utf-8") for file in folder.index_path.parent.glob("[!.]*")}
    index = [json.loads(line) for line in files["index.jsonl"].splitlines()]
    notes = {line["url"]: files[line["file"]] for line in index if line["file"]}
    assert len(files) == len(WITH_TEXT) + 1
    assert [line["url"] for line in index] == [page.url for page in PAGES]
    assert list(notes) == WITH_TEXT
    for page in PAGES:
        if page.text:
            _empty, head, text = notes[page.url].split("---\n", 2)
            facts = yaml.safe_load(head)
            assert facts["url"] == page.url
            assert text.strip() == page.text.replace("\udc00", "\ufffd").strip()
    assert yaml.safe_load(notes[f"{SITE}/lamp?a=1"].split("---\n")[1])["title"] == '"quoted"\n---\n: #'


def test_parquet_has_the_same_types_whatever_the_pages_were(caplog):
    table = pq.read_table(exported(ParquetExporter))
    rows = {row["url"]: row for row in table.to_pylist()}
    assert list(rows) == [page.url for page in PAGES]
    assert [json.loads(row["record"] or "null") for row in rows.values()][:3] == [page.record for page in PAGES[:3]]
    assert rows[f"{SITE}/gone"]["error"] == asdict(GONE)
    assert (rows[f"{SITE}/Lamp"]["confidence"], rows[f"{SITE}/typed"]["status"]) == (1.0, None)
    assert "lacks values of status" in caplog.text
    assert table.schema == pq.read_schema(exported(ParquetExporter, items=()))


def test_parquet_holds_one_row_group_in_memory(monkeypatch):
    monkeypatch.setattr(parquet_file, "_GROUP_CHARS", 5_000)
    file = pq.ParquetFile(exported(ParquetExporter, [Page(url=str(number), text="x" * 900) for number in range(50)]))
    assert file.metadata.num_row_groups == 10
    assert file.read(["url"]).column(0).to_pylist() == [str(number) for number in range(50)]


def test_csv_has_a_column_for_each_field_of_any_record():
    rows = rows_of(exported(PagesCsvExporter).getvalue())
    assert [row["url"] for row in rows] == [page.url for page in PAGES]
    assert [row["record.price"] for row in rows] == ["10", "ten", "", "", "", "", "", str(2**70)]
    cells = (rows[2]["record.price.eur"], rows[4]["record.é.\ufffd"], rows[6]["record"])
    assert cells == ("1.5", "True", '["no", "object"]')
    assert (rows[5]["error.kind"], rows[5]["error.attempts"], rows[0]["error.kind"]) == ("http_404", "2", "")
    assert json.loads(rows[6]["results"]) == {"words": {"a": 1}, "n": 2}
    assert rows[2]["text"] == f"'{PAGES[2].text}"  # a spreadsheet would take it for a formula


def test_csv_has_the_columns_that_were_asked_for_without_waiting():
    fields = {"url": "address", "record.price": "price", "record": "all"}
    file = io.BytesIO()
    exporter = PagesCsvExporter(file, fields_to_export=fields, encoding="utf-8")
    exporter.export_item(PAGES[0])
    assert rows_of(file.getvalue()) == [{"address": PAGES[0].url, "price": "10", "all": '{"price": 10, "in": ["x"]}'}]
    exporter.finish_exporting()


def test_csv_that_is_added_to_keeps_its_header_and_says_what_it_has_no_column_for(tmp_path, caplog):
    path = tmp_path / "pages.csv"
    for items in (PAGES[:1], PAGES[1:3]):
        with path.open("ab") as file:
            exported(PagesCsvExporter, items, file)
    rows = rows_of(path.read_bytes())
    assert [row["record.price"] for row in rows] == ["10", "ten", ""]
    assert [row["url"] for row in rows] == [page.url for page in PAGES[:3]]
    assert "no column for record.price.eur" in caplog.text
    path.write_text('"' + "x" * 200_000)
    with path.open("ab") as file, pytest.raises(ConfigError, match="no line that could be a CSV header"):
        PagesCsvExporter(file)


FORMULAS = (
    '=HYPERLINK("http://evil.test")',
    *("+1+1", "-2+3", "@SUM(A1)", "\t=1", "\r=1", "\n=1", " =1", "\uff1d1", "-", "+49 30 1"),
)
PLAIN = ("-5", "+3.2", "-1e5", "-1,234.50", "-.5", "-12%", "5-3", "a=b", "", "'=1", "{=}")


@pytest.mark.parametrize("is_on", [True, False])
def test_what_a_spreadsheet_would_work_out_is_text_in_csv(is_on):
    pages = [Page(url=SITE, title=title, record={"name": title, "amount": -5}) for title in (*FORMULAS, *PLAIN)]
    rows = rows_of(exported(PagesCsvExporter, pages, neutralises=is_on).getvalue())
    shown = [f"'{text}" if is_on else text for text in FORMULAS] + list(PLAIN)
    assert [row["title"] for row in rows] == [row["record.name"] for row in rows] == shown
    assert {row["record.amount"] for row in rows} == {"-5"}


SIGNAL = {"name": "tdmrep", "where": "header", "uses": {"tdm": "no"}, "value": "1"}
SAID = Page(url=f"{SITE}/said", rights={"uses": {"tdm": "no"}, "verdict": "forbidden", "signals": [SIGNAL]})


def test_rights_are_a_table_with_the_same_columns_whatever_was_said():
    rows = rows_of(exported(RightsExporter, (*PAGES, SAID, TEMPLATE, {"url": "mine"}), purpose="tdm").getvalue())
    assert [row["url"] for row in rows] == [page.url for page in (*PAGES, SAID)]
    verdict = {"purpose": "tdm", "verdict": "forbidden", "tdm": "no", "tdmrep": "header: 1"}
    assert {name: cell for name, cell in rows[-1].items() if cell} == {"host": "a.test", "url": SAID.url, **verdict}
    assert [tuple(row) for row in rows] == [RIGHTS_COLUMNS] * len(rows)
    assert exported(RightsExporter, ()).getvalue().decode().split() == [",".join(RIGHTS_COLUMNS)]


def test_rights_that_are_added_to_keep_their_columns(tmp_path):
    path = tmp_path / "rights.csv"
    for items, fields in (((SAID,), ["url", "tdm"]), ((SAID, PAGES[0]), None)):
        with path.open("ab") as file:
            exported(RightsExporter, items, file, fields_to_export=fields)
    assert [*map(tuple, map(dict.values, rows_of(path.read_bytes())))] == [*[(SAID.url, "no")] * 2, (PAGES[0].url, "")]
    renamed = exported(RightsExporter, (SAID,), fields_to_export={"url": "address", "tdmrep": "reservation"})
    assert rows_of(renamed.getvalue()) == [{"address": SAID.url, "reservation": "header: 1"}]


_NAMES = {"$schema": 1, "": 2, "a b": {"x:y": 3}, "1st": [4, [5]], "xml": 6, "field": 7, "é": 8, 'q"<&\n\x01': None}
_TEXT = "a\x00b\x0b\ufffe\U0010ffff\r\n]]><&\x85"
LINES = (
    *PAGES,
    Page(url=f"{SITE}/names", text=_TEXT, record=_NAMES, change="changed", results={"ok": True}),
    TEMPLATE,
    Template("t2", schema={"$schema": "x", "properties": {"": {}}}, selectors=[{"xpath": "//a[. = '<']"}]),
    Url(url=f"{SITE}/x", title="\x07"),
    {"url": "u", "found": [Found(SITE, "sitemap")]},
)


def read_xml(element) -> object:
    """What the rule says that was written."""
    if not len(element):
        return (element.text or "").strip("\n ")
    parts = [(part.tag, part) for part in element]
    if all(name == "value" for name, _part in parts):
        return [read_xml(part) for _name, part in parts]
    return {name: read_xml(part) for name, part in parts}


@pytest.mark.parametrize("indent", [None, 0, 3])
@pytest.mark.parametrize("encoding", ["utf-8", "iso-8859-1", "utf-16"])
@pytest.mark.parametrize("parse", [etree.fromstring, ElementTree.fromstring])
def test_xml_is_well_formed_and_says_what_was_there(parse, encoding, indent):
    root = parse(exported(PagesXmlExporter, LINES, encoding=encoding, indent=indent).getvalue())
    items: list[Any] = [read_xml(item) for item in root]
    assert (root.tag, {item.tag for item in root}, len(items)) == ("items", {"item"}, len(LINES))
    names = items[len(PAGES)]
    if not indent:
        assert names["text"] == "a\ufffdb\ufffd\ufffd\U0010ffff\n]]><&\x85"
    numbers = {"_schema": "1", "_": "2", "_xml": "6", "field": "7", "_é": "8", "q_____": ""}
    assert names["record"] == {**numbers, "a_b": {"x_y": "3"}, "_1st": ["4", ["5"]]}
    assert names["results"] == {"ok": "true"}
    assert names["status"] == ""
    gone = items[[page.url for page in PAGES].index(f"{SITE}/gone")]
    assert gone["error"] == {**asdict(GONE), "attempts": "2"}
    assert items[-3]["schema"] == {"_schema": "x", "properties": {"_": ""}}
    assert items[-1]["found"] == [{"url": SITE, "source": "sitemap", "priority": "", "kind": "url"}]


DEEP: Any = functools.reduce(lambda inner, _: {"a": [inner]}, range(5_000), cast("Any", 1))


@pytest.mark.parametrize(
    "name",
    ["csv", "documents", "json", "jsonlines", "parquet", "records", "rights", "xml"],
)
def test_no_form_minds_how_deep_a_page_nests_its_values(name):
    """As it stands in a page's JSON-LD, or in what a stage of the user's found."""
    page = Page(url=f"{SITE}/\ud800", text="text", record={"deep": DEEP}, results={"n": float("nan"), "b": 1 << 20_000})
    page.error = PageError("fetch", "odd", "said \udcff")
    FeedPipeline(MemoryStatsCollector(get_crawler()), with_text=True).process_item(page)
    exporter_class = load_object(get_project_settings().getwithbase("FEED_EXPORTERS")[name])
    data = exported(exporter_class, [page]).getvalue()
    assert data
    if name == "jsonlines":
        line = json.loads(data, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
        assert (line["url"], line["error"]["message"]) == (f"{SITE}/\ufffd", "said \ufffd")
        assert line["results"] == {"n": None, "b": None}


@pytest.mark.parametrize("items", [(), (TEMPLATE,), (Page(url=SITE),)])
def test_feeds_without_a_page_can_be_read(items):
    pages = sum(isinstance(item, Page) for item in items)
    assert exported(DocumentsExporter, items).getvalue() == b""
    assert pq.read_table(exported(ParquetExporter, items)).num_rows == pages
    assert len(rows_of(exported(PagesCsvExporter, items).getvalue())) == pages
    assert exported(PagesCsvExporter, items).getvalue().startswith(b"url,kind,")


@pytest.mark.parametrize("item", [Found(SITE, "sitemap", 0.5), {"url": SITE, "source": "sitemap", "priority": 0.5}])
def test_items_of_other_spiders_pass(item):
    (row,) = pq.read_table(exported(ParquetExporter, [item])).to_pylist()
    assert (row["url"], row["source"], float(row["priority"])) == (SITE, "sitemap", 0.5)
    (row,) = rows_of(exported(PagesCsvExporter, [item]).getvalue())
    assert (row["url"], row["source"], row["priority"]) == (SITE, "sitemap", "0.5")
    assert exported(DocumentsExporter, [item]).getvalue() == b""


def test_fields_choose_what_is_told():
    fields = {"url": "address", "title": "title"}
    table = pq.read_table(exported(ParquetExporter, PAGES[:1], fields_to_export=fields))
    assert table.to_pylist() == [{"address": PAGES[0].url, "title": "Lamp"}]
    (line,) = exported(DocumentsExporter, PAGES[:1], fields_to_export=["title"]).getvalue().splitlines()
    assert json.loads(line)["metadata"] == {"source": PAGES[0].url, "title": "Lamp"}


LAMP = {"title": "=1+1", "price": "£10.00", "tags": ["a", "b"]}
PRODUCTS = [
    Page(url=f"{SITE}/1", lang="en", page_type="product", record=LAMP),
    Page(url=f"{SITE}/gone", error=GONE),
    Page(url=f"{SITE}/2", page_type="product", title="of the page", record={"price": "£9", "offers": [{"price": 1}]}),
]


def records(form, items=(*PRODUCTS, TEMPLATE), file=None, **options):
    return exported(RecordsExporter, items, file, form=form, **options)


def test_records_are_one_typed_table_in_each_form():
    first: dict[str, Any] = {"title": "=1+1", "price": 10.0, "tags": ["a", "b"], "offers": None}
    second: dict[str, Any] = {"title": None, "price": 9.0, "tags": None, "offers": [{"price": 1}]}
    wanted = [{"url": f"{SITE}/{n}", "page_type": "product", **one} for n, one in enumerate((first, second), 1)]
    assert [json.loads(line) for line in records("jsonl").getvalue().splitlines()] == wanted
    table = pq.read_table(records("parquet"))
    types = ["string", "string", "string", "double", "list<element: string>", "string"]
    assert [str(one.type) for one in table.schema] == types
    wanted[1]["offers"] = json.dumps([{"price": 1}])
    assert table.to_pylist() == wanted
    assert records("csv").getvalue().decode() == (
        "url,page_type,title,price,tags,offers\r\n"
        f"{SITE}/1,product,'=1+1,10.0,a; b,\r\n"
        f'{SITE}/2,product,,9.0,,"[{{""price"": 1}}]"\r\n'
    )


@pytest.mark.parametrize("form", ["csv", "parquet", "jsonl"])
def test_records_of_none_have_the_columns_that_were_asked_for(form):
    table = RecordTable(requested_fields("title,price:number").fields)
    data = records(form, PRODUCTS[1:2], table=table)
    columns = ["url", "page_type", "title", "price"]
    if form == "csv":
        assert data.getvalue().decode() == ",".join(columns) + "\r\n"
    elif form == "parquet":
        schema = pq.read_schema(data)
        assert (schema.names, [*map(str, schema.types)]) == (columns, ["string", "string", "string", "double"])
    else:
        assert data.getvalue() == b""


def test_fields_of_a_feed_choose_columns_of_the_record_then_of_the_page(caplog):
    fields = {"record.price": "Preis", "title": "title", "url": "url", "lang": "lang", "slip": "slip"}
    rows = rows_of(records("csv", fields_to_export=fields, delimiter=",", join_multivalued="|").getvalue())
    assert rows[0] == {"Preis": "10.0", "title": "'=1+1", "url": f"{SITE}/1", "lang": "en", "slip": ""}
    assert rows[1]["title"] == ""
    assert "No record has had a field slip: its column is empty" in caplog.text


def test_records_that_are_added_to_a_csv_file_fit_its_header(tmp_path, caplog):
    path = tmp_path / "products.csv"
    for items in (PRODUCTS[:1], PRODUCTS):
        with path.open("ab") as file:
            records("csv", items, file)
    rows = rows_of(path.read_bytes())
    prices = [(row["url"].removeprefix(SITE), row["price"]) for row in rows]
    assert prices == [("/1", "10.0"), ("/1", "10.0"), ("/2", "9.0")]
    assert "no column for offers" in caplog.text


def test_a_library_that_is_missing_is_named_before_the_first_request(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    settings = get_project_settings()
    settings.set("FEEDS", {"pages.parquet": {"format": "parquet"}})
    with pytest.raises(ConfigError, match="needs pyarrow, which is not installed: pip install pyarrow"):
        check(settings, ExploreOptions(urls=(SITE,)), "explore")
    settings.set("FEEDS", {"pages.jsonl": {"format": "documents"}})
    check(settings, ExploreOptions(urls=(SITE,)), "explore")


@pytest.mark.server
@pytest.mark.slow
def test_what_parquet_needs_is_loaded_before_its_first_row():
    """In a process of its own, where nothing else has loaded it."""
    code = (
        "import sys, io; from llmcrawler.exporters.page_formats import ParquetExporter as P;"
        "from llmcrawler.items import Page;"
        "P.prepare(); before = set(sys.modules); one = P(io.BytesIO()); one.export_item(Page(url='http://a.test/'));"
        "one.finish_exporting();"
        "print([name for name in set(sys.modules) - before if name.split('.')[0] in ('pandas', 'pyarrow', 'numpy')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


WANTED = functools.partial(ExploreOptions, fields=requested_fields("price"))


@pytest.mark.parametrize(
    ("uri", "feed", "options", "message"),
    [
        ("products", {}, ExploreOptions, "end it with"),
        ("a.csv", {"page_type": "produkt"}, ExploreOptions, "FEEDS a.csv: page_type=produkt: no page type 'produkt'"),
        ("a.csv", {}, MapOptions, "a map lists urls, and no records"),
        ("a.csv", {"fields": ["url", "pice"]}, WANTED, "no record has a field 'pice': did you mean price?"),
    ],
)
def test_a_feed_of_records_that_cannot_be_is_refused_before_the_first_request(uri, feed, options, message):
    settings = get_project_settings()
    settings.set("FEEDS", {uri: {"format": "records", **feed}})
    with pytest.raises(ConfigError, match=message):
        check(settings, options(urls=(SITE,)), "explore")
