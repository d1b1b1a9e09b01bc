"""Learned templates as tables for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from llmcrawler.reporting.plain_text import plain

Entry = Mapping[str, Any]

_LANGUAGES = ("css", "xpath", "json-ld")


def templates_tables(site: str, templates: Sequence[Entry]) -> Iterator[RenderableType]:
    """A site's templates, then the fields of each that has some. The entries are those of the file."""
    pages = sum(int(one.get("page_count") or 0) for one in templates)
    yield Text(f"{plain(site)}: {len(templates)} templates, {pages} pages", style="bold")
    yield _table(
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
            yield _table(
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


def _table(headers: Sequence[str], rows: Sequence[Sequence[Any]]) -> Table:
    """A column that is empty is left out; one whose header starts with ">" is set right."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    filled = [at for at in range(len(headers)) if any(str(row[at]) for row in rows)]
    for at in filled:
        right = headers[at].startswith(">")
        table.add_column(
            headers[at].removeprefix(">"),
            justify="right" if right else "left",
            overflow="fold",
            header_style="dim",
            no_wrap=right,
        )
    for row in rows:
        table.add_row(*(Text(plain(row[at])) for at in filled))
    return table
