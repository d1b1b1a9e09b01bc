"""CPU time per url of the functions that every link of a page goes through.

python -m benchmarks.urls_speed
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from datetime import date

from w3lib.url import canonicalize_url, safe_url_string
from yarl import URL

from llmcrawler.core.urls import Scope, TrapGuard, dedup_key, normalise, parse_sitemap, url_pattern

COUNT = 30_000


def plain_urls(run: int) -> list[str]:
    return [
        f"https://www.shop.example/catalogue/some-thing-{run}-{n}_{n % 999}/?page={n % 7}&x=y" for n in range(COUNT)
    ]


def odd_urls(run: int) -> list[str]:
    return [f"HTTPS://www.Shop.example:443/a/../Ding-{run}-{n}/%c3%a4 ü?utm_source=x&id={n}#top" for n in range(COUNT)]


def show(name: str, function: Callable[[str], object], make: Callable[[int], list[str]], run: int) -> None:
    urls = make(run)
    start = time.process_time()
    for url in urls:
        function(url)
    print(f"{name:40} {(time.process_time() - start) / COUNT * 1e6:7.2f} us")


def main() -> None:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    scope, guard = Scope(["https://www.shop.example/"]), TrapGuard(date(2024, 6, 15))
    base = "https://www.shop.example/a/"
    show("normalise, new canonical url", normalise, plain_urls, 1)
    show("normalise, new odd url", normalise, odd_urls, 1)
    show("normalise, new relative reference", lambda url: normalise(url[24:], base), plain_urls, 2)
    show("normalise, repeated url", normalise, lambda _: [plain_urls(1)[-1]] * COUNT, 1)
    show("dedup_key", dedup_key, plain_urls, 1)
    show("url_pattern", url_pattern, plain_urls, 3)
    show("Scope.reason_to_refuse", lambda url: scope.reason_to_refuse(url, 1), plain_urls, 1)
    show("TrapGuard.reason_to_refuse", guard.reason_to_refuse, plain_urls, 4)
    for name, make in (("canonical", plain_urls), ("odd", odd_urls)):
        show(f"w3lib canonicalize_url, {name}", canonicalize_url, make, 5)
        show(f"w3lib safe_url_string, {name}", safe_url_string, make, 6)
        show(f"yarl URL, {name}", lambda url: str(URL(url)), make, 7)
    entries = "".join(f"<url><loc>https://www.shop.example/{n}</loc></url>" for n in range(COUNT))
    body = f'<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{entries}</urlset>'.encode()
    start = time.process_time()
    parse_sitemap(body)
    print(f"parse_sitemap, {COUNT} urls {(time.process_time() - start) * 1e3:25.0f} ms")


if __name__ == "__main__":
    main()
