"""What Scrapy, Twisted and scrapy-playwright keep to themselves is as the installed versions have it, and used only in
the modules of PLACES.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
from pathlib import Path

import pytest
from scrapy.core.downloader import Downloader
from scrapy.core.downloader.handlers import http11
from scrapy.downloadermiddlewares import cookies
from scrapy.downloadermiddlewares.httpcompression import HttpCompressionMiddleware
from scrapy.downloadermiddlewares.redirect import BaseRedirectMiddleware
from scrapy.extensions.feedexport import FeedExporter
from scrapy_playwright.handler import ScrapyPlaywrightDownloadHandler  # type: ignore[import-untyped]
from twisted.web import _newclient
from twisted.web.http import _ChunkedTransferDecoder

import llmcrawler
from llmcrawler.engine import http_downloads
from llmcrawler.engine.browser.handler import BrowserDownloadHandler
from llmcrawler.engine.downloader import PoliteDownloader
from llmcrawler.extensions.feed_export import Feeds
from llmcrawler.middlewares import addresses, bodies
from llmcrawler.middlewares.cookie_jars import CookieJars

PLACES = {
    "crawl.compat",
    "engine.http_downloads",
    "engine.downloader",
    "engine.responses",
    "engine.browser.handler",
    "extensions.feed_export",
    "middlewares.addresses",
    "middlewares.bodies",
    "middlewares.cookie_jars",
}


@pytest.mark.parametrize(
    ("ours", "theirs", "names"),
    [
        (PoliteDownloader, Downloader, "_get_slot _download _process_queue"),
        (Feeds, FeedExporter, "_close_slot"),
        (addresses._InsideTheCrawl, BaseRedirectMiddleware, "_build_redirect_request _redirect"),
        (CookieJars, cookies.CookiesMiddleware, "_process_cookies"),
        (bodies.BoundedUnpacking, HttpCompressionMiddleware, "_handle_encoding"),
        (http_downloads.ClientProtocol, _newclient.HTTP11ClientProtocol, "_finishResponse"),
        (http_downloads.JoinedChunks, _ChunkedTransferDecoder, "_dataReceived_CHUNK_LENGTH"),
        (http_downloads.PageAgent, http11._ScrapyAgent, "_get_agent _cb_bodyready"),
        (BrowserDownloadHandler, ScrapyPlaywrightDownloadHandler, "_download_request_with_page"),
    ],
)
def test_what_is_overridden_is_there_with_the_same_parameters(ours, theirs, names):
    private = {name for name in vars(ours) if name[0] == "_" and name[:2] != "__"}
    assert {name for name in private - {"_abc_impl"} if hasattr(theirs, name)} == set(names.split())
    for name in names.split():
        mine = inspect.signature(inspect.unwrap(getattr(ours, name))).parameters
        original = inspect.signature(inspect.unwrap(getattr(theirs, name))).parameters
        assert list(mine) == list(original) or list(original) == ["self", "args", "kwargs"], name


# Private names of others that are no part of their machinery: the type of lxml's elements, Python's own.
_ALLOWED = {"_Element", "_replace", "_exit", "_current_frames", "_asdict", "_fields"}
_FOREIGN = {"scrapy", "twisted", "scrapy_playwright", "aiohttp", "playwright", "httpx2"}


def names_defined(tree) -> set[str]:
    """The names of a module's functions, classes, variables, attributes and slots."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, (ast.Attribute, ast.Name)) and isinstance(node.ctx, ast.Store):
            names.add(node.attr if isinstance(node, ast.Attribute) else node.id)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            names.add(node.value)
    return names


def private_names_used(tree) -> list[tuple[int, str, bool]]:
    """Line and name, and whether it is an attribute of `self` or `cls`."""
    used = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr.startswith("_") and not node.attr.endswith("__"):
            is_own = isinstance(node.value, ast.Name) and node.value.id in {"self", "cls"}
            used.append((node.lineno, node.attr, is_own))
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            parts = {*node.module.split("."), *(alias.name for alias in node.names)}
            if node.module.partition(".")[0] not in {"__future__", "llmcrawler"}:
                used += [(node.lineno, part, False) for part in parts if part.startswith("_")]
    return used


@pytest.mark.slow
def test_no_other_module_uses_a_private_name_of_somebody_elses():
    root = Path(llmcrawler.__file__).parent
    defined, used = {}, {}
    for path in sorted(root.rglob("*.py")):
        if path not in {root / f"{place.replace('.', '/')}.py" for place in PLACES}:
            tree = ast.parse(path.read_text(encoding="utf-8"))  # all of them kept would be looked through as garbage
            defined[path], used[path] = names_defined(tree), private_names_used(tree)
    anywhere = set().union(*defined.values())
    found = [
        f"{path.relative_to(root)}:{line}: {name}"
        for path, names in used.items()
        for line, name, is_own in names
        if name not in _ALLOWED and name not in (anywhere if is_own else defined[path])
    ]
    assert found == []


def test_no_other_module_overrides_a_private_name_of_somebody_elses():
    found = []
    for module_info in pkgutil.walk_packages(llmcrawler.__path__, "llmcrawler."):
        if module_info.name.removeprefix("llmcrawler.") in PLACES:
            continue
        module = importlib.import_module(module_info.name)
        for cls in vars(module).values():
            if not isinstance(cls, type) or cls.__module__ != module.__name__:
                continue
            foreign = [base for base in cls.__mro__ if base.__module__.partition(".")[0] in _FOREIGN]
            private = {name for base in foreign for name in vars(base) if name[0] == "_" and name[:2] != "__"}
            names = sorted(private & vars(cls).keys() - {"_abc_impl"})  # which abc sets for a subclass
            found += [f"{cls.__module__}.{cls.__name__}.{name}" for name in names]
    assert found == []
