"""Tells which requests of a spider are the same, in one run of its job and in all later ones."""

from __future__ import annotations

from collections import Counter
from hashlib import blake2b

from scrapy import Request
from scrapy.utils.request import RequestFingerprinterProtocol

from llmcrawler.engine.request_runs import RequestRun


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
        """Return what stands for the request. `source` is the run that it came of."""
        fingerprint = self._fingerprinter.fingerprint(request)
        if not request.dont_filter:
            return fingerprint.hex()
        if source is not None:
            name, repeats = source.lease.url, source.repeats
        else:  # an extension's requests come when they come, and are never the same
            name = "start" if request.meta.get("is_start_request") else f"run {self._run_number}"
            repeats = self._repeats.setdefault(name, Counter())
        repeats[fingerprint] += 1
        text = f"{name} {fingerprint.hex()} {repeats[fingerprint]}"
        return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=20).hexdigest()
