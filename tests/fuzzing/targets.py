"""What is fuzzed: all that reads bytes from outside, as a function of them that neither raises nor takes long."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType

from hypothesis import strategies as st

from llmcrawler.campaigns.sites_file import make_bundles, read_sites
from llmcrawler.core.content import Boilerplate, content_hash, decode_page, main_text, read_page, robots_metas
from llmcrawler.core.content.markup import is_cheap
from llmcrawler.core.content.render_features import read_render_features
from llmcrawler.core.llm.answers import read_answer
from llmcrawler.core.politeness.robots import PageRobots, parse_robots
from llmcrawler.core.politeness.throttling import retry_after_seconds
from llmcrawler.core.storage import TemplatesFile
from llmcrawler.core.storage.archives.archived_pages import page_at
from llmcrawler.core.storage.archives.warc_reader import WarcFault
from llmcrawler.core.understanding.classification.classify_prompt import answer_schema, describe_page, parse_answers
from llmcrawler.core.understanding.classification.evidence import StructuredEvidence
from llmcrawler.core.understanding.classification.page_type_rules import score
from llmcrawler.core.understanding.classification.page_types import DEFAULT_PAGE_TYPES
from llmcrawler.core.understanding.classification.question import Question
from llmcrawler.core.understanding.extraction.blocks import PageBlocks, shown_blocks
from llmcrawler.core.understanding.extraction.candidates import candidates_for
from llmcrawler.core.understanding.extraction.extractor import FieldRule, TemplateExtractor, extractions
from llmcrawler.core.understanding.extraction.queries import learn_pattern, texts_at
from llmcrawler.core.understanding.extraction.record_schema import Field
from llmcrawler.core.understanding.extraction.selectors import Selector
from llmcrawler.core.understanding.extraction.structured_record import PageToRead, structured_record
from llmcrawler.core.understanding.extraction.tree import INLINE_STEPS, Work
from llmcrawler.core.understanding.extraction.typed_values import typed
from llmcrawler.core.understanding.templates.grouping import TemplateGrouper
from llmcrawler.core.urls import (
    AddressGuard,
    Scope,
    TrapGuard,
    dedup_key,
    normalise,
    parse_llms_txt,
    parse_sitemap,
    url_pattern,
)
from llmcrawler.crawl.task_lists import archived_pages
from llmcrawler.errors import BadAnswer, ConfigError, TooCostly
from llmcrawler.items import Link
from tests.fuzzing.inputs import (
    CDX_WORDS,
    HTML_WORDS,
    INDEX_WORDS,
    JSON_WORDS,
    PAGE_ROBOTS_WORDS,
    ROBOTS_WORDS,
    SITEMAP_WORDS,
    SITES_WORDS,
    TEMPLATES_WORDS,
    URL_WORDS,
    VALUE_WORDS,
    texts,
    torn,
)

URL = "https://shop.example/a/b"
_HTML = torn(texts(HTML_WORDS))
_PATTERN_PAIRS = 8
_SOME_BLOCKS = 5
_LEARNING_STEPS = 1_000_000  # a lesson may take a hundred times as many of each page
_ROBOTS_INLINE_BYTES = 16_384  # a longer robots.txt is parsed in a thread
_SOME = 40  # of what a page yields many of: enough for what is tried with each


@dataclass(frozen=True, slots=True)
class Target:
    """`run` gets an input and raises nothing; it returns whether a crawl would do this work on its event loop, which
    nothing may hold for long. What is done elsewhere has `seconds_per_kilobyte`, ten times what ordinary input costs.
    """

    inputs: st.SearchStrategy[bytes]
    run: Callable[[bytes], bool]
    seconds_per_kilobyte: float = 0.002


def _decode(body: bytes) -> bool:
    """The first line stands for the Content-Type."""
    header, _, rest = body.partition(b"\n")
    decode_page(rest, header.decode("latin-1"))
    return True


def _page(body: bytes) -> bool:
    """All that is done with a page that is no record: content, boilerplate, template, type, prompt."""
    html = decode_page(body)
    content = read_page(html, URL)
    boilerplate = Boilerplate()
    boilerplate.observe(content.blocks)
    text = main_text(content.blocks, boilerplate)
    content_hash(text)
    grouper = TemplateGrouper()
    for number in range(3):
        grouper.assign(f"{URL}/{number}", content.features)
    question = Question(URL, content.title, text, content, "shop.example", "t1", 1)
    StructuredEvidence(DEFAULT_PAGE_TYPES).decide(question)
    score(question)
    describe_page(question)
    for link in islice(content.links, _SOME):
        _link(link)
    return is_cheap(html)


def _link(link: Link) -> None:
    url = normalise(link.url, URL)
    if url is not None:
        dedup_key(url)
        url_pattern(url)


def _signs(body: bytes) -> bool:
    html = decode_page(body)
    read_render_features(html)
    return is_cheap(html)


def _learning(body: bytes) -> bool:
    """Blocks, candidates for some of them, and what each candidate finds."""
    with suppress(TooCostly):
        page = PageBlocks(decode_page(body), URL)
        page.source.work = Work(_LEARNING_STEPS)
        _learn(page)
    return False


def _learn(page: PageBlocks) -> None:
    shown_blocks(page.listed(), {}, 3_000)
    texts_of_blocks = []
    for block in page.blocks[:: 1 + len(page.blocks) // _SOME_BLOCKS]:
        for candidate in candidates_for([page.spots[block.n]])[:_SOME]:
            given = texts_at(page.source, candidate.selector)
            if given:
                texts_of_blocks.append((given[0], block.text))
    learn_pattern(texts_of_blocks[:_PATTERN_PAIRS])


_SELECTORS = (
    Selector('//th[normalize-space()="UPC"]/following-sibling::td[1]', "xpath"),
    Selector('//dt[normalize-space()="Name"]/following-sibling::dd[1]/a', "xpath"),
    Selector('//text()[normalize-space()="UPC"]/following-sibling::td[1]', "xpath"),
    Selector('//b[normalize-space()="x"]/following-sibling::text()[normalize-space()][1]', "xpath"),
    Selector('//div[starts-with(normalize-space(), "UPC")]', "xpath"),
    Selector('//text()[starts-with(normalize-space(), "UPC")]', "xpath"),
    Selector("div.price", "css"),
    Selector("div div p b", "css"),
    Selector("table tbody > tr:nth-of-type(3) > td:nth-of-type(2)", "css"),
    Selector("img", "css", "src"),
    Selector("Product.offers.price", "json-ld"),
    Selector("body div", "css", None, r"^(?:.*, )?((?:(?!, ).)+), (?:(?!, ).)+$"),
    Selector("body div", "css", None, r"\d[\d.,]*(.+?)\d[\d.,]*$"),
)
_EXTRACTOR = TemplateExtractor(
    "product",
    tuple(FieldRule(Field(f"f{number}", many=number % 2 == 0), (one,)) for number, one in enumerate(_SELECTORS)),
)


def _record(body: bytes) -> bool:
    html = decode_page(body)
    if not is_cheap(html):
        return False
    with suppress(TooCostly):  # then a process goes on with it
        extractions([_EXTRACTOR], html, URL, "en", INLINE_STEPS)
    with suppress(TooCostly):
        structured_record(PageToRead(html, URL, "Lamp", "en", "product"), None, INLINE_STEPS)
    return True


def _record_apart(body: bytes) -> bool:
    with suppress(TooCostly):
        extractions([_EXTRACTOR], decode_page(body), URL, "en")
    return False


def _sitemap(body: bytes) -> bool:
    parse_sitemap(body)
    parse_llms_txt(body)
    return False


def _robots(body: bytes) -> bool:
    robots = parse_robots(body, "llmcrawler")
    for path in ("/", "/a1?b=%3F&c=d", "/" + "a" * 2_000, "/é/" + "a/" * 500, "/robots.txt"):
        robots.allows(f"https://shop.example{path}")
    return len(body) <= _ROBOTS_INLINE_BYTES


def _page_robots(body: bytes) -> bool:
    text, now = body.decode("latin-1"), datetime(2026, 1, 1, tzinfo=UTC)
    PageRobots("llmcrawler").directives(now, text.splitlines(), robots_metas([("robots", text), (text[:9], text)]))
    return True


_SCHEMA = answer_schema(DEFAULT_PAGE_TYPES)
_DOCUMENT = {"labels": [{"name": one.name} for one in DEFAULT_PAGE_TYPES], "pages": [{"id": "1"}, {"id": "2"}]}


def _answer(body: bytes) -> bool:
    text = body.decode("utf-8", "replace")
    for salvage in (False, True):
        with suppress(BadAnswer):
            parse_answers(_DOCUMENT, read_answer(text, _SCHEMA, salvage=salvage))
    return True


def _url(body: bytes) -> bool:
    traps = TrapGuard(date(2026, 1, 1))
    scope = Scope([URL])
    guard = AddressGuard(["shop.example"])
    for line in body.decode("utf-8", "replace").split("\n")[:_SOME]:
        for url in (normalise(line), normalise(line, URL)):
            if url is not None:
                dedup_key(url)
                url_pattern(url)
                traps.reason_to_refuse(url)
                scope.reason_to_refuse(url, 1)
        guard.reason_to_refuse(line[:300])
    return True


def _value(body: bytes) -> bool:
    # The first one is empty: what reads dates in the words of thirty languages is loaded then, in half a second.
    text = body.decode("utf-8", "replace") or "12 \u00c5vi\u00cc 2012"
    for kind in ("string", "integer", "number", "boolean", "date", "url"):
        typed(text, kind, base_url=URL, lang="en")
    return False  # dates in words are read elsewhere


def _header(body: bytes) -> bool:
    retry_after_seconds(body.decode("latin-1"), datetime(2026, 1, 1, tzinfo=UTC))
    return True


def _file(body: bytes, name: str, read: Callable[[Path], object]) -> bool:
    """Read a file of a user's, who is told what is wrong with it."""
    with TemporaryDirectory() as folder, suppress(ConfigError):
        path = Path(folder) / name
        path.write_bytes(body)
        read(path)
    return False


