"""Makes lines of batches of pages, for programs and for Ray Data."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from os import PathLike
from pathlib import Path
from typing import Any, Self

from llmcrawler.core.content import decode_page
from llmcrawler.core.storage import TemplatesFile
from llmcrawler.core.storage.feeds.tables import clean
from llmcrawler.core.understanding.page_extractor import LineRules, PageExtractor
from llmcrawler.core.urls import normalise_with_route
from llmcrawler.errors import ConfigError
from llmcrawler.items import Page, PageError


class BatchExtractor:
    """Makes the lines of pages that a program has, by a file of learned templates. Its work is done in a thread with an
    event loop of its own, so that it may be called anywhere, in a notebook too. `close` ends that; so does a `with`.
    """

    def __init__(self, file: TemplatesFile, rules: LineRules) -> None:
        self._extractor = PageExtractor(file, rules)
        self._loop = asyncio.Runner()
        self._thread = ThreadPoolExecutor(1, "page-lines")

    def lines(self, pages: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Return a line for each page, in their order. See `extract_batch`."""
        return self._thread.submit(self._loop.run, self._lines(pages)).result()

    def close(self) -> None:
        self._extractor.close()
        self._thread.submit(self._loop.close).result()
        self._thread.shutdown()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def _lines(self, pages: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
        return [clean((await self._page_of(page)).as_line()) for page in pages]

    async def _page_of(self, given: Mapping[str, Any]) -> Page:
        try:
            url, html = given["url"], given["html"]
        except (KeyError, TypeError) as error:
            raise ValueError("each page is a dict with its url and its html") from error
        spelled = normalise_with_route(url) if isinstance(url, str) else None
        if spelled is None or not isinstance(html, (str, bytes)):
            what = "its html is no text" if spelled else "it is no http or https url"
            return Page(str(url), error=PageError("fetch", "url" if spelled is None else "body", what))
        text = html if isinstance(html, str) else decode_page(html, given.get("content_type"))
        page = await self._extractor.page_of(text, spelled)
        page.status, page.fetched_at = given.get("status"), given.get("fetched_at")
        return page


def extract_batch(
    pages: Iterable[Mapping[str, Any]],
    templates: str | PathLike[str],
    *,
    fields: str = "",
    schema: str | PathLike[str] = "",
    page_types: str | PathLike[str] = "",
) -> list[dict[str, Any]]:
    """Return a line for each page, as a crawl's feed has it, without the network and without a model.

    A page is a dict of `url` and `html` (text, or bytes and `content_type`, the header of that name); `status` and
    `fetched_at` are kept. `templates` is a TEMPLATES_FILE or a JOBDIR; `fields`, `schema` and `page_types` are those of
    the crawl that has learned. Each line is of its page alone: what a crawl knows only from many pages (`text`,
    `duplicate_of`, `rights`) is null. Raises llmcrawler.errors.ConfigError for a file that is none of ours.

    >>> line = extract_batch([{"url": url, "html": html}], "shop.json")[0]
    >>> line["page_type"], line["record_by"], line["record"]["name"]
    ('product', 'template', 'Carlo steel Chair 7')
    """
    with BatchExtractor(learned_file(templates), LineRules.of(fields, schema, page_types)) as extractor:
        return extractor.lines(pages)


def learned_file(path: str | PathLike[str], named: str = "templates") -> TemplatesFile:
    """Return the file of learned templates, of a JOBDIR its own. Raises ConfigError where there is none."""
    file = Path(path).expanduser()
    file = file / "templates.json" if file.is_dir() else file
    if not file.is_file():
        raise ConfigError(f"{file}: no such file")
    return TemplatesFile(file, named)
