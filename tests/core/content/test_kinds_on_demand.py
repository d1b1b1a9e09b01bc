"""Kinds of a page that are worked out when somebody asks."""

from __future__ import annotations

import pickle

import pytest

from llmcrawler.core.content import forget_kinds, page, read_page
from llmcrawler.core.content.page_kind_numbers import KindEvidence
from llmcrawler.core.content.page_kinds import kind_probabilities
from llmcrawler.items import PageContent

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
