"""Scores each block of a page for each of the usual fields by a trained model: how likely it is the field's value.

A page's structured data is not looked at: the scores come from tags, classes, the text itself, the text before it and
the place in the page. `value_scorer.npz` is made by benchmarks/annotator_train.py of the development pages of WCXB
(CC-BY-4.0, its authors), the test pages of recipe-scrapers, those of scrapinghub/product-extraction-benchmark (MIT) and
those of trafilatura (Apache-2.0).
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
from typing import Any, Final, NamedTuple

import numpy as np
from lxml import etree
from numpy.typing import NDArray

from llmcrawler.core.understanding.extraction.blocks import PageBlocks, Spot
from llmcrawler.core.understanding.extraction.field_names import NAME_PART, canonical_name
from llmcrawler.core.understanding.extraction.text_kinds import text_kind
from llmcrawler.core.understanding.extraction.tree import fold, line_up
from llmcrawler.core.understanding.extraction.typed_values import UP_TO, read_date, read_number

FIELDS: Final = tuple(
    "title price list_price availability sku gtin mpn brand description image rating review_count author"
    " date_published date_modified category publisher ingredients instructions prep_time cook_time total_time servings"
    " start_date end_date location city company salary employment_type address telephone email opening_hours job_title"
    "".split()
)
# Scores are logarithms of odds: from 0 on the best block of a page is more likely right than not.
NO_SCORE: Final = -20.0

_DATES: Final = frozenset({"date_published", "date_modified", "start_date", "end_date"})
_LONG_TEXTS: Final = frozenset({"description", "instructions"})

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
DATE: Final = re.compile(
    r"\b\d{4}-\d\d?-\d\d?(?:T\d\d:\d\d[\d:.Z+-]*|(?!\d))|\b\d{4}[./]\d\d?[./]\d\d?\b|\b\d{1,2}[./-]\d{1,2}[./-](?:19|20)?\d\d\b"
    r"|\b\d{4} ?[年년] ?\d{1,2} ?[月월] ?\d{1,2} ?[日일]"
    rf"|\b(?:\d{{1,2}}\.?(?: {_MONTH})?{UP_TO})?"  # "12.–14. Mai 2024", "30 April - 2 May 2024": read as its start
    rf"\d{{1,2}}(?:st|nd|rd|th|er|º|\.)?,? (?:de |of )?{_MONTH},? (?:de )?\d{{4}}\b"
    rf"|\b{_MONTH} \d{{1,2}}(?:st|nd|rd|th)?(?:{UP_TO}\d{{1,2}})?,? \d{{4}}\b|\b{_MONTH},? (?:19|20)\d\d\b",
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
_OTHER_STOCK: Final = re.compile(
    r"\b(?:also|image|picture|photo|bild|foto|options?|collection|this item|variant|notify|when|if)\b", re.IGNORECASE
)
_BY: Final = re.compile(
    r"(?:(?:written |posted |published |reviewed |story |words |review |article |created |started )?by:? "
    r"|(?:von|par|por|di|da|door|av|af|przez|od|autor|auteur|autore|author|автор):? |(?:autor|auteur|author|автор):)",
    re.IGNORECASE,
)
_BEHIND_NAME: Final = re.compile(r"\s[|•·–—-]\s|,? (?:on |updated|published|posted)", re.IGNORECASE)
_IN_PATH: Final = re.compile(r"\s[/>›»]\s")
_NO_NAME: Final = re.compile(r"^\W?\d|\d\s?min\b", re.IGNORECASE)  # a count, a time
_FULL_STOP: Final = re.compile(r"(?<=[^\W\d_]{4})\.$")  # not that of "Jr." or "M. D."
_LABEL_CHARS: Final = 40
_LINE_CHARS: Final = 80
_OWN_LABEL: Final = re.compile(r"([^\W\d_][^:.!?;|\n]{1,32}?)\s?[:：]\s?(?=\S)")
_CODE_LABEL: Final = re.compile(r"[^:#\d]{2,20}[:#]\s{0,3}#?\s{0,3}")
_CODE: Final = re.compile(r"(?=[^\d]{0,30}\d)[^\W_][\w./+#-]{0,30}(?: [\w./+#-]{1,16}){0,3}")
_GTIN: Final = re.compile(r"(?:\d[ -]?){7,13}[\dXx]")
_WHOLE: Final = re.compile(r"\d{1,4}")
_NUMERAL: Final = re.compile(r"\d[\d.,]*")
_HOURS: Final = (
    r"(?:h|hrs?|hours?|std|stunden?|heures?|horas?|or[ae]|uur|uren|godz\w*|tim\w*|hod\w*|часа?|часов|ч|時間)\b\.?"
)
_MINUTES: Final = r"(?:m|mins?|minut\w*|minuuttia|мин\w*|分)\b\.?"
_NUMBER: Final = r"\d{1,4}(?:[.,]\d{1,2}|[ ]?[½¼¾])?"
_DURATION: Final = re.compile(
    rf"(?P<hours>{_NUMBER})\s?{_HOURS}(?:[\s,]{{0,3}}(?:and |und |et |y |e |en )?(?P<and>\d{{1,3}})\s?(?:{_MINUTES})?)?"
    rf"|(?P<minutes>{_NUMBER})(?:\s?[-–]\s?\d{{1,3}})?\s?{_MINUTES}|\b(?P<clock>\d{{1,2}}:\d\d)\b",
    re.IGNORECASE,
)
_ISO_DURATION: Final = re.compile(r"P(?:(?P<days>\d{1,4})D)?T?(?:(?P<hours>\d{1,4})H)?(?:(?P<minutes>\d{1,5})M)?")
_PHONE: Final = re.compile(r"(?:\+|00|\(|0|\b)\d[\d() ./‑–-]{5,20}\d")
_MAIL: Final = re.compile(r"[\w.+-]{1,64}@[\w-]{1,64}(?:\.[\w-]{1,64}){1,4}")
_TIME_RANGE: Final = re.compile(
    r"\d{1,2}(?:[:.h]\d\d)?\s?(?:[ap]\.?m\.?|uhr|h)?\s?(?:-|–|—|to|bis|à|a|till|do|tot)\s?\d{1,2}(?:[:.h]\d\d|\s?[ap]\.?m|\s?uhr|h)"
    r"|\b24/7\b|\b24 hours\b",
    re.IGNORECASE,
)
_EMPLOYMENT: Final = re.compile(
    r"\b(?:full[ -]?time|part[ -]?time|freelance|permanent|temporary|fixed[ -]term|internship|contract(?:or)?"
    r"|apprentice\w*|vollzeit|teilzeit|unbefristet|befristet|festanstellung|praktikum|temps plein|temps partiel|cdi|cdd"
    r"|stage|jornada completa|tiempo completo|media jornada|indefinido|tempo pieno|tempo indeterminato|voltijds?"
    r"|deeltijds?|fulltime|parttime|pełny etat|część etatu|umowa o pracę|tempo integral|heltid|deltid|fuldtid|hpp"
    r"|plný úvazek|полная занятость|частичная занятость)\b|正社員|アルバイト",
    re.IGNORECASE,
)
_PIECES: Final = re.compile(r"\s?[·|•]\s?|\s/\s|\s/$")
_MONEY_RANGE: Final = re.compile(rf"\d[\d.,'’ ]{{1,12}}\s?(?:k\b|{_CURRENCY})|{_CURRENCY}\s?\d", re.IGNORECASE)
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
_REPEATED: Final = re.compile(r"(.)\1+")
_LETTER: Final = re.compile(r"[^\W\d_]")
_DIGIT: Final = re.compile(r"\d")
_NO_DIGIT: Final = re.compile(r"\D+")
_BETWEEN: Final = re.compile(r"\s[|•·–—:»-]\s|\s?[|»]\s?")
_SCHEME_AND_HOST: Final = re.compile(r"(?:https?:)?//[^/]*")
_NO_WORD: Final = re.compile(r"\W+")
_IN_ADDRESS: Final = re.compile(r"\W+|_")

_FRAME_TAGS: Final = frozenset(
    "nav header footer aside form main article section table ul ol dl li figure time a button h1 h2 h3 del s".split()
)
_ABOVE_WORDS: Final = tuple(
    "review comment related recommend similar nav menu footer header sidebar card carousel modal cart product article"
    " main breadcrumb price author byline meta".split()
)
_SIGNED: Final = frozenset({"author", "byline"})
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


class BlockFeatures(NamedTuple):
    column: BlockColumn
    names: tuple[str, ...]  # of its own features, beside the column's


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
    of_columns: list[NDArray[np.int32]] = []
    possible: list[NDArray[np.bool_]] = []
    for number, features in enumerate(page_features(page, columns)):
        found.append(features and features.column)
        if features is None:
            continue
        scored.append(number)
        starts.append(len(rows))
        rows.append(0)
        rows += model.rows_of(features.names)
        of_columns.append(model.column_sums(features.column.names))
        possible.append(_ONLY_IMAGE if features.column.key[1] == "src" else possible_fields(page.blocks[number].text))
    if scored:
        scores[scored] = np.where(possible, model.scores(rows, starts, of_columns), NO_SCORE)
    return ScoredPage(page, found, scores)


def page_features(page: PageBlocks, columns: dict[Key, BlockColumn]) -> Iterator[BlockFeatures | None]:
    """Yield the features of each block, None where it is no candidate."""
    around = _Surroundings(page, columns)
    for at, key in enumerate(around.keys):
        yield None if key is None else around.features_at(at, key)


class _Surroundings:
    """What the features of a block take from the rest of its page."""

    def __init__(self, page: PageBlocks, columns: dict[Key, BlockColumn]) -> None:
        self._columns = columns
        self._blocks, self._spots = page.blocks, [page.spots[block.n] for block in page.blocks]
        ways = page.listed().ways
        self.keys = [_key(spot, way) for spot, way in zip(self._spots, ways, strict=True)]
        for spot, key in zip(self._spots, self.keys, strict=True):
            if key is not None and key not in columns:
                columns[key] = _column(key, spot)
        head = (page.root.findtext("head/title") or "")[:_MAX_CHARS]
        self._title = _words_of(head)
        self._title_parts = [_words_of(part) for part in _BETWEEN.split(head)]
        self._address = frozenset(_IN_ADDRESS.split(page.url.lower()))
        self._host = _NO_WORD.sub(
            "", page.url.partition("//")[2].partition("/")[0].removeprefix("www.").rpartition(".")[0]
        )
        in_headings = (at for at, key in enumerate(self.keys) if key and key[1] is None and "h1" in columns[key].frame)
        self._heading_at = next(in_headings, None)
        self._heading: frozenset[str] = frozenset()
        self._heading_line: dict[etree._Element, int] = {}
        if self._heading_at is not None:
            self._heading = _words_of(self._blocks[self._heading_at].text[:_MAX_CHARS])
            element = self._spots[self._heading_at].element
            assert element is not None
            self._heading_line = {node: depth for depth, node in enumerate(islice(line_up(element), _MAX_LEVELS))}
        # A site's name is taken for an author only where nobody else signs.
        self._is_signed = any(
            key is not None
            and (columns[key].above & _SIGNED or (len(block.text) < _SHORT_CHARS and _BY.match(block.text)))
            for block, key in zip(self._blocks, self.keys, strict=True)
        )
        self._ups: dict[etree._Element, str] = {}
        self._in_column, self._texts = Counter(self.keys), Counter(block.text for block in self._blocks)
        self._labels, self._next = self._texts_beside()
        self._kinds = [
            "" if key is None else _kind(block.text[:_MAX_CHARS], key, columns[key].frame)
            for block, key in zip(self._blocks, self.keys, strict=True)
        ]
        self._of_kind = Counter(self._kinds)
        self._seen: Counter[Key | str] = Counter()

    def _texts_beside(self) -> tuple[list[str], list[str]]:
        """Return the texts before and behind each block that it is no part of, and that are no part of it."""
        texts = [
            block.text if key and key[1] is None else "" for block, key in zip(self._blocks, self.keys, strict=True)
        ]
        both = []
        for order in (range(len(texts)), range(len(texts) - 1, -1, -1)):
            near, further = "", ""
            found = [""] * len(texts)
            for at in order:
                own = self._blocks[at].text
                found[at] = further if near in own or own in near else near
                if texts[at] and texts[at] != near:
                    near, further = texts[at], near
            both.append(found)
        return both[0], both[1]

    def features_at(self, at: int, key: Key) -> BlockFeatures:
        """Return the features of a block; the blocks are asked for in order."""
        block, spot, kind = self._blocks[at], self._spots[at], self._kinds[at]
        text = block.text[:_MAX_CHARS]
        own = _words_of(text[:200])
        in_title = _share(own & self._title, own, 4)
        size = min(3, len(own))
        part = next((number for number, words in enumerate(self._title_parts) if words == own and own), None)
        names = [
            *_text_features(text, len(block.text)),
            f"h1 {bool(own) and own == self._heading} {part is not None}",
            f"intitle {in_title} {size}",
            f"oftitle {_share(own & self._title, self._title, 4)}",
            f"slug {_share(own & self._address, own, 3)} {size}",
            f"pos {10 * at // len(self._blocks)}",
            self._gap(at),
            self._up(spot),
            f"many {min(self._in_column[key], 20).bit_length()} {min(self._seen[key], 3)}",
            f"twice {min(self._texts[block.text], 3)}",
        ]
        if part is not None:
            names.append(f"titlepart {min(part, 2)} {part + 1 == len(self._title_parts)}")
        if self._host and len(text) < 60 and _NO_WORD.sub("", text.lower()) in self._host:
            names.append("inhost by" if self._is_signed else "inhost")
        if kind:
            order = f"{kind} {at > (self._heading_at or 0)}"
            names.append(f"{order} {min(self._seen[order], 4)} of {min(self._of_kind[kind], 8).bit_length()}")
            self._seen[order] += 1
        names += _beside_features("l", self._labels[at][-60:]) + _beside_features("n", self._next[at][:60])
        if key[1] == "src":
            names += self._image_features(spot)
        else:
            names += _link_features(spot)
        self._seen[key] += 1
        return BlockFeatures(self._columns[key], tuple(dict.fromkeys(names)))

    def _gap(self, at: int) -> str:
        if self._heading_at is None:
            return "gap x"
        gap = at - self._heading_at
        return f"gap {(gap > 0) - (gap < 0)} {min(abs(gap), 600).bit_length()}"

    def _up(self, spot: Spot) -> str:
        """Tell how far up the heading's line meets that of a block."""
        element = spot.element
        assert element is not None
        if element not in self._ups:
            line = enumerate(islice(line_up(element), _MAX_LEVELS))
            levels, meeting = next(((up, node) for up, node in line if node in self._heading_line), (0, None))
            own = self._heading_line[meeting] if meeting is not None else -1
            self._ups[element] = f"up {min(levels, 9)} {min(own, 7)}"
        return self._ups[element]

    def _image_features(self, spot: Spot) -> list[str]:
        element = spot.element
        assert element is not None
        alt = _words_of((element.get("alt") or "")[:200])
        names = [f"alt {_share(alt & self._title, alt, 3)} {min(3, len(alt))} {bool(alt) and alt == self._heading}"]
        for name in ("width", "height"):
            number = _WHOLE.match(element.get(name) or "")
            names.append(f"{name} {int(number[0]).bit_length() if number else 'x'}")
        source = (element.get("src") or "")[-_MAX_NAME_CHARS:].lower()
        names += [f"s {word}" for word in _WORD.findall(source)[-8:]]
        return [*names, f"srcset {element.get('srcset') is not None} {element.get('loading') or ''}"[:20]]


