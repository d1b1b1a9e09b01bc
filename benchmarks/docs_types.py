"""Measures page types by propagation on documentation that several generators made, with a model that knows the truth.

    python -m benchmarks.docs_types FOLDER [NAME ...] [--stored SITE_DIR ...] [--rates 5,20] [--seeds 2]

FOLDER gets Debian's packages of documentation (`apt-get download`) and what is in them. NAME is part of a key of SITES.
The truth goes by the path, else by the root element or the share of text in descriptions of an API.
There are no such packages of Docusaurus and VitePress: SITE_DIR is a stored site, as benchmarks.classification_replay
reads it. Prints right page types of all pages and of those that the model was not shown, pages shown, and the V-measure
of templates and types: means over rates and seeds, and the worst.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import random
import re
import subprocess
from collections.abc import Callable, Sequence
from importlib.resources import files
from pathlib import Path
from statistics import mean
from typing import NamedTuple

from benchmarks.classification_replay import Oracle, Replay, StoredPage, in_crawl_order, stored_pages
from benchmarks.templates_quality import homogeneity_and_v
from llmcrawler.core.content import main_text, read_page
from llmcrawler.core.understanding.classification.page_types import load_page_types
from llmcrawler.core.understanding.templates.page_sample import words_of
from tests.virtual_time import VirtualTimeLoop

TYPES = load_page_types(files("llmcrawler.core.understanding.classification").joinpath("page_types.json"))
Rules = Sequence[tuple[str, str | Callable[[str], str]]]  # the first whose pattern is found in the path decides


def _is_prose(text: str) -> str:
    """Tell a guide from a reference of Sphinx by the share of its text within descriptions of an API."""
    main = re.search(r'<div class="(?:body|docs-body|document)', text)
    body = text[main.start() :] if main else text
    inside, start, depth = 0, 0, 0
    for tag in re.finditer(r'<dl class="(?:py|c|std|cpp|sig)[ "][^>]*>|<(/?)dl[\s>]', body):
        if depth == 0:
            start, depth = tag.start(), int(tag[1] is None)
        else:
            depth += -1 if tag[1] else 1
            inside += _letters(body[start : tag.end()]) if depth == 0 else 0
    return "api_reference" if inside > _letters(body) / 2 else "documentation"


def _letters(markup: str) -> int:
    return len(re.sub(r"<[^>]+>|\s+", "", markup))


def _docbook(text: str) -> str:
    root = re.search(r'<div class="(\w+)" id="', text)
    if root and root[1] in ("chapter", "part", "reference", "appendix", "preface") and '<div class="toc">' in text:
        return "listing"
    return "api_reference" if root and root[1] == "refentry" else "documentation"


def _gtk_doc(text: str) -> str:
    if 'class="refentry"' not in text:
        return "listing" if 'class="toc"' in text else "documentation"
    has_api = re.search(r'name="[^"]*\.(functions|functions_details|other|other_details|properties)"', text)
    return "api_reference" if has_api else "documentation"


def _doxygen_group(text: str) -> str:
    return "api_reference" if 'class="memberdecls"' in text else "documentation"


SPHINX: Rules = (
    (r"^(genindex|py-modindex|contents|modindex)|^_modules/index", "listing"),
    (r"^search\.html", "search"),
    (r"^index\.html", "homepage"),
    (r"^(copyright|license)\.html", "legal"),
    (r"^404\.html", "error"),
    (r"^_modules/", "other"),
    (r"/index\.html", "listing"),
    (r"^faq(/|\.html)", "faq"),
)
LISTS = (
    "annotated|classes|hierarchy|files|modules|pages|functions|namespaces?|namespacemembers|globals|inherits|deprecated"
)
INDEXES = "index-all|allclasses-index|allpackages-index|overview-summary|deprecated-list"
# Package, folder in it, rules. Other pages are documentation.
SITES: dict[str, tuple[str, str, Rules]] = {
    "django (Sphinx)": (
        "python-django-doc",
        "html",
        (*SPHINX, (r"^releases/", "article"), (r"^ref/", "api_reference")),
    ),
    "sqlalchemy (Sphinx)": (
        "python-sqlalchemy-doc",
        "html",
        (
            *SPHINX,
            (r"^changelog/", "article"),
            (r"tutorial\.html", "documentation"),
            (r"^(core|orm|dialects)/", _is_prose),
        ),
    ),
    "python (Sphinx)": (
        "python3.11-doc",
        "html",
        (
            *SPHINX,
            (r"^(about|bugs)\.html", "about"),
            (r"^download\.html", "download"),
            (r"^(library|c-api)/", "api_reference"),
            (r"^whatsnew/", "article"),
        ),
    ),
    "restframework (MkDocs)": (
        "python-djangorestframework-doc",
        "html",
        (
            *SPHINX[:5],
            (r"^api-guide/", "api_reference"),
            (r"^community/.*(announcement|release-notes|grant)", "article"),
            (r"^community/.*(third-party|resources|jobs)", "listing"),
            (r"^community/.*funding", "other"),
        ),
    ),
    "eigen (Doxygen)": (
        "libeigen3-doc",
        "html",
        (
            *SPHINX[1:3],
            (r"_source\.html", "other"),
            (r"-members\.html|_8(h|hpp|dox|cc|tcc|cpp)\.html", "api_reference"),
            (rf"^(dir_|({LISTS})(_|\.|[a-z]*\.html))", "listing"),
            (r"^group__(QuickRef|.*[Tt]utorial|.*__chapter|.*__Reference)", "documentation"),
            (r"^group__", _doxygen_group),
            (r"^(class|struct|union|namespace)[A-Z_a-z]", "api_reference"),
        ),
    ),
    "commons-lang (Javadoc)": (
        "libcommons-lang3-java-doc",
        "api",
        (
            *SPHINX[1:3],
            (r"^src-html/", "other"),
            (r"/class-use/|(package-use|-tree|-summary)\.html", "listing"),
            (rf"^index-files/|({INDEXES})\.html", "listing"),
            (r"help-doc\.html|/doc-files/", "documentation"),
            (r"", "api_reference"),
        ),
    ),
    "postgresql (DocBook)": (
        "postgresql-doc-15",
        "html",
        (
            (r"^index\.html", "homepage"),
            (r"^legalnotice\.html", "legal"),
            (r"^release\.html|^bookindex\.html", "listing"),
            (r"^release-", "article"),
            (r"^(catalog|view|infoschema)-(?!.*overview)", "api_reference"),
            (r"", _docbook),
        ),
    ),
    "apache (XSLT)": (
        "apache2-doc",
        "manual/en",
        (
            *SPHINX[2:3],
            (r"(^|/)(index|sitemap|directives|quickreference|overrides)\.html", "listing"),
            (r"^license\.html", "legal"),
            (r"^(new_features|upgrading)", "article"),
            (r"^mod/(?!.*-dict)", "api_reference"),
        ),
    ),
    "ikiwiki (a wiki)": (
        "ikiwiki",
        "html",
        (
            (r"^index\.html", "homepage"),
            (r"^ikiwiki/directive/.", "api_reference"),
            (r"discussion\.html", "forum_thread"),
            (r"^(news|tips|examples/blog/posts)/.", "article"),
            (r"^(plugins/contrib|soc)/.", "download"),
            (r"^quotes/.", "review"),
            (
                r"^(news|plugins|tips|templates|users|examples|tags|sitemap|recentchanges|themes|wishlist)\.html",
                "listing",
            ),
            (r"^(rcs|basewiki|ikiwiki/directive|plugins/type/\w+|plugins/contrib|examples/blog)\.html", "listing"),
        ),
    ),
    "glib (DocBook)": (
        "libglib2.0-doc",
        "html",
        ((r"(^|/)index\.html|api-index|annotation-glossary|object-tree", "listing"), (r"", _gtk_doc)),
    ),
}


class Result(NamedTuple):
    right: float
    right_of_others: float
    shown: float
    v: float


def fetched(folder: Path, package: str) -> Path:
    """Return the folder of an unpacked package, downloading it before if need be."""
    target = folder / package
    if not target.exists():
        folder.mkdir(parents=True, exist_ok=True)
        subprocess.run(["apt-get", "download", package], cwd=folder, check=True)
        (archive,) = folder.glob(f"{package}_*.deb")
        subprocess.run(["dpkg-deb", "-x", archive, target], check=True)
    return target / "usr/share"


def read_site(folder: Path, package: str, name: str, rules: Rules) -> list[StoredPage]:
    share = fetched(folder, package)
    (root,) = [one for one in (*share.glob(f"doc/*/{name}"), *share.glob(f"gtk-doc/{name}")) if not one.is_symlink()][
        :1
    ]
    pages = []
    for file in sorted(root.rglob("*.html")):
        path = str(file.relative_to(root))
        raw = (
            ""
            if re.search(r"(^|/)_static/|^(assets|legal|resources|search)/", path)
            else file.read_text("utf-8", "replace")
        )
        if not raw or re.search(r"http-equiv=[\"']?refresh", raw[:2000], re.IGNORECASE):
            continue
        label = next((label for pattern, label in rules if re.search(pattern, path)), "documentation")
        url = "http://docs.test/" + path.removesuffix("index.html")
        content = read_page(raw, url)
        page_type = label if isinstance(label, str) else label(raw)
        pages.append(StoredPage(url, page_type, content, main_text(content.blocks, None), words_of(content)))
    return pages


def measure(pages: list[StoredPage], rate: float, seed: int) -> Result:
    truth, chance = {page.url: page.page_type for page in pages}, random.Random(seed)
    order = in_crawl_order(pages, chance)
    replay = Replay(order, Oracle(truth, TYPES.names, 2.0, 0.0, 0.0, chance), TYPES)
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        verdicts = runner.run(replay.run(rate))
    right = [verdict.page_type == page.page_type for verdict, page in zip(verdicts, order, strict=True)]
    others = [told for told, verdict in zip(right, verdicts, strict=True) if verdict.decided_by != "llm"]
    match = replay.grouper.match
    groups = [match(page.url, page.content.features, page.words, title=page.content.title) for page in order]
    v = homogeneity_and_v([page.page_type for page in order], groups)[1]
    return Result(mean(right), mean(others or [True]), 1 - len(others) / len(order), v)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--stored", nargs="*", type=Path, default=[])
    parser.add_argument("--rates", default="5,20")
    parser.add_argument("--seeds", type=int, default=2)
    args = parser.parse_args()
    logging.disable(logging.WARNING)
    chosen = [name for name in SITES if not args.names or any(part in name for part in args.names)]
    for site in (*chosen, *args.stored):
        pages = read_site(args.folder, *SITES[site]) if isinstance(site, str) else stored_pages(site)
        runs = [measure(pages, float(rate), seed) for rate in args.rates.split(",") for seed in range(args.seeds)]
        right, others, shown, v = map(mean, zip(*runs, strict=True))
        print(
            f"{site!s:24} {len(pages):5} pages: right {right:.3f} (worst {min(run.right for run in runs):.3f}), "
            f"of those not shown {others:.3f}, shown {shown:.3f}, V {v:.3f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
