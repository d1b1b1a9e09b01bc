"""Reads the Retry-After header (RFC 9110, 10.2.3): seconds or a date."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime


def retry_after_seconds(header: str | None, now: datetime) -> float | None:
    """Return the wait that the header asks for, 0 for a date in the past; None without a header or for an odd one.

    `now` is the server's own time (its Date header) where that is known, else ours: clocks differ.
    """
    text = (header or "").strip()
    try:
        seconds = float(text)  # fractions stand in no standard, but servers send them
    except ValueError:
        date = http_date(text)
        return None if date is None else max(0.0, (date - now).total_seconds())
    return seconds if math.isfinite(seconds) and seconds >= 0 else None


def http_date(header: str | None) -> datetime | None:
    """Return an HTTP date (or another that mail knows) as an aware time; one without a zone is taken for UTC."""
    try:
        date = parsedate_to_datetime((header or "").strip())
    except (ValueError, IndexError, OverflowError):
        return None
    return date.replace(tzinfo=UTC) if date.tzinfo is None else date