_IMAGE, _PRICED, _DATED, _LONG = "image#", "price#", "date#", "long#"
_NO_PHOTO: Final = re.compile(r"logo|icon|avatar|sprite|pixel|badge|\bflag|\.svg|\.gif|^data:", re.IGNORECASE)
_ASIDE: Final = frozenset({"nav", "footer", "aside"})
STRUCK_OUT: Final = frozenset({"del", "s"})


def _kind(text: str, key: Key, frame: frozenset[str]) -> str:
    """Return the kind of blocks that a block is counted with."""
    if key[1] == "src":
        return "" if frame & _ASIDE or _NO_PHOTO.search(text) else _IMAGE
    if len(text) >= _SHORT_CHARS:
        return _LONG
    if len(text) < 40 and _price(text) is not None and not _ONLY_NUMERAL.fullmatch(text):
        return "" if frame & STRUCK_OUT else _PRICED
    return _DATED if _date(text) is not None else ""


def _link_features(spot: Spot) -> list[str]:
    """Return the words of where the link leads that a block is the text of."""
    element = spot.element
    link = (
        next((node for node in islice(line_up(element), 3) if node.tag == "a"), None) if element is not None else None
    )
    if link is None:
        return []
    path = _SCHEME_AND_HOST.sub("", (link.get("href") or "")[:_MAX_NAME_CHARS]).lower()
    folders = path.split("/")[:4]
    names = [f"h {word}" for folder in folders[:-1] for word in _WORD.findall(folder)[:3]]
    return [
        *names,
        f"rel {link.get('rel') or ''}"[:20],
        f"scheme {path.partition(':')[0]}" if ":" in path[:8] else "link",
    ]


