import codecs
import subprocess
import sys

import pytest

from llmcrawler.core.content import decode_page, read_page
from llmcrawler.core.content.decoding import MAX_BYTES, encoding_of

PAGE = "<html><title>Käse</title>"
CYRILLIC = "<p>Привет"


def meta(charset: str, text: str = PAGE) -> str:
    return f"<!doctype html><meta charset={charset}>{text}"


@pytest.mark.parametrize(
    ("body", "content_type", "text"),
    [
        # A byte order mark goes before everything.
        (codecs.BOM_UTF8 + PAGE.encode(), "text/html; charset=windows-1252", PAGE),
        (codecs.BOM_UTF16_LE + PAGE.encode("utf-16-le"), "text/html; charset=utf-8", PAGE),
        (codecs.BOM_UTF16_BE + PAGE.encode("utf-16-be"), None, PAGE),
        # UTF-16 without a mark shows by its zeros.
        (PAGE.encode("utf-16-le"), None, PAGE),
        (PAGE.encode("utf-16-be"), "text/html; charset=utf-16", PAGE),
        (PAGE.encode("utf-16-le"), "text/html; charset=utf-8", PAGE),
        (meta("utf-16").encode("utf-16-be"), "text/html", meta("utf-16")),
        # Then the header, in all its spellings, and by the standard's labels only.
        (PAGE.encode("latin-1"), "text/html; charset=latin1", PAGE),
        (PAGE.encode("latin-1"), 'text/html;CHARSET="ISO-8859-1"', PAGE),
        (PAGE.encode("latin-1"), "text/html; charset='iso-8859-1'", PAGE),
        (PAGE.encode("latin-1"), "text/html; charset = iso-8859-1 ; x=y", PAGE),
        (PAGE.encode("latin-1"), 'text/html; charset="iso-8859-1', PAGE),
        (b"\x80", "text/html; charset=ascii", "€"),
        (b"\x81\xff", "text/html; charset=iso-8859-1", "\x81ÿ"),
        (b"\x80\xff", "text/html; charset=x-user-defined", "€ÿ"),
        (CYRILLIC.encode("cp1251"), "text/html; charset=cp1251", CYRILLIC),
        (CYRILLIC.encode("koi8-r"), "text/html; charset=koi8", CYRILLIC),
        ("日本①".encode("cp932"), "text/html; charset=shift_jis", "日本①"),
        ("똠".encode("cp949"), "text/html; charset=euc-kr", "똠"),
        ("镕".encode("gb18030"), "text/html; charset=gb2312", "镕"),
        ("𠮷".encode("gb18030"), "text/html; charset=gbk", "𠮷"),
        ("中文".encode("big5"), "text/html; charset=big5", "中文"),
        ("日本".encode("iso2022_jp"), "text/html; charset=iso-2022-jp", "日本"),
        ("שלום".encode("iso8859-8"), "text/html; charset=iso-8859-8-i", "שלום"),
        # A label that no browser knows is none.
        (PAGE.encode(), "text/html; charset=punycode", PAGE),
        (PAGE.encode(), "text/html; charset=undefined", PAGE),
        (PAGE.encode(), "text/html; charset=" + "x" * 10_000, PAGE),
        (PAGE.encode(), "text/html; charset=utf-8\x00", PAGE),
        (PAGE.encode(), "text/html; charset=\xfctf-8", PAGE),
        (PAGE.encode(), "charset", PAGE),
        (b"+ADw-b+AD4-", "text/html; charset=utf-7", "+ADw-b+AD4-"),
        (b"~{VPND~}", "text/html; charset=hz-gb-2312", "~{VPND~}"),
        (b"\\u003cb", "text/html; charset=unicode_escape", "\\u003cb"),
        # Then what the page says, of which an unknown label is passed over.
        (meta("latin1").encode("latin-1"), "text/html", meta("latin1")),
        (meta("latin1").encode("latin-1"), "text/html; charset=punycode", meta("latin1")),
        (meta("utf-16").encode(), "text/html", meta("utf-16")),
        (meta("idna", meta("cp1251", CYRILLIC)).encode("cp1251"), None, meta("idna", meta("cp1251", CYRILLIC))),
        # Then the bytes.
        (PAGE.encode(), None, PAGE),
        (PAGE.encode("latin-1"), None, PAGE),
        ((PAGE + "\x00").encode(), None, PAGE + "\x00"),
        (b"", None, ""),
        # Where the header's does not fit and the page's fits better, the page is right.
        (meta("cp1251", CYRILLIC).encode("cp1251"), "text/html; charset=utf-8", meta("cp1251", CYRILLIC)),
        (meta("utf-8", "日本").encode(), "text/html; charset=euc-kr", meta("utf-8", "日本")),
        (meta("latin1").encode(), "text/html; charset=utf-8", meta("latin1")),
        (b"<meta charset=utf-8>\xff\xfe\xff", "text/html; charset=utf-8", "<meta charset=utf-8>\ufffd\ufffd\ufffd"),
    ],
)
def test_a_page_is_read_as_browsers_read_it(body: bytes, content_type: str | None, text: str) -> None:
    assert decode_page(body, content_type) == text


