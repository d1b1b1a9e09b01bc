"""A Scrapy project that explores a site and tells what each of its pages is; and its parts for programs without Scrapy.

>>> import llmcrawler
>>> llmcrawler.read_page("<title>Tea</title><p>Green tea.", "https://a.example").title
'Tea'
>>> llmcrawler.Extractor.load("shop.json").record(html, url).page_type  # a TEMPLATES_FILE
'product'
>>> urls = llmcrawler.read_status("job")  # a JOBDIR as a pandas DataFrame
>>> urls[urls.url == url].page_type.tolist()
['product']
>>> llmcrawler.status_summary("job")["spider"]
'explore'
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from llmcrawler.api.public_api import Extractor, PageRecord, ReadPage, extract_batch, ray_extract, read_page
    from llmcrawler.api.python_crawl import explore
    from llmcrawler.core.storage.job_status import read_status, status_summary

__version__ = "0.1.0"
__all__ = [
    "Extractor",
    "PageRecord",
    "ReadPage",
    "explore",
    "extract_batch",
    "ray_extract",
    "read_page",
    "read_status",
    "status_summary",
]

_PLACES = {
    "explore": "llmcrawler.api.python_crawl",
    "read_status": "llmcrawler.core.storage.job_status",
    "status_summary": "llmcrawler.core.storage.job_status",
}


def __getattr__(name: str) -> Any:
    """Load what is asked for: Scrapy imports this package for every setting that names a class of it."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_PLACES.get(name, "llmcrawler.api.public_api")), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
