"""Turns the bytes of a page into HTML, in the encoding that a browser would choose (encoding.spec.whatwg.org); and
tells by the first of them whether a body is a page: some servers say nothing, or `text/html` of everything.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from functools import cache
from html import escape
from itertools import groupby
from typing import Final

import numpy as np
import webencodings

MAX_BYTES: Final = 6_000_000  # read_page reads no more; so one wide character cannot make 80 MB of a body of 20 MB
_PIECE_BYTES: Final = 1 << 18  # a codec holds the interpreter's lock: 20 ns a byte at worst
_PRESCAN_BYTES: Final = 4096  # 1024 in the standard, whose parser then heeds a later <meta> all the same
_HEAD_BYTES: Final = 1024
_MAX_LABEL_CHARS: Final = 40
_BAD: Final = "\ufffd"
_BOMS: Final = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_UTF_16: Final = frozenset({"utf-16-le", "utf-16-be"})
_OF_SEVERAL_BYTES: Final = _UTF_16 | set("utf-8 big5hkscs cp932 cp949 euc_jp gb18030 iso2022_jp".split())

# Where Python's codec of that name knows fewer letters than the standard's, or there is none.
_CODECS: Final = {"gbk": "gb18030", "x-user-defined": "cp1252"}

_HEADER_CHARSET: Final = re.compile(r"""(?:^|[;,])[ \t]*charset[ \t]*=[ \t]*("(?:[^"\\]|\\.)*|[^;,]*)""", re.IGNORECASE)
_CONTENT_CHARSET: Final = re.compile(rb"""charset\s*=\s*("[^"]*"|'[^']*'|(?!["'])[^\s;]*)""", re.IGNORECASE)
_XML_ENCODING: Final = re.compile(rb"""\A<\?xml(?=\s)[^>]*?\sencoding\s*=\s*(?:"([^">]*)"|'([^'>]*)')""", re.IGNORECASE)
_TAG: Final = re.compile(
    rb"<!--(?:-?>|.*?(?:-->|\Z)) | <(?P<meta>meta)(?=[\s/]) | </?[a-z][^\s>]* | <[!/?][^>]*", re.DOTALL | re.VERBOSE
)
_ATTRIBUTE: Final = re.compile(
    rb"""[\s/]*([^\s/>][^\s/>=]*)(?:\s*=\s*(?:"([^"]*)(?:"|\Z)|'([^']*)(?:'|\Z)|([^\s>]*)))?"""
)


def decode_page(body: bytes, content_type: str | None = None) -> str:
    """Return a page's first 6,000,000 bytes as HTML; `content_type` is the header of that name. Never raises, takes
    time in proportion to the bytes, whatever they are, and lets other threads run.
    """
    return html_of(decode(body, encoding_of(body, content_type)), content_type)


_TEXT_TYPES: Final = ("text/plain", "text/markdown", "text/x-markdown")
_FENCE: Final = re.compile(r"^ {0,3}(?:```|~~~).*$", re.MULTILINE)
_BLANK_LINES: Final = re.compile(r"\n[ \t\n]*\n")
_LINE: Final = re.compile(r"(#{1,6})[ \t]+(.*?)[ \t#]*$|[ ]{0,3}(?:[-*+]|\d{1,9}[.)])[ \t]+(.*)")
_LINK: Final = re.compile(r"\[([^\[\]\n]{1,500})\]\(([^\s()]{1,2000}+)(?:[ \t][^()\n]{0,300})?\)")


def is_text(content_type: str | None) -> bool:
    """Tell whether a header announces plain text or Markdown."""
    return (content_type or "").partition(";")[0].strip().lower() in _TEXT_TYPES


