"""Firecrawl's API, version 2: its clients, and what is built on them, run unchanged against `llmcrawler serve`.

A scrape is a job of one page that is waited for, a batch a job of listed pages, a crawl an `explore`, a map a `map`.
docs/firecrawl.md says which of the options do something here, which are passed over, and which are refused.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from contextlib import closing, suppress
from reprlib import repr as shown
from typing import Annotated, Any, Final, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from pydantic.alias_generators import to_camel
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from llmcrawler.core.content import PageReader, joined, read_outline
from llmcrawler.core.content.markup import parse
from llmcrawler.core.reporting.exit_status import ExitStatus
from llmcrawler.core.storage.feeds.tables import clean
from llmcrawler.core.urls import normalise
from llmcrawler.crawl.task_lists import read_url
from llmcrawler.errors import ContentError, JobRefused, NoSuchJob
from llmcrawler.server.http_guard import query_number, read_body
from llmcrawler.server.job_results import lines_after, page, progress
from llmcrawler.server.jobs import Jobs, ServerJob, Spider, Webhook, read_as

_ORIGIN: Final = "firecrawl"
_OPTIONS: Final = "firecrawl.json"  # in the job's folder: how its documents are to be
_MOST_DOCUMENTS: Final = 25  # of one answer, which ends after so many characters too
_MOST_CHARS: Final = 10_000_000
_MOST_ERRORS: Final = 1_000
_INLINE_CHARS: Final = 300_000  # longer pages are read in a process of their own
_START_SECONDS: Final = 15.0  # for a crawl's process to start, to write what it has, and to end
_STATUSES: Final = {"finished": "completed", "failed": "failed", "stopped": "cancelled"}
_METADATA: Final = {"title": "title", "language": "lang", "sourceURL": "url", "statusCode": "status"}

# Of a page's error: the status of the answer and Firecrawl's code for it. Its clients raise by these.
_CODES: Final = {
    "site": (500, "SCRAPE_SITE_ERROR"),  # all others
    "dns": (500, "SCRAPE_DNS_RESOLUTION_ERROR"),
    "tls": (500, "SCRAPE_SSL_ERROR"),
    "timeout": (408, "SCRAPE_TIMEOUT"),
    "not_html": (500, "SCRAPE_UNSUPPORTED_FILE_ERROR"),
    **dict.fromkeys(("robots", "robots_unreachable", "rights", "private_address"), (403, "CRAWL_DENIAL")),
}

# Options that change nothing here, or nothing that anyone would miss.
_PASSED_OVER: Final = frozenset(
    "origin integration auditMetadata maxConcurrency parsers skipTlsVerification removeBase64Images fastMode blockAds"
    " maxAge storeInCache waitFor useIndex ignoreCache filterByPath".split()
)


class FirecrawlRefusal(Exception):
    """An answer that is an error: its HTTP status, Firecrawl's code for it, and what is wrong."""