def _index(path: Path) -> None:
    for page in archived_pages((str(path),)):
        page.url.encode()
        if page.place is not None:
            with suppress(WarcFault, OSError):
                page_at(page.place)


def _sites(path: Path) -> None:
    for bundle in make_bundles(read_sites(path, {}, lambda _options: None), {}, 2):
        json.dumps(bundle.crawl_arguments(), ensure_ascii=False).encode()


def _templates(path: Path) -> None:
    for site in TemplatesFile(path).load().values():
        with suppress(ValueError):
            site.state()


TARGETS: Mapping[str, Target] = MappingProxyType(
    {
        "decoding": Target(st.one_of(_HTML, st.binary(max_size=4_000)), _decode),
        "page": Target(_HTML, _page, 0.006),
        "signs": Target(_HTML, _signs),
        "learning": Target(_HTML, _learning, 0.05),
        "record": Target(_HTML, _record),
        "record_apart": Target(_HTML, _record_apart, 0.05),
        "sitemap": Target(torn(texts(SITEMAP_WORDS)), _sitemap),
        "robots": Target(torn(texts(ROBOTS_WORDS)), _robots),
        "page_robots": Target(torn(texts(PAGE_ROBOTS_WORDS)), _page_robots),
        "answer": Target(torn(texts(JSON_WORDS)), _answer),
        "url": Target(torn(texts(URL_WORDS)), _url, 0.004),
        "value": Target(torn(texts(VALUE_WORDS, 8_000)), _value, 0.02),
        "header": Target(torn(texts(VALUE_WORDS, 2_000)), _header),
        "cdxj": Target(torn(texts(INDEX_WORDS)), lambda body: _file(body, "index.cdxj", _index), 0.05),
        "cdx": Target(torn(texts(CDX_WORDS)), lambda body: _file(body, "index.cdx", _index), 0.05),
        "sites": Target(torn(texts(SITES_WORDS)), lambda body: _file(body, "sites.csv", _sites), 0.05),
        "templates": Target(torn(texts(TEMPLATES_WORDS)), lambda body: _file(body, "t.json", _templates), 0.05),
    }
)
