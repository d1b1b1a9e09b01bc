"""For all tests: what collecting them has made is never garbage, and no collection looks through it again."""

import gc


def pytest_collection_finish() -> None:
    gc.collect()
    gc.freeze()
