"""Figures as people write them."""

from __future__ import annotations

from collections import Counter


def counts(counter: Counter[str], shown: int) -> str:
    """The most frequent names with their counts; equal counts by name, so that a display does not flicker."""
    ordered = sorted(counter.items(), key=lambda pair: (-pair[1], pair[0]))
    parts = [f"{name} {count:,}" for name, count in ordered[:shown]]
    if len(ordered) > shown:
        parts.append(f"{len(ordered) - shown} more")
    return ", ".join(parts)


def duration(seconds: float) -> str:
    if seconds < 59.5:  # more would be rounded to 60
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"


def money(cost_usd: float | None) -> str:
    return "cost unknown" if cost_usd is None else f"${cost_usd:.4f}"


def percent(share: float) -> str:
    return f"{share:.0%}"
