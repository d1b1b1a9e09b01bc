"""What a model is shown of a page that has more blocks than its budget has room for."""

import pytest

from llmcrawler.core.understanding.extraction.annotators import Annotator
from llmcrawler.core.understanding.extraction.blocks import (
    Induced,
    PageBlocks,
    TrainingPage,
    is_crowded,
    main_scores,
    repeated_texts,
    shown_blocks,
)
from llmcrawler.core.understanding.extraction.extractor import FieldRule, TemplateExtractor, extractions
from llmcrawler.core.understanding.extraction.record_schema import Field
from llmcrawler.core.understanding.extraction.records import record_by_columns
from llmcrawler.core.understanding.extraction.selectors import Selector
from llmcrawler.core.understanding.extraction.training_run import TrainingRules, TrainingRun

URL = "http://shop.example/tea"
WORDS = "This tea grows on the southern slopes, is picked by hand in April and dried for two days in the shade."
MENU = "".join(f"<li><a href='/c/{n}'>Category number {n}</a></li>" for n in range(300))
REVIEWS = "".join(
    f"<div class='review'><b class='who'>Visitor {n}</b><p class='said'>I like it, says visitor {n}.</p></div>"
    for n in range(200)
)
PRODUCT = f"""<title>Green tea</title><meta name="author" content="Ann Leaf"><body><nav><ul>{MENU}</ul></nav>
<main><h1>Green tea</h1><p>{WORDS}</p><p>{WORDS[::-1]}</p><p class="price">€ 12.50</p><p>Packed on 2026-03-14</p>
<table><tr><th>Origin</th><td>Uji</td></tr><tr><th>Weight</th><td>100 g</td></tr></table>
<p>Ann Leaf</p><section>{REVIEWS}</section></main><footer><ul>{MENU.replace("Category", "Page")}</ul></footer>"""


def shown(html: str, budget_tokens: int) -> list[str]:
    listed = PageBlocks(html, URL).listed(main_scores(html, URL))
    return [block.text for block in shown_blocks(listed, {}, budget_tokens)]


def test_a_page_is_learned_from_though_a_font_within_it_is_longer_than_all_that_is_learned_from() -> None:
    font = f"<style>@font-face {{ src: url(data:font/woff2;base64,{'d09G' * 300_000}) }}</style>"
    page = TrainingPage(URL, "", "en", font + PRODUCT, frozenset())
    assert "€ 12.50" in [block.text for block in page.blocks().blocks]


@pytest.mark.parametrize(
    "text", ["Green tea", WORDS, "€ 12.50", "Packed on 2026-03-14", "Origin", "Uji", "Weight", "100 g", "Ann Leaf"]
)
def test_values_are_shown_before_menus(text):
    assert text in shown(PRODUCT, 500)


def test_of_many_rows_the_first_are_shown_and_room_is_left_for_what_is_behind_them():
    behind = PRODUCT.replace("</section>", "</section><p class='sku'>Article 4711-X</p>")
    few = shown(behind, 700)
    assert "Visitor 0" in few
    assert "Visitor 150" not in few
    assert "Article 4711-X" in few


def test_the_budget_is_kept_and_nothing_is_left_out_without_need():
    numbers = [block.n for block in shown_blocks(PageBlocks(PRODUCT).listed(main_scores(PRODUCT, URL)), {}, 600)]
    assert numbers == sorted(numbers)
    listed = PageBlocks(PRODUCT).listed()
    assert sum(map(len, shown(PRODUCT, 600))) <= 4 * 600
    whole = shown_blocks(listed, {}, 100_000)
    assert {block.text for block in whole} == listed.texts
    addresses = [block.text for block in whole if block.n in listed.links]
    assert len(addresses) == len(set(addresses)) == 300, "two menus lead there"
    assert [block.text for block in whole if block.hint.startswith("meta ")] == [], "the author stands in the page"
    assert is_crowded(listed, {}, 600)
    assert not is_crowded(listed, {}, 100_000)


