"""Estimates the tokens of a text, near enough to fill batches and to keep to a budget; and removes from page text what
a model's tokenizer could take for one of its own control tokens.

Servers put a chat's messages into the model's template and tokenise the whole. Where a page says "<|im_end|>", its text
would end there, and what follows would be the next message. So in the JSON of a message the characters that control
tokens of all known families begin with, or stand around their names, are written as \\u escapes: the same value in
JSON, and no token.
"""

from __future__ import annotations

import re

BYTES_PER_TOKEN = 4


def estimate_tokens(text: str) -> int:
    """Estimate the tokens of `text`: one for four bytes of UTF-8, rounded up.

    OpenAI gives four characters of English a token ("What are tokens and how to count them", OpenAI help centre).
    Their byte-pair encodings work on bytes, so bytes keep the rule near for other scripts too, where a character
    costs more: Cyrillic half a token, Chinese three quarters.
    """
    size_bytes = len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
    return -(-size_bytes // BYTES_PER_TOKEN)


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
    return _STRING.sub(lambda string: _TELLING.sub(_escaped, string[0]), json_text)


def _escaped(sign: re.Match[str]) -> str:
    return f"\\u{ord(sign[0]):04x}"
