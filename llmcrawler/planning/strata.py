"""Kinds of urls, each with enough of them to learn from."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping

# Fewer urls than this say nothing of how many there are.
_ENOUGH = 3
# A shape of which so many pages were fetched speaks for itself.
_WELL_KNOWN = 5
_Key = tuple[str, str, str]  # depth, template, and the shape itself where it is well known
_EXTENSION = re.compile(r"\.[A-Za-z][A-Za-z0-9]{1,4}$")


def strata_of(patterns: Iterable[str], templates: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Pattern -> stratum, which has the name of its most frequent pattern. `patterns` has one for each url that is
    known, `templates` (pattern, template) of those that were fetched.

    Where the parts of a path are plain words, as in documentation, each url has a shape of its own: a shape that hardly
    any other url has is taken for those of its depth and last part. Of the shapes of which few pages were fetched,
    those of one depth whose pages have one template are a stratum; with them go those of which nothing was fetched.
    """
    counts = Counter(patterns)
    shape = {name: name if count >= _ENOUGH else _but_last(name) for name, count in counts.items()}
    sizes: Counter[str] = Counter()
    for name, count in counts.items():
        sizes[shape[name]] += count
    seen: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for pattern, template in templates:
        seen[shape.get(pattern, pattern)][template] += 1
    groups: defaultdict[_Key, list[str]] = defaultdict(list)
    for name in sizes:
        is_well_known = seen[name].total() >= _WELL_KNOWN
        groups[_depth_of(name), _most_frequent(seen[name]), name * is_well_known].append(name)
    return {name: stratum for name, stratum in _named(groups, sizes, shape).items() if name in counts}


def _named(groups: Mapping[_Key, list[str]], sizes: Mapping[str, int], shape: Mapping[str, str]) -> dict[str, str]:
    names = {key: max(sorted(members), key=lambda name: sizes[name]) for key, members in groups.items()}
    weights = {key: sum(sizes[name] for name in members) for key, members in groups.items()}
    stratum: dict[str, str] = {}
    for key, members in groups.items():
        depth, template, _ = key
        known = [other for other in groups if other[0] == depth and other[1]]
        home = key if template or not known else max(known, key=lambda other: (not other[2], weights[other]))
        stratum |= dict.fromkeys(members, names[home])
    return {pattern: stratum[folded] for pattern, folded in shape.items()}


def _most_frequent(templates: Counter[str]) -> str:
    return max(sorted(templates), key=lambda name: templates[name], default="")


def _but_last(pattern: str) -> str:
    path, mark, query = pattern.partition("?")
    end = "/" if path.endswith("/") else ""
    head, _, last = path.removesuffix("/").rpartition("/")
    above = "/".join("*" * bool(part) for part in head.split("/"))
    return f"{above}/{last}{end * bool(last)}{mark}{query}"


def _depth_of(pattern: str) -> str:
    path, mark, query = _but_last(pattern).partition("?")
    end = "/" if path.endswith("/") else ""
    head, _, last = path.removesuffix("/").rpartition("/")
    extension = _EXTENSION.search(last)
    last = "*" * bool(last) + (extension[0] if extension else "")
    return f"{head}/{last}{end * bool(last)}{mark}{query}"
