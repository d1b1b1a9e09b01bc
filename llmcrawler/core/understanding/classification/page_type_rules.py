"""Rules of thumb for pages that no model judges: words of the address and the title, and counts of what the page holds.

Every cue adds points to a type; the type with most points wins. The points are rough weights of evidence, in steps,
not fitted to any set of pages. How often such a verdict is right was measured.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from typing import Final
from urllib.parse import unquote, urlsplit

from llmcrawler.core.understanding.classification.page_types import PageTypes, labels_of_known
from llmcrawler.core.understanding.classification.question import CLASSIFIER, NO_CUE, RULE, Question, Verdict
from llmcrawler.core.urls import routed_path

# Software that makes one kind of page only, as it names itself in `meta generator`.
_CODE_DOCS = "javadoc|rustdoc|gtk-doc|jsdoc|typedoc|yard|pdoc|epydoc|dokka|scaladoc|phpdocumentor"
_DOCS = (
    "sphinx|docutils|mkdocs|docusaurus|docbook|publican|asciidoc|makeinfo|texi2html|gitbook|antora|mdbook|vuepress"
    "|vitepress|mediawiki|dokuwiki|moinmoin"
)
_FORUMS = "discourse|phpbb|vbulletin|mybb|xenforo|invision|flarum|nodebb|fluxbb|punbb|vanilla"
_GENERATORS: Final = (
    (re.compile(_CODE_DOCS), (("api_reference", 8),)),
    (re.compile("doxygen"), (("api_reference", 3),)),  # it makes prose and source listings, too
    (re.compile(_DOCS), (("documentation", 4),)),
    (re.compile(_FORUMS), (("forum_thread", 3), ("listing", 1))),
)

# Words that stand as a segment of the path or a label of the host, or that open a title, in a few languages.
_WORDS: dict[str, str] = json.loads(
    files("llmcrawler.core.understanding.classification").joinpath("address_words.json").read_text(encoding="utf-8")
)
_TYPES_BY_WORD: dict[str, list[str]] = {}
for _name, _listed in _WORDS.items():
    for _word in _listed.split():
        _TYPES_BY_WORD.setdefault(_word, []).append(_name)

# /products is a list, /products/red-shoe a product.
_SHELVES = frozenset({"products", "shop", "store", "items", "produkte", "productos", "produits"})
_LISTS = frozenset({"blog", "news", "articles", "stories", "posts", "events", "jobs", "recipes", "questions"})
_BOARDS = frozenset({"forum", "forums", "community"})
_ENTRIES = frozenset({"add", "compose", "create", "edit", "new", "reply", "write"})

_DATED = re.compile(r"/(?:19|20)\d\d/(?:0?[1-9]|1[0-2])(?:/|\b)")
_WORD_OF_SEGMENT = re.compile(r"[a-z]+(?:-[a-z]+)*")
_NOT_FOUND = re.compile(r"\b(?:404|page not found|not found|access denied|forbidden|nicht gefunden)\b", re.IGNORECASE)
_QUESTION_TITLE = re.compile(r"\A(?:how|what|why|when|where|which|who|can|is|are|does|do|should)\b.*\?", re.IGNORECASE)
_API_TITLE = re.compile(
    r"\b(?:class|struct|union|namespace|interface|module|package|file|enum) (?:template )?reference\b", re.IGNORECASE
)
_LIST_TITLE = re.compile(r"\b(?:all|archives?|category|browse|results|shop|collection|posts|products)\b", re.IGNORECASE)
# Phrases in lower case. That a word begins with them is seen to by `_count`: with a boundary or any case before it, a
# pattern is tried at each letter of the text.
_POSTERS = re.compile(r"(?:repl(?:y|ies)|posted|joined|quote|wrote|posts|topic|thread|forum|antworten|beiträge)\b")
_BUY = re.compile(
    r"add to (?:cart|basket|bag)|buy now|in stock|out of stock|in den warenkorb|añadir al carrito|ajouter au panier"
    r"|free shipping"
)
_GOODS = re.compile(r"(?:sku|quantity)\b")
_HIRE = re.compile(
    r"(?:our (?:services|team|experts|clients|work|process)"
    r"|we (?:offer|provide|help|specialize)"
    r"|free (?:quote|consultation)|get (?:started|a quote|in touch)|contact us|schedule|book (?:a|an|your|now)|call us"
    r"|request a|years of experience|testimonials|why choose)\b"
)
_FORM_WORDS = 150
_LOOKED_AT_CHARS = 20_000

# Points by which a winner may be ahead of the next type, and for each type with such a lead (right, all) verdicts on
# the 1,310 pages of WCXB's dev split (CC-BY-4.0), as far as structured data does not decide. Those pages have seven
# types; one that is none of them cannot be measured there, and has the figures of all verdicts together, in which it
# counts as wrong. From benchmarks/rules_on_pages.py.
LEADS: Final = (4, 2, 1, 0)
_MEASURED: Mapping[str, Sequence[tuple[int, int]]] = {
    "": [(255, 300), (205, 306), (103, 209), (61, 111)],
    "article": [(95, 95), (122, 134), (71, 87), (56, 77)],
    "collection": [(46, 56), (19, 42), (2, 19), (1, 7)],
    "documentation": [(35, 35), (22, 27), (9, 20), (1, 5)],
    "forum_thread": [(35, 35), (10, 11), (6, 7), (1, 7)],
    "listing": [(5, 5), (10, 17), (1, 14), (2, 5)],
    "product": [(13, 16), (2, 14), (4, 20), (0, 6)],
    "service": [(26, 26), (20, 31), (10, 27), (0, 0)],
}

_SOME_PRICES: Final = 5  # a list that shows so many is a shop's
# Rules that are so many points ahead may name a type which the trained model does not know; where the model is not even
# so sure, a smaller lead will do. WCXB's dev split says little of it, as its pages have seven types: there the clear
# lead is front pages only, the smaller one changes 5 of 1,310 verdicts.
_CLEAR_LEAD: Final = 4
_LEAD: Final = 2
_DOUBTFUL: Final = 0.6
# The trained model takes references of code for documentation, which they are. Where a set has a type for them, it was
# right on so large a share of the pages that it was sure about: the mean over eight sites of documentation.
_NO_REFERENCE: Final = 0.52

# og:type, and schema.org's types, of which one is enough -> page types and points.
_BY_OG_TYPE: dict[str, tuple[tuple[str, int], ...]] = {
    "article": (("article", 1),),
    "product": (("product", 4),),
    "product.item": (("product", 4),),
    "og:product": (("product", 4),),
    "product.group": (("listing", 4),),
}
_BY_SCHEMA_TYPE = (
    (("Article", "NewsArticle", "BlogPosting"), "article", 3),
    (("DiscussionForumPosting", "QAPage"), "forum_thread", 4),
    (("QAPage",), "question", 4),
    (("Service", "LocalBusiness", "ProfessionalService"), "service", 2),
    (("TechArticle",), "documentation", 4),
)


class PageTypeRules:
    """Decides among the labels of the given set that are known types, by name or by description."""

    def __init__(self, page_types: PageTypes) -> None:
        self._label_of = labels_of_known(page_types)
        self._fallback = page_types.fallback
        # Where the set has types of the user's own, what looks like a known one may be one of those.
        self.knows_all_types = set(page_types.names) <= {*self._label_of.values(), page_types.fallback}

    def decide(self, question: Question) -> tuple[str | None, float]:
        """Return the label and the confidence; without any cue the fallback type or None, with little confidence."""
        best = self.best(question)
        if best is None:
            return self._fallback, NO_CUE if self._fallback else 0.0
        name, lead = best
        return self._label_of[name], confidence_of(_MEASURED.get(name, _MEASURED[""])[LEADS.index(lead)])

    def guess(self, question: Question) -> Verdict:
        """Return what the page looks like: to the trained model, or to rules that are ahead with a type new to it.
        Without any cue, or for a known kind that the set lacks, the fallback type, with little confidence, or None. The
        same for a form to write something, such as a review: much of it repeats the page that the form belongs to.
        """
        if self._fallback and _is_entry_form(question):
            return Verdict(self._fallback, NO_CUE, RULE)
        shares = defaultdict[str, float](float)
        for kind, probability in question.content.kinds.items():
            if label := self._label_of.get(kind):
                shares[label] += probability
        if not shares:
            return Verdict(*self.decide(question), RULE)
        label, confidence = max(shares.items(), key=lambda pair: pair[1])
        best = self.best(question)
        enough = _LEAD if confidence < _DOUBTFUL else _CLEAR_LEAD
        if best is not None and best[1] >= enough and self._label_of[best[0]] not in shares:
            return Verdict(*self.decide(question), RULE)
        if self._fallback and confidence < 1 - sum(shares.values()):
            return Verdict(self._fallback, NO_CUE, CLASSIFIER)
        if label == self._label_of.get("documentation") and "api_reference" in self._label_of:
            confidence *= _NO_REFERENCE
        return Verdict(label, confidence, CLASSIFIER)

    def best(self, question: Question) -> tuple[str, int] | None:
        """Return the default name of the type with most points, and how far it is ahead, as one of LEADS; None without
        any cue."""
        ranked = sorted(self._points(question).items(), key=lambda item: (-item[1], item[0]))
        if not ranked:
            return None
        ahead = ranked[0][1] - (ranked[1][1] if len(ranked) > 1 else 0)
        return ranked[0][0], next(lead for lead in LEADS if ahead >= lead)

    def may_both_be(self, one: str, other: str) -> bool:
        """Tell whether rules do not tell these labels apart well: a list of goods, and one of other pages."""
        return {one, other} <= {self._label_of.get(name) for name in ("listing", "collection")}

    def _points(self, question: Question) -> dict[str, int]:
        return {name: value for name, value in score(question).items() if name in self._label_of and value > 0}


def confidence_of(measured: tuple[int, int]) -> float:
    """Return the chance that a verdict is right, of (right, all) so far: Laplace's rule of succession."""
    right, total = measured
    return (right + 1) / (total + 2)


