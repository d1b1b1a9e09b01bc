"""Jobs of a small shop, with stored pages and what was learned of them, for reports."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from llmcrawler.core.frontier.protocol import UrlTask
from llmcrawler.core.frontier.sqlite import SqliteFrontier
from llmcrawler.core.storage import Ledger, Outcome, SiteState, StoredBody, TemplatesFile, open_job_file, write_value
from llmcrawler.core.storage.job_file import JOB_FILE
from llmcrawler.core.understanding.extraction.extractor import FieldRule, TemplateExtractor
from llmcrawler.core.understanding.extraction.record_schema import Field
from llmcrawler.core.understanding.extraction.selectors import Selector
from tests.crawl.jobs import JOB, with_frontier

SITE = "shop.example"
PRODUCT = TemplateExtractor(
    "product",
    (
        FieldRule(Field("name", "string"), (Selector("h1", "css"),)),
        FieldRule(Field("price", "number"), (Selector("p.price", "css"), Selector("b", "css"))),
        FieldRule(Field("stock", "integer"), (Selector("td.stock", "css", pattern=r"^(\d+) left$"),)),
    ),
)
PRODUCT_HTML = (
    "<html><head><title>{name}</title><script>stolen()</script><meta http-equiv=refresh content='0;url=http://e.example'>"
    "</head><body onload='stolen()'><h1>{name}</h1><img src='http://e.example/a.png' alt='a lamp'>{price}"
    "<table><tr><th>Stock<td class=stock>{stock} left</table><a href='javascript:stolen()'>buy</a>{more}</body></html>"
)


def product(number: int, *, template: str = "t1", **more: Any) -> dict[str, Any]:
    """A line of a product page."""
    record = {"name": f"Lamp {number}", "price": 10 + number, "stock": 3}
    line = {"kind": "page", "url": f"https://{SITE}/p/{number}/", "status": 200, "depth": 1, "error": None}
    line |= {"page_type": "product", "decided_by": "template", "template": template, "record": record}
    return line | {"title": f"Lamp {number}", "text": "A lamp.", **more}


def product_html(number: int, price: str = "<p class=price>£ {}</p>", more: str = "") -> str:
    return PRODUCT_HTML.format(name=f"Lamp {number}", price=price.format(10 + number), stock=3, more=more)


def template_entry(template: str, page_type: str, **more: Any) -> dict[str, Any]:
    """What the file of learned templates has for people."""
    none: dict[str, Any] = {"examples": [], "aliases": [], "selectors": [], "schema": None}
    known = {"template": template, "page_type": page_type, "url_pattern": f"/{page_type}/*/"}
    return {**known, **none, "page_count": 3, "llm_calls": 1, **more}


def learned_state(extractors: dict[str, TemplateExtractor]) -> dict[str, Any]:
    """What the file has for the next crawl: how records of these templates are taken."""
    learners = []
    for template, one in extractors.items():
        variant = {"extractor": one.to_json(), "coverage": {rule.field.key: 1.0 for rule in one.rules}}
        known = {"template": template, "page_type": one.page_type, "variants": [variant]}
        learners.append({**known, "calls": 1, "pages_shown": 3, "gave_up": False})
    return {"records": {"wanted": None, "templates": learners}}


def make_stored_job(
    folder: Path, pages: Iterable[tuple[dict[str, Any], str | None]], learned: SiteState | None = None
) -> Path:
    """Make a job of these lines, each with its stored page (None: it is not kept)."""
    folder.mkdir(parents=True, exist_ok=True)

    async def crawl(frontier: SqliteFrontier, ledger: Ledger) -> None:
        for line, html in pages:
            url = line["url"]
            await frontier.add([UrlTask(url, urlsplit(url).netloc, depth=1)])
            await frontier.lease(1, {}, 1)
            if html is not None:
                headers = (("content-type", "text/html; charset=utf-8"),)
                ledger.keep_body(url, StoredBody(url, 200, headers, html.encode(), "2026-01-01", 0.1))
            await frontier.ack(url, Outcome(line, {}))

    asyncio.run(with_frontier(folder, crawl))
    connection = open_job_file(folder / JOB_FILE)
    for name, value in JOB.items():
        write_value(connection, name, value)
    connection.close()
    state = learned or SiteState([template_entry("t1", "product")], learned_state({"t1": PRODUCT}))
    TemplatesFile(folder / "templates.json").save({SITE: state})
    return folder
