"""How often structured data and rules alone are right on stored pages with known types, and how well they know it.

    python -m benchmarks.rules_on_pages PAGES_DIR

PAGES_DIR holds index.jsonl (file, url, site, page_type) and gzipped HTML. The pages' types are mapped to the default
set's. The rows "rules" are those of `_MEASURED` in llmcrawler/core/understanding/classification/page_type_rules.py.
"""

from __future__ import annotations

import argparse
import gzip
import json
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from llmcrawler.core.content import main_text, read_page
from llmcrawler.core.understanding.classification.evidence import StructuredEvidence
from llmcrawler.core.understanding.classification.page_type_rules import LEADS, PageTypeRules, confidence_of
from llmcrawler.core.understanding.classification.page_types import DEFAULT_PAGE_TYPES, PageTypes
from llmcrawler.core.understanding.classification.question import Question

_SAME = {
    "collection": {"collection", "search"},
    "listing": {"listing", "search"},
    "forum": {"forum_thread", "question"},
}
_NAMES = ("article", "service", "product", "collection", "listing", "documentation", "forum_thread")

# What the rules said and how far it was ahead, and whether that was right.
Outcome = tuple[str, int, bool]


def questions(folder: Path) -> Iterator[tuple[Question, str]]:
    with (folder / "index.jsonl").open(encoding="utf-8") as lines:
        for row in map(json.loads, lines):
            html = gzip.decompress((folder / row["file"]).read_bytes()).decode("utf-8", "replace")
            content = read_page(html, row["url"])
            text = main_text(content.blocks, None)
            yield Question(row["url"], content.title, text, content, row["site"], "t", 1), row["page_type"]


def counted(outcomes: Iterable[Outcome]) -> dict[str, list[tuple[int, int]]]:
    """Return (right, all) by label, for each of LEADS; "" stands for all labels."""
    seen: Counter[tuple[str, int]] = Counter()
    right: Counter[tuple[str, int]] = Counter()
    for label, lead, is_right in outcomes:
        for key in ((label, lead), ("", lead)):
            seen[key] += 1
            right[key] += is_right
    return {
        label: [(right[label, lead], seen[label, lead]) for lead in LEADS] for label in sorted({key[0] for key in seen})
    }


def calibration_error(outcomes: Iterable[Outcome], measured: Mapping[str, list[tuple[int, int]]]) -> float:
    """Return the mean distance of confidence and share of right verdicts, over ten bins of confidence."""
    bins: dict[int, list[tuple[float, bool]]] = {}
    for label, lead, is_right in outcomes:
        confidence = confidence_of(measured.get(label, measured[""])[LEADS.index(lead)])
        bins.setdefault(int(10 * confidence), []).append((confidence, is_right))
    total = sum(map(len, bins.values()))
    return sum(abs(sum(sure - is_right for sure, is_right in one)) for one in bins.values()) / total


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages_dir", type=Path)
    pages = list(questions(parser.parse_args().pages_dir))
    for name, page_types in (
        ("the seven types", PageTypes([one for one in DEFAULT_PAGE_TYPES if one.name in _NAMES])),
        ("all default types", DEFAULT_PAGE_TYPES),
    ):
        print(f"-- {name}, {len(pages)} pages")
        report(pages, page_types)


def report(pages: list[tuple[Question, str]], page_types: PageTypes) -> None:
    structured, rules = StructuredEvidence(page_types), PageTypeRules(page_types)
    right: Counter[str] = Counter()
    seen: Counter[str] = Counter()
    mistakes: Counter[tuple[str, str | None]] = Counter()
    halves: tuple[list[Outcome], list[Outcome]] = ([], [])
    for question, truth in pages:
        wanted = _SAME.get(truth, {truth})
        found, best = structured.decide(question), rules.best(question)
        ruled = rules.decide(question)[0]
        label = found[0] if found else ruled
        if label not in wanted:
            mistakes[truth, label] += 1
        if not found and best is not None:
            halves[zlib.crc32(question.site.encode()) % 2].append((*best, best[0] in wanted))
        keys = [f"structured data: {label}", "structured data"] if found else []
        for key in (*keys, "both", f"truth {truth}"):
            seen[key] += 1
            right[key] += label in wanted
        seen["rules on every page"] += 1
        right["rules on every page"] += ruled in wanted
    for key in sorted(seen):
        print(f"{key:32} {right[key]:4} of {seen[key]:4}  {right[key] / seen[key]:.2f}")
    print("most frequent mistakes:", mistakes.most_common(12))
    print(f"rules, where structured data does not decide (right, all) at a lead of {LEADS}:")
    for label, row in counted([*halves[0], *halves[1]]).items():
        print(f'    "{label}": {row},')
    errors = [calibration_error(halves[1 - n], counted(halves[n])) for n in (0, 1)]
    print(f"calibration error, measured on one half of the sites, for the other: {errors[0]:.3f}, {errors[1]:.3f}")


if __name__ == "__main__":
    main()
