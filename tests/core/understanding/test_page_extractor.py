"""Records of single pages by a file of learned templates, outside of any crawl."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.server


def test_it_imports_neither_scrapy_nor_twisted() -> None:
    module = "llmcrawler.core.understanding.page_extractor"
    code = f"import sys, {module}; print(sorted({{'scrapy', 'twisted'}} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout == "[]\n"
