"""Sites of one platform: the same HTML around other content, under other names, each with the truth of its pages."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

from tests.servers.record_sites import Site, make_site
from tests.servers.teacher import answer_from_truth

# Platform -> the site of record_sites whose HTML stands for its own, and whether it is that one's second design.
PLATFORMS: Mapping[str, tuple[str, bool]] = {
    "Shopify": ("shop", False),
    "WooCommerce": ("shop", True),
    "Magento": ("fashion", False),
    "PrestaShop": ("bookstore", False),
    "WordPress": ("news", False),
    "Ghost": ("news", True),
    "Drupal": ("jobs", False),
    "Joomla": ("recipes", False),
    "TYPO3": ("events", False),
    "phpBB": ("forum", False),
}
_BRAND = re.compile(r"<title>[^<]*\| ([^<|]*)</title>")


def platform_site(platform: str, number: int) -> Site:
    """The same for the same number, which also is in the site's name."""
    name, redesign = PLATFORMS[platform]
    site = make_site(name, number, redesign=redesign)
    return replace(site, pages=tuple(replace(one, html=_branded(one.html, platform, number)) for one in site.pages))


def _branded(html: str, platform: str, number: int) -> str:
    brand = _BRAND.search(html)
    if brand is not None:
        html = html.replace(
            brand[1], f"{brand[1].split()[0]} {('North', 'South', 'East', 'West')[number % 4]} {number}"
        )
    return html.replace("<head>", f'<head>\n<meta name="generator" content="{platform} {1 + number % 3}.2">', 1)


def answer_of_sites(sites: Mapping[str, Site]) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """An `answer` for FakeLLM from the truth of several sites by host and port; a call is about one of them."""
    answers = {netloc: answer_from_truth(site.truth()) for netloc, site in sites.items()}
    return lambda document: answers[urlsplit(document["pages"][0]["url"]).netloc](document)
