"""The jobs over HTTP: `/v1/jobs` and its description in OpenAPI, beside Firecrawl's API and the pages for people."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from itertools import chain, islice
from typing import Any, Final

from mcp.server.transport_security import TransportSecuritySettings
from pydantic import BaseModel, Field
from pydantic.json_schema import models_json_schema
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp

import llmcrawler
from llmcrawler.core.storage.feeds.tables import RECORD, clean
from llmcrawler.errors import ConfigError, JobRefused, JobsFull, NoSuchJob
from llmcrawler.server import firecrawl_api, job_pages, job_results
from llmcrawler.server.http_guard import MAX_BODY_BYTES, HttpGuard, error_response, query_number, read_body
from llmcrawler.server.jobs import ARGUMENTS, JobBudget, Jobs, ServerJob, Spider, Webhook
from llmcrawler.server.mcp_tools import build_server

_MOST_JOBS: Final = 100  # of one answer
_SHORT_CHARS: Final = 2_000
_MOST_LINES: Final = 10_000
_MOST_TEMPLATES: Final = 100
_JSON_LINES: Final = "application/x-ndjson"
_OF_RECORDS: Final = ("url", "page_type", "template", RECORD, "lang")


class NewJob(BaseModel, extra="forbid"):
    """What a client asks for."""

    spider: Spider = "explore"
    arguments: dict[str, Any] = Field(default={}, description=f"its arguments: {', '.join(ARGUMENTS)}")
    budget: dict[str, Any] = Field(default={}, description=", ".join(one.name for one in fields(JobBudget)))
    webhook: Webhook | None = None


def create_app(jobs: Jobs, token: str, names: Sequence[str] = ()) -> ASGIApp:
    """Return the server's application, with the tools of MCP at /mcp. `names` are hosts by which it may be asked for,
    beside those of loopback.
    """
    api, tools = _JobApi(jobs), build_server(jobs)
    # HttpGuard has judged Host and Origin before; the SDK does it too, but knows the names of loopback only.
    security = TransportSecuritySettings(enable_dns_rebinding_protection=False) if names else None
    mcp = tools.streamable_http_app(
        stateless_http=True, json_response=True, max_request_body_size=MAX_BODY_BYTES, transport_security=security
    )
    own = [Route(path, getattr(api, name), methods=[method]) for method, path, name, *_ in _OPERATIONS]
    app = Starlette(
        routes=[
            *own,
            Route("/openapi.json", _openapi),
            *firecrawl_api.routes(jobs),
            *job_pages.Pages(jobs, token).routes(),
            *mcp.routes,
        ],
        lifespan=lambda _app: tools.session_manager.run(),
        exception_handlers={
            firecrawl_api.FirecrawlRefusal: lambda _request, refusal: error_response(*refusal.args),
            JobRefused: _handler(400, "BAD_REQUEST"),
            JobsFull: _handler(429, "JOBS_FULL", {"Retry-After": "60"}),
            NoSuchJob: _handler(404, "NOT_FOUND"),
            ConfigError: _handler(500, "DAMAGED"),
            HTTPException: _refused_by_starlette,
            Exception: _failed,
        },
    )
    return HttpGuard(app, token, names)


class _JobApi:
    """The endpoints of /v1; the first line of each docstring is its summary in OpenAPI."""

    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs

    async def submit(self, request: Request) -> Response:
        """Queue a crawl"""
        asked = await read_body(NewJob, request)
        job = await self._jobs.submit(asked.spider, asked.arguments, asked.budget, origin="api", webhook=asked.webhook)
        return JSONResponse(job.as_dict(), 201, {"Location": f"/v1/jobs/{job.id}"})

    async def list(self, request: Request) -> Response:
        """List jobs, the newest first, without their long arguments"""
        limit, cursor = query_number(request, "limit", 20, _MOST_JOBS), request.query_params.get("cursor", "")
        jobs = [job for job in self._jobs.all() if not cursor or _cursor_of(job) < cursor]
        more = _cursor_of(jobs[limit - 1]) if len(jobs) > limit else None
        shown = [job.as_dict() for job in jobs[:limit]]
        for job in shown:  # a schema may have a megabyte
            job["arguments"] = {name: one for name, one in job["arguments"].items() if len(str(one)) <= _SHORT_CHARS}
        return JSONResponse({"jobs": shown, "next": more})

    async def show(self, request: Request) -> Response:
        """Tell how far a job is"""
        job = self._job(request)
        return JSONResponse({**job.as_dict(), "progress": await asyncio.to_thread(job_results.progress, job)})

    async def stop(self, request: Request) -> Response:
        """End a job; its lines are kept"""
        return JSONResponse((await self._jobs.stop(self._job(request).id)).as_dict())

    async def delete(self, request: Request) -> Response:
        """End a job, and delete all that was kept of it"""
        await self._jobs.delete(self._job(request).id)
        return Response(status_code=204)

    async def pages(self, request: Request) -> Response:
        """Stream lines of pages, each with its place `seq`, after which the next request may go on"""
        return await self._lines(request, None)

    async def records(self, request: Request) -> Response:
        """Stream the records of pages"""
        return await self._lines(request, _OF_RECORDS)

    async def templates(self, request: Request) -> Response:
        """List the templates of the job's sites, with their selectors"""
        limit, after = query_number(request, "limit", 20, _MOST_TEMPLATES), query_number(request, "after", 0, 2**31)
        found = await asyncio.to_thread(job_results.templates, self._job(request))
        more = after + limit if len(found) > after + limit else None
        return JSONResponse({"templates": clean(found[after : after + limit]), "next": more})

    def _job(self, request: Request) -> ServerJob:
        return self._jobs.get(request.path_params["id"])

    async def _lines(self, request: Request, taken: tuple[str, ...] | None) -> Response:
        job, asked = self._job(request), request.query_params
        limit, after = query_number(request, "limit", 1_000, _MOST_LINES), query_number(request, "after", 0, 2**62)
        where = dict(one.split(":", 1) for one in asked.getlist("where") if ":" in one)
        passes = job_results.line_filter(asked.get("page_type"), where, has_record=taken is not None)
        found = islice((one for one in job_results.lines_after(job, after) if passes(one[1])), limit)
        first = await asyncio.to_thread(list, islice(found, 1))  # a damaged job is told before an answer begins
        texts = (_text_of(seq, line, taken) for seq, line in chain(first, found))
        return StreamingResponse(texts, media_type=_JSON_LINES)


