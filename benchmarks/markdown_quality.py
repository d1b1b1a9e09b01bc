"""How true the feed's Markdown is to the sources of documentation that generators built: tables, code, formulas, ...

    python -m benchmarks.markdown_quality [--generators mkdocs,sphinx,docusaurus] [--keep FOLDER]
                                                [--misses tables] [--python PATH] [--product ROOT]

Each site is built (MkDocs, Sphinx and Docusaurus, whichever is there), served on loopback and crawled, without a model.
The `text` of each page is read as Markdown and compared with what its source says. trafilatura and rs-trafilatura read
the same pages, where they are installed.

tables        share of tables that are there whole: every row and cell, in order; partial: how many are there in part
code          whole listings; languages: whole and with the language, of those whose source names one
others        share of headings (with level), links (text and target), items, inline code, formulas, ... of the source
precision     the same of what the output claims, after the bar
words         word F1 of all text
paragraphs    by what they stand in: share whose text is in the output

What a source says and its page does not show (options of a dialect that is not read here) is left out of all of them.

--keep      build in FOLDER, and use what is built there already
--python    the interpreter that has mkdocs and sphinx, if not this one; --peers-python: that has trafilatura
--product   the root of the checkout to crawl with, if not this one
--misses    print what of one construct was not found, of the first extractor
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from lxml import html as lxml_html

from benchmarks.markdown_sites import GENERATORS, NotBuilt, Site, build
from benchmarks.markdown_truth import SCORES, Scores, Shown, read_markdown, resolver

ROOT = Path(__file__).resolve().parents[1]
_SETTINGS = {
    "DOWNLOAD_DELAY": 0,
    "CONCURRENT_REQUESTS_PER_DOMAIN": 8,
    "AUTOTHROTTLE_ENABLED": False,
    "LLM_PROVIDER": "none",
    "LLM_CACHE": False,
}
# Reads {"file", "url"} as JSON lines, writes the Markdown of each as a JSON string.
_PEER = """
import json, sys
name = sys.argv[1]
if name == "trafilatura":
    from trafilatura import extract
    given = dict(output_format="markdown", include_tables=True, include_links=True, include_formatting=True)
    given["include_images"] = True
    read = lambda html, url: extract(html, url=url, **given) or ""
elif name == "rs-trafilatura":
    import rs_trafilatura
    given = dict(output_markdown=True, include_tables=True, include_links=True)
    def read(html, url):
        found = rs_trafilatura.extract(html, url=url, **given)
        return found.content_markdown or found.main_content or ""
else:  # one page at a time, without what a crawl knows of the others
    sys.path.insert(0, "")
    from llmcrawler import read_page
    read = lambda html, url: read_page(html, url).text
for line in sys.stdin:
    page = json.loads(line)
    print(json.dumps(read(open(page["file"], encoding="utf-8").read(), page["url"])), flush=True)
