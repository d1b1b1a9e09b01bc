"""Finds the pages of a site that show what a page before them has shown, at another url.

A page is sketched in numbers. Exact digests stand for what decides: the title, headings, numbers and images, and the
main text as a whole. Near equality of the words is told by a SimHash (Charikar 2002, "Similarity estimation techniques
from rounding algorithms") over runs of eight letters, 64 bits, by numpy.
"""

from __future__ import annotations

import base64
import re
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Any, Final, NamedTuple, Self

import numpy as np

from llmcrawler.core.urls import names_variant, normalise, relative_url, site_name, variant_key
from llmcrawler.items import Page, PageContent, TextBlock

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
_WAY_BLOCKS: Final = 8
_WAY_WORDS: Final = 12
_IDENTIFYING: Final = frozenset(("sku", "mpn", "productID", "price", "lowPrice", "highPrice", "contentUrl", "embedUrl"))
_MOST_VALUES: Final = 200


class PageSketch(NamedTuple):
    """Numbers of 64 bits. `content`: all that the page says, 0 where that is too little; `title`: with the language;
    `points`: headings, numbers, images and links of the main text; `form`: these, the title, the description and all
    short lines, 0 where the text is not long; `structured`: ids and prices that the page states for machines, 0 without
    any; `words`: the SimHash of the main text.
    """

    content: int
    title: int
    points: int
    form: int
    structured: int
    words: int


def sketch_page(content: PageContent, main: Sequence[TextBlock], url: str) -> PageSketch:
    """Sketch the page at `url`, whose main text is in the blocks `main`, in time linear in the page."""
    # The way to a page stands above its title, and is another one at another address.
    title_at = next((at for at, block in enumerate(main[:_WAY_BLOCKS]) if block.markdown.startswith("# ")), 0)
    above = [one for one in main[:title_at] if one.word_count > _WAY_WORDS or _has_number(one)]
    main = [*above, *main[title_at:]]
    text, targets, images = _parts(main)
    letters = text[:_SIMHASH_CHARS].lower().encode("utf-8", "replace").translate(None, _NO_LETTERS)
    title = _digest(content.lang.lower(), _TITLE_VIEW.sub(" ", content.title.lower()).strip())
    headings = [block.key for block in main if "# " in block.markdown[:20]]
    links = sorted(_others(targets, (url, content.metadata.get("canonical", ""))))
    points = _digest(_sum(headings) if headings else title, *_NUMBER.findall(text), *images, *links)
    structured = sorted(_identifiers(content.structured_data))
    whole = form = 0
    if len(letters) >= _LEAST_BYTES:
        said = _sum(block.key for block in main)
        described = (content.metadata.get("description", ""), _path(content.metadata.get("og:image", "")))
        beside = _beside(content.blocks, main)
        whole = _digest(title, said, beside, *described, *structured, *images, *links)
        if len(letters) >= _LONG_BYTES:
            short = _sum(block.key for block in main if block.word_count < _SHORT_WORDS)
            form = _digest(title, points, short, beside, *described)
    return PageSketch(whole, title, points, form, _digest(*structured) if structured else 0, _simhash(letters))


def _parts(main: Iterable[TextBlock]) -> tuple[str, list[str], list[str]]:
    """Return the text without the targets of its links, these, and the sorted addresses of its images."""
    text = "\n".join([block.markdown for block in main])[:_MOST_CHARS]
    if "](" not in text:
        return text, [], []
    images = sorted(_IMAGE.findall(text)) if "![" in text else []
    parts = _TARGET.split(text)
    return "]".join(parts[::2]), parts[1 : 2 * _MOST_LINKS : 2], images


def _has_number(block: TextBlock) -> bool:
    return _NUMBER.search(_LINK.sub("", block.markdown[:_SIMHASH_CHARS])) is not None


def _digest(*parts: object) -> int:
    return _hash("\n".join(map(str, parts)))


def _key(url: str) -> int:
    return _hash(variant_key(url))


def _hash(text: str) -> int:
    return int.from_bytes(blake2b(text.encode("utf-8", "replace"), digest_size=8).digest(), "big")


def _sum(keys: Iterable[int]) -> int:
    """Return a digest of blocks that is the same in any order of them, as lists are sorted in several ways."""
    return sum(keys) & _MASK


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
    """Return a digest of the blocks in the container of title and main text that are no part of it, such as a price.
    Teasers are left out: they are links.
    """
    title = next((block for block in blocks if block.markdown.startswith("# ")), main[0])
    regions = {title.region, *(block.region for block in main)}
    low, high = min(regions), max(regions)  # what these have in common, all have
    level = next((at for at, (one, other) in enumerate(zip(low, high, strict=False)) if one != other), len(low))
    chosen = set(map(id, main))
    found = (block for block in blocks if id(block) not in chosen and block.region[:level] == low[:level])
    texts = ((block, block.markdown[:_SIMHASH_CHARS]) for block in found)
    return _sum(block.key for block, text in texts if "](" not in text or _WORD.search(_LINK.sub("", text)))