@lru_cache(maxsize=_TEXTS)
def _beside_features(side: str, text: str) -> list[str]:
    words = [word.lower() for word in _WORD.findall(text)]
    words = words[-4:] if side == "l" else words[:3]
    names = [f"{side} {word}" for word in words]
    if 0 < len(words) < 4 and len(text) < 40:
        names.append(f"{side}= {' '.join(words)}")
    if side == "l" and text.endswith(":"):
        names.append("l:")
    if side == "l" and 1 < len(text) < _LABEL_CHARS:
        names.append(f"is {canonical_name(text)}")
    return names


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
    words = [word.lower() for word in NAME_PART.findall(called) if len(word) > 1][:_MAX_NAME_WORDS]
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
    label = _OWN_LABEL.match(short)
    if label:
        names.append(f"own {canonical_name(label[1])}")
    if words:
        names.append(f"w0 {words[0]}")
    if kind := text_kind(text):
        names += [f"kind {kind[0]}", *([f"sure {kind[0]}"] if kind[1] else [])]
    return tuple(names)


@lru_cache(maxsize=_TEXTS)
def _words_of(text: str) -> frozenset[str]:
    return frozenset(_NO_WORD.sub(" ", text.casefold()).split())


def _share(some: frozenset[str], every: frozenset[str], steps: int) -> int:
    return round(steps * len(some) / max(1, len(every)))


