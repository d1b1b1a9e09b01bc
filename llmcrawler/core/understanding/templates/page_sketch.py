"""Sketches a page in five numbers, by which two views of one page are recognised and two pages alike are told apart.

Exact digests stand for what decides: the title, headings, numbers and images of a page, and its main text as a whole.
Near equality of the words is told by a SimHash (Charikar 2002, "Similarity estimation techniques from rounding
algorithms") over runs of eight letters, 64 bits, by numpy.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from typing import Any, Final, NamedTuple

import numpy as np

from llmcrawler.core.urls import normalise, relative_url
from llmcrawler.items import PageContent, TextBlock

_LEAST_BYTES: Final = 160  # of letters, some thirty words: less of a text is no evidence that two pages are one
_LONG_BYTES: Final = 600  # of letters, some hundred words
_SHORT_WORDS: Final = 12  # what sets things apart that are described alike (a place, a colour) often is a short line
_MOST_CHARS: Final = 200_000  # of the main text that are searched for numbers and images
_MOST_LINKS: Final = 1_000
_SIMHASH_CHARS: Final = 20_000
_RUN: Final = 8
_FEW_RUNS: Final = 1_000  # of more, an eighth is taken, by their hashes: the same ones in the same text
_LEFT_OUT: Final = np.uint64(7 << 61)
_ODD: Final = np.uint64(0x9E3779B97F4A7C15)
_HALF: Final = np.uint64(32)
_MASK: Final = 2**64 - 1

_TARGET: Final = re.compile(r"\]\(([^()\s]{0,2000})\)")
_LINK: Final = re.compile(r"^[ >]{0,20}\d{1,9}\. |\[[^\[\]]{0,300}\]\([^()\s]{0,2000}\)")
_IMAGE: Final = re.compile(r"!\[[^\[\]]{0,300}\]\((?:https?://[^/()\s]{0,300})?([^()\s]{0,2000})\)")
_NUMBER: Final = re.compile(r"\d(?:[\d.,:/-]*\d)?")
_WORD: Final = re.compile(r"\w")
_NO_LETTERS: Final = bytes(range(0x30)) + b":;<=>?@[\\]^_`{|}~\x7f"
_TITLE_VIEW: Final = re.compile(r"\b(?:printer[ -]friendly|printable|print|amp)\b(?: (?:version|view|page)\b)?|[\W_]+")
# "Printed on 3 May, 10:31", "Page generated in 0.012 seconds": the moment at which a page was asked for.
_WAY_BLOCKS: Final = 8
_WAY_WORDS: Final = 12
_STAMP_WORDS: Final = ("accessed", "generated", "loaded", "printed", "rendered", "retrieved", "served")
_SOME_MOMENT: Final = r"\d(?::\d\d|[.,]\d+ ?(?:ms|s|seconds|milliseconds)\b)"
_MOMENT: Final = re.compile(_SOME_MOMENT)
_STAMP: Final = re.compile(rf"\b(?:{'|'.join(_STAMP_WORDS)})\b.{{0,80}}?{_SOME_MOMENT}", re.IGNORECASE)
_STAMP_CHARS: Final = 160
_STATED: Final = frozenset(("sku", "mpn", "productID", "price", "lowPrice", "highPrice", "contentUrl", "embedUrl"))
_MOST_STATED: Final = 200


class PageSketch(NamedTuple):
    """Numbers of 64 bits. `content`: all that the page says, 0 where that is too little; `title`: with the language;
    `points`: headings, numbers, images and links of the main text; `form`: these, the title, the description and all
    short lines, 0 where the text is not long; `stated`: ids and prices that the page states for machines, 0 without
    any; `words`: the SimHash of the main text.
    """

    content: int
    title: int
    points: int
    form: int
    stated: int
    words: int


def sketch_page(content: PageContent, main: Sequence[TextBlock], url: str) -> PageSketch:
    """Sketch the page at `url`, whose main text is in the blocks `main`, in time linear in the page."""
    main = _from_title(main)
    text, targets, images = _parts(main)
    if _MOMENT.search(text):
        main = [block for block in main if not _is_stamp(block)]
        text, targets, images = _parts(main)
    letters = text[:_SIMHASH_CHARS].lower().encode("utf-8", "replace").translate(None, _NO_LETTERS)
    title = _digest(content.lang.lower(), _TITLE_VIEW.sub(" ", content.title.lower()).strip())
    headings = [block.key for block in main if "# " in block.markdown[:20]]
    links = sorted(_others(targets, (url, content.metadata.get("canonical", ""))))
    points = _digest(_sum(headings) if headings else title, *_NUMBER.findall(text), *images, *links)
    stated = sorted(_stated(content.structured_data))
    whole = form = 0
    if len(letters) >= _LEAST_BYTES:
        said = _sum(block.key for block in main)
        described = (content.metadata.get("description", ""), _path(content.metadata.get("og:image", "")))
        beside = _beside(content.blocks, main)
        whole = _digest(title, said, beside, *described, *stated, *images, *links)
        if len(letters) >= _LONG_BYTES:
            short = _sum(block.key for block in main if block.word_count < _SHORT_WORDS)
            form = _digest(title, points, short, beside, *described)
    return PageSketch(whole, title, points, form, _digest(*stated) if stated else 0, _simhash(letters))


def _parts(main: Iterable[TextBlock]) -> tuple[str, list[str], list[str]]:
    """Return the text without the targets of its links, these, and the sorted addresses of its images."""
    text = "\n".join([block.markdown for block in main])[:_MOST_CHARS]
    if "](" not in text:
        return text, [], []
    images = sorted(_IMAGE.findall(text)) if "![" in text else []
    parts = _TARGET.split(text)
    return "]".join(parts[::2]), parts[1 : 2 * _MOST_LINKS : 2], images


def _from_title(main: Sequence[TextBlock]) -> Sequence[TextBlock]:
    """Leave out the way to a page, which stands above its title and is another one at another address."""
    title = next((at for at, block in enumerate(main[:_WAY_BLOCKS]) if block.markdown.startswith("# ")), 0)
    return [*(block for block in main[:title] if not _is_way(block)), *main[title:]] if title else main


def _is_way(block: TextBlock) -> bool:
    has_number = _NUMBER.search(_LINK.sub("", block.markdown[:_SIMHASH_CHARS])) is not None
    return block.word_count <= _WAY_WORDS and not has_number


def _digest(*parts: object) -> int:
    text = "\n".join(map(str, parts)).encode("utf-8", "replace")
    return int.from_bytes(blake2b(text, digest_size=8).digest(), "big")


def _sum(keys: Iterable[int]) -> int:
    """Return a digest of blocks that is the same in any order of them, as lists are sorted in several ways."""
    return sum(keys) & _MASK


def _is_stamp(block: TextBlock) -> bool:
    text = block.markdown
    return len(text) <= _STAMP_CHARS and _MOMENT.search(text) is not None and _STAMP.search(text) is not None


def _others(targets: Iterable[str], urls: Iterable[str]) -> Iterator[str]:
    """Yield the links to other pages, as paths: those below a page's own urls, and to its other orders, are its own."""
    own = [path for url in urls if (path := relative_url(url).partition("?")[0].rstrip("/"))]
    for target in targets:
        is_plain = "?" not in target and ";" not in target and "(" not in target
        path = relative_url(target if is_plain else normalise(target) or target)  # without the ids of visits
        if not any(path.startswith(one) and path[len(one) :][:1] in ("", "/", "?", "#") for one in own):
            yield path


