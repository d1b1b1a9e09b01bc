"""Pages are recognised by the templates of other sites of their platform, once two sites have taught them."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from llmcrawler.core.understanding.classification.shared_verdicts import (
    PageMarks,
    SharedTemplate,
    recognise,
    taught,
    template_of,
)

FRAME = [f"body>div.frame{n}" for n in range(10)]


def page(kind: str, *more: str, at: str = "", words: tuple[str, ...] = ()) -> PageMarks:
    own = [f"main>{kind}.{part}" for part in ("head", "body", "row", "foot")]
    address = frozenset({"depth:2", f"at0:{at or kind}", "shape1:slug"})
    return PageMarks(frozenset([*FRAME, *own, *more]), address, frozenset({f"h2:about this {kind}", *words}))


def learned(kind: str, site: str, label: str = "") -> SharedTemplate:
    pages = [page(kind, words=(f"h1:{site} {number}",)) for number in range(4)]
    found = template_of(label or kind, pages, site)
    assert found is not None
    return found


def known(*kinds: str, sites: int = 2) -> list[SharedTemplate]:
    found: list[SharedTemplate] = []
    for kind in kinds:
        for number in range(sites):
            found = taught(found, learned(kind, f"site{number}"))
    return found


def test_a_page_is_recognised_once_two_sites_have_taught_its_template() -> None:
    assert recognise(known("product", sites=1), page("product")) is None
    found = recognise(known("product", "article"), page("product"))
    assert found is not None
    assert (found.page_type, found.sites) == ("product", 2)


def test_a_site_counts_once() -> None:
    templates = known("product", sites=1)
    assert taught(templates, learned("product", "site0")) == templates


@pytest.mark.parametrize(
    "other",
    [
        page("article"),
        page("product", at="help"),  # the same frame at another place
        page("product", *[f"main>form.{n}" for n in range(4)]),  # much that nobody knows
        replace(page("product"), features=frozenset(FRAME)),  # a part of it only
        replace(page("product"), words=frozenset({"h2:how to get there"})),
    ],
)
def test_a_page_that_differs_is_not_recognised(other: PageMarks) -> None:
    assert recognise(known("product"), other) is None


def test_what_two_page_types_fit_is_neither() -> None:
    templates = [*known("product"), replace(known("product")[0], page_type="listing")]
    assert recognise(templates, page("product")) is None


def test_a_site_that_says_something_else_takes_the_trust_away() -> None:
    templates = taught(known("product"), learned("product", "odd", label="job"))
    assert {one.page_type: one.against for one in templates} == {"product": 1, "job": 0}
    assert recognise(templates, page("product")) is None
    for number in range(2, 8):
        templates = taught(templates, learned("product", f"site{number}"))
    assert not [one for one in templates if one.page_type == "product" and not one.is_trusted]


def test_a_frame_without_a_telling_address_is_no_template() -> None:
    pages = [replace(page("product"), address=frozenset({"depth:1", "shape0:slug"}))] * 3
    templates: list[SharedTemplate] = []
    for site in ("one", "two"):
        found = template_of("product", pages, site)
        assert found is not None
        templates = taught(templates, found)
    assert templates[0].sites == 2
    assert recognise(templates, pages[0]) is None


def test_it_is_the_same_after_the_file() -> None:
    (template,) = known("product")
    assert SharedTemplate.from_json(json.loads(json.dumps(template.to_json()))) == template
    for name in ("common", "known", "sites", "taught_by"):
        with pytest.raises(ValueError, match="shared template"):
            SharedTemplate.from_json({**template.to_json(), name: None})
