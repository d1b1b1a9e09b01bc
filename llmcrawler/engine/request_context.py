"""Keeps what the crawler knows of a request, beyond what Scrapy does, in the request's meta under one key.

A context is never changed in place: copies of a request share its meta's values.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.http import Response

    from llmcrawler.core.frontier.protocol import Lease
    from llmcrawler.core.storage import StoredPage
    from llmcrawler.core.storage.archives.warc_writer import Exchange

CONTEXT: Final = "llmcrawler"
RENDER: Final = "render"  # the meta key of a request that goes to the browser
RENDERED: Final = "rendered"  # the flag of a response that came from there
RETRY_TIMES: Final = "retry_times"  # of Scrapy's RetryMiddleware
LATENCY: Final = "download_latency"  # of Scrapy's download handlers: seconds up to the head of the answer


@dataclass(frozen=True, slots=True)
class RequestContext:
    """Knowledge of a request. `lease` is the frontier's url that the request is for; `found_at` the url of what named a
    request without one.

    `started` is when the download began (monotonic seconds), with `in_flight` requests to its host then. `put_backs`
    counts how often the host refused it for now; `wait_seconds` is how long it waits in the scheduler. `proxy` is the
    label of the proxy that brought the response, `busy_proxy` of the one that works on it now, `tried_proxies` of those
    that failed, and `suspects` of those among them that the site may have banned. `own_timeout_seconds` replaces the
    shorter timeout of a proxy on trial. `exchanges` are the redirects that led here, and the answer, where a feed is an
    archive. `archived_at` is when the answer was fetched, where it comes from an archive.
    """

    lease: Lease | None = None
    found_at: str | None = None
    stored: StoredPage | None = None
    has_failed_in_spider: bool = False
    started: float | None = None
    in_flight: int = 1
    put_backs: int = 0
    wait_seconds: float = 0.0
    proxy: str | None = None
    busy_proxy: str | None = None
    tried_proxies: tuple[str, ...] = ()
    suspects: tuple[str, ...] = ()
    own_timeout_seconds: float | None = None
    exchanges: tuple[Exchange, ...] = ()
    archived_at: str | None = None


_EMPTY: Final = RequestContext()


def context_of(request: Request) -> RequestContext:
    context: RequestContext = request.meta.get(CONTEXT, _EMPTY)
    return context


def response_context(response: Response) -> RequestContext:
    """Return the context of the request that led to a response; an empty one where there is no such request."""
    return _EMPTY if response.request is None else context_of(response.request)


def update_context(request: Request, **changes: Any) -> None:
    """Replace fields of a request's context."""
    request.meta[CONTEXT] = replace(context_of(request), **changes)


def lease_of(request: Request) -> Lease:
    """Return the lease of a request that was made for one."""
    lease = context_of(request).lease
    assert lease is not None
    return lease


def attempts_of(request: Request | None) -> int:
    """Return how many times a request was sent, retries and requests that were put back included."""
    return 1 if request is None else 1 + request.meta.get(RETRY_TIMES, 0) + context_of(request).put_backs
