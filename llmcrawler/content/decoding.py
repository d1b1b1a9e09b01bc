"""From bytes to text where the headers lie."""

from __future__ import annotations

from w3lib.encoding import html_body_declared_encoding, resolve_encoding

_BAD = "\ufffd"


def decoded(body: bytes, text: str) -> str:
    """`text` is the body as its HTTP header has it. Where that does not fit, the encoding that the page itself declares
    is tried, as browsers' users are used to see such pages.
    """
    if _BAD not in text:
        return text
    declared = html_body_declared_encoding(body)
    encoding = resolve_encoding(declared) if declared else None
    if encoding is None:
        return text
    other = body.decode(encoding, "replace")
    return other if other.count(_BAD) < text.count(_BAD) else text
