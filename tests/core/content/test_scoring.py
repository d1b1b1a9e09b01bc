"""How blocks are scored: the numbers per block, the values of words, and the trees."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from benchmarks.model_arrays import pack_trees, text_words
from llmcrawler.core.content.block_trees import LEAVES, BlockTrees
from llmcrawler.core.content.layout import Layout, layout_of
from llmcrawler.core.content.markup import parse, tokens
from llmcrawler.core.content.page import price_counts
from llmcrawler.core.content.scoring import (
    WordValues,
    score_blocks,
    summary,
)
from llmcrawler.core.content.segmenter import RawBlock, Segments, segment
from tests.servers.record_sites import make_site

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


def test_values_that_are_looked_up_are_those_of_the_words_that_the_model_was_trained_with() -> None:
    texts = ("Add to cart", "add ADD add", "to cart now, please, and not in 12 days or 13", "12 of 12", "", "…")
    known = {"add": 0.5, "add add": -1.0, "to cart": 2.0, "0": 0.25, "0 of": 1.5, "=add to cart": 3.0, "now": -0.5}
    for text in texts:
        page = Segments()
        page.blocks = [RawBlock(text, text, 0, 0, max(1, len(text.split())), 0, 0)]
        found, _ = WordValues(known).of_page(page)
        assert found[0].tolist() == pytest.approx(summary(text_words(text, page.blocks[0].words), known))


def test_scores_are_those_of_the_model_that_was_trained() -> None:
    """After a change of what is known of a block the model is trained anew: python -m benchmarks.content_train."""
    scores = [score for page in make_site("shop").pages for score in of_html(page.html)]
    assert len(scores) == 2921
    assert sum(scores) == pytest.approx(704.157, rel=1e-4)


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
