"""Writes down how records are taken, for the next crawl and for people: as JSON, as a schema, as selectors to paste."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from llmcrawler.core.understanding.extraction.extraction_runs import compile_extractor
from llmcrawler.core.understanding.extraction.extractor import Field, Selector, TemplateExtractor
from llmcrawler.core.understanding.extraction.learner import Learner, LearnerKey
from llmcrawler.core.understanding.extraction.record_schema import RequestedSchema, schema_of
from llmcrawler.core.understanding.extraction.records import Records
from llmcrawler.core.understanding.extraction.variants import Variant

logger = logging.getLogger(__name__)


class RecordSerializer:
    """Turns the extractors of `records` into JSON and back. `page_type_of` a template says which of its records people
    are shown.

    What was learned for other fields than are requested now is learned anew.
    """

    def __init__(
        self,
        records: Records,
        requested: RequestedSchema | None,
        page_type_of: Callable[[str, str], str | None],
    ) -> None:
        self._records = records
        self._page_type_of = page_type_of
        self._requested = None if requested is None else [dict(requested.schema), list(requested.page_types)]

    def to_json(self, site: str) -> dict[str, Any]:
        """Return what the next crawl of a site should know."""
        learners = self._records.to_keep(site)
        learners.sort(key=lambda one: (len(one.key.template), one.key.template, one.key.page_type))
        return {
            "wanted": self._requested,
            "templates": [_to_json(learner) for learner in learners],
        }

    def restore(self, site: str, value: Any, origin: str) -> None:
        """Go on with what `to_json` gave. Raises ValueError for anything else."""
        learners = read_learners(site, value, origin)
        if value["wanted"] != self._requested:
            logger.warning("Other fields are wanted of %s than those learned before: they are learned anew", site)
        else:
            self._records.restore(learners)

    def describe(self, site: str, template: str) -> dict[str, Any]:
        """Return what people may want to know of a template's records."""
        learner = self._records.learner_of(site, template, self._page_type_of(site, template))
        return {
            "schema": described_schema(learner.extractors) if learner else None,
            "selectors": described_selectors(learner.extractors) if learner else [],
            "llm_calls": learner.calls if learner else 0,
        }


def read_learners(site: str, value: Any, _origin: str = "") -> list[Learner]:
    """Read what `RecordSerializer.to_json` gave. Raises ValueError for anything else."""
    try:
        if "wanted" not in value:
            raise ValueError("not the records of a site")
        return [_from_json(site, one) for one in value["templates"]]
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"not the records of a site: {error!r}") from error


def _to_json(learner: Learner) -> dict[str, Any]:
    return {
        "template": learner.key.template,
        "page_type": learner.key.page_type,
        "variants": [
            {"extractor": one.extractor.to_json(), "coverage": dict(sorted(one.coverage.items()))}
            for one in learner.variants
        ],
        "calls": learner.calls,
        "pages_shown": learner.pages_shown,
        "gave_up": learner.gave_up and learner.error is None,  # what failed may do the next time
    }


def _from_json(site: str, value: Mapping[str, Any]) -> Learner:
    variants = [_variant(one) for one in value["variants"]]
    return Learner(
        LearnerKey(site, str(value["template"]), str(value["page_type"])),
        variants,
        runs=1 if variants else 0,  # each crawl may learn a template anew as often as the first one
        calls=int(value["calls"]),
        pages_shown=int(value["pages_shown"]),
        gave_up=bool(value["gave_up"]),
        was_restored=True,
    )


def _variant(value: Mapping[str, Any]) -> Variant:
    coverage = {str(key): float(share) for key, share in value["coverage"].items()}
    extractor = TemplateExtractor.from_json(value["extractor"])
    compile_extractor(extractor)  # a selector that is none is found now, not on the first page
    return Variant(extractor, coverage)


def described_schema(extractors: Sequence[TemplateExtractor]) -> dict[str, Any] | None:
    """Return the JSON Schema of the records of a template, over all of its variants; None without any."""
    fields: dict[str, Field] = {one.key: one for extractor in extractors for one in extractor.fields}
    return schema_of(tuple(fields.values()), extractors[-1].page_type) if extractors else None


def described_selectors(extractors: Sequence[TemplateExtractor]) -> list[dict[str, Any]]:
    """Return one entry a selector: the field, "css", "xpath" or "json-ld", what is taken, and how well it did."""
    return [{**entry, "variant": number} for number, one in enumerate(extractors, 1) for entry in _entries(one)]


def _entries(extractor: TemplateExtractor) -> Iterator[dict[str, Any]]:
    for name, rows in extractor.groups:
        for selector in rows:
            yield {"field": name, "type": "rows", **_selector(selector)}
    for rule in extractor.rules:
        kind = rule.field.type or "string"
        for selector in rule.selectors:
            yield {"field": rule.field.key, "type": f"{kind}[]" if rule.field.many else kind, **_selector(selector)}


def _selector(selector: Selector) -> dict[str, Any]:
    taken = {"attribute": selector.attribute, "pattern": selector.pattern}
    return {
        selector.language: selector.query,
        **{name: value for name, value in taken.items() if value is not None},
        "evidence": selector.evidence,
        "coverage": selector.coverage,
        "agreement": selector.agreement,
    }
