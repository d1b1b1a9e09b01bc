"""Pages of a small made-up shop, in two designs, and an annotator that knows what is on them."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from llmcrawler.core.content import read_page
from llmcrawler.core.understanding.extraction.annotators import parse_answer
from llmcrawler.core.understanding.extraction.blocks import Induced
from llmcrawler.core.understanding.extraction.induce_prompt import ShownPage, induce_document
from llmcrawler.core.understanding.extraction.record_schema import Field, RequestedSchema
from llmcrawler.core.understanding.extraction.records import RecordQuestion

SITE = "shop.test"
Data = dict[str, Any]


def product(number: int) -> Data:
    """The truth of a product; every third has no colour, every fifth is sold out."""
    return {
        "name": f"Lamp no {number}",
        "sku": f"SKU-{1000 + number * 7}",
        "price": f"{10 + number}.{number % 10}9",
        "colour": None if number % 3 == 0 else f"Colour {number % 11}",
        "stock": None if number % 5 == 0 else str(3 + number),
    }


def old_design(data: Data) -> str:
    colour = f"<tr><th>Colour</th><td>{data['colour']}</td></tr>" if data["colour"] else ""
    stock = f"In stock ({data['stock']} left)" if data["stock"] else "Sold out"
    return f"""<html lang="en"><head><title>{data["name"]} | Lamps</title></head><body>
    <nav><ul><li><a href="/">Home</a></li><li><a href="/lamps">Lamps</a></li></ul></nav>
    <main class="product"><h1>{data["name"]}</h1><p class="amount">£{data["price"]}</p>
    <p class="stock">{stock}</p>
    <table><tr><th>SKU</th><td>{data["sku"]}</td></tr>{colour}</table></main>
    <aside><h2>You may like</h2><div class="card"><h3>Lamp no 999</h3><p class="amount">£99.99</p></div></aside>
    <footer><p>Lamps Ltd</p></footer></body></html>"""


def new_design(data: Data) -> str:
    colour = f"<dt>Colour:</dt><dd>{data['colour']}</dd>" if data["colour"] else ""
    stock = f"<dt>Left</dt><dd>{data['stock']}</dd>" if data["stock"] else ""
    return f"""<html lang="en"><head><title>{data["name"]}</title></head><body>
    <header><a href="/">Lamps</a></header>
    <article id="item"><header><h2 data-testid="headline">{data["name"]}</h2></header>
    <div class="buy"><span class="cost">{data["price"]} GBP</span></div>
    <dl><dt>Article</dt><dd>{data["sku"]}</dd>{colour}{stock}</dl></article></body></html>"""


def review_form(data: Data) -> str:
    return f"""<html lang="en"><body><main><h1>Review {data["name"]}</h1><form method="post"><input name="text">
    <button>Send</button></form></main></body></html>"""


def question(number: int, design: Callable[[Data], str] = old_design, **changes: Any) -> RecordQuestion:
    html = design(product(number))
    url = f"https://{SITE}/lamps/{number}"
    given = {
        "url": url,
        "title": product(number)["name"],
        "lang": "en",
        "html": html,
        "features": read_page(html, url).features,
        "site": SITE,
        "template": "t1",
        "page_type": "product",
    }
    return RecordQuestion(**{**given, **changes})


class TruthAnnotator:
    """Points at the block that holds a value; `slip` is the share of the values it points at elsewhere.

    `faults` are raised one after the other before it answers.
    """

    def __init__(
        self,
        *,
        wanted: RequestedSchema | None = None,
        slip: float = 0.0,
        seed: int = 1,
        faults: Sequence[Exception] = (),
        truth: Callable[[int], Data] = product,
    ) -> None:
        self.asked: list[list[str]] = []
        self.known_fields: list[tuple[Field, ...]] = []
        self._wanted = wanted
        self._slip = slip
        self._random = random.Random(seed)
        self._faults = list(faults)
        self._truth = truth

    async def point(self, page_type: str, pages: Sequence[ShownPage], known_fields: Sequence[Field]) -> Induced:
        self.asked.append([page.url for page in pages])
        self.known_fields.append(tuple(known_fields))
        if self._faults:
            raise self._faults.pop(0)
        document = induce_document(page_type, self._wanted, pages, known_fields)
        names = sorted({name for page in pages for name, value in self._of(page).items() if value})
        answer = {
            "fields": [{"name": name, "type": "string", "description": "", "many": False} for name in names],
            "pages": [self._answer(page) for page in document["pages"]],
        }
        return parse_answer(document, answer, self._wanted)

    @property
    def pages_shown(self) -> int:
        return sum(map(len, self.asked))

    def _of(self, page: ShownPage) -> Data:
        return self._truth(int(page.url.rsplit("/", 1)[1]))

    def _answer(self, page: Mapping[str, Any]) -> dict[str, Any]:
        values = []
        wanted = None if self._wanted is None else {one.name for one in self._wanted.fields}
        for name, value in self._truth(int(page["url"].rsplit("/", 1)[1])).items():
            if wanted is not None and name not in wanted:
                continue
            equal = [block for block in page["blocks"] if block["text"] == value]
            holding = [block for block in page["blocks"] if value and f"{value}" in block["text"].replace("£", "")]
            found = equal or sorted(holding, key=lambda block: len(block["text"]))
            if not value or not found:
                continue
            if self._random.random() < self._slip:
                values.append({"field": name, "blocks": [self._random.choice(page["blocks"])["n"]], "quote": None})
            else:
                values.append({"field": name, "blocks": [found[0]["n"]], "quote": value})
        return {"id": page["id"], "values": values}
