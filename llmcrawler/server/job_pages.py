"""Pages for people: the jobs of a server, their progress and records, a page beside its record, and corrections.

All texts are escaped, and a policy lets the browser run and load nothing but what is served here. Who has no cookie of
the server's token is asked to log in; a form counts only where it comes from a page of this server.
"""

from __future__ import annotations

import asyncio
import hmac
from base64 import b64encode
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from functools import cache, partial
from hashlib import sha256
from importlib.resources import files
from typing import Any, Final
from urllib.parse import parse_qsl, urlencode, urlsplit

from jinja2 import Environment
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from llmcrawler.core.reporting.html.render import html_environment, report_style
from llmcrawler.core.reporting.html.sources import LearnedSites, is_readable
from llmcrawler.core.reporting.html.stored_pages import look_at, record_rows
from llmcrawler.core.reporting.terminal_tables import selector_text
from llmcrawler.core.reporting.text import shown_value
from llmcrawler.core.storage import TemplatesFile
from llmcrawler.core.understanding.classification.page_types import DEFAULT_PAGE_TYPES
from llmcrawler.core.understanding.extraction import corrections
from llmcrawler.core.understanding.extraction.extractor import FieldRule, SelectorResult
from llmcrawler.core.understanding.extraction.record_schema import FIELD_TYPES, Field
from llmcrawler.core.understanding.extraction.selectors import LANGUAGES, Selector
from llmcrawler.core.urls import site_name
from llmcrawler.errors import ConfigError, CrawlerError, JobsFull, NoSuchJob
from llmcrawler.server import job_results
from llmcrawler.server.jobs import Jobs, ServerJob

_ASSETS: Final = files("llmcrawler.server") / "assets"
# The style of a stored page, which has none of its own left.
_MARKS: Final = """:root{color-scheme:light;background:#fff;color:#17202b}body{font:15px/1.5 system-ui,sans-serif}
[data-llmcrawler]{outline:2px solid #b4560a!important;background:#fff3d6!important;color:#17202b!important}
[data-llmcrawler]:target{outline:4px solid #b3261e!important}
[data-llmcrawler]::before{content:attr(data-llmcrawler);font:600 11px monospace;background:#8a3f00;color:#fff}"""
_MARKS_HASH: Final = b64encode(sha256(_MARKS.encode()).digest()).decode()
_POLICY: Final = (
    f"default-src 'none'; style-src 'self' 'sha256-{_MARKS_HASH}'; script-src 'self'; connect-src 'self'; form-action "
    "'self'; base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS: Final = {
    "Content-Security-Policy": _POLICY,
    "Referrer-Policy": "same-origin",  # with "no-referrer" a form would not tell where it comes from
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}
_COOKIE: Final = "llmcrawler"
_JOBS_SHOWN: Final = 100
_ROWS: Final = 50
_PLACE_DIGITS: Final = 18  # SQLite has no longer numbers
_COLUMNS: Final = 12
_TEMPLATES: Final = 100
_STOP_SECONDS: Final = 5.0

Handler = Callable[[Request], Awaitable[Response]]