def html_of(text: str, content_type: str | None) -> str:
    """Return plain text and Markdown as HTML: headings, items, paragraphs, links; what is indented or a table stays as
    it is. Anything else is returned unchanged, and so is HTML that a server calls text.
    """
    if not is_text(content_type) or _HTML.match(text):
        return text
    parts = []
    for number, part in enumerate(_FENCE.split(text.replace("\r\n", "\n"))):
        for block in [part] if number % 2 else _BLANK_LINES.split(part):
            if not block.strip():
                continue
            lines = escape(block.strip("\n")).split("\n")
            if number % 2 or all(line.startswith(("    ", "\t", "|")) for line in lines):
                parts.append(f"<pre>{chr(10).join(lines)}</pre>")
                continue
            lines = [_LINK.sub(r'<a href="\2">\1</a>', line) for line in lines]
            for match, group in groupby(lines, _LINE.match):
                if match is None:
                    parts.append(f"<p>{chr(10).join(group)}</p>")
                elif match[1]:
                    parts.append(f"<h{len(match[1])}>{match[2]}</h{len(match[1])}>")
                else:
                    parts.append(f"<li>{match[3]}</li>")
    return f"<html><body>{chr(10).join(parts)}</body></html>"


def decode(body: bytes, encoding: str, max_bytes: int = MAX_BYTES) -> str:
    """Return the text without a byte order mark; U+FFFD for what cannot be read. `encoding_of` gives the encoding."""
    return "".join(pieces(body, encoding, max_bytes))


def pieces(body: bytes, encoding: str, max_bytes: int = MAX_BYTES) -> Iterator[str]:
    """Yield the text that `decode` returns in parts of up to 262,144 characters, for files too large for one string."""
    parts = _pieces(body, encoding, max_bytes)
    yield next(parts, "").removeprefix("\ufeff")
    yield from parts


def encoding_of(body: bytes, content_type: str | None = None) -> str:
    """Return the encoding of a page, as the name of the Python codec.

    A byte order mark says it, else zeros where UTF-16 has them, else the header, else the page itself, else the bytes:
    UTF-8 or, where they are not, windows-1252. Where the header's does not fit, and the page's own fits better, it is
    the page's own. Only the labels of the standard count, so none of Python's other codecs (punycode takes quadratic
    time) is ever asked.
    """
    shown = shown_encoding(body)
    if shown is not None:
        return shown
    header = _HEADER_CHARSET.search(content_type or "")
    named = _of_label(header[1]) if header else None
    if named == "utf-8" and _is_utf_8(body, MAX_BYTES):  # most pages
        return named
    head = body[:_PRESCAN_BYTES].lower()
    declared = (_of_meta(head) if b"charset" in head else None) or _of_xml(head)
    if declared in _UTF_16:  # cannot be true, as the declaration was read as ASCII
        declared = "utf-8"
    if named is None:
        return declared or ("utf-8" if _is_utf_8(body, MAX_BYTES) else "cp1252")
    if declared is None or declared == named:
        return named
    faults = _count_faults(body, named, MAX_BYTES)
    return declared if faults and _count_faults(body, declared, MAX_BYTES) < faults else named


def xml_encoding_of(body: bytes, max_bytes: int = MAX_BYTES) -> str:
    """Return the encoding of an XML file: what it declares, where that is true of its bytes."""
    shown = shown_encoding(body)
    if shown is not None:
        return shown
    declared = _of_xml(body[:_PRESCAN_BYTES].lower())
    # Any bytes are windows-1252, which ASCII is a label of, and hardly any of its texts are UTF-8 too.
    if declared and declared not in ("cp1252", *_UTF_16) and not _count_faults(body, declared, max_bytes):
        return declared
    return "utf-8" if _is_utf_8(body, max_bytes) else "cp1252"


def shown_encoding(body: bytes) -> str | None:
    """Return the encoding that the byte order mark tells, or the zeros of UTF-16 without one."""
    marked = next((encoding for bom, encoding in _BOMS if body.startswith(bom)), None)
    return marked or _unmarked_utf_16(body[:_HEAD_BYTES])


def _of_label(label: str) -> str | None:
    """Return the Python codec for one of the standard's labels; None for any other, and for those (`replacement`) that
    browsers refuse to show: such pages are read as if they had no label, which is harmless here.
    """
    label = label.strip(" \t\n\f\r\"'")
    if len(label) > _MAX_LABEL_CHARS or not label.isascii():
        return None
    found = webencodings.lookup(label)
    if found is None or found.name == "replacement":
        return None
    return _CODECS.get(found.name) or str(found.codec_info.name)


