"""Page types that a crawl tells apart: the default set, or the user's own."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Final, Self

from llmcrawler.errors import ConfigError

# Characters that model providers allow in an enum, and that a file name and a stat's name can hold.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}\Z")
_MAX_DESCRIPTION_CHARS = 500
FALLBACK_TYPE = "other"


@dataclass(frozen=True, slots=True)
class PageType:
    """A kind of page. The model reads `description`: it says what decides between this type and its neighbours."""

    name: str
    description: str


class PageTypes(tuple[PageType, ...]):
    """Page types in the order given: at least two, with distinct names. Raises ConfigError otherwise."""

    __slots__ = ()

    def __new__(cls, types: Iterable[PageType]) -> Self:
        made = super().__new__(cls, types)
        if len(made) < 2:
            raise ConfigError(f"page types: {len(made)} given; at least 2 are needed")
        seen = set()
        for name in made.names:
            if not _NAME.match(name):
                raise ConfigError(
                    f"page types: {name!r} is not a name: at most 64 letters, digits, '_', '-' and '.', no mark first"
                )
            if name.casefold() in seen:
                raise ConfigError(f"page types: {name!r} occurs twice")
            seen.add(name.casefold())
        return made

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(one.name for one in self)

    @property
    def fallback(self) -> str | None:
        """The type of a page that is none of the others: "other" where the set has it."""
        return FALLBACK_TYPE if FALLBACK_TYPE in self.names else None


def load_page_types(path: Path | Traversable) -> PageTypes:
    """Read a JSON object of name -> description. Raises ConfigError with what is wrong and where."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"page_types={path}: cannot be read: {error}") from error
    try:
        # As pairs: a dict would hide a name that occurs twice.
        pairs = json.loads(text, object_pairs_hook=tuple)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"page_types={path}: not JSON: {error}") from error
    if not isinstance(pairs, tuple):
        raise ConfigError(
            f'page_types={path}: must be a JSON object of name -> description, like {{"article": "a news story"}}'
        )
    types = []
    for name, description in pairs:
        if not isinstance(description, str):
            raise ConfigError(f"page_types={path}: the description of {name!r} is not a string")
        types.append(PageType(name, " ".join(description.split())))
        if (size := len(types[-1].description)) > _MAX_DESCRIPTION_CHARS:
            raise ConfigError(
                f"page_types={path}: the description of {name!r} has {size} characters; more than "
                f"{_MAX_DESCRIPTION_CHARS} would be paid for in every call"
            )
    try:
        return PageTypes(types)
    except ConfigError as error:
        raise ConfigError(f"page_types={path}: {error}") from error


# Its descriptions are short, as every call repeats them; each says what decides against its near neighbours.
DEFAULT_PAGE_TYPES = load_page_types(files("llmcrawler.core.understanding.classification").joinpath("page_types.json"))


MODEL_KINDS: Final = ("article", "collection", "documentation", "forum", "listing", "product", "service")
# Known types -> the names that a set may have for them, the most fitting first. MODEL_KINDS are those of the trained
# model, the others are known to rules only.
KNOWN_NAMES: Final[dict[str, tuple[str, ...]]] = {
    kind: tuple(names.split())
    for kind, names in {
        "article": "article blog_post news_article post news story blog news_story press_release essay",
        "collection": "collection category product_listing product_list shop_category product_category catalog "
        "catalogue plp shop listing",
        "documentation": "documentation docs doc guide manual help tutorial help_article knowledge_base wiki how_to",
        "forum": "forum_thread thread discussion forum forum_topic forum_post topic message_board question",
        "listing": "listing index archive list article_listing article_list blog_index overview directory "
        "collection category",
        "product": "product item product_detail pdp offer goods",
        "service": "service landing_page services landing solution solutions",
        "login": "login sign_in signin log_in",
        "signup": "signup sign_up registration register",
        "search": "search search_results search_result",
        "contact": "contact contact_us",
        "about": "about about_us",
        "legal": "legal privacy terms policy imprint privacy_policy",
        "faq": "faq faqs",
        "pricing": "pricing prices plans",
        "job": "job job_posting vacancy job_ad job_offer",
        "event": "event",
        "profile": "profile person author user member people",
        "error": "error not_found",
        "recipe": "recipe",
        "homepage": "homepage home home_page front_page start_page",
        "api_reference": "api_reference api api_docs",
        "question": "question qa q_and_a q_a",
        "download": "download release downloads releases",
        "review": "review test_report",
        "forum_thread": "forum_thread thread discussion forum forum_topic",
    }.items()
}
# Words of a description that name a known type; many names are common words, and say nothing there.
_DESCRIBING: Final = {
    word: kind
    for kind, words in {
        "article": "article blog_post news_story news_item news_article essay press_release",
        "collection": "category collection catalog catalogue",
        "documentation": "documentation manual tutorial guide how_to",
        "forum": "forum thread discussion",
        "listing": "listing archive directory",
        "product": "product",
        "service": "service landing_page",
        "faq": "faq frequently_asked",
        "job": "vacancy job_offer job_posting",
        "event": "event",
        "recipe": "recipe",
    }.items()
    for word in words.split()
}
_FILLERS: Final = frozenset({"page", "pages", "single", "detail", "details", "view", "a", "an", "the"})
_WORD: Final = re.compile(r"[a-z]+")
# What comes behind these in a description is what the type is not, or beside it.
_ASIDE: Final = re.compile(r"\bnot\b|\bno\b|\bbut\b|\brather\b|\bwithout\b|\bexcept\b|[;(]")
_MANY: Final = re.compile(r"\A\W*(?:many|several|multiple)\b|\b(?:list|index|overview|archive|grid)s? of\b")
_OF_A_SHOP: Final = re.compile(r"\b(?:products?|shop|store|items|goods)\b")


def labels_of_kinds(page_types: PageTypes) -> dict[str, str]:
    """Return, for each kind of the model that the set has a type for, the label of that."""
    return {kind: label for kind, label in labels_of_known(page_types).items() if kind in MODEL_KINDS}


def labels_of_known(page_types: PageTypes) -> dict[str, str]:
    """Return the label of the set for each known type that it has, by name or, where no name tells, by description."""
    by_name = {_plain(one.name): one.name for one in page_types}
    found = {
        kind: by_name[known[0]]
        for kind, names in KNOWN_NAMES.items()
        if (known := [name for name in names if name in by_name])
    }
    for one in page_types:
        if one.name not in (page_types.fallback, *found.values()) and (kind := _described_kind(one, found)):
            found[kind] = one.name
    return found


def _plain(name: str) -> str:
    return "_".join(word for word in _WORD.findall(name.casefold()) if word not in _FILLERS)


def _described_kind(one: PageType, taken: Mapping[str, str]) -> str | None:
    """Return the known type that the first words of a description name, unless the set has another type for it."""
    said = _ASIDE.split(one.description.casefold(), maxsplit=1)[0]
    words = [word.removesuffix("s") for word in _WORD.findall(said)]
    named = (_DESCRIBING.get("_".join(words[at : at + size])) for at in range(len(words)) for size in (2, 1))
    kind = next(filter(None, named), None)
    if _MANY.search(said):
        kind = "collection" if _OF_A_SHOP.search(said) else "listing"
    return None if kind in taken else kind
