"""What large pages add to the memory of a crawl. benchmarks/page_memory.py has more kinds, and the figures."""

from __future__ import annotations

import pytest

from benchmarks.page_memory import KINDS, LIMIT_BYTES, growth_of

pytestmark = pytest.mark.nightly

MAX_ACTIVE_BYTES = 64 * 2**20  # SCRAPER_SLOT_MAX_ACTIVE_SIZE


@pytest.fixture(scope="module")
def base_bytes() -> int:
    return growth_of(KINDS["small"], {}, has_jobdir=False)[0]


# An emoji that makes all text four times as large; bytes that are three each in UTF-8; a list of 200,000 urls.
@pytest.mark.parametrize("name", ["wide", "bad-utf-8", "sitemap-50"])
def test_one_large_body_adds_64_mb_beyond_itself_at_most(base_bytes, name):
    kind = KINDS[name]
    peak, said = growth_of(kind, {}, has_jobdir=False)
    assert "exit 0" in said
    assert peak - base_bytes <= kind.body_bytes + LIMIT_BYTES, said


def test_many_large_bodies_wait_for_each_other(base_bytes):
    """All come, and 16 at once would be 300 MB."""
    kind = KINDS["not-found"]
    settings = {"CONCURRENT_REQUESTS_PER_DOMAIN": 16}
    peak, said = growth_of(kind, settings, has_jobdir=False, pages=20)
    assert "errors http_404" in said
    assert peak - base_bytes <= MAX_ACTIVE_BYTES + 2 * kind.body_bytes + LIMIT_BYTES, said
