"""What is done with the content of a site's pages, by what is known of the site: where that is, here or in a worker.

These functions are called in worker processes too, so they and what they take and give can be pickled.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from llmcrawler.core.content import Boilerplate, content_hash, joined, main_blocks, main_text, read_page
from llmcrawler.core.content.render_features import (
    THIN_WORDS,
    RenderFeatures,
    may_need_browser,
    read_page_and_features,
)
from llmcrawler.core.content.transport import PackedContent, pack_content, unpack_content
from llmcrawler.core.frontier.site_views import BlockFacts, block_facts
from llmcrawler.core.understanding.templates import sketch_page
from llmcrawler.items import MainText, PageContent, TextBlock

# Modules that a worker loads before it has work.
MODULES: Final = (__name__,)


class FetchedPage(NamedTuple):
    """A page as it came from `url`; `page_url` is that in the frontier, of which it may be the target."""

    html: str
    url: str
    page_url: str


class PackedReading(NamedTuple):
    """What a worker has read of a page. `kinds` where they were wanted; `main` where it was taken: then the content has
    no blocks.
    """

    content: PackedContent
    kinds: dict[str, float] | None
    features: RenderFeatures | None
    facts: list[BlockFacts]
    main: MainText | None


def read_for_site(
    boilerplate: Boilerplate,
    fetched: FetchedPage,
    *wishes: bool,
) -> PackedReading:
    """Read a page.

    `wishes`: its features for rendering, its kinds, its main text, and the sketch of that. The main text is not taken
    where the page may still turn out to be none, or one that is withheld: the site does not learn from those.
    """
    with_features, with_kinds, with_main, with_sketch = wishes
    features = None
    if with_features:
        content, features = read_page_and_features(fetched.html, fetched.url)
        may_be_shell = features.may_be_more
    else:
        content = read_page(fetched.html, fetched.url)
        may_be_shell = may_need_browser(fetched.html) and content.cues.get("word_count", 0) <= THIN_WORDS
    main = None
    if with_main and not may_be_shell and not may_withhold(content.robots.values()):
        main = take_main_text(boilerplate, content, fetched.url if with_sketch else None)
    kinds = dict(content.kinds) if with_kinds else None
    facts = block_facts(fetched.page_url, content.blocks)
    return PackedReading(pack_content(content, with_blocks=main is None), kinds, features, facts, main)


def may_withhold(directives: Iterable[str]) -> bool:
    """Tell whether any of a page's directives for robots may be one by which it is withheld."""
    return any(word in one.lower() for one in directives for word in ("noindex", "none", "unavailable_after"))


def take_main_text(boilerplate: Boilerplate, content: PageContent, url: str | None) -> MainText:
    """Return the main text of a page from which the site learns; with its url also its sketch."""
    boilerplate.observe(content.blocks)
    return chosen_main_text(boilerplate, content, url)


def chosen_main_text(boilerplate: Boilerplate, content: PageContent, url: str | None) -> MainText:
    """Return the main text of a page from which the site has learned."""
    main = main_blocks(content.blocks, boilerplate)
    text = joined(main)
    return MainText(text, content_hash(text), None if url is None else sketch_page(content, main, url))


def main_text_of_packed(boilerplate: Boilerplate, packed: PackedContent, url: str | None) -> MainText:
    """Do what `take_main_text` does."""
    return take_main_text(boilerplate, unpack_content(packed), url)


def observe_packed(boilerplate: Boilerplate, packed: PackedContent) -> None:
    """Let the site learn from a page of an earlier run."""
    boilerplate.observe(unpack_content(packed).blocks)


def main_text_hash(boilerplate: Boilerplate, content: PageContent) -> str:
    """Return the hash of a page's main text, without learning from it."""
    return content_hash(main_text(content.blocks, boilerplate))


def hash_of_packed(boilerplate: Boilerplate, packed: PackedContent) -> str:
    """Do what `main_text_hash` does."""
    return main_text_hash(boilerplate, unpack_content(packed))


def packed_differ(boilerplate: Boilerplate, before: PackedContent, after: PackedContent) -> bool:
    """Do what `main_texts_differ` does."""
    return main_texts_differ(boilerplate, unpack_content(before), unpack_content(after))


def main_texts_differ(boilerplate: Boilerplate, before: PageContent, after: PageContent) -> bool:
    """Tell whether a text is main content of one version of a page and nowhere in the other."""
    return _main_only_here(before.blocks, after.blocks, boilerplate) or _main_only_here(
        after.blocks, before.blocks, boilerplate
    )


def _main_only_here(here: Sequence[TextBlock], there: Sequence[TextBlock], boilerplate: Boilerplate) -> bool:
    known = {block.key for block in there}
    main = main_blocks(here, boilerplate)
    return any(
        block.key not in known and not repeats for block, repeats in zip(main, boilerplate.repeated(main), strict=True)
    )