def _cursor_of(job: ServerJob) -> str:
    return f"{job.created:017.6f}-{job.id}"


def _text_of(seq: int, line: Mapping[str, Any], taken: Iterable[str] | None) -> str:
    shown = line if taken is None else {name: line.get(name) for name in taken}
    return json.dumps(clean({"seq": seq, **shown}), ensure_ascii=False) + "\n"


def _handler(status: int, code: str, headers: dict[str, str] | None = None) -> Callable[..., Response]:
    return lambda _request, error: error_response(status, code, str(error), headers)


def _refused_by_starlette(request: Request, error: Any) -> Response:
    code = {404: "NOT_FOUND", 405: "METHOD_NOT_ALLOWED"}.get(error.status_code, "BAD_REQUEST")
    told = f"{request.method} {request.url.path[:80]}: {error.detail}; /openapi.json says what there is"
    return error_response(error.status_code, code, told, error.headers)


def _failed(_request: Request, _error: Exception) -> Response:
    return error_response(500, "INTERNAL", "the server could not answer; its log says why")


_LIMIT: Final = {"limit": "how many at most"}
_AFTER: Final = {"after": "the place behind which to go on"}
_WHERE: Final = {"where": "FIELD:TEXT, FIELD:>NUMBER or FIELD:~PART", "page_type": ""}
# Method, path, name of the endpoint, its parameters in the query, the status and the schema of a good answer.
_OPERATIONS: Final[tuple[tuple[Any, ...], ...]] = (
    ("POST", "/v1/jobs", "submit", {}, 201, "Job"),
    ("GET", "/v1/jobs", "list", _LIMIT | {"cursor": "`next` of the answer before"}, 200, "JobList"),
    ("GET", "/v1/jobs/{id}", "show", {}, 200, "Job"),
    ("DELETE", "/v1/jobs/{id}", "delete", {}, 204, ""),
    ("POST", "/v1/jobs/{id}/stop", "stop", {}, 200, "Job"),
    ("GET", "/v1/jobs/{id}/pages", "pages", _LIMIT | _AFTER | _WHERE, 200, _JSON_LINES),
    ("GET", "/v1/jobs/{id}/records", "records", _LIMIT | _AFTER | _WHERE, 200, _JSON_LINES),
    ("GET", "/v1/jobs/{id}/templates", "templates", _LIMIT | _AFTER, 200, "TemplateList"),
)


async def _openapi(_request: Request) -> Response:
    return JSONResponse(openapi())


def openapi() -> dict[str, Any]:
    """Return the description of /v1 as OpenAPI 3.1."""
    paths: dict[str, dict[str, Any]] = {}
    for method, path, name, asked, status, answer in _OPERATIONS:
        told = [(one, "query", text) for one, text in asked.items()] + [("id", "path", "the job")] * ("{id}" in path)
        good: dict[str, Any] = {"description": "done"}
        if answer == _JSON_LINES:
            good["content"] = {_JSON_LINES: {"schema": {}}}
        elif answer:
            good |= _json_of(answer)
        paths.setdefault(path, {})[method.lower()] = {
            "operationId": name,
            "summary": getattr(_JobApi, name).__doc__,
            "parameters": [
                {
                    "name": one,
                    "in": place,
                    "required": place == "path",
                    "description": text,
                    "schema": {"type": "string"},
                }
                for one, place, text in told
            ],
            "responses": {str(status): good, "default": {"description": "an error", **_json_of("Error")}},
            **({"requestBody": {"required": True, **_json_of("NewJob")}} if name == "submit" else {}),
        }
    components = {"securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}, "schemas": _schemas()}
    info = {"title": "llmcrawler", "version": llmcrawler.__version__}
    return {"openapi": "3.1.0", "info": info, "paths": paths, "security": [{"token": []}], "components": components}


def _json_of(name: str) -> dict[str, Any]:
    return {"content": {"application/json": {"schema": {"$ref": f"#/components/schemas/{name}"}}}}


def _schemas() -> dict[str, Any]:
    def of(*names: str) -> dict[str, Any]:
        return {"type": "object", "properties": {one: {} for one in names}}

    _names, asked = models_json_schema([(NewJob, "validation")], ref_template="#/components/schemas/{model}")
    return {
        **asked["$defs"],
        "Job": of(*(one.name for one in fields(ServerJob) if one.name not in ("folder", "tries")), "progress"),
        "JobList": of("jobs", "next"),
        "TemplateList": of("templates", "next"),
        "Error": of("success", "error", "code"),
    }
