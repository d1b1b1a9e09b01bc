"""Learned templates as tables for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from llmcrawler.reporting.plain_text import plain
from llmcrawler.reporting.table import table

Entry = Mapping[str, Any]

_LANGUAGES = ("css", "xpath", "json-ld")


def templates_tables(site: str, templates: Sequence[Entry]) -> Iterator[RenderableType]:
    """A site's templates, then the fields of each that has some. The entries are those of the file."""
    pages = sum(int(one.get("page_count") or 0) for one in templates)
    yield Text(f"{plain(site)}: {len(templates)} templates, {pages} pages", style="bold")
    yield table(
        ("template", "page type", ">pages", "url pattern", ">LLM calls", "example"),
        [
            (
                one["template"],
                one.get("page_type") or "-",
                one.get("page_count", 0),
                one.get("url_pattern") or "",
                one.get("llm_calls", 0),
                next(iter(one.get("examples") or []), ""),
            )
            for one in templates
        ],
    )
    for one in templates:
        if one.get("selectors"):
            yield Text("")
            yield Text(f"{plain(one['template'])} ({plain(one.get('page_type') or '-')})", style="bold")
            yield table(
                ("field", "type", ">coverage", ">agreement", "", "selector", "example"),
                list(_rows(one["selectors"])),
            )


def _rows(selectors: Sequence[Entry]) -> Iterator[tuple[Any, ...]]:
    several = max(int(one.get("variant") or 1) for one in selectors) > 1
    seen: set[tuple[Any, ...]] = set()
    for one in selectors:
        language = next((name for name in _LANGUAGES if name in one), "")
        # Further selectors of a field are used where the first gives nothing; they stand below it without its name.
        key = (one.get("variant"), one["field"])
        name = f"{one['field']} ({one.get('variant', 1)})" if several else one["field"]
        is_first = key not in seen
        seen.add(key)
        yield (
            name if is_first else "",
            one.get("type", "") if is_first else "",
            _share(one.get("coverage")),
            _share(one.get("agreement")),
            language,
            _selector(one, language),
            one.get("example") or "",
        )


def _selector(one: Entry, language: str) -> str:
    parts = [str(one.get(language, ""))]
    if one.get("attribute"):
        parts.append(f"@{one['attribute']}")
    if one.get("pattern"):
        parts.append(f"~ {one['pattern']}")
    return "  ".join(parts)


def _share(share: Any) -> str:
    return f"{share:.0%}" if isinstance(share, int | float) else "-"