class _Body(BaseModel):
    """What a client sends. All that is no field is passed over or refused by name; false, 0 and "" ask for nothing."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="allow")

    @model_validator(mode="after")
    def _refuse_the_rest(self) -> Self:
        for name, value in (self.model_extra or {}).items():
            if value and name not in _PASSED_OVER:
                raise JobRefused(f"{name}={shown(value)}: this server does not do that; leave it out")
        return self


# Bounds are for what is done before the jobs look at it, which have their own.
_Path = Annotated[str, Field(max_length=500)]
_Url = Annotated[str, AfterValidator(read_url)]
_BY_TYPE: Final = BeforeValidator(lambda given: {"type": given} if isinstance(given, str) else given)
_BY_URL: Final = BeforeValidator(lambda given: {"url": given} if isinstance(given, str) else given)
_Json = dict[str, Any]


class _Format(_Body):
    type: Literal["markdown", "html", "rawHtml", "links", "json"]
    json_schema: _Json = Field(default={}, alias="schema")


class _ScrapeOptions(_Body):
    formats: tuple[Annotated[_Format, _BY_TYPE], ...] = (_Format(type="markdown"),)
    only_main_content: bool = True
    timeout: int = Field(default=60_000, ge=1_000, le=86_400_000)  # in ms
    proxy: Literal["basic", "auto"] = "auto"

    def arguments(self) -> _Json:
        schema = next((one.json_schema for one in self.formats if one.json_schema), None)
        return {"schema": schema} if schema else {}


class _Webhook(_Body):
    url: str
    events: tuple[Literal["completed", "failed"], ...] = ()


class _ScrapeRequest(_ScrapeOptions):
    url: _Url


class _BatchRequest(_ScrapeOptions):
    urls: tuple[str, ...] = Field(min_length=1, max_length=10_000)
    webhook: Annotated[_Webhook | None, _BY_URL] = None
    ignore_invalid_urls: bool = Field(default=True, alias="ignoreInvalidURLs")


class _CrawlRequest(_Body):
    url: _Url
    limit: int | None = Field(default=None, ge=1)
    max_discovery_depth: int | None = Field(default=None, ge=0, le=1_000)
    include_paths: tuple[_Path, ...] = Field(default=(), max_length=20)
    exclude_paths: tuple[_Path, ...] = Field(default=(), max_length=20)
    crawl_entire_domain: bool = False
    regex_on_full_url: bool = Field(default=False, alias="regexOnFullURL")
    sitemap: Literal["include"] = "include"
    deduplicate_similar_urls: Literal[True] = Field(default=True, alias="deduplicateSimilarURLs")
    scrape_options: _ScrapeOptions = _ScrapeOptions()
    webhook: Annotated[_Webhook | None, _BY_URL] = None

    def arguments(self) -> _Json:
        """Return the arguments of `explore`, whose patterns are searched in whole urls."""
        wanted = [self._expression("includePaths", one) for one in self.include_paths]
        below = urlsplit(self.url).path
        allow = f"(?:{'|'.join(wanted)})" if wanted else ""
        if below > "/" and not self.crawl_entire_domain:
            allow = rf"(?=https?://[^/?#]+{re.escape(below)}){allow}"
        deny = "|".join(self._expression("excludePaths", one) for one in self.exclude_paths)
        given = {"depth": self.max_discovery_depth, "allow": allow and f"^{allow}", "deny": deny and f"^(?:{deny})"}
        asked = {name: value for name, value in given.items() if value not in (None, "")}
        return {"url": self.url, **asked, **self.scrape_options.arguments()}

    def _expression(self, name: str, given: str) -> str:
        """Return an expression that matches a url from its start where Firecrawl's is found in its path."""
        try:
            re.compile(given)
        except re.error as error:
            raise JobRefused(f"{name}={shown(given)} is not a regular expression: {error}") from error
        if self.regex_on_full_url:
            return f".*?(?:{given})"
        parts = re.fullmatch(r"(\^?)((?:[^\^$\\[]|\\.|\[(?:[^\]\\]|\\.)*\])*)(\$?)", given)
        if parts is None:
            raise JobRefused(f"{name}={shown(given)}: ^ and $ may stand at its ends only; give alternatives one by one")
        before, end = "" if parts[1] else "[^?#]*?", "(?:[?#]|$)" if parts[3] else ""
        return f"https?://[^/?#]+{before}(?:{parts[2]}){end}"


class _MapRequest(_Body):
    url: _Url
    search: str = Field(default="", max_length=500)
    limit: int = Field(default=5_000, ge=1, le=30_000)
    include_subdomains: bool = True
    ignore_query_parameters: bool = True
    sitemap: Literal["include"] = "include"
    timeout: int = Field(default=60_000, ge=1_000, le=86_400_000)  # in ms


def routes(jobs: Jobs) -> list[BaseRoute]:
    """Return the routes of all that is under /v2/; who may ask is decided before."""
    api = _Firecrawl(jobs)
    endpoints = [
        ("POST", "scrape", api.scrape),
        ("POST", "map", api.map),
        ("POST", "crawl", api.start_crawl),
        ("GET", "crawl/active", api.active_crawls),
        ("GET", "crawl/{job_id}", api.status),
        ("DELETE", "crawl/{job_id}", api.cancel),
        ("GET", "crawl/{job_id}/errors", api.errors),
        ("POST", "batch/scrape", api.start_batch),
        ("GET", "batch/scrape/{job_id}", api.status),
        ("DELETE", "batch/scrape/{job_id}", api.cancel),
        ("GET", "batch/scrape/{job_id}/errors", api.errors),
    ]
    return [Route(f"/v2/{path}", _answering(endpoint), methods=[method]) for method, path, endpoint in endpoints]


