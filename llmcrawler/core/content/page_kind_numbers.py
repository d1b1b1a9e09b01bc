"""Works out the numbers that tell the kind of a page: of its address, head, text, links, repeated parts and phrases.

What only scripts, styles or data attributes hold is left out: half of the training pages have lost these.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from importlib.resources import files
from itertools import pairwise
from math import log1p, sqrt
from typing import Any, Final
from urllib.parse import SplitResult, unquote, urlsplit

import numpy as np
from numpy.typing import NDArray

from llmcrawler.core.content.caching import cached_if_short
from llmcrawler.core.content.layout import ABOVE, Layout, bit_rows
from llmcrawler.core.content.markup import H1, H6, TAG_IDS, TAGS
from llmcrawler.core.content.part_names import PART_BITS, PART_NAMES
from llmcrawler.core.content.segmenter import RawBlock, Segments
from llmcrawler.items import Link

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_SENTENCE_END: Final = (".", "!", "?", '"', "”", "…", "。")
_PROSE_WORDS: Final = 10
_PROSE_DENSITY: Final = 0.34
_NO_BLOCK: Final = RawBlock("", "", 0, 0, 0, 0, 0)


class BlockNumbers:
    """Arrays with a value per block of a page; yes and no are 1 and 0. A page without text has one empty block."""

    def __init__(self, page: Segments, layout: Layout, scores: Sequence[float], prices: Sequence[int]) -> None:
        blocks = page.blocks or [_NO_BLOCK]
        self.texts = [block.text for block in blocks]
        words, self.link_words, self.emphasis, self.ends, tags = np.array(
            [
                (block.words, block.link_words, block.emphasis, block.text.endswith(_SENTENCE_END), block.tag)
                for block in blocks
            ],
            np.float64,
        ).T
        self.words = words
        self.total_words = max(1.0, float(words.sum()))
        self.tags = tags.astype(np.int64)
        self.containers = layout.containers
        # Many words, few of them in links.
        self.prose = ((words >= _PROSE_WORDS) & (self.link_words < _PROSE_DENSITY * words)).astype(np.float64)
        self.linked = (self.link_words >= words).astype(np.float64)  # all words are in links
        self.headings = ((tags >= H1) & (tags <= H6)).astype(np.float64)
        self.scores = np.array(scores or [0.0], np.float64)
        self.main = (self.scores >= 0.5).astype(np.float64)
        self.prices = (np.array(prices or [0]) > 0).astype(np.float64)  # a price stands in it


@dataclass(frozen=True)
class KindEvidence:
    """A page as it was read. `metas`: contents of meta elements by name; `metadata`: what was chosen of them; `scores`
    and `prices`: for each block, the probability that it is main content, and the number of prices.
    """

    url: str
    page: Segments
    layout: Layout
    title: str
    links: Sequence[Link]
    metas: dict[str, str]
    metadata: dict[str, str]
    structured_data: Sequence[dict[str, Any]]
    cues: dict[str, float]
    scores: Sequence[float]
    prices: Sequence[int]

    @cached_property
    def blocks(self) -> BlockNumbers:
        return BlockNumbers(self.page, self.layout, self.scores, self.prices)


@lru_cache(maxsize=1)
def address_words() -> dict[str, dict[str, frozenset[str]]]:
    """Return words by what they stand for: as a segment of a path, as a label of a host, and within a host's name."""
    text = files(__package__).joinpath("address_words.json").read_text(encoding="utf-8")
    return {
        where: {kind: frozenset(words.split()) for kind, words in kinds.items()}
        for where, kinds in json.loads(text).items()
    }


_SUFFIX: Final = re.compile(r"\.\w{2,5}$")
_LONG_ID: Final = re.compile(r"\d{5,}")
_YEAR: Final = re.compile(r"/(?:19|20)\d\d/")
_MONTH: Final = re.compile(r"(?:19|20)\d\d[-/]\d\d")
_HOST_LABEL: Final = re.compile(r"[.-]")
_WORD: Final = re.compile(r"[a-z]+|[0-9]+")
_MAX_CHARS: Final = 2000


@dataclass(frozen=True, slots=True)
class Address:
    """The parts of an address, in lower case; `stems` are the segments of the path without a file's suffix."""

    host: str
    path: str
    query: str
    segments: list[str]
    stems: list[str]


