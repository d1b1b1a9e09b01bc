"""Puts a question into a request: in full at first, then without what the server has shown not to understand."""

from __future__ import annotations

import json
import re
from collections.abc import Container, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

from llmcrawler.llm import faults
from llmcrawler.llm.control_tokens import without_control_tokens
from llmcrawler.llm.faults import Fault
from llmcrawler.llm.tokens import estimate_tokens

# From the strictest that servers know to the one that all know.
_FORMATS = ("json_schema", "json_object", "plain")
# Tokens that a model may think before it answers, by reasoning_effort: they are paid as answer.
_THOUGHT_TOKENS = {"none": 0, "minimal": 1_000, "low": 4_000, "medium": 12_000, "high": 32_000}
_USUAL_EFFORT = "medium"
_UNBOUNDED_ANSWER_TOKENS = 4_000
_MESSAGE_TOKENS = 4
_SCHEMA_IN_WORDS = "\n\nAnswer with one JSON object and nothing else. It has to fit this JSON Schema:\n"


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """Question to the model: `document` is the task document of the LLM contract, `schema` that of the answer."""

    task: str
    system: str
    document: dict[str, Any]
    schema: dict[str, Any]
    max_answer_tokens: int | None = None
    examples: Sequence[tuple[str, str]] = ()

    def messages(self, system: str) -> list[dict[str, str]]:
        """Return the messages. Examples (user message, answer) stand before the question, so the prefix is the same."""
        turns = [{"role": "system", "content": system}]
        for asked, answered in self.examples:
            turns += [
                {"role": "user", "content": without_control_tokens(asked)},
                {"role": "assistant", "content": without_control_tokens(answered)},
            ]
        return [*turns, {"role": "user", "content": self.user_message()}]

    def user_message(self) -> str:
        text = json.dumps(self.document, ensure_ascii=False, separators=(",", ":"))
        # Half a surrogate pair, as broken pages hold, can't be sent.
        text = text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")
        return without_control_tokens(text)


class Dialect:
    """Knows what one server understands: it only shrinks, and lasts as long as the session.

    `options` go into every request (None: left out): temperature, reasoning_effort. `bounded`: there is a budget, so
    every answer must have an end, and thoughts count.
    """

    def __init__(self, options: Mapping[str, Any], *, bounded: bool = False) -> None:
        self._options = options
        self._bounded = bounded
        self._format = _FORMATS[0]
        self._parameters = set(faults.PARAMETERS)
        self._keywords = set(faults.SCHEMA_KEYWORDS)

    def body(self, model: str, ask: ModelRequest) -> dict[str, Any]:
        """Return the body of a chat completion. The system message is the same for all questions of a task."""
        system = ask.system
        if self._format != "json_schema":
            system += _SCHEMA_IN_WORDS + without_control_tokens(json.dumps(ask.schema, ensure_ascii=False))
        body: dict[str, Any] = {"model": model, "messages": ask.messages(system)}
        if self._format == "json_schema":
            name = re.sub(r"[^A-Za-z0-9_-]", "_", ask.task)[:64]
            schema = _without(ask.schema, faults.SCHEMA_KEYWORDS - self._keywords)
            rules = {"name": name, "schema": schema, "strict": True}
            body["response_format"] = {"type": "json_schema", "json_schema": rules}
        elif self._format == "json_object":
            body["response_format"] = {"type": "json_object"}
        options = {**self._options, **self._bound(ask.max_answer_tokens)}
        return body | {name: one for name, one in options.items() if one is not None and name in self._parameters}

    def _bound(self, answer_tokens: int | None) -> dict[str, int | None]:
        """Return the parameter that bounds the answer. OpenAI's models that think refuse `max_tokens`; its successor
        counts their thoughts too.
        """
        if not self._bounded:
            return {"max_tokens": answer_tokens}
        tokens = answer_tokens or _UNBOUNDED_ANSWER_TOKENS
        if "max_tokens" in self._parameters:
            return {"max_tokens": tokens}
        effort = str(self._options.get("reasoning_effort") or _USUAL_EFFORT)
        thoughts = _THOUGHT_TOKENS.get(effort, _THOUGHT_TOKENS["high"])
        return {"max_completion_tokens": tokens + thoughts}

    def adapt(self, fault: Fault, body: Mapping[str, Any]) -> str:
        """Give up what the server has just refused in `body`. Return what was done, or "" for any other fault."""
        if fault.kind == faults.UNKNOWN_PARAMETER:
            return _leave_out(fault, self._parameters, body)
        if fault.kind != faults.UNKNOWN_FORMAT or "response_format" not in body:
            return ""
        # A bound that strict mode does not know: the answer is checked against it here all the same.
        if change := _leave_out(fault, self._keywords, json.dumps(body["response_format"])):
            return change
        refused = body["response_format"]["type"]
        # Another call may have found out in the meantime: then this one only has to be sent again.
        if refused == self._format:
            self._format = _FORMATS[_FORMATS.index(refused) + 1]
        return f"asking in the form {self._format!r}"


def prompt_estimate(body: Mapping[str, Any]) -> int:
    """Estimate the tokens of a request. OpenAI's models read the schema too; a message has a frame of its own."""
    tokens = sum(estimate_tokens(message["content"]) + _MESSAGE_TOKENS for message in body["messages"])
    form = body.get("response_format", {}).get("json_schema")
    return tokens + (estimate_tokens(json.dumps(form)) if form else 0)


def answer_bound(body: Mapping[str, Any]) -> int:
    """Return the most tokens that the answer may have. A server that knows neither parameter stops by itself."""
    return int(body.get("max_tokens") or body.get("max_completion_tokens") or _UNBOUNDED_ANSWER_TOKENS)


def _leave_out(fault: Fault, known: set[str], sent: Container[str]) -> str:
    named = {name for name in known if name in fault.message and name in sent}
    known -= named
    return f"leaving out {', '.join(sorted(named))}" if named else ""


def _without(schema: Any, keywords: Set[str]) -> Any:
    """Copy a JSON Schema without these keywords."""
    if isinstance(schema, list):
        return [_without(part, keywords) for part in schema]
    if not keywords or not isinstance(schema, dict):
        return schema
    # Under "properties" stand names of fields, and one of them may well be called "pattern".
    return {
        key: {name: _without(rules, keywords) for name, rules in part.items()}
        if key == "properties"
        else _without(part, keywords)
        for key, part in schema.items()
        if key not in keywords
    }
