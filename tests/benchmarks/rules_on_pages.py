"""How often structured data and rules alone are right on stored pages with known types.

    python -m tests.benchmarks.rules_on_pages PAGES_DIR

PAGES_DIR holds index.jsonl (file, url, page_type) and gzipped HTML. The pages' types are mapped to the default set's.
"""

from __future__ import annotations

import argparse
import gzip
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from llmcrawler.classification.evidence import StructuredEvidence
from llmcrawler.classification.page_type_rules import PageTypeRules
from llmcrawler.classification.page_types import DEFAULT_PAGE_TYPES, PageTypes
from llmcrawler.classification.question import Question
from llmcrawler.content import main_text, read_page

_SAME = {"collection": {"listing", "search"}, "listing": {"listing", "search"}, "forum": {"forum_thread", "question"}}
_NAMES = ("article", "service", "product", "listing", "documentation", "forum_thread")


def questions(folder: Path) -> Iterator[tuple[Question, str]]:
    for line in (folder / "index.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        html = gzip.decompress((folder / row["file"]).read_bytes()).decode("utf-8", "replace")
        content = read_page(html, row["url"])
        text = main_text(content.blocks, None)
        yield Question(row["url"], content.title, text, content, row["url"], "t", 1), row["page_type"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages_dir", type=Path)
    pages = list(questions(parser.parse_args().pages_dir))
    for name, page_types in (
        ("the six types", PageTypes([one for one in DEFAULT_PAGE_TYPES if one.name in _NAMES])),
        ("all default types", DEFAULT_PAGE_TYPES),
    ):
        structured, rules = StructuredEvidence(page_types), PageTypeRules(page_types)
        right: Counter[object] = Counter()
        seen: Counter[object] = Counter()
        mistakes: Counter[tuple[str, str | None]] = Counter()
        for question, truth in pages:
            wanted = _SAME.get(truth, {truth})
            found = structured.decide(question)
            if found:
                key = f"structured data: {found[0]}"
                seen[key] += 1
                right[key] += found[0] in wanted
            ruled = rules.decide(question)
            label, confidence = found or ruled
            if label not in wanted:
                mistakes[truth, label] += 1
            keys = ["both", f"truth {truth}", "rules alone" if found else f"rules at {confidence}"]
            for key in keys:
                seen[key] += 1
                right[key] += (ruled[0] if key == "rules alone" else label) in wanted
            seen["rules on every page"] += 1
            right["rules on every page"] += ruled[0] in wanted
        print(f"-- {name}, {len(pages)} pages")
        for key in sorted(map(str, seen)):
            print(f"{key:32} {right[key]:4} of {seen[key]:4}  {right[key] / seen[key]:.2f}")
        print("most frequent mistakes:", mistakes.most_common(12))


if __name__ == "__main__":
    main()
