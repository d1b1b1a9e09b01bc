"""Learned templates as tables for people. Entries of templates and selectors are those of the file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from llmcrawler.core.reporting.terminal_table import table
from llmcrawler.core.reporting.text import percent, plain

_Entry = Mapping[str, Any]


def templates_tables(sites: Mapping[str, Sequence[_Entry]]) -> Iterator[RenderableType]:
    """Yield the templates of each site, then the fields of each that has some."""
    for number, (site, templates) in enumerate(sites.items()):
        if number:
            yield Text("")
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
                names = ("field", "type", ">coverage", ">agreement", "", "selector", "example")
                yield table(names, list(_rows(one["selectors"])))


def selector_text(selector: _Entry) -> tuple[str, str]:
    """Return the language of a selector ("" for none) and what it selects, with its attribute and pattern."""
    language = next((name for name in ("css", "xpath", "json-ld") if name in selector), "")
    parts = [str(selector.get(language, ""))]
    if selector.get("attribute"):
        parts.append(f"@{selector['attribute']}")
    if selector.get("pattern"):
        parts.append(f"~ {selector['pattern']}")
    return language, "  ".join(parts)


def _rows(selectors: Sequence[_Entry]) -> Iterator[tuple[Any, ...]]:
    several = max(int(one.get("variant") or 1) for one in selectors) > 1
    seen: set[tuple[Any, ...]] = set()
    for one in selectors:
        # Further selectors of a field are used where the first gives nothing; they stand below it without its name.
        key = (one.get("variant"), one["field"])
        name = f"{one['field']} ({one.get('variant', 1)})" if several else one["field"]
        first = ("", "") if key in seen else (name, one.get("type", ""))
        seen.add(key)
        shares = (_share(one.get("coverage")), _share(one.get("agreement")))
        yield *first, *shares, *selector_text(one), one.get("example") or ""


def _share(share: Any) -> str:
    return percent(share) if isinstance(share, int | float) else "-"