def test_scores_go_to_the_blocks_of_the_same_texts_and_to_what_is_in_them():
    html = f"<body><p>{WORDS} <b>Hand picked</b></p><footer><ul><li><a href='/x'>More</a></li></ul></footer>"
    known = main_scores(html, URL)
    listed = PageBlocks(html, URL).listed(known)
    scores = {block.text: score for block, score in zip(listed.blocks, listed.scores, strict=True)}
    assert scores[f"{WORDS} Hand picked"] in known.values()
    assert scores["Hand picked"] == scores[f"{WORDS} Hand picked"]
    assert scores["More"] < scores["Hand picked"]


def test_where_the_frame_leads_is_not_shown():
    frame = "<a href='/basket'>Basket</a><p>Tea</p><p>Tea</p>"
    pages = [PageBlocks(f"{frame}<h1>Tea {n}</h1><a href='/{n}'>More</a>") for n in range(5)]
    listed = [page.listed() for page in pages]
    texts = [block.text for block in shown_blocks(listed[3], repeated_texts(listed), 1000)]
    assert texts == ["Tea", "Tea", "Tea 3", "/3", "Basket", "More"]


def test_menus_heads_and_feet_are_not_shown_but_for_what_stands_as_the_pages_own_does():
    def page(n: int) -> str:
        menu = "<ul><li>Shops</li><li>Help</li></ul><b>Path</b>"
        path = f"<ol class='breadcrumb'><li>Home</li><li>Shelf {n}</li></ol>"
        stock = "In stock" if n else "Sold out"
        return f"<nav>{menu}{path}</nav><h1>Tea {n}</h1><p>{stock}</p><footer><p>About us</p></footer>"

    listed = [PageBlocks(page(n)).listed() for n in range(6)]
    texts = [block.text for block in shown_blocks(listed[3], repeated_texts(listed), 1000)]
    assert texts == ["Path", "Home", "Shelf 3", "Tea 3", "In stock"]


def test_what_all_pages_have_the_same_around_the_rest_is_not_shown():
    def page(n: int) -> str:
        head = f"<head><title>Tea {n}</title></head><body><p class=all>We use cookies.</p><u>Read more</u><i>Shops</i>"
        return f"{head}<h1>Tea {n}</h1><b>Price</b><em>Net</em><p>{n} €</p><p>In stock</p><p class=all>Legal</p>"

    listed = [PageBlocks(page(n)).listed() for n in range(6)]
    texts = [block.text for block in shown_blocks(listed[3], repeated_texts(listed), 1000)]
    assert texts == ["Read more", "Shops", "Tea 3", "Price", "Net", "3 €", "Tea 3", "In stock"]


def test_links_to_other_sites_in_an_ingredient_are_not_shown_but_those_of_a_person_are():
    wiki = "https://wiki.example/"
    milk = f"<li>1 <a href='{wiki}cup'>cup</a> of <a href='{wiki}milk'>milk</a></li>"
    items = f"{milk}<li>2 fresh <a href='{wiki}egg'>eggs</a></li>"
    links = f"<p><a href='{wiki}ann'>Wiki</a> | <a href='//code.example/ann'>Code</a></p>"
    texts = shown(f"<h1>Cake</h1><ul>{items}</ul>{links}", 1000)
    assert texts[:3] == ["Cake", "1 cup of milk", "2 fresh eggs"]
    assert texts[3:] == ["Wiki | Code", f"{wiki}ann", "Wiki", "//code.example/ann", "Code"]


def test_of_a_long_text_with_links_the_pieces_are_not_shown_nor_the_text_again():
    prose = f"{WORDS} See <a href='/hills'>the hills</a> and <a href='/shade'>their <i>shade</i></a>, they say."
    writers = "<p>By <a href='/ann'>Ann</a> and <a href='/bob'>Bob</a></p>"
    html = f"<h1>Tea</h1><p>{prose}</p>{writers}<div><p>{prose}</p></div>"
    text = f"{WORDS} See the hills and their shade, they say."
    texts = shown(html, 1000)
    assert texts == ["Tea", text, "By Ann and Bob", "By", "and", "/ann", "Ann", "/bob", "Bob"]


def test_a_class_that_only_the_sites_next_build_tells_apart_is_not_shown():
    html = "<p class='css-x1y2z3 price'>12 €</p><p class='sc-oSVl3o'>13 €</p><p class='cost cost--old'>14 €</p>"
    hints = [(block.text, block.hint) for block in PageBlocks(html).blocks]
    assert hints == [("12 €", "p.price"), ("13 €", ""), ("14 €", "p.cost")]


