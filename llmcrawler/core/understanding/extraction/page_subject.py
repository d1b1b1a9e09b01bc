"""Finds the thing that a page is about among the objects that the page describes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

Object = dict[str, Any]

# Families of types: the words that names of page types have for them, and schema.org's types.
_FAMILIES: Final = tuple(
    (family, frozenset(words.split()), re.compile(rf"(?:{types})\Z"))
    for family, words, types in (
        ("job", "job jobs vacancy position career", "JobPosting"),
        ("forum", "forum thread discussion topic", r"DiscussionForumPosting|SocialMediaPosting"),
        ("article", "article articles news blog story report", r"\w*Article|BlogPosting|LiveBlogPosting|Report"),
        ("product", "product products item shop", r"Product\w*|IndividualProduct|SomeProducts|Vehicle|Car|Motorcycle"),
        ("recipe", "recipe recipes", r"Recipe|HowTo"),
        ("event", "event events concert show", r"Event|[A-Z]\w+Event|Festival|EventSeries"),
        ("book", "book books", r"Book|Audiobook"),
        ("film", "movie film video episode series", r"Movie|TVSeries|TVEpisode|Episode|VideoObject|Clip"),
        ("music", "album song music track", r"MusicAlbum|MusicRecording|MusicComposition|MusicGroup"),
        ("software", "software app application package", r"\w+Application|SoftwareSourceCode|VideoGame"),
        ("course", "course courses class training", r"Course|CourseInstance|EducationalOccupationalProgram"),
        ("question", "question questions qa answer", r"Question"),
        ("home", "property house flat apartment", r"RealEstateListing|House|Apartment|Residence|Accommodation"),
        ("dataset", "dataset data", r"Dataset"),
        ("trip", "trip tour travel", r"TouristTrip|TouristAttraction|Trip"),
        ("place", "place business company store restaurant hotel organization location",
         r"LocalBusiness|Organization|Corporation|Store|Restaurant|Hotel|Place|\w+(?:Store|Business|Organization|Shop)"),
        ("person", "person people profile author team member", r"Person|Physician|ProfilePage"),
        ("faq", "faq", "FAQPage"),
        ("review", "review reviews", r"Review|CriticReview"),
    )
)  # fmt: skip
# Parts of other things, of the site or of a page's frame. Some are what a page of their own family is about.
_FRAME: Final = re.compile(
    r"(?:BreadcrumbList|ListItem|ItemList|OfferCatalog|WebSite|SearchAction|SiteNavigationElement|WP\w+|WebPageElement"
    r"|\w*Page|ImageObject|ImageGallery|AudioObject|MediaObject|VideoObject|Clip|Rating|AggregateRating|Offer"
    r"|AggregateOffer|Person|PostalAddress|Place|GeoCoordinates|ContactPoint|Organization|\w+Organization|Corporation"
    r"|LocalBusiness|Brand|Comment|UserComments|Answer|Review|QuantitativeValue|PropertyValue|OpeningHoursSpecification"
    r"|Blog|Thing|CreativeWork|DataFeed|Store|Country|Language|InteractionCounter|EntryPoint|Action|Question|\w*Business|\w+Service)\Z"
)
_PAGE: Final = re.compile(r"(?:\w*Page|Blog|CreativeWork|Thing)\Z")
_VOCABULARY_END: Final = re.compile(r"[/:#]")
_OF_HOSTS: Final = frozenset("address telephone sameAs logo contactPoint geo openingHours legalName email".split())
_WORD: Final = re.compile(r"\w{2,}")
_SURE: Final = 6  # the page is called by just that name
_MAX_CANDIDATES: Final = 300
_MAX_NAME_CHARS: Final = 500


@dataclass(frozen=True, slots=True)
class PageNames:
    """What a page is called and where it is: its addresses without scheme and fragment, its titles folded."""

    addresses: frozenset[str]
    titles: tuple[str, ...]

    @classmethod
    def of(cls, urls: Iterable[str], titles: Iterable[str]) -> PageNames:
        known = frozenset(address for url in urls if (address := _address(url)))
        return cls(known, tuple(dict.fromkeys(name for title in titles if (name := _folded(title)))))


@dataclass(frozen=True, slots=True)
class Subject:
    """What a page is about by one source: the objects that describe it, the best first; those that describe the page
    itself; and the subject's type and family, "" where there is none."""

    objects: tuple[Object, ...]
    pages: tuple[Object, ...]
    kind: str = ""
    family: str = ""


def family_of_page(page_type: str) -> str:
    """Return the family of types that a page type's name speaks of, "" for none."""
    words = set(_WORD.findall(page_type.lower().replace("_", " ").replace("-", " ")))
    return next((family for family, names, _ in _FAMILIES if words & names), "")


def family_of_type(kind: str) -> str:
    return next((family for family, _, types in _FAMILIES if types.match(kind)), "")


