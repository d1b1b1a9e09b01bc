"""What marks an element, so that it is found on other pages of its template too."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from lxml import etree

PROPERTY: Final = "property"
ID: Final = "id"
CLASS: Final = "class"
PATH: Final = "path"
_PROPERTY_ATTRIBUTES: Final = ("itemprop", "property", "data-testid", "data-test", "data-qa", "data-cy", "data-hook")
# Written for other machines: often cut, stripped of markup, or out of date.
_META_PRIOR: Final = 0.65
_MAX_ANCESTORS: Final = 8
_MAX_CLASSES: Final = 6
_TAME: Final = re.compile(r"^[A-Za-z_][A-Za-z0-9_-]{1,59}$")
_NUMBERED: Final = re.compile(r"\d{2,}|\d$")
# What build tools make of a class name; it holds until the next build.
_HASHED: Final = re.compile(
    r"^(?:css|sc|jsx|emotion|styled|svelte|jss)-|^[a-z]{4,6}[A-Z][A-Za-z]{3}$|(?=.*\d)(?=.*[A-Z])[A-Za-z0-9_-]{5,}$"
)
_STATE: Final = re.compile(
    r"(?:^|[-_])(?:active|current|selected|open|hidden|show|first|last|odd|even|disabled|lazy\w*)$"
)
_UNIQUE_TAGS: Final = {"h1": 0.75, "title": 0.3, "time": 0.5, "address": 0.5, "h2": 0.3, "h3": 0.25, "blockquote": 0.3}


@dataclass(frozen=True, slots=True)
class Sign:
    """Something that tells an element from others: as CSS, and as an XPath node test."""

    css: str
    xpath: str
    evidence: str
    prior: float


def signs_of(element: etree._Element) -> Iterator[Sign]:
    """What marks an element, the best first."""
    tag = str(element.tag)
    for attribute in _property_attributes(element):
        value = element.get(attribute) or ""
        test = f'[{attribute}="{value}"]'
        prior = _META_PRIOR if tag == "meta" and attribute != "itemprop" else 1.0
        yield Sign(f"{tag}{test}", f'{tag}[@{attribute}="{value}"]', PROPERTY, prior)
    identifier = element.get("id") or ""
    if _TAME.match(identifier) and not _NUMBERED.search(identifier):
        yield Sign(f"#{identifier}", f'*[@id="{identifier}"]', ID, 0.95)
    if tag in _UNIQUE_TAGS:
        yield Sign(tag, tag, PATH if tag != "h1" else CLASS, _UNIQUE_TAGS[tag])
    classes = [name for name in dict.fromkeys((element.get("class") or "").split()) if _TAME.match(name)]
    classes = [name for name in classes if not _STATE.search(name)][:_MAX_CLASSES]
    if 1 < len(classes) <= 4:
        test = " and ".join(_has_class(name) for name in classes)
        worst = min(_class_prior(name) for name in classes)
        yield Sign(f"{tag}.{'.'.join(classes)}", f"{tag}[{test}]", CLASS, worst - 0.05)
    for name in classes:
        yield Sign(f"{tag}.{name}", f"{tag}[{_has_class(name)}]", CLASS, _class_prior(name))


def near_signs(element: etree._Element) -> list[Sign]:
    return list(signs_of(element))[:3]


def common_signs(elements: Sequence[etree._Element]) -> list[Sign]:
    first = list(signs_of(elements[0]))
    others = [{sign.css for sign in signs_of(element)} for element in elements[1:]]
    return [sign for sign in first if all(sign.css in signs for signs in others)]


def anchors(element: etree._Element) -> Iterator[tuple[Sign, etree._Element]]:
    """Ancestors with a sign of their own: the nearest ones, further up only those with an id or a property."""
    for level, ancestor in enumerate(element.iterancestors()):
        if level >= _MAX_ANCESTORS or ancestor.tag in ("body", "html"):
            return
        for sign in near_signs(ancestor)[: 2 if level < 4 else 1]:
            if level < 4 or sign.evidence in (ID, PROPERTY):
                yield sign, ancestor
        if ancestor.tag in ("article", "main"):
            yield Sign(str(ancestor.tag), str(ancestor.tag), PATH, 0.5), ancestor


def joined(anchor: Sign, sign: Sign) -> tuple[str, float]:
    """The evidence and prior of a sign below an anchor: it rests on the weaker of the two."""
    if sign.evidence in (PROPERTY, ID):
        return sign.evidence, 0.9 * sign.prior
    if sign.evidence == CLASS:
        return CLASS, sign.prior + 0.05 * anchor.prior
    return (ID if anchor.evidence in (ID, PROPERTY) else PATH), 0.6 * anchor.prior


def tag_sign(element: etree._Element) -> Sign:
    return Sign(str(element.tag), str(element.tag), PATH, 0.3)


def _class_prior(name: str) -> float:
    return 0.35 if _HASHED.search(name) else 0.7


def _has_class(name: str) -> str:
    return f'contains(concat(" ", normalize-space(@class), " "), " {name} ")'


def _property_attributes(element: etree._Element) -> list[str]:
    names = [*_PROPERTY_ATTRIBUTES, *(["name"] if element.tag == "meta" else [])]
    if element.tag == "link":
        names.append("rel")
    return [name for name in names if re.fullmatch(r"[\w:.-]{2,60}", element.get(name) or "")]
