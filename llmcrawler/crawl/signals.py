"""Scrapy signals that parts of a crawl send to its extensions."""

from __future__ import annotations

# (reason: str) Nothing more will happen, and the job directory can still be written to.
job_closing = object()
# (key: str, events: list of mappings, window: float) What other workers have met at a host, and the window of all.
host_news = object()
# (key: str, reason: str) The robots.txt of a host (a slot of the downloader) could not be had.
robots_unreachable = object()
# (call: CallReport) A request to the model has come back.
llm_called = object()