@pytest.mark.parametrize(
    ("head", "encoding"),
    [
        ("<meta charset=koi8-r>", "koi8-r"),
        ("<META name=x CHARSET = 'KOI8-R' />", "koi8-r"),
        ('<meta/charset="koi8-r">', "koi8-r"),
        ('<meta http-equiv="Content-Type" content="text/html; charset=koi8-r">', "koi8-r"),
        ("<meta content='text/html; charset=\"koi8-r\"' http-equiv=content-type>", "koi8-r"),
        ('<meta name=x content="text/html; charset=koi8-r">', "utf-8"),
        ('<meta http-equiv="refresh" content="1; charset=koi8-r">', "utf-8"),
        ("<!-- <meta charset=koi8-r> -->", "utf-8"),
        ("<!--><meta charset=koi8-r>", "koi8-r"),
        ("<p title='<meta charset=koi8-r>'>", "utf-8"),
        ("<metadata charset=koi8-r>", "utf-8"),
        ("<meta charset=koi8-r charset=cp1251>", "koi8-r"),
        ("<meta charset=''><meta charset=koi8-r>", "koi8-r"),
        ("<? <meta charset=koi8-r> ?>", "utf-8"),
        ("<meta charset='koi8-r", "koi8-r"),
        ("<?xml version='1.0' encoding='koi8-r'?>", "koi8-r"),
        ("<?xml version='1.0' encoding=\"koi8-r\"?><meta charset=cp1251>", "cp1251"),
        ("<?xml version='1.0' encoding='punycode'?>", "utf-8"),
        (" <?xml version='1.0' encoding='koi8-r'?>", "utf-8"),
        (" " * 2000 + "<meta charset=koi8-r>", "koi8-r"),
        (" " * 5000 + "<meta charset=koi8-r>", "utf-8"),
    ],
)
def test_a_page_says_its_encoding_where_browsers_look_for_it(head: str, encoding: str) -> None:
    assert encoding_of(head.encode()) == encoding


MARKDOWN = b"""# Guide

A [link](/next "Next") & <more>,
on two lines.

- one
2. two

```sh
# a [comment](c)

make
```

    make install
"""


@pytest.mark.parametrize("content_type", ["text/markdown; charset=utf-8", "Text/Plain"])
def test_plain_text_and_markdown_are_pages(content_type: str) -> None:
    content = read_page(decode_page(MARKDOWN, content_type), "https://a.example/docs/")
    assert content.title == "Guide"
    assert [link.url for link in content.links] == ["https://a.example/next"]
    assert [block.markdown for block in content.blocks] == [
        *("# Guide", "A [link](https://a.example/next) & <more>, on two lines.", "- one", "- two"),
        *("```\n# a [comment](c)\n\nmake\n```", "```\n    make install\n```"),
    ]


def test_html_that_a_server_calls_text_is_html() -> None:
    assert decode_page(b"<!doctype html><p>Lamp", "text/plain") == "<!doctype html><p>Lamp"
    assert decode_page(b"# Lamp", "text/html") == "# Lamp"


def test_a_long_page_is_cut_at_a_whole_letter() -> None:
    text = decode_page(("a" + "ä" * MAX_BYTES).encode())
    assert len(text) == MAX_BYTES // 2
    assert "\ufffd" not in text


_EVERY_CODEC = r"""
from encodings.aliases import aliases
from llmcrawler.core.content import decode_page
names = {*aliases.values(), "idna", "punycode", "undefined", "unicode_escape", "raw_unicode_escape", "palmos", "utf-7"}
for body in (b"a" * 1_200_000, b"-\xff" * 600_000, b"\x1b$" * 600_000, b"\xc3\xbc" * 600_000):
    for name in names:
        decode_page(body, f"text/html; charset={name}")
        decode_page(f"<meta charset={name}>".encode() + body)
"""


@pytest.mark.nightly
@pytest.mark.server
@pytest.mark.slow
def test_no_codec_of_pythons_takes_more_than_linear_time() -> None:
    """All of them take some seconds together; punycode alone took an hour."""
    subprocess.run([sys.executable, "-c", _EVERY_CODEC], check=True, timeout=300)
