"""Pages that are made to cost much get their record, or an error; ordinary ones are not sent anywhere for that."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from typing import Any

import pytest

from llmcrawler.core.understanding.extraction.blocks import Induced, PageBlocks, Pointed, TrainingPage
from llmcrawler.core.understanding.extraction.extractor import (
    ExtractionRunner,
    FieldRule,
    TemplateExtractor,
    compile_extractor,
    extractions,
)
from llmcrawler.core.understanding.extraction.induce_prompt import ShownPage
from llmcrawler.core.understanding.extraction.learner import Learner, LearnerKey, Variant
from llmcrawler.core.understanding.extraction.queries import is_known, learn_pattern, take
from llmcrawler.core.understanding.extraction.record_schema import Field
from llmcrawler.core.understanding.extraction.records import RecordQuestion, RecordRules, Records
from llmcrawler.core.understanding.extraction.selectors import Selector
from llmcrawler.core.understanding.extraction.training_run import blocks_of, learn
from llmcrawler.core.understanding.extraction.typed_values import read_date
from llmcrawler.errors import ContentError, TooCostly

UPC = Selector('//th[normalize-space()="UPC"]/following-sibling::td[1]', "xpath")
ORDINARY = "<h1>Lamp</h1><table><tr><th>UPC</th><td>a1</td></tr></table>"


def one_field(selector: Selector, **changes: Any) -> TemplateExtractor:
    return TemplateExtractor("product", (FieldRule(Field("f", **changes), (selector,)),))


def records_of(extractor: TemplateExtractor, runner: ExtractionRunner) -> Records:
    made = Records(NoAnnotator(), RecordRules(record_types={"product"}), runner=runner, pressure=lambda _: "stopped")
    made.restore([Learner(LearnerKey("s", "t1", "product"), [Variant(extractor, {"f": 1.0})], runs=9)])
    return made


class NoAnnotator:
    async def point(self, page_type: str, pages: Sequence[ShownPage], known_fields: Sequence[Field]) -> Induced:
        raise AssertionError("nobody is to be asked")


def question(html: str) -> RecordQuestion:
    return RecordQuestion("http://s/1", "", "en", html, frozenset(), "s", "t1", "product")


async def nowhere(*_: Any, **__: Any) -> Any:
    raise AssertionError("an ordinary page is read here")


async def refused(*_: Any, **__: Any) -> Any:
    raise ContentError("reading it took over 20 s")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("html", "value"),
    [
        ("<table><tr>" + "<th>UPC" * 40_000, None),
        ("<table>" + "<tr><th>UPC</th><td>a1</td></tr>" * 60_000, "a1"),
        ("<table><tr><th>Size</th><td>9</td></tr></table>" * 60_000 + ORDINARY, "a1"),
        ("<table><tr>" + "<th>UPC" * 40_000 + "<td>a1", "a1"),
    ],
    ids=["labels without values", "rows", "tables", "a value behind all labels"],
)
async def test_a_learned_selector_is_run_on_a_long_page(html, value):
    answer = await records_of(one_field(UPC), ExtractionRunner()).record_of(question(html))
    assert answer.error is None
    assert (answer.record or {}).get("f") == value


@pytest.mark.nightly
@pytest.mark.slow
async def test_a_long_table_has_all_of_its_rows():
    rows = Selector("table > tr", "css")
    cells = {"a": Selector("./td[1]", "xpath"), "b": Selector("./td[2]", "xpath")}
    rules = tuple(FieldRule(Field(name, group="rows"), (cell,)) for name, cell in cells.items())
    extractor = TemplateExtractor("product", rules, (("rows", (rows,)),))
    html = "<table>" + "".join(f"<tr><td>{n}</td><td>b{n}</td></tr>" for n in range(60_000)) + "</table>"
    answer = await records_of(extractor, ExtractionRunner()).record_of(question(html))
    assert answer.record is not None
    assert len(answer.record["rows"]) == 60_000
    assert answer.record["rows"][-1] == {"a": "59999", "b": "b59999"}


async def test_an_ordinary_page_is_read_at_once():
    answer = await records_of(one_field(UPC), ExtractionRunner(apart=nowhere)).record_of(question(ORDINARY))
    assert answer.record == {"f": "a1"}


@pytest.mark.parametrize(
    ("html", "selector"),
    [
        ("<p>x</p>" * 30_000, UPC),
        ("<div>" * 300 + "<p>word</p>" * 2_000 + "</div>" * 300, Selector("div", "css")),
        ("<a " + " ".join(f"a{n}" for n in range(5_000)) + ">", UPC),
    ],
    ids=["long", "texts in texts", "attributes"],
)
async def test_a_costly_page_is_read_elsewhere_and_may_end_as_an_error(html, selector):
    counted: list[str] = []
    records = records_of(one_field(selector, many=True), ExtractionRunner(apart=refused))
    records._count = lambda name, _: counted.append(name)
    answer = await records.record_of(question(html))
    assert answer.record is None
    assert answer.error is not None
    assert (answer.error.stage, answer.error.kind) == ("record", "too_costly")
    assert counted == ["too_costly"]


def test_what_cannot_be_bounded_is_no_selector():
    with pytest.raises(ValueError, match="not a xpath selector"):
        compile_extractor(one_field(Selector("//*[count(.//*[count(.//*) > count(..//*)]) > 7]", "xpath")))


async def test_a_page_whose_template_is_learned_meanwhile_is_looked_at_again():
    going, go_on = asyncio.Event(), asyncio.Event()

    async def late(function: Any, *arguments: Any, **_: Any) -> Any:
        going.set()
        await go_on.wait()
        return function(*arguments)

    records = records_of(one_field(Selector("h2", "css")), ExtractionRunner(apart=late, inline_chars=0))
    under_way = asyncio.ensure_future(records.record_of(question(ORDINARY)))
    await going.wait()
    (learner,) = records.learners()
    learner.variants.append(Variant(one_field(UPC), {"f": 1.0}))
    records.regroup("s", {"t1": "t2"}, {})
    go_on.set()
    assert (await under_way).record == {"f": "a1"}


@pytest.mark.nightly
@pytest.mark.slow
def test_texts_of_elements_in_each_other_are_bounded():
    html = "<div>" * 1_000 + "<p>word</p>" * 100_000
    with pytest.raises(TooCostly):
        extractions([one_field(Selector("div", "css"), many=True)], html, "http://s/", "")


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        (r"((?:a+)+)$", "a" * 3_999 + "b"),
        (r"((?:a|aa)+)$", "a" * 3_999 + "b"),
        (r"^\d[\d.,]*\s*\d[\d.,]*\s*\d[\d.,]*\s*(.+?)[xy]$", "1" * 4_000),
    ],
)
async def test_a_pattern_without_end_is_ended(pattern, text):
    extractor = one_field(Selector("p", "css", pattern=pattern))
    answer = await records_of(extractor, ExtractionRunner()).record_of(question(f"<p>{text}</p>"))
    assert answer.error is not None
    assert answer.error.kind == "too_costly"


def test_the_work_of_other_threads_is_not_counted_as_a_patterns() -> None:
    done = threading.Event()

    def work() -> None:
        while not done.is_set():
            sum(range(20_000))

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        assert {take("^£(.+?)$", "£12.5") for _ in range(3_000)} == {"12.5"}
    finally:
        done.set()
        for thread in threads:
            thread.join()


def test_patterns_are_learned_from_a_bounded_number_of_texts(monkeypatch):
    taken: list[str] = []
    monkeypatch.setattr(
        "llmcrawler.core.understanding.extraction.queries.take", lambda pattern, _: taken.append(pattern)
    )
    learn_pattern([(f"size {n} of a{n}, b{n} | c{n}", f"a{n}") for n in range(2_000)])
    assert len(taken) <= 40 * 34 * 200


def test_a_pattern_is_a_regular_expression_when_it_is_read():
    with pytest.raises(ValueError, match="must have one group"):
        compile_extractor(one_field(Selector("p", "css", pattern="x")))


@pytest.mark.parametrize("tag", ["o:p", 'a"b', "a'b", "x.y", "a|b", "svg:g"])
def test_elements_of_any_name_are_learned_from(tag):
    html = f"<div id=main><{tag}>One</{tag}><p>Two</p></div>"
    pages = [TrainingPage("http://s/", "", "", html, frozenset())] * 3
    listed = blocks_of(pages, None)
    number = next(block.n for block in listed[0].blocks if block.text == "One")
    pointed = {place: (Pointed("f", (number,)),) for place in range(3)}
    (learned,), _ = learn(pages, pointed, [Field("f")])
    assert learned.rule is None or all(map(is_known, learned.rule.selectors))


@pytest.mark.parametrize(
    "html",
    [
        "<b>x" * 20_000,
        "<p>" * 1_000 + "<i>x</i>" * 20_000,
        "<div class='" + "c " * 500 + "'>" * 1_000 + "x",
        "<meta name='" + "n" * 100_000 + "' content=x>",
    ],
)
def test_the_blocks_of_any_page_are_bounded(html):
    listed = PageBlocks(html).listed()
    assert len(listed.blocks) <= 3_000
    assert sum(map(len, listed.paths)) <= 3_000 * 40
    assert all(len(block.hint) <= 300 for block in listed.blocks)


def test_a_long_page_is_learned_from_its_start():
    page = TrainingPage("http://s/", "", "", "<p>x</p>" * 500_000, frozenset())
    assert len(page.html) == page.chars == 1_000_000


def test_a_time_zone_of_thirty_digits_is_no_date():
    assert read_date("Mon, 01 Jan 2024 00:00:00 +" + "9" * 30) is None