def score(question: Question) -> Counter[str]:
    """Return points by page type of the default set."""
    points: Counter[str] = Counter()
    for rule in (_by_url, _by_title, _by_metadata, _by_counts, _by_text):
        for name, value in rule(question):
            points[name] += value
    cues, og_type = Counter(question.content.cues), question.content.metadata.get("og:type", "").lower()
    has_goods = cues["price_count"] >= _SOME_PRICES or cues["add_to_cart"] > 1 or og_type == "product.group"
    if points["listing"] > 0 and has_goods:
        points["collection"] = points.pop("listing")
    return points


def _is_entry_form(question: Question) -> bool:
    if urlsplit(question.url).path.rstrip("/").rpartition("/")[2].lower() not in _ENTRIES:
        return False
    return any(">textarea" in name for name in question.content.features)


def _by_url(question: Question) -> Iterator[tuple[str, int]]:
    parts = urlsplit(routed_path(question.url))
    path = unquote(parts.path).lower()
    segments = [segment for segment in path.split("/") if segment]
    if not segments and not parts.query:
        yield "homepage", 6
    for label in (parts.hostname or "").split(".")[:-1]:
        yield from ((name, 2) for name in _TYPES_BY_WORD.get(label, ()))
    for at, segment in enumerate(segments):
        word = re.sub(r"\.\w{2,5}\Z", "", segment).replace("_", "-")
        is_last = at == len(segments) - 1
        yield from ((name, 3 if is_last else 2) for name in _TYPES_BY_WORD.get(word, ()))
        if word in _SHELVES and not is_last:
            yield from (("product", 2), ("listing", -1))
        if word in _LISTS and is_last:
            yield "listing", 4
        if word in _BOARDS and is_last:
            yield "listing", 2
    if _DATED.search(path):
        yield "article", 3
    if re.search(r"(?:\A|&)(?:page|p|sort|filter\w*|category|cat)=", parts.query):
        yield "listing", 2
    if re.search(r"(?:\A|&)(?:q|query|search|s|keyword)=", parts.query):
        yield "search", 4


