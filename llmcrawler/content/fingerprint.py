"""What a page's DOM tells about the template that made it, as a small set of features.

A feature is a (parent label > child label) pair; a label is a tag with its class tokens. Words, ids,
numbers and states are left out: they belong to one page, not to its template.
"""

from __future__ import annotations

import re
from collections import deque
from functools import lru_cache

from selectolax.lexbor import LexborHTMLParser, LexborNode

# Breadth first, so that a huge page still shows its whole frame before the cut.
MAX_ELEMENTS = 5_000
MAX_FEATURES = 2_000
_MAX_TOKEN_CHARS = 32
_MAX_TOKENS = 12

_SKIPPED_TAGS = frozenset({"head", "script", "style", "svg", "noscript", "template", "br", "wbr", "source", "path"})
_FIELD_TAGS = frozenset({"input", "select", "textarea", "button"})
_HINTING_TAGS = _FIELD_TAGS | {"form"}
_DIGITS = re.compile(r"\d+")
# Where the visitor stands or what he opened, not which template made the page.
_STATE = re.compile(
    r"(?:^|[-_])(?:active|current|selected|open|opened|closed|collapsed|expanded|disabled|hidden|visible|show|shown"
    r"|checked|focus|hover|visited|first|last|odd|even|loading|loaded|lazyload|lazyloaded|sticky)$",
    re.IGNORECASE,
)
# Class names that build tools derive from a hash: emotion, styled-components, styled-jsx, svelte, astro, stitches.
_HASH_PREFIX = re.compile(
    r"^(?:css|sc|jsx|emotion|styled|svelte|astro|makestyles|jss|c|_)-(?=[A-Za-z0-9]{4,}(?:-\w+)*$)"
)
_HASH_PIECE = re.compile(r"[-_]+[A-Za-z0-9+]{5,10}$")


def fingerprint(tree: LexborHTMLParser) -> frozenset[str]:
    """The features of a parsed page; at most MAX_FEATURES, empty when there is no element to read.

    The pairs are the structure; besides them stand the html and body class tokens, form methods, field
    names and schema.org types, each a strong hint of one template.
    """
    root = tree.root
    if root is None:
        return frozenset()
    features: set[str] = set()
    queue: deque[tuple[LexborNode, str]] = deque([(root, "")])
    seen = 0
    while queue and seen < MAX_ELEMENTS and len(features) < MAX_FEATURES:
        parent, parent_label = queue.popleft()
        for node in parent.iter():
            tag = node.tag
            if tag is None or tag in _SKIPPED_TAGS:
                continue
            seen += 1
            if seen > MAX_ELEMENTS:
                break
            attributes = node.attributes
            classes = attributes.get("class")
            label, hashes = _label(tag, classes) if classes else (tag, ())
            if hashes:
                features.update(hashes)
            if tag == "body":
                features.update("body." + token for token in _tokens(attributes.get("class") or ""))
                label = "body"
            features.add(parent_label + ">" + label)
            if tag in _HINTING_TAGS or "itemtype" in attributes or "itemprop" in attributes:
                features.update(_hints(tag, attributes))
            if node.first_child is not None:
                queue.append((node, label))
    features.update("html." + token for token in _tokens(root.attributes.get("class") or ""))
    return frozenset(features)


def _hints(tag: str, attributes: dict[str, str | None]) -> list[str]:
    hints = []
    if tag == "form":
        hints.append("form:" + (attributes.get("method") or "get").lower()[:8])
    elif tag in _FIELD_TAGS and (name := attributes.get("name")):
        kind = (attributes.get("type") or "").lower()[:16]
        hints.append(f"field:{_DIGITS.sub('0', name[:_MAX_TOKEN_CHARS])}:{kind}")
    if item_type := attributes.get("itemtype"):
        hints.append("itemtype:" + item_type.rstrip("/").rsplit("/", 1)[-1][:_MAX_TOKEN_CHARS])
    if item_property := attributes.get("itemprop"):
        hints.append("itemprop:" + item_property[:_MAX_TOKEN_CHARS])
    return hints


@lru_cache(maxsize=8192)
def _label(tag: str, classes: str) -> tuple[str, tuple[str, ...]]:
    """The element's label, and the hash-like class names that are not part of it.

    Such a name is a feature of its own: one that is the same on all pages of a build tells its component, one
    that is drawn anew for each page is found to predict nothing; in a label it would hide the pair.
    """
    hashes = tuple(
        "hash." + raw[:_MAX_TOKEN_CHARS]
        for raw in classes.split()[:_MAX_TOKENS]
        if len(raw) <= _MAX_TOKEN_CHARS and not _STATE.search(raw) and not fold_class(raw)
    )
    return ".".join((tag, *_tokens(classes))), hashes


def _tokens(classes: str) -> list[str]:
    tokens = {token for raw in classes.split()[: 4 * _MAX_TOKENS] if (token := fold_class(raw))}
    return sorted(tokens)[:_MAX_TOKENS]


def fold_class(token: str) -> str:
    """A class name without what belongs to one page or one build: '' when nothing is left."""
    if len(token) > _MAX_TOKEN_CHARS or _STATE.search(token):
        return ""
    if (match := _HASH_PREFIX.match(token)) and _is_hash(token[match.end() :]):
        return ""
    if (match := _HASH_PIECE.search(token)) and _is_hash(match.group().lstrip("-_")):
        token = token[: match.start()]  # CSS modules: Button_root__3xY2z
    elif _is_hash(token):
        return ""
    return _DIGITS.sub("0", token)


def _is_hash(text: str) -> bool:
    """Whether the text looks drawn at random: letters and digits mixed, or case mixed without sense."""
    if not 4 <= len(text) <= 40:
        return False
    digit_runs = len(_DIGITS.findall(text))
    if digit_runs >= 2 or (digit_runs == 1 and text[0].isdigit() and not text.isdigit() and len(text) >= 5):
        return True
    # kYgLxK: capitals inside that start no word of their own (camelCase has longer lower-case runs).
    humps = re.findall(r"[A-Z][a-z]*", text[1:])
    return len(humps) >= 2 and sum(map(len, humps)) / len(humps) < 2.5
