"""What the pages of a site say about each other's blocks."""

from dataclasses import replace
from itertools import count

import pytest

from llmcrawler.core.content import Boilerplate, main_blocks, main_text, read_page
from llmcrawler.items import TextBlock

URL = "http://site.example/page"
WORDS = "alder birch cedar dogwood elder fir ginkgo hazel ivy juniper kapok larch maple nutmeg oak pine quince".split()


RAIL = (
    "<h3>Offers</h3><p>This week all trees are sold for half of their price, and you are welcome to see them.</p>"
    "<p>Our garden is open from nine in the morning until the evening, every day of the week.</p>"
)


def story(number: int) -> str:
    return " ".join(f"{word.title()} number {number} grows beside the river, as {word} does." for word in WORDS)


def page(number: int, *, main: str = "", rail: str = RAIL) -> tuple[TextBlock, ...]:
    html = (
        f'<body><div class="page"><div class="top"><p>The shop of trees</p></div>'
        f'<div class="story"><p>{story(number)}</p>{main}</div><div class="rail">{rail}</div></div></body>'
    )
    return read_page(html, URL).blocks


def observed(*pages: tuple[TextBlock, ...]) -> Boilerplate:
    boilerplate = Boilerplate()
    for blocks in pages:
        boilerplate.observe(blocks)
    return boilerplate


def test_blocks_of_a_template_have_one_region_whatever_number_its_classes_hold() -> None:
    first, second = (
        read_page(f'<div class="post-{n} post"><p class="x{n}">{story(n)}</p></div><p>{story(9)}</p>', URL).blocks
        for n in (1, 2)
    )
    assert first[0].region == second[0].region
    assert first[0].region != first[1].region


def test_the_columns_of_a_page_that_a_table_lays_out_are_regions() -> None:
    blocks = read_page(f"<table><tr><td><h1>A</h1><td><p>{story(1)}</table>", URL).blocks
    assert blocks[0].region[:-2] == blocks[1].region[:-2]
    assert blocks[0].region[-2] != blocks[1].region[-2]


def test_region_of_a_very_deep_page_is_bounded() -> None:
    (block,) = read_page("<div>" * 300 + "words", URL).blocks
    assert len(block.region) < 30


def test_a_rail_on_all_pages_of_a_template_leaves_their_text() -> None:
    pages = [page(number) for number in range(12)]
    assert "all trees are sold" in main_text(pages[-1])
    text = main_text(pages[-1], observed(*pages))
    assert "all trees are sold" not in text
    assert "Our garden" not in text
    assert "number 11" in text


def test_a_short_answer_in_the_main_region_stays() -> None:
    def scored(block: TextBlock) -> TextBlock:
        text = block.markdown
        return replace(block, score=0.3 if "Yes" in text else 0.95 if "Alder" in text else 0.2)

    pages = [tuple(map(scored, page(number, main=f"<p>Yes {number}</p>"))) for number in range(12)]
    assert "Yes 11" not in main_text(pages[-1])
    assert "Yes 11" in main_text(pages[-1], observed(*pages))


def test_a_table_that_repeats_labels_stays_whole() -> None:
    def table(number: int) -> str:
        cells = {"Height": f"{number} m", "Bark": "smooth", "Leaves": "green", "Age": f"{number + 50} years"}
        rows = "".join(f"<tr><th>{label}</th><td>{value}</td></tr>" for label, value in cells.items())
        return f"<table>{rows}</table>"

    pages = [page(number, main=table(number)) for number in range(12)]
    text = main_text(pages[-1], observed(*pages))
    assert all(label in text for label in ("Height", "Bark", "smooth", "Leaves", "green", "Age", "61 years"))


def test_the_first_page_of_a_site_is_judged_by_itself() -> None:
    blocks = page(1, rail="<p>More about trees</p>")
    assert main_blocks(blocks, observed(blocks)) == main_blocks(blocks)


def test_pages_before_it_alone_decide_about_a_page() -> None:
    pages = [page(number) for number in range(8)]
    boilerplate, texts = Boilerplate(), []
    for blocks in pages:
        boilerplate.observe(blocks)
        texts.append(main_text(blocks, boilerplate))
    again = observed(*pages[:4])
    assert main_text(pages[3], again) == texts[3]
    assert "all trees are sold" in texts[0]
    assert "all trees are sold" not in texts[-1]


@pytest.mark.parametrize("regions", [1, 3])
def test_regions_not_seen_for_longest_are_forgotten(regions: int) -> None:
    boilerplate = Boilerplate(max_keys=regions)
    for number, key in zip(range(50), count(1), strict=False):
        boilerplate.observe([TextBlock("a text", 2, 0.5, key, region=(number + 1,))])
    assert len(boilerplate._regions) == regions
    assert len(boilerplate._seen) == regions
