"""Tells by its first bytes whether a body is a web page: some servers say nothing, or `text/html` of everything."""

from __future__ import annotations

import re
from typing import Final

from .decoding import decode, encoding_of

_HEAD_BYTES: Final = 1024
# The formats that servers send most, after mimesniff.spec.whatwg.org and the magic numbers of the formats.
_MAGIC: Final = re.compile(
    rb"%PDF-|\x89PNG\r\n\x1a\n|GIF8[79]a|\xff\xd8\xff|RIFF.{4}(?:WEBP|WAVE|AVI )|PK(?:\x03\x04|\x05\x06|\x07\x08)"
    rb"|\x1f\x8b\x08|BZh[1-9]1AY|\xfd7zXZ\x00|7z\xbc\xaf\x27\x1c|Rar!\x1a\x07|\x28\xb5\x2f\xfd|\x7fELF|OggS\x00"
    rb"|ID3[\x02-\x04]|\x1a\x45\xdf\xa3|\x00.{3}ftyp|wOF[F2]|\x00\x01\x00\x00|\xd0\xcf\x11\xe0|SQLite format 3\x00",
    re.DOTALL,
)
_CONTROLS: Final = bytes({*range(0x20)} - set(b"\t\n\f\r\x1b"))
_MAX_CONTROLS_SHARE: Final = 0.05  # of random bytes there are twice as many
_HTML: Final = re.compile(
    r"[\s\x00]*<(?:!--|!doctype html|(?:html|head|body|title|meta|script|style|iframe|h1|div|font|table|a|b|p)[\s>/])",
    re.IGNORECASE,
)


def is_binary(body: bytes) -> bool:
    """Tell whether a body is a picture, a document or an archive. UTF-16 is text, and so is a page with stray bytes."""
    head = body[:_HEAD_BYTES]
    if _MAGIC.match(head):
        return True
    if len(head) - len(head.translate(None, _CONTROLS)) <= _MAX_CONTROLS_SHARE * len(head):
        return False
    text = _text_of(head)
    if text.lstrip("\x00 \t\r\n").startswith("<"):
        return False
    return sum(ord(letter) in _CONTROLS for letter in text if letter < " ") > _MAX_CONTROLS_SHARE * len(text)


def looks_like_html(body: bytes) -> bool:
    """Tell whether a browser would take a body without a Content-Type for HTML."""
    head = body[:_HEAD_BYTES]
    return not _MAGIC.match(head) and _HTML.match(_text_of(head)) is not None


def _text_of(head: bytes) -> str:
    return decode(head, encoding_of(head))