def _by_title(question: Question) -> Iterator[tuple[str, int]]:
    title = question.title
    if _NOT_FOUND.search(title):
        yield "error", 8
    for word in set(_WORD_OF_SEGMENT.findall(title.lower())):
        if len(word) > 2:
            yield from ((name, 1) for name in _TYPES_BY_WORD.get(word, ()))
    if _QUESTION_TITLE.match(title):
        yield from (("question", 1), ("forum_thread", 1), ("article", 1))
    if _API_TITLE.search(title):
        yield "api_reference", 4
    if _LIST_TITLE.search(title):
        yield "listing", 1


def _by_metadata(question: Question) -> Iterator[tuple[str, int]]:
    metadata = question.content.metadata
    if metadata.get("published") or metadata.get("author"):
        yield "article", 2
    generator = metadata.get("generator", "").lower()
    for pattern, cues in _GENERATORS:
        if pattern.search(generator):
            yield from cues
    yield from _BY_OG_TYPE.get(metadata.get("og:type", "").lower(), ())
    kinds = Counter(str(one.get("@type")) for one in question.content.structured_data)
    if kinds["Product"] == 1:
        yield "product", 3
    elif kinds["Product"] > 3 or kinds["CollectionPage"]:
        yield "listing", 3
    if kinds["Comment"] > 1 and not any(kinds[kind] for kind in ("DiscussionForumPosting", "QAPage")):
        yield "forum_thread", 4
    for names, name, value in _BY_SCHEMA_TYPE:
        if any(kinds[kind] for kind in names):
            yield name, value