def read_address(url: str) -> Address:
    """Take an address apart; one that cannot be read has empty parts."""
    try:
        parts = urlsplit(url[:_MAX_CHARS])
        host = parts.hostname or ""
    except ValueError:
        parts, host = SplitResult("", "", "", "", ""), ""
    path = unquote(parts.path).lower()
    segments = [segment for segment in path.split("/") if segment]
    return Address(host, path, parts.query, segments, [_SUFFIX.sub("", segment) for segment in segments])


def address_numbers(url: str, title: str) -> dict[str, float]:
    """Return the numbers of an address; with the title, as many addresses are made of it."""
    address = read_address(url)
    host, path, segments, stems = address.host, address.path, address.segments, address.stems
    last, stem = (segments[-1], stems[-1]) if segments else ("", "")
    found: dict[str, float] = {
        "url depth": len(segments),
        "url path chars": len(path),
        "url last chars": len(last),
        "url last hyphens": _hyphens(last),
        "url most hyphens": max(map(_hyphens, segments), default=0),
        "url digits": sum(map(str.isdigit, path)),
        "url last digits": sum(map(str.isdigit, last)),
        "url long id": _LONG_ID.search(path + address.query) is not None,
        "url year": _YEAR.search(path) is not None,
        "url month": _MONTH.search(path) is not None,
        "url recent year": "/20" in path or "-20" in path,
        "url html": path.endswith((".html", ".htm")),
        "url script": ".php" in path or ".asp" in path,
        "url query chars": len(address.query),
        "url ends with slash": path.endswith("/"),
        "url is root": not segments,
        "host dots": host.count("."),
        "host www": host.startswith("www."),
        "host public": host.endswith((".org", ".edu", ".gov")),
        "host technical": host.endswith((".io", ".dev", ".ai")),
    }
    labels = set(_HOST_LABEL.split(host))
    for kind, words in address_words()["host"].items():
        found[f"host word {kind}"] = not words.isdisjoint(labels)
    for kind, parts in address_words()["within host"].items():
        found[f"host part {kind}"] = any(part in host for part in parts)
    for kind, words in address_words()["path"].items():
        found[f"url words {kind}"] = sum(name in words for name in stems)
        found[f"url last {kind}"] = stem in words
        found[f"url first {kind}"] = bool(stems) and stems[0] in words
    slug = set(stem.replace("_", "-").split("-"))
    found["url slug in title"] = len(slug.intersection(_WORD.findall(title.lower()))) / len(slug)
    return found


def _hyphens(segment: str) -> int:
    return segment.count("-") + segment.count("_")


_OPENING: Final = re.compile(r"(?:how|what|why|when|where|\d+|best|top|the \d)\b")
_MAX_NODES: Final = 3000
_MAX_DEPTH: Final = 5
_MAX_LISTED: Final = 200
_SCHEMA_TYPES: Final = tuple("Product Offer QAPage DiscussionForumPosting Comment Person InteractionCounter".split())
_TOP: Final = {
    "product": ("Product", "ProductGroup"),
    "article": ("Article", "NewsArticle", "BlogPosting", "TechArticle"),
    "web page": ("WebPage",),
}
_COUNTED_TAGS: Final = tuple(
    "p a img ul h2 td button pre code article section time video label strong span div br kbd meta link".split()
)
_CUES: Final = ("add_to_cart", "price_count", "password_inputs")


def head_numbers(evidence: KindEvidence) -> dict[str, float]:
    """Return the form of the title, what the page says of itself in meta and link elements, and its counts of tags."""
    title = evidence.title
    metas, metadata, page = evidence.metas, evidence.metadata, evidence.page
    kind = metas.get("og:type", "").lower()
    language = page.html_attributes.get("lang", "").lower()
    links = [attributes for tag, attributes in page.metas if tag == "link"]
    labels = f"{metas.get('twitter:label1', '')} {metas.get('twitter:label2', '')}".lower()
    found: dict[str, float] = {
        "title chars": len(title),
        "title words": title.count(" ") + 1,
        "title asks": "?" in title,
        "title digit": any(map(str.isdigit, title)),
        "title colon": ":" in title,
        "title opens like an article": _OPENING.match(title.lower()) is not None,
        "meta description chars": len(metadata.get("description", "")),
        "og article": kind == "article",
        "og product": "product" in kind,
        "og website": kind == "website",
        "meta canonical is page": metadata.get("canonical", "").rstrip("/") == evidence.url.split("#")[0].rstrip("/"),
        "meta names": len(metas),
        "meta price": any("price" in name for name in metas),
        "meta links": len(links),
        "meta languages": sum("hreflang" in attributes for attributes in links),
        "meta reading time": "read" in labels,
        "language none": not language,
    }
    for name in ("published", "modified", "author", "generator"):
        found[f"meta {name}"] = name in metadata
    for name in ("twitter:label1", "og:image"):
        found[f"meta {name}"] = name in metas
    for name in _CUES:
        found[f"cue {name}"] = log1p(evidence.cues[name])
    for tag in _COUNTED_TAGS:
        found[f"tags {tag}"] = log1p(page.counts.get(tag, 0))
    found["tags div to p"] = found["tags div"] - found["tags p"]
    found["tags img a block"] = page.counts.get("img", 0) / len(evidence.blocks.texts)
    return found


