"""Renders the page of a report. Text from crawled sites is escaped, and a policy keeps it from doing harm, too."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Mapping
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import Any
from urllib.parse import urlsplit

from jinja2 import DictLoader, Environment, StrictUndefined, Template
from markupsafe import Markup

from llmcrawler.core.reporting.text import duration, moment, money, percent, plain

_ASSETS = files("llmcrawler.core.reporting.html") / "assets"
# Only these scripts run, and nothing is fetched. The library sets styles of elements.
_POLICY = "default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
_SCRIPTS = ("echarts.min.js", "listing.js", "report.js")


def render(view: dict[str, Any], version: str, now: float) -> bytes:
    scripts = [_asset(name) for name in _SCRIPTS]
    hashes = " ".join(f"'sha256-{b64encode(sha256(one.encode()).digest()).decode()}'" for one in scripts)
    text = _report().render(
        **view,
        version=version,
        now=now,
        policy=_POLICY.format(hashes=hashes),
        style=Markup(report_style()),  # noqa: S704 - ours
        scripts=[Markup(one) for one in scripts],  # noqa: S704 - ours
    )
    return text.encode("utf-8", "replace")


def embedded_json(value: Any) -> Markup:
    """Return JSON that may stand in a <script>: nothing in it ends the script or starts a comment."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)  # noqa: S704 - the characters that matter are escaped


def web_link(url: object) -> str:
    """Return the url where it is one of the web, else "": javascript: and its like are never a link."""
    try:
        parts = urlsplit(str(url))
    except ValueError:
        return ""
    return str(url) if parts.scheme in ("http", "https") and parts.netloc else ""


@cache
def _asset(name: str) -> str:
    return (_ASSETS / name).read_text(encoding="utf-8")


def report_style() -> str:
    return _asset("report.css")


@cache
def _report() -> Template:
    return html_environment({"report.html": _asset("report.html")}).get_template("report.html")


def html_environment(templates: Mapping[str, str]) -> Environment:
    """Return what renders templates (by name, their text), escaping every text, with the filters of the report."""
    environment = Environment(
        loader=DictLoader(dict(templates)),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "embedded_json": embedded_json,
        "web_link": web_link,
        "moment": moment,
        "duration": duration,
        "money": money,
        "percent": percent,
        "plain": plain,
        "number": lambda value: "–" if value is None else f"{value:,.0f}",
        "seconds": lambda value: "–" if value is None else f"{value:.2f} s",
        "decimal": lambda value: "–" if value is None else f"{value:.1f}",
    }
    return environment
