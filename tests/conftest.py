"""Set up what all tests share."""

import gc
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from llmcrawler.core.storage.job_file import JobConnection

# An example takes as long as a busy machine makes it take, to be made and to be tried: no test is about that.
settings.register_profile("any pace", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any pace")


# pytest keeps what it has compiled, also where PYTHONDONTWRITEBYTECODE is set: that is half of collecting the tests.
sys.dont_write_bytecode = False


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """With `-n`, give each module to one worker, in the order of collection: `pytest -n 4` needs no other options."""
    if getattr(config.option, "numprocesses", None) and config.option.dist == "no":
        config.option.dist = "loadscope"
        config.option.loadscopereorder = False


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the crawls first, as they take longest: the many short tests fill what is left at the end."""
    items.sort(key=lambda item: not item.nodeid.startswith("tests/e2e/"))


def pytest_collection_finish() -> None:
    """Keep what collecting the tests has made out of every garbage collection."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True, scope="session")
def unsynced() -> Iterator[None]:
    """No test takes the power from the machine: job files that tests make need not wait for the disk."""
    make = JobConnection.__init__

    def make_unsynced(self: JobConnection, *arguments: Any, **options: Any) -> None:
        make(self, *arguments, **options)
        self.execute("PRAGMA synchronous = OFF")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(JobConnection, "__init__", make_unsynced)
        yield
