"""Tells what a short text may be: a name of a person or a company, a price, a duration, a colour, and so on.

A linear model of words and signs, their runs of letters, and the shape of the whole, in the manner of fastText (Joulin
et al. 2016), of thirteen languages. `text_kinds.npz` is made by benchmarks/text_kinds_train.py of lists of values, the
words of Faker (MIT), the cities of GeoNames (CC-BY-4.0) and the texts of WCXB's development pages (CC-BY-4.0, its
authors).
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

KINDS: Final = tuple(
    "other person company place country street role date time year duration money count number percent rating age"
    " weight length area volume power bytes speed temperature energy_food consumption code version url email phone"
    " coordinates color material size_code condition availability employment_type level status yes_no language license"
    " fuel transmission body_type genre cuisine food gender degree skill topic".split()
)
"""What texts are, "other" first. A field's kind is that of its values: see `usual_kind`."""
BUCKETS: Final = 2**15
MAX_CHARS: Final = 70
_LEAST: Final = -8.0
_MAX_PARTS: Final = 12
_MAX_SHAPES: Final = 5
_MAX_READ_CHARS: Final = 120
_LIKELY, _SURE = 0.5, 0.9
_PART: Final = re.compile(r"[^\W\d_]+|\d+|[^\w\s]")


def features_of(text: str) -> Iterator[tuple[float, NDArray[np.int32]]]:
    """Yield the buckets that the parts of a text fall in, with their weight: those of all parts together weigh 1, those
    of the first and of the last part half of it."""
    parts = [match[0] for match in islice(_PART.finditer(text[:_MAX_READ_CHARS]), _MAX_PARTS)]
    shapes = [_shape(part) for part in parts]
    for part, shape in zip(parts, shapes, strict=True):
        yield 1 / len(parts), _buckets(part.casefold(), shape, "")
    for place, at in (("F", 0), ("L", -1)) if parts else ():
        yield 0.5, _buckets(parts[at].casefold(), shapes[at], place)
    whole = ["bias", f"n{len(parts)}", f"c{len(text).bit_length()}", f"S{' '.join(shapes[:_MAX_SHAPES])}"]
    yield 1.0, np.array([_bucket(feature) for feature in whole], np.int32)


def _shape(part: str) -> str:
    if part.isdigit():
        return f"#{min(len(part), 6)}"
    if not part[0].isalpha():
        return part
    return "X" if part.isupper() and len(part) > 1 else "C" if part[0].isupper() else "x"


def _bucket(feature: str) -> int:
    return crc32(feature.encode()) % BUCKETS


@lru_cache(maxsize=8192)
def _buckets(part: str, shape: str, place: str) -> NDArray[np.int32]:
    if not part[0].isalpha():
        return np.array([_bucket(f"{place}p{shape}")], np.int32)
    bounded = f"<{part}>"
    runs = (bounded[at : at + size] for size in (3, 4, 5) for at in range(len(bounded) - size + 1))
    features = (f"={part}", f"^{shape}", f"{shape}{min(len(part), 9)}", *runs)
    return np.array([_bucket(f"{place}{feature}") for feature in features], np.int32)


@lru_cache(maxsize=8192)
def kind_odds(text: str) -> NDArray[np.float32]:
    """Return the log probability of each of KINDS, -8 at least."""
    weights, scale = _model()
    shares, buckets = zip(*features_of(text), strict=True)
    each = np.repeat(np.array(shares, np.float32), [len(some) for some in buckets])
    scores = scale * (each @ weights[np.concatenate(buckets)].astype(np.float32))
    scores -= scores.max()
    return np.asarray(np.maximum(scores - np.log(np.exp(scores).sum()), _LEAST), np.float32)


def text_kind(text: str) -> tuple[str, bool] | None:
    """Return what a text is, and whether that is sure; None where it is nothing of KINDS, or long."""
    if len(text) > MAX_CHARS or not any(map(str.isalpha, text)):
        return None
    odds = kind_odds(text)
    best = int(odds.argmax())
    share = float(np.exp(odds[best]))
    return (KINDS[best], share > _SURE) if best and share > _LIKELY else None


@cache
def _model() -> tuple[NDArray[np.int8], Any]:
    with np.load(BytesIO(files(__package__).joinpath("text_kinds.npz").read_bytes())) as arrays:
        return arrays["weights"], arrays["scale"]