def _of_xml(head: bytes) -> str | None:
    match = _XML_ENCODING.match(head)
    return _of_label((match[1] or match[2] or b"").decode("latin-1")) if match else None


def _of_meta(head: bytes) -> str | None:
    """Follow the standard's "prescan a byte stream to determine its encoding"; `head` is in lower case."""
    position = 0
    while (tag := _TAG.search(head, position)) is not None:
        position = tag.end()
        if tag[0].startswith((b"<!", b"<?")):
            continue
        attributes: dict[bytes, bytes] = {}
        while (one := _ATTRIBUTE.match(head, position)) is not None:
            position = one.end()
            attributes.setdefault(one[1], one[2] or one[3] or one[4] or b"")
        if not tag["meta"]:
            continue
        label = attributes.get(b"charset")
        if label is None and attributes.get(b"http-equiv", b"").strip() == b"content-type":
            match = _CONTENT_CHARSET.search(attributes.get(b"content", b""))
            label = match[1] if match else b""
        if (encoding := _of_label((label or b"").decode("latin-1"))) is not None:
            return encoding
    return None


def _unmarked_utf_16(head: bytes) -> str | None:
    """Recognise UTF-16: every second byte of markup, or of Latin text, is zero, which no other encoding has."""
    pairs = len(head) // 2
    high, low = head[: 2 * pairs : 2].count(0), head[1 : 2 * pairs : 2].count(0)
    if not pairs or 2 * max(high, low) < pairs or 16 * min(high, low) > pairs:
        return None
    return "utf-16-le" if low > high else "utf-16-be"


def _is_utf_8(body: bytes, max_bytes: int) -> bool:
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        for piece, is_last in _bounded(body, max_bytes):
            decoder.decode(piece, is_last)
    except UnicodeDecodeError:
        return False
    return True


def _count_faults(body: bytes, encoding: str, max_bytes: int) -> int:
    return sum(piece.count(_BAD) for piece in _pieces(body, encoding, max_bytes))


def _pieces(body: bytes, encoding: str, max_bytes: int) -> Iterator[str]:
    if encoding in _UTF_16:
        body = _mended_utf_16(body[:max_bytes], encoding)
    if encoding not in _OF_SEVERAL_BYTES:
        for piece, _is_last in _bounded(body, max_bytes):
            yield codecs.charmap_decode(piece, "strict", _letters(encoding))[0]
        return
    decoder = codecs.getincrementaldecoder(encoding)("replace")
    for piece, is_last in _bounded(body, max_bytes):
        try:
            yield decoder.decode(piece, is_last)
        except UnicodeError:  # an escape sequence of ISO-2022-JP that does not end: Python keeps 8 bytes of one
            decoder.reset()
            yield piece.decode(encoding, "replace")


def _bounded(body: bytes, max_bytes: int) -> Iterator[tuple[bytes, bool]]:
    """Yield pieces, and whether the body ends with this one: a letter that the bound cuts is no fault of the page."""
    end = min(len(body), max_bytes)
    for start in range(0, end, _PIECE_BYTES):
        stop = min(start + _PIECE_BYTES, end)
        yield body[start:stop], stop == len(body)


@cache
def _letters(encoding: str) -> str:
    """Return the letters of the 256 bytes. As in the standard, each has one: Python calls a function for every byte
    without, which takes a hundred times as long.
    """
    found = (bytes([byte]).decode(encoding, "replace") for byte in range(256))
    return "".join(chr(byte) if letter == _BAD and 0x80 <= byte < 0xA0 else letter for byte, letter in enumerate(found))


def _mended_utf_16(body: bytes, encoding: str) -> bytes:
    """Put U+FFFD for each half of a surrogate pair without the other: Python would call a function for each of them."""
    units = np.frombuffer(body[: len(body) // 2 * 2], dtype="<u2" if encoding == "utf-16-le" else ">u2")
    high, low = (units & 0xFC00) == 0xD800, (units & 0xFC00) == 0xDC00
    alone = high | low
    paired = high[:-1] & low[1:]
    alone[:-1] &= ~paired
    alone[1:] &= ~paired
    if not alone.any():
        return body
    return np.where(alone, 0xFFFD, units).astype(units.dtype).tobytes() + body[2 * len(units) :]


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