def _identifiers(objects: Iterable[dict[str, Any]]) -> Iterator[str]:
    """Yield ids and prices of things, in whatever depth, up to a limit of values looked at."""
    waiting: list[Any] = list(objects)
    for _ in range(_MOST_VALUES):
        if not waiting:
            return
        value = waiting.pop()
        if isinstance(value, list):
            waiting += value[:_MOST_VALUES]
        elif isinstance(value, dict):
            for name, part in value.items():
                if isinstance(part, (dict, list)):
                    waiting.append(part)
                elif name in _IDENTIFYING or name.startswith("gtin"):
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


DUPLICATES: Final = "duplicates"  # the name of DuplicateFinder in the file of learned templates
MAX_PAGES: Final = 20_000  # of one site that are remembered
# Bits of 64 in which the words of two pages may differ: of any two; of variants, by their urls; and of those where more
# speaks for it. Pages of one template differ in some 25, others in 32, variants of one in 0 to 20.
_NEAR_ALONE: Final = 3  # where nothing else speaks for it: a hundredth of the words
_NEAR: Final = 10
_NEAR_VIEWS: Final = 18
_NEAR_SURE: Final = 26
_HEAD: Final = struct.Struct(">Q6QH")  # the key of an address, a sketch, bytes of the url that follows


class _FirstPage(NamedTuple):
    """A first page, as it is met at an address: its own, or that of a page which repeats it."""

    key: int
    sketch: PageSketch
    url: str

    def pack(self) -> bytes:
        url = self.url.encode("utf-8", "replace")
        return _HEAD.pack(self.key, *self.sketch, len(url)) + url

    @classmethod
    def unpack(cls, row: bytes) -> Self:
        key, *sketch, _ = _HEAD.unpack_from(row)
        return cls(key, PageSketch(*sketch), row[_HEAD.size :].decode("utf-8", "replace"))


class DuplicateFinder:
    """A part of what is learned of a site (TemplateStore). `since` names the crawl whose pages are compared: one that
    fetches its pages anew finds their duplicates anew. None names a crawl that is never resumed.
    """

    def __init__(self, since: float | None = None) -> None:
        self._since = since
        self._sites: dict[str, DuplicateIndex] = {}
        self._earlier: dict[str, DuplicateIndex] = {}  # of the crawl before

    def judge(self, page: Page) -> None:
        """Say of a page that has a sketch which one it repeats, in `duplicate_of`, or remember it as a first one."""
        if page.sketch is not None and page.content is not None:
            sketch, canonical = PageSketch(*page.sketch), page.content.metadata.get("canonical")
            index, address = self._of(page), page.final_url or page.url
            page.duplicate_of = index.first_of(page.url, sketch, address=address, canonical=canonical)

    def restore_page(self, page: Page) -> None:
        if page.sketch is not None:
            address = page.final_url or page.url
            self._of(page).restore(page.url, PageSketch(*page.sketch), address=address, first=page.duplicate_of)

    def keep_unchanged(self, page: Page) -> None:
        """Remember a page that is what it was in the crawl before, and was not read again."""
        earlier, address = self._earlier.get(site_name(page.url)), page.final_url or page.url
        if earlier is not None and (sketch := earlier.sketch_of(page.url, address)) is not None:
            self._of(page).restore(page.url, sketch, address=address, first=None)

    def to_json(self, site: str) -> dict[str, Any]:
        index = self._sites.get(site)
        pages = "" if index is None or self._since is None else index.to_json()
        return {"since": self._since, "pages": pages}

    def restore(self, site: str, value: Any, origin: str) -> None:  # noqa: ARG002 - as other parts
        since, index = read_duplicates(value)
        (self._sites if since == self._since else self._earlier)[site] = index

    def describe(self, site: str, template: str) -> Mapping[str, Any]:  # noqa: ARG002 - as other parts
        return {}

    def _of(self, page: Page) -> DuplicateIndex:
        return self._sites.setdefault(site_name(page.url), DuplicateIndex())


def read_duplicates(value: Any) -> tuple[Any, DuplicateIndex]:
    """Read what `DuplicateFinder.to_json` gave: `since` and the pages. Raises ValueError for anything else."""
    try:
        return value["since"], DuplicateIndex.from_json(value["pages"])
    except (TypeError, KeyError) as error:
        raise ValueError(f"not the pages of a site: {error!r}") from error


