"""Sites of one platform: the same HTML around other content, under other names, each with the truth of its pages.

Half of the sites have the platform's own theme, the others a second one, with other classes, labels and elements. Some
of either show a field that others have not, on all of their pages or on a few.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from random import Random
from typing import Any
from urllib.parse import urlsplit

from tests.servers.record_sites import Site, SitePage, make_site
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
_CLASSES = re.compile(r'\bclass="([^"]*)"')
_LABEL = re.compile(r"(<(?:th|dt)\b[^<>]*>)([^<]+)")
_HEADING = re.compile(r"</h1>")
# Every so many sites (of 7) have a field of their own on that share of their pages.
_OWN_FIELD: Mapping[int, float] = {5: 1.0, 6: 0.3}


def platform_site(platform: str, number: int) -> Site:
    """The same for the same number, which also is in the site's name."""
    name, redesign = PLATFORMS[platform]
    site = make_site(name, number, redesign=redesign)
    rng = Random(number)
    share = _OWN_FIELD.get(number % 7, 0.0)
    pages = (_with_own_field(one, rng) if one.fields and rng.random() < share else one for one in site.pages)
    dress = _second_theme if has_second_theme(number) else str
    return replace(site, pages=tuple(replace(one, html=dress(_branded(one.html, platform, number))) for one in pages))


def has_second_theme(number: int) -> bool:
    """Tell it of a site: of the 3rd, 4th, 7th, 8th, 11th, ..."""
    return (number - 1) // 2 % 2 == 1


def _branded(html: str, platform: str, number: int) -> str:
    brand = _BRAND.search(html)
    if brand is not None:
        html = html.replace(
            brand[1], f"{brand[1].split()[0]} {('North', 'South', 'East', 'West')[number % 4]} {number}"
        )
    return html.replace("<head>", f'<head>\n<meta name="generator" content="{platform} {1 + number % 3}.2">', 1)


def _with_own_field(page: SitePage, rng: Random) -> SitePage:
    value = f"{rng.choice(('Express', 'Regular', 'Bulky'))} {rng.randint(100, 999)}"
    html = _HEADING.sub(f'</h1><p class="dispatch">{value}</p>', page.html, count=1)
    return replace(page, html=html, fields={**page.fields, "dispatch": value})


def _second_theme(html: str) -> str:
    """About half of the classes and labels have other names, and what is in the body has an element more around it."""
    html = _CLASSES.sub(lambda found: f'class="{" ".join(map(_renamed, found[1].split()))}"', html)
    html = _LABEL.sub(lambda found: found[1] + (f"Item {found[2]}" if _is_changed(found[2]) else found[2]), html)
    return html.replace("<body>", '<body><div class="theme-two">', 1).replace("</body>", "</div></body>", 1)


def _renamed(name: str) -> str:
    return f"t2-{name}" if _is_changed(name) else name


def _is_changed(name: str) -> bool:
    return zlib.crc32(name.encode()) % 2 == 0


def answer_of_sites(sites: Mapping[str, Site]) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """An `answer` for FakeLLM from the truth of several sites by host and port; a call is about one of them."""
    answers = {netloc: answer_from_truth(site.truth()) for netloc, site in sites.items()}
    return lambda document: answers[urlsplit(document["pages"][0]["url"]).netloc](document)
