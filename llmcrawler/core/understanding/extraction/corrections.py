"""Keeps what a person has corrected of a site's templates: the page type, names of fields, the selector of a field.

Corrections stand in the file of learned templates beside what crawls have learned, and no crawl writes them. Whoever
reads a template lays them over what is learned of it: so they hold whatever is learned or merged afterwards.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import reduce
from itertools import islice
from typing import Any, Final, NamedTuple, Self

from llmcrawler.core.storage import StoredSite, TemplatesFile
from llmcrawler.core.understanding.extraction.extractor import (
    Extraction,
    FieldRule,
    TemplateExtractor,
    compile_extractor,
    extractions,
)
from llmcrawler.core.understanding.extraction.learner import Variant, described_selectors
from llmcrawler.core.understanding.extraction.queries import compile_pattern, is_known
from llmcrawler.core.understanding.extraction.record_schema import Field, filled_up, put
from llmcrawler.core.understanding.extraction.selectors import LANGUAGES, Selector
from llmcrawler.errors import ConfigError, TooCostly
from llmcrawler.items import PERSON

MAX_CHECKED: Final = 50  # stored pages that a selector is tried on
_CHECK_STEPS: Final = 100_000  # of work on one of them: a tenth of a second
_MAX_CHARS: Final = 500  # of a selector or pattern
_NAME: Final = re.compile(r"[^\W\d][\w-]{0,63}(\.[^\W\d][\w-]{0,63}){0,3}")


@dataclass(frozen=True, slots=True)
class Correction:
    """What a person has said of one template. `names` maps learned names of fields to theirs, `rules` have their
    selectors, of fields by their learned names."""

    page_type: str | None = None
    names: Mapping[str, str] = field(default_factory=dict)
    rules: tuple[FieldRule, ...] = ()

    def to_json(self) -> dict[str, Any]:
        fields = [asdict(rule) for rule in self.rules]
        return {"by": PERSON, "page_type": self.page_type, "names": dict(self.names), "fields": fields}

    @classmethod
    def from_json(cls, value: Any) -> Self:
        """Read what `to_json` gave. Raises ValueError for anything else, and for what is no selector."""
        try:
            read = TemplateExtractor.from_json({"page_type": "", "rules": value["fields"], "groups": ()})
            compile_extractor(read)
            names = {str(old): str(new) for old, new in value["names"].items()}
            page_type = value["page_type"]
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"not a correction: {error!r}") from error
        if page_type is not None and not isinstance(page_type, str):
            raise ValueError(f"not a page type: {page_type!r}")
        return cls(page_type, names, read.rules)

    def over(self, other: Correction) -> Correction:
        """Return both in one; where they contradict each other, this one."""
        own = {rule.field.key for rule in self.rules}
        rules = (*self.rules, *(rule for rule in other.rules if rule.field.key not in own))
        return Correction(self.page_type or other.page_type, {**other.names, **self.names}, rules)

    def extractor(self, learned: TemplateExtractor) -> TemplateExtractor:
        """Return an extractor with the person's selectors and names."""
        own = {rule.field.key: rule for rule in self.rules}
        rules = [*(own.pop(rule.field.key, rule) for rule in learned.rules), *own.values()]
        renamed = (replace(rule, field=self._renamed(rule.field)) for rule in rules)
        groups = ((self.names.get(name, name), rows) for name, rows in learned.groups)
        return replace(learned, rules=tuple(renamed), groups=tuple(groups))

    def extractors(self, learned: Sequence[TemplateExtractor]) -> list[TemplateExtractor]:
        """Return the extractors of a template as `extractor`; that of the person's selectors where none was learned."""
        own = TemplateExtractor(self.page_type or "", ())
        return [self.extractor(one) for one in learned or ([own] if self.rules else [])]

    def variants(self, learned: Sequence[Variant]) -> list[Variant]:
        """Return the variants of a template likewise, to read single pages with."""
        extractors = self.extractors([one.extractor for one in learned])
        coverage = [one.coverage for one in learned] or [{}]
        shares = [{self.names.get(key, key): value for key, value in one.items()} for one in coverage]
        return [Variant(*both) for both in zip(extractors, shares, strict=False)]

    def record(self, made: Mapping[str, Any] | None, own: Extraction) -> dict[str, Any] | None:
        """Return a page's record: what was `made` of it without the person, under the person's names, and what their
        own selectors gave; these alone speak for their fields, also where they give nothing."""
        if made is None and not own.present:
            return None
        record = dict(made or {})
        for rule in self.rules:
            _taken(record, rule.field.name)
        for name, new in self.names.items():
            for value in _taken(record, name):
                put(record, new, value)
        return filled_up(own.record, record)

    def described(self, entry: Mapping[str, Any]) -> dict[str, Any]:
        """Return a template's entry for people with the corrections; a page type and a selector that are a person's are
        marked so."""
        if self == Correction():
            return dict(entry)
        replaced = {rule.field.key for rule in self.rules}
        selectors = [{**one, "by": PERSON} for one in described_selectors(self.extractors([]))]
        learned = (one for one in entry.get("selectors") or () if one["field"] not in replaced)
        selectors += [{**one, **self._described_name(one["field"])} for one in learned]
        own = {} if self.page_type is None else {"page_type": self.page_type, "confidence": 1.0, "by": PERSON}
        return {**entry, "selectors": selectors, **own}

    def _renamed(self, one: Field) -> Field:
        if one.group:
            return replace(one, group=self.names.get(one.group, one.group))
        return replace(one, name=self.names.get(one.name, one.name))

    def _described_name(self, key: str) -> dict[str, str]:
        for name, new in self.names.items():
            if key == name or key.startswith(f"{name}."):
                return {"field": new + key[len(name) :], "by": PERSON, "learned_as": key}
        return {}