def _path(url: str) -> str:
    return url.partition("://")[2].partition("/")[2]


def _beside(blocks: Sequence[TextBlock], main: Sequence[TextBlock]) -> int:
    """Return a digest of the blocks that stand with the title and the main text in one container, and are no part of
    it: a price may be one, or a name. Teasers are not: they are links.
    """
    title = next((block for block in blocks if block.markdown.startswith("# ")), main[0])
    regions = {title.region, *(block.region for block in main)}
    low, high = min(regions), max(regions)  # what these have in common, all have
    level = next((at for at, (one, other) in enumerate(zip(low, high, strict=False)) if one != other), len(low))
    chosen = set(map(id, main))
    found = (block for block in blocks if id(block) not in chosen and block.region[:level] == low[:level])
    return _sum(block.key for block in found if _has_text(block) and not _is_stamp(block))


def _has_text(block: TextBlock) -> bool:
    """Tell whether there is any text in a block that is no link."""
    text = block.markdown[:_SIMHASH_CHARS]
    return "](" not in text or _WORD.search(_LINK.sub("", text)) is not None


def _stated(objects: Iterable[dict[str, Any]]) -> Iterator[str]:
    """Yield ids and prices of things, in whatever depth, up to a limit of values looked at."""
    waiting: list[Any] = list(objects)
    for _ in range(_MOST_STATED):
        if not waiting:
            return
        value = waiting.pop()
        if isinstance(value, list):
            waiting += value[:_MOST_STATED]
        elif isinstance(value, dict):
            for name, part in value.items():
                if isinstance(part, (dict, list)):
                    waiting.append(part)
                elif name in _STATED or name.startswith("gtin"):
                    yield f"{name}={_path(str(part)) if name.endswith('Url') else str(part).removesuffix('.0')}"


def _simhash(letters: bytes) -> int:
    if len(letters) < _RUN:
        return 0
    starts = range(min(_RUN, len(letters) - _RUN + 1))
    runs = np.concatenate([np.frombuffer(letters, "<u8", (len(letters) - at) // _RUN, at) for at in starts])
    hashes = runs * _ODD
    hashes ^= hashes >> _HALF
    hashes *= _ODD
    if len(hashes) > _FEW_RUNS:
        hashes = hashes[hashes & _LEFT_OUT == 0]
        hashes *= _ODD
    hashes ^= hashes >> _HALF
    bits = np.unpackbits(hashes.view(np.uint8).reshape(-1, _RUN), axis=1)
    ones = np.ones(len(hashes), np.float32) @ bits.astype(np.float32)  # a product of matrices is the quickest sum
    return int.from_bytes(np.packbits(2 * ones > len(hashes)).tobytes(), "big")
