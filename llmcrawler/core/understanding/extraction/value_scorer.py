"""Scores each block of a page for each of the usual fields by a trained model: how likely it is the field's value.

A page's structured data is not looked at: the scores come from tags, classes, the text itself, the text before it and
the place in the page. `value_scorer.npz` is made by benchmarks/annotator_train.py.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from io import BytesIO
from itertools import islice, pairwise
from typing import Any, Final

import numpy as np
from lxml import etree
from numpy.typing import NDArray

from llmcrawler.core.understanding.extraction.blocks import PageBlocks, Spot
from llmcrawler.core.understanding.extraction.tree import fold, line_up
from llmcrawler.core.understanding.extraction.typed_values import read_date, read_number

FIELDS: Final = tuple(
    "title price list_price availability sku gtin mpn brand description image rating review_count author"
    " date_published date_modified category publisher".split()
)
# The scores are logarithms of odds: from 0 on the best block of a page is more likely right than not.
THRESHOLDS: Final[Mapping[str, float]] = dict.fromkeys(FIELDS, 0.0)
NO_SCORE: Final = -20.0

_NUMBERS: Final = frozenset({"price", "list_price", "rating", "review_count"})
_DATES: Final = frozenset({"date_published", "date_modified"})

_TEXTS: Final = 8192  # that what was found in them is kept of
_MAX_CHARS: Final = 400  # of a text that is searched
_SHORT_CHARS: Final = 150  # of a text that may hold a price or a date
_CURRENCY: Final = (
    r"(?:[$€£¥₹₽₩฿₺₴₫₪]|\b(?:USD|EUR|GBP|CHF|CAD|AUD|NZD|JPY|CNY|INR|PLN|SEK|NOK|DKK|CZK|HUF|RON|BRL|MXN|ZAR|kr|zł|Kč"
    r"|Ft|lei|TL|руб|грн|Rs)\b\.?|円|元)"
)
_PRICE: Final = re.compile(
    rf"{_CURRENCY}\s?\d[\d.,\s’']{{0,20}}|\d[\d.,’'\s]{{0,20}}(?:[.,][-–—]{{1,2}})?\s?{_CURRENCY}", re.IGNORECASE
)
_MONTH: Final = (
    r"(?:jan|jän|ene|gen|sty|led|янв|oca|feb|fév|lut|úno|фев|şub|mar|mär|mrt|maa|bře|мар|apr|avr|abr|kwi|dub|апр|nis"
    r"|mai|may|maj|mei|mag|kvě|мая|май|jun|jui|giu|cze|čer|июн|haz|jul|lug|lip|июл|tem|aug|aoû|aou|ago|sie|srp|авг|ağu"
    r"|sep|set|wrz|zář|сен|eyl|oct|okt|out|ott|paź|říj|окт|eki|nov|lis|ноя|kas|dec|dez|déc|dic|gru|pro|дек|ara)"
    r"[^\W\d_]{0,9}\.?"
)
_DATE: Final = re.compile(
    r"\b\d{4}-\d\d?-\d\d?(?!\d)|\b\d{4}[./]\d\d?[./]\d\d?\b|\b\d{1,2}[./-]\d{1,2}[./-](?:19|20)?\d\d\b"
    r"|\b\d{4} ?[年년] ?\d{1,2} ?[月월] ?\d{1,2} ?[日일]"
    rf"|\b\d{{1,2}}(?:st|nd|rd|th|er|º|\.)?,? (?:de |of )?{_MONTH},? (?:de )?\d{{4}}\b"
    rf"|\b{_MONTH} \d{{1,2}}(?:st|nd|rd|th)?,? \d{{4}}\b|\b{_MONTH},? (?:19|20)\d\d\b",
    re.IGNORECASE,
)
_IN_STOCK: Final = re.compile(
    r"\b(?:in stock|instock|available|ready to ship|auf lager|lieferbar|vorrätig|verfügbar|en stock|disponib\w{1,8}"
    r"|en existencias|op voorraad|leverbaar|dostępn\w{1,6}|w magazynie|skladem|i lager|på lager|em estoque|em stock"
    r"|in magazzino|в наличии|есть в наличии|stokta)\b|在庫あり|有货|현货",
    re.IGNORECASE,
)
_OUT_OF_STOCK: Final = re.compile(
    r"\b(?:out of stock|outofstock|sold out|unavailable|not available|no longer available|not in stock|back ?order"
    r"|ausverkauft|nicht (?:verfügbar|lieferbar|vorrätig|auf lager)|agotado|sin existencias|épuisé|rupture"
    r"|indisponib\w{1,8}|non disponib\w{1,8}|no disponib\w{1,8}|esaurito|uitverkocht|niet op voorraad|niedostępn\w{1,6}"
    r"|wyprzedan\w{1,4}|vyprodáno|není skladem|slutsåld|ikke på lager|udsolgt|esgotado|нет в наличии|распродано"
    r"|tükendi)\b|在庫切れ|在庫なし|品切れ|缺货",
    re.IGNORECASE,
)
# Parts that one of the words above has: most texts have none of them.
_STOCK_PART: Final = re.compile(
    r"stock|avail|ship|order|sold|lager|liefer|vorr|verf|verkauft|dispo|existenc|agotado|puis|ruptur|voorraad|lever"
    r"|verkocht|dost|magaz|sklad|estoque|esaurito|wyprz|vyprod|sluts|udsolgt|esgot|налич|распрод|stok|tüken|[在品缺有현]",
    re.IGNORECASE,
)
_OTHER_STOCK: Final = re.compile(
    r"\b(?:also|image|picture|photo|bild|foto|options?|collection|this item)\b", re.IGNORECASE
)
_BY: Final = re.compile(
    r"(?:(?:written |posted |published |reviewed |story |words |review |article |created |started )?by:? "
    r"|(?:von|par|por|di|da|door|av|af|przez|od|autor|auteur|autore|author|автор):? |(?:autor|auteur|author|автор):)",
    re.IGNORECASE,
)
_BEHIND_NAME: Final = re.compile(r"\s[|•·–—-]\s|,? (?:on |updated|published|posted)", re.IGNORECASE)
_CODE_LABEL: Final = re.compile(r"[^:#\d]{2,20}[:#]\s{0,3}#?\s{0,3}")
_CODE: Final = re.compile(r"(?=[^\d]{0,30}\d)[^\W_][\w./+#-]{0,30}(?: [\w./+#-]{1,16}){0,3}")
_GTIN: Final = re.compile(r"(?:\d[ -]?){7,13}[\dXx]")
_NUMERAL: Final = re.compile(r"\d[\d.,]*")
_ONLY_NUMERAL: Final = re.compile(r"[\d.,]+")

_REVIEWS: Final = (
    r"reviews?|ratings?|bewertungen|avis|comments?|opiniones|recensioni|opinii|beoordelingen|omdömen|отзыв\w*"
)
# Names of features, and what a short text wholly is.
_SHAPES: Final = tuple(
    (f"shape {name}", re.compile(form, re.IGNORECASE if name != "name" else 0))
    for name, form in (
        ("onlyprice", rf"(?:{_CURRENCY}\s?)?\d[\d.,]*\s?{_CURRENCY}?"),
        ("number", r"[\d.,]+"),
        ("code", r"(?=\S*\d)[A-Z0-9][A-Z0-9._/-]{2,}"),
        ("long", r"\d{8,14}"),
        ("year", r"(?:19|20)\d\d"),
        ("score", r"\d(?:[.,]\d+)?(?: ?(?:/|out of|von|sur|de|su) ?(?:5|10)\b.*)?"),
        (
            "count",
            rf"\(?\d[\d,.]*\)?(?: ?(?:customer |global )?(?:{_REVIEWS}))\)?",
        ),
        ("mail", r"\S+@\S+\.\w+"),
        ("phone", r"\+?[\d() -]{8,18}"),
        ("url", r"(?:https?:)?/\S+"),
        ("img", r"\S+\.(?:jpe?g|png|webp|avif|gif)\b\S*"),
        ("name", r"(?:[A-ZÀ-ÞА-Я][\w.'’-]* ?){2,4}"),
        ("caps", r"[A-Z][A-Z &.'-]+"),
    )
)
_WORD: Final = re.compile(r"[^\W\d_]{2,}|[\u3040-\u30ff\u4e00-\u9fff\uac00-\ud7af]")
_NAME_PART: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_REPEATED: Final = re.compile(r"(.)\1+")
_LETTER: Final = re.compile(r"[^\W\d_]")
_DIGIT: Final = re.compile(r"\d")
_NO_WORD: Final = re.compile(r"\W+")
_IN_ADDRESS: Final = re.compile(r"\W+|_")

_FRAME_TAGS: Final = frozenset(
    "nav header footer aside form main article section table ul ol dl li figure time a button h1 h2 h3 del s".split()
)
_ABOVE_WORDS: Final = tuple(
    "review comment related recommend similar nav menu footer header sidebar card carousel modal cart product article"
    " main breadcrumb price author byline meta".split()
)
_NAMING_ATTRIBUTES: Final = ("class", "id", "data-testid", "data-test", "aria-label", "name")
_MAX_NAME_CHARS: Final = 200
_MAX_NAME_WORDS: Final = 14
_NAMED_LEVELS: Final = 4
_ABOVE_LEVELS: Final = 9
_MAX_LEVELS: Final = 200
_DATA_ATTRIBUTES: Final = frozenset({None, "datetime", "content", "src", "value"})

Key = tuple[str, str | None, int | None]


@dataclass(frozen=True, slots=True)
class BlockColumn:
    """What blocks share that stand in the same way, on all pages of a template.

    `key` is the way from the root, the attribute and the number of the text node. `frame` has the tags, of those that
    tell something, that the blocks stand in; `above` the words in classes and ids of what is above them."""

    key: Key
    frame: frozenset[str]
    above: frozenset[str]
    names: tuple[str, ...]  # of its features


@dataclass(frozen=True, slots=True)
class ScoredPage:
    """The blocks of a page with a score for each field, NO_SCORE where a block cannot be its value. A block without
    a column can be none: an address that is linked to, a meta element, a value of JSON-LD."""

    page: PageBlocks
    columns: list[BlockColumn | None]
    scores: NDArray[np.float32]  # a row per block, a column per field


def score_page(page: PageBlocks, columns: dict[Key, BlockColumn]) -> ScoredPage:
    """Score the blocks of a page. `columns` is shared by the pages of a template, and filled here."""
    model = _model()
    scores = np.full((len(page.blocks), len(FIELDS)), NO_SCORE, np.float32)
    found: list[BlockColumn | None] = []
    rows: list[int] = []
    starts: list[int] = []
    scored: list[int] = []
    for number, (column, names) in enumerate(page_features(page, columns)):
        found.append(column)
        if column is None:
            continue
        scored.append(number)
        starts.append(len(rows))
        rows.append(0)
        rows += model.rows_of_column(column.names)
        rows += model.rows_of(names)
    if scored:
        scores[scored] = model.scores(rows, starts)
    for number in scored:
        block, column = page.blocks[number], found[number]
        can_be = _possible(block.text[:_MAX_CHARS], column.key[1] if column else None)
        scores[number, [name not in can_be for name in FIELDS]] = NO_SCORE
    return ScoredPage(page, found, scores)


def page_features(page: PageBlocks, columns: dict[Key, BlockColumn]) -> Iterator[tuple[BlockColumn | None, list[str]]]:
    """Yield of each block its column and the names of its own features."""
    ways = page.listed().ways
    title = _words_of(page.root.findtext("head/title") or "")
    address = frozenset(_IN_ADDRESS.split(page.url.lower()))
    keys = [_key(page.spots[block.n], way) for block, way in zip(page.blocks, ways, strict=True)]
    for block, key in zip(page.blocks, keys, strict=True):
        if key is not None and key not in columns:
            columns[key] = _column(key, page.spots[block.n])
    heading_at = next((at for at, key in enumerate(keys) if key and "h1" in columns[key].frame), None)
    heading = _words_of(page.blocks[heading_at].text) if heading_at is not None else frozenset()
    in_column, texts = Counter(keys), Counter(block.text for block in page.blocks)
    before: Counter[Key] = Counter()
    last = ["", ""]
    for at, (block, key) in enumerate(zip(page.blocks, keys, strict=True)):
        if key is None:
            yield None, []
            continue
        text = block.text[:_MAX_CHARS]
        own = _words_of(text[:200])
        gap = "x" if heading_at is None else f"{_sign(at - heading_at)} {min(abs(at - heading_at), 600).bit_length()}"
        names = [
            *_text_features(text, len(block.text)),
            f"h1 {bool(own) and own == heading}",
            f"intitle {_share(own & title, own, 4)} {min(3, len(own))}",
            f"oftitle {_share(own & title, title, 4)}",
            f"slug {_share(own & address, own, 3)} {min(3, len(own))}",
            f"pos {10 * at // len(page.blocks)}",
            f"gap {gap}",
            f"many {min(in_column[key], 20).bit_length()}",
            f"nth {min(before[key], 4)}",
            f"twice {min(texts[block.text], 3)}",
        ]
        label = last[-1] if not last[-1].endswith(text) else last[-2]
        if len(label) < 50:
            names += _label_features(label)
        before[key] += 1
        yield columns[key], names
        if key[1] is None:
            last = [last[-1], text]


def _key(spot: Spot, way: str) -> Key | None:
    element = spot.element
    if element is None or element.tag in ("meta", "title") or spot.attribute not in _DATA_ATTRIBUTES:
        return None
    return way, spot.attribute, spot.text_index


def _column(key: Key, spot: Spot) -> BlockColumn:
    element = spot.element
    assert element is not None
    names = [f"tag {element.tag} {spot.attribute or ''} {bool(spot.text_index)}"]
    frame: set[str] = set()
    above: set[str] = set()
    for depth, node in enumerate(islice(line_up(element), _MAX_LEVELS)):
        if node.tag in _FRAME_TAGS:
            frame.add(str(node.tag))
        if depth < _ABOVE_LEVELS:
            called = f"{node.get('class') or ''} {node.get('id') or ''}"[:_MAX_NAME_CHARS].lower()
            above.update(word for word in _ABOVE_WORDS if word in called)
        if depth < _NAMED_LEVELS:
            names += _level_features(node, depth)
    names += [f"in {tag}" for tag in sorted(frame)] + [f"above {word}" for word in sorted(above)]
    return BlockColumn(key, frozenset(frame), frozenset(above), tuple(dict.fromkeys(names)))


def _level_features(node: etree._Element, depth: int) -> list[str]:
    called = " ".join(node.get(name) or "" for name in _NAMING_ATTRIBUTES)[:_MAX_NAME_CHARS]
    words = [word.lower() for word in _NAME_PART.findall(called) if len(word) > 1][:_MAX_NAME_WORDS]
    level = (0, 1, 1, 3)[depth]
    return [
        f"t{depth} {node.tag}",
        *(f"c{level} {word}" for word in words),
        *(f"d{depth} {first}_{second}" for first, second in pairwise(words)),
    ]


@lru_cache(maxsize=_TEXTS)
def _text_features(text: str, chars: int) -> tuple[str, ...]:
    short = text[:200]
    words = [word.lower() for word in _WORD.findall(text[:80])][:6]
    names = [f"len {min(chars, 2000).bit_length()}", f"words {min(text.count(' '), 12)}"]
    names += [name for name, form in _SHAPES if form.fullmatch(short)]
    if len(short) < _SHORT_CHARS:
        names += ["has price"] * (_price(short) is not None) + ["has date"] * (_date(short) is not None)
        names += ["has in"] * _says_in_stock(short) + ["has out"] * _says_out_of_stock(short)
        names += ["has by"] * (_BY.match(short) is not None)
    start = _DIGIT.sub("9", text[:24])
    names.append("sk " + _REPEATED.sub(r"\1", _LETTER.sub("a", start)))
    names += [f"w {word}" for word in dict.fromkeys(words)]
    if words:
        names.append(f"w0 {words[0]}")
    return tuple(names)


@lru_cache(maxsize=_TEXTS)
def _label_features(label: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(f"l {word.lower()}" for word in _WORD.findall(label)[:4]))


@lru_cache(maxsize=_TEXTS)
def _words_of(text: str) -> frozenset[str]:
    return frozenset(_NO_WORD.sub(" ", text.casefold()).split())


def _share(some: frozenset[str], every: frozenset[str], steps: int) -> int:
    return round(steps * len(some) / max(1, len(every)))


def _sign(number: int) -> int:
    return (number > 0) - (number < 0)


@lru_cache(maxsize=_TEXTS)
def _price(text: str) -> str | None:
    found = _PRICE.search(text) if _DIGIT.search(text) else None
    return found[0].strip() if found else text if _ONLY_NUMERAL.fullmatch(text) else None


@lru_cache(maxsize=_TEXTS)
def _date(text: str) -> str | None:
    found = _DATE.search(text) if _DIGIT.search(text) else None
    return found[0] if found else None


def _numeral(text: str) -> str | None:
    found = _NUMERAL.search(text)
    return found[0] if found and len(text) < 80 else None


def _stock(text: str) -> str | None:
    says_it = len(text) < 60 and (_says_in_stock(text) or _says_out_of_stock(text))
    return text if says_it and not _OTHER_STOCK.search(text) else None


@lru_cache(maxsize=_TEXTS)
def _says_in_stock(text: str) -> bool:
    return _STOCK_PART.search(text) is not None and _IN_STOCK.search(text) is not None


@lru_cache(maxsize=_TEXTS)
def _says_out_of_stock(text: str) -> bool:
    return _STOCK_PART.search(text) is not None and _OUT_OF_STOCK.search(text) is not None


def _unlabelled(text: str) -> str:
    label = _CODE_LABEL.match(text)
    return (text[label.end() :] if label else text).strip()


def _code(text: str) -> str | None:
    code = _unlabelled(text)
    return code if _CODE.fullmatch(code) else None


def _gtin(text: str) -> str | None:
    code = _unlabelled(text)
    return code if _GTIN.fullmatch(code) else None


def _name(text: str) -> str | None:
    name = text.strip(" :–|")
    return name if len(name) > 1 and any(map(str.isalpha, name)) else None


def _author(text: str) -> str | None:
    start = _BY.match(text)
    return _name(_BEHIND_NAME.split(text[start.end() :] if start else text, maxsplit=1)[0])


def _long_text(text: str) -> str | None:
    return text if len(text) > 40 else None


# Of each field, how its value is found in a text, and of how many characters at most.
_PARTS: Final[Mapping[str, tuple[Callable[[str], str | None], int]]] = {
    "title": (_name, 300),
    "price": (_price, _SHORT_CHARS),
    "list_price": (_price, _SHORT_CHARS),
    "availability": (_stock, _SHORT_CHARS),
    "sku": (_code, _SHORT_CHARS),
    "gtin": (_gtin, _SHORT_CHARS),
    "mpn": (_code, _SHORT_CHARS),
    "brand": (_name, 80),
    "description": (_long_text, 100_000),
    "image": (fold, 100_000),
    "rating": (_numeral, _SHORT_CHARS),
    "review_count": (_numeral, _SHORT_CHARS),
    "author": (_author, _SHORT_CHARS),
    "date_published": (_date, _SHORT_CHARS),
    "date_modified": (_date, _SHORT_CHARS),
    "category": (_name, 80),
    "publisher": (_name, 80),
}


def value_part(name: str, text: str) -> str | None:
    """Return the part of a block's text that is a field's value, None where the text can be no value of it."""
    find, most_chars = _PARTS[name]
    return find(text) if len(text) < most_chars else None


def _possible(text: str, attribute: str | None) -> frozenset[str]:
    """Return the fields that a block may be a value of."""
    if attribute == "src":
        return frozenset({"image"})
    return _possible_in_text(text)


@lru_cache(maxsize=_TEXTS)
def _possible_in_text(text: str) -> frozenset[str]:
    return frozenset(name for name in FIELDS if name != "image" and value_part(name, text) is not None)


def says(name: str, text: str, value: str, lang: str = "") -> bool:
    """Tell whether a block's text says a value that a page's structured data gives a field."""
    own = value_part(name, text)
    if own is None:
        return False
    if name in _NUMBERS:
        number = read_number(own.strip(" .,'’"))
        return number is not None and number == read_number(value)
    if name in _DATES:
        return value[:10] in _days(own, lang)
    if name == "availability":
        is_out = bool(_OUT_OF_STOCK.search(text))
        return is_out == any(word in value.lower() for word in ("out", "sold", "discontinued"))
    if name == "image":
        return _file_name(own) == _file_name(value) != ""
    mine, other = fold(_NO_WORD.sub(" ", own.casefold())), fold(_NO_WORD.sub(" ", value.casefold()))
    if name == "description":
        return len(mine) > 30 and mine[:60] == other[:60]
    if name == "title" and len(mine) > 12 and other.startswith(mine) and len(mine) > 0.6 * len(other):
        return True
    return mine == other != ""


def _days(text: str, lang: str) -> set[str]:
    """Return the days that a date may be of: where the language does not tell, the month may be first or second."""
    day = read_date(text, lang)
    options = [day] if day else [read_date(text, "en-us"), read_date(text, "en-gb")]
    return {option[:10] for option in options if option}


def _file_name(address: str) -> str:
    return address.partition("?")[0].rpartition("/")[2]


class ScoreModel:
    """A linear model from arrays by name: `names` of its features, a line each, the first of no feature but what each
    block has; `weights`, a row per feature and a column per field, whole numbers; `scale` per field."""

    def __init__(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        names = arrays["names"].tobytes().decode().split("\n")
        self._rows = {name: row for row, name in enumerate(names)}
        self._weights = arrays["weights"].astype(np.float32) * arrays["scale"].astype(np.float32)
        self.rows_of_column = lru_cache(maxsize=4096)(self.rows_of)

    def rows_of(self, names: Iterable[str]) -> list[int]:
        """Return the rows of the features that the model knows."""
        known = self._rows
        return [known[name] for name in names if name in known]

    def scores(self, rows: list[int], starts: list[int]) -> NDArray[np.float32]:
        """Return the scores of blocks; the rows of each begin at one of `starts`, with that of all blocks."""
        return np.asarray(np.add.reduceat(self._weights[rows], starts, axis=0))


@lru_cache(maxsize=1)
def _model() -> ScoreModel:
    with np.load(BytesIO(files(__package__).joinpath("value_scorer.npz").read_bytes())) as arrays:
        return ScoreModel({name: arrays[name] for name in arrays})
