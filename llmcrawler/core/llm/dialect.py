"""Puts a question into a request: in full at first, then without what the server has shown not to understand."""

from __future__ import annotations

import json
import re
from collections.abc import Container, Mapping, Set
from dataclasses import dataclass
from typing import Any

from llmcrawler.core.llm import faults
from llmcrawler.core.llm.faults import Fault
from llmcrawler.core.llm.usage import charges_cache_writes, estimate_tokens

# From the strictest that servers know to the one that all know.
_FORMATS = ("json_schema", "json_object", "plain")
# Tokens that a model may think before it answers, by reasoning_effort: they are paid as answer.
_THOUGHT_TOKENS = {"none": 0, "minimal": 1_000, "low": 4_000, "medium": 12_000, "high": 32_000}
_USUAL_EFFORT = "medium"
_UNBOUNDED_ANSWER_TOKENS = 4_000
_MESSAGE_TOKENS = 4
MAX_ID_CHARS = 16  # of a page in an answer: no schema lists ids, as each call would then have another one
_SCHEMA_IN_WORDS = "\n\nAnswer with one JSON object and nothing else. It has to fit this JSON Schema:\n"


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One question to the model: `document` is the task document of the LLM contract, `schema` that of the answer
    (strict JSON Schema, bounded where a small model may run away). It, `system` and the first keys of the document
    (`constant_keys`) are the same in each call of a crawl for this task, so that providers may cache them.

    With `salvage`, entries of the answer's lists that were cut off or do not fit are left out; whoever asks then checks
    what is missing. `is_urgent`: it is not asked in a service tier that takes its time.
    """

    task: str
    system: str
    document: dict[str, Any]
    schema: dict[str, Any]
    constant_keys: tuple[str, ...] = ()
    salvage: bool = False
    max_answer_tokens: int | None = None
    is_urgent: bool = False

    def messages(self, system: str, *, marked: bool = False) -> list[dict[str, Any]]:
        """Return the messages. `marked`: for the provider's cache, where the same part ends."""
        text = _compact(self.document)
        start = f"{_compact({name: self.document[name] for name in self.constant_keys})[:-1]},"
        content: Any = without_control_tokens(text)
        if marked and self.constant_keys and text.startswith(start):
            end = {"prompt_cache_breakpoint": {"mode": "explicit"}}
            constant, rest = without_control_tokens(start), without_control_tokens(text[len(start) :])
            content = [{"type": "text", "text": constant, **end}, {"type": "text", "text": rest}]
        return [{"role": "system", "content": _sendable(system)}, {"role": "user", "content": content}]


def _compact(document: Mapping[str, Any]) -> str:
    return _sendable(json.dumps(document, ensure_ascii=False, separators=(",", ":")))


def _sendable(text: str) -> str:
    """Replace halves of surrogate pairs, as broken pages hold, which can't be sent."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


class Dialect:
    """Options that one server understands; only ever reduced. `options` go into every request (None: left out).
    `bounded`: there is a budget, so every answer must have an end, and thoughts count.
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
        # What makes a provider that charges for writing into its cache write up to the mark in the messages and no
        # further: no later call has the rest.
        cached: dict[str, Any] = {}
        if self._parameters.issuperset(faults.CACHE_PARAMETERS) and charges_cache_writes(model):
            cached = {"prompt_cache_options": {"mode": "explicit"}, "prompt_cache_key": f"llmcrawler-{ask.task}"}
        body: dict[str, Any] = {"model": model, "messages": ask.messages(system, marked=bool(cached)), **cached}
        if self._format == "json_schema":
            name = re.sub(r"[^A-Za-z0-9_-]", "_", ask.task)[:64]
            schema = _without(ask.schema, faults.SCHEMA_KEYWORDS - self._keywords)
            rules = {"name": name, "schema": schema, "strict": True}
            body["response_format"] = {"type": "json_schema", "json_schema": rules}
        elif self._format == "json_object":
            body["response_format"] = {"type": "json_object"}
        options = {**self._options, **self._bound(ask.max_answer_tokens)}
        if ask.is_urgent:
            options.pop("service_tier", None)
        return body | {name: one for name, one in options.items() if one is not None and name in self._parameters}

    def _bound(self, answer_tokens: int | None) -> dict[str, int | None]:
        """Return the parameter that bounds the answer. Models that think refuse `max_tokens`; its successor counts
        their thoughts.
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
            sent = {*body, "prompt_cache_breakpoint"} if "prompt_cache_options" in body else body
            return _leave_out(fault, self._parameters, sent)
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
    tokens = messages_estimate(body) + _MESSAGE_TOKENS * len(body["messages"])
    form = body.get("response_format", {}).get("json_schema")
    return tokens + (estimate_tokens(json.dumps(form)) if form else 0)


def messages_estimate(body: Mapping[str, Any]) -> int:
    """Estimate the tokens of the messages alone, as servers count them that know no schema."""
    contents = (message["content"] for message in body["messages"])
    texts = (one if isinstance(one, str) else "".join(part["text"] for part in one) for one in contents)
    return sum(map(estimate_tokens, texts))


def answer_bound(body: Mapping[str, Any]) -> int:
    """Return the most tokens that the answer may have. A server that knows neither parameter stops by itself."""
    return int(body.get("max_tokens") or body.get("max_completion_tokens") or _UNBOUNDED_ANSWER_TOKENS)


def _leave_out(fault: Fault, known: set[str], sent: Container[str]) -> str:
    named = {name for name in known if name in fault.message and name in sent}
    known -= named
    return f"leaving out {', '.join(sorted(named))}" if named else ""


def _without(schema: Any, keywords: Set[str]) -> Any:
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


# Servers put a chat's messages into the model's template and tokenise the whole. Where a page says "<|im_end|>", its
# text would end there, and what follows would be the next message. So in the JSON of a message the characters that
# control tokens of all known families begin with, or stand around their names, are written as \u escapes: the same
# value in JSON, and no token.
_STRING = re.compile(r'"(?:[^"\\]|\\.)*+"', re.DOTALL)
# <|im_end|> <s> </s> <<SYS>> <think> <start_of_turn> <｜end▁of▁sentence｜> and everything else in angle brackets;
# [INST] [/INST] [TOOL_CALLS] [gMASK] [|user|] [e~[ but neither [1] nor the brackets of JSON; |ENDOFTEXT| |||EMAIL|||
# but not the bar in "Title | Site"; ]~b] ]!p~[; and what Unicode's compatibility forms (NFKC, which some tokenizers
# apply first) make of fullwidth signs.
_TELLING = re.compile(r"[<＜﹤｜［］﹇﹈]|\[(?=[^\W\d]|[/|~!])|\|(?=[^\W\d]|[|/])|\](?=[~!|])")


def without_control_tokens(json_text: str) -> str:
    """Return JSON with the same value, in the strings of which no control token stands."""
    if not _TELLING.search(json_text):
        return json_text
    return _STRING.sub(lambda string: _TELLING.sub(lambda sign: f"\\u{ord(sign[0]):04x}", string[0]), json_text)