@lru_cache(maxsize=_TEXTS)
def _price(text: str) -> str | None:
    found = _PRICE.search(text) if _DIGIT.search(text) else None
    return found[0].strip() if found else text if _ONLY_NUMERAL.fullmatch(text) else None


@lru_cache(maxsize=_TEXTS)
def sole_amount(text: str) -> float | None:
    """Return the amount of money that a text is, and nothing else; None for any other text."""
    found = _PRICE.fullmatch(text.rstrip("*")) if len(text) < _SHORT_CHARS and _DIGIT.search(text) else None
    return read_number(text) if found else None


@lru_cache(maxsize=_TEXTS)
def _date(text: str) -> str | None:
    found = DATE.search(text) if _DIGIT.search(text) else None
    return found[0] if found else None


def _numeral(text: str) -> str | None:
    found = _NUMERAL.search(text)
    return found[0] if found and len(text) < 80 else None


def _stock(text: str) -> str | None:
    says_it = len(text) < 60 and (_says_in_stock(text) or _says_out_of_stock(text))
    return text if says_it and not _OTHER_STOCK.search(text) else None


@lru_cache(maxsize=_TEXTS)
def _says_in_stock(text: str) -> bool:
    return _IN_STOCK.search(text) is not None


@lru_cache(maxsize=_TEXTS)
def _says_out_of_stock(text: str) -> bool:
    return _OUT_OF_STOCK.search(text) is not None


