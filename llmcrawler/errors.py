"""Every error the project raises on purpose, named for what the caller does with it.

CrawlerError
├── ConfigError            stop at start: a setting or an argument is wrong
├── NoProxy                stop: no proxy could be had, or none is left
├── StorageFailed          stop: the job's file cannot be written any more; what was written stays
├── WorkGivenBack          drop the page: another worker has it, for this one leaves
├── NotThePage             fetch it again, otherwise: what came is not the page that was asked for
├── ContentError           go on without this page's content: record the error
└── LLMError               go on without this answer of the model
    ├── LLMUnavailable     fall back for good: no provider, wrong key, model not there
    ├── LLMFailed          this call failed for good after its retries: record the error
    └── BadAnswer          the model answered, but not what was asked: ask again, smaller
"""

from __future__ import annotations


class CrawlerError(Exception):
    """Root of the tree."""


class ConfigError(CrawlerError):
    """A setting, an argument or a file of the user's is wrong; the message names it and the cure."""


class NoProxy(CrawlerError):
    """A request wants a proxy and there is none; `is_final` when there is none for any other request either."""

    def __init__(self, message: str, *, is_final: bool = True) -> None:
        super().__init__(message)
        self.is_final = is_final


class StorageFailed(CrawlerError):
    """The disk is full, gone or broken; the message says which."""


class WorkGivenBack(CrawlerError):
    """This worker of a fleet is leaving; the page's url is in the queue again."""


class NotThePage(CrawlerError):
    """Raised by a user's `validate_response`: a captcha, an empty shell, a login wall. The message says which."""


class ContentError(CrawlerError):
    """A page cannot be read at all; it took its reader down."""


class LLMError(CrawlerError):
    """No usable answer of the model."""


class LLMUnavailable(LLMError):
    """The model cannot be had for the rest of this crawl."""


class LLMFailed(LLMError):
    """A call failed after all its retries; the next one may succeed."""


class BadAnswer(LLMError):
    """The answer is cut, is not JSON, or does not fit the question."""