"""


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def served(folder: Path) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Quiet, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        thread.join()


def crawl(url: str, product: Path) -> dict[str, str]:
    """Path of each page -> its text in the feed."""
    with tempfile.TemporaryDirectory() as folder:
        feed = Path(folder) / "pages.jsonl"
        command = [sys.executable, "-m", "scrapy", "crawl", "explore", "-a", f"url={url}", "-a", "max_pages=100000"]
        settings = [part for name, value in _SETTINGS.items() for part in ("-s", f"{name}={value}")]
        environ = {name: value for name, value in os.environ.items() if not name.startswith(("LLM_", "OPENAI_"))}
        done = subprocess.run(
            [*command, *settings, "-O", str(feed)],
            cwd=product,
            env=environ,
            capture_output=True,
            text=True,
            check=False,
        )
        if not feed.exists():
            raise NotBuilt(f"the crawl failed: {done.stderr[-2000:]}")
        lines = [json.loads(line) for line in feed.read_text(encoding="utf-8").splitlines()]
    return {page_of(line["url"]): line.get("text") or "" for line in lines if line["kind"] == "page"}


def page_of(url: str) -> str:
    """The path of the file that a page is served from."""
    path = unquote(urlsplit(url).path).strip("/")
    return path if path.endswith(".html") else f"{path}/index.html".lstrip("/")


def peer(name: str, pages: dict[str, Path], url: str, python: str, cwd: Path) -> dict[str, str] | None:
    """Path of each page -> Markdown; None where the peer is not installed."""
    asked = "".join(json.dumps({"file": str(file), "url": url + path}) + "\n" for path, file in pages.items())
    command = [python, "-c", _PEER, name]
    done = subprocess.run(command, input=asked, cwd=cwd, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        print(f"  without {name}: {done.stderr.strip().splitlines()[-1]}")
        return None
    return dict(zip(pages, map(json.loads, done.stdout.splitlines()), strict=True))


def score(site: Site, texts: dict[str, str], url: str) -> Scores:
    scores = Scores()
    for page in sorted(site.pages):
        file = site.folder / page
        if not file.exists():
            continue
        address = url + page.removesuffix("index.html")
        output = read_markdown(texts.get(page, ""), resolver(address))
        scores.add(page, site.truth(page, address), output, shown_by(file.read_bytes()))
    return scores


_UTF8 = lxml_html.HTMLParser(encoding="utf-8")
_WITHIN = {"table": "table", "li": "li", "heading": "h1|h2|h3|h4|h5|h6"}
_MAIN = "//main|//article|//*[@role='main']"


def shown_by(body: bytes) -> Shown:
    tree: Any = lxml_html.fromstring(body, parser=_UTF8)
    for element in tree.xpath("//script|//style|//*[contains(@class,'linenos')]"):
        element.drop_tree()
    main = (tree.xpath(_MAIN) or [tree])[0]
    texts = {"": _unspaced(tree)}
    for name, tags in _WITHIN.items():
        texts[name] = "\n".join(map(_unspaced, main.xpath("|".join(f".//{tag}" for tag in tags.split("|")))))
    return Shown(texts, map(_unspaced, main.xpath(".//pre")))


def _unspaced(tree: Any) -> str:
    return "".join(tree.text_content().split())


def report(name: str, results: dict[str, Scores]) -> None:
    first = next(iter(results.values()))
    print(f"\n{name}: " + ", ".join(f"{first.by_name[one].wanted} {one}" for one in SCORES))
    print(f"{'':16}" + "".join(f"{one:>13}" for one in SCORES) + f"{'partial':>9}{'words':>7}")
    for extractor, scores in results.items():
        cells = [f"{scores.by_name[one].recall:.3f}|{scores.by_name[one].precision:.2f}" for one in SCORES]
        print(
            f"{extractor:16}"
            + "".join(f"{cell:>13}" for cell in cells)
            + f"{scores.partial_tables:>9}{scores.word_f1:>7.3f}"
        )
    print("  paragraphs:")
    for extractor, scores in results.items():
        parts = [f"{around} {one.recall:.3f} ({one.wanted})" for around, one in sorted(scores.paragraphs.items())]
        print(f"  {extractor:14}" + ", ".join(parts))


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--generators", default=",".join(GENERATORS))
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--peers-python", default=sys.executable)
    parser.add_argument("--product", type=Path, default=ROOT)
    parser.add_argument("--misses", default="")
    parser.add_argument("--no-peers", action="store_true")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        sites = build(options.generators.split(","), (options.keep or Path(folder)).resolve(), options.python)
        for site in sites:
            measure(site, options)


def measure(site: Site, options: argparse.Namespace) -> None:
    with served(site.folder) as url:
        outputs: dict[str, dict[str, str] | None] = {"ours": crawl(url, options.product)}
        files = {page: site.folder / page for page in site.pages if (site.folder / page).exists()}
        outputs["page by page"] = peer("ours", files, url, sys.executable, options.product)
        if not options.no_peers:
            for name in ("trafilatura", "rs-trafilatura"):
                outputs[name] = peer(name, files, url, options.peers_python, options.product)
        results = {name: score(site, texts, url) for name, texts in outputs.items() if texts is not None}
    report(site.name, results)
    if options.misses:
        for name, page, missed in next(iter(results.values())).misses:
            if name.startswith(options.misses):
                print(f"  {name} | {page} | {missed!r}"[:600])


if __name__ == "__main__":
    main()
