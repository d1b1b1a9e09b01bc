"""Turns the requests and items of any spider into text for a job's file, and back.

They are pickled, as in the queues that Scrapy itself writes into a JOBDIR: spiders hand items and tuples on in meta and
cb_kwargs, and items have dates, decimals and classes that feeds choose and serialize them by. JSON would lose all that.
So a JOBDIR must come from nobody but its user, as with Scrapy's queues.
"""

from __future__ import annotations

import json
import pickle
from base64 import b85decode, b85encode
from collections.abc import Callable, Mapping
from typing import Any

from scrapy import Request, Spider
from scrapy.utils.request import request_from_dict

from llmcrawler.engine.request_context import CONTEXT
from llmcrawler.errors import ConfigError

_PROTOCOL = 4  # of pickle, as in Scrapy's queues


def pack_request(request: Request, spider: Spider) -> str:
    """Return a request as the payload of a UrlTask. Raises ConfigError that names the field that cannot be kept."""
    try:
        values = request.to_dict(spider=spider)
    except ValueError:
        for name in ("callback", "errback"):
            method = getattr(request, name)
            if method is not None and getattr(method, "__self__", None) is not spider:
                what = f"{name} is {_shown(method)}, and no method of the spider"
                raise _refusal(repr(request), what, f"write {name}=self.NAME_OF_A_METHOD") from None
        raise
    values["meta"] = {key: value for key, value in request.meta.items() if key != CONTEXT}
    return json.dumps({"request": _pack(values, repr(request), values)})


def unpack_request(payload: str, spider: Spider) -> Request:
    """Raises ConfigError where the spider has changed and can no longer take the request."""
    try:
        return request_from_dict(_unpack(json.loads(payload)["request"]), spider=spider)
    except Exception as error:  # whatever classes of the user's raise
        raise ConfigError(
            f"JOBDIR: a request of an earlier run cannot be read ({error}): bring back what it names, or name another"
            " JOBDIR"
        ) from error


def pack_item(item: Any, fields: Mapping[str, Any], source: str) -> str:
    """Raises ConfigError that names the one of the item's `fields` that cannot be kept."""
    return _pack(item, f"an item of {source}", fields)


def unpack_item(text: str) -> Any:
    """Raises ConfigError where the item's class is gone."""
    try:
        return _unpack(text)
    except Exception as error:  # whatever classes of the user's raise
        raise ConfigError(
            f"JOBDIR: an item of an earlier run cannot be read ({error}): bring back its class, or name another JOBDIR"
        ) from error


def _pack(whole: Any, owner: str, fields: Mapping[str, Any]) -> str:
    try:
        return b85encode(pickle.dumps(whole, _PROTOCOL)).decode("ascii")
    except Exception as error:  # the values' own classes may raise anything
        name, value = _culprit(fields)
        what = f"{name or 'its class'} is {_shown(value if name else whole)}, which pickle refuses ({error})"
        raise _refusal(
            owner, what, "pass plain values, as text and numbers, or classes at the top of a module"
        ) from error


def _culprit(fields: Mapping[str, Any]) -> tuple[str, Any]:
    """Return the first field that cannot be pickled, and its value; within meta and the like the key too."""
    for name, value in fields.items():
        if not _can_be_pickled(value):
            inner, part = _culprit(value) if isinstance(value, dict) else ("", None)
            return (f"{name}[{inner!r}]", part) if inner else (name, value)
    return "", None


def _can_be_pickled(value: Any) -> bool:
    try:
        pickle.dumps(value, _PROTOCOL)
    except Exception:  # noqa: BLE001 - as above
        return False
    return True


def _unpack(text: str) -> Any:
    return pickle.loads(b85decode(text))  # noqa: S301 - from the user's own JOBDIR, see above


def _refusal(owner: str, what: str, cure: str) -> ConfigError:
    return ConfigError(
        f"JOBDIR: {owner} cannot be kept for a later run: its {what}. {cure[0].upper()}{cure[1:]}, or crawl without"
        " JOBDIR"
    )


def _shown(value: Callable[..., Any] | Any) -> str:
    name = getattr(value, "__qualname__", None)
    return f"the {type(value).__name__} {name}" if name else f"a {type(value).__name__}"
