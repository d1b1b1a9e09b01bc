"""The Python interface without Scrapy: a page to text and data, and records and lines by what crawls have learned.

import llmcrawler

page = llmcrawler.read_page(html, "https://shop.example/tea/7")
extractor = llmcrawler.Extractor.load("shop.json")
found = extractor.record(html, "https://shop.example/tea/7")
"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Collection, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from importlib import import_module
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple, Self

from llmcrawler.core import content
from llmcrawler.core.storage import TemplatesFile
from llmcrawler.core.storage.feeds.langchain import document_of
from llmcrawler.core.storage.feeds.parquet_file import arrow_table, arrow_type
from llmcrawler.core.storage.feeds.tables import clean, columns_of, fitted
from llmcrawler.core.understanding.page_extractor import LineRules, PageExtractor
from llmcrawler.core.urls import normalise_with_route
from llmcrawler.errors import ConfigError, require
from llmcrawler.items import Link, Page, PageError

_COLUMNS: Final = columns_of(Page)


@dataclass(frozen=True, slots=True)
class ReadPage:
    """Content of one page. `text` is the main content as Markdown; `title` and `lang` are "" where there is none."""

    url: str
    text: str
    title: str
    lang: str
    links: tuple[Link, ...]  # absolute http(s) urls, each with its anchor text
    structured_data: tuple[dict[str, Any], ...]  # JSON-LD objects, and microdata and Open Graph products in their form
    metadata: dict[str, str]  # such as author, date, description


class PageRecord(NamedTuple):
    """A page's type and its record; None where neither what a crawl has learned nor structured data gives one."""

    page_type: str | None
    record: dict[str, Any] | None


def read_page(html: str | bytes, url: str, *, content_type: str | None = None) -> ReadPage:
    """Read a page. Bytes are decoded as a browser does, by the header `content_type`, the page itself, or its bytes.

    It never raises on malformed HTML, and takes time in proportion to the page, of which 6 million characters are read.
    It is meant for pages that one trusts to be pages: a crawl reads costly ones in a process with limits.

    >>> body = b"<html lang=en><title>Tea</title><h1>Tea</h1><p>Green tea is <a href=/7>picked</a> in spring."
    >>> page = read_page(body, "https://a.example")
    >>> print(page.text)
    # Tea
    <BLANKLINE>
    Green tea is [picked](https://a.example/7) in spring.
    >>> page.title, page.lang, [link.url for link in page.links], page.structured_data
    ('Tea', 'en', ['https://a.example/7'], ())
    """
    page = content.read_page(_text(html, content_type), url)
    return ReadPage(
        url=url,
        text=content.main_text(page.blocks),
        title=page.title,
        lang=page.lang,
        links=page.links,
        structured_data=page.structured_data,
        metadata=page.metadata,
    )


def documents(
    source: str | PathLike[str] | Iterable[Mapping[str, Any]], fields: Collection[str] | None = None
) -> Iterator[dict[str, Any]]:
    """Yield the pages that have a text as `document_of` makes them: of a JOBDIR, of a feed in JSON Lines, or of lines,
    such as those of a crawl. `fields` choose the metadata. Raises ConfigError where a file is neither.
    """
    from llmcrawler.core.reporting.html.sources import open_lines  # it loads what a report needs

    given = nullcontext(source) if not isinstance(source, (str, PathLike)) else open_lines(Path(source))
    with given as lines:
        yield from filter(None, (document_of(line, fields) for line in lines))


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
    with Extractor.load(templates, fields=fields, schema=schema, page_types=page_types) as extractor:
        return extractor.lines(pages)


def ray_extract(  # noqa: PLR0913 - what a crawl has as arguments, and how Ray is to do it
    dataset: Any,
    templates: str | PathLike[str],
    *,
    fields: str = "",
    schema: str | PathLike[str] = "",
    page_types: str | PathLike[str] = "",
    batch_size: int = 256,
    concurrency: int | tuple[int, int] | None = None,
) -> Any:
    """Return the lines of a `ray.data.Dataset` of pages, as a Dataset: what `extract_batch` does, on all of a cluster.

    Columns of the dataset are those of a page there. A record, and what else is nested, is JSON text. The files are
    read where this is called. `concurrency`: actors, or the least and the most of them; None leaves one CPU to what
    reads the dataset.
    """
    rules, file = LineRules.of(fields, schema, page_types), learned_file(templates)
    file.load()  # what is wrong with it is told here, and not by an actor
    require("ray", "ray", "ray_extract")
    ray: Any = import_module("ray")
    if not ray.is_initialized():
        ray.init()
    cpus = int(ray.cluster_resources().get("CPU", 1))
    return dataset.map_batches(
        RayBatches,
        fn_constructor_args=(file.path.name, file.path.read_bytes(), rules),
        batch_format="pyarrow",
        batch_size=batch_size,
        concurrency=concurrency or (1, max(1, cpus - 1)),
    )


