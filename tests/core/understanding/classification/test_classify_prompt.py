"""What the model is told and shown, and that only what fits the question is taken from its answer."""

from __future__ import annotations

import json
from typing import Any

import pytest

from llmcrawler.core.llm.dialect import ModelRequest
from llmcrawler.core.llm.usage import estimate_tokens
from llmcrawler.core.understanding.classification.classify_prompt import (
    answer_schema,
    classify_document,
    describe_page,
    parse_answers,
    prompt_of,
)
from llmcrawler.core.understanding.classification.page_asker import (
    ClassifyWorker,
    answer_from_json,
    answer_to_json,
    page_key,
    tokens_of,
)
from llmcrawler.core.understanding.classification.page_types import DEFAULT_PAGE_TYPES, PageType, PageTypes
from llmcrawler.core.understanding.classification.question import Answer, Question
from llmcrawler.errors import BadAnswer
from llmcrawler.items import PageContent

TYPES = PageTypes([PageType("product", "one item"), PageType("listing", "many items"), PageType("login", "a form")])
SYSTEM = prompt_of(TYPES).system


def question(url: str = "http://shop.test/a", text: str = "", title: str = "A", **content: Any) -> Question:
    return Question(url, title, text, PageContent(**content), "shop.test", "t1", 1)


def entry(page_id: Any, label: Any = "product", confidence: Any = 0.9) -> dict[str, Any]:
    return {"id": page_id, "label": label, "confidence": confidence}


def test_the_document_has_the_form_of_the_contract() -> None:
    document = classify_document(TYPES, [describe_page(question(text="# Red shoe\n\nSoft."))])
    assert document["task"] == "classify"
    assert document["labels"][0] == {"name": "product"}
    assert "- product: one item\n" in SYSTEM
    page = {"id": "1", "url": "http://shop.test/a", "title": "A", "text": "# Red shoe Soft."}
    assert document["pages"][0].items() >= page.items()


def test_a_page_shows_its_headings_counts_and_description() -> None:
    shown = describe_page(
        question(
            text="# Shoes\n\n[Red](http://x.test/very/long) and **blue**\n\n## Sizes",
            metadata={"description": " All  shoes "},
            cues={"link_count": 40.0, "price_count": 0.0, "password_inputs": 1.0},
        )
    )
    assert "headings" not in shown  # the text shows them all
    assert shown["counts"] == {"links": 40, "passwords": 1}
    assert shown["description"] == "All shoes"
    assert shown["text"] == "# Shoes Red and blue # Sizes"


def test_a_long_page_is_shown_by_its_beginning_and_its_middle() -> None:
    words = " ".join(f"w{n}" for n in range(5000))
    shown = describe_page(question(text=words))["text"]
    assert shown.startswith("w0 w1 ")
    assert "[…] " in shown
    assert len(shown) < 720
    words_shown = set(shown.replace(" […] ", " ").split())
    assert words_shown <= set(words.split())  # none of them is cut


def test_headings_are_those_that_the_text_does_not_show() -> None:
    text = "# Shoes\n\n" + "soft words " * 100 + "\n\n## Sizes\n\n" + "more words " * 100 + "\n\n## Care"
    assert describe_page(question(text=text))["headings"] == ["Sizes", "Care"]


def test_headings_have_no_sign_of_their_link_and_code_keeps_its_marks() -> None:
    text = "# Using C#[#](http://a.test/#c)\n\nCall **my_app.load_page()** or `a->b`, _then_ wait.\n\n## Next[¶](#next)"
    shown = describe_page(question(text=text))["text"]
    assert shown == "# Using C# Call my_app.load_page() or a->b , then wait. # Next"


def test_a_comment_in_code_is_no_heading() -> None:
    text = "Sudo delegates authority.\n\n```\n# visudo\n#x\n```\n\n# Usage\n\nCall it."
    assert describe_page(question(text=text))["text"] == "Sudo delegates authority. visudo x # Usage Call it."


@pytest.mark.parametrize("piece", ["_", "a-", "*", "¶", "`", "[](", "[¶](", "<", "# ", "```", "a|", "- ", "1"])
def test_what_a_page_repeats_without_end_is_read_in_linear_time(piece: str) -> None:
    """A pattern that looks again from each place would need hours."""
    text = f"a{piece * 100_000}b"
    metadata = {"description": text[:20_000], "generator": text[:20_000]}
    assert len(describe_page(question(text=text, metadata=metadata))["text"]) <= 700


