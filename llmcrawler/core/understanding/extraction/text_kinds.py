"""Tells what short texts are that mostly look alike: the name of a person, a place or a company, a role, or a street.

A linear model of words, their beginnings, ends and runs of letters, in the manner of fastText (Joulin et al. 2016), of
many languages. `text_kinds.npz` is made by benchmarks/text_kinds_train.py of the words of Faker (MIT), the cities of
GeoNames (CC-BY-4.0) and the texts of WCXB's development pages (CC-BY-4.0, its authors).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache, lru_cache
from importlib.resources import files
from io import BytesIO
from itertools import islice
from typing import Any, Final
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

KINDS: Final = ("other", "person", "role", "place", "company", "street")
BUCKETS: Final = 2**15
MAX_CHARS: Final = 70
_MAX_WORDS: Final = 12
_LIKELY, _SURE = 0.5, 0.9
_WORD: Final = re.compile(r"[^\W\d_]+(?:['’.-][^\W\d_]+)*\.?|\d+|[&@/,()|·–-]")


def features_of(text: str) -> Iterator[tuple[float, NDArray[np.int32]]]:
    """Yield the buckets that the parts of a text fall in, with their weight: those of all words together weigh 1, those
    of the first and of the last word half of it."""
    words = [match[0] for match in islice(_WORD.finditer(text), _MAX_WORDS)]
    for word in words:
        yield 1 / len(words), _buckets(word, "")
    for place, word in (("F", words[0]), ("L", words[-1])) if words else ():
        yield 0.5, _buckets(word, place)
    yield 1.0, np.array([_bucket(f"n{len(words)}"), _bucket("bias")], np.int32)


def _bucket(feature: str) -> int:
    return crc32(feature.encode()) % BUCKETS


def _buckets(word: str, place: str) -> NDArray[np.int32]:
    low = word.casefold()
    if low.isdigit():
        return np.array([_bucket(f"{place}#{min(len(low), 6)}")], np.int32)
    case = "X" if word.isupper() and len(word) > 1 else "x" if word[0].islower() else "C" if word[0].isupper() else "-"
    bounded = f"<{low}>"
    runs = (bounded[at : at + size] for size in (3, 4, 5) for at in range(len(bounded) - size + 1))
    return np.array([_bucket(place + part) for part in (f"={low}", f"^{case}", f"{case}{min(len(low), 9)}", *runs)])


@lru_cache(maxsize=8192)
def text_kind(text: str) -> tuple[str, bool] | None:
    """Return what a text is, and whether that is sure; None where it is nothing of this."""
    if len(text) > MAX_CHARS or not any(map(str.isalpha, text)):
        return None
    weights, scale = _model()
    scores = scale * sum(weight * weights[buckets].sum(0, dtype=np.float32) for weight, buckets in features_of(text))
    powers = np.exp(scores - scores.max())
    best = int(powers.argmax())
    share = float(powers[best] / powers.sum())
    return (KINDS[best], share > _SURE) if best and share > _LIKELY else None


@cache
def _model() -> tuple[NDArray[np.int8], Any]:
    with np.load(BytesIO(files(__package__).joinpath("text_kinds.npz").read_bytes())) as arrays:
        return arrays["weights"], arrays["scale"]
