"""How often, and how fast, the embedded model tells what a page is, asked as a crawl asks it, on pages of known types.

    python -m tests.benchmarks.embedded_accuracy DATASET_DIR [--count 70] [--seed 1] [--default-types]
        [--list-rules 0.5 0.65]

DATASET_DIR holds index.jsonl (a line a page: file, url, page_type) and the gzipped HTML files that it names, as in the
stored part of WCXB. Pages are drawn evenly over the types. The first run fetches the model (1.1 GB).
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import json
import random
import statistics
import time
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from llmcrawler.classification import DEFAULT_PAGE_TYPES, Answer, ClassifyWorker, PageType, PageTypes, Question
from llmcrawler.classification.classify_prompt import describe_page
from llmcrawler.classification.page_type_rules import PageTypeRules
from llmcrawler.content import main_text, read_page
from llmcrawler.llm import CallLimits
from llmcrawler.llm.language_model import LanguageModel
from llmcrawler.llm.providers import ProviderChoice

TYPES = {
    "article": "one text to read by one author: news story, blog post, essay, guide (byline, date, paragraphs)",
    "service": "marketing page of a company, app or institution about itself or one offer (get started, book a demo)",
    "product": "one single item for sale (price, add to cart, specifications, reviews of it)",
    "collection": "shop category page: many products side by side (sort by, filter, several prices)",
    "forum": "discussion of users: a post or question and its replies (posts, reply, votes, user names)",
    "listing": "index of many entries that each lead to a page, not products (latest news, topics, events, courses)",
    "documentation": "technical manual, reference, API or tutorial (docs, code, parameters, installation)",
}

# What counts as right with the default types.
SAME = {
    "collection": {"collection", "search"},
    "listing": {"listing", "search"},
    "forum": {"forum_thread", "question"},
    "service": {"service", "homepage", "about", "pricing"},
    "documentation": {"documentation", "api_reference"},
}
LISTS = {"collection", "listing", "search"}


@dataclass(frozen=True, slots=True)
class Judged:
    truth: str
    url: str
    label: str
    ruled: str | None
    rules_confidence: float
    seconds: float


def read(dataset: Path, row: dict[str, Any]) -> Question:
    html = gzip.decompress((dataset / row["file"]).read_bytes()).decode("utf-8", "replace")
    content = read_page(html, row["url"])
    return Question(row["url"], content.title, main_text(content.blocks), content, row["url"], "t", 1)


def draw(dataset: Path, count: int, seed: int) -> list[dict[str, Any]]:
    by_type = defaultdict(list)
    for line in (dataset / "index.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        if row["url"]:
            by_type[row["page_type"]].append(row)
    rng = random.Random(seed)
    rows = [row for name in sorted(by_type) for row in rng.sample(by_type[name], count // len(by_type))]
    rng.shuffle(rows)
    return rows


async def judge(arguments: argparse.Namespace, page_types: PageTypes) -> list[Judged]:
    model = LanguageModel(ProviderChoice("embedded"), CallLimits(), None)
    ask, rules = ClassifyWorker(model.ask, page_types, small_model=True), PageTypeRules(page_types)
    judged = []
    try:
        for row in draw(arguments.dataset, arguments.count, arguments.seed):
            question = read(arguments.dataset, row)
            begin = time.perf_counter()
            answer = (await ask([describe_page(question)]))[0]
            seconds = time.perf_counter() - begin
            label = answer.label if isinstance(answer, Answer) else f"({answer})"
            judged.append(Judged(row["page_type"], row["url"], label, *rules.decide(question), seconds))
            print(f"{seconds:5.1f} s  {row['page_type']:14} {label:14} rules {judged[-1].ruled}", flush=True)
    finally:
        await model.close()
    return judged


def report(judged: list[Judged], same: dict[str, set[str]], list_rules: float | None) -> None:
    """With `list_rules`, a rule that is at least that sure of a list decides instead of the model."""
    right, asked, mistakes = Counter[str](), Counter[str](), Counter[tuple[str, str]]()
    for one in judged:
        overruled = list_rules is not None and one.ruled in LISTS and one.rules_confidence >= list_rules
        label = one.ruled if overruled and one.ruled else one.label
        asked[one.truth] += 1
        right[one.truth] += label in same.get(one.truth, {one.truth})
        if label not in same.get(one.truth, {one.truth}):
            mistakes[one.truth, label] += 1
    print(f"-- rules decide lists from {list_rules}" if list_rules is not None else "-- the model alone")
    print(f"accuracy {right.total()}/{len(judged)} = {right.total() / len(judged):.3f}")
    print({name: f"{right[name]}/{asked[name]}" for name in sorted(asked)})
    print("mistakes (truth, answer):", mistakes.most_common(12))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset", type=Path)
    parser.add_argument("--count", type=int, default=70)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--default-types", action="store_true", help="ask for the default types, count kin as right")
    parser.add_argument("--list-rules", type=float, nargs="*", default=[], help="also with rules for lists, from here")
    arguments = parser.parse_args()
    own = PageTypes([PageType(name, description) for name, description in TYPES.items()])
    judged = asyncio.run(judge(arguments, DEFAULT_PAGE_TYPES if arguments.default_types else own))
    seconds = [one.seconds for one in judged]
    print(f"seconds a call: first {seconds[0]:.1f}, then median {statistics.median(seconds[1:]):.2f}")
    for list_rules in (None, *arguments.list_rules):
        report(judged, SAME if arguments.default_types else {}, list_rules)


if __name__ == "__main__":
    main()
