from __future__ import annotations

import pickle
import re
from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llmcrawler.core.content import Boilerplate, content_hash, main_text, read_names, read_page
from llmcrawler.core.understanding.templates.page_sample import words_of
from llmcrawler.items import PageContent, TextBlock
from tests.servers.mock_pages import shop_pages
from tests.servers.record_sites import SITES, make_site

URL = "http://site.example/a/b.html"


def markdown(html: str) -> str:
    return "\n".join(block.markdown for block in read_page(html, URL).blocks)


def having_seen(pages: Iterable[PageContent]) -> Boilerplate:
    boilerplate = Boilerplate()
    for page in pages:
        boilerplate.observe(page.blocks)
    return boilerplate


@pytest.mark.parametrize(
    ("html", "expected"),
    [
        ("<h2>A  title</h2>", "## A title"),
        ("<p>a<br>b</p>", "a  \nb"),
        ("<p>one <b>two</b> <i>three</i> <code>four</code></p>", "one **two** *three* `four`"),
        ("<p><b> two </b>x</p>", "**two** x"),
        ("<p><a href='/x y'>see this</a></p>", "[see this](http://site.example/x%20y)"),
        ("<ul><li>a<ul><li>b</li></ul></li><li>c</li></ul>", "- a\n  - b\n- c"),
        ("<ol><li>a</li><li>b</li></ol>", "1. a\n2. b"),
        ("<blockquote><p>said</p></blockquote>", "\n> said"),
        ("<pre><code>a = 1\n  b</code></pre>", "```\na = 1\n  b\n```"),
        ("<table><tr><th>k<th>v<tr><td>a|b<td>2</table>", "| k | v |\n| --- | --- |\n| a\\|b | 2 |"),
        ("<p>seen</p><script>x</script><style>y</style><svg><text>z</text></svg>", "seen"),
        ("<p>seen</p><div hidden>x</div><p style='display: none'>y</p>", "seen"),
        ("<p>1 &lt; 2 &amp; 3&nbsp;é</p>", "1 < 2 & 3 é"),
        ("", ""),
    ],
)
def test_html_becomes_markdown(html: str, expected: str) -> None:
    assert markdown(html) == expected


@pytest.mark.parametrize(
    ("html", "expected"),
    [
        ("<a href='c'>x</a><a href=/d>y</a><a href=//e.example/f>z</a>", ["/a/c", "/d", "//e.example/f"]),
        ("<base href='/z/'><a href='c'>x</a>", ["/z/c"]),
        ("<a href='../c'>x</a><a href='?q=1'>y</a>", ["/c", "/a/b.html?q=1"]),
        ("<a href='javascript:x()'></a><a href='mailto:a@b'></a><a href='#top'></a>", []),
        ("<a rel='nofollow' href='c'>x</a>", []),
        ("<a href='/c'></a><a href='/c'>text</a>", ["/c"]),
        ("<map><area href='/c'></map>", ["/c"]),
        ("<a href='/c'><div><h3>card</h3></div></a>", ["/c"]),
        ("<a href='http://[bad'>x</a>", []),
    ],
)
def test_links_are_absolute_unique_and_in_order(html: str, expected: list[str]) -> None:
    found = [link.url for link in read_page(html, URL).links]
    wanted = ["http:" + path if path.startswith("//") else "http://site.example" + path for path in expected]
    assert found == wanted


@pytest.mark.parametrize(
    "script",
    [
        '{"@type": "Product", "name": "x"}',
        '{"@type": "Product", "name": "x",}',
        '[{"@type": "Product", "name": "x"}]',
        '{"@context": "c", "@graph": [{"@type": "Product", "name": "x"}]}',
        '<!-- {"@type": "Product", "name": "x"} -->',
        '//<![CDATA[\n{"@type": "Product", "name": "x"}\n//]]>',
    ],
)
def test_json_ld_is_read_as_pages_write_it(script: str) -> None:
    page = read_page(f'<script type="application/ld+json">{script}</script>', URL)
    assert page.structured_data == ({"@type": "Product", "name": "x"},)