def test_keys_and_ids_are_no_words_to_show() -> None:
    text = "Similar 9303097ac-d3e5-41e1-baf5-303640756ebf items of the north-south-east-west-line-of-london"
    assert describe_page(question(text=text))["text"] == "Similar … items of the north-south-east-west-line-of-london"


def test_what_a_page_says_of_itself_is_shown_without_what_changes_or_tells_nothing() -> None:
    shown = describe_page(
        question(
            metadata={
                "published": "2025-09-26T13:38:00+00:00",
                "generator": "Docusaurus v2026.3.0-latest - https://docusaurus.io",
                "description": "<p>Rain <a href='x'>again</a>",
            },
            structured_data=({"@type": "WebPage"}, {"@type": "Product"}, {"@type": ["Product"]}, {"@type": "QAPage"}),
        )
    )
    assert (shown["published"], shown["generator"]) == ("2025-09-26", "Docusaurus")
    assert shown["marked"] == ["Product 2", "QAPage"]
    assert shown["description"] == "Rain again"
    assert "published" not in describe_page(question(metadata={"published": "last week"}))


def test_forms_are_counted_where_a_page_has_little_else() -> None:
    cues = {"form_count": 2.0, "search_inputs": 1.0, "time_tags": 9.0, "add_to_cart": 2.0}
    assert describe_page(question(cues={**cues, "word_count": 900.0}))["counts"] == {
        "words": 900,
        "dates": 9,
        "carts": 2,
    }
    assert describe_page(question(cues={**cues, "word_count": 90.0}))["counts"]["forms"] == 2


async def test_the_classifiers_guess_is_a_hint_where_the_set_has_no_name_for_it() -> None:
    async def shown(page_types: PageTypes, kinds: dict[str, float]) -> tuple[str, Any]:
        asked: list[ModelRequest] = []

        async def ask(ask: ModelRequest) -> Any:
            asked.append(ask)
            return {"pages": []}

        await ClassifyWorker(ask, page_types)([describe_page(question(kinds=kinds))])
        return asked[0].system, asked[0].document["pages"][0].get("likely")

    sure, unsure = {"article": 0.913, "forum": 0.087}, {"article": 0.7, "forum": 0.3}
    castles = PageTypes([PageType("castle", ""), PageType("product", "")])
    assert (await shown(castles, sure))[1] == {"article": 0.91}
    assert (await shown(castles, unsure))[1] is None
    assert (await shown(castles, {"product": 0.95, "article": 0.05}))[1] is None
    assert (await shown(DEFAULT_PAGE_TYPES, sure))[1] is None
    assert "`likely`" in (await shown(castles, unsure))[0]
    assert "`likely`" not in (await shown(DEFAULT_PAGE_TYPES, sure))[0]


def test_what_stands_before_the_main_heading_is_not_shown() -> None:
    banner = "Join our newsletter, and get ten percent off.\n\n"
    shown = describe_page(
        question(text=f"{banner}# Which soil?\n\nMine is clay, and it is wet all through the winter.")
    )
    assert shown["text"] == "# Which soil? Mine is clay, and it is wet all through the winter."
    late = describe_page(question(text="Long words of a page that has its heading last.\n\n# Acme"))
    assert late["text"].startswith("Long words")


def test_an_opening_is_shown_once() -> None:
    opening = "In the north the frost comes in September, and stays."
    shown = describe_page(
        question(text=f"{opening}\n\n{opening}\n\nOurs came late.", metadata={"description": opening})
    )
    assert shown["text"] == f"{opening} Ours came late."
    assert "description" not in shown


def test_a_crawl_of_forty_pages_in_ten_calls_stays_within_thirty_thousand_tokens() -> None:
    text = "\n\n".join(f"## Heading number {n} of this page\n\n" + "some words of a text " * 20 for n in range(40))
    one = question("http://shop.test/" + "c" * 60, text, "t" * 300, metadata={"description": "d" * 900})
    page = describe_page(one)
    assert tokens_of(page) <= 420
    system, labels = prompt_of(DEFAULT_PAGE_TYPES).system, json.dumps(classify_document(DEFAULT_PAGE_TYPES, []))
    per_call = estimate_tokens(system) + estimate_tokens(labels)
    assert 10 * per_call + 40 * (tokens_of(page) + 15) <= 30_000


