"""Stand-ins for objects of which a test needs a few attributes."""

from types import SimpleNamespace
from typing import Any


def stub(**parts: Any) -> Any:
    """Return an object with these attributes alone, for a parameter whose class has many more."""
    return SimpleNamespace(**parts)
