"""When templates are learned, which pages wait for it, and what they get."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from llmcrawler.core.understanding.extraction.learner import waiting_by_type
from llmcrawler.core.understanding.extraction.record_schema import requested_fields
from llmcrawler.core.understanding.extraction.records import RecordAnswer, RecordQuestion, RecordRules, Records
from llmcrawler.core.understanding.extraction.training_run import ColumnAnnotator, TrainingRules
from llmcrawler.errors import (
    STOPPED,
    BadAnswer,
    BudgetSpent,
    LLMError,
    LLMFailed,
    LLMStopped,
    LLMUnavailable,
    WorkGivenBack,
)
from llmcrawler.items import PageError
from tests.core.understanding.extraction.record_pages import (
    SITE,
    TruthAnnotator,
    new_design,
    old_design,
    product,
    question,
    review_form,
)

RULES = RecordRules(min_pages=5, learn_pages=12)


class Pressure:
    """Says what a test tells it to say."""

    def __init__(self, reason: str | None = None) -> None:
        self.reason = reason
        self.held = 0

    def __call__(self, held: int) -> str | None:
        self.held = held
        return self.reason


def make(annotator: Any, pressure: Pressure | None = None, **changes: Any) -> Records:
    given: dict[str, Any] = {"pressure": pressure or Pressure(), **changes}
    rules = replace(given.pop("rules", RULES), requested=given.pop("requested", None))
    return Records(annotator, rules, **given)


async def ask(records: Records, questions: Sequence[RecordQuestion]) -> list[RecordAnswer]:
    return list(await asyncio.wait_for(asyncio.gather(*map(records.record_of, questions)), timeout=30))


def agreement(answers: Sequence[RecordAnswer], numbers: Sequence[int]) -> float:
    """F1 over all fields of all pages."""
    counts: Counter[str] = Counter()
    for number, answer in zip(numbers, answers, strict=True):
        for name, value in product(number).items():
            got = (answer.record or {}).get(name)
            counts["right"] += value is not None and got == value
            counts["wrong"] += got is not None and got != value
            counts["missing"] += value is not None and got != value
    return 2 * counts["right"] / (2 * counts["right"] + counts["wrong"] + counts["missing"])


async def test_a_template_is_learned_from_a_few_pages_and_serves_all() -> None:
    annotator = TruthAnnotator()
    records = make(annotator)
    numbers = range(60)
    answers = await ask(records, [question(number) for number in numbers])
    assert agreement(answers, numbers) == 1.0
    assert annotator.pages_shown <= RULES.training.max_samples
    assert answers[5].record == {**product(5)}


async def test_the_templates_of_the_goal_are_learned_first_and_other_pages_do_not_wait() -> None:
    annotator = TruthAnnotator()
    records = make(annotator, rules=replace(RULES, goal=("product",)))
    articles: dict[str, Any] = {"template": "t2", "page_type": "article", "design": new_design}
    early = await ask(records, [question(number, **articles) for number in range(20)])
    assert ([one for one in early if one.record or one.error], annotator.asked) == ([], [])
    products = await ask(records, [question(number) for number in range(20, 40)])
    assert agreement(products, range(20, 40)) == 1.0
    later = await ask(records, [question(number, **articles) for number in range(40, 60)])
    assert agreement(later, range(40, 60)) == 1.0


async def test_a_page_that_may_be_of_the_goal_is_learned_from_too() -> None:
    records = make(TruthAnnotator(), rules=replace(RULES, goal=("product",), tries_guesses=True))
    answers = await ask(records, [question(number, page_type="other", is_guess=True) for number in range(20)])
    assert agreement(answers, range(20)) == 1.0


async def test_pages_wait_until_there_are_enough() -> None:
    annotator = TruthAnnotator()
    records = make(annotator)
    waiting = [asyncio.ensure_future(records.record_of(question(number))) for number in range(11)]
    await asyncio.sleep(0)
    assert not annotator.asked
    assert not any(one.done() for one in waiting)
    assert waiting_by_type(records.all_learners) == {"product": 11}
    answers = await ask(records, [question(11)])
    assert answers[0].record is not None
    assert agreement(await asyncio.gather(*waiting), range(11)) == 1.0
    assert not waiting_by_type(records.all_learners).total()


@pytest.mark.parametrize(
    ("reason", "count", "is_learned"), [("idle", 5, True), ("idle", 4, False), ("backing_out", 3, False)]
)
async def test_when_no_more_pages_come_fewer_are_enough_or_all_are_let_go(reason, count, is_learned) -> None:
    annotator = TruthAnnotator()
    answers = await ask(make(annotator, Pressure(reason)), [question(number) for number in range(count)])
    assert bool(annotator.asked) == is_learned
    assert agreement(answers, range(count)) == 1.0 if is_learned else answers == [RecordAnswer()] * count


async def test_pages_that_were_parted_by_chance_are_learned_together() -> None:
    annotator = TruthAnnotator()
    records = make(annotator, Pressure("idle"), rules=replace(RULES, min_pages=2))
    numbers = range(10)
    alike = [question(number, template=f"t{number % 5}") for number in numbers]
    other = [question(number, new_design, template="t9") for number in (11, 12, 13)]
    answers = await ask(records, [*alike, *other])
    assert agreement(answers, [*numbers, 11, 12, 13]) == 1.0
    new = {question.url for question in other}
    assert all(new.issuperset(asked) or new.isdisjoint(asked) for asked in annotator.asked)
    assert {one.key.template for one in records.learners(SITE)} == {"t0", "t1", "t2", "t3", "t4", "t9"}


async def test_the_order_in_which_pages_come_does_not_change_what_is_asked() -> None:
    asked = []
    for numbers in ((1, 2, 3, 4), (3, 1, 4, 2)):
        annotator = TruthAnnotator()
        await ask(make(annotator, Pressure("idle"), rules=replace(RULES, min_pages=2)), [question(n) for n in numbers])
        asked.append(annotator.asked)
    assert asked[0] == asked[1] != []


@pytest.mark.parametrize(("templates", "pages"), [(1, 4), (3, 8)])
async def test_templates_that_are_learned_together_may_show_twice_as_many_pages(templates, pages) -> None:
    def design(data: dict[str, Any]) -> str:  # no two pages are made alike, so all are worth a look
        number = data["sku"]
        return f"<h1>{data['name']}</h1><p>{number}</p><dl><dt>Fact {number}</dt><dd>{number}</dd></dl>"

    annotator = TruthAnnotator()
    rules = replace(RULES, learn_pages=20, training=TrainingRules(max_samples=4))
    records = make(annotator, Pressure("idle"), rules=rules)
    await ask(records, [question(n, design, template=f"t{n % templates}") for n in range(10)])
    assert len({url for asked in annotator.asked for url in asked}) == pages


async def test_page_types_without_records_are_passed_over() -> None:
    annotator = TruthAnnotator()
    forms = [question(number, review_form, page_type="form") for number in range(20)]
    assert await ask(make(annotator), forms) == [RecordAnswer()] * 20
    assert not annotator.asked


async def test_a_redesign_is_learned_anew_and_no_page_is_lost_to_it() -> None:
    records = make(TruthAnnotator())
    before = await ask(records, [question(number, old_design) for number in range(40)])
    after = await ask(records, [question(number, new_design) for number in range(40, 80)])
    assert agreement([*before, *after], range(80)) >= 0.99
    (learner,) = records.learners()
    assert len(learner.variants) == 2
    assert learner.runs == 2
    mixed = await ask(records, [question(n, new_design if n % 2 else old_design) for n in range(80, 100)])
    assert agreement(mixed, range(80, 100)) >= 0.99
    assert learner.runs == 2


async def test_training_runs_are_bounded_however_often_a_site_changes() -> None:
    records = make(TruthAnnotator(), Pressure("idle"))
    for turn in range(6):

        def design(data: dict[str, Any], turn: int = turn) -> str:
            return f"<html><body><section><b class='x{turn}z'>{data['name']}</b><i class='y{turn}z'>{data['sku']}</i>"

        await ask(records, [question(number, design) for number in range(12)])
    (learner,) = records.learners()
    assert learner.runs == 1 + RULES.max_relearned


async def test_a_field_that_vanishes_is_noticed_and_learned_again() -> None:
    records = make(TruthAnnotator())
    await ask(records, [question(number) for number in range(20)])

    def moved(data: dict[str, Any]) -> str:
        return old_design(data).replace("<th>SKU</th><td>", "<th>Our number</th><td class='ref'>")

    for number in range(20, 60):
        await records.record_of(question(number, moved))
    (learner,) = records.learners()
    assert learner.task is not None
    await learner.task
    assert len(learner.variants) == 2
    (answer,) = await ask(records, [question(61, moved)])
    assert answer.record == product(61)


async def test_without_a_model_a_template_is_learned_once_more_when_more_pages_have_come() -> None:
    def design(data: dict[str, Any]) -> str:
        watts = f"<tr><th>Wattage</th><td>{data['price']} W</td></tr>" if float(data["price"]) > 22 else ""
        return old_design(data).replace("</table>", f"{watts}</table>")

    records = make(ColumnAnnotator(), Pressure("idle"))
    for start in (0, 12):
        answers = await ask(records, [question(number, design) for number in range(start, start + 12)])
        assert not any("wattage" in (one.record or {}) for one in answers)
    (learner,) = records.learners()
    assert learner.task is not None
    await learner.task
    (answer,) = await ask(records, [question(30, design)])
    assert answer.record is not None
    assert answer.record["wattage"] == f"{product(30)['price']} W"
    assert (learner.runs, len(learner.variants)) == (2, 1)


async def test_what_a_page_shows_is_its_title_and_description_rather_than_what_its_head_says() -> None:
    def text(data: dict[str, Any]) -> str:
        return f"It is made by hand in a small workshop, and will last for years. Ask the makers for {data['name']}."

    def design(data: dict[str, Any]) -> str:
        head = (
            f"<meta property=og:title content='{data['name']} - The shop'><meta property=og:image content=/i.png>"
            f"<meta name=description content='{text(data)[:30]}...'>"
        )
        shown = f"<main class=product><div class=description><p>{text(data)}</p></div>"
        return old_design(data).replace("<head>", f"<head>{head}").replace('<main class="product">', shown)

    answers = await ask(make(ColumnAnnotator(), Pressure("idle")), [question(n, design) for n in range(12)])
    for number, one in enumerate(answers):
        assert one.record is not None
        assert one.record["title"] == product(number)["name"]
        assert one.record["description"] == text(product(number))
        assert one.record["image"] == [f"https://{SITE}/i.png"]
        assert "name" not in one.record


async def test_pages_that_lack_a_field_are_kept_of_the_latest_templates_only(monkeypatch) -> None:
    monkeypatch.setattr(f"{Records.__module__}._MOST_LACKING", 2)
    records = make(TruthAnnotator())
    for template in ("t1", "t2", "t3"):
        await ask(records, [question(number, template=template) for number in range(12)])
        await ask(records, [question(20, lambda data: old_design({**data, "sku": None}), template=template)])
    assert [bool(one.lacking) for one in records.learners()] == [False, True, True]
    records.forget(SITE)
    assert not records._lacking


@pytest.mark.nightly
@pytest.mark.slow
async def test_slips_of_the_model_are_outvoted() -> None:
    for seed in range(8):
        records = make(TruthAnnotator(slip=0.1, seed=seed), rules=RecordRules(min_pages=5, learn_pages=25))
        answers = await ask(records, [question(number) for number in range(60)])
        assert agreement(answers, range(60)) >= 0.95, seed


async def test_other_templates_of_a_page_type_keep_the_names_or_need_no_training_run() -> None:
    annotator = TruthAnnotator()
    records = make(annotator)
    await ask(records, [question(number) for number in range(12)])
    asked = len(annotator.asked)
    answers = await ask(records, [question(number, template="t2") for number in range(20, 32)])
    assert len(annotator.asked) == asked
    assert agreement(answers, range(20, 32)) == 1.0
    await ask(records, [question(number, new_design, template="t3") for number in range(40, 52)])
    assert {one.name for one in annotator.known_fields[-1]} == set(product(1))


async def test_waiting_pages_follow_their_template() -> None:
    annotator = TruthAnnotator()
    records = make(annotator)
    questions = [question(number, template=f"t{number % 3}") for number in range(12)]
    waiting = [asyncio.ensure_future(records.record_of(one)) for one in questions]
    await asyncio.sleep(0.01)
    assert not annotator.asked
    records.regroup("shop.test", {"t1": "t0", "t2": "t0"}, {})
    answers = await asyncio.wait_for(asyncio.gather(*waiting), timeout=30)
    assert agreement(answers, range(12)) == 1.0
    assert [learner.key.template for learner in records.learners()] == ["t0"]


async def test_what_was_learned_goes_to_the_successor_of_a_template() -> None:
    annotator = TruthAnnotator()
    records = make(annotator)
    await ask(records, [question(number) for number in range(12)])
    records.regroup("shop.test", {"t1": "t9"}, {})
    asked = len(annotator.asked)
    (answer,) = await ask(records, [question(30, template="t9")])
    assert answer.record == product(30)
    assert len(annotator.asked) == asked


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        (LLMFailed("timeout"), "llm_failed"),
        (LLMUnavailable("no credit"), "llm_unavailable"),
        (BudgetSpent("LLM_MAX_TOKENS=1"), "budget"),
    ],
)
async def test_a_model_that_fails_is_an_error_of_the_pages(fault: Exception, kind: str) -> None:
    records = make(TruthAnnotator(faults=[fault] * 20))
    answers = await ask(records, [question(number) for number in range(12)])
    assert {answer.error.kind for answer in answers if answer.error} == {kind}
    assert all(answer.record is None for answer in answers)


@pytest.mark.parametrize("faults", [[BadAnswer("cut"), BadAnswer("cut")], [LLMFailed("timeout")]])
async def test_a_useless_answer_is_asked_for_again_and_so_is_a_failed_training_run(faults: list[Exception]) -> None:
    answers = await ask(make(TruthAnnotator(faults=faults)), [question(number) for number in range(12)])
    assert agreement(answers, range(12)) == 1.0


async def test_with_fields_given_records_have_exactly_these() -> None:
    wanted = requested_fields("name,price:number,weight")
    records = make(TruthAnnotator(wanted=wanted), requested=wanted)
    answers = await ask(records, [question(number) for number in range(12)])
    assert answers[3].record == {"name": "Lamp no 3", "price": 13.39, "weight": None}


async def test_a_schema_that_does_not_fit_a_template_gives_no_records() -> None:
    wanted = requested_fields("salary,employer,location,name")
    records = make(TruthAnnotator(wanted=wanted), requested=wanted)
    assert await ask(records, [question(number) for number in range(12)]) == [RecordAnswer()] * 12


async def test_left_over_pages_can_be_asked_for_one_by_one() -> None:
    records = make(TruthAnnotator(), Pressure("idle"), rules=replace(RULES, singletons=True))
    (answer,) = await ask(records, [question(1)])
    assert answer == RecordAnswer(product(1), by="llm")


async def test_a_page_in_the_wrong_template_is_recognised_by_its_fields() -> None:
    pressure = Pressure()
    records = make(TruthAnnotator(), pressure)
    await ask(records, [question(number) for number in range(12)])
    pressure.reason = "idle"
    stray, rare, sure = await ask(
        records,
        [
            question(20, template="t7", page_type="article", is_sure=False),
            question(21, template="t7"),
            question(22, template="t7", page_type="article", is_sure=True),
        ],
    )
    assert stray.home is not None
    assert (stray.record, stray.home.template, stray.home.page_type) == (product(20), "t1", "product")
    assert rare.record == product(21)
    assert sure == RecordAnswer()


async def test_a_cancelled_page_is_not_waited_for() -> None:
    records = make(TruthAnnotator())
    gone = asyncio.ensure_future(records.record_of(question(1)))
    await asyncio.sleep(0)
    gone.cancel()
    with pytest.raises(asyncio.CancelledError):
        await gone
    answers = await ask(records, [question(number) for number in range(2, 14)])
    assert agreement(answers, range(2, 14)) == 1.0


async def test_pages_that_a_stopped_crawl_holds_say_so_and_the_next_crawl_may_learn_their_template() -> None:
    records = make(TruthAnnotator(), Pressure("stopped"))
    (answer, *others) = await ask(records, [question(number) for number in range(6)])
    assert answer.record is None
    assert answer.error is not None
    assert (answer.error.stage, answer.error.kind) == ("record", STOPPED)
    assert others == [answer] * 5
    assert not records.to_keep(question(0).site)


@pytest.mark.parametrize(("count", "is_kept"), [(7, True), (5, False), (4, False)])
async def test_pages_of_a_site_that_is_given_up_wait_no_longer_and_its_next_owner_learns_from_enough(
    count: int, is_kept: bool
) -> None:
    records = make(TruthAnnotator())
    pages = [asyncio.ensure_future(records.record_of(question(number))) for number in range(count)]
    other = asyncio.ensure_future(records.record_of(question(1, site="other.test")))
    await asyncio.sleep(0)
    records.hurry(SITE)
    answers = await asyncio.wait_for(asyncio.gather(*pages), timeout=30)
    assert agreement(answers, range(count)) == 1.0 if count >= RULES.min_pages else answers == [RecordAnswer()] * count
    assert bool(records.to_keep(SITE)) == is_kept
    records.forget(SITE)
    assert [one.key.site for one in records.all_learners] == ["other.test"]
    assert not other.done()
    await records.close()
    await other


async def test_pages_that_wait_when_another_worker_has_taken_over_their_site_go_back() -> None:
    records = make(TruthAnnotator())
    waiting = asyncio.ensure_future(records.record_of(question(1)))
    await asyncio.sleep(0)
    records.forget(SITE)
    with pytest.raises(WorkGivenBack):
        await waiting
    await records.close()


async def test_closing_leaves_nothing_running() -> None:
    records = make(TruthAnnotator())
    waiting = asyncio.ensure_future(records.record_of(question(1)))
    await asyncio.sleep(0)
    await records.close()
    assert await asyncio.wait_for(waiting, timeout=5) == RecordAnswer()
    assert len(asyncio.all_tasks()) == 1


SAID = """<script type="application/ld+json">{"@type": "Product", "name": "Lamp no 7", "sku": "J7", "color": "red",
    "offers": {"price": "19.50", "priceCurrency": "EUR", "availability": "InStock"}}</script>"""


def saying(number: int = 7, **changes: Any) -> RecordQuestion:
    return question(number, lambda data: old_design(data) + SAID, **changes)


STRUCTURED = {
    "@type": "Product",
    "name": "Lamp no 7",
    "sku": "J7",
    "color": "red",
    "offers": {"price": "19.50", "priceCurrency": "EUR", "availability": "InStock"},
}


async def test_without_a_model_each_page_says_its_own_at_once_however_many_are_alike() -> None:
    pressure = Pressure()
    records = make(None, pressure)
    answers = await ask(records, [saying(number) for number in range(30)])
    assert answers == [RecordAnswer(STRUCTURED, by="structured-data")] * 30
    assert await ask(records, [question(1), saying(page_type="listing")]) == [RecordAnswer()] * 2
    assert (pressure.held, records.waiting_count, records.to_keep("shop.test")) == (0, 0, [])
    assert {one.reason for one in records.outcomes()} == {"no structured data, and no model to learn from their text"}


async def test_without_a_model_what_was_learned_serves_the_pages_that_it_fits() -> None:
    learned = make(TruthAnnotator())
    await ask(learned, [question(number) for number in range(12)])
    records = make(None)
    records.restore(learned.to_keep("shop.test"))
    fitting, other = await ask(records, [saying(20), question(21, lambda _: SAID)])
    assert fitting == RecordAnswer(product(20), by="template")
    assert other == RecordAnswer(STRUCTURED, by="structured-data")


@pytest.mark.parametrize("annotator", [None, TruthAnnotator()])
async def test_a_page_alone_has_the_record_of_what_it_says_and_no_call_is_paid(annotator: Any) -> None:
    counted: Counter[str] = Counter()
    records = make(annotator, Pressure("idle"), count=lambda name, value: counted.update({name: value}))
    (answer,) = await ask(records, [saying()])
    assert answer == RecordAnswer(STRUCTURED, by="structured-data")
    assert counted == {"from_structured_data": 1}
    assert not getattr(annotator, "asked", [])
    assert records.outcomes()[0].unserved == 0


async def test_a_page_alone_has_the_fields_that_were_asked_for_if_it_has_any() -> None:
    wanted = requested_fields("title,price:number,in_stock:boolean,weight")
    records = make(None, requested=wanted)
    (answer,) = await ask(records, [saying()])
    assert answer.record == {"title": "Lamp no 7", "price": 19.5, "in_stock": True, "weight": None}
    other = requested_fields("weight,height")
    assert await ask(make(TruthAnnotator(), Pressure("idle"), requested=other), [saying()]) == [RecordAnswer()]


async def test_values_that_the_users_schema_does_not_allow_are_left_out() -> None:
    fields = requested_fields("name,price:number")
    schema = {**fields.schema, "properties": {"name": {"type": "string"}, "price": {"type": "number", "maximum": 5}}}
    wanted = replace(fields, schema=schema)
    (answer,) = await ask(make(None, requested=wanted), [saying()])
    assert answer.record == {"name": "Lamp no 7", "price": None}


async def test_what_the_page_says_does_not_change_a_record_that_was_learned() -> None:
    records = make(TruthAnnotator())
    answers = await ask(records, [saying(number) for number in range(12)])
    assert answers[7] == RecordAnswer(product(7), by="template")


@pytest.mark.parametrize("fault", [LLMFailed("no"), LLMUnavailable("no"), BudgetSpent("no"), LLMStopped("no")])
async def test_a_template_that_could_not_be_learned_leaves_what_its_pages_say_and_the_error(fault: LLMError) -> None:
    records = make(TruthAnnotator(faults=[fault, fault]))
    answers = await ask(records, [saying(number) for number in range(12)])
    assert answers == [RecordAnswer(STRUCTURED, PageError("record", fault.kind, "no"), by="structured-data")] * 12
    assert records.to_keep("shop.test") == []  # a later crawl may learn it


async def test_where_one_call_for_a_page_is_allowed_the_page_completes_the_models_answer() -> None:
    truth = {"name": "Lamp no 7", "sku": "not there", "color": "not there"}
    for requested in (requested_fields("name,sku,color"), None):
        annotator = TruthAnnotator(wanted=requested, truth=lambda _number: truth)
        rules = replace(RULES, singletons=True)
        (answer,) = await ask(make(annotator, Pressure("idle"), rules=rules, requested=requested), [saying()])
        assert answer == RecordAnswer({"name": "Lamp no 7", "sku": "J7", "color": "red"}, by="llm")


async def test_where_the_model_fails_on_a_page_it_has_what_it_says() -> None:
    records = make(TruthAnnotator(faults=[LLMFailed("no")]), Pressure("idle"), rules=replace(RULES, singletons=True))
    (answer,) = await ask(records, [saying()])
    assert answer == RecordAnswer(STRUCTURED, PageError("record", "llm_failed", "no"), by="structured-data")