def schema_types(objects: Sequence[dict[str, Any]]) -> Iterator[tuple[str, int]]:
    """Yield the schema.org types of objects and of what is in them, with the depth they stand at; 0 is the top."""
    waiting: list[tuple[Any, int]] = [(one, 0) for one in objects]
    for _ in range(_MAX_NODES):
        if not waiting:
            return
        value, depth = waiting.pop()
        if isinstance(value, list):
            waiting += [(one, depth) for one in value[:_MAX_LISTED]]
        elif isinstance(value, dict):
            declared = value.get("@type")
            for name in declared if isinstance(declared, list) else [declared]:
                if isinstance(name, str):
                    yield name.rstrip("/").rpartition("/")[2].rpartition(":")[2], depth
            if depth < _MAX_DEPTH:
                waiting += [(one, depth + 1) for one in value.values() if isinstance(one, dict | list)]


def schema_numbers(objects: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Return counts of schema.org types, and what articles and breadcrumbs say more."""
    types = list(schema_types(objects))
    everywhere = Counter(name for name, _ in types)
    top = Counter(name for name, depth in types if depth == 0)
    found: dict[str, float] = {f"schema {name}": log1p(everywhere[name]) for name in _SCHEMA_TYPES}
    for name, members in _TOP.items():
        found[f"schema top {name}"] = log1p(sum(top[member] for member in members))
    found |= {"schema objects": log1p(len(objects)), "schema types": log1p(len(types))}
    words, article_dated, page_dated, crumbs = 0, False, False, 0
    for one in objects:
        declared = one.get("@type")
        kind = str(declared[0] if isinstance(declared, list) and declared else declared)
        if kind.endswith(("Article", "BlogPosting")):
            article_dated |= "datePublished" in one
            count = str(one.get("wordCount", ""))[:9]
            words = max(words, int(count) if count.isdecimal() else 0)
        elif kind == "WebPage":
            page_dated |= "datePublished" in one
        elif kind == "BreadcrumbList":
            listed = one.get("itemListElement")
            crumbs = max(crumbs, len(listed) if isinstance(listed, list) else 1)
    found["schema article words"] = log1p(words)
    found["schema article dated"] = article_dated
    found["schema page dated"] = page_dated
    found["schema breadcrumbs"] = crumbs
    return found


_TAGS: Final = ("p", "li", "pre", "h1", "h2", "h3", "div", "figcaption")
_MAIN_TAGS: Final = ("li", "pre", "p", "div")
_LI: Final = TAG_IDS["li"]


def block_totals(blocks: BlockNumbers) -> dict[str, float]:
    """Return lengths of blocks, shares of prose and links, and the words under each tag."""
    words, prose, headings, tags = blocks.words, blocks.prose, blocks.headings, blocks.tags
    total, count = blocks.total_words, len(words)
    prose_words, prose_count = float(words @ prose), float(prose.sum())
    mean_prose = prose_words / max(1.0, prose_count)
    ordered = np.sort(words)
    found: dict[str, float] = {
        "words": log1p(total),
        "linked words": float(blocks.link_words.sum()) / total,
        "words a block": total / count,
        "words longest": log1p(ordered[-1]),
        "prose words": log1p(prose_words),
        "prose share": prose_words / total,
        "prose blocks": log1p(prose_count),
        "prose sentences": log1p(prose @ blocks.ends),
        "prose of 40 words": log1p(float(prose[words >= 40].sum())),
        "prose mean": mean_prose,
        "prose deviation": sqrt(max(0.0, float((words * words) @ prose) / max(1.0, prose_count) - mean_prose**2)),
        "short blocks": float((words <= 3).mean()),
        "heading words": float(words @ headings) / total,
        "headings": log1p(headings.sum()),
        "headings linked": log1p(headings @ blocks.linked),
        "headings linked share": float(headings @ blocks.linked) / max(1.0, float(headings.sum())),
        "prose a heading": prose_words / (1 + float(headings.sum())),
        "emphasis": log1p(blocks.emphasis.sum()),
    }
    for percent in (25, 90, 97):
        found[f"words at {percent}%"] = ordered[min(count - 1, int(percent / 100 * count))]
    words_of = np.bincount(tags, words, len(TAGS))
    blocks_of = np.bincount(tags, minlength=len(TAGS))
    for tag in _TAGS:
        number = TAG_IDS[tag]
        found[f"words in {tag}"] = words_of[number] / total
        found[f"blocks in {tag}"] = log1p(blocks_of[number])
        found[f"words a {tag}"] = words_of[number] / max(1, blocks_of[number])
    items = tags == _LI
    found["items prose"] = float(prose[items].sum()) / max(1, blocks_of[_LI])
    found["items linked"] = float(blocks.linked[items].sum()) / max(1, blocks_of[_LI])
    best = most_words = run = run_words = 0.0  # of prose, in which headings may stand
    for count_of, is_prose, is_heading in zip(words.tolist(), prose.tolist(), headings.tolist(), strict=True):
        if is_prose:
            run += 1
            run_words += count_of
            best, most_words = max(best, run), max(most_words, run_words)
        elif not is_heading:
            run = run_words = 0.0
    return found | {"run blocks": log1p(best), "run words": log1p(most_words), "run share": most_words / total}


def main_numbers(blocks: BlockNumbers) -> dict[str, float]:
    """Return how much of the page is main content, what that is made of, and how it lies."""
    words, main, scores, headings = blocks.words, blocks.main, blocks.scores, blocks.headings
    total, count = blocks.total_words, len(words)
    main_words = words * main
    total_main, main_count = max(1.0, float(main_words.sum())), float(main.sum())
    main_headings = float(main @ headings)
    found: dict[str, float] = {
        "main words": log1p(main_words.sum()),
        "main share": float(main_words.sum()) / total,
        "main blocks": log1p(main_count),
        "main blocks share": float(main.mean()),
        "main linked words": float(blocks.link_words @ main) / total_main,
        "main words a block": float(main_words.sum()) / max(1.0, main_count),
        "main prose": float(main_words @ blocks.prose) / total_main,
        "main headings": log1p(main_headings),
        "main headings linked": float((main * headings)[blocks.link_words > 0].sum()) / max(1.0, main_headings),
        "main longest": log1p(main_words.max()),
        "main sentences": float(main @ blocks.ends) / max(1.0, main_count),
        "main score of words": float(scores @ words) / total,
        "main sure": float((scores > 0.9).mean()),
        "main unsure": float(((scores > 0.2) & (scores < 0.8)).mean()),
    }
    words_of = np.bincount(blocks.tags, main_words, len(TAGS)) / total_main
    for tag in _MAIN_TAGS:
        found[f"main words in {tag}"] = words_of[TAG_IDS[tag]]
    where = np.flatnonzero(main)
    first, last = (int(where[0]), int(where[-1])) if len(where) else (count, count)
    found["main changes a block"] = float(np.abs(np.diff(main)).sum()) / count
    found["main gaps"] = 1 - len(where) / (last - first + 1)
    found["main ends"] = last / count
    return found


def heading_numbers(blocks: BlockNumbers, title: str) -> dict[str, float]:
    """Return the form of the first h1 and of the other headings."""
    firsts = np.flatnonzero(blocks.tags == H1)
    first = blocks.texts[firsts[0]] if len(firsts) else ""
    others = [blocks.texts[index] for index in np.flatnonzero((blocks.tags > H1) & (blocks.headings > 0))]
    count = max(1, len(others))
    return {
        "h1 words": first.count(" ") + 1 if first else -1,
        "h1 in title": bool(first) and first.lower()[:40] in title.lower(),
        "h1 place": firsts[0] / len(blocks.texts) if len(firsts) else -1,
        "heading length": sum(text.count(" ") + 1 for text in others) / count,
        "heading numbered": sum(text[:1].isdigit() for text in others) / count,
    }


def container_numbers(page: Segments, layout: Layout, blocks: BlockNumbers) -> dict[str, float]:
    """Return the share of blocks, words and prose under the names of each part and each tag of ABOVE."""
    count, total = len(blocks.words), blocks.total_words
    prose = blocks.words * blocks.prose
    shares = np.stack([np.full(count, 1 / count), blocks.words / total, prose / max(1.0, float(prose.sum()))])
    found: dict[str, float] = {}
    for prefix, names, columns in (("hint", PART_NAMES, layout.block_parts), ("within", ABOVE, layout.block_above)):
        for part, row in zip(("blocks", "words", "prose"), (shares @ columns).tolist(), strict=True):
            for name, share in zip(names, row, strict=True):
                found[f"{prefix} {name} {part}"] = share
    values, times = np.unique(layout.own_parts, return_counts=True)
    own = times @ bit_rows(values, len(PART_NAMES)).T
    for name, number in zip(PART_NAMES, own.tolist(), strict=True):
        found[f"hint {name} elements"] = log1p(number)
    found["depth mean"] = float(layout.depth[layout.containers].mean())
    found["depth greatest"] = float(layout.depth.max())
    found["containers a block"] = len(page.parents) / count
    return found


_USERS: Final = frozenset({"u", "user", "users", "author"})
_LONG_TEXT_SPACES: Final = 4
_MAX_LINKS_READ: Final = 1500


def link_numbers(url: str, links: Sequence[Link], blocks: BlockNumbers) -> dict[str, float]:
    """Return shares and counts of the links of each sort; of very many links the first ones are looked at."""
    links = links[:_MAX_LINKS_READ]
    kinds_of_words: defaultdict[str, list[str]] = defaultdict(list)
    for kind, words in address_words()["path"].items():
        for word in words:
            kinds_of_words[word].append(kind)
    address = read_address(url)
    host, path = address.host.removeprefix("www."), address.path.rstrip("/")
    parent = path.rpartition("/")[0]
    external = below = beside = users = queries = unnamed = long_texts = 0
    folders: list[str] = []
    by_kind = dict.fromkeys(address_words()["path"], 0)
    for link in links:
        unnamed += not link.text
        long_texts += link.text.count(" ") >= _LONG_TEXT_SPACES
        _, _, site, rest = [*link.url.split("/", 3), "", "", ""][:4]
        target, asked, _ = f"/{rest}".lower().partition("?")
        queries += bool(asked)
        parts = target.split("/")
        if known := [name for name in parts if name in kinds_of_words]:
            for kind in {kind for name in known for kind in kinds_of_words[name]}:
                by_kind[kind] += 1
        users += "profile" in target or "member" in target or not _USERS.isdisjoint(parts[:-1])
        if site.removeprefix("www.") != host:
            external += 1
            continue
        target = target.rstrip("/")
        folder = target.rpartition("/")[0]
        below += bool(path) and target.startswith(f"{path}/")
        beside += bool(parent) and folder == parent
        folders.append(folder)
    count = max(1, len(links))
    most = max(Counter(folders).values(), default=0)
    found: dict[str, float] = {
        "links": log1p(len(links)),
        "links a word": len(links) / blocks.total_words,
        "links a block": len(links) / len(blocks.words),
        "links away": external / count,
        "links below share": below / count,
        "links beside share": beside / count,
        "links of a folder": log1p(most),
        "links of a folder share": most / count,
        "links unnamed": unnamed / count,
        "links with long text": log1p(long_texts),
        "links with long text share": long_texts / count,
        "links with query": queries / count,
        "links to users": users / count,
    }
    for kind, number in by_kind.items():
        found[f"links to {kind}"] = number / count
    return found


_LEAST_SIBLINGS: Final = 3
# What repeats there is no list of the page.
_FRAME: Final = PART_BITS["nav"] | PART_BITS["foot"] | PART_BITS["cookie"]
_NUMBERS: Final = ("count", "words", "variation", "linked", "prose", "headings", "prices", "blocks")


@dataclass(frozen=True, slots=True)
class Repeat:
    """A group of siblings. `words` to `blocks` are means of one of them, `linked` and `prose` shares of its words."""

    count: int
    words: float
    variation: float  # of words: deviation by mean
    linked: float
    prose: float
    headings: float
    prices: float
    blocks: float
    total_words: float
    tag: int
    parts: int


def find_repeats(page: Segments, layout: Layout, blocks: BlockNumbers) -> list[Repeat]:
    """Return the groups that have words."""
    size = len(page.parents)
    columns = (
        blocks.words, blocks.link_words, np.ones(len(blocks.words)), blocks.words * blocks.prose, blocks.headings,
        blocks.prices,
    )  # fmt: skip
    own: Floats = np.stack([np.bincount(blocks.containers, column, size) for column in columns], 1)
    sums = layout.row_sums_below(own.T).T
    many = layout.group_sizes >= _LEAST_SIBLINGS
    members = np.flatnonzero(many[layout.groups] & (sums[:, 2] > 0))
    groups, rows, size = layout.groups[members], sums[members], len(layout.group_sizes)
    counts = np.bincount(groups, minlength=size)
    kept = np.flatnonzero(counts >= _LEAST_SIBLINGS)
    totals = np.stack([np.bincount(groups, column, size)[kept] for column in (*rows.T, rows[:, 0] ** 2)], 1)
    first = np.zeros(size, np.int64)
    first[groups[::-1]] = members[::-1]
    found = []
    for index, count, row in zip(first[kept].tolist(), counts[kept].tolist(), totals.tolist(), strict=True):
        words, linked, of_blocks, prose, headings, priced, squares = row
        mean = words / count
        deviation = sqrt(max(0.0, squares / count - mean * mean))
        found.append(
            Repeat(
                count, mean, deviation / max(1.0, mean), linked / words, prose / words, headings / count,
                priced / count, of_blocks / count, words, page.tags[index], layout.parts[index],
            )
        )  # fmt: skip
    return found


def repeat_numbers(repeats: list[Repeat], blocks: BlockNumbers) -> dict[str, float]:
    """Return counts of cards, posts and prices, and the numbers of the largest group and of the likeliest list."""
    total, prices = blocks.total_words, blocks.prices
    cards = [one for one in repeats if one.blocks >= 1.8 and one.linked > 0.05 and one.words >= 4]
    posts = [one for one in repeats if one.prose > 0.5 and one.words >= 20]
    priced = [one.count for one in repeats if one.prices >= 0.5]
    headed = [one for one in repeats if one.headings >= 0.5 and one.blocks >= 1.5]
    found: dict[str, float] = {
        "repeats": log1p(len(repeats)),
        "repeats most": log1p(max((one.count for one in repeats), default=0)),
        "cards words": sum(one.total_words for one in cards) / total,
        "posts": log1p(sum(one.count for one in posts)),
        "posts words": sum(one.total_words for one in posts) / total,
        "posts variation": _largest(posts).variation if posts else -1,
        "priced most": log1p(max(priced, default=0)),
        "priced": log1p(sum(priced)),
        "headed most": log1p(max((one.count for one in headed), default=0)),
        "headed linked": _largest(headed).linked if headed else -1,
        "prices": log1p(prices.sum()),
        "prices a block": float(prices.mean()),
        "prices a heading": float(prices.sum()) / (1 + float(blocks.headings.sum())),
    }
    lists = [one for one in cards if not one.parts & _FRAME]
    likeliest = max(lists, key=lambda one: one.count * min(one.words, 30), default=None)
    for prefix, group in (("largest", _largest(repeats) if repeats else None), ("list", likeliest)):
        for name in _NUMBERS:
            value = getattr(group, name) if group else -1
            found[f"{prefix} {name}"] = log1p(value) if group and name in ("count", "words") else value
        found[f"{prefix} share"] = group.total_words / total if group else 0
        found[f"{prefix} tag"] = group.tag if group else -1
    return found


def _largest(repeats: list[Repeat]) -> Repeat:
    return max(repeats, key=lambda one: one.total_words)


_TOKEN: Final = re.compile(r"[a-z]+|[0-9](?![0-9])|[$%#:]")

# The words behind the first two of a phrase, and the numbers of the groups that it counts for.
_Endings = list[tuple[list[str], int]]


@lru_cache(maxsize=1)
def phrase_groups() -> dict[str, list[str]]:
    """Return the phrases of each group; in them, 0 is any number."""
    text = files(__package__).joinpath("phrases.json").read_text(encoding="utf-8")
    return {name: phrases.split("|") for name, phrases in json.loads(text).items()}


@lru_cache(maxsize=4)
def _lookup(groups: tuple[str, ...]) -> tuple[dict[str, list[int]], dict[str, dict[str, _Endings]]]:
    """Return the groups of single words, and phrases by their first and second word."""
    single: dict[str, list[int]] = {}
    longer: dict[str, dict[str, _Endings]] = {}
    for number, group in enumerate(groups):
        for phrase in phrase_groups()[group]:
            first, *others = phrase.split()
            if others:
                longer.setdefault(first, {}).setdefault(others[0], []).append((others[1:], number))
            else:
                single.setdefault(first, []).append(number)
    return single, longer


@cached_if_short(200)
def phrase_tokens(text: str) -> list[str]:
    """Return the words and numbers of a text, each number as 0."""
    return ["0" if "0" <= token < ":" else token for token in _TOKEN.findall(text.lower())]


def count_phrases(tokens: list[str], groups: tuple[str, ...]) -> list[int]:
    """Return for each of the groups how often its phrases stand in the tokens."""
    single, longer = _lookup(groups)
    counts = [0] * len(groups)
    counted = Counter(tokens)
    for token in single.keys() & counted.keys():
        for group in single[token]:
            counts[group] += counted[token]
    if longer.keys() & counted.keys():
        for index, (token, following) in enumerate(pairwise(tokens)):
            if token in longer and following in longer[token]:
                for rest, group in longer[token][following]:
                    if not rest or tokens[index + 2 : index + 2 + len(rest)] == rest:
                        counts[group] += 1
    return counts


# So much is read of each block, and of all of them.
_BLOCK_CHARS: Final = 200
_PAGE_CHARS: Final = 6000
_MAIN_BLOCK_CHARS: Final = 600
_MAIN_CHARS: Final = 2500
# Groups of which it tells something that they stand in the main content.
_IN_MAIN: Final = (
    "byline", "quantity", "our_firm", "we_offer", "get_started", "references_of_firm", "your_business", "setup",
    "code_words", "first_person", "we", "you", "third_person", "thanks", "function_words", "imperative",
)  # fmt: skip
_CODE_SIGNS: Final = "{}=;_"


def phrase_numbers(blocks: BlockNumbers) -> dict[str, float]:
    """Return the counts and rates of phrases by group, and of signs."""
    starts = _heads(blocks.texts, _BLOCK_CHARS, _PAGE_CHARS)
    tokens = [token for text in starts for token in phrase_tokens(text)]
    main_texts = [text for text, is_main in zip(blocks.texts, blocks.main.tolist(), strict=True) if is_main]
    main = [token for text in _heads(main_texts, _MAIN_BLOCK_CHARS, _MAIN_CHARS) for token in phrase_tokens(text)]
    count, main_count = max(1, len(tokens)), max(1, len(main))
    found: dict[str, float] = {}
    groups = tuple(phrase_groups())
    for name, number in zip(groups, count_phrases(tokens, groups), strict=True):
        found[f"phrases {name}"] = log1p(number)
        found[f"phrases {name} rate"] = 100 * number / count
    for name, number in zip(_IN_MAIN, count_phrases(main, _IN_MAIN), strict=True):
        found[f"phrases {name} in main"] = 100 * number / main_count
    text = "\n".join(starts)
    found["words distinct in main"] = len(set(main)) / main_count**0.7
    found["signs number"] = tokens.count("0") / count
    found["signs code"] = sum(map(text.count, _CODE_SIGNS)) / max(1, len(text))
    found["chars a word"] = len(text) / max(1, text.count(" "))
    return found


def _heads(texts: list[str], block_chars: int, chars: int) -> list[str]:
    heads = []
    for text in texts:
        heads.append(text[: min(block_chars, chars)])
        chars -= len(heads[-1])
        if chars <= 0:
            break
    return heads


def kind_numbers(evidence: KindEvidence) -> dict[str, float]:
    """Return all numbers of a page by name; the same names for every page."""
    blocks = evidence.blocks
    return {
        **address_numbers(evidence.url, evidence.title),
        **head_numbers(evidence),
        **schema_numbers(evidence.structured_data),
        **block_totals(blocks),
        **main_numbers(blocks),
        **heading_numbers(blocks, evidence.title),
        **container_numbers(evidence.page, evidence.layout, blocks),
        **repeat_numbers(find_repeats(evidence.page, evidence.layout, blocks), blocks),
        **link_numbers(evidence.url, evidence.links, blocks),
        **phrase_numbers(blocks),
    }