def _unlabelled(text: str) -> str:
    label = _CODE_LABEL.match(text)
    return (text[label.end() :] if label else text).strip()


def _code(text: str) -> str | None:
    code = _unlabelled(text)
    return code if _CODE.fullmatch(code) else None


def _gtin(text: str) -> str | None:
    code = _unlabelled(text)
    return code if _GTIN.fullmatch(code) and not DATE.fullmatch(code) else None


def _name(text: str) -> str | None:
    name = text.strip(" ,:–|")
    return name if len(name) > 1 and any(map(str.isalpha, name)) else None


def _author(text: str) -> str | None:
    if _IN_PATH.search(text):
        return None
    start = _BY.match(text)
    name = _name(_BEHIND_NAME.split(text[start.end() :] if start else text, maxsplit=1)[0])
    return _FULL_STOP.sub("", name) if name and not _NO_NAME.search(name) else None


def _duration(text: str) -> str | None:
    if len(text) >= 60 or not _DIGIT.search(text):
        return None
    found = _ISO_DURATION.fullmatch(text) or _DURATION.search(text)
    return found[0] if found else None


def _minutes(text: str) -> int | None:
    """Return how long a duration is that is written out, or as ISO 8601 has it."""
    found = _ISO_DURATION.fullmatch(text)
    if found and any(found.groups()):
        return 1440 * int(found["days"] or 0) + 60 * int(found["hours"] or 0) + int(found["minutes"] or 0)
    found = _DURATION.search(text)
    if found is None:
        return None
    if found["clock"]:
        hours, _, minutes = found["clock"].partition(":")
        return 60 * int(hours) + int(minutes)
    whole = _WHOLE.match(found["hours"] or found["minutes"])
    number = int(whole[0]) if whole else 0
    return 60 * number + int(found["and"] or 0) if found["hours"] else number


