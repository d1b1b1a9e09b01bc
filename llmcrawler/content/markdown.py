"""The main text of a page, from its judged blocks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import sha256

from llmcrawler.content.boilerplate import Boilerplate
from llmcrawler.items import TextBlock

THRESHOLD = 0.4  # of a block's score; the best on the pages of the benchmark
_MIN_WORDS = 10


def main_text(blocks: Sequence[TextBlock], boilerplate: Boilerplate | None = None) -> str:
    """Markdown of the blocks that are main content and do not repeat over the site.

    A page that would be left with next to nothing keeps what repeats, then whatever text it has.
    """
    main = [block for block in blocks if block.score >= THRESHOLD]
    if boilerplate is not None:
        fresh = [block for block in main if not boilerplate.is_repeated(block.key)]
        if _words(fresh) >= min(_MIN_WORDS, _words(main)):
            main = fresh
    if _words(main) < _MIN_WORDS:
        best = sorted(blocks, key=lambda block: block.score, reverse=True)[: max(5, len(blocks) // 4)]
        main = [block for block in blocks if block in best] if _words(best) > _words(main) else main
    return _joined(main)


def content_hash(text: str) -> str:
    """Sixteen hexadecimal digits (64 bits of SHA-256) of the text, white space folded."""
    return sha256(" ".join(text.split()).encode("utf-8", "replace")).hexdigest()[:16]


def _words(blocks: Iterable[TextBlock]) -> int:
    return sum(block.word_count for block in blocks)


def _joined(blocks: Sequence[TextBlock]) -> str:
    """A blank line between blocks, none between the items of a list and the rows of a table."""
    parts: list[str] = []
    before = ""
    for block in blocks:
        kind = _kind(block.markdown)
        if parts:
            parts.append("\n" if kind and kind == before else "\n\n")
        parts.append(block.markdown)
        before = kind
    return "".join(parts)


def _kind(markdown: str) -> str:
    start = markdown.lstrip()
    return "list" if start.startswith("- ") else "table" if start.startswith("| ") else ""
