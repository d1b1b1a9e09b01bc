"""Scrapy signals that parts of a crawl send to its extensions."""

from __future__ import annotations

# (reason: str) Nothing more will happen, and the job directory can still be written to.
job_closing = object()
# (site: str, kept: KeptSite) This worker owns a site from now on, of which its earlier owners have kept that.
site_taken = object()
# (url: str) The crawl takes in the site of a url: another worker's start url was redirected there.
scope_widened = object()
# (key: str, reason: str) The robots.txt of a host (a slot of the downloader) could not be had.
robots_unreachable = object()
# (call: CallReport) A request to the model has come back.
llm_called = object()
