"""Lays a site out as nested boxes: page types with their templates, and folders."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Any

from llmcrawler.core.reporting.html.digest import DUPLICATE, FAILED, UNKNOWN, Digest

_MAX_BOXES = 60  # at one level; beyond that nobody sees them
_FEW_PAGES = 3
_NEARLY_ALL = 0.95


def page_types(digest: Digest) -> list[tuple[str, int]]:
    """Return the page types with their pages, most pages first; those without a type last, and those that failed."""
    counts: Counter[str] = Counter()
    for (_depth, page_type), pages in digest.depths.items():
        counts[page_type] += pages
    return sorted(counts.items(), key=lambda pair: (pair[0] in (UNKNOWN, DUPLICATE, FAILED), -pair[1], pair[0]))


def by_type(digest: Digest, patterns: Mapping[tuple[str, str], str]) -> list[dict[str, Any]]:
    """Return a box for each page type, in it one for each template."""
    boxes: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for (site, template), group in digest.groups.items():
        label = group.name(patterns.get((site, template), ""), with_site=len(digest.sites) > 1)
        for page_type, pages in group.types.items():
            boxes[page_type].append(
                {"name": label, "value": pages, "type": page_type, "template": template, "site": site}
            )
    return _together([{"name": name, "type": name, "children": _largest(some)} for name, some in boxes.items()])


def by_folder(digest: Digest) -> list[dict[str, Any]]:
    """Return a box for each folder (for each site, where there are several), in it one for each folder below that has
    more than a few pages; other pages stand by their type. A box has the colour of the type that most of its pages
    have.
    """
    folders: dict[str, dict[str, Counter[str]]] = defaultdict(lambda: defaultdict(Counter))
    shared = _shared(digest) if len(digest.sites) == 1 else ()
    for (site, path, page_type), pages in digest.paths.items():
        parts = (site, *path) if len(digest.sites) > 1 else path[len(shared) * (path[: len(shared)] == shared) :]
        top, below = (*parts, "", "")[:2]
        folders[f"{top}/"][below][page_type] += pages
    return _together([_folder(digest, top, below) for top, below in folders.items()])


def _shared(digest: Digest) -> tuple[str, ...]:
    """Return the folders that nearly all pages lie in, as /en/: they would be one box around all others."""
    shared: tuple[str, ...] = ()
    while True:
        counts: Counter[tuple[str, ...]] = Counter()
        for (_site, path, _type), pages in digest.paths.items():
            if len(path) > len(shared):
                counts[path[: len(shared) + 1]] += pages
        ((longer, pages),) = counts.most_common(1) or [((), 0)]
        if pages < _NEARLY_ALL * digest.pages:
            return shared
        shared = longer


def _folder(digest: Digest, name: str, below: Mapping[str, Counter[str]]) -> dict[str, Any]:
    few = max(_FEW_PAGES, digest.pages // 100)
    types: Counter[str] = Counter()
    boxes = []
    for folder, counts in below.items():
        if folder and counts.total() > few:
            boxes.append({"name": f"{folder}/", "value": counts.total(), "type": counts.most_common(1)[0][0]})
        else:
            types.update(counts)
    for page_type, pages in types.items():
        boxes.append({"name": digest.noun if digest.is_map else page_type, "value": pages, "type": page_type})
    largest: Counter[str] = Counter()
    for counts in below.values():
        largest.update(counts)
    return {"name": name, "type": largest.most_common(1)[0][0], "children": _largest(boxes)}


def _largest(boxes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    ordered = sorted(boxes, key=lambda box: (-box["value"], box["name"]))
    rest = sum(box["value"] for box in ordered[_MAX_BOXES:])
    more = [{"name": f"{len(ordered) - _MAX_BOXES} more", "value": rest, "type": UNKNOWN}] if rest else []
    return ordered[:_MAX_BOXES] + more


def _together(boxes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    with_sums = [{**box, "value": sum(child["value"] for child in box["children"])} for box in boxes]
    return _largest(with_sums)


def depth_table(digest: Digest, types: list[str]) -> list[tuple[int, list[int], int]]:
    """Return (depth, pages by type, all pages), from the start on."""
    depths = sorted({depth for depth, _type in digest.depths})
    return [
        (depth, [digest.depths[depth, name] for name in types], sum(digest.depths[depth, name] for name in types))
        for depth in depths
    ]
