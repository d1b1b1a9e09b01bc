"""What was learned of records, kept across crawls."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

from llmcrawler.extraction.description import described_schema, described_selectors
from llmcrawler.extraction.learner import Learner, LearnerKey
from llmcrawler.extraction.model import Extractor
from llmcrawler.extraction.records import Records
from llmcrawler.extraction.schema import Wanted
from llmcrawler.extraction.variants import Variant

logger = logging.getLogger(__name__)


class KeptRecords:
    """The extractors of `records` as JSON. `page_type_of` a template says which of its records people are shown.

    What was learned for other fields than are `wanted` now is learned anew; so is, with a model, what was learned
    without one.
    """

    def __init__(
        self,
        records: Records,
        wanted: Wanted | None,
        page_type_of: Callable[[str, str], str | None],
        *,
        has_model: bool,
    ) -> None:
        self._records = records
        self._page_type_of = page_type_of
        self._wanted = None if wanted is None else [dict(wanted.schema), list(wanted.page_types)]
        self._has_model = has_model

    def to_json(self, site: str) -> dict[str, Any]:
        learners = sorted(
            self._records.to_keep(site), key=lambda one: (len(one.key.template), one.key.template, one.key.page_type)
        )
        return {
            "wanted": self._wanted,
            "has_model": self._has_model or any(one.calls for one in learners),
            "templates": [_to_json(learner) for learner in learners],
        }

    def restore(self, site: str, value: Any, origin: str) -> None:
        """Raises ValueError for anything else than `to_json` gives."""
        learners = read_learners(site, value, origin)
        if value["wanted"] != self._wanted:
            logger.warning("Other fields are wanted of %s than those learned before: they are learned anew", site)
        elif self._has_model and not value["has_model"]:
            logger.info("Records of %s were learned without a model before: they are learned anew", site)
        else:
            self._records.restore(learners)

    def describe(self, site: str, template: str) -> dict[str, Any]:
        learner = self._records.learner_of(site, template, self._page_type_of(site, template))
        return {
            "schema": described_schema(learner.extractors) if learner else None,
            "selectors": described_selectors(learner.extractors) if learner else [],
            "llm_calls": learner.calls if learner else 0,
        }


def read_learners(site: str, value: Any, _origin: str = "") -> list[Learner]:
    """From `KeptRecords.to_json`. Raises ValueError."""
    try:
        if not isinstance(value["has_model"], bool) or "wanted" not in value:
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
            for one in learner.proper_variants
        ],
        "calls": learner.calls,
        "pages_shown": learner.pages_shown,
        "gave_up": learner.gave_up,
    }


def _from_json(site: str, value: Mapping[str, Any]) -> Learner:
    key = LearnerKey(site, str(value["template"]), str(value["page_type"]))
    variants = [_variant(one) for one in value["variants"]]
    return Learner(
        key,
        variants,
        # Each crawl may learn a template anew as often as the first one.
        lessons=1 if variants else 0,
        calls=int(value["calls"]),
        pages_shown=int(value["pages_shown"]),
        gave_up=bool(value["gave_up"]),
    )


def _variant(value: Mapping[str, Any]) -> Variant:
    coverage = {str(key): float(share) for key, share in value["coverage"].items()}
    variant = Variant(Extractor.from_json(value["extractor"]), coverage)
    _ = variant.compiled  # a selector that is none is found now, not on the first page
    return variant
