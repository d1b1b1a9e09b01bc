"""How well records are learned, without HTTP and without a model: an annotator with the truth points at values.

    python -m benchmarks.records_quality [SITE ...] [--seeds 2] [--slip 0 0.1] [--show] [--redesign]
    python -m benchmarks.records_quality --shared DIR ...      stored sites: DIR/index.jsonl, pages beside it

A training run takes 20 pages of a site, as in a crawl. Printed for each site: the F1 of each field over the pages that
was not shown before, macro average and worst field, pages shown, calls, tokens (4 characters each). `--show` adds for
each field under 0.99 its selectors and what they got wrong.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import json
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from statistics import fmean
from typing import Any

from llmcrawler.core.content import read_page
from llmcrawler.core.llm.dialect import ModelRequest
from llmcrawler.core.understanding.extraction.annotators import LLMAnnotator
from llmcrawler.core.understanding.extraction.blocks import TrainingPage
from llmcrawler.core.understanding.extraction.extractor import TemplateExtractor, compile_extractor
from llmcrawler.core.understanding.extraction.training_run import TrainingRules, TrainingRun
from llmcrawler.errors import LLMError
from tests.servers.record_sites import REDESIGNED, SITES, Shown, Site, SitePage, make_site
from tests.servers.record_sites.scoring import Scores, is_shown, texts_of
from tests.servers.teacher import answer_induce, path_of

ORIGIN = "http://site.example"
LEARN_PAGES = 20
MIN_PAGES = 5


@dataclass
class Outcome:
    site: str
    scores: Scores
    extractor: TemplateExtractor | None
    shown: int = 0
    calls: int = 0
    tokens: int = 0
    seconds: float = 0.0
    failure: str = ""


class ScriptedModel:
    """In place of LLMClient.ask: answers from the truth and counts tokens."""

    def __init__(self, truth: dict[str, dict[str, Any]], slip: float, seed: int) -> None:
        self._truth = truth
        self._slip = slip
        self._rng = Random(seed)
        self.shown: set[str] = set()
        self.calls = 0
        self.tokens = 0

    async def ask(self, ask: ModelRequest) -> Any:
        assert ask.task == "induce"
        self.calls += 1
        self.shown |= {path_of(page["url"]) for page in ask.document["pages"]}
        answer = answer_induce(ask.document, self._truth, slip=self._slip, rng=self._rng)
        texts = (ask.system, json.dumps(ask.document, ensure_ascii=False), json.dumps(ask.schema), json.dumps(answer))
        self.tokens += sum(map(len, texts)) // 4
        return answer

    async def name(self) -> str:
        return "scripted"


def learned(site: Site, *, slip: float = 0.0, seed: int = 1) -> Outcome:
    """Learn on a site's first pages with records, and score the others."""
    model = ScriptedModel({page.path: page.fields for page in site.pages}, slip, seed)
    pages = [training_page(page) for page in site.records[:LEARN_PAGES]]
    start = time.process_time()
    run = TrainingRun(site.page_type, LLMAnnotator(model.ask, model.name), TrainingRules())
    failure = ""
    try:
        result = asyncio.run(run.run(pages))
    except LLMError as error:
        extractor, failure = None, f"{type(error).__name__}: {error}"
    else:
        extractor = result.extractor
        failure = f"abstained: {', '.join(result.abstained)}" if result.abstained else ""
    seconds = time.process_time() - start
    rest = [page for page in site.records if page.path not in model.shown]
    scores = scored(rest or site.records, extractor)  # a small template may have been shown whole
    return Outcome(site.name, scores, extractor, len(model.shown), model.calls, model.tokens, seconds, failure)


def scored(pages: Iterable[SitePage], extractor: TemplateExtractor | None) -> Scores:
    scores = Scores()
    compiled = None if extractor is None else compile_extractor(extractor)
    for page in pages:
        url = ORIGIN + page.path
        record = None if compiled is None else compiled.extract(page.html, url, _lang(page.html)).record
        scores.add(page, record, url)
    return scores


def training_page(page: SitePage) -> TrainingPage:
    url = ORIGIN + page.path
    content = read_page(page.html, url)
    return TrainingPage(url, content.title, content.lang, page.html, content.features)


def _lang(html: str) -> str:
    return read_page(html, ORIGIN).lang


def stored_sites(folder: Path) -> list[Site]:
    """Each page type of a stored site that has enough pages with fields, as a site of its own."""
    rows = [json.loads(line) for line in (folder / "index.jsonl").open(encoding="utf-8")]
    kinds: dict[tuple[str, str], list[SitePage]] = {}
    for row in rows:
        fields = {name: _as_text(value) for name, value in (row.get("fields") or {}).items()}
        html = gzip.decompress((folder / row["file"]).read_bytes()).decode("utf-8", "replace")
        page = SitePage(path_of(row["url"]), html, row["page_type"], {k: v for k, v in fields.items() if v})
        if page.fields:
            kinds.setdefault((row["page_type"], row.get("route", "")), []).append(page)
    return [
        Site(f"{folder.name}/{kind}", kind, tuple(_with_shown_fields(pages)))
        for (kind, _), pages in kinds.items()
        if len(pages) >= MIN_PAGES
    ]