class _Firecrawl:
    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs

    async def scrape(self, request: Request) -> _Json:
        asked = await read_body(_ScrapeRequest, request)
        job = await self._finished("extract", {"urls": [asked.url], **asked.arguments()}, 1, asked.timeout)
        found, _ = await asyncio.to_thread(_found_after, job, 0, 1)
        if found:
            return {"data": (await _documents(job, asked, found))[0]}
        unread = {"error": {"kind": "timeout", "message": f"it was not read in {asked.timeout} ms"}}
        _, line = await asyncio.to_thread(next, lines_after(job), (0, unread))
        raise FirecrawlRefusal(*_code_of(line["error"]), f"{asked.url}: {line['error']['message']}")

    async def map(self, request: Request) -> _Json:
        asked = await read_body(_MapRequest, request)
        most = {} if asked.search else {"max_urls": asked.limit}  # what is searched for may be the last url
        given = {"url": asked.url, "subdomains": asked.include_subdomains, **most}
        job = await self._finished("map", given, None, asked.timeout)
        return {"id": job.id, "links": await asyncio.to_thread(_links, job, asked)}

    async def start_crawl(self, request: Request) -> _Json:
        asked = await read_body(_CrawlRequest, request)
        if (most := self._jobs.limits.most.max_pages) < (asked.limit or 0):
            raise JobRefused(f"limit={asked.limit}: at most {most} here")
        job = await self._submit("explore", asked.arguments(), {"max_pages": asked.limit}, asked.webhook)
        return _started(request, job, asked.scrape_options)

    async def start_batch(self, request: Request) -> _Json:
        asked = await read_body(_BatchRequest, request)
        invalid = {url for url in asked.urls if normalise(url) is None}
        if invalid and not asked.ignore_invalid_urls:
            raise JobRefused(f"urls: {shown(min(invalid))} is not an http or https url")
        given = {"urls": [url for url in asked.urls if url not in invalid], **asked.arguments()}
        job = await self._submit("extract", given, {"max_pages": len(given["urls"]) or 1}, asked.webhook)
        return {**_started(request, job, asked), "invalidURLs": sorted(invalid)}

    async def status(self, request: Request) -> _Json:
        job = self._job_of(request)  # before its lines: if it has ended, those are all
        options = _ScrapeOptions()
        with suppress(OSError, ValueError):  # the server was killed before it had written them
            options = _ScrapeOptions.model_validate_json((job.folder / _OPTIONS).read_bytes())
        limit = min(query_number(request, "limit", _MOST_DOCUMENTS, 10_000), _MOST_DOCUMENTS)
        found, following = await asyncio.to_thread(_found_after, job, query_number(request, "skip", 0, 2**62), limit)
        counts = await asyncio.to_thread(progress, job)
        done = counts["pages_done"] + (counts["pages_failed"] if job.spider == "extract" else 0)
        left = 0 if job.has_ended else min(counts["pages_queued"], max(0, job.budget.max_pages - done))
        # A list of which no page could be read counts as failed, but each of its urls has an answer.
        has_all = job.spider == "extract" and job.exit_status == ExitStatus.UNREACHABLE
        more = None if following is None else request.url.include_query_params(skip=following, limit=limit)
        return {
            "status": "completed" if has_all else _STATUSES.get(job.state, "scraping"),
            "completed": done,
            "total": done + left,
            "creditsUsed": done,
            "expiresAt": None,
            "next": more and str(more),  # only where they are there: a client asks for them without a pause
            "warning": job.cause if job.exit_status else None,
            "data": await _documents(job, options, found),
        }

    async def errors(self, request: Request) -> _Json:
        return await asyncio.to_thread(_errors, self._job_of(request))

    async def cancel(self, request: Request) -> _Json:
        job = self._job_of(request)
        if job.has_ended:
            raise FirecrawlRefusal(409, "CONFLICT", "the job has ended already")
        await self._jobs.stop(job.id)
        return {"status": "cancelled"}

    async def active_crawls(self, _: Request) -> _Json:
        ours = [job for job in self._jobs.all() if (job.origin, job.spider) == (_ORIGIN, "explore")]
        return {"crawls": [{"id": job.id, "teamId": "", "url": job.starts[0]} for job in ours if not job.has_ended]}

    async def _submit(self, spider: Spider, given: _Json, budget: _Json, hook: _Webhook | None = None) -> ServerJob:
        webhook = None if hook is None else read_as(Webhook, {"url": hook.url})
        return await self._jobs.submit(spider, given, budget, origin=_ORIGIN, webhook=webhook)

    async def _finished(self, spider: Spider, arguments: _Json, pages: int | None, timeout_ms: int) -> ServerJob:
        """Return a job that has ended. Raises FirecrawlRefusal where it could not in its time."""
        seconds = min(timeout_ms / 1000, self._jobs.limits.most.max_seconds)
        job = await self._submit(spider, arguments, {"max_pages": pages, "max_seconds": seconds})
        job = await self._jobs.wait(job.id, seconds + _START_SECONDS)
        if not job.has_ended:
            await self._jobs.stop(job.id)
            raise FirecrawlRefusal(*_CODES["timeout"], "other jobs took all the time: come again, or wait longer")
        return job

    def _job_of(self, request: Request) -> ServerJob:
        job = self._jobs.get(request.path_params["job_id"])
        if (job.origin, job.spider) != (_ORIGIN, "extract" if "/batch/" in request.url.path else "explore"):
            raise NoSuchJob(f"there is no such job {job.id}")
        return job


