import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmcrawler.core.urls import url_pattern


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


@given(st.text(st.characters(codec="ascii", exclude_characters="?#"), max_size=60))
def test_every_url_has_a_shape(tail):
    assert url_pattern(f"http://h.example/{tail}").startswith("/")
