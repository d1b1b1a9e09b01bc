"""Pages as JSON, for the worker that owns their site."""

from __future__ import annotations

from typing import Any

from llmcrawler.items import Page, PageContent

_TEXT_CHARS = 20_000  # models are shown no more
_CONTENT = ("title", "lang", "metadata", "cues")


def page_to_json(page: Page, *, with_html: bool) -> dict[str, Any]:
    """Return what the classify stage needs of a page; with its HTML also what the record stage needs."""
    assert page.content is not None
    line = {**page.as_line(), "text": None if with_html else (page.text or "")[:_TEXT_CHARS]}
    content = {name: getattr(page.content, name) for name in _CONTENT}
    content["kinds"] = {} if with_html else dict(page.content.kinds)
    content["features"] = sorted(page.content.features)
    content["structured_data"] = [] if with_html else list(page.content.structured_data)
    return {"line": line, "content": content, "html": page.html if with_html else None, "sketch": page.sketch}


def page_of_json(value: dict[str, Any]) -> Page:
    page = Page.of_line(value["line"])
    content = value["content"]
    page.content = PageContent(
        features=frozenset(content["features"]),
        structured_data=tuple(content["structured_data"]),
        kinds=content["kinds"],
        **{name: content[name] for name in _CONTENT},
    )
    page.html, page.sketch = value["html"], value["sketch"]
    return page


RESULTS = ("page_type", "confidence", "decided_by", "template", "record", "record_by", "duplicate_of")


def results_to_json(page: Page, error: Any) -> dict[str, Any]:
    line = page.as_line()
    return {**{name: line[name] for name in RESULTS}, "error": error}
