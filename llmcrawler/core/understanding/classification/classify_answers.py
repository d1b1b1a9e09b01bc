"""Says what form the answers to a question for page types have, and reads them: the task `classify`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from llmcrawler.core.llm import MAX_ID_CHARS
from llmcrawler.core.understanding.classification.classify_prompt import Answer
from llmcrawler.core.understanding.classification.page_types import PageTypes


def answer_schema(page_types: PageTypes) -> dict[str, Any]:
    """Return the strict JSON Schema of the answer. It is the same for all calls, as providers put it before what they
    cache; `parse_answers` sees to the ids. An answer that lacks some of them is good for the rest.
    """
    entry = {
        "type": "object",
        "properties": {
            "id": {"type": "string", "maxLength": MAX_ID_CHARS},
            "label": {"type": "string", "enum": list(page_types.names)},
            "confidence": {"type": "number", "minimum": 0, "maximum": 1},
        },
        "required": ["id", "label", "confidence"],
        "additionalProperties": False,
    }
    return {
        "type": "object",
        "properties": {"pages": {"type": "array", "items": entry, "minItems": 1}},
        "required": ["pages"],
        "additionalProperties": False,
    }


def parse_answers(document: Mapping[str, Any], answer: Any) -> tuple[dict[str, Answer], dict[str, str]]:
    """Return the verdicts by id, and by id what is wrong with the others; an id that was not asked for is a fault too.

    An id that is there twice with different labels has no verdict.
    """
    asked = [page["id"] for page in document["pages"]]
    names = {label["name"] for label in document["labels"]}
    verdicts: dict[str, Answer] = {}
    faults: dict[str, str] = {}
    for entry in _entries(answer):
        page_id = entry.get("id")
        if not isinstance(page_id, str) or page_id not in asked:
            faults[str(page_id)[:80]] = "this id was not asked for"
            continue
        fault = _fault(entry, names)
        if fault:
            faults[page_id] = fault
        elif page_id in verdicts and verdicts[page_id].label != entry["label"]:
            faults[page_id] = "two labels for one page"
        else:
            verdicts.setdefault(page_id, Answer(entry["label"], float(entry["confidence"])))
    for page_id in asked:
        if page_id in faults:
            verdicts.pop(page_id, None)
        elif page_id not in verdicts:
            faults[page_id] = "the answer leaves this page out"
    return verdicts, faults


def _entries(answer: Any) -> list[dict[str, Any]]:
    entries = answer.get("pages") if isinstance(answer, dict) else None
    return [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []


def _fault(entry: Mapping[str, Any], names: set[str]) -> str:
    label, confidence = entry.get("label"), entry.get("confidence")
    if not isinstance(label, str) or label not in names:
        return f"{str(label)[:80]!r} is none of the labels"
    if isinstance(confidence, bool) or not isinstance(confidence, int | float):
        return "the confidence is no number"
    return "" if 0 <= confidence <= 1 else "the confidence is not within 0 and 1"