def test_broken_json_ld_gives_nothing() -> None:
    assert read_page('<script type="application/ld+json">{"a": </script>', URL).structured_data == ()


def test_microdata_items_nest() -> None:
    html = """<div itemscope itemtype="https://schema.org/Product"><h1 itemprop="name">Mug</h1>
    <div itemprop="offers" itemscope itemtype="https://schema.org/Offer">
    <meta itemprop="price" content="3.50"></div></div>"""
    wanted = {"@type": "Product", "name": "Mug", "offers": {"@type": "Offer", "price": "3.50"}}
    assert read_page(html, URL).structured_data == (wanted,)


def test_metadata_title_and_language() -> None:
    html = """<html lang="de-AT"><title> A  &amp; B </title><meta name=description content=d>
    <link rel=canonical href=/c><meta property="og:type" content=article>
    <meta http-equiv=refresh content="5; url=/n">"""
    page = read_page(html, URL)
    assert (page.title, page.lang) == ("A & B", "de-AT")
    assert page.metadata == {
        "description": "d",
        "canonical": "http://site.example/c",
        "og:type": "article",
        "refresh": "http://site.example/n",
    }


def test_cues_count_what_rules_need() -> None:
    html = """<form action="/cart/add"><input type=password><input type=search><button>go</button></form>
    <p>Price $4.50 <a href=/x>more</a></p><pre>x</pre><img src=a><table><tr><td>1</table><time>now</time>"""
    cues = read_page(html, URL).cues
    for name in ("form_count", "password_inputs", "search_inputs", "price_count", "add_to_cart", "link_count"):
        assert cues[name] == 1, name
    assert all(isinstance(value, float) for value in cues.values())


def test_text_that_only_readers_without_scripts_see_is_found() -> None:
    words = "plain words that tell a story. " * 10
    assert "tell a story" in markdown(f"<div id=app></div><noscript><p>{words}</p></noscript>")


SITE_HEAD = "<nav><a href=/>Home</a></nav><p>This shop is the finest shop of the whole wide town, they say.</p>"


@pytest.mark.parametrize(
    ("names", "is_read"),
    [
        ('id="onetrust-consent-sdk" class="show-banner"', False),
        ('class="Cookie-notice"', False),
        ('class="js-cookieNotice cookie-banner_wrapper"', False),
        ('class="has-cookie-banner"', True),  # the page, while it has one
        ('class="cookie-recipes"', True),
        ('class="cookie-bar-recipes"', True),
        ('class="hentry tag-cookie-bar category-consent-modal"', True),
        ('id="banner-of-consented-members-list"', True),
    ],
)
def test_a_question_for_consent_over_the_page_is_not_read(names: str, is_read: bool) -> None:
    text = "We and our partners process data to provide what you care about, on this device and on all others."
    page = read_page(
        f"<main><p>{'Plain words of the page. ' * 30}</main><div {names}><p>{text}</div>", "http://a.test/"
    )
    assert (text in [block.markdown for block in page.blocks]) is is_read
    assert any("Plain words" in block.markdown for block in page.blocks)


def test_a_page_that_has_a_question_for_consent_alone_keeps_it() -> None:
    text = "We and our partners process data. " * 12
    page = read_page(f"<body class=cookie-banner><div id=cookie-banner><p>{text}</div>", "http://a.test/")
    assert page.blocks


def test_blocks_of_all_pages_leave_the_main_text_and_the_pages_own_stay() -> None:
    pages = [
        read_page(
            f"{SITE_HEAD}<main><p>{f'Story number {n} goes on for many words, as stories do. ' * 4}</p></main>", URL
        )
        for n in range(5)
    ]
    boilerplate = having_seen(pages)
    text = main_text(pages[0].blocks, boilerplate)
    assert "Story number 0" in text
    assert "finest shop" not in text


def test_page_of_repeated_blocks_only_is_not_emptied() -> None:
    page = read_page("<main><p>The same words stand on every single page of this site, always.</p></main>", URL)
    assert main_text(page.blocks, having_seen([page] * 5))