class Pages:
    """The pages, for people who know the token."""

    def __init__(self, jobs: Jobs, token: str) -> None:
        self._jobs = jobs
        self._token = token
        self._cookie = hmac.new(token.encode(), b"cookie of the pages", "sha256").hexdigest()
        self._file = TemplatesFile(jobs.templates_file)

    def routes(self) -> list[Route]:
        def of(path: str, handler: Handler, method: str = "GET") -> Route:
            return Route(path, partial(self._guarded, handler), methods=[method])

        return [
            of("/", self._list),
            of("/login", self._log_in, "POST"),
            of("/jobs", self._start, "POST"),
            of("/jobs/{id}", self._job),
            of("/jobs/{id}/stop", self._stop, "POST"),
            of("/jobs/{id}/delete", self._delete, "POST"),
            of("/jobs/{id}/page", self._page),
            of("/jobs/{id}/templates", self._templates),
            of("/jobs/{id}/templates", self._correct, "POST"),
            *(Route(f"/assets/pages.{kind}", _asset) for kind in ("css", "js")),
        ]

    async def _guarded(self, handler: Handler, request: Request) -> Response:
        """Ask for the token where it has not been given, and refuse forms of other sites."""
        origin, is_read = request.headers.get("Origin", ""), request.method in ("GET", "HEAD")
        if not is_read and urlsplit(origin).netloc != request.headers.get("Host"):
            return _answer("error", 403, error="This form does not come from a page of this server.")
        is_in = hmac.compare_digest(request.cookies.get(_COOKIE, "").encode(), self._cookie.encode())
        if not is_in and handler != self._log_in:
            return _answer("login", 401)
        try:
            return await handler(request)
        except NoSuchJob as error:
            return _answer("error", 404, error=str(error))
        except (CrawlerError, OSError) as error:
            return _answer("error", 400, error=str(error))

    async def _log_in(self, request: Request) -> Response:
        token = (await _form(request)).get("token", "")
        if not hmac.compare_digest(token.encode(), self._token.encode()):
            return _answer("login", 401, error="This is not the token that the server was started with.")
        response, is_secure = _to("/"), request.url.scheme == "https"
        response.set_cookie(_COOKIE, self._cookie, httponly=True, samesite="strict", secure=is_secure)
        return response

    async def _list(self, _request: Request, form: Mapping[str, str] = {}, error: str = "") -> Response:
        jobs = self._jobs.all()
        shown = await asyncio.to_thread(lambda: [(job, job_results.progress(job)) for job in jobs[:_JOBS_SHOWN]])
        limits, left_out = self._jobs.limits, max(0, len(jobs) - _JOBS_SHOWN)
        status = 400 if error else 200
        return _answer("jobs", status, jobs=shown, left_out=left_out, limits=limits, form=form, error=error)

    async def _start(self, request: Request) -> Response:
        form = await _form(request)
        arguments = {name: form[name] for name in ("url", "goal", "fields") if form.get(name)}
        try:
            budget: dict[str, float] = {name: int(form[name]) for name in ("max_pages", "max_tokens") if form.get(name)}
            budget |= {name: float(form[name]) for name in ("max_cost_usd", "max_seconds") if form.get(name)}
            job = await self._jobs.submit("explore", arguments, budget, origin="page")
        except ValueError:
            return await self._list(request, form, "The budget has to be given in numbers.")
        except (ConfigError, JobsFull) as error:
            return await self._list(request, form, str(error))
        return _to(f"/jobs/{job.id}")

    async def _job(self, request: Request) -> Response:
        job, query = self._jobs.get(request.path_params["id"]), request.query_params
        text = query.get("after", "")
        after = int(text) if text.isdecimal() and len(text) <= _PLACE_DIGITS else 0
        filters: dict[str, Any] = {"page_type": query.get("type") or None, "has_record": "records" in query}
        found = await asyncio.to_thread(job_results.pages, job, after=after, limit=_ROWS, **filters)
        counts = await asyncio.to_thread(job_results.progress, job)
        names = Counter(name for line in found.lines for name in line.get("record") or ())
        columns = [name for name, _count in names.most_common(_COLUMNS)]
        kept = {"type": query.get("type", ""), **({"records": "1"} if filters["has_record"] else {})}
        more = found.next and urlencode({**kept, "after": found.next})
        return _answer("job", job=job, counts=counts, lines=found.lines, columns=columns, more=more, kept=kept)

    async def _stop(self, request: Request) -> Response:
        job = self._jobs.get(request.path_params["id"])
        await self._jobs.stop(job.id, _STOP_SECONDS)  # what is under way may take longer, and then the page tells that
        return _to(f"/jobs/{job.id}")

    async def _delete(self, request: Request) -> Response:
        await self._jobs.delete(request.path_params["id"])
        return _to("/")

    async def _page(self, request: Request) -> Response:
        job, url = self._jobs.get(request.path_params["id"]), request.query_params.get("url", "")
        return _answer("page", **await asyncio.to_thread(self._looked_at, job, url))

    def _looked_at(self, job: ServerJob, url: str) -> dict[str, Any]:
        line, html = job_results.page(job, url)
        if line is None:
            raise NoSuchJob(f"the job has no page {url[:200]!r}")
        site, template, record = site_name(url), str(line.get("template")), line.get("record")
        known = [one for one in job_results.templates(job) if one["site"] == site and template in _ids(one)]
        shown, results, places = None, list[SelectorResult](), dict[str, str]()
        if html is not None and is_readable(html):
            learned, stored = LearnedSites(), self._file.load().get(site)
            learned.add(site, stored.templates if stored is not None else (), stored)
            template = known[0]["template"] if known else template
            variants = learned.variants(url, template, str(line.get("page_type")), of_others=True)
            shown, results, places = look_at(html, variants, line.get("final_url") or url, line.get("lang") or "")
            shown = f"<!DOCTYPE html><meta charset=utf-8><style>{_MARKS}</style>{shown}"
        rows = record_rows(record, results, places) if isinstance(record, dict) else []
        return {"job": job, "line": line, "html": shown, "rows": rows, "templates": known}

    async def _templates(self, request: Request, error: str = "", said: str = "") -> Response:
        job = self._jobs.get(request.path_params["id"])
        found, status = await asyncio.to_thread(job_results.templates, job), 400 if error else 200
        shown = {"templates": found[:_TEMPLATES], "left_out": len(found[_TEMPLATES:])}
        return _answer("templates", status, job=job, error=error, said=said, **shown)

    async def _correct(self, request: Request) -> Response:
        job, form = self._jobs.get(request.path_params["id"]), await _form(request)
        try:
            said = await asyncio.to_thread(self._corrected, job, form)
        except (ConfigError, OSError) as error:
            return await self._templates(request, str(error))
        return await self._templates(request, said=said)

    def _corrected(self, job: ServerJob, form: Mapping[str, str]) -> str:
        """Do what a form asks for, and return what came of it. Raises ConfigError, OSError."""
        place = self._file, form.get("site", ""), form.get("template", "")
        name, kind = form.get("field", ""), form.get("type", "")
        if form.get("correct") == "page_type":
            corrections.correct_page_type(*place, form.get("page_type", ""), DEFAULT_PAGE_TYPES.names)
            return "The page type is corrected. It holds for crawls that begin now."
        if form.get("correct") == "name":
            corrections.rename_field(*place, name, form.get("name", ""))
            return "The field is renamed. It holds for crawls that begin now."
        if form.get("correct") == "nothing":
            corrections.remove_corrections(*place)
            return "The corrections are removed. Crawls that begin now go by what was learned."
        if kind.removesuffix("[]") not in ("", *FIELD_TYPES):
            raise ConfigError(f"type: {kind!r} is not one of {', '.join(FIELD_TYPES)}")
        field = Field(name, kind.removesuffix("[]") or None, kind.endswith("[]"))  # type: ignore[arg-type]
        language: Any = form.get("language", "css")
        selector = Selector(form.get("query", ""), language, form.get("attribute") or None, form.get("pattern") or None)
        tried = corrections.correct_selector(*place, FieldRule(field, (selector,)), _stored_pages(job, *place[1:]))
        values = "; ".join(str(shown_value(value, 80)) for one in tried.values for value in one.values())
        return f"The selector gives a value on {tried.given} of {tried.pages} stored pages: {values}."


