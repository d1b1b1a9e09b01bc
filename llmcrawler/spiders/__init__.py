"""Spiders of this project. Scrapy imports this package before the modules in it, in every process that crawls."""

import inspect
import os
import sys
from types import ModuleType

# The matrices of templates are small: threads of the numeric library wait for each other, at twice the processor time.
# It reads this when numpy is imported.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def _two_frames() -> list[tuple[ModuleType | None]]:
    """Return in place of the callers' frames the module of the second one, which is all that is asked for."""
    return [(None,), (sys.modules[sys._getframe(2).f_globals["__name__"]],)]


# For the names of three deprecated classes, Scrapy has the source of all callers of the import looked for in all loaded
# modules: a tenth of the processor time of a crawl's start.
_stack, inspect.stack = inspect.stack, _two_frames  # type: ignore[assignment]
try:
    import scrapy.core.downloader.handlers.http11
finally:
    inspect.stack = _stack
