"""Sites as link graphs, of shapes that call for different ways of telling good links from others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from llmcrawler.items import Link

ORIGIN = "http://site.example"
_SYLLABLES = "ba con der fi gra hol in ka lo men na ol per qui ra sti tor um ver wex".split()


@dataclass
class GraphPage:
    page_type: str
    links: list[Link] = field(default_factory=list)


@dataclass
class Graph:
    """`wanted`: the page type that the site is crawled for."""

    start: str
    wanted: str
    pages: dict[str, GraphPage]


class _Builder:
    def __init__(self, wanted: str, seed: int) -> None:
        self.random = Random(seed)
        self.graph = Graph(f"{ORIGIN}/", wanted, {})

    def words(self, count: int) -> str:
        return "-".join("".join(self.random.choices(_SYLLABLES, k=self.random.randint(1, 3))) for _ in range(count))

    def page(self, path: str, page_type: str) -> str:
        self.graph.pages.setdefault(ORIGIN + path, GraphPage(page_type))
        return path

    def link(self, path: str, target: str, place: str, text: str | None = None) -> None:
        self.graph.pages[ORIGIN + path].links.append(Link(ORIGIN + target, text or self.words(3), place))

    def everywhere(self, targets: list[str], place: str) -> None:
        for url in list(self.graph.pages):
            for target in targets:
                self.link(url.removeprefix(ORIGIN), target, place, f"go {target}")

    def lists(self, first: str, next_url: Callable[[int], str], items: list[str], size: int, place: str) -> None:
        """Pages of a list, each with a link to the next."""
        path = first
        for number, start in enumerate(range(0, max(1, len(items)), size)):
            if number:
                self.page(next_url(number + 1), "listing")
                self.link(path, next_url(number + 1), "li.page < ul.pager < nav", "next")
                path = next_url(number + 1)
            for item in items[start : start + size]:
                self.link(path, item, place)


def deep_catalogue(seed: int) -> Graph:
    """Products below three levels of categories; beside each a form and reviews. A blog, and pages of the firm."""
    site = _Builder("product", seed)
    site.page("/", "homepage")
    menu = [site.page(f"/{name}/", "other") for name in ("about", "contact", "terms", "jobs", "press", "delivery")]
    menu.append(site.page("/journal/", "listing"))
    posts = [site.page(f"/journal/{site.words(3)}/", "article") for _ in range(250)]
    site.lists("/journal/", lambda n: f"/journal/page/{n}/", posts, 10, "h2 < article.post < main")
    number = 0
    for _ in range(6):
        top = site.page(f"/c/{site.words(1)}/", "listing")
        site.link("/", top, "li.dept < ul.depts < nav")
        for _ in range(5):
            middle = site.page(f"{top}{site.words(1)}/", "listing")
            site.link(top, middle, "li.sub < ul.subs < aside")
            for _ in range(4):
                leaf = site.page(f"{middle}{site.words(2)}/", "listing")
                site.link(middle, leaf, "li.sub < ul.subs < aside")
                items = []
                for _ in range(site.random.randint(3, 40)):
                    number += 1
                    items.append(site.page(f"/item/{site.words(2)}-{number}", "product"))
                    for extra in ("reviews", "ask", "compare"):
                        site.link(
                            items[-1], site.page(f"{items[-1]}/{extra}", "other"), "div.tools < div < main", extra
                        )
                site.lists(leaf, (leaf + "?page={}").format, items, 12, "h3 < div.card < main")
    site.everywhere(menu, "li < ul.menu < footer")
    return site.graph


def mixed_blog(seed: int) -> Graph:
    """Articles have urls like those of all other pages; tags and authors show them again and again."""
    site = _Builder("article", seed)
    site.page("/", "homepage")
    about = [site.page(f"/{site.words(2)}/", "about") for _ in range(25)]
    posts = [site.page(f"/{site.words(4)}/", "article") for _ in range(500)]
    things = [site.page(f"/{site.words(3)}/", "product") for _ in range(300)]
    site.lists("/", lambda n: f"/page/{n}/", posts, 10, "h2.title < article < main")
    tags = [site.page(f"/tag/{site.words(1)}/", "listing") for _ in range(150)]
    for tag in tags:
        site.lists(tag, (tag + "page/{}/").format, site.random.sample(posts, 15), 10, "h2.title < article < main")
    for post in posts:
        for tag in site.random.sample(tags, 3):
            site.link(post, tag, "p.tags < footer < article")
        site.link(post, site.random.choice(things), "li.ad < ul.ads < aside")
        for number in range(4):
            site.link(
                post, site.page(f"{post}?replytocom={number}", "other"), "div.reply < li.comment < article", "reply"
            )
    for thing in things:
        for other in site.random.sample(things, 4):
            site.link(thing, other, "li.more < ul < main")
    site.everywhere([*about, site.page("/store/", "listing")], "li < ul.menu < footer")
    site.lists("/store/", lambda n: f"/store/page/{n}/", things, 30, "h2.product < li < main")
    return site.graph


def no_listings(seed: int) -> Graph:
    """The home page shows some products, and each product some others: there is no list of them. News all over."""
    site = _Builder("product", seed)
    site.page("/", "homepage")
    products = [site.page(f"/products/{site.words(2)}.html", "product") for _ in range(300)]
    news = [site.page(f"/news/{2015 + n % 10}/{site.words(3)}.html", "article") for n in range(400)]
    for at, product in enumerate(products):
        for other in [products[(at + 1) % len(products)], *site.random.sample(products, 4)]:
            site.link(product, other, "div.also < section.related < main")
        for post in site.random.sample(news, 4):
            site.link(product, post, "li < ul.news < aside")
    for post in news:
        for other in site.random.sample(news, 8):
            site.link(post, other, "li < ul.news < aside")
    for target in (*products[:3], *news[:10]):
        site.link("/", target, "div.teaser < div < main")
    site.everywhere([site.page(f"/{site.words(1)}.html", "other") for _ in range(15)], "li < ul < nav")
    return site.graph


def numeric_urls(seed: int) -> Graph:
    """Every page is /index.php?id=N: only where a link stands tells what it leads to."""
    site = _Builder("product", seed)
    ids = list(range(1, 4000))
    site.random.shuffle(ids)
    site.page("/", "homepage")

    def page(page_type: str) -> str:
        return site.page(f"/index.php?id={ids.pop()}", page_type)

    menu = [page("other") for _ in range(20)]
    posts = [page("article") for _ in range(500)]
    for post in posts:
        for other in site.random.sample(posts, 6):
            site.link(post, other, "p < div.text < main")
    for _ in range(25):
        first = page("listing")
        site.link("/", first, "li < ul.groups < nav")
        items = [page("product") for _ in range(24)]
        rest = [page("listing") for _ in range(5)]
        site.lists(first, ["", "", *rest].__getitem__, items, 8, "b < td.item < main")
        for item in items:
            site.link(item, page("other"), "a.mail < td.tools < main", "ask a question")
            site.link(item, site.random.choice(posts), "p < div.text < main")
    site.everywhere(menu, "li < ul.menu < nav")
    return site.graph


def plain_lists(seed: int) -> Graph:
    """Bare HTML: all links stand in paragraphs, all urls are words; branches differ in nothing but their folders."""
    site = _Builder("article", seed)
    site.page("/", "homepage")
    for folder, page_type, count in (("essays", "article", 200), ("pictures", "other", 400), ("notes", "other", 600)):
        index = site.page(f"/{folder}/", "listing")
        site.link("/", index, "p < body")
        for year in range(2000, 2020):
            above = site.page(f"/{folder}/{year}/", "listing")
            site.link(index, above, "p < body", str(year))
            for _ in range(count // 20):
                site.link(above, site.page(f"{above}{site.words(2)}.html", page_type), "p < body")
    return site.graph


def rare_pages(seed: int) -> Graph:
    """One page in twenty-five is wanted, in one of forty sections that look alike from outside."""
    site = _Builder("job", seed)
    site.page("/", "homepage")
    for number in range(40):
        section = site.page(f"/{site.words(1)}/", "listing")
        site.link("/", section, "li < ul.menu < nav")
        kind = "job" if number == 29 else "article"
        pages = [site.page(f"{section}{site.words(3)}-{site.random.randint(1000, 9999)}", kind) for _ in range(50)]
        site.lists(section, (section + "?page={}").format, pages, 10, "h2 < article < main")
    return site.graph


SITES: dict[str, Callable[[int], Graph]] = {
    "deep_catalogue": deep_catalogue,
    "mixed_blog": mixed_blog,
    "no_listings": no_listings,
    "numeric_urls": numeric_urls,
    "plain_lists": plain_lists,
    "rare_pages": rare_pages,
}
