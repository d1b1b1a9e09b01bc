"""The fingerprint keeps what the template made and drops what belongs to one page or one build."""

import pytest
from selectolax.lexbor import LexborHTMLParser

from llmcrawler.core.content.fingerprint import MAX_FEATURES, fingerprint, fold_class
from llmcrawler.core.content.markup import tokens


def features(html: str) -> frozenset[str]:
    return fingerprint(tokens(LexborHTMLParser(html)))


def test_pairs_of_parent_and_child_labels_are_the_features() -> None:
    found = features('<body><ul class="nav main"><li><a href="/">x</a></li></ul></body>')
    assert {"body>ul.main.nav", "ul.main.nav>li", "li>a"} <= found


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("<p>some words</p>", "<p>quite other words</p>"),
        ('<p id="a1">x</p>', '<p id="b2">x</p>'),
        ('<div class="post-12">x</div>', '<div class="post-7">x</div>'),
        ('<li class="item active">x</li>', '<li class="item">x</li>'),
        ('<li class="nav-item is-current">x</li>', '<li class="nav-item">x</li>'),
        ('<div class="css-1x2y3z">x</div>', '<div class="css-9k8j2q">x</div>'),
        ('<div class="jsx-3141592653 box">x</div>', '<div class="jsx-2718281828 box">x</div>'),
        ('<div class="sc-bdVaJa kYgLxK">x</div>', '<div class="sc-eCsTfR gHtPqZ">x</div>'),
        ('<div class="Button_root__3xY2z">x</div>', '<div class="Button_root__9aB4c">x</div>'),
        ("<p>x</p><script>1</script>", "<p>x</p>"),
        ('<p>x<svg class="i"><path/></svg></p>', "<p>x</p>"),
    ],
)
def test_what_belongs_to_one_page_makes_no_difference(one: str, other: str) -> None:
    assert {f for f in features(one) if not f.startswith("hash.")} == {
        f for f in features(other) if not f.startswith("hash.")
    }


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ('<div class="product">x</div>', '<div class="review">x</div>'),
        ('<body class="single-post">x', '<body class="archive">x'),
        ('<html class="home"><p>x', '<html class="inner"><p>x'),
        ('<form method="post"></form>', '<form method="get"></form>'),
        ('<input name="password" type="password">', '<input name="q" type="text">'),
        (
            '<div itemscope itemtype="https://schema.org/Product">x',
            '<div itemscope itemtype="https://schema.org/Event">x',
        ),
    ],
)
def test_what_the_template_made_makes_a_difference(one: str, other: str) -> None:
    assert features(one) != features(other)


@pytest.mark.parametrize(
    "name",
    [
        "navigation",
        "productCard",
        "col-md-6",
        "h2",
        "css-grid",
        "sc-card",
        "btn-primary",
        "ProductListingPage",
        "userName",
        "article__title",
    ],
)
def test_readable_class_names_are_kept(name: str) -> None:
    assert fold_class(name)


@pytest.mark.parametrize(
    "html", ["", "   ", "not html at all", "<!-- only a comment -->", "%PDF-1.4 \x00\x01", "<", "{}"]
)
def test_anything_may_be_read(html: str) -> None:
    assert len(features(html)) < 5


def test_a_huge_page_is_read_from_its_frame_inwards() -> None:
    body = "".join(
        f'<div class="w{"abcdefghij"[i % 10] * (i % 20 + 1)}"><p><b><i>x</i></b></p></div>' for i in range(30_000)
    )
    found = features(f'<body><header><nav class="top"></nav></header>{body}</body>')
    assert "header>nav.top" not in found or len(found) <= MAX_FEATURES
    assert "body>header" in found
    assert len(found) <= MAX_FEATURES


@pytest.mark.slow
def test_a_deep_page_needs_no_recursion() -> None:
    assert features("<div>" * 20_000)