def test_the_schema_is_strict() -> None:
    schema = answer_schema(TYPES)
    entries = schema["properties"]["pages"]
    assert entries["items"]["properties"]["label"]["enum"] == ["product", "listing", "login"]
    assert entries["items"]["additionalProperties"] is False
    assert schema["additionalProperties"] is False


def test_what_a_provider_caches_is_the_same_in_all_calls() -> None:
    one, many = (json.dumps(classify_document(TYPES, [{"url": "a"}] * count)) for count in (1, 5))
    assert one.index('"pages"') == many.index('"pages"')
    assert one[: one.index('"pages"')] == many[: many.index('"pages"')]


@pytest.mark.parametrize(
    ("entries", "verdicts", "faults"),
    [
        ([entry("1"), entry("2", "login", 1)], {"1": "product", "2": "login"}, set()),
        ([entry("2")], {"2": "product"}, {"1"}),
        ([entry("1"), entry("2"), entry("3")], {"1": "product", "2": "product"}, {"3"}),
        ([entry("1", "shop"), entry("2")], {"2": "product"}, {"1"}),
        ([entry("1"), entry("1", "login"), entry("2")], {"2": "product"}, {"1"}),
        ([entry("1"), entry("1"), entry("2")], {"1": "product", "2": "product"}, set()),
        ([entry("1", confidence=90), entry("2", confidence=-0.1)], {}, {"1", "2"}),
        ([entry("1", confidence=True), entry("2", confidence="0.9")], {}, {"1", "2"}),
        ([entry("1", confidence=float("nan")), entry("2", confidence=None)], {}, {"1", "2"}),
        ([entry(1), entry(["1"]), "1", None], {}, {"1", "2", "['1']"}),
        ([entry("1", ["product"]), entry("2")], {"2": "product"}, {"1"}),
    ],
)
def test_only_what_fits_the_question_is_taken(entries: Any, verdicts: dict[str, str], faults: set[str]) -> None:
    document = classify_document(TYPES, [{"url": "a"}, {"url": "b"}])
    answers, found_faults = parse_answers(document, {"pages": entries})
    assert {page_id: answer.label for page_id, answer in answers.items()} == verdicts
    assert set(found_faults) == faults


@pytest.mark.parametrize("answer", [None, [], "product", {}, {"pages": None}, {"pages": {"1": "product"}}])
def test_an_answer_of_another_form_has_no_verdicts(answer: Any) -> None:
    verdicts, faults = parse_answers(classify_document(TYPES, [{"url": "a"}]), answer)
    assert verdicts == {}
    assert set(faults) == {"1"}


async def test_the_worker_answers_by_position_and_marks_what_is_missing() -> None:
    shown: list[int] = []

    async def ask(ask: ModelRequest) -> Any:
        assert (ask.task, ask.system) == ("classify", SYSTEM)
        return {"pages": [entry("3", "login"), entry("1")]}

    answers = await ClassifyWorker(ask, TYPES, shown.append)([{"url": "a"}, {"url": "b"}, {"url": "c"}])
    assert answers[0] == Answer("product", 0.9)
    assert isinstance(answers[1], BadAnswer)
    assert answers[2] == Answer("login", 0.9)
    assert shown == [3]


def test_the_cache_key_changes_with_all_that_decides_an_answer() -> None:
    page = describe_page(question(text="Soft."))
    other_types = PageTypes([PageType("product", "a thing"), PageType("listing", "many items")])
    keys = {
        page_key("model", TYPES, page),
        page_key("another", TYPES, page),
        page_key("model", other_types, page),
        page_key("model", TYPES, {**page, "text": "Hard."}),
    }
    assert len(keys) == 4
    assert page_key("model", TYPES, dict(page)) in keys


def test_answers_survive_the_cache_and_others_do_not() -> None:
    assert answer_from_json(json.loads(json.dumps(answer_to_json(Answer("product", 1.0))))) == Answer("product", 1.0)
    for value in (None, [], ["product"], ["product", 7], [3, 0.5], {"label": "product"}, ["product", True, 1]):
        with pytest.raises(ValueError, match="not an answer"):
            answer_from_json(value)
