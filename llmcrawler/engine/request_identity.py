"""Tells which requests of a spider are the same, in one run of its job and in all later ones."""

from __future__ import annotations

from collections import Counter
from hashlib import blake2b

from scrapy import Request
from scrapy.utils.request import RequestFingerprinterProtocol

from llmcrawler.engine.request_runs import RequestRun
from llmcrawler.storage import REQUEST_MARK


class RequestIdentities:
    """A request is known by its fingerprint; one with dont_filter by what made it, and how often that did so before.

    So each of the latter is a request of its own, and yet those that come of a page, or of the spider's start(), are
    known when that runs again after a kill.
    """

    def __init__(self, fingerprinter: RequestFingerprinterProtocol, run_number: int) -> None:
        self._fingerprinter = fingerprinter
        self._run_number = run_number
        self._repeats: dict[str, Counter[bytes]] = {}  # of what no page made

    def identify(self, request: Request, source: RequestRun | None) -> str:
        """Return the url of the request's task in the frontier. `source` is the run that it came of."""
        fingerprint = self._fingerprinter.fingerprint(request)
        if not request.dont_filter:
            return _task_url(request, fingerprint.hex())
        if source is not None:
            name, repeats = source.lease.url, source.repeats
        else:  # an extension's requests come when they come, and are never the same
            name = "start" if request.meta.get("is_start_request") else f"run {self._run_number}"
            repeats = self._repeats.setdefault(name, Counter())
        repeats[fingerprint] += 1
        text = f"{name} {fingerprint.hex()} {repeats[fingerprint]}"
        return _task_url(request, blake2b(text.encode("utf-8", "surrogatepass"), digest_size=20).hexdigest())

    def redirected(self, request: Request, run: RequestRun) -> str | None:
        """Return the task url of where a run's request goes on; None where that is no other page, or not filtered."""
        if request.dont_filter:
            return None
        identity = self._fingerprinter.fingerprint(request).hex()
        return None if run.lease.url.endswith(identity) else _task_url(request, identity)


def _task_url(request: Request, identity: str) -> str:
    return f"{request.url.partition('#')[0]}{REQUEST_MARK}{identity}"
