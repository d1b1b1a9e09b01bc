"""How well records say what their pages show: F1 for each field."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from html import unescape
from statistics import fmean
from typing import Any
from urllib.parse import urljoin

from lxml import etree
from lxml import html as lxml_html

from tests.servers.record_sites.truth import SitePage


def fold(text: str) -> str:
    return " ".join(text.split())


@dataclass(slots=True)
class FieldScore:
    """Counts values (of lists: elements; of objects: those of each property, and whole objects)."""

    right: int = 0
    given: int = 0
    wanted: int = 0
    misses: list[tuple[str, Any, Any]] = field(default_factory=list)  # (path, expected, got)

    @property
    def f1(self) -> float:
        return 2 * self.right / (self.given + self.wanted) if self.given + self.wanted else 1.0


@dataclass(slots=True)
class Scores:
    """`reviews.author` are the authors of the objects under `reviews`; `reviews` the whole objects."""

    fields: dict[str, FieldScore] = field(default_factory=dict)

    def __str__(self) -> str:
        return ", ".join(f"{key} {score.f1:.2f}" for key, score in self.fields.items())

    @property
    def macro(self) -> float:
        """The mean over the fields that any page has."""
        scores = [score.f1 for score in self.fields.values() if score.wanted]
        return fmean(scores) if scores else 1.0

    @property
    def worst(self) -> float:
        return min((score.f1 for score in self.fields.values() if score.wanted), default=1.0)

    def add(self, page: SitePage, record: Mapping[str, Any] | None, url: str = "") -> None:
        """A page and the record that it got. Truth that is nowhere on the page does not count."""
        texts = texts_of(page.html)
        for name, expected in page.fields.items():
            got = (record or {}).get(name)
            wanted = [one for one in _listed(expected) if is_shown(one, texts)]
            if len(wanted) < len(_listed(expected)) and not isinstance(expected, list):
                continue
            pairs = [(name, wanted, _listed(got))]
            objects = [one for one in (*wanted, *_listed(got)) if isinstance(one, dict)]
            keys = dict.fromkeys(key for one in objects for key in one)
            pairs += [(f"{name}.{key}", _column(wanted, key), _column(_listed(got), key)) for key in keys]
            for key, want, have in pairs:
                self._count(self.fields.setdefault(key, FieldScore()), page.path, want, have, url)

    @staticmethod
    def _count(score: FieldScore, path: str, wanted: list[Any], given: list[Any], url: str) -> None:
        want = Counter(_plain(one, url) for one in wanted)
        have = Counter(_plain(one, url) for one in given)
        right = (want & have).total()
        score.right += right
        score.wanted += want.total()
        score.given += have.total()
        if not right == want.total() == have.total():
            score.misses.append((path, wanted, given))


def texts_of(html: str) -> str:
    """All that a page shows or carries in attributes and scripts, one text a line, white space folded."""
    root = lxml_html.document_fromstring(html)
    found = [fold(unescape(str(value))) for element in root.iter() for value in element.attrib.values()]
    found += [fold(script.text or "") for script in root.iter("script")]
    found += [fold("".join(map(str, element.itertext()))) for element in root.iter(etree.Element)]
    return "\n".join(dict.fromkeys(found))


def is_shown(value: Any, texts: str) -> bool:
    """Whether a value of the truth is on a page; `texts` are `texts_of` the page."""
    if isinstance(value, dict | list):
        return all(is_shown(one, texts) for one in (value.values() if isinstance(value, dict) else value))
    return all(fold(str(part)) in texts for part in (getattr(value, "parts", ()) or (value,)))


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value in (None, "") else [value]


def _column(objects: list[Any], key: str) -> list[Any]:
    return [one[key] for one in objects if isinstance(one, dict) and one.get(key) is not None]


def _plain(value: Any, url: str) -> Any:
    """What makes two values equal."""
    meant = getattr(value, "value", value)
    if isinstance(meant, dict):
        return tuple(sorted((key, _plain(one, url)) for key, one in meant.items() if one is not None))
    if isinstance(meant, int | float):
        return str(float(meant))
    text = fold(str(meant))
    if text.startswith("/"):
        return urljoin(url, text) if url else text
    for read in (float, lambda one: datetime.fromisoformat(one).replace(tzinfo=None)):
        try:
            return str(read(text))
        except ValueError:
            continue
    return text
