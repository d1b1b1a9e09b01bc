"""The site as nested boxes: page types with their templates, and folders."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Any

from llmcrawler.reporting.html.digest import UNKNOWN, Digest

_MAX_BOXES = 60  # at one level; beyond that nobody sees them


def page_types(digest: Digest) -> list[tuple[str, int]]:
    """Most pages first; those without a type last."""
    counts: Counter[str] = Counter()
    for (_depth, page_type), pages in digest.depths.items():
        counts[page_type] += pages
    return sorted(counts.items(), key=lambda pair: (pair[0] == UNKNOWN, -pair[1], pair[0]))


def by_type(digest: Digest, patterns: Mapping[tuple[str, str], str]) -> list[dict[str, Any]]:
    """A box for each page type, in it one for each template."""
    boxes: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for (site, template), group in digest.groups.items():
        label = patterns.get((site, template)) or ("no template" if template == UNKNOWN else template)
        for page_type, pages in group.types.items():
            boxes[page_type].append(
                {"name": label, "value": pages, "type": page_type, "template": template, "site": site}
            )
    return _together([{"name": name, "type": name, "children": _largest(some)} for name, some in boxes.items()])


def by_folder(digest: Digest) -> list[dict[str, Any]]:
    """A box for each folder at the top (of each site, where there are several), in it the folders below, each in the
    colour of the page type that most of its pages have.
    """
    several = len(digest.sites) > 1
    folders: dict[str, dict[str, Counter[str]]] = defaultdict(lambda: defaultdict(Counter))
    for (site, *parts, page_type), pages in digest.paths.items():
        first, second = parts[0], parts[1] if len(parts) > 1 else ""
        top, below = (site, first) if several else (first, second)
        folders[top][below][page_type] += pages
    return _together(
        [
            {
                "name": _folder(top),
                "type": max(below.values(), key=lambda types: types.total()).most_common(1)[0][0],
                "children": _largest([_box(name, types) for name, types in below.items()]),
            }
            for top, below in folders.items()
        ]
    )


def _box(name: str, types: Counter[str]) -> dict[str, Any]:
    return {"name": _folder(name), "value": types.total(), "type": types.most_common(1)[0][0]}


def _folder(name: str) -> str:
    return name if name in ("", "/", "…") else f"{name}/"


def _largest(boxes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    ordered = sorted(boxes, key=lambda box: (-box["value"], box["name"]))
    rest = sum(box["value"] for box in ordered[_MAX_BOXES:])
    more = [{"name": f"{len(ordered) - _MAX_BOXES} more", "value": rest, "type": UNKNOWN}] if rest else []
    return ordered[:_MAX_BOXES] + more


def _together(boxes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    with_sums = [{**box, "value": sum(child["value"] for child in box["children"])} for box in boxes]
    return _largest(with_sums)


def depth_table(digest: Digest, types: list[str]) -> list[tuple[int, list[int], int]]:
    """(depth, pages by type, all pages), from the start on."""
    depths = sorted({depth for depth, _type in digest.depths})
    return [
        (depth, [digest.depths[depth, name] for name in types], sum(digest.depths[depth, name] for name in types))
        for depth in depths
    ]