def test_boilerplate_forgets_the_key_not_seen_for_longest() -> None:
    boilerplate = Boilerplate(max_keys=1)
    first, second = (read_page(f"<p>{text}</p>", URL).blocks for text in ("one", "two"))
    for blocks in (first, first, first, second):
        boilerplate.observe(blocks)
    assert not boilerplate.is_repeated(first[0].key)


def test_code_between_paragraphs_of_the_main_text_stays_and_other_code_does_not() -> None:
    blocks = [
        TextBlock("one two three four", 4, 0.9, 1),
        TextBlock("```\nx\n```", 1, 0.1, 2),
        TextBlock("five six seven eight", 4, 0.9, 3),
        TextBlock("menu", 1, 0.1, 4),
        TextBlock("```\ny\n```", 1, 0.1, 5),
    ]
    assert main_text(blocks) == "one two three four\n\n```\nx\n```\n\nfive six seven eight"


def test_a_unit_is_kept_or_left_as_a_whole_by_the_mean_score_of_its_words() -> None:
    def text_of(*scores: float) -> str:
        rows = [TextBlock(f"row {n}", 3, score, n, unit=1) for n, score in enumerate(scores)]
        return main_text([TextBlock("prose", 10, 0.9, 99), *rows])

    assert text_of(0.9, 0.1, 0.9) == "prose\n\nrow 0\n\nrow 1\n\nrow 2"
    assert text_of(0.1, 0.8, 0.1) == "prose"


def test_rows_that_tables_of_many_pages_share_stay_and_a_table_on_all_pages_goes() -> None:
    footer = "<table><tr><td>Monday<td>open<tr><td>Sunday<td>closed</table>"
    pages = [
        read_page(
            f"<main><h1>Lamp number {n}</h1><p>{f'Lamp {n} shines as bright as lamps of its kind do. ' * 4}</p>"
            f"<table><tr><th>Place<th>Number<tr><td>Hamburg<td>{n % 2}<tr><td>Price<td>{n}</table></main>{footer}",
            URL,
        )
        for n in range(8)
    ]
    boilerplate = having_seen(pages)
    text = main_text(pages[0].blocks, boilerplate)
    assert "| Place | Number |\n| --- | --- |\n| Hamburg | 0 |\n| Price | 0 |" in text
    assert "Monday" not in text


def test_tables_of_a_shop_whose_rows_repeat_keep_all_rows() -> None:
    pages = [
        read_page(
            f"{SITE_HEAD}<main><h1>Concert {n}</h1><p>{f'Concert number {n} is one that nobody will forget. ' * 5}</p>"
            f"<table><tr><th>Place<td>{['Hamburg', 'Kiel'][n % 2]}<tr><th>Doors<td>{['19:00', '20:00'][n % 3 == 0]}"
            f"<tr><th>Date<td>2026-05-{1 + n % 5:02}<tr><th>Price<td>{20 + n % 4}</table></main>",
            URL,
        )
        for n in range(24)
    ]
    boilerplate = having_seen(pages)
    for page in pages:
        text = main_text(page.blocks, boilerplate)
        assert all(f"| {name} | " in text for name in ("Place", "Doors", "Date", "Price"))
        assert "finest shop" not in text


def test_rows_of_a_table_of_releases_stay_though_older_pages_have_them_too() -> None:
    rows = [f"<tr><td>{n}.x<td>2020-01-{n:02}<td>end of life" for n in range(6, 16)]
    prose = "The releases of this project are supported for a year each, and then for another. " * 4
    pages = [
        read_page(f"<main><p>{prose}{n}</p><table><tr><th>A<th>B<th>C{''.join(rows[:n])}</table></main>", URL)
        for n in range(3, 10)
    ]
    boilerplate = having_seen(pages)
    assert main_text(pages[-1].blocks, boilerplate).count("end of life") == 9


