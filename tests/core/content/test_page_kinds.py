"""The models of page kinds give at run time what the training library gave."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from benchmarks.model_arrays import token_key
from llmcrawler.core.content import forget_kinds, page, read_page
from llmcrawler.core.content.page_kind_numbers import KindEvidence
from llmcrawler.core.content.page_kinds import TokenModel, blend, kind_probabilities, softmax, weigh_tokens
from llmcrawler.items import PageContent


def test_words_weigh_by_count_and_rarity_and_each_group_by_itself() -> None:
    keys = np.sort(np.array([token_key("a", "x"), token_key("a", "y"), token_key("b", "x")], np.uint32))
    rarity = np.ones(3, np.float32)
    rarity[np.searchsorted(keys, token_key("a", "y"))] = 2
    rows, weights = weigh_tokens({"a": ["x", "x", "y", "unknown"], "b": ["x"], "c": ["x"]}, keys, rarity)
    found = dict(zip(keys[rows].tolist(), weights.tolist(), strict=True))
    x, y = 1 + np.log(2), 2
    length = np.hypot(x, y)
    assert found == pytest.approx(
        {token_key("a", "x"): x / length, token_key("a", "y"): y / length, token_key("b", "x"): 1}
    )


def test_a_page_without_known_words_has_the_intercept() -> None:
    model = TokenModel(
        {
            "keys": np.array([token_key("a", "x")]), "rarity": np.ones(1), "weights": np.array([[10, -10]]),
            "scale": np.array([0.5, 0.5]), "intercept": np.array([1.0, 2.0]),
        }
    )  # fmt: skip
    assert model.log_odds({"a": ["other"], "b": []}).tolist() == [1, 2]
    assert model.log_odds({"a": ["x"]}).tolist() == [6, -3]


def test_a_token_that_is_no_text_is_unknown() -> None:
    rows, weights = weigh_tokens({"a": ["\ud800"]}, np.array([1], np.uint32), np.ones(1, np.float32))
    assert (rows.tolist(), weights.tolist()) == ([], [])


def test_a_blend_follows_the_surer_model_and_is_softened_by_its_factor() -> None:
    trees, linear = np.array([0.9, 0.1]), np.array([0.2, 0.8])
    sharp, soft = blend(trees, linear, 0.5, 1.0), blend(trees, linear, 0.5, 0.5)
    assert sharp.sum() == pytest.approx(1)
    assert sharp[0] > soft[0] > 0.5
    assert blend(trees, linear, 0.5, 1.0, np.array([0.0, 9.0]))[0] < 0.01
    assert softmax(np.array([1000.0, 1000.0])).tolist() == [0.5, 0.5]
    assert blend(np.array([1.0, 0.0]), np.array([0.0, 1.0]), 1.0, 1.0).tolist() == pytest.approx([0.5, 0.5])


HTML = "<title>Red lamp</title><h1>Red lamp</h1><p>A lamp to read by, for 12.50 EUR.</p><button>Add to cart</button>"


@pytest.fixture
def worked_out(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The urls of the pages whose kinds were worked out."""
    urls: list[str] = []

    def counted(evidence: KindEvidence) -> dict[str, float]:
        urls.append(evidence.url)
        return kind_probabilities(evidence)

    monkeypatch.setattr(page, "kind_probabilities", counted)
    return urls


def lamp() -> PageContent:
    return read_page(HTML, "https://shop.example/lamp")


def test_kinds_are_worked_out_once_and_only_if_asked_for(worked_out: list[str]) -> None:
    content = lamp()
    assert not worked_out
    assert sum(content.kinds.values()) == pytest.approx(1, abs=0.01)
    assert len(content.kinds) == len(dict(content.kinds)) > 5
    assert len(worked_out) == 1


def test_kinds_that_were_not_asked_for_can_be_forgotten(worked_out: list[str]) -> None:
    asked, unasked = lamp(), lamp()
    known = dict(asked.kinds)
    for content in (asked, unasked, PageContent(kinds={"product": 1.0})):
        forget_kinds(content)
    assert (dict(asked.kinds), dict(unasked.kinds)) == (known, {})
    assert len(worked_out) == 1


def test_page_that_goes_to_another_process_takes_its_kinds_along() -> None:
    content = lamp()
    there = pickle.loads(pickle.dumps(content))
    assert type(there.kinds) is dict
    assert there == content
