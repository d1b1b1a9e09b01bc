"""How much the process of a crawl grows for one large page of each kind, or for many of them at once.

    python -m benchmarks.page_memory [--only REGEX] [--runs 1] [--setting NAME=VALUE ...] [--jobdir]
                                           [--at-once 30]

One line for each kind: its body in MB, by how much the peak of the crawl's own process is above that of a crawl of one
small page, and whether that is at most 64 MB beyond the body. The processes that read costly pages are not counted.
--at-once crawls so many pages of 15 MB of each kind, 16 at a time. Exit status 1 when one is above.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any

from tests.e2e.crawling import ROOT, command, environment
from tests.e2e.loop_watch import LOOP_WATCH
from tests.e2e.watching import Memory
from tests.servers.hostile_pages import document
from tests.servers.hostile_server import Answer, HostileServer, Visit

MEGABYTE = 2**20
LIMIT_BYTES = 64 * MEGABYTE  # beyond the body
_HOST = "127.0.0.2"
_SIZE = 19 * MEGABYTE
_ONE_PAGE = {"depth": 0, "max_pages": 1}


@dataclass(frozen=True)
class Kind:
    """`paths`: what the site answers, the small page but for them. `body_bytes`: of the largest, unpacked."""

    paths: Mapping[str, Callable[[], Answer]]
    body_bytes: int = _SIZE
    arguments: Mapping[str, Any] = field(default_factory=lambda: _ONE_PAGE)
    settings: Mapping[str, Any] = field(default_factory=dict)
    feed: str = "feed.jsonl"


def filled(row: str, size: int = _SIZE) -> str:
    return row * (size // len(row.encode()))


def page(make: Callable[[], str], **kind: Any) -> Kind:
    return Kind({"/": lambda: Answer(document(make()).encode())}, **kind)


def answered(make: Callable[[], Answer], **kind: Any) -> Kind:
    return Kind({"/": make}, **kind)


def zipped(text: str) -> Answer:
    return Answer(gzip.compress(document(text).encode(), 6), headers=[("Content-Encoding", "gzip")])


def _chunked() -> Answer:
    body = document(filled("word ")).encode()
    parts = [body[start : start + 60_000] for start in range(0, len(body), 60_000)]
    chunks = [b"%x\r\n%s\r\n" % (len(part), part) for part in parts]
    return Answer(headers=[("Transfer-Encoding", "chunked")], chunks=[*chunks, b"0\r\n\r\n"])


def _endless() -> Iterator[bytes]:
    while True:
        yield b"%x\r\n%s\r\n" % (60_000, b"word " * 12_000)


def _random() -> bytes:
    """What no compression makes smaller, and no parser takes for tags."""
    return Random(1).randbytes(_SIZE - MEGABYTE).replace(b"<", b"x")


def _numbered(row: str, size: int = _SIZE) -> str:
    return "".join(row.format(n=n) for n in range(size // len(row.format(n=100_000))))


def _graph(size: int = _SIZE) -> str:
    row = {"@type": "Product", "@id": "#1", "isRelatedTo": {"@id": "#2"}, "name": "x"}
    rows = [row] * (size // len(json.dumps(row)))
    return f'<script type="application/ld+json">{json.dumps({"@graph": rows})}</script>'


_DEEP_JSON = f'<script type="application/ld+json">{"[" * 9_000_000}{"]" * 9_000_000}</script>'
_SITEMAP = "<urlset>{rows}</urlset>"


def listed(path: str, make: Callable[[], Answer], body_bytes: int = _SIZE) -> Kind:
    """A list that robots.txt names."""
    return Kind(
        {"/robots.txt": lambda: Answer(f"Sitemap: {path}\n".encode(), content_type="text/plain"), path: make},
        body_bytes=body_bytes,
        arguments=_LISTED,
    )


def _sitemap(size: int) -> bytes:
    return _SITEMAP.format(rows=_numbered("<url><loc>/x{n}</loc></url>", size)).encode()


_LISTED = {"depth": 1, "max_pages": 20}

KINDS: Mapping[str, Kind] = {
    "small": page(lambda: "<p>Small.</p>", body_bytes=0),
    "text-node": page(lambda: filled("word ")),
    "one-word": page(lambda: filled("x")),
    "two-words-million": page(lambda: filled("word ", 2_100_000), body_bytes=2_100_000),
    "paragraphs": page(lambda: filled("<p>Some words of a paragraph, and a few more of them.</p>")),
    "elements": page(lambda: filled("<b>x</b>")),
    "wide": page(lambda: "\U0001f600" + filled("word ")),
    "cyrillic": page(lambda: filled("слово ")),
    "links": page(lambda: _numbered('<a href="/void/{n}?a={n}#b">link {n}</a> ')),
    "links-few-long": page(lambda: _numbered(f'<a href="/void/{{n}}{"x" * 200_000}">l</a>')),
    "json-ld-deep": page(lambda: _DEEP_JSON),
    "json-ld-graph": page(_graph),
    "script": page(lambda: f"<script>{filled('var a = 1; ')}</script>"),
    "script-auto": page(lambda: f"<script>{filled('var a = 1; ')}</script>", arguments={**_ONE_PAGE, "render": "auto"}),
    "comment": page(lambda: f"<!-- {filled('comment ')} -->"),
    "gzip": answered(lambda: zipped(filled("word "))),
    "gzip-bomb": answered(lambda: zipped(filled("word ", 60 * MEGABYTE)), body_bytes=20 * MEGABYTE),
    "gzip-twice": answered(
        lambda: Answer(
            gzip.compress(gzip.compress(document(filled("word ")).encode())),
            headers=[("Content-Encoding", "gzip, gzip")],
        )
    ),
    "chunked": answered(_chunked),
    "endless": answered(
        lambda: Answer(headers=[("Transfer-Encoding", "chunked")], chunks=_endless()), body_bytes=20 * MEGABYTE
    ),
    "latin-1": answered(lambda: Answer(b"\xe9" * _SIZE, content_type="text/html; charset=latin-1")),
    "bad-utf-8": answered(lambda: Answer(document("").encode() + b"\xff\xfe\xc3\x28" * (_SIZE // 4))),
    "utf-16": answered(lambda: Answer(document(filled("word ", _SIZE // 2)).encode("utf-16"))),
    "binary": answered(lambda: Answer(b"%PDF-1.7\n" + b"\0\1" * (_SIZE // 2), content_type="application/pdf")),
    "json": answered(lambda: Answer(b"[" * _SIZE, content_type="application/json")),
    "xml": answered(lambda: Answer(b"<?xml version='1.0'?><a>" + b"<b>" * (_SIZE // 3), content_type="text/xml")),
    "no-type": answered(lambda: Answer(document(filled("word ")).encode(), content_type="")),
    "not-found": answered(lambda: Answer(document(filled("word ")).encode(), status="404 Not Found")),
    "redirect": Kind(
        {"/": lambda: Answer(document(filled("word ")).encode(), status="302 Found", headers=[("Location", "/small")])}
    ),
    "refresh": answered(
        lambda: Answer(document(filled("word "), '<meta http-equiv="refresh" content="0; url=/small">').encode())
    ),
    "sitemap": listed("/sitemap.xml", lambda: Answer(_sitemap(_SIZE), content_type="text/xml")),
    "sitemap-50": listed(
        "/sitemap.xml", lambda: Answer(_sitemap(48 * MEGABYTE), content_type="text/xml"), 48 * MEGABYTE
    ),
    "sitemap-gz": listed(
        "/sitemap.xml.gz",
        lambda: Answer(gzip.compress(_sitemap(48 * MEGABYTE)), content_type="application/gzip"),
        48 * MEGABYTE,
    ),
    "feed-rss": listed(
        "/feed.xml",
        lambda: Answer(
            f"<rss><channel>{_numbered('<item><link>/x{n}</link></item>')}</channel></rss>".encode(),
            content_type="text/xml",
        ),
    ),
    "robots": Kind(
        {
            "/robots.txt": lambda: Answer(
                b"User-agent: *\n" + filled("Disallow: /no\n").encode(), content_type="text/plain"
            )
        },
    ),
    "llms-txt": listed("/llms.txt", lambda: Answer(_numbered("- [a](/x{n})\n").encode(), content_type="text/plain")),
    "random": answered(lambda: Answer(document("").encode() + _random(), content_type="text/html; charset=latin-1")),
    "short-words": page(lambda: filled("я ")),
    "letters": page(lambda: filled("\U0001f600 ")),
    "tokens": page(lambda: _numbered("<p class=c{n}><i>a</i></p>", 400_000)),
    **{
        f"feed-{kind}": page(lambda: filled("<p>Some words, and more.</p>"), feed=f"feed.{kind}")
        for kind in ("csv", "xml", "json", "parquet", "zip")
    },
}


@contextlib.contextmanager
def serving(kind: Kind) -> Iterator[str]:
    """The small page for what is not in `paths`; below / the page of / stands under any number (/1, /2 ...)."""
    answers = {path: make() for path, make in kind.paths.items()}

    def answer(visit: Visit) -> Answer:
        path = "/" if "/" in answers and visit.path.strip("/").isdigit() else visit.path
        if path in answers:
            return answers[path]
        if path in ("/", "/small") or path.startswith("/x"):
            return Answer(document("<p>Small.</p>").encode())
        return Answer(document("").encode(), status="404 Not Found")

    with HostileServer(answer, (_HOST,)).in_thread() as server:
        yield server.origin(_HOST)


def crawl(urls: str, kind: Kind, settings: Mapping[str, Any], folder: Path) -> tuple[int, Memory, str]:
    """Peaks of one crawl in a process of its own, and its log."""
    memory = Memory()
    arguments = {"url": urls, "render": "never", **kind.arguments}
    parts = command(arguments, {**LOOP_WATCH, **kind.settings, **settings}, folder / kind.feed)
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(parts, cwd=ROOT, env=environment(), stdout=log, stderr=log)
        with process, memory.watching(process.pid):
            process.wait(300)
    return process.returncode, memory, (folder / "log").read_text(encoding="utf-8", errors="replace")


def growth_of(kind: Kind, settings: Mapping[str, Any], *, has_jobdir: bool, pages: int = 1) -> tuple[int, str]:
    """Bytes of the peak of the process, and what the crawl said of its pages."""
    with tempfile.TemporaryDirectory() as name, serving(kind) as origin:
        folder = Path(name)
        more = {"JOBDIR": str(folder / "job")} if has_jobdir else {}
        urls = origin + "/"
        if pages > 1:
            urls = ",".join(f"{origin}/{number}" for number in range(pages))
            kind = Kind(kind.paths, kind.body_bytes, {"depth": 0, "max_pages": pages}, kind.settings, kind.feed)
        status, memory, log = crawl(urls, kind, {"DOWNLOAD_TIMEOUT": 120, **settings, **more}, folder)
        held = re.findall(r"held the event loop for \d+ ms \(CPU (\d+)", log)
        said = f"exit {status}, holds of CPU {max(map(int, held), default=0)} ms"
        said += f", helpers {max(memory.children.values(), default=0) / MEGABYTE:.0f} MB"
        feed = folder / kind.feed
        if feed.suffix == ".jsonl" and feed.exists():
            lines = [json.loads(line) for line in feed.read_text(encoding="utf-8").splitlines()]
            errors = {str((line.get("error") or {}).get("kind")) for line in lines if line["kind"] == "page"}
            said += f", errors {', '.join(sorted(errors))}"
        return memory.own_bytes, said


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="")
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--setting", action="append", default=[])
    parser.add_argument("--jobdir", action="store_true")
    parser.add_argument("--at-once", type=int, default=1)
    options = parser.parse_args()
    settings = dict(one.partition("=")[::2] for one in options.setting)
    if options.at_once > 1:
        settings = {"CONCURRENT_REQUESTS_PER_DOMAIN": 16, **settings}
    bases: dict[str, int] = {}
    are_fine = True
    for name, kind in KINDS.items():
        if not re.search(options.only, name):
            continue
        runs = [
            growth_of(kind, settings, has_jobdir=options.jobdir, pages=options.at_once) for _ in range(options.runs)
        ]
        beside = str((kind.arguments, kind.settings, kind.feed))
        if beside not in bases:
            alike = replace(kind, paths={})
            bases[beside] = min(growth_of(alike, settings, has_jobdir=options.jobdir)[0] for _ in range(2))
            print(f"a small page alone: {bases[beside] / MEGABYTE:.0f} MB", flush=True)
        growth = max(run[0] for run in runs) - bases[beside]
        over = growth - kind.body_bytes
        are_fine = are_fine and over <= LIMIT_BYTES
        words = "" if over <= LIMIT_BYTES else " TOO MUCH"
        print(
            f"{name:18} body {kind.body_bytes / MEGABYTE:4.0f}  growth {growth / MEGABYTE:5.0f}"
            f"  beyond the body {over / MEGABYTE:5.0f}{words}  ({runs[-1][1]})",
            flush=True,
        )
    return 0 if are_fine else 1


if __name__ == "__main__":
    sys.exit(main())