def test_a_table_of_thousands_of_rows_is_read_in_linear_time() -> None:
    rows = "".join(f"<tr><td rowspan=9 colspan=200>{n}<td>{n}" for n in range(8_000))
    text = markdown(f"<table><tr><th>a<th>b{rows}</table>")
    assert "| 7999 |" in text
    assert len(text) < 4 * len(rows)


def test_a_note_that_the_text_refers_to_stays_and_others_go() -> None:
    blocks = [
        TextBlock("as is known[^1]", 20, 0.9, 1),
        TextBlock("[^1]: by all", 3, 0.3, 2),
        TextBlock("[^2]: by none", 3, 0.3, 3),
    ]
    assert main_text(blocks) == "as is known[^1]\n\n[^1]: by all"


def test_a_table_between_blocks_of_the_main_text_stays() -> None:
    rows = [TextBlock("| a |\n| --- |", 1, 0.5, 2, unit=1), TextBlock("| 1 |", 1, 0.4, 3, unit=1)]
    blocks = [TextBlock("prose", 20, 0.9, 1), *rows, TextBlock("more", 20, 0.9, 4)]
    assert main_text(blocks) == "prose\n\n| a |\n| --- |\n| 1 |\n\nmore"


PROSE, MENU = (1, 2, 3), (1, 4, 5)  # regions


def test_headings_are_main_as_what_stands_around_them() -> None:
    blocks = [
        TextBlock("## Menu", 1, 0.8, 1, region=MENU),
        TextBlock("one of many pages", 4, 0.1, 2, region=MENU),
        TextBlock("# Title", 1, 0.1, 3, region=PROSE),
        TextBlock("## Part", 1, 0.1, 4, region=PROSE),
        TextBlock("long prose", 60, 0.9, 5, region=PROSE),
        TextBlock("## Another", 1, 0.1, 6, region=PROSE),
        TextBlock("more prose", 60, 0.9, 7, region=PROSE),
        TextBlock("## See also", 2, 0.2, 8, region=MENU),
        TextBlock("other pages that are read", 5, 0.1, 9, region=MENU),
    ]
    assert main_text(blocks) == "# Title\n\n## Part\n\nlong prose\n\n## Another\n\nmore prose"


# A theme on Bootstrap: the title has a container of its own, far from what the product's page says.
IN_A_SHOP = """<html><head><title>Oak chair | Oaks</title><meta property="og:site_name" content="Oaks">{offer}</head>
<body><div class="navbar"><div class="container"><h1><a href="/">Oaks</a></h1><ul class="nav">
<li><a href="/">Home</a></li><li><a href="/shop/">Shop</a></li></ul><p>Free delivery from £50</p></div></div>
<div class="container"><h1>Oak chair</h1>
<ul class="breadcrumb"><li><a href="/">Home</a></li><li>Oak chair</li></ul></div>
<div class="container"><div class="row"><div class="col-md-2 left"><ul class="list-group">
<li><a href="/shop/chairs/">Chairs</a></li><li><a href="/shop/tables/">Tables</a></li></ul></div>
<div class="col-md-7 middle"><p>The chairs of our workshop are made of oak from forests nearby, oiled by hand
three times, and they bear everything that a family does to them for a lifetime or two.</p>
<ul id="variations"><li><span>£1,129.00</span></li></ul>{form}</div></div></div>
<footer><p>Powered by Mezzanine. All prices with tax.</p><a href="/terms/">Terms</a></footer></body></html>"""
OFFER = (
    '<script type="application/ld+json">{"@type": "Product", "name": "Oak chair", "offers": {"price": 1129.0}}</script>'
)
CART = '<form id="add-cart"><label>Quantity</label><input name="quantity"><button name="add_cart">Buy</button></form>'


@pytest.mark.parametrize(("offer", "form"), [(OFFER, ""), ("", CART)])
def test_the_title_and_the_price_of_a_product_are_main_text_wherever_they_stand(offer: str, form: str) -> None:
    parts = main_text(read_page(IN_A_SHOP.format(offer=offer, form=form), URL).blocks).split("\n\n")
    assert [part for part in parts if part.startswith("#") or "£" in part] == ["# Oak chair", "- £1,129.00"]