def _answering(endpoint: Callable[[Request], Awaitable[_Json]]) -> Callable[[Request], Awaitable[Response]]:
    """Return an endpoint that answers as Firecrawl's; what is refused is answered by the app."""

    async def answer(request: Request) -> Response:
        return JSONResponse(clean({"success": True, **await endpoint(request)}))

    return answer


def _started(request: Request, job: ServerJob, options: _ScrapeOptions) -> _Json:
    kept = options.model_dump_json(by_alias=True, include={"formats": {"__all__": {"type"}}, "only_main_content": True})
    with suppress(OSError):  # it is deleted already
        (job.folder / _OPTIONS).write_text(kept, encoding="utf-8")
    return {"id": job.id, "url": f"{request.url}/{job.id}"}


def _found_after(job: ServerJob, after: int, limit: int) -> tuple[list[tuple[_Json, str]], int | None]:
    """Return lines that are documents, each with its page as it was fetched, and the place that more come after."""
    found: list[tuple[_Json, str]] = []
    chars = 0
    for seq, line in lines_after(job, after):
        if len(found) >= limit or chars > _MOST_CHARS:
            return found, after
        after = seq
        if _is_document(job, line):
            html = page(job, line["url"])[1] or ""
            found.append((line, html))
            chars += len(line["text"] or "") + len(html)
    return found, None


def _is_document(job: ServerJob, line: Mapping[str, Any]) -> bool:
    """Tell whether a line is of a page that was read and repeats no other; of listed ones, of any that was answered."""
    error = line["error"]
    if error is None or error["stage"] != "fetch":
        return line["kind"] == "page" and not line["duplicate_of"]
    return job.spider == "extract" and str(error["kind"]).startswith("http_")


def _code_of(error: _Json) -> tuple[int, str]:
    # A host that is given up says with what it failed the last time.
    last = re.search(r" with: (\w+)", error["message"]) if error["kind"] == "host_down" else None
    return _CODES.get(last[1] if last else error["kind"], _CODES["site"])


def _errors(job: ServerJob) -> _Json:
    failed = [line for _, line in lines_after(job) if line["error"] and not _is_document(job, line)]
    errors: dict[str, list[Any]] = {"errors": [], "robotsBlocked": []}
    for line in failed[:_MOST_ERRORS]:
        url, kind = line["url"], line["error"]["kind"]
        if kind == "robots":
            errors["robotsBlocked"].append(url)
        elif kind != "redirect_seen":  # the page that it leads to has its own line
            _, code = _code_of(line["error"])
            errors["errors"].append({"id": url, "url": url, "code": code, "error": line["error"]["message"]})
    return errors


def _links(job: ServerJob, asked: _MapRequest) -> list[_Json]:
    links: dict[str, _Json] = {}
    words = asked.search.lower().split()
    for _, line in lines_after(job):
        url = line["url"].partition("?")[0] if asked.ignore_query_parameters else line["url"]
        if line["error"] is None and all(word in f"{url} {line['title']}".lower() for word in words):
            links.setdefault(url, {"url": url, "title": line["title"]})
    return list(links.values())[: asked.limit]


async def _documents(job: ServerJob, asked: _ScrapeOptions, found: list[tuple[_Json, str]]) -> list[_Json]:
    kinds = {one.type for one in asked.formats}
    documents = []
    with closing(PageReader(_INLINE_CHARS)) as reader:
        for line, html in found:
            url = line["final_url"] or line["url"]
            doc: _Json = {"markdown": line["text"] or "", "rawHtml": html, "json": line["record"]}
            about = {name: line[field] for name, field in _METADATA.items()} | {"url": url, "scrapeId": job.id}
            about["error"] = line["error"] and line["error"]["message"]
            with suppress(ContentError):  # the crawl could not read it either, and its line says so
                outline = await reader.apply(read_outline, html, url, url=url)
                about["description"], doc["links"] = outline.description, outline.links
                if "html" in kinds:
                    doc["html"] = await reader.apply(_without_scripts, html, url=url)
                if not asked.only_main_content:
                    doc["markdown"] = joined((await reader.read(html, url)).blocks)
            doc = {name: value for name, value in doc.items() if name in kinds}
            documents.append({**doc, "metadata": {name: value for name, value in about.items() if value}})
    return documents


def _without_scripts(html: str) -> str:
    """Return a page without what shows no text: scripts, styles and templates."""
    tree = parse(html)
    tree.strip_tags(["script", "style", "noscript", "template"])
    return tree.html or ""
