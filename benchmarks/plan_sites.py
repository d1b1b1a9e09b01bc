"""Sites as link graphs whose size is known: trees, shops, blogs, wikis, docs, forums, news."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from random import Random

_SYLLABLES = "ba con der fi gra hol in ka lo men na ol per qui ra sti tor um ver wex".split()


@dataclass
class SitePage:
    """`kind` is the template that made it, and the page type that a model would say."""

    kind: str
    page_type: str
    links: list[str] = field(default_factory=list)
    status: int = 200


@dataclass
class Site:
    """By path and query."""

    name: str
    seed: int
    pages: dict[str, SitePage] = field(default_factory=dict)
    random: Random = field(init=False)

    def __post_init__(self) -> None:
        self.random = Random(self.seed)

    def words(self, count: int) -> str:
        return "-".join("".join(self.random.choices(_SYLLABLES, k=self.random.randint(1, 3))) for _ in range(count))

    def page(self, path: str, kind: str, page_type: str = "other") -> str:
        self.pages.setdefault(path, SitePage(kind, page_type))
        return path

    def link(self, path: str, *targets: str) -> None:
        self.pages[path].links.extend(targets)

    def everywhere(self, targets: Iterable[str]) -> None:
        targets = list(targets)
        for page in self.pages.values():
            page.links[:0] = targets

    def lists(
        self, first: str, next_url: Callable[[int], str], items: list[str], size: int, *, kind: str, pager: str = "next"
    ) -> list[str]:
        """Pages of a list. `pager`: next (and the one before), near (two on each side, first and last), all."""
        count = -(-len(items) // size) or 1
        paths = [self.page(first if n == 1 else next_url(n), kind, "listing") for n in range(1, count + 1)]
        for at, path in enumerate(paths):
            self.link(path, *items[at * size : at * size + size])
            near = {
                "next": (at - 1, at + 1),
                "near": (0, at - 2, at - 1, at + 1, at + 2, count - 1),
                "all": range(count),
            }
            self.link(path, *(paths[n] for n in near[pager] if 0 <= n < count and n != at))
        return paths


def firm(site: Site, size: int) -> None:
    """Plain pages of words, a menu of them all but those below a second level."""
    site.page("/", "home", "homepage")
    menu = [site.page(f"/{site.words(1)}", "text", "about") for _ in range(size // 4)]
    while len(site.pages) < size:
        above = site.random.choice(menu)
        site.link(above, site.page(f"{above}/{site.words(2)}", "text", "service"))
    site.everywhere(["/", *menu])


def shop(site: Site, size: int, *, pager: str = "next", forms: bool = False, facets: bool = False) -> None:
    """Categories on two levels with pages of 24 products; a product links to six neighbours, and to its form."""
    site.page("/", "home", "homepage")
    sections = [f"/{site.words(1)}/" for _ in range(max(2, size // 400))]
    products: list[str] = []
    for section in sections:
        site.page(section, "section", "listing")
        for _ in range(4):
            count = round(site.random.lognormvariate(0, 0.8) * size * (0.45 if forms else 0.9) / len(sections) / 5)
            items = [
                site.page(f"/product/{site.words(3)}-{len(products) + n}/", "product", "product") for n in range(count)
            ]
            products += items
            first = f"{section}{site.words(1)}/"
            pages = site.lists(first, (first + "?page={}").format, items, 24, kind="list", pager=pager)
            site.link(section, first)
            if facets:
                for page in pages:
                    site.link(page, *(f"{first}?color={c}" for c in ("red", "blue", "green")))
                for colour in ("red", "blue", "green"):
                    path = site.page(f"{first}?color={colour}", "list", "listing")
                    site.link(
                        path,
                        *site.random.sample(items, min(24, len(items))),
                        *(f"{path}&sort={s}" for s in ("price", "name")),
                    )
                    for order in ("price", "name"):
                        site.link(
                            site.page(f"{path}&sort={order}", "list", "listing"),
                            *site.random.sample(items, min(24, len(items))),
                        )
    for product in products:
        site.link(product, *site.random.sample(products, min(6, len(products))))
        if forms:
            form = site.page(f"{product}reviews/add/", "form", "review")
            site.link(product, form)
            site.link(form, product)
    extra = [site.page(f"/{name}/", "text", "about") for name in ("about", "terms", "contact", "delivery")]
    site.everywhere(["/", *sections, *extra])


def blog(site: Site, size: int, *, pager: str = "next", archive: bool = True, tags: int = 20) -> None:
    """Posts by date, pages of ten, months, tags with pages of their own, and neighbours of a post."""
    posts = []
    for n in range(round(size * 0.8)):
        month = n * 36 // round(size * 0.8)
        posts.append(site.page(f"/{2020 + month // 12}/{month % 12 + 1:02}/{site.words(3)}/", "post", "article"))
    posts.reverse()
    site.page("/", "home", "homepage")
    site.lists("/", lambda n: f"/page/{n}/", posts, 10, kind="list", pager=pager)
    names = [site.words(1) for _ in range(tags)]
    tagged: dict[str, list[str]] = {}
    for at, post in enumerate(posts):
        for tag in dict.fromkeys(site.random.choices(names, [1 / (n + 1) for n in range(tags)], k=2) if names else ()):
            tagged.setdefault(tag, []).append(post)
            site.link(post, f"/tag/{tag}/")
        site.link(post, *posts[max(0, at - 1) : at], *posts[at + 1 : at + 2])
    for tag, some in tagged.items():
        site.lists(f"/tag/{tag}/", f"/tag/{tag}/page/{{}}/".format, some, 10, kind="list", pager=pager)
    months = dict.fromkeys(post[:9] for post in posts) if archive else ()
    for first in months:
        site.lists(first, (first + "page/{}/").format, [p for p in posts if p.startswith(first)], 10, kind="list")
    site.everywhere(["/", site.page("/about/", "text", "about"), *list(months)[:12]])
    if archive:
        site.link(site.page("/archive/", "archive", "listing"), *months)
        site.everywhere(["/archive/"])


def wiki(site: Site, size: int, *, views: bool = False) -> None:
    """Flat names, links to what is known well and to what is near; with `views` each page's history and source."""
    names = [
        f"/wiki/{'_'.join(w.title() for w in site.words(2).split('-'))}_{n}" for n in range(size // (3 if views else 1))
    ]
    weights = [1 / (n + 1) for n in range(len(names))]
    site.page("/", "home", "homepage")
    site.link("/", *names[:15])
    for at, name in enumerate(names):
        site.page(name, "article", "article")
        count = site.random.randint(3, 25)
        near = [names[site.random.randrange(max(0, at - 30), min(len(names), at + 30))] for _ in range(count // 2 + 1)]
        site.link(
            name, *dict.fromkeys([*near, *site.random.choices(names, weights, k=count), names[(at + 1) % len(names)]])
        )
        if views:
            for view in ("history", "edit"):
                site.link(name, site.page(f"{name}?action={view}", view, "other"))
                site.link(f"{name}?action={view}", name)
    site.everywhere(["/"])


def tree(site: Site, size: int, *, folders: bool = False, sideways: bool = True, even: bool = False) -> None:
    """A manual: chapters and sections; names in folders, or all of one shape. Each part is split until nothing is left
    of it, `even` level by level, so that the last level has no parts at all.
    """
    site.page("/", "node", "documentation")
    order: list[str] = []

    def split(path: str, folder: str, left: int) -> None:
        count = min(left, site.random.randint(2, 14))
        weights = [1.0 if even else site.random.expovariate(1) for _ in range(count)]
        shares = [round((left - count) * weight / sum(weights)) for weight in weights]
        for share in shares:
            name = site.words(2) if folders else f"{site.words(1)}-{len(order)}"
            child = site.page(f"{folder}{name}{'/' if folders else '.html'}", "node", "documentation")
            order.append(child)
            site.link(path, child)
            site.link(child, path)
            split(child, f"{folder}{name}/" if folders else "/", share)

    split("/", "/", size)
    if sideways:
        for before, after in pairwise(order):
            site.link(before, after)
            site.link(after, before)
    site.everywhere(["/"])


def docs(site: Site, size: int, *, index: bool = False) -> None:
    """Books of plain words in folders; each page has the menu of its book, and next and previous."""
    site.page("/index.html", "front", "documentation")
    site.page("/", "front", "documentation")
    books: list[list[str]] = []
    while sum(map(len, books)) < size - 2:
        folder = f"/{site.words(1)}/"
        books.append(
            [f"{folder}index.html", *(f"{folder}{site.words(1)}.html" for _ in range(site.random.randint(5, 60)))]
        )
    for book in books:
        for path in book:
            site.page(path, "chapter", "documentation")
    for book in books:
        for at, path in enumerate(book):
            site.link(path, *(book if at == 0 else book[:1]), *book[max(0, at - 1) : at], *book[at + 1 : at + 2])
            others = site.random.choice(books)
            site.link(path, *site.random.sample(others, min(3, len(others))))
    for start in ("/", "/index.html"):
        site.link(start, *(book[0] for book in books))
    if index:
        every = [path for book in books for path in book]
        site.link(site.page("/genindex.html", "index", "listing"), *every)
        site.everywhere(["/genindex.html"])
    site.everywhere(["/index.html"])


def forum(site: Site, size: int) -> None:
    """Boards with pages of thirty threads, threads with pages and members."""
    site.page("/", "home", "listing")
    members = [f"/user/{n}" for n in range(1, size // 5)]
    number = 0
    while len(site.pages) < size * 0.8:
        board = f"/forum/{site.words(1)}/"
        threads = []
        for _ in range(round(site.random.lognormvariate(0, 0.7) * size / 12)):
            number += 1
            posts = min(12, round(site.random.paretovariate(1.3)))
            first = f"/thread/{number}/{site.words(2)}/"
            paths = site.lists(first, (first + "?page={}").format, [], 1, kind="thread")
            paths += [site.page(f"{first}?page={n}", "thread", "forum_thread") for n in range(2, posts + 1)]
            for at, path in enumerate(paths):
                site.link(path, *site.random.sample(members, min(5, len(members))), *paths[at + 1 : at + 2])
                site.pages[path].page_type = "forum_thread"
            threads.append(first)
        site.lists(board, (board + "?page={}").format, threads, 30, kind="board", pager="near")
        site.link("/", board)
    for member in members:
        site.link(site.page(member, "member", "profile"), "/")
    site.everywhere(["/"])


def news(site: Site, size: int) -> None:
    """Sections that show the latest thirty only; older articles are found from articles."""
    site.page("/", "home", "homepage")
    sections = [site.page(f"/{site.words(1)}/", "section", "listing") for _ in range(8)]
    articles: dict[str, list[str]] = {section: [] for section in sections}
    while len(site.pages) < size:
        section = site.random.choice(sections)
        number = 100_000 + len(site.pages) * 7
        articles[section].append(site.page(f"{section}{site.words(4)}-{number}.html", "article", "article"))
    for section, some in articles.items():
        site.link(section, *some[:30])
        for at, path in enumerate(some):
            older = [some[min(len(some) - 1, at + site.random.randint(1, 40))] for _ in range(4)]
            site.link(path, *older, *site.random.sample(some, min(2, len(some))))
    site.link("/", *(path for some in articles.values() for path in some[:5]))
    site.everywhere(["/", *sections])


def doubled(site: Site, size: int) -> None:
    """A catalogue whose links carry where they were clicked, so that a page has several urls; some lead nowhere."""
    site.page("/", "home", "homepage")
    items = [site.page(f"/item/{n}", "item", "product") for n in range(1, size // 3)]
    lists = site.lists(
        "/items", lambda n: f"/items?page={n}", [f"{item}?ref=list" for item in items], 20, kind="list", pager="near"
    )
    for item in items:
        for ref in ("list", "near"):
            site.page(f"{item}?ref={ref}", "item", "product")
        near = site.random.sample(items, 4)
        for path in (item, f"{item}?ref=list", f"{item}?ref=near"):
            site.link(path, *(f"{one}?ref=near" for one in near), item)
        if site.random.random() < 0.1:
            site.pages.setdefault(f"/gone/{item[6:]}", SitePage("gone", "error", status=404))
            site.link(item, f"/gone/{item[6:]}")
    site.everywhere(["/", lists[0]])


def places(site: Site, size: int) -> None:
    """A directory in four levels of names: countries, regions, towns, entries."""
    site.page("/", "home", "homepage")
    left = size
    while left > 0:
        country = site.page(f"/{site.words(1)}/", "country", "listing")
        site.link("/", country)
        for _ in range(site.random.randint(2, 8)):
            region = site.page(f"{country}{site.words(1)}/", "region", "listing")
            site.link(country, region)
            for _ in range(site.random.randint(1, 12)):
                town = site.page(f"{region}{site.words(1)}/", "town", "listing")
                site.link(region, town)
                entries = [
                    site.page(f"{town}{site.words(3)}/", "entry", "service") for _ in range(site.random.randint(0, 12))
                ]
                site.link(town, *entries)
                for entry in entries:
                    site.link(entry, town, region)
                left -= 1 + len(entries)
    site.everywhere(["/"])


SHAPES: dict[str, Callable[[Site, int], None]] = {
    "firm": firm,
    "shop": shop,
    "shop, forms": lambda site, size: shop(site, size, forms=True),
    "shop, pager near": lambda site, size: shop(site, size, pager="near"),
    "shop, facets": lambda site, size: shop(site, size, facets=True),
    "blog": blog,
    "blog, next only": lambda site, size: blog(site, size, archive=False, tags=0),
    "blog, pager near": lambda site, size: blog(site, size, pager="near", archive=False),
    "wiki": wiki,
    "wiki, views": lambda site, size: wiki(site, size, views=True),
    "tree, one shape": tree,
    "tree, one shape, bare": lambda site, size: tree(site, size, sideways=False),
    "tree, one shape, even": lambda site, size: tree(site, size, even=True),
    "tree, folders, even, bare": lambda site, size: tree(site, size, folders=True, even=True, sideways=False),
    "tree, folders": lambda site, size: tree(site, size, folders=True),
    "docs": docs,
    "docs, index": lambda site, size: docs(site, size, index=True),
    "forum": forum,
    "news": news,
    "doubled": doubled,
    "places": places,
}


def sites(sizes: Iterable[int], seeds: Iterable[int], *, wanted: str = "") -> Iterator[Site]:
    """Each shape in each size."""
    for name, shape in SHAPES.items():
        if wanted not in name:
            continue
        for size in sizes:
            for seed in seeds:
                yield make(name, shape, size, seed)


def make(name: str, shape: Callable[[Site, int], None], size: int, seed: int) -> Site:
    site = Site(f"{name} {size}", seed)
    shape(site, size)
    return site