def test_a_title_that_is_main_in_any_case_takes_no_place_of_other_text() -> None:
    html = "<title>App</title><article><h1>Item 1</h1><p class=price>$1.00</p></article>"
    assert main_text(read_page(html, URL).blocks) == "# Item 1\n\n$1.00"


@pytest.mark.parametrize("part", ["- item", "$$\nx\n$$", "```\nx\n```", "3. third"])
def test_short_parts_in_the_midst_of_main_text_stay_and_those_elsewhere_go(part: str) -> None:
    prose = TextBlock("prose", 60, 0.9, 1, region=PROSE)
    others = [TextBlock("other pages", 9, 0.1, key, region=MENU) for key in range(3)]
    inside, outside = (TextBlock(part, 1, 0.2, 2, region=(*region, 9)) for region in (PROSE, MENU))
    assert part in main_text([*others, prose, inside, prose, *others])
    assert part in main_text([prose, inside, *others])
    assert part not in main_text([prose, *others, outside, *others])
    assert part not in main_text([prose, *others, outside])


def test_a_list_that_the_text_goes_around_stays_and_one_of_many_words_with_low_scores_goes() -> None:
    def text_of(items: int) -> str:
        prose = TextBlock("prose", 300, 0.9, 1, region=PROSE)
        return main_text([prose, *(TextBlock("- page", 2, 0.2, n, region=PROSE) for n in range(items)), prose])

    assert text_of(5).count("- page") == 5
    assert "- page" not in text_of(50)


def test_content_hash_ignores_white_space() -> None:
    assert content_hash("a  b\n") == content_hash("a b") != content_hash("a c")


@pytest.mark.parametrize("html", ["<div>" * 30_000, "<b><p>" * 3000, "<table><tr><td>" * 2000, "<ul><li>" * 3000])
def test_deep_nesting_is_read_without_recursion(html: str) -> None:
    assert markdown(f"<p>words before it</p>{html}words so deep").startswith("words before it")


def test_page_content_can_be_pickled() -> None:
    page = read_page("<p>words</p>", URL)
    assert pickle.loads(pickle.dumps(page)) == page


@given(st.lists(st.from_regex(r"[a-z]{1,8}", fullmatch=True), max_size=30), st.randoms())
@settings(max_examples=50)
def test_every_word_of_the_text_is_on_the_page(words: list[str], random: object) -> None:
    tags = ["<p>", "<li>", "<b>", "</b>", "<td>", "<div>", "<h2>", " "]
    html = "".join(f"{random.choice(tags)}{word} " for word in words)  # type: ignore[attr-defined]
    found = re.findall(
        r"\w+", re.sub(r"^ *\d+\.", "", main_text(read_page(html, URL).blocks, None), flags=re.MULTILINE)
    )
    assert set(found) <= set(words)


PAGES = [
    *((name, page.html) for name in SITES for page in make_site(name).pages[:6]),
    *(("mock", text) for _path, text in list(shop_pages())[:10]),
    ("no title", "<meta property=og:type content=product><meta property=product:price:amount content=5><h1>Tea</h1>"),
    ("scripts", '<script type="application/ld+json">{"articleBody": "' + "Green tea. " * 200 + '"}</script>'),
    ("nothing", ""),
    ("broken", "<title>a<meta name=x content=<<p><h1>b"),
]


@pytest.mark.parametrize(
    "html", [html for _, html in PAGES], ids=[f"{at}-{name}" for at, (name, _) in enumerate(PAGES)]
)
def test_names_are_those_of_the_whole_reading(html):
    whole, names = read_page(html, "https://a.test/x/1"), read_names(html, "https://a.test/x/1")
    assert (names.title, names.lang, names.features) == (whole.title, whole.lang, whole.features)
    assert names.structured_data == whole.structured_data
    assert words_of(names) == words_of(whole)
    assert names.metadata.get("og:title") == whole.metadata.get("og:title")
