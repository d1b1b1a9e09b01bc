# ruff: noqa: E501  (the markup that the sites render reads better unbroken)
"""Floors of template grouping on synthetic sites: a change may raise them and not lower them.

The sites are rendered here, each with a template system of another style, from one seed. The crawl and its
oracle are those of benchmarks/templates_quality.py.
"""

import random
from collections.abc import Callable

import pytest
from selectolax.lexbor import LexborHTMLParser

from benchmarks.templates_quality import StoredPage, evaluate
from llmcrawler.core.content.fingerprint import fingerprint
from llmcrawler.core.content.markup import tokens

WORDS = "amber basil cedar delta ember fjord grove haven inlet jetty knoll larch maple north ochre pearl".split()
Route = tuple[str, str, str]  # url, route, html


def slug(rng: random.Random) -> str:
    return "-".join(rng.choices(WORDS, k=3))


def prose(rng: random.Random) -> str:
    """What an author may write: any mix of elements, another on each page."""
    pieces = [
        "<p>{} <a href='#'>x</a></p>",
        "<ul><li>{}</li><li><b>y</b></li></ul>",
        "<h2>{}</h2>",
        "<blockquote>{}</blockquote>",
    ]
    pieces += [
        "<table><tr><td>{}</td></tr></table>",
        "<figure><img><figcaption>{}</figcaption></figure>",
        "<p><em>{}</em></p>",
    ]
    return "".join(rng.choice(pieces).format(rng.choice(WORDS)) for _ in range(rng.randint(2, 12)))


def shop(rng: random.Random) -> list[Route]:
    """Bootstrap-like; a product and its review form differ by one form and by the url's end."""

    def page(main: str, body: str = "default") -> str:
        nav = "<nav class='navbar'><ul class='nav'><li class='nav-item active'><a>x</a></li></ul></nav>"
        return f"<html><body class='{body}'><header class='header'>{nav}</header><div class='container-fluid page'>{main}</div><footer class='footer'><p>f</p></footer></body></html>"

    made: list[Route] = [("/", "home", page("<section class='hero'><h1>x</h1></section>" * 2, "home"))]
    card = "<article class='card'><div class='card-body'><h3><a>x</a></h3><p class='price'>1</p></div></article>"
    for number in range(70):
        at = f"/catalogue/{slug(rng)}_{number}/"
        related = f"<div class='related'>{card * rng.randint(1, 3)}</div>" if rng.random() < 0.5 else ""
        gallery = (
            "<div class='carousel'><div class='item active'><img></div></div>"
            if rng.random() < 0.6
            else "<div class='thumb'><img></div>"
        )
        product = (
            f"<div class='product-page'>{gallery}<div class='product-main'><h1>x</h1><p class='price'>1</p></div></div>"
        )
        buy = "<form method='post' class='add-to-basket'><input name='quantity' type='number'><button class='btn'>b</button></form>"
        facts = "<table class='table'><tr><th>a</th><td>b</td></tr></table>"
        made.append((at, "product", page(product + buy + facts + related)))
        review = "<form method='post' id='r'><input name='title' type='text'><textarea name='body'></textarea><button>b</button></form>"
        made.append((at + "reviews/add/", "review", page(f"<div class='page-header'><h1>x</h1></div>{review}")))
    for number in range(24):
        pager = "<ul class='pagination'><li class='page'><a>1</a></li></ul>" if rng.random() < 0.7 else ""
        listing = f"<aside class='facets'><ul><li><a>x</a></li></ul></aside><ol class='row'>{card * rng.randint(1, 8)}</ol>{pager}"
        made.append((f"/category/{slug(rng)}/?page={number}", "category", page(listing)))
    login = "<form method='post' class='login'><input name='user' type='text'><input name='password' type='password'></form>"
    made.append(("/login/", "login", page(login)))
    return made


def docs(rng: random.Random) -> list[Route]:
    """A documentation generator: free prose, signatures on reference pages, one index."""

    def page(main: str) -> str:
        side = (
            "<div class='sphinxsidebar'><ul><li class='toctree-l1'><a class='reference internal'>x</a></li></ul></div>"
        )
        return f"<html><body><div class='related'><ul><li class='right'><a>n</a></li></ul></div><div class='document'><div class='body'>{main}</div></div>{side}</body></html>"

    made: list[Route] = [
        (f"/guide/{slug(rng)}{number}.html", "guide", page(f"<section><h1>x</h1>{prose(rng)}</section>"))
        for number in range(80)
    ]
    for number in range(60):
        entry = "<dl class='py class'><dt class='sig'><code class='descname'>x</code><span class='sig-paren'>(</span></dt><dd><p>d</p></dd></dl>"
        address = f"/api/{rng.choice(WORDS)}.{number}.html"
        made.append((address, "api", page(f"<section><h1>x</h1>{entry * rng.randint(1, 5)}{prose(rng)}</section>")))
    for number in range(30):
        source = "<div class='highlight'><pre><span class='kn'>i</span><span class='n'>x</span></pre></div>"
        made.append((f"/_modules/{rng.choice(WORDS)}{number}.html", "source", page(f"<h1>Source</h1>{source}")))
    index = "<table class='indextable genindextable'><tr><td><ul><li><a>x</a></li></ul></td></tr></table>"
    made.append(("/genindex.html", "index", page(index)))
    return made


