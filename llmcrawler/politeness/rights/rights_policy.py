"""What a crawl does with the rights that sites declare."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

RECORD, RESPECT, OFF = "record", "respect", "off"
MODES: Final = (RECORD, RESPECT, OFF)


@dataclass(frozen=True, slots=True)
class RightsPolicy:
    """`mode`: record, respect or off. `purpose`: one of USES, for which the pages are wanted; None: nobody said."""

    mode: str = RECORD
    purpose: str | None = None

    @property
    def refusing_purpose(self) -> str | None:
        """Return the purpose that pages which forbid it are refused for, if any."""
        return self.purpose if self.mode == RESPECT else None
