"""What tests of private names ask of the installed versions."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable
from typing import Any

from scrapy import Spider
from scrapy.utils.test import get_crawler

URL = "http://a.test/"
_NO_HANDLERS = dict.fromkeys(("data", "file", "ftp", "http", "https", "s3"))


def crawler_with(**settings: Any) -> Any:
    return get_crawler(Spider, {"DOWNLOAD_HANDLERS": _NO_HANDLERS, **settings})


def check_overridden(base: type, original: type, names: Iterable[str]) -> None:
    """A class of compat overrides these private names of one of theirs, and no others, with the same parameters."""
    private = {name for name in vars(base) if name[0] == "_" and name[:2] != "__"}
    assert {name for name in private - {"_abc_impl"} if hasattr(original, name)} == set(names)
    for name in names:
        ours = inspect.signature(inspect.unwrap(getattr(base, name))).parameters
        theirs = inspect.signature(inspect.unwrap(getattr(original, name))).parameters
        assert list(ours) == list(theirs) or list(theirs) == ["self", "args", "kwargs"], name


def check_read(owner: type, names: Iterable[str]) -> None:
    """The code of a class and its bases has these names of attributes."""
    code = "".join(inspect.getsource(cls) for cls in owner.__mro__ if cls.__module__ != "builtins")
    assert [name for name in names if not re.search(rf"\b{name}\b", code)] == []