def blog(rng: random.Random) -> list[Route]:
    """WordPress-like body classes; each post is served in layout A or B."""

    def page(main: str, body: str) -> str:
        return f"<html><body class='{body}'><div id='page' class='site'><header class='site-header'><h1>x</h1></header>{main}</div></body></html>"

    made: list[Route] = []
    for number in range(90):
        share = "<div class='share'><a class='tw'>t</a></div>"
        layout_a = f"<main class='site-main'><article class='post-{number} post hentry'><div class='entry-content'>{prose(rng)}</div></article></main>"
        layout_b = f"<div class='wide'><div class='cover'><img></div><article class='post hentry new'><div class='text'>{prose(rng)}</div>{share}</article></div>"
        body = f"post-template-default single single-post postid-{number}"
        made.append((f"/2024/{number % 12 + 1}/{slug(rng)}/", "post", page(rng.choice([layout_a, layout_b]), body)))
    for number in range(30):
        teaser = "<article class='post hentry'><h2 class='entry-title'><a>x</a></h2><div class='entry-summary'><p>x</p></div></article>"
        main = f"<main class='site-main'>{teaser * rng.randint(2, 6)}<nav class='pagination'><a>2</a></nav></main>"
        made.append((f"/tag/{slug(rng)}/", "tag", page(main, f"archive tag tag-{number}")))
    return made


def hashed(rng: random.Random) -> list[Route]:
    """CSS-in-JS whose class names are drawn anew for every page."""

    def name() -> str:
        return rng.choice(["css-", "sc-"]) + "".join(rng.choices("abcdef0123456789", k=3)) + "1x2"

    def page(main: str) -> str:
        return f"<html><body><div class='{name()}'><header class='{name()}'><nav><a class='{name()}'>x</a></nav></header>{main}</div></body></html>"

    made: list[Route] = []
    for number in range(50):
        main = f"<main><section class='{name()}'><img class='{name()}'><h1 class='{name()}'>x</h1><dl><dt>a</dt><dd>b</dd></dl><form><input name='size' type='radio'><button class='{name()}'>b</button></form></section></main>"
        made.append((f"/p/{slug(rng)}-{number}", "product", page(main)))
        main = f"<main class='{name()}'><article class='{name()}'><h1>x</h1><time>t</time><p>{prose(rng)}</p></article></main>"
        made.append((f"/stories/{slug(rng)}", "story", page(main)))
        if number % 3 == 0:
            cards = f"<li class='{name()}'><a><img class='{name()}'><span>x</span></a></li>" * rng.randint(2, 9)
            main = f"<main><h1>x</h1><ul class='{name()}'>{cards}</ul></main>"
            made.append((f"/c/{slug(rng)}?sort=new", "listing", page(main)))
    return made


def built(rng: random.Random) -> list[Route]:
    """CSS-in-JS of one build: nothing but div and span, told apart by hashed class names alone."""

    def page(*parts: str) -> str:
        return f"<html><body><div class='css-1ab2cd'><div class='css-3d4e5f'><span>x</span></div>{''.join(parts)}</div></body></html>"

    made: list[Route] = []
    for number in range(40):
        for route, outer, inner, row in (
            ("product", "0k1l2m", "5n6o7p", "7g8h9i"),
            ("story", "6t7u8v", "9w0x1y", "2q3r4s"),
        ):
            rows = f"<div class='css-{row}'><span>x</span></div>" * rng.randint(1, 5)
            main = f"<div class='css-{outer}'><div class='css-{inner}'>{rows}</div></div>"
            made.append((f"/{slug(rng)}-{route[0]}{number}", route, page(main)))
    return made


SITES: dict[str, Callable[[random.Random], list[Route]]] = {
    "shop": shop,
    "docs": docs,
    "blog": blog,
    "hashed": hashed,
    "built": built,
}


@pytest.mark.slow
@pytest.mark.parametrize("order_seed", [0, 1, 2])
@pytest.mark.parametrize(
    ("site", "v", "homogeneity", "online", "most_shown"),
    [
        ("shop", 0.95, 0.97, 0.99, 30),
        ("docs", 0.60, 0.90, 0.97, 45),
        ("blog", 0.60, 0.95, 0.97, 35),
        ("hashed", 0.80, 0.97, 0.97, 30),
        ("built", 0.85, 0.97, 0.97, 30),
    ],
)
def test_templates_are_told_apart(
    *, site: str, v: float, homogeneity: float, online: float, most_shown: int, order_seed: int
) -> None:
    rows = SITES[site](random.Random(7))
    stream = [
        StoredPage("http://site.test" + url, route, fingerprint(tokens(LexborHTMLParser(html))))
        for url, route, html in rows
    ]
    random.Random(order_seed).shuffle(stream)
    figures = evaluate(stream)
    assert figures["V"] >= v, figures
    assert figures["h"] >= homogeneity, figures
    assert figures["online"] >= online, figures
    assert figures["shown"] <= most_shown, figures
    assert figures["groups2"] <= 3 * figures["routes"], figures
