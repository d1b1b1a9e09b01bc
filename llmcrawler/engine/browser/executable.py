"""Finds the browser."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from llmcrawler.errors import ConfigError

_NAMES: Final = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome", "chrome")
INSTALL: Final = "apt-get install chromium, or: playwright install --with-deps chromium"


def system_browser(chosen: str, find: Callable[[str], str | None]) -> str | None:
    """Return the path of the chosen browser, else of one of the system's; None for Playwright's own.

    `find` is shutil.which. Raises ConfigError when the chosen one is not there.
    """
    if chosen:
        path = find(chosen)
        if path is None:
            raise ConfigError(f"PLAYWRIGHT_EXECUTABLE={chosen}: no such program")
        return path
    return next((path for path in map(find, _NAMES) if path is not None), None)