def _ids(template: Mapping[str, Any]) -> set[str]:
    """Return the ids that lines may have for a template: earlier ones were merged into it."""
    return {template["template"], *(template.get("aliases") or ())}


def _stored_pages(job: ServerJob, site: str, template: str) -> Iterator[corrections.PageToTry]:
    own = (_ids(one) for one in job_results.templates(job) if one["site"] == site)
    ids = next((ids for ids in own if template in ids), {template})
    for _seq, line in job_results.lines_after(job):
        if line.get("template") in ids and site_name(line["url"]) == site:
            _, html = job_results.page(job, line["url"])
            if html is not None and is_readable(html):
                yield corrections.PageToTry(html, line.get("final_url") or line["url"], line.get("lang") or "")


async def _form(request: Request) -> dict[str, str]:
    """Read a form. Raises ConfigError for what is none."""
    try:
        fields = parse_qsl((await request.body()).decode(), keep_blank_values=True, max_num_fields=50)
    except ValueError as error:
        raise ConfigError(f"the form cannot be read: {error}") from error
    return {name: value.strip() for name, value in fields}


def _to(path: str) -> RedirectResponse:
    return RedirectResponse(path, 303, _HEADERS)


def _answer(view: str, status: int = 200, **values: Any) -> Response:
    page = _environment().get_template("pages.html")
    return HTMLResponse(page.render(view=view, **{"error": "", **values}).encode("utf-8", "replace"), status, _HEADERS)


async def _asset(request: Request) -> Response:
    if request.url.path.endswith(".css"):
        return Response(report_style() + _text("pages.css"), 200, _HEADERS, "text/css")
    return Response(_text("pages.js"), 200, _HEADERS, "text/javascript")


def _text(name: str) -> str:
    return (_ASSETS / name).read_text(encoding="utf-8")


@cache
def _environment() -> Environment:
    environment = html_environment({"pages.html": _text("pages.html")})
    environment.filters |= {"value": lambda value: shown_value(value, 200), "selector": selector_text}
    environment.globals |= {"page_types": sorted(DEFAULT_PAGE_TYPES.names), "field_types": FIELD_TYPES}
    environment.globals |= {"languages": LANGUAGES}
    return environment
