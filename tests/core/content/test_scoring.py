"""How blocks are scored: the numbers per block, the values of words, and the trees."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from benchmarks.model_arrays import pack_trees, part_words, text_words
from llmcrawler.core.content.block_trees import LEAVES, BlockTrees
from llmcrawler.core.content.layout import Layout, layout_of
from llmcrawler.core.content.markup import parse, tokens
from llmcrawler.core.content.page import price_counts
from llmcrawler.core.content.scoring import (
    BlockArrays,
    WordValues,
    context_columns,
    repeat_columns,
    score_blocks,
    summary,
    word_columns,
)
from llmcrawler.core.content.segmenter import RawBlock, Segments, segment

Tree = dict[str, Any]


def page_of(html: str) -> Segments:
    return segment(tokens(parse(html)))


def grown(chance: random.Random, leaves: int, numbers: int) -> Tree:
    if leaves == 1:
        return {"leaf_value": chance.uniform(-1, 1)}
    left = chance.randint(1, leaves - 1)
    return {
        "split_feature": chance.randrange(numbers),
        "threshold": chance.random(),
        "left_child": grown(chance, left, numbers),
        "right_child": grown(chance, leaves - left, numbers),
    }


def walked(tree: Tree, row: list[float]) -> float:
    while "split_feature" in tree:
        goes_left = row[tree["split_feature"]] <= tree["threshold"]
        tree = tree["left_child" if goes_left else "right_child"]
    return float(tree["leaf_value"])


@pytest.mark.parametrize("blocks", [1, 191, 193, 500])
def test_trees_give_what_walking_them_gives(blocks: int) -> None:
    chance = random.Random(blocks)
    trees = [grown(chance, chance.randint(1, LEAVES), 9) for _ in range(30)]
    rows = np.random.default_rng(blocks).random((blocks, 9), np.float32)
    expected = [sum(walked(tree, row) for tree in trees) for row in rows.tolist()]
    np.testing.assert_allclose(BlockTrees(pack_trees(trees)).log_odds([rows[:, :4], rows[:, 4:]]), expected, atol=1e-4)


def test_a_number_at_a_threshold_goes_left_though_singles_are_coarser() -> None:
    tree = {"split_feature": 0, "threshold": 0.1, "left_child": {"leaf_value": 1}, "right_child": {"leaf_value": 2}}
    just_above = np.float32(0.1)  # 0.100000001
    just_below = np.nextafter(just_above, np.float32(0))
    found = BlockTrees(pack_trees([tree])).log_odds([np.array([[just_above], [just_below]], np.float32)])
    assert found.tolist() == [2, 1]


def test_words_of_a_text_are_its_first_their_pairs_and_all_of_a_short_one() -> None:
    assert text_words("Add 12 to cart!", 4) == {"add", "0", "to", "cart", "add 0", "0 to", "to cart", "=add 0 to cart"}
    assert "=" + " ".join(["a"] * 7) not in text_words("a " * 30, 30)


def test_words_of_a_part_come_from_what_names_it() -> None:
    found = part_words(' style="color: red" class="relatedProducts x-42" data-test-id="rail" aria-label="View more"')
    assert found == {".related", ".products", ".rail", ".view", ".more"}


def test_values_that_are_looked_up_are_those_of_the_words_that_the_model_was_trained_with() -> None:
    texts = ("Add to cart", "add ADD add", "to cart now, please, and not in 12 days or 13", "12 of 12", "", "…")
    known = {"add": 0.5, "add add": -1.0, "to cart": 2.0, "0": 0.25, "0 of": 1.5, "=add to cart": 3.0, "now": -0.5}
    for text in texts:
        page = Segments()
        page.blocks = [RawBlock(text, text, 0, 0, max(1, len(text.split())), 0, 0)]
        found, _ = WordValues(known).of_page(page)
        assert found[0].tolist() == pytest.approx(summary(text_words(text, page.blocks[0].words), known))


def test_unknown_words_have_no_say() -> None:
    assert summary(["a", "b", "c"], {"a": 1.0, "c": -2.0}) == (-0.5, -2.0, 1.0)
    assert summary(["b"], {"a": 1.0}) == (0, 0, 0)


def test_a_block_has_the_values_of_its_heading_and_of_the_names_above_it() -> None:
    page = page_of('<div class="comments"><div class="inner"><h2>Replies</h2><p>Fine words</p></div></div><p>End</p>')
    layout = layout_of(page)
    values = WordValues({"replies": -1.0, ".comments": -2.0, ".inner": 1.0, "end": 0.5})
    found = word_columns(*values.of_page(page), layout, BlockArrays(page, layout))
    heading, text, end = found.tolist()
    assert (heading[0], text[0], end[0]) == (-1, 0, 0.5)
    assert text[3:6] == [-1, -1, -1]
    assert text[-2:] == [-2, 1]
    assert end[-2:] == [0, 0]


def test_repeats_tell_second_copies_prices_and_cards() -> None:
    cards = "".join(f'<li class="card">Chair {n} $ {n}9.00</li>' for n in range(4))
    page = page_of(f"<p>Same words here</p><ul>{cards}</ul><p>Same words here</p>")
    layout = layout_of(page)
    prices = price_counts(page)
    found = repeat_columns(page, layout, BlockArrays(page, layout), prices)
    assert found[:, 0].tolist() == [0, 0, 0, 0, 0, 1]
    assert found[:, 1].tolist() == [0, 1, 1, 1, 1, 0]
    assert found[:, 6].tolist() == [0, 4, 4, 4, 4, 0]


def test_context_tells_the_scores_of_neighbours_and_of_parts_that_look_the_same() -> None:
    page = page_of(
        "<div><p class=a>one two three</p><p class=b>four five six</p></div><div><p class=a>seven eight nine</p></div>"
    )
    layout = layout_of(page)
    scores = np.array([0.9, 0.1, 0.7])
    found = context_columns(layout, BlockArrays(page, layout), scores)
    assert found[:, 0].tolist() == pytest.approx([0.9, 0.1, 0.7])
    assert found[1, [1, 5]].tolist() == pytest.approx([0.9, 0.7])
    same_kind = found[:, 26]
    assert same_kind[0] == same_kind[2] > 0.7 > same_kind[1]


def test_a_page_of_any_size_has_a_score_per_block() -> None:
    assert score_blocks(Segments(), layout_of(Segments()), []) == []
    for count in (1, 400):
        page = page_of("<p>Some words that say a thing, and then one more.</p>" * count)
        found = score_blocks(page, layout_of(page), [0] * count)
        assert len(found) == count
        assert all(0 <= score <= 1 for score in found)


def test_a_table_is_as_main_as_most_of_what_stands_right_before_it() -> None:
    words = "Lamps of this kind shine brighter than others do, and last longer. " * 5
    rows = "<tr><td>Socket<td>E 27<tr><td>Power<td>9 W"
    page = page_of(f"<main><p>{words}</p><table>{rows}</table></main><footer><table>{rows}</table></footer>")
    scores = score_blocks(page, layout_of(page), [0] * len(page.blocks))
    assert min(scores[1:3]) >= 0.69 * scores[0]
    assert max(scores[3:]) < 0.3


def test_code_is_as_main_as_most_of_what_introduces_it() -> None:
    words = "The server has heard what was asked of it, and says so here. " * 9
    text, code, more, footer = of_html(f"<main><p>{words}</p><pre>{{}}</pre><pre>[]</pre></main><footer><pre>{{}}")
    assert min(code, more) >= 0.69 * text > footer


def test_a_page_of_few_words_is_main_but_for_its_links_and_frame() -> None:
    link, heading, hours, footer = of_html(
        "<p><a href=/a>Start here</a></p><h1>Hours</h1><p>Monday to Friday</p><footer>Since 1990</footer>"
    )
    assert min(heading, hours) > 0.4 > max(link, footer)


def of_html(html: str) -> list[float]:
    page = segment(tokens(parse(html)))
    return score_blocks(page, layout_of(page), price_counts(page))


def test_pages_of_the_same_containers_share_a_layout_whatever_they_say():
    def layout(html: str) -> Layout:
        return layout_of(segment(tokens(parse(f"<body><main>{html}</main>"))))

    first = layout("<p class=a>One text</p><p>Another</p>")
    assert layout("<p class=a>Two texts, <b>one</b> of them bold</p><p>Others</p>") is first
    for other in ("<p class=b>1</p><p>2</p>", "<p class=a id=menu>1</p><p>2</p>", "<p class=a>1</p><p></p>"):
        assert layout(other) is not first


def test_a_layout_that_is_large_is_not_kept():
    page = segment(tokens(parse("<body>" + "<p>text</p>" * 400)))
    assert layout_of(page) is not layout_of(page)