def _phone(text: str) -> str | None:
    found = _PHONE.search(text)
    return found[0] if found else None


def _mail(text: str) -> str | None:
    found = _MAIL.search(text) if "@" in text else None
    return found[0] if found else None


def _line(text: str) -> str | None:
    return text if any(map(str.isalpha, text)) else None


def _address(text: str) -> str | None:
    return text if len(text) > 8 and _DIGIT.search(text) and _WORD.search(text) else None


def _pay(text: str) -> str | None:
    return text if _MONEY_RANGE.search(text) else None


def _hours(text: str) -> str | None:
    return text if _TIME_RANGE.search(text) else None


def _employment(text: str) -> str | None:
    return next(filter(_EMPLOYMENT.search, _PIECES.split(text)), None)


def _long_text(text: str) -> str | None:
    is_line = len(text) < _LINE_CHARS and DATE.search(text)  # who wrote when
    return text if len(text) > 40 and not is_line else None


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
    "ingredients": (_line, 200),
    "instructions": (_long_text, 100_000),
    "prep_time": (_duration, 60),
    "cook_time": (_duration, 60),
    "total_time": (_duration, 60),
    "servings": (_numeral, 60),
    "start_date": (_date, _SHORT_CHARS),
    "end_date": (_date, _SHORT_CHARS),
    "location": (_name, 120),
    "city": (_name, 60),
    "company": (_name, 80),
    "salary": (_pay, 100),
    "employment_type": (_employment, 60),
    "address": (_address, 200),
    "telephone": (_phone, 60),
    "email": (_mail, 100),
    "opening_hours": (_hours, 200),
    "job_title": (_name, 80),
}


def value_part(name: str, text: str) -> str | None:
    """Return the part of a block's text that is a field's value, None where the text can be no value of it."""
    find, most_chars = _PARTS[name]
    return find(text) if len(text) < most_chars else None


_ONLY_IMAGE: Final = np.array([name == "image" for name in FIELDS])


def possible_fields(text: str) -> NDArray[np.bool_]:
    """Tell of each field whether a text can be a value of it; an image's address is none."""
    return _possible_in(text if len(text) < _MAX_CHARS else text[:_MAX_CHARS])


