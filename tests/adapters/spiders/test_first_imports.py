"""What has to come before the modules of spiders, in a process where nothing is imported yet."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest


@pytest.mark.parametrize(("given", "expected"), [({}, "1"), ({"OPENBLAS_NUM_THREADS": "3"}, "3")])
def test_the_numeric_library_has_one_thread_unless_somebody_wants_more(given: dict[str, str], expected: str) -> None:
    code = "\n".join(
        [
            "import os, sys, llmcrawler.spiders",
            "loaded = [name in sys.modules for name in ('numpy', 'llmcrawler.core.content')]",
            "print(os.environ['OPENBLAS_NUM_THREADS'], *loaded)",
        ]
    )
    environ = {name: value for name, value in os.environ.items() if name != "OPENBLAS_NUM_THREADS"}
    done = subprocess.run([sys.executable, "-c", code], env=environ | given, check=True, capture_output=True, text=True)
    assert done.stdout.split() == [expected, "False", "False"]
