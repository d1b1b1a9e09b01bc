"""Describes the template that made a page by a small set of features of its DOM.

A feature is a (parent label > child label) pair; a label is a tag with its class tokens. Words, ids,
numbers and states are left out: they belong to one page, not to its template.
"""

from __future__ import annotations

import re
from functools import lru_cache
from operator import itemgetter

from llmcrawler.core.content.caching import cached_if_short
from llmcrawler.core.content.markup import VOID, Token, attributes, plain

# Breadth first, so that a huge page still shows its whole frame before the cut.
MAX_ELEMENTS = 5_000
MAX_FEATURES = 2_000
_MAX_TOKEN_CHARS = 32
_MAX_TOKENS = 12
_MAX_CLASSES_CHARS = 4_000
_MAX_TAG_CHARS = 100

_SKIPPED_TAGS = frozenset({"head", "script", "style", "svg", "noscript", "template", "br", "wbr", "source", "path"})
_FIELD_TAGS = frozenset({"input", "select", "textarea", "button"})
_NAMING_TAGS = _FIELD_TAGS | {"form"}
_ADDRESSED = frozenset({"a", "img"})
_CLASS = re.compile(r' class="([^"]*)"')
_DIGITS = re.compile(r"\d+")
# Classes that say where the visitor is or what he opened, not which template made the page.
_STATES = frozenset(
    "active current selected open opened closed collapsed expanded disabled hidden visible show shown checked focus"
    " hover visited first last odd even loading loaded lazyload lazyloaded sticky".split()
)
# Class names that build tools derive from a hash: emotion, styled-components, styled-jsx, svelte, astro, stitches.
_HASH_PREFIX = re.compile(
    r"^(?:css|sc|jsx|emotion|styled|svelte|astro|makestyles|jss|c|_)-(?=[A-Za-z0-9]{4,}(?:-\w+)*$)"
)
_HASH_PIECE = re.compile(r"[-_]+[A-Za-z0-9+]{5,10}$")
# Names that may be of that kind: enough to trust them less, too little to leave them out.
_MAYBE_HASH = re.compile(
    r"^(?:css|sc|jsx|emotion|styled|svelte|jss)-|^[a-z]{4,6}[A-Z][A-Za-z]{3}$|(?=.*\d)(?=.*[A-Z])[A-Za-z0-9_-]{5,}$"
)


def fingerprint(page: list[Token]) -> frozenset[str]:
    """Return the features of a page's tokens: at most MAX_FEATURES, none where there is no element.

    The pairs are the structure; besides them stand the html and body class tokens, form methods, field
    names and schema.org types, each a strong hint of one template.
    """
    elements = _elements(page)
    if len(elements) > MAX_ELEMENTS:
        elements = sorted(elements, key=itemgetter(0))[:MAX_ELEMENTS]
    features = {pair for _, pair, _ in elements}.union(*{more for _, _, more in elements})
    features.discard("")
    if len(features) < MAX_FEATURES:
        return frozenset(features)
    features = set()
    for _, pair, more in elements:
        if pair:
            features.add(pair)
        if more:
            features.update(more)
        if len(features) >= MAX_FEATURES:
            break
    return frozenset(features)


def _elements(page: list[Token]) -> list[tuple[int, str, tuple[str, ...]]]:
    """Return (depth, pair, further features) of each element that counts, in document order."""
    found: list[tuple[int, str, tuple[str, ...]]] = []
    labels = [""]
    skip_until = 0
    for slash, tag, source, _ in page:
        if slash:
            if len(labels) > 1:
                labels.pop()
            if len(labels) <= skip_until:
                skip_until = 0
        elif not tag:
            continue
        elif skip_until or tag in _SKIPPED_TAGS:
            if tag not in VOID:
                skip_until = skip_until or len(labels)
                labels.append("")
        elif tag == "html":
            found.append((0, "", tuple("html." + token for token in _tokens(_classes(source)))))
            labels.append("")
        else:
            pair, label, more = _pair((labels[-1], tag[:_MAX_TAG_CHARS], _repeated(tag, source)))
            found.append((len(labels), pair, more))
            if tag not in VOID:
                labels.append(label)
    return found


