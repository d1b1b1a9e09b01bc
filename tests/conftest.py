"""For all tests."""

import gc

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The crawls take longest, and come first: the many short tests fill what is left at the end."""
    items.sort(key=lambda item: not item.nodeid.startswith("tests/e2e/"))


def pytest_collection_finish() -> None:
    """What collecting the tests has made is never garbage, and no collection looks through it again."""
    gc.collect()
    gc.freeze()
