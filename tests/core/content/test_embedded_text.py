"""Text that a page keeps for its scripts."""

import json

import pytest

from llmcrawler.core.content import main_text, read_page

URL = "http://site.example/a"
SENTENCE = "Green tea is made of leaves that were heated soon after they had been picked, so that they stay green."
MORE = "Black tea is left to wither for a day, is rolled by machines or by hand, and turns dark before it is dried."
THIRD = "White tea needs the least work of all: young buds are picked on dry mornings and dried slowly in the sun."
PROSE = (SENTENCE, MORE, THIRD)


def shell(*scripts: str, body: str = "<div id=root></div>") -> str:
    return f"<html><head><title>Tea</title></head><body>{body}{''.join(scripts)}</body></html>"


def data(value: object, kind: str = 'type="application/json"') -> str:
    return f"<script {kind}>{json.dumps(value)}</script>"


def shown(html: str) -> str:
    return main_text(read_page(html, URL).blocks)


def article(key: str = "body", text: object = "\n".join(PROSE)) -> dict[str, object]:
    return {"props": {"pageProps": {"article": {"title": "Tea", key: text}}}}


HELD = {
    "an article in JSON-LD": data({"@type": "Article", "articleBody": "\n".join(PROSE)}, 'type="application/ld+json"'),
    "text of Next.js": data(article(), 'id="__NEXT_DATA__" type="application/json"'),
    "markup of Next.js": data(
        article(text="".join(f"<p>{one}</p>" for one in PROSE)), 'id="__NEXT_DATA__" type="application/json"'
    ),
    "rich text in pieces": data(article("content", [{"nodeType": "text", "value": one} for one in PROSE])),
    "a state that a script sets": f"<script>window.__INITIAL_STATE__ = {json.dumps(article())};</script>",
}


@pytest.mark.parametrize("case", HELD)
def test_the_text_of_an_empty_page_is_read_from_its_data(case):
    text = shown(shell(HELD[case]))
    assert all(one in text for one in PROSE)
    assert "<p>" not in text


def test_links_in_such_text_are_links_of_the_page():
    html = f"<p>{SENTENCE}</p><p>{MORE} <a href='/white'>{THIRD}</a></p>"
    assert "http://site.example/white" in [link.url for link in read_page(shell(data(article(text=html))), URL).links]


LEFT = {
    "labels": data({"items": [{"text": f"Label number {n}"} for n in range(200)]}),
    "translations": data({"messages": {"text": "\n".join(PROSE)}}),
    "keys of no content": data({"page": {"tracker": "\n".join(PROSE)}}),
    "code": data(article(text=f"function f() {{ return '{SENTENCE} {MORE}'; }}")),
    "escaped texts": data(article(text=" ".join(PROSE).replace(" ", "%20"))),
    "one short text": data(article(text=SENTENCE)),
    "a program": f"<script>window.__STATE__ = {{body: '{' '.join(PROSE)}'}}</script>",
    "JSON without an end": '<script type="application/json">{"body": "' + " ".join(PROSE) + "</script>",
    "JSON nested deep": '<script type="application/json">' + "[" * 50_000 + "</script>",
    "numbers beyond counting": '<script type="application/json">[' + "1," * 200_000 + "1]</script>",
}


@pytest.mark.parametrize("case", LEFT)
def test_what_is_not_surely_content_stays_out(case):
    assert shown(shell(LEFT[case])) == ""


def test_a_page_that_shows_its_text_is_not_looked_into():
    body = f"<main>{''.join(f'<p>{one}</p>' for one in PROSE * 3)}</main>"
    other = data(article(text="\n".join(one.replace("tea", "coffee") for one in PROSE)))
    assert shown(shell(other, body=body)) == shown(shell(body=body))


def test_the_whole_body_that_a_page_publishes_beside_its_beginning_is_read():
    beginning = f"<main>{''.join(f'<p>{one}</p>' for one in PROSE * 2)}</main>"
    whole = " ".join(f"In chapter {n} this is told of tea at length and in many words." for n in range(200))
    html = shell(data({"@type": "NewsArticle", "articleBody": whole}, 'type="application/ld+json"'), body=beginning)
    assert "In chapter 199 this is told" in shown(html)


def test_markup_that_costs_much_is_read_as_text():
    costly = "<b>" * 1500 + "<p>" + f" {SENTENCE}" * 5
    page = read_page(shell(data(article(text=costly))), URL)
    assert SENTENCE in main_text(page.blocks)
    assert len(page.blocks) < 10
