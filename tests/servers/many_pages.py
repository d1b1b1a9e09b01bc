"""A site of as many pages as wanted, which notes what was asked of it, in order.

    pages = ManyPages(120); with MockSite(pages.routes()).in_thread() as site: ...

A home page, lists of twenty items each, and items; every page of a list links to its neighbours.
"""

from __future__ import annotations

import asyncio
from random import Random
from threading import Condition

from aiohttp import web

from tests.servers.mock_site import Handler, html

ITEMS_OF_A_LIST = 20
_SYLLABLES = ("ba", "con", "der", "fi", "gra", "hol", "in", "ka", "lo", "men", "na", "ol", "per", "qui", "ra", "sti")
_WORDS = ["".join(Random(number).choices(_SYLLABLES, k=1 + number % 4)) for number in range(2000)]
_ROBOTS = "User-agent: *\nDisallow:\n"


class ManyPages:
    """`body_bytes` is the size of the items, smallest and largest; None: some 2 kB.

    Of the requests, `requested` has those for pages in their order, `answered` those whose answer is on its way.
    They may be read in another thread.
    """

    def __init__(self, count: int, *, latency_seconds: float = 0.0, body_bytes: tuple[int, int] | None = None) -> None:
        lists = -(-(count - 1) // (ITEMS_OF_A_LIST + 1))
        items = count - 1 - lists
        self.latency_seconds = latency_seconds
        self.requested: list[str] = []
        self.answered: list[str] = []
        self.changed = Condition()
        self.bodies = {"/": _page("Everything", "", [f"/list/{number}/" for number in range(lists)])}
        for number in range(lists):
            first = number * ITEMS_OF_A_LIST
            links = [f"/item/{item}/" for item in range(first, min(first + ITEMS_OF_A_LIST, items))]
            near = [f"/list/{other}/" for other in (number - 1, number + 1) if 0 <= other < lists]
            self.bodies[f"/list/{number}/"] = _page(f"List {number}", "", links + near)
        for number in range(items):
            self.bodies[f"/item/{number}/"] = _item(number, _size(number, body_bytes))

    @property
    def paths(self) -> set[str]:
        return set(self.bodies)

    @property
    def pending(self) -> list[str]:
        """Asked for and not answered."""
        waiting = list(self.requested)
        for path in list(self.answered):
            waiting.remove(path)
        return waiting

    def routes(self) -> dict[str, str | Handler]:
        return {**dict.fromkeys(self.bodies, self._answer), "/robots.txt": self._robots}

    async def _answer(self, request: web.Request) -> web.Response:
        self._note(self.requested, request.path_qs)
        if self.latency_seconds:
            await asyncio.sleep(self.latency_seconds)
        self._note(self.answered, request.path_qs)
        return html(self.bodies[request.path_qs])

    async def _robots(self, _: web.Request) -> web.Response:
        return web.Response(text=_ROBOTS)

    def _note(self, paths: list[str], path: str) -> None:
        with self.changed:
            paths.append(path)
            self.changed.notify_all()


def _size(number: int, body_bytes: tuple[int, int] | None) -> int:
    if body_bytes is None:
        return 2_000
    smallest, largest = body_bytes
    return smallest + (largest - smallest) * (number * 37 % 100) // 100


def _item(number: int, size: int) -> str:
    facts = f'<p class="price">£{number}.50</p><p class="stock">{number % 9} in stock</p>'
    return _page(f"Item {number}", facts + _prose(number, size), [f"/list/{number // 20}/", "/"])


def _prose(seed: int, size: int) -> str:
    """Some `size` bytes that differ from page to page, and compress about as well as pages do."""
    random, parts, length = Random(seed), [], 0
    while length < size:
        words = " ".join(random.choices(_WORDS, k=40))
        parts.append(f'<div class="text"><p>{words.capitalize()}.</p></div>')
        length += len(parts[-1])
    return "".join(parts)


def _page(title: str, main: str, links: list[str]) -> str:
    items = "".join(f'<li><a href="{link}">{link.strip("/") or "all"}</a></li>' for link in links)
    return (
        f'<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>{title}</title></head><body>'
        f'<main><h1>{title}</h1>{main}</main><nav><ul class="links">{items}</ul></nav></body></html>'
    )
