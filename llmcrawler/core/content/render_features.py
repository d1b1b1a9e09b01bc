"""Tells by a page's HTML whether its scripts make its content."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from selectolax.lexbor import LexborHTMLParser, LexborNode

from llmcrawler.core.content.layout import ABOVE
from llmcrawler.core.content.markup import parse
from llmcrawler.core.content.page import read_with_evidence
from llmcrawler.core.content.page_kind_numbers import KindEvidence
from llmcrawler.items import PageContent

_SCRIPT: Final = re.compile(r"<script", re.IGNORECASE)
_RUNS: Final = re.compile(r"(?:(?:text|application)/(?:x-)?(?:java|ecma)script|module)?(?:;.*)?", re.IGNORECASE)
_STRIPPED_BY_READING: Final = "iframe, noembed, noframes, xmp, plaintext"  # and looked at here, on a page of few words
_NEVER_SEEN: Final = ["script", "style", "template", "noscript", "svg", "object", "head"]
_AROUND_TAGS: Final = [ABOVE.index(tag) for tag in ("nav", "header", "footer", "aside")]
_AROUND_ROLE: Final = re.compile(r' role="(?:navigation|banner|contentinfo)"')
_AROUND: Final = "nav, header, footer, aside, [role=navigation], [role=banner], [role=contentinfo]"
_MAIN: Final = "main, [role=main], article, #main, #content, #main-content"
# Where frameworks put what they make; custom elements (Angular, Lit) are told by the dash in their names.
_MOUNTS: Final = re.compile(
    r"(?:(?:react|vue|ember|svelte|q|my)[-_]?)?(?:app|application|root|mount)(?:[-_]?(?:root|container|wrapper|mount|body))?"
    r"|__next|__nuxt|___gatsby|svelte|ember\d*|main|content|page|container|site|wrapper",
    re.IGNORECASE,
)
_HOLDS_SOMETHING: Final = "img, picture, video, audio, canvas, input, textarea, select, button, a[href], iframe, hr"
# What stands in the place of something that is to come, and what lists are called.
_PLACEHOLDER: Final = ", ".join(
    f"[class*={word} i]" for word in ("skeleton", "shimmer", "placeholder", "animate-pulse", "spinner", "loading")
)
_LIST_NAME: Final = re.compile(
    r"(?:^|[-_])(?:products?|results?|items?|list(?:ing)?s?|grid|catalog(?:ue)?|feed|posts?|entries|articles?|offers?"
    r"|cards?|gallery|jobs?|events?|content)(?:$|[-_])",
    re.IGNORECASE,
)
_MENUS: Final = "nav, ul, ol, menu, header, [id*=menu i], [class*=menu i], [id*=nav i], [class*=nav i]"
_ASKS: Final = re.compile(r"java\s?script|\bJS\b", re.IGNORECASE)
_WAITS: Final = re.compile(
    r"(?:loading|please wait|one moment|laden|chargement|cargando|загрузка)\b.{0,40}", re.IGNORECASE | re.DOTALL
)
# The texts of buttons that load more of a list, for the browser's scripts too.
LOADS_MORE: Final = (
    r"^\W*(?:(?:load|show|view|see|get) (?:\d+ )?more\b|more (?:results|items|products|posts|articles|stories)"
    r"|mehr (?:laden|anzeigen)|weitere .{0,20}(?:laden|anzeigen)|(?:afficher|voir|charger) (?:la suite|plus)"
    r"|(?:cargar|ver|mostrar) m[áa]s|carica altr|mostra altr|meer laden|показать ещ)"
)
_LOADS_MORE: Final = re.compile(LOADS_MORE, re.IGNORECASE)
PRESSABLE: Final = "button, [role=button], a:not([href]), a[href='#'], a[href^='javascript:'], input[type=button]"
_UNFOLDS: Final = ("aria-expanded", "aria-controls", "data-toggle", "data-bs-toggle")  # what is there, but not seen
_MAX_BUTTON_CHARS: Final = 60
_FETCHES: Final = re.compile(r"\bfetch\s*\(|XMLHttpRequest|\baxios\b|\.getJSON\b|\$\.(?:get|ajax|post)\b")
_LEAVES: Final = re.compile(r"location(?:\.href)?\s*=[^=]|location\.(?:replace|assign)\s*\(")
# What stands in quotes, or between a # and a quote. The quote that ends one may begin the next.
_NAMED: Final = re.compile(r"['\"#]([^'\"#]{2,100}+)(?=['\"])")
_MAX_SCRIPT_CHARS: Final = 200_000
_MAX_SCRIPTS: Final = 500
_MAX_MENUS: Final = 20  # the text of each is read, and one may hold the others

SHELL_WORDS: Final = 25  # a title and "Loading, please wait" are fewer; any page that says something has more
THIN_WORDS: Final = 60
_FULL_CHARS: Final = 20_000  # or with so long a text, of however few words
_FULL_WORDS: Final = 150  # whatever else may come, a page with so much outside of its menus is not looked at closely


@dataclass(frozen=True, slots=True)
class RenderFeatures:
    """Counts of what a reader would see: `words`, of which `own_words` stand outside of menus, headers and footers, and
    `links`. `scripts`: those that run. `mounts`: empty elements where an app may go, 0 where too many words are seen
    for a shell. `is_hollow`: the place of the main content, of a list, or of the only links is there, and empty, or a
    script fills an empty element with what it fetches. `asks`: what it says without scripts is that it needs them.
    `waits`: it says that it is loading. `has_more`: a button loads more of its list.
    """

    words: int = 0
    own_words: int = 0
    links: int = 0
    scripts: int = 0
    mounts: int = 0
    is_hollow: bool = False
    asks: bool = False
    waits: bool = False
    has_more: bool = False

    @property
    def is_shell(self) -> bool:
        """Tell whether there is nothing but scripts, or nothing but scripts and an excuse."""
        if not self.scripts or self.words > SHELL_WORDS:
            return False
        has_excuse = self.links <= 2 and bool(self.mounts or self.asks or self.waits or self.is_hollow)
        return has_excuse or not (self.words or self.links)

    @property
    def is_blank(self) -> bool:
        """Tell whether there is nothing that a reader would see, or "Loading ..."."""
        return (self.words == 0 and not self.links) or (self.waits and self.words <= SHELL_WORDS)

    @property
    def may_be_more(self) -> bool:
        """Tell whether a browser may see more than this."""
        is_thin = self.own_words <= THIN_WORDS and (self.asks or self.waits)
        return self.is_shell or (self.scripts > 0 and (self.is_hollow or is_thin))


def may_need_browser(html: str, *, is_rendered: bool = False) -> bool:
    """Tell whether `read_render_features` has anything to find: a page without scripts needs neither."""
    # Most pages have one in lower case: a plain search takes a hundredth of the pattern's time.
    return is_rendered or "<script" in html or _SCRIPT.search(html) is not None


def read_render_features(html: str, is_rendered: bool = False) -> RenderFeatures:
    """Read the features by one lexbor parse; see `may_need_browser`."""
    tree = parse(html)
    sources, has_more = _scripts(tree), _has_more(tree)
    return replace(_features_of(tree, sources), has_more=has_more) if sources or is_rendered else RenderFeatures()


def read_page_and_features(html: str, url: str) -> tuple[PageContent, RenderFeatures]:
    """Return what `read_page` and `read_render_features` give, mostly from one parse. Of the features of a page that
    shows much outside of its menus all is 0 but its words, which may be fewer: no browser is wanted for it.
    """
    tree = parse(html)
    sources = _scripts(tree)
    has_more = bool(sources) and _has_more(tree)
    is_changed = bool(sources) and tree.css_first(_STRIPPED_BY_READING) is not None
    content, evidence = read_with_evidence(tree, html, url)
    if not sources:
        return content, RenderFeatures()
    own_words = _own_words(evidence)
    if own_words > _FULL_WORDS and content.links:
        return content, RenderFeatures(words=own_words, own_words=own_words, has_more=has_more)
    features = read_render_features(html) if is_changed else _features_of(tree, sources)
    if features.links and content.cues["word_count"] > features.words + THIN_WORDS:
        features = replace(features, is_hollow=False, asks=False, waits=False)  # its text came with it, as data
    return content, replace(features, has_more=has_more)


def _has_more(tree: LexborHTMLParser) -> bool:
    for node in tree.css(PRESSABLE):
        text = (node.text().strip() or node.attributes.get("value") or node.attributes.get("aria-label") or "").strip()
        if len(text) < _MAX_BUTTON_CHARS and _LOADS_MORE.match(text) and node.attributes.keys().isdisjoint(_UNFOLDS):
            return True
    return False


def _own_words(evidence: KindEvidence) -> int:
    """Return how many words a reader sees for sure outside of menus, headers and footers."""
    page, layout = evidence.page, evidence.layout
    if page.has_hidden or layout.is_empty:
        return 0
    is_around, behind = np.zeros(len(page.parents), np.bool_), 0
    for container, attributes in enumerate(page.attributes):
        if container >= behind and "role=" in attributes and _AROUND_ROLE.search(attributes) is not None:
            behind = int(layout.behind[container])
            is_around[container:behind] = True
    is_own = ~(layout.block_above[:, _AROUND_TAGS].any(1) | is_around.take(layout.containers))
    return sum([block.words for block, is_counted in zip(page.blocks, is_own.tolist(), strict=True) if is_counted])


def _features_of(tree: LexborHTMLParser, sources: list[str]) -> RenderFeatures:
    asks = any(_ASKS.search(node.text()) for node in tree.css("noscript"))
    tree.strip_tags(_NEVER_SEEN)
    body = tree.body
    if body is None:
        return RenderFeatures(scripts=len(sources), asks=asks)
    words, links = len(body.text(separator=" ").split()), len(tree.css("a[href]"))
    lacks_links = not links and any(map(_is_empty, tree.css(_MENUS)[:_MAX_MENUS]))
    for node in tree.css(_AROUND):
        node.decompose()
    own_text = body.text(separator=" ")
    own = own_text.split()
    if len(own) > _FULL_WORDS or len(own_text) > _FULL_CHARS:
        return RenderFeatures(words, len(own), links, len(sources), is_hollow=lacks_links, asks=asks)
    return RenderFeatures(
        words=words,
        own_words=len(own),
        links=links,
        scripts=len(sources),
        mounts=sum(map(_is_mount, _empty_elements(body))) if words <= SHELL_WORDS else 0,
        is_hollow=lacks_links or _is_hollow(tree, body, sources, is_thin=len(own) <= THIN_WORDS),
        asks=asks,
        waits=_WAITS.match(" ".join(own[:10])) is not None,
    )


def _scripts(tree: LexborHTMLParser) -> list[str]:
    """Return the sources of the scripts that run, "" for those of files."""
    return [
        node.text()[:_MAX_SCRIPT_CHARS]
        for node in tree.css("script")[:_MAX_SCRIPTS]
        if _RUNS.fullmatch((node.attributes.get("type") or "").strip())
    ]


def _empty_elements(body: LexborNode) -> list[LexborNode]:
    """Return the outermost elements with nothing in them that a reader would see."""
    found: list[LexborNode] = []
    waiting = list(body.iter())
    while waiting:
        node = waiting.pop()
        if node.text().strip():
            waiting += list(node.iter())
        elif node.css_first(_HOLDS_SOMETHING) is None and not node.css_matches(_HOLDS_SOMETHING):
            found.append(node)
    return found


def _is_empty(node: LexborNode) -> bool:
    return not node.text().strip() and node.css_first(_HOLDS_SOMETHING) is None


def _is_mount(node: LexborNode) -> bool:
    tag = node.tag or ""
    if "-" in tag:
        return True
    attributes = node.attributes
    names = [attributes.get("id") or "", *(attributes.get("class") or "").split()]
    framework = any(name.startswith(("data-react", "data-v-app", "ng-", "data-ng-")) for name in attributes)
    return framework or tag == "main" or any(_MOUNTS.fullmatch(name) for name in names if name)


def _is_hollow(tree: LexborHTMLParser, body: LexborNode, sources: list[str], *, is_thin: bool) -> bool:
    mains = [node for node in tree.css(_MAIN) if node.tag not in ("input", "a", "button")]
    if mains and all(map(_is_empty, mains)):
        return True
    filling = " ".join(source for source in sources if _FETCHES.search(source))
    named = set(_NAMED.findall(filling))
    empty = _empty_elements(body) if named or is_thin else []
    if any((node.attributes.get("id") or "") in named for node in empty):
        return True
    # What a script in a file fills cannot be read here: the element's names have to do.
    return is_thin and any(
        _LIST_NAME.search(node.attributes.get("id") or "")
        or node.css_matches(_PLACEHOLDER)
        or node.css_first(_PLACEHOLDER) is not None
        for node in empty
    )
