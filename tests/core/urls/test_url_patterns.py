from __future__ import annotations

import pytest

from llmcrawler.core.urls import canonical_link, coarse_pattern, names_variant, url_pattern, variant_key


@pytest.mark.parametrize(
    ("path", "pattern"),
    [
        ("", "/"),
        ("/", "/"),
        ("/about-us", "/about-us"),
        ("/terms-of-service/", "/terms-of-service/"),
        ("/index.html", "/index.html"),
        ("/catalogue/the-shellcoders-handbook_209/", "/catalogue/{slug}_{n}/"),
        ("/catalogue/hamlet_17/", "/catalogue/{slug}_{n}/"),
        ("/category/books/page-2.html", "/category/books/page-{n}.html"),
        ("/page/2/", "/page/{n}/"),
        ("/news/12345-some-title-here", "/news/{n}-{slug}"),
        ("/blog/2024/05/", "/blog/{date}/"),
        ("/2024/05/12/how-to-bake-a-good-bread/", "/{date}/{slug}/"),
        ("/2024-05-12/", "/{date}/"),
        ("/p/550e8400-e29b-41d4-a716-446655440000", "/p/{id}"),
        ("/dp/B07XJ8C8F5", "/dp/{id}"),
        ("/commit/9fceb02d0ae598e95dc970b74767f19372d61af8", "/commit/{id}"),
        ("/docs/3.11/library/re.html", "/docs/{n}/library/re.html"),
        ("/wiki/Albert_Einstein", "/wiki/{slug}"),
        ("/api/java/util/ArrayList.html", "/api/java/util/{slug}.html"),
        ("/item1234", "/item{n}"),
        ("/breads/rye-bread/", "/breads/{slug}/"),
        ("/opening-hours/shops/", "/opening-hours/shops/"),
        ("/mp3-players/", "/mp3-players/"),
        ("/%D0%90%D0%B1/", "/{slug}/"),
        ("/a.php?date=2024-05-01&q=x&n=3", "/a.php?date={date}&n={n}&q={slug}"),
        ("/?b=&a", "/?a&b="),
        ("/index.php?title=Main&action=edit", "/index.php?action=edit&title={slug}"),
        ("/index.php?route=product/category&path=20_27", "/index.php?path={slug}&route=product/category"),
        ("/?1234", "/?{n}"),
        ("/list?f=1&f=2", "/list?f={n}"),
    ],
)
def test_the_shape_of_a_url(path, pattern):
    assert url_pattern(f"http://h.example{path}") == pattern


SITE = "http://blog.test"


@pytest.mark.parametrize(
    ("urls", "family"),
    [
        (["/tag/winter/", "/tag/hot-soup/"], "/tag/*/"),
        (["/tag/winter/page/2/", "/tag/hot-soup/?page=3"], "/tag/*/?page"),
        (["/2025/11/06/kale/", "/2024/01/02/rye-and-salt/", "/2023/01/05/frost-2/"], "/{date}/*/"),
        (["/catalogue/red-shoe_12/", "/catalogue/lamp_7/"], "/catalogue/*/"),
        (["/report/1", "/report/2"], "/report/{n}"),
        (["/report/1?sort=owner&dir=asc", "/report/2?sort=id&page=3"], "/report/{n}?*"),
        (["/index.html", "/index2.html", "/index14.html"], "/index.html"),
        (["/query?status=new&owner=ann", "/query?owner=bob&milestone=spring&order=id"], "/query?*"),
        (["/?p=12", "/?p=13"], "/?p"),
        (["/wiki/Rye?action=history", "/wiki/Bread?action=history"], "/wiki/*?action=history"),
        (["/page/2/", "/page/3/?page=4"], "/?page"),
    ],
)
def test_urls_of_a_family(urls: list[str], family: str) -> None:
    assert {coarse_pattern(SITE + url) for url in urls} == {SITE + family}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("/about", "/contact"),
        ("/tag/winter", "/category/winter"),
        ("/wiki/Rye", "/wiki/Rye?action=history"),
        ("/index.php?view=post&id=1", "/index.php?view=tag&id=1"),
    ],
)
def test_other_things_are_other_families(one: str, other: str) -> None:
    assert coarse_pattern(SITE + one) != coarse_pattern(SITE + other)


HOME = "https://shop.test"


@pytest.mark.parametrize(
    ("url", "other"),
    [
        ("/a", "http://shop.test/a"),
        ("/a", "https://www.shop.test/a"),
        ("/a", "/a/"),
        ("/", "/index.html"),
        ("/a/", "/a/index.php"),
        ("/a", "/a?print=1"),
        ("/a?id=5", "/a?id=5&printable=yes"),
        ("/a?id=5", "/a?id=5&view=print"),
        ("/a?id=5&x=1", "/a?x=1&id=5"),
        ("/a", "/a/amp"),
        ("/a", "/amp/a/"),
        ("/a", "/a?amp"),
        ("/a", "/print/a"),
        ("/a.html", "/a.amp.html"),
        ("/a.html", "/a-print.html"),
    ],
)
def test_views_of_one_page_have_one_key(url: str, other: str) -> None:
    assert variant_key(HOME + url) == variant_key(other if "//" in other else HOME + other)


@pytest.mark.parametrize(
    ("url", "other"),
    [
        ("/a", "https://shop.test:8443/a"),
        ("/a", "https://m.shop.test/a"),
        ("/a?id=5", "/a?id=6"),
        ("/a", "/a?page=2"),
        ("/a?print=lamp", "/a?print=chair"),
        ("/a", "/a?printer=epson"),
        ("/a", "/A"),
        ("/amplifier", "/"),
        ("/prints/a", "/a"),
        ("/a#/guide", "/a#/help"),
        ("/a?sort=name", "/a?sort=price"),
    ],
)
def test_other_pages_have_keys_of_their_own(url: str, other: str) -> None:
    assert variant_key(HOME + url) != variant_key(other if "//" in other else HOME + other)


@pytest.mark.parametrize(
    ("path", "expected"),
    [("/printer.php?id=5", True), ("/a/amp/", True), ("/a?print", True), ("/amplifier", False), ("/sprint", False)],
)
def test_a_url_may_say_that_it_is_a_view(path: str, expected: bool) -> None:
    assert names_variant(HOME + path) is expected


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ('</b>; rel="canonical"', f"{HOME}/b"),
        ("<https://shop.test/b>; rel=canonical", f"{HOME}/b"),
        ('</x.css>; rel=preload; as=style, </b>; type="text/html"; rel="nofollow canonical"', f"{HOME}/b"),
        ("</b>; rel=next", None),
        ('</b>; title="rel"; hreflang=canonical', None),
        ("<b", None),
        ("", None),
        ("</" + "a" * 100_000 + ">; rel=canonical", None),
        ("<a>;" * 50_000, None),
    ],
)
def test_a_link_header_names_the_canonical_page(header: str, expected: str | None) -> None:
    assert canonical_link(header, f"{HOME}/a") == expected