def _with_shown_fields(pages: Sequence[SitePage]) -> list[SitePage]:
    """In the order of paths, without the fields that few pages show: there the value is a word of something else."""
    texts = [texts_of(page.html) for page in pages]
    names = dict.fromkeys(name for page in pages for name in page.fields)
    kept = set()
    for name in names:
        shown = [
            is_shown(page.fields[name], text) for page, text in zip(pages, texts, strict=True) if name in page.fields
        ]
        if sum(shown) > 0.5 * len(shown):
            kept.add(name)
    ordered = sorted(pages, key=lambda page: page.path)
    return [replace(page, fields={name: page.fields[name] for name in page.fields if name in kept}) for page in ordered]


def _as_text(value: Any) -> Any:
    if isinstance(value, list):
        return [str(one) for one in value if isinstance(one, str | int | float)]
    if isinstance(value, bool | dict) or value is None:
        return None
    return str(value)


def _shuffled(site: Site, seed: int) -> Site:
    pages = list(site.pages)
    Random(seed).shuffle(pages)
    return Site(site.name, site.page_type, tuple(pages))


def report(outcomes: Sequence[Outcome], title: str, *, show: bool) -> None:
    """One line a site, means over seeds."""
    print(f"\n{title}")
    print(f"{'site':22}{'macro':>7}{'worst':>7}{'shown':>7}{'calls':>7}{'tokens':>8}{'CPU s':>7}  fields under 0.99")
    for name in dict.fromkeys(outcome.site for outcome in outcomes):
        runs = [outcome for outcome in outcomes if outcome.site == name]
        fields = dict.fromkeys(key for run in runs for key, score in run.scores.fields.items() if score.wanted)
        means = {key: fmean(run.scores.fields[key].f1 for run in runs if key in run.scores.fields) for key in fields}
        weak = ", ".join(f"{key} {value:.2f}" for key, value in means.items() if value < 0.99)
        print(
            f"{name:22}{fmean(means.values()):7.3f}{min(means.values()):7.2f}{fmean(r.shown for r in runs):7.1f}"
            f"{fmean(r.calls for r in runs):7.1f}{fmean(r.tokens for r in runs):8.0f}"
            f"{fmean(r.seconds for r in runs):7.1f}  {weak}"
        )
        for failure in {run.failure for run in runs if run.failure}:
            print(f"{'':22}  {failure}")
        if show:
            for run in runs:
                _show(run)
    print(f"{'all':22}{fmean(outcome.scores.macro for outcome in outcomes):7.3f}")


def _show(run: Outcome) -> None:
    for key, score in run.scores.fields.items():
        if not score.wanted or score.f1 >= 0.99:
            continue
        print(f"    {key}: right {score.right}, given {score.given}, wanted {score.wanted}")
        for rule in run.extractor.rules if run.extractor else ():
            if rule.field.key == key:
                for one in rule.selectors:
                    print(f"      {one.language} {one.query} @{one.attribute} /{one.pattern}/ {one.evidence}")
        for name, rows in run.extractor.groups if run.extractor else ():
            if name == key.partition(".")[0]:
                print(f"      rows: {[row.query for row in rows]}")
        for path, wanted, given in score.misses[:3]:
            print(f"      {path}: wanted {_short(wanted)}, got {_short(given)}")


def _short(values: list[Any]) -> str:
    text = repr([value[:60] if isinstance(value, str | Shown) else value for value in values])
    return text if len(text) < 200 else f"{text[:200]}..."


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sites", nargs="*", metavar="SITE", help=f"of {', '.join(SITES)}")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--slip", type=float, nargs="*", default=[0.0, 0.1])
    parser.add_argument("--show", action="store_true")
    parser.add_argument("--redesign", action="store_true", help="the second designs")
    parser.add_argument("--shared", type=Path, nargs="*", default=[])
    args = parser.parse_args()
    seeds = range(1, args.seeds + 1)
    if args.shared:
        stored = [site for folder in args.shared for site in stored_sites(folder)]
        sites = [(seed, _shuffled(site, seed)) for site in stored for seed in seeds]
    else:
        names = args.sites or (REDESIGNED if args.redesign else SITES)
        sites = [(seed, make_site(name, seed, redesign=args.redesign)) for name in names for seed in seeds]
    for slip in args.slip:
        outcomes = [learned(site, slip=slip, seed=seed) for seed, site in sites]
        report(outcomes, f"slip {slip:g}, {args.seeds} seeds", show=args.show)


if __name__ == "__main__":
    main()
