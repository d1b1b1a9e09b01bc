"""Check the shape of the package: few entries, and one meaning for every name.

Prints each breach and exits with 1 if there is any. Run from anywhere: `python .ci/house.py`.
"""

from __future__ import annotations

import ast
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).parent.parent / "llmcrawler"
MAX_ENTRIES = 20
# Names that occur more than once, and why that is right.
ALLOWED_TWICE = {
    "Command": "Scrapy's commands are classes of this name, one in each module of commands/",
    "crawl": "the name of Scrapy's command, which is its module's name; and the package for the parts of a crawl",
    "proxies": "likewise: `scrapy proxies`, and the package for the pool of proxies",
    "templates": "likewise: `scrapy templates`, and the package that groups pages by template",
}


def breaches() -> Iterator[str]:
    """Yield one sentence for each rule that the package breaks."""
    entries = sorted(path.name for path in PACKAGE.iterdir() if path.name != "__pycache__")
    if len(entries) > MAX_ENTRIES:
        yield f"llmcrawler/ has {len(entries)} entries, {MAX_ENTRIES} at most: {', '.join(entries)}"
    places: defaultdict[str, list[str]] = defaultdict(list)
    for path in sorted(PACKAGE.rglob("*.py")):
        module = str(path.relative_to(PACKAGE.parent))
        places[path.parent.name if path.stem == "__init__" else path.stem].append(module)
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(module)
    for name, modules in sorted(places.items()):
        if len(modules) > 1 and name not in ALLOWED_TWICE:
            yield f"the name {name} occurs {len(modules)} times, and should mean one thing: {', '.join(modules)}"
    for name in sorted(ALLOWED_TWICE):
        if len(places[name]) < 2:
            yield f"{name} is allowed to occur more than once, and does not: take it out of ALLOWED_TWICE"


if __name__ == "__main__":
    found = list(breaches())
    sys.stdout.write("\n".join(found or ["The house is in order."]) + "\n")
    sys.exit(bool(found))