_IN_DIGITS: Final = frozenset(
    "price list_price sku gtin mpn rating review_count date_published date_modified prep_time cook_time total_time"
    " servings start_date end_date salary address telephone opening_hours".split()
)


@lru_cache(maxsize=_TEXTS)
def _possible_in(text: str) -> NDArray[np.bool_]:
    never = {"image"} if _DIGIT.search(text) else _IN_DIGITS | {"image"}
    return np.array([name not in never and value_part(name, text) is not None for name in FIELDS])


def says(name: str, text: str, value: str, lang: str = "") -> bool:
    """Tell whether a block's text says a value that a page's structured data gives a field."""
    own = value_part(name, text)
    if own is None:
        return False
    if name in _LONG_TEXTS:
        mine = _plain(own)
        return len(mine) > 30 and mine[:60] == _plain(value)[:60]
    if name == "title":
        mine, other = _plain(own), _plain(value)
        return mine == other != "" or (len(mine) > 12 and other.startswith(mine) and len(mine) > 0.6 * len(other))
    if name in _DATES:
        return value[:10] in _days(own, lang)
    if name == "availability":
        is_out = any(word in value.lower() for word in ("out", "sold", "discontinued"))
        return is_out == _says_out_of_stock(text)
    if name == "address":
        return len(_plain(value)) > 6 and _plain(value) in _plain(own)
    same_form = _COMPARED.get(name, _plain)
    return same_form(own) not in (None, "") and same_form(own) == same_form(value)


@lru_cache(maxsize=_TEXTS)
def _plain(text: str) -> str:
    return fold(_NO_WORD.sub(" ", text.casefold()))


def _number(text: str) -> int | float | None:
    return read_number(text.strip(" .,'’"))


def _file_name(address: str) -> str:
    return address.partition("?")[0].rpartition("/")[2]


def _last_digits(number: str) -> str:
    return _NO_DIGIT.sub("", number)[-8:]


# How values are written before they are compared, where not as words.
_COMPARED: Final[Mapping[str, Callable[[str], str | int | float | None]]] = {
    **dict.fromkeys(("price", "list_price", "rating", "review_count", "servings"), _number),
    **dict.fromkeys(("prep_time", "cook_time", "total_time"), _minutes),
    "image": _file_name,
    "telephone": _last_digits,
}


def _days(text: str, lang: str) -> set[str]:
    """Return the days that a date may be of: where the language does not tell, the month may be first or second."""
    day = read_date(text, lang)
    options = [day] if day else [read_date(text, "en-us"), read_date(text, "en-gb")]
    return {option[:10] for option in options if option}


class ScoreModel:
    """A linear model from arrays by name: `names` of its features, a line each, the first of no feature but what each
    block has; `weights`, a row per feature and a column per field, whole numbers; `scale` per field."""

    def __init__(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        names = arrays["names"].tobytes().decode().split("\n")
        self._rows = {name: row for row, name in enumerate(names)}
        self._weights = arrays["weights"].astype(np.int8)
        self._scale = arrays["scale"].astype(np.float32)
        self.column_sums = lru_cache(maxsize=4096)(self._sums)

    def rows_of(self, names: Iterable[str]) -> list[int]:
        """Return the rows of the features that the model knows."""
        known = self._rows
        return [known[name] for name in names if name in known]

    def _sums(self, names: tuple[str, ...]) -> NDArray[np.int32]:
        return np.asarray(self._weights[self.rows_of(names)].sum(0, dtype=np.int32))

    def scores(self, rows: list[int], starts: list[int], of_columns: list[NDArray[np.int32]]) -> NDArray[np.float32]:
        """Return the scores of blocks. The rows of each begin at one of `starts`, with that of all blocks; `of_columns`
        are the sums of its column's features."""
        sums = np.add.reduceat(self._weights[rows], starts, axis=0, dtype=np.int32) + np.array(of_columns)
        return np.asarray(sums * self._scale)


@lru_cache(maxsize=1)
def _model() -> ScoreModel:
    with np.load(BytesIO(files(__package__).joinpath("value_scorer.npz").read_bytes())) as arrays:
        return ScoreModel({name: arrays[name] for name in arrays})
