"""Lists words of addresses that tell what stands behind them, by kind; a word may stand for several."""

from __future__ import annotations

from typing import Final

ADDRESS_WORDS: Final[dict[str, frozenset[str]]] = {
    kind: frozenset(words.split())
    for kind, words in {
        "article": "blog news article articles story stories post posts insights magazine opinion resources press "
        "learn tips",
        "product": "product products p dp item itm pd prod",
        "shelf": "collection collections category categories shop c browse catalog store sale women men b cat "
        "department departments",
        "list": "tag tags archive archives topics topic category list directory search index best latest all section "
        "page events jobs videos explore",
        "docs": "docs doc documentation guide guides manual tutorial tutorials help reference api wiki kb hc en-us "
        "latest stable learn library support man section",
        "forum": "forum forums thread threads t viewtopic showthread discussion discussions community questions topic "
        "r comments boards showtopic q answers",
        "service": "services service solutions solution treatments about industries platform features pricing "
        "practice-areas what-we-do locations products",
    }.items()
}
HOST_WORDS: Final[dict[str, frozenset[str]]] = {
    "docs": frozenset("docs doc developer developers help support wiki kb api dev learn documentation".split()),
    "forum": frozenset("forum forums community discuss discussion board boards talk answers ask".split()),
    "blog": frozenset("blog blogs news magazine journal".split()),
    "shop": frozenset("shop store outlet".split()),
}
# Names of sites have them within a word.
HOST_PARTS: Final[dict[str, tuple[str, ...]]] = {
    "forum": ("forum", "community", "discuss", "board", "talk", "stackexchange", "answers"),
    "blog": ("blog", "news", "times", "post", "magazine", "journal"),
    "shop": ("shop", "store", "outlet"),
}
# The kinds that a word of an address stands for.
KINDS_OF_WORD: Final[dict[str, tuple[str, ...]]] = {
    word: tuple(kind for kind, words in ADDRESS_WORDS.items() if word in words)
    for word in frozenset().union(*ADDRESS_WORDS.values())
}
