"""Packs what was trained into the arrays that the product's models of content are made of."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from llmcrawler.core.content.block_trees import ALL, LEAVES, NODES
from llmcrawler.core.content.page_kinds import TOKENS, TREES
from llmcrawler.core.content.scoring import HEAD_CHARS, HEAD_WORDS, WORD_STEP, first_words, name_words, names_in
from llmcrawler.core.content.segmenter import Segments

Arrays = dict[str, NDArray[Any]]


def pack_main_text(first: Mapping[str, NDArray[Any]], second: Mapping[str, NDArray[Any]], words: Any) -> Arrays:
    """Return the arrays of a MainTextModel, from those of its trees and the values of words."""
    return {
        **{f"first {name}": array for name, array in first.items()},
        **{f"second {name}": array for name, array in second.items()},
        "words": np.frombuffer("\n".join(words).encode(), np.uint8),
        "values": np.clip(np.round(np.array(list(words.values())) * WORD_STEP), -127, 127).astype(np.int8),
    }


def pack_kinds(
    of_both: Mapping[str, Any], trees: Mapping[str, NDArray[Any]], tokens: Mapping[str, NDArray[Any]]
) -> Arrays:
    """Return the arrays of a KindModel; `of_both` has kinds, names, "linear share", factor and bias."""
    return {
        **{name: np.array(value) for name, value in of_both.items()},
        **{TREES + name: value for name, value in trees.items()},
        **{TOKENS + name: value for name, value in tokens.items()},
    }


def token_key(group: str, token: str) -> int:
    """Return the number that a token of a group is known by; that two of them share one is rare, and harmless."""
    return crc32(token.encode("utf-8", "replace"), crc32(f"{group} ".encode()))


def text_words(head: str, words: int) -> set[str]:
    """Return the first words of a text, pairs of them, and the whole of a short one; every number is 0."""
    found = first_words(head)
    names = {*found, *map(" ".join, pairwise(found))}
    if words <= HEAD_WORDS:
        names.add("=" + " ".join(found))
    return names


def block_words(page: Segments) -> list[set[str]]:
    """Return the words of each block's text."""
    return [text_words(block.text[:HEAD_CHARS], block.words) for block in page.blocks]


def part_words(attributes: str) -> set[str]:
    """Return the words in the names that a container's attributes give it."""
    return name_words(names_in(attributes))


def pack_trees(roots: list[dict[str, Any]]) -> Arrays:
    """Return the arrays of BlockTrees for trees as LightGBM's `dump_model` gives them."""
    shape = (NODES, len(roots))
    feature, mask = np.zeros(shape, np.uint16), np.full(shape, ALL, np.uint16)
    threshold, value = np.zeros(shape, np.float32), np.zeros((len(roots), LEAVES), np.float32)
    for number, root in enumerate(roots):
        nodes: list[tuple[int, float, int]] = []
        leaves: list[float] = []
        _walk(root, nodes, leaves)
        value[number, : len(leaves)] = leaves
        for row, (one, limit, stays) in enumerate(nodes):
            feature[row, number], threshold[row, number], mask[row, number] = one, limit, stays
    return {"feature": feature, "threshold": threshold, "mask": mask, "value": value}


def _walk(node: dict[str, Any], nodes: list[tuple[int, float, int]], leaves: list[float]) -> None:
    if "split_feature" not in node:
        leaves.append(node.get("leaf_value", 0.0))
        return
    at = len(nodes)
    nodes.append((0, 0.0, 0))
    first = len(leaves)
    _walk(node["left_child"], nodes, leaves)
    on_the_left = ((1 << len(leaves)) - 1) & ~((1 << first) - 1)
    nodes[at] = (node["split_feature"], _single(node["threshold"]), int(ALL) & ~on_the_left)
    _walk(node["right_child"], nodes, leaves)


def _single(threshold: float) -> float:
    """Return the greatest single-precision number that is not above the threshold, so that a comparison of others of
    that precision comes out the same.
    """
    found = np.float32(threshold)
    return float(found if float(found) <= threshold else np.nextafter(found, np.float32(-np.inf)))
