"""Errors that the project raises on purpose, named for what the caller does with it.

CrawlerError
├── ConfigError            stop at start: a setting or an argument is wrong
│   ├── JobBusy            stop at start, and come again later: another crawl has the JOBDIR
│   └── JobRefused         ask for something else: a client of a server may not have this crawl
├── JobsFull               come again later: too many jobs are waiting
├── NoSuchJob              ask for another job: there is none of this id
├── CrawlFailed            read the reason, and start again: a crawl that `llmcrawler.explore` started has failed
├── NoProxy                stop: no proxy could be had, or none is left
├── StorageFailed          stop: the job's file cannot be written any more; what was written stays
├── WorkGivenBack          drop the page: this worker leaves, and another one gets it
├── ProtocolFault          give up on this url: what came is no HTTP, or its address cannot be asked for
├── NotThePage             fetch it again through another proxy: what came is not the page that was asked for
├── BrowserMissing         go on without a browser: pages come as the server sends them
├── ContentError           go on without this page's content: record the error
│   └── ReadingStopped     the same: the crawl is being stopped
├── TooCostly              go on without this page's record: record the error
└── LLMError               go on without this answer of the model
    ├── LLMUnavailable     fall back for good: no provider, wrong key, model not there
    │   ├── BudgetSpent    the same, and say so on the page: LLM_MAX_TOKENS or LLM_MAX_COST_USD leaves no further call
    │   └── LLMStopped     the same, and keep nothing of it: the crawl is being stopped
    ├── LLMFailed          this call failed for good after its retries: record the error
    └── BadAnswer          the model answered, but not what was asked: ask again, smaller
"""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import Final

# The `kind` of the error of a page whose work was cut off because the crawl was stopped.
STOPPED: Final = "stopped"


class CrawlerError(Exception):
    """The root of the tree."""


class ConfigError(CrawlerError):
    """A setting, an argument or a file of the user's is wrong; the message names it and the cure."""


class JobBusy(ConfigError):
    """Raised where another crawl runs in the JOBDIR."""


class JobRefused(ConfigError):
    """Raised where a client of a server asks for a crawl that it may not have."""


class JobsFull(CrawlerError):
    """Raised where as many jobs are waiting as may."""


class NoSuchJob(CrawlerError):
    """Raised for the id of no job, or of one that was deleted."""


class CrawlFailed(CrawlerError):
    """A crawl in a process of its own ended with another `exit_status` than 0; the message says why."""

    def __init__(self, exit_status: int, message: str) -> None:
        super().__init__(message)
        self.exit_status = exit_status


class NoProxy(CrawlerError):
    """Raised when no proxy can be had for a request; `is_final` when there is none for any other request either."""

    def __init__(self, message: str, *, is_final: bool = True) -> None:
        super().__init__(message)
        self.is_final = is_final


class StorageFailed(CrawlerError):
    """The disk is full, gone or broken; the message says which."""


class WorkGivenBack(CrawlerError):
    """Raised when this worker of a shared crawl leaves; the page's url is in the queue again."""


class ProtocolFault(CrawlerError):
    """Raised when an answer is no proper HTTP, or an address cannot be asked for; the message says how."""


class NotThePage(CrawlerError):
    """Raised by a user's `validate_response`: a captcha, an empty shell, a login wall. The message says which."""


class BrowserMissing(CrawlerError):
    """Raised when no browser could be found or started; the message says how to get one."""


class ContentError(CrawlerError):
    """Raised when a page cannot be read at all: it took its reader down."""

    kind = "unreadable"


class ReadingStopped(ContentError):
    """Raised when the crawl is stopped before a page is read."""

    kind = STOPPED


class TooCostly(CrawlerError):
    """A page would take more work than any page is worth; the message says which part of it."""

    kind = "too_costly"


class LLMError(CrawlerError):
    """The model gave no usable answer. `kind` stands in the error of a page's line that had to do without one."""

    kind = "llm_failed"


class LLMUnavailable(LLMError):
    """The model cannot be had for the rest of this crawl."""

    kind = "llm_unavailable"


class BudgetSpent(LLMUnavailable):
    """The rest of the crawl's budget is not enough for this call. A smaller one, or a cached answer, may still do."""

    kind = "budget"


class LLMStopped(LLMUnavailable):
    """The crawl is being stopped, and waits for no answer any more."""

    kind = STOPPED


class LLMFailed(LLMError):
    """A call failed after all its retries; the next one may succeed."""


class BadAnswer(LLMError):
    """The answer is cut, is not JSON, or does not fit the question."""

    kind = "bad_answer"


# What the extras of pyproject.toml install, where that has another name.
_PACKAGES: Final = {
    "browser": "scrapy-playwright",
    "langchain": "langchain-core",
    "llama-index": "llama-index-core",
    "opentelemetry": "opentelemetry-sdk opentelemetry-exporter-otlp-proto-http",
    "parquet": "pyarrow",
    "prometheus": "prometheus-client",
    "server": "mcp",
}


def install_command(extra: str) -> str:
    """Return the command that installs an extra; in a checkout that is not installed, that for its packages."""
    try:
        version("llmcrawler")
    except PackageNotFoundError:
        return f"pip install {_PACKAGES.get(extra, extra)}"
    return f'pip install "llmcrawler[{extra}]"'


def is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # a parent of it is not there
        return False


def require(module: str, extra: str, purpose: str) -> None:
    """Raise ConfigError where a module that an extra brings is not installed. `purpose` is the setting, option or feed
    that needs it.
    """
    if not is_installed(module):
        name = module.partition(".")[0]
        raise ConfigError(f"{purpose} needs {name}, which is not installed: {install_command(extra)}")