def _repeated(tag: str, source: str) -> str:
    """Return the attributes that repeat: of a link the classes do, the address does not."""
    if tag not in _ADDRESSED or "item" in source:
        return source
    match = _CLASS.search(source)
    return match[0] if match else ""


@cached_if_short(300)
def _pair(element: tuple[str, str, str]) -> tuple[str, str, tuple[str, ...]]:
    """Return an element's pair, its label, and the features that it adds besides its pair."""
    parent, tag, source = element  # the parent's label, and the attributes
    label, more = _label(tag, _classes(source)) if "class=" in source else (tag, ())
    if tag == "body":
        label, more = "body", (*more, *["body." + token for token in _tokens(_classes(source))])
    if tag in _NAMING_TAGS or "itemtype=" in source or "itemprop=" in source:
        more = (*more, *_names_in(tag, source))
    return f"{parent}>{label}", label, more


def _classes(source: str) -> str:
    match = _CLASS.search(source)
    return plain(match[1][:_MAX_CLASSES_CHARS]) if match else ""


def _names_in(tag: str, source: str) -> list[str]:
    given, found = attributes(source), []
    if tag == "form":
        found.append("form:" + (given.get("method") or "get").lower()[:8])
    elif tag in _FIELD_TAGS and (name := given.get("name")):
        kind = (given.get("type") or "").lower()[:16]
        found.append(f"field:{_DIGITS.sub('0', name[:_MAX_TOKEN_CHARS])}:{kind}")
    if item_type := given.get("itemtype"):
        found.append("itemtype:" + item_type.rstrip("/").rsplit("/", 1)[-1][:_MAX_TOKEN_CHARS])
    if item_property := given.get("itemprop"):
        found.append("itemprop:" + item_property[:_MAX_TOKEN_CHARS])
    return found


@lru_cache(maxsize=16384)
def _label(tag: str, classes: str) -> tuple[str, tuple[str, ...]]:
    """Return the element's label, and the hash-like class names that are not part of it.

    Such a name is a feature of its own: one that is the same on all pages of a build tells its component, one
    that is drawn anew for each page is found to predict nothing; in a label it would hide the pair.
    """
    hashes = tuple(
        "hash." + raw
        for raw in classes.split()[:_MAX_TOKENS]
        if not fold_class(raw) and len(raw) <= _MAX_TOKEN_CHARS and not _is_state(raw)
    )
    return ".".join((tag, *_tokens(classes))), hashes


def _tokens(classes: str) -> list[str]:
    folded = {fold_class(raw) for raw in classes.split()[: 4 * _MAX_TOKENS]}
    return sorted(folded - {""})[:_MAX_TOKENS]


def _is_state(token: str) -> bool:
    return token[max(token.rfind("-"), token.rfind("_")) + 1 :].lower() in _STATES


@lru_cache(maxsize=16384)
def fold_class(token: str) -> str:
    """Return a class name without what belongs to one page or one build; '' where nothing is left."""
    if len(token) > _MAX_TOKEN_CHARS or _is_state(token):
        return ""
    if token.islower() and not _DIGITS.search(token):
        return token  # as most are: no hash is without digits and capitals
    if (match := _HASH_PREFIX.match(token)) and _is_hash(token[match.end() :]):
        return ""
    if (match := _HASH_PIECE.search(token)) and _is_hash(match.group().lstrip("-_")):
        token = token[: match.start()]  # CSS modules: Button_root__3xY2z
    elif _is_hash(token):
        return ""
    return _DIGITS.sub("0", token)


def may_be_hash(token: str) -> bool:
    """Tell whether a class name may have been derived from a hash: then it holds until the site's next build only."""
    return _MAYBE_HASH.search(token) is not None


def _is_hash(text: str) -> bool:
    """Tell whether a text looks drawn at random: letters and digits mixed, or case mixed without sense."""
    if not 4 <= len(text) <= 40:
        return False
    digit_runs = len(_DIGITS.findall(text))
    if digit_runs >= 2 or (digit_runs == 1 and text[0].isdigit() and not text.isdigit() and len(text) >= 5):
        return True
    # kYgLxK: capitals inside that start no word of their own (camelCase has longer lower-case runs).
    humps = re.findall(r"[A-Z][a-z]*", text[1:])
    return len(humps) >= 2 and sum(map(len, humps)) / len(humps) < 2.5