class Extractor:
    """Makes records and lines of pages of the sites that crawls have learned, without a model and without the network.

    Its work is done in a thread with an event loop of its own, so that it may be called anywhere, in a notebook too.
    `close`, a `with`, or the end of the object ends that.

    >>> extractor = Extractor.load("shop.json")
    >>> found = extractor.record(html, url)
    >>> found.page_type, found.record["name"]
    ('product', 'Carlo steel Chair 7')
    """

    def __init__(self, file: TemplatesFile, rules: LineRules) -> None:
        self._extractor = PageExtractor(file, rules)
        self._loop = asyncio.new_event_loop()
        self._thread = ThreadPoolExecutor(1, "page-lines")
        self._end = weakref.finalize(self, _end, self._extractor, self._loop, self._thread)

    @classmethod
    def load(
        cls,
        path: str | PathLike[str],
        *,
        fields: str = "",
        schema: str | PathLike[str] = "",
        page_types: str | PathLike[str] = "",
    ) -> Self:
        """Read a TEMPLATES_FILE, or what a JOBDIR has learned. `fields`, `schema` and `page_types` are those of the
        crawl that has learned. Raises llmcrawler.errors.ConfigError for a file that is not there or none of ours.
        """
        return cls(learned_file(path), LineRules.of(fields, schema, page_types))

    def record(self, html: str | bytes, url: str, *, content_type: str | None = None) -> PageRecord:
        """Return the type and the record of a page; it is that of its structured data where none is learned."""
        (line,) = self.lines([{"url": url, "html": html, "content_type": content_type}])
        return PageRecord(line["page_type"], line["record"])

    def lines(self, pages: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Return a line for each page; see `extract_batch`."""
        return self._thread.submit(self._loop.run_until_complete, self._lines(pages)).result()

    def close(self) -> None:
        self._end()

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
            what = "its html is not text" if spelled else "it is not an http or https URL"
            return Page(str(url), error=PageError("fetch", "url" if spelled is None else "body", what))
        text = html if isinstance(html, str) else content.decode_page(html, given.get("content_type"))
        page = await self._extractor.page_of(text, spelled)
        page.status, page.fetched_at = given.get("status"), given.get("fetched_at")
        return page


def _end(extractor: PageExtractor, loop: asyncio.AbstractEventLoop, thread: ThreadPoolExecutor) -> None:
    extractor.close()
    thread.shutdown()
    loop.close()


class RayBatches:
    """Makes a table of lines of a table of pages, in an actor that has read the templates once."""

    def __init__(self, name: str, templates: bytes, rules: LineRules) -> None:
        import pyarrow as pa  # in the actor

        with TemporaryDirectory() as folder:
            file = Path(folder) / name
            file.write_bytes(templates)
            self._extractor = Extractor(TemplatesFile(file, "templates"), rules)
        self._schema = pa.schema([(column.name, arrow_type(column)) for column in _COLUMNS])

    def __call__(self, batch: Any) -> Any:
        lines = self._extractor.lines(batch.to_pylist())
        return arrow_table(self._schema, [[fitted(column, line[column.name]) for column in _COLUMNS] for line in lines])


def learned_file(path: str | PathLike[str], named: str = "templates") -> TemplatesFile:
    """Return the file of learned templates, of a JOBDIR its own. Raises ConfigError where there is none."""
    file = Path(path).expanduser()
    file = file / "templates.json" if file.is_dir() else file
    if not file.is_file():
        raise ConfigError(f"{file}: no such file")
    return TemplatesFile(file, named)


def _text(html: str | bytes, content_type: str | None) -> str:
    return html if isinstance(html, str) else content.decode_page(html, content_type)