def _by_counts(question: Question) -> Iterator[tuple[str, int]]:
    cues = Counter(question.content.cues)
    words = max(cues["word_count"], 1)  # not those of the text, of which a model is shown an excerpt
    if cues["password_inputs"]:
        # A page of little else is that form; others have one beside what they are about.
        value = 8 if cues["word_count"] < _FORM_WORDS else 4
        yield "login" if cues["password_inputs"] == 1 else "signup", value
    if cues["code_blocks"] >= 2:
        yield from (("documentation", 3), ("api_reference", 2))
    if cues["price_count"]:
        yield ("listing", 3) if cues["price_count"] >= 8 else ("product", 2)
    if cues["add_to_cart"]:
        yield ("product", 1) if cues["add_to_cart"] < 6 else ("listing", 2)
    if cues["article_tags"] == 1:
        yield "article", 1
    elif cues["article_tags"] >= 4:
        yield from (("listing", 1), ("forum_thread", 1))
    links_per_word = cues["link_count"] / words
    if links_per_word > 0.4:
        yield "listing", 2
    elif words > 600 and links_per_word < 0.1:
        yield from (("article", 1), ("documentation", 1))


def _by_text(question: Question) -> Iterator[tuple[str, int]]:
    text = question.text[:_LOOKED_AT_CHARS].lower()
    posters = _count(_POSTERS, text)
    yield "forum_thread", 3 if posters >= 10 else 1 if posters >= 4 else 0
    yield "product", min(3, len(_BUY.findall(text)) + _count(_GOODS, text))
    yield "service", min(4, _count(_HIRE, text))
    if len(text) < 600 and _NOT_FOUND.search(text[:200]):
        yield "error", 3


def _count(pattern: re.Pattern[str], text: str) -> int:
    """Return how often the pattern stands at the beginning of a word."""
    starts = [match.start() for match in pattern.finditer(text)]
    return sum([not (start and (text[start - 1].isalnum() or text[start - 1] == "_")) for start in starts])