def read_corrections(values: Mapping[str, Any]) -> dict[str, Correction]:
    """Read the corrections of a site, by template. Raises ValueError where one is none."""
    return {template: Correction.from_json(value) for template, value in values.items()}


def correction_of(corrections: Mapping[str, Correction], template: str, now: Callable[[str], str]) -> Correction | None:
    """Return what holds for a template: its own correction, then those of templates that were merged into it. `now`
    gives what has become of a template."""
    current = now(template)
    own_first = sorted(corrections, key=lambda name: name != current)
    found = [corrections[name] for name in own_first if now(name) == current]
    return reduce(Correction.over, found) if found else None


def described_templates(file: TemplatesFile, site: str, stored: StoredSite) -> list[dict[str, Any]]:
    """Return a site's templates for people, with their corrections. Raises ConfigError where these are damaged."""
    try:
        return [_corrected(stored, one["template"]).described(one) for one in stored.templates]
    except ValueError as error:
        raise file.refusal(f"is damaged in the corrections of {site} ({error})") from error


def _corrected(stored: StoredSite, template: str) -> Correction:
    return correction_of(read_corrections(stored.corrections), template, stored.now) or Correction()


class PageToTry(NamedTuple):
    html: str
    url: str
    lang: str = ""


class Tried(NamedTuple):
    """What a selector gives on stored pages: a value on `given` of `pages`, and the first values."""

    pages: int
    given: int
    values: tuple[Any, ...]


def correct_page_type(file: TemplatesFile, site: str, template: str, page_type: str, known: Collection[str]) -> None:
    """Have a template be of a page type, one of those `known`. Raises ConfigError, which names the argument, OSError
    where the file cannot be written."""
    if page_type not in known:
        raise ConfigError(f"page_type: {page_type!r} is not one of {', '.join(sorted(known))}")
    _correct(file, site, template, lambda before, _entry: replace(before, page_type=page_type))


def rename_field(file: TemplatesFile, site: str, template: str, field: str, name: str) -> None:
    """Give a field of a template's records another name. Raises as `correct_page_type`."""

    def renamed(before: Correction, entry: Mapping[str, Any]) -> Correction:
        learned = _learned_name(before, field)
        fields = {one["field"] for one in before.described(entry)["selectors"]}
        if field not in fields:
            raise ConfigError(f"field: {template} has no field {field!r}; it has {', '.join(sorted(fields)) or 'none'}")
        _check_field(entry, learned, name)
        if name in fields - {field}:
            raise ConfigError(f"name: {template} has another field {name!r}: rename that one first")
        names = {old: new for old, new in before.names.items() if old != learned}
        return replace(before, names=names if name == learned else {**names, learned: name})

    _correct(file, site, template, renamed)


