"""Values that travel between the layers: the items of the feed, and what a page was read into."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar, Final, NamedTuple, Self

# What decided a page type, and the evidence of a selector, where a person has corrected what was learned.
PERSON: Final = "person"


@dataclass(frozen=True, slots=True)
class PageError:
    """The reason that a page has no (full) result. `stage` is fetch, content, classify or record."""

    stage: str
    kind: str
    message: str
    attempts: int = 1


@dataclass(frozen=True, slots=True)
class StageRun:
    """A page's run through one stage. `status` is success, failed or skipped, or running where it may take the process
    down; `started` is in seconds since 1970.
    """

    status: str
    error: str | None
    attempts: int
    started: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Link:
    """An absolute http(s) url as the page gives it (not yet normalised), its anchor text, and where on the page it
    stands: the same for the links of one list, and on all pages of a template.
    """

    url: str
    text: str = ""
    place: str = ""


@dataclass(frozen=True, slots=True)
class TextBlock:
    """A piece of a page's text in document order.

    `score` is the page's own evidence that the block is main content, in 0..1. `key` is a hash of the folded text, the
    same on every page of a site that shows the block: what repeats is boilerplate. Blocks with the same `unit` but 0
    stand next to each other and are one thing (rows of a table, a list of definitions), kept or left as a whole.
    `region` has a number for each container that the block stands in, the outermost first: a hash of the path to it, of
    tags and classes, and so the same on all pages of a template.
    """

    markdown: str
    word_count: int
    score: float
    key: int
    unit: int = 0
    region: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class PageContent:
    """Everything that one parse of a page yields. It can be pickled: costly pages are read in another process.

    `kinds` has the probability of each kind that the trained model knows (article, product, ...), by name; it may be
    worked out only when it is looked at. `robots` is what meta elements say to robots, by the robot's name
    ("robots": to all).
    """

    title: str = ""
    lang: str = ""
    links: tuple[Link, ...] = ()
    blocks: tuple[TextBlock, ...] = ()
    metadata: dict[str, str] = field(default_factory=dict)
    structured_data: tuple[dict[str, Any], ...] = ()
    features: frozenset[str] = frozenset()
    cues: dict[str, float] = field(default_factory=dict)
    kinds: Mapping[str, float] = field(default_factory=dict)
    robots: dict[str, str] = field(default_factory=dict)


class MainText(NamedTuple):
    """The main content of a page as Markdown, its hash, and a PageSketch where duplicates are looked for."""

    text: str
    content_hash: str
    sketch: tuple[int, ...] | None


class FeedLine:
    """A line of the feed: the fields of a dataclass, one of them an `error`."""

    error: PageError | None
    __dataclass_fields__: ClassVar[dict[str, Any]]

    @classmethod
    def of_line(cls, line: dict[str, Any]) -> Self:
        """Return the item that `as_line` gave this of."""
        error = line.get("error")
        return cls(**{**line, "error": PageError(**error) if error else None})

    def as_line(self) -> dict[str, Any]:
        line = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return {**line, "error": None if self.error is None else asdict(self.error)}


@dataclass
class Page(FeedLine):
    """A page line of the feed: every url that was tried gives exactly one. `robots` is what it says to robots."""

    url: str
    kind: str = "page"
    final_url: str | None = None
    status: int | None = None
    depth: int = 0
    referer: str | None = None
    title: str | None = None
    lang: str | None = None
    page_type: str | None = None
    confidence: float | None = None
    decided_by: str | None = None
    template: str | None = None
    record: dict[str, Any] | None = None
    record_by: str | None = None
    text: str | None = None
    content_hash: str | None = None
    fetched_at: str | None = None
    latency_seconds: float | None = None
    results: dict[str, Any] | None = None
    robots: list[str] | None = None
    change: str | None = None
    rights: dict[str, Any] | None = None
    duplicate_of: str | None = None
    key: str | None = None
    meta: Any = None
    error: PageError | None = None

    def withhold(self, *kept: str) -> None:
        """Take out what was read of the page's content, but for the fields `kept`, and have all stages pass it."""
        self.is_withheld = True
        for name in _OF_CONTENT:
            if name not in kept:
                setattr(self, name, None)

    def __post_init__(self) -> None:
        # Values that stages pass on to each other: no fields, so that no exporter sees them.
        self.content: PageContent | None = None
        self.main: MainText | None = None  # where it was taken when the page was read
        self.block_facts: Sequence[tuple[int, int, bool, bool]] | None = None  # likewise, for ListPatterns
        self.id = self.url  # of its task in the frontier and the ledger
        self.html: str | None = None
        self.is_withheld = False  # its content is not to be taken: all stages pass it
        self.sketch: tuple[int, ...] | None = None  # a PageSketch, where duplicates are looked for
        self.stages: dict[str, StageRun] = {}
        # What was asked and answered (core/storage/archives), where a feed is an archive; None: withheld.
        self.exchanges: Sequence[Any] | None = None


_OF_CONTENT = (
    *("title", "lang", "page_type", "confidence", "decided_by", "template", "record", "record_by", "text"),
    *("content_hash", "results"),
)


# Of a url; the one that says most about it first. Jobs keep their places in this list.
SOURCES: Final = ("start", "sitemap", "feed", "llms.txt", "link")


@dataclass(frozen=True, slots=True)
class UrlSource:
    """The place where a url of a map was found (one of SOURCES), and what is said of the url there."""

    source: str
    lastmod: str | None = None
    title: str | None = None

    def merged(self, other: UrlSource) -> UrlSource:
        """Combine two places that name the same url; what the first one says goes before."""
        return UrlSource(
            min(self.source, other.source, key=SOURCES.index), self.lastmod or other.lastmod, self.title or other.title
        )


@dataclass
class Url(FeedLine):
    """A url line of a map. `status`, `robots`, and `error` where it failed, are there only if the url was fetched."""

    url: str
    kind: str = "url"
    source: str = "link"
    lastmod: str | None = None
    depth: int = 0
    referer: str | None = None
    title: str | None = None
    status: int | None = None
    final_url: str | None = None
    robots: list[str] | None = None
    error: PageError | None = None

    def __post_init__(self) -> None:
        self.id = self.url  # of its task in the frontier and the ledger
        self.stages: dict[str, StageRun] = {}
        self.latency_seconds: float | None = None

    @property
    def was_tried(self) -> bool:
        return self.status is not None or self.error is not None


FeedItem = Page | Url  # the item that a leased url leads to


def feed_item_of(line: dict[str, Any]) -> FeedItem:
    return Url.of_line(line) if line.get("kind") == "url" else Page.of_line(line)


@dataclass
class Template:
    """A template line of the feed: a group of pages that one template of the site made. `aliases` are ids that were
    merged into this one after page lines with them had been written. `confidence` is that of the page type, `purity`
    the share of its pages that look like that type by themselves; both are in 0..1.
    """

    template: str
    kind: str = "template"
    page_type: str | None = None
    confidence: float | None = None
    purity: float | None = None
    url_pattern: str | None = None
    page_count: int = 0
    examples: list[str] = field(default_factory=list)
    schema: dict[str, Any] | None = None
    selectors: list[dict[str, Any]] = field(default_factory=list)
    llm_calls: int = 0
    aliases: list[str] = field(default_factory=list)