def types_of(one: Object) -> list[str]:
    declared = one.get("@type")
    names = declared if isinstance(declared, list) else [declared]
    parts = [
        name.rstrip("/").rpartition("/")[2].rpartition(":")[2].rpartition("#")[2]
        for name in names[:20]
        if isinstance(name, str)
    ]
    return [name for name in parts if name]


def find_subject(objects: Sequence[Object], page: PageNames, family: str) -> Subject:
    """Return the thing that a page of such a family ("" for any) is about.

    That is named as the page is, or has its address; one that is neither is taken where it is the only one of its
    family and the page is of that too. Objects of the same name describe it as well."""
    candidates = [(one, kind) for one in _candidates(objects) if (kind := _kind(one, family)) is not None]
    pages = tuple(one for one in objects if any(_PAGE.match(name) for name in types_of(one)))
    scored = []
    for one, kind in candidates:
        # The firm or the school whose site it is, of which there are a hundred types, is not what its pages are about.
        is_of_page = family_of_type(kind) == family if family else bool(page.addresses & set(_addresses(one)))
        if is_of_page or len(_OF_HOSTS & one.keys()) < 2:
            scored.append((_closeness(one, page), kind, one))
    if family:
        # A page of another kind may have its type from its looks; themes of shops call every page an article.
        scored = [one for one in scored if family_of_type(one[1]) == family] or [
            one for one in scored if one[0] >= _SURE and family_of_type(one[1]) != "article"
        ]
    best = max((score for score, _, _ in scored), default=0)
    alone = len({_name(one) for _, _, one in scored}) == 1
    if not scored or (best == 0 and not (alone and family)):
        return Subject((), pages)
    _, kind, first = next(one for one in scored if one[0] == best)
    own, name, addresses, same = family_of_type(kind), _name(first), set(_addresses(first)), []
    for _, other, one in scored:
        if one is not first and family_of_type(other) == own:
            named = _name(one)
            if named == name if named and name else not addresses.isdisjoint(_addresses(one)):
                same.append(one)
    return Subject((first, *same), pages, kind, own)


def _candidates(objects: Sequence[Object]) -> Iterator[Object]:
    waiting = [(one, 0) for one in reversed(objects)]
    for _ in range(_MAX_CANDIDATES):
        if not waiting:
            return
        one, depth = waiting.pop()
        yield one
        if depth < 2 and any(_PAGE.match(name) or name == "Review" for name in types_of(one)):
            for name, value in reversed(one.items()):
                if name not in {"hasPart", "isPartOf", "relatedLink", "breadcrumb"}:
                    inner = value[:20] if isinstance(value, list) else [value]
                    waiting += [
                        (part, depth + 1) for part in reversed(inner) if isinstance(part, dict) and "@type" in part
                    ]


def _kind(one: Object, family: str) -> str | None:
    """Return the type of a candidate; None for what is part of a page's frame, unless the page is of its family."""
    names = types_of(one)
    proper = [name for name in names if not _FRAME.match(name) or (family and family_of_type(name) == family)]
    of_family = [name for name in proper if family and family_of_type(name) == family]
    return next(iter([*of_family, *proper]), None) if len(one) > 1 else None


def _closeness(one: Object, page: PageNames) -> int:
    name, score = _name(one), 0
    if name:
        if name in page.titles:
            score = _SURE
        elif any(title in name or (name in title and 3 * len(name) >= len(title)) for title in page.titles):
            score = 4
        else:
            words = set(_WORD.findall(name))
            titled = {word for title in page.titles for word in _WORD.findall(title)}
            score = 2 if words and 2 * len(words & titled) >= len(words) else 0
    return score + (3 if page.addresses & set(_addresses(one)) else 0)


def _addresses(one: Object) -> Iterator[str]:
    for key in ("url", "@id", "mainEntityOfPage"):
        value = one.get(key)
        if isinstance(value, dict):
            value = value.get("@id") or value.get("url")
        for given in value[:5] if isinstance(value, list) else [value]:
            if isinstance(given, str) and (address := _address(given)):
                yield address


def _name(one: Object) -> str:
    for key in ("name", "headline", "title", "schema:name", "schema:headline"):
        value = one.get(key)
        value = value[0] if isinstance(value, list) and value else value
        value = value.get("@value") if isinstance(value, dict) else value
        if isinstance(value, str) and (name := _folded(value)):
            return name
    return ""


def _folded(text: str) -> str:
    return " ".join(_WORD.findall(text[:_MAX_NAME_CHARS].replace("&amp;", "&").replace("&#039;", "'").casefold()))


def _address(url: str) -> str:
    try:
        parts = urlsplit(url.strip()[:2_000])
    except ValueError:
        return ""
    path = parts.path.rstrip("/") + (f"?{parts.query}" if parts.query else "")
    return f"{parts.netloc.lower().removeprefix('www.')}{path}" if path else ""