def correct_selector(
    file: TemplatesFile, site: str, template: str, rule: FieldRule, pages: Iterable[PageToTry]
) -> Tried:
    """Have the selectors of a rule, and these alone, find its field, a learned or a new one, after they have given a
    value on stored `pages` of the template. A field without a type keeps the learned one. Raises as
    `correct_page_type`."""
    for selector in rule.selectors:
        _check_selector(selector)
    before, entry = _known(file.load().get(site), file, site, template)
    learned = _learned_name(before, rule.field.name)
    _check_field(entry, learned, rule.field.name)
    one = replace(rule.field, name=learned)
    if one.type is None:
        kind: Any = next((old["type"] for old in entry.get("selectors") or () if old["field"] == learned), "string")
        one = replace(one, type=kind.removesuffix("[]"), many=kind.endswith("[]"))
    tried = _try(replace(rule, field=one), pages)
    if not tried.given:
        where = f"on any of {tried.pages} stored pages" if tried.pages else "to try it on: no page is stored"
        raise ConfigError(f"selector: it gives no {one.type} {where} of {template}")
    share = round(tried.given / tried.pages, 3)
    found = tuple(
        replace(selector, evidence=PERSON, coverage=share, agreement=None, samples=tried.pages)
        for selector in rule.selectors
    )
    own = Correction(rules=(replace(rule, field=one, selectors=found),))
    _correct(file, site, template, lambda before, _entry: own.over(before))
    return tried


def remove_corrections(file: TemplatesFile, site: str, template: str) -> None:
    """Leave a template to what crawls learn of it. Raises as `correct_page_type`."""
    _correct(file, site, template, lambda _before, _entry: Correction())


def _check_selector(selector: Selector) -> None:
    """Raise ConfigError for what is no selector."""
    if selector.language not in LANGUAGES:
        raise ConfigError(f"language: {selector.language!r} is not one of {', '.join(LANGUAGES)}")
    for name in ("query", "pattern", "attribute"):
        if len(getattr(selector, name) or "") > _MAX_CHARS:
            raise ConfigError(f"{name}: it is longer than {_MAX_CHARS} characters")
    if not selector.query or not is_known(selector):
        kinds = "tags, #id, .class, [attribute=value], :nth-of-type(), children and descendants, or such an XPath"
        raise ConfigError(f"selector: {selector.query!r} is no {selector.language} selector of {kinds}")
    try:
        compile_pattern(selector.pattern or "()")
    except ValueError as error:
        raise ConfigError(f"pattern: {error}") from error


def _try(rule: FieldRule, pages: Iterable[PageToTry]) -> Tried:
    extractor, looked, values = TemplateExtractor("", (rule,)), 0, []
    for page in islice(pages, MAX_CHECKED):
        looked += 1
        with suppress(TooCostly):
            (found,) = extractions([extractor], page.html, page.url, page.lang, _CHECK_STEPS)
            if found.present:
                values.append(found.record)
    return Tried(looked, len(values), tuple(values[:3]))


def _correct(
    file: TemplatesFile, site: str, template: str, change: Callable[[Correction, Mapping[str, Any]], Correction]
) -> None:
    def changed(stored: StoredSite) -> dict[str, Any]:
        before, entry = _known(stored, file, site, template)
        after, name = change(before, entry), entry["template"]
        kept = {one: value for one, value in stored.corrections.items() if stored.now(one) != name}
        return kept if after == Correction() else {**kept, name: after.to_json()}

    file.correct(site, changed)


def _known(
    stored: StoredSite | None, file: TemplatesFile, site: str, template: str
) -> tuple[Correction, Mapping[str, Any]]:
    """Return what was corrected of a template before, and its entry for people."""
    if stored is not None:
        name = stored.now(template)
        for entry in stored.templates:
            if entry["template"] == name:
                return _corrected(stored, name), entry
    raise ConfigError(f"template: {file.path} has no template {template!r} of {site}")


def _learned_name(before: Correction, field: str) -> str:
    return next((old for old, new in before.names.items() if new == field), field)


def _check_field(entry: Mapping[str, Any], learned: str, name: str) -> None:
    rows = [one["field"] for one in entry.get("selectors") or () if one.get("type") == "rows"]
    if within := next((row for row in rows if learned.startswith(f"{row}.")), None):
        raise ConfigError(f"field: {learned!r} is a part of the objects in {within!r}: only whole fields are corrected")
    if not _NAME.fullmatch(name):
        raise ConfigError(f"name: {name!r} is no name of a field: letters, digits, _ and -, with . between parts")


def _taken(record: dict[str, Any], path: str) -> list[Any]:
    """Take a value out of a record; none where it is not there."""
    *parents, last = path.split(".")
    for part in parents:
        inner = record.get(part)
        if not isinstance(inner, dict):
            return []
        record[part] = dict(inner)
        record = record[part]
    return [record.pop(last)] if last in record else []