class DuplicateIndex:
    """Remembers the first pages of one site, and tells of each page that follows which of them it repeats.

    A page repeats another one if all that it says is the same, with its title, language, numbers, images and ids; or if
    its words are nearly the same and the site declares them one: by a canonical link (then headings, numbers, images
    and links agree too), or by a url that differs only in what names a variant. Of more than `max_pages` the one not
    met for longest goes first.
    """

    def __init__(self, max_pages: int = MAX_PAGES) -> None:
        self._max_pages = max_pages
        # Rows are kept packed: half of the memory, and saved as they are.
        self._by_address: dict[int, bytes] = {}
        self._by_content: dict[int, bytes] = {}
        self._by_form: dict[int, bytes] = {}

    def first_of(self, url: str, sketch: PageSketch, *, address: str, canonical: str | None = None) -> str | None:
        """Return the url of the page that this one repeats; None for the first of its kind, which is remembered.
        `address` is the url that answered, after redirects.
        """
        own, named = _key(address), None if canonical is None else normalise(canonical)
        # It tells something where it names another page of the same site, but not the front page: a common blunder
        # names that on all pages.
        if named == address or (named and (relative_url(named) == "/" or site_name(named) != site_name(address))):
            named = None
        first = self._repeated(sketch, address, named)
        if first is None or first.url == url:
            page = _FirstPage(own, sketch, url)
            self._remember(page)
            if named is not None and _key(named) not in self._by_address:  # that page is still to come, or never will
                self._remember(page._replace(key=_key(named)))
            return None
        self._remember(first)
        self._remember(first._replace(key=own))
        return first.url

    def restore(self, url: str, sketch: PageSketch, *, address: str, first: str | None) -> None:
        """Remember what an earlier run of the crawl has found of a page: it is the first, or repeats `first`."""
        self._remember(_FirstPage(_key(address), sketch, first or url))

    def sketch_of(self, url: str, address: str) -> PageSketch | None:
        row = self._at(_key(address))
        return row.sketch if row is not None and row.url == url else None

    def to_json(self) -> str:
        return base64.b64encode(b"".join(self._by_address.values())).decode()

    @classmethod
    def from_json(cls, value: str) -> Self:
        """Return the index that `to_json` gave this of. Raises ValueError for anything else."""
        index, data, at = cls(), base64.b64decode(value, validate=True), 0
        while at < len(data):
            head = data[at : at + _HEAD.size]
            if len(head) < _HEAD.size:
                raise ValueError("the list of pages is cut off")
            key, *sketch, size = _HEAD.unpack(head)
            at += len(packed := data[at : at + _HEAD.size + size])
            index._add(key, PageSketch(*sketch), packed)
        return index

    def _repeated(self, sketch: PageSketch, address: str, named: str | None) -> _FirstPage | None:
        """Return the first page that agrees: the named one, a variant by its url or naming, else one of the same
        content.
        """
        own = _key(address)
        if named is not None and (first := self._at(_key(named))) is not None:
            is_own = _key(named) == own  # a page that names itself tells nothing of its variants
            is_variant = is_own or names_variant(address) or names_variant(named)
            if _agree(sketch, first.sketch, is_variant=is_variant, is_declared=not is_own or named == first.url):
                return first
        if (first := self._at(own)) is not None:
            is_declared = _key(first.url) != own  # by that page
            is_variant = not is_declared or names_variant(address) or names_variant(first.url)
            if _agree(sketch, first.sketch, is_variant=is_variant, is_declared=is_declared):
                return first
        if sketch.content and (row := self._by_content.get(sketch.content)) is not None:
            return _FirstPage.unpack(row)
        if not sketch.form or (row := self._by_form.get(sketch.form)) is None:
            return None
        first = _FirstPage.unpack(row)
        is_near = _difference(sketch, first.sketch) <= _NEAR_ALONE and sketch.structured == first.sketch.structured
        return first if is_near else None

    def _at(self, key: int) -> _FirstPage | None:
        row = self._by_address.get(key)
        return None if row is None else _FirstPage.unpack(row)

    def _remember(self, page: _FirstPage) -> None:
        self._forget(page.key)
        self._add(page.key, page.sketch, page.pack())
        if len(self._by_address) > self._max_pages:
            self._forget(next(iter(self._by_address)))

    def _add(self, key: int, sketch: PageSketch, packed: bytes) -> None:
        self._by_address[key] = packed
        if sketch.content:
            self._by_content.setdefault(sketch.content, packed)
        if sketch.form:
            self._by_form.setdefault(sketch.form, packed)

    def _forget(self, key: int) -> None:
        row = self._by_address.pop(key, None)
        if row is None:
            return
        sketch = _FirstPage.unpack(row).sketch
        for known, digest in ((self._by_content, sketch.content), (self._by_form, sketch.form)):
            if known.get(digest) is row:
                del known[digest]


def _agree(one: PageSketch, other: PageSketch, *, is_variant: bool, is_declared: bool) -> bool:
    """Tell whether two pages may be one. `is_variant`: by urls, but for the variant; `is_declared`: by the site."""
    if one.structured and other.structured and one.structured != other.structured:
        return False
    if one.content and one.content == other.content:
        return True
    difference, has_same_points = _difference(one, other), one.points == other.points
    if not is_variant:
        return has_same_points and difference <= _NEAR
    is_named = one.title == other.title
    is_sure = has_same_points or (is_declared and is_named)
    return (is_declared or is_named) and difference <= (_NEAR_SURE if is_sure else _NEAR_VIEWS)


def _difference(one: PageSketch, other: PageSketch) -> int:
    return (one.words ^ other.words).bit_count()
