"""Quality and cost of main text: python -m tests.benchmarks.content_quality DATASET_DIR.

Word F1 (bags of lower-case \\w+ words) per page type, share of wanted and unwanted snippets handled right,
CPU ms a page;
trafilatura and resiliparse beside it where they are installed. For the pages the model was trained on our figure is
too good: content_train.py prints the out-of-fold one.
"""

from __future__ import annotations

import argparse
import importlib
import time
from collections.abc import Callable
from pathlib import Path

from llmcrawler.content import main_text, read_page
from tests.benchmarks.content_data import pages, without_marks, word_f1, words


def extractors() -> dict[str, Callable[[str], str]]:
    found: dict[str, Callable[[str], str]] = {
        "ours": lambda html: without_marks(main_text(read_page(html, "http://site.example/").blocks, None))
    }
    try:
        trafilatura = importlib.import_module("trafilatura")
        found["trafilatura"] = lambda html: trafilatura.extract(html) or ""
    except ImportError:
        print("trafilatura is not installed")
    try:
        resiliparse = importlib.import_module("resiliparse.extract.html2text")
        found["resiliparse"] = lambda html: resiliparse.extract_plain_text(html, main_content=True)
    except ImportError:
        print("resiliparse is not installed")
    return found


def measure(name: str, extract: Callable[[str], str], folder: Path) -> None:
    by_type: dict[str, list[float]] = {}
    seconds, wanted, unwanted = 0.0, [], []
    for row, html in pages(folder):
        start = time.process_time()
        text = extract(html)
        seconds += time.process_time() - start
        gold = words(row["fields"]["main_content"] or "")
        by_type.setdefault(row["page_type"] if gold else "(no content)", []).append(word_f1(words(text), gold))
        folded = " ".join(words(text))
        wanted += [" ".join(words(snippet)) in folded for snippet in row["fields"]["with"]]
        unwanted += [" ".join(words(snippet)) not in folded for snippet in row["fields"]["without"]]
    everything = [value for values in by_type.values() for value in values]
    content = [value for kind, values in by_type.items() if kind != "(no content)" for value in values]
    mean, mean_of_all = sum(content) / len(content), sum(everything) / len(everything)
    print(f"{name}: F1 {mean:.4f} of pages with content, {mean_of_all:.4f} of all;")
    print(
        f"  with {sum(wanted) / len(wanted):.3f}, without {sum(unwanted) / len(unwanted):.3f}; "
        f"{seconds / len(everything) * 1000:.1f} ms a page"
    )
    print("  " + ", ".join(f"{kind} {sum(values) / len(values):.3f}" for kind, values in sorted(by_type.items())))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset_dir", type=Path)
    options = parser.parse_args()
    for label, function in extractors().items():
        measure(label, function, options.dataset_dir)