class Watching(Annotator):
    """Keeps what it is shown, and points at nothing."""

    def __init__(self) -> None:
        self.texts: list[list[str]] = []

    async def point(self, _page_type, pages, _known) -> Induced:
        self.texts += [[block.text for block in page.blocks] for page in pages]
        return Induced((), {})


def card(n: int) -> str:
    return f"<li><a href='/tea/{n}'><b>Tea {n}</b></a> <i>{n} €</i></li>"


@pytest.mark.parametrize("shows_cards", [True, False])
async def test_cards_of_other_pages_are_not_shown_and_make_nothing_of_their_pages_repeated(shows_cards: bool):
    cards = {n: "".join(card(other) for other in (1, n % 8 + 1) if other != n) for n in range(1, 9)}
    htmls = [f"<h1>Tea {n}</h1><p>{n} €</p><h2>Seen last</h2><ul>{cards[n]}</ul>" for n in cards]
    pages = [TrainingPage(f"https://s.example/tea/{n}", "", "", html, frozenset()) for n, html in enumerate(htmls, 1)]
    watching = Watching()
    await TrainingRun("product", watching, TrainingRules(shows_cards=shows_cards), ()).run(pages)
    assert any("/tea/5" in texts for texts in watching.texts) == shows_cards
    assert shows_cards or all(
        [text for text in texts if text[0].isdigit()] == [f"{texts[0][-1]} €"] for texts in watching.texts
    )


async def test_a_training_shows_the_values_of_crowded_pages():
    htmls = [PRODUCT.replace("12.50", f"{n}2.50").replace("Category", f"Kind {n}") for n in range(1, 6)]
    pages = [TrainingPage(f"{URL}/{n}", "", "en", html, frozenset()) for n, html in enumerate(htmls)]
    watching = Watching()
    await TrainingRun("product", watching, TrainingRules(budget_tokens=500), ()).run(pages)
    assert watching.texts
    assert all(any(text.endswith("2.50") for text in texts) for texts in watching.texts)


def test_a_page_that_stands_alone_is_taken_apart_once(monkeypatch):
    taken, take = [], PageBlocks.__init__

    def counted(page: PageBlocks, *arguments: str) -> None:
        taken.append(arguments)
        take(page, *arguments)

    monkeypatch.setattr(PageBlocks, "__init__", counted)
    record = record_by_columns(TrainingPage(URL + "?alone", "", "en", PRODUCT, frozenset()), "product", None)
    assert record is not None
    assert len(taken) == 1


MANY = '{"sku": "A-1", "all": [' + "1," * 30_000 + "1]}"
HOSTILE = {
    "nested lists": '{"sku": ' + "[" * 100_000,
    "nested lists that end": '{"sku": ' + "[" * 3_000 + "1" + "]" * 3_000 + "}",
    "nested objects": '{"sku": ' * 60_000,
    "a string of 50 MB": '{"sku": "' + "A" * 50_000_000 + '"}',
    "many values": MANY,
    "many scripts": "[1]</script><script>" * 3_000,
    "no numbers": '{"sku": NaN, "price": -Infinity}',
    "long numbers": '{"price": ' + "9" * 100_000 + "}",
    "no JSON": "{sku: 'A-1'}",
    "cut off": '{"sku": "A-1',
}


@pytest.mark.parametrize("data", HOSTILE.values(), ids=HOSTILE)
def test_hostile_json_of_a_script_gives_nothing_and_takes_nothing_from_the_page(data: str) -> None:
    html = f"<body><h1>Lamp</h1><script>{data}</script>"
    assert [block.text for block in PageBlocks(html).blocks] == ["Lamp"]
    rule = FieldRule(Field("sku"), (Selector("script.sku", "json"),))
    assert extractions([TemplateExtractor("product", (rule,))], html, "", "")[0].record == {"sku": None}


def test_pages_have_the_same_ways_whatever_classes_the_elements_around_the_heading_have() -> None:
    def ways(own: str, beside: str = "old") -> tuple[str, ...]:
        page = f"<body class='{own}'><main class='post {own}'><h1>Lamp</h1><p class='{beside}'>text</p></main></body>"
        return PageBlocks(page).listed().ways

    assert ways("product-lamp sale") == ways("product-kettle") != ways("product-lamp", "new")
