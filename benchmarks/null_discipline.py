"""Whether records say null where a page has no value, and whether a few pages of a template are enough to learn from.

    python -m benchmarks.null_discipline [SITE ...] [--pages 60] [--seeds 1 2] [--slip 0 0.1] [--show]
    python -m benchmarks.null_discipline --pages 10                     small templates
    python -m benchmarks.null_discipline --shared DIR ...               stored sites, as records_quality has them

The pages of a layout (record_layouts.py) are grouped and get their records as in a crawl, with an annotator that has
the truth, or slips on a share of the values. Printed for each site: F1 (mean over fields) on all pages, how many of the
values given are false, pages shown, groups, fields under 0.99; at the end the means, the share of false values, and the
worst precision of a field that some pages do not have.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from benchmarks.record_layouts import LAYOUTS, layout_site
from benchmarks.records_quality import ORIGIN, ScriptedModel, stored_sites
from llmcrawler.core.content import read_page
from llmcrawler.core.understanding.extraction.annotators import LLMAnnotator
from llmcrawler.core.understanding.extraction.record_schema import RecordTypes
from llmcrawler.core.understanding.extraction.records import RecordQuestion, RecordRules, Records
from llmcrawler.core.understanding.templates.clustering import recluster
from llmcrawler.core.understanding.templates.grouping import TemplateGrouper
from tests.servers.record_sites import Site
from tests.servers.record_sites.scoring import FieldScore, Scores


@dataclass
class Outcome:
    site: Site
    scores: Scores
    records: Records
    shown: int
    groups: int

    def is_optional(self, field: str) -> bool:
        name = field.partition(".")[0]
        return any(page.fields.get(name) is None for page in self.site.records)

    @property
    def fields(self) -> dict[str, FieldScore]:
        """Those that any page has, or that were given all the same."""
        return {key: score for key, score in self.scores.fields.items() if score.wanted or score.given}


async def crawled(site: Site, slip: float, seed: int) -> Outcome:
    model = ScriptedModel({page.path: page.fields for page in site.pages}, slip, seed)
    grouper, read = TemplateGrouper(), {}
    for page in site.records:
        url = ORIGIN + page.path
        read[url] = content = read_page(page.html, url)
        grouper.assign(url, content.features, title=content.title)
        if grouper.due:
            grouper.adopt(recluster(grouper.snapshot()))
    questions = []
    for page in site.records:
        url = ORIGIN + page.path
        content = read[url]
        template = grouper.match(url, content.features, title=content.title) or "none"
        questions.append(
            RecordQuestion(
                url, content.title, content.lang, page.html, content.features, site.name, template, site.page_type
            )
        )
    records = Records(
        LLMAnnotator(model.ask, model.name),
        RecordRules(record_types=RecordTypes(True)),
        pressure=lambda _waiting: "idle",
    )
    answers = await asyncio.gather(*map(records.record_of, questions))
    await records.close()
    scores = Scores()
    for page, answer in zip(site.records, answers, strict=True):
        scores.add(page, answer.record, ORIGIN + page.path)
    return Outcome(site, scores, records, len(model.shown), len({one.template for one in questions}))


def report(outcomes: Sequence[Outcome], *, show: bool) -> None:
    given = right = 0
    worst: list[tuple[float, str]] = []
    f1s: list[float] = []
    for one in outcomes:
        f1 = {key: score.f1 for key, score in one.fields.items() if score.wanted}
        f1s += f1.values()
        false = sum(score.given - score.right for score in one.fields.values())
        given += sum(score.given for score in one.fields.values())
        right += sum(score.right for score in one.fields.values())
        worst += [
            (score.right / score.given, f"{one.site.name} {key}")
            for key, score in one.fields.items()
            if score.given and one.is_optional(key)
        ]
        weak = ", ".join(
            f"{key} {score.right}/{score.given}/{score.wanted}" for key, score in one.fields.items() if score.f1 < 0.99
        )
        print(f"{one.site.name:14}{fmean(f1.values()):7.3f}{false:5}{one.shown:4}{one.groups:3}  {weak}")
        if show:
            _show(one)
    low = ", ".join(f"{name} {share:.2f}" for share, name in sorted(worst)[:8] if share < 0.99)
    print(
        f"{len(outcomes)} sites: F1 {fmean(f1s):.3f}, {sum(one == 0 for one in f1s)} of {len(f1s)} fields 0, "
        f"false {(given - right) / given:.4f} of {given} values; optional fields under 0.99: {low or 'none'}"
    )


def _show(one: Outcome) -> None:
    for key, score in one.fields.items():
        for path, wanted, given in score.misses[:2]:
            print(f"    {key} {path}: wanted {wanted!r:.70}, got {given!r:.70}")
        for learner in one.records.all_learners if score.f1 < 0.99 else ():
            print(f"      {learner.key.template} {learner.missing.get(key, '')}")
            for rule in (rule for variant in learner.variants for rule in variant.extractor.rules):
                for selector in rule.selectors if rule.field.key == key else ():
                    print(f"      {selector}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sites", nargs="*", metavar="SITE", help=f"of {', '.join(LAYOUTS)}")
    parser.add_argument("--pages", type=int, default=60)
    parser.add_argument("--seeds", type=int, nargs="*", default=[1, 2])
    parser.add_argument("--slip", type=float, nargs="*", default=[0.0, 0.1])
    parser.add_argument("--show", action="store_true")
    parser.add_argument("--shared", type=Path, nargs="*", default=[])
    args = parser.parse_args()
    logging.disable(logging.INFO)
    for slip in args.slip:
        print(f"\nslip {slip:g}, {args.pages} pages: F1, false values, pages shown, groups, right/given/wanted")
        sites = [(seed, layout_site(name, seed, args.pages)) for name in args.sites or LAYOUTS for seed in args.seeds]
        if args.shared:
            sites = [(seed, site) for folder in args.shared for site in stored_sites(folder) for seed in args.seeds]
        report([asyncio.run(crawled(site, slip, seed)) for seed, site in sites], show=args.show)


if __name__ == "__main__":
    main()
