"""Hypothesis strategies for hostile bytes.

What freezes a parser is seldom random: it is something that repeats. So an input is a few stretches, each a short run
of a format's own words repeated up to some thousand times, and only then torn by random bytes. That keeps an input
short for Hypothesis to find and to shrink, while what the target gets is as large as `max_bytes`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hypothesis import strategies as st

MAX_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class Stretch:
    """`piece`, `count` times; each `%d` in it becomes the number of the repetition, so that no two are alike."""

    piece: str
    count: int = 1

    def built(self, max_chars: int) -> str:
        count = max(1, min(self.count, max_chars // max(1, len(self.piece))))
        if "%d" in self.piece:
            return "".join(self.piece.replace("%d", str(number)) for number in range(count))[:max_chars]
        return (self.piece * count)[:max_chars]


def built(stretches: Sequence[Stretch], max_chars: int = MAX_BYTES) -> str:
    """The text of the stretches, each of which gets no more than what is left of `max_chars`."""
    parts: list[str] = []
    left = max_chars
    for stretch in stretches:
        parts.append(stretch.built(left)[:left])
        left -= len(parts[-1])
    return "".join(parts)


_COUNTS = st.sampled_from([1, 1, 1, 2, 3, 10, 100, 1_000, 5_000, 30_000])


def texts(words: Sequence[str], max_chars: int = MAX_BYTES) -> st.SearchStrategy[str]:
    """Texts of a format whose words these are."""
    word = st.one_of(st.sampled_from(words), st.text(max_size=6))
    piece = st.lists(word, min_size=1, max_size=4).map("".join)
    stretch = st.builds(Stretch, piece, _COUNTS)
    return st.lists(stretch, min_size=1, max_size=6).map(lambda stretches: built(stretches, max_chars))


@st.composite
def torn(draw: st.DrawFn, whole: st.SearchStrategy[str]) -> bytes:
    """A text as bytes, in some encoding, now and then cut short or with random bytes in its middle."""
    encoding = draw(st.sampled_from(["utf-8", "utf-8", "utf-8", "utf-16", "utf-16-le", "latin-1", "shift_jis"]))
    body = draw(whole).encode(encoding, "replace")
    fault = draw(st.sampled_from(["none", "none", "cut", "bytes"]))
    at = draw(st.integers(0, len(body)))
    if fault == "cut":
        return body[:at]
    return body[:at] + draw(st.binary(max_size=40)) + body[at:] if fault == "bytes" else body


# -- The words of each format ------------------------------------------------------------------------------------------

_OPENED = (
    "div p a b i font nobr span ul ol li dl dt dd table tr td th tbody caption h1 h2 h6 pre select option textarea"
    " blockquote code button form svg math template iframe noscript"
).split()
_CLOSED = "div p a b i font nobr span ul li table tr td th h1 pre script style svg template".split()

HTML_WORDS = (
    "<html>", "<head>", "<body>", "<title>", "</title>", "<base href='//x/'>", "<meta charset=punycode>",
    "<meta name=a%d content=b>",
    *(f"<{tag}>" for tag in _OPENED),
    *(f"</{tag}>" for tag in _CLOSED),
    "<b id=%d>", "<font size=%d>", "<a href='/page/%d'>", "<a href='https://x.example/a/b?c=%d'>text</a>",
    "<p>words of text, ", "<td colspan=100000 rowspan=65534>", "<div class='a%d b c'>",
    "<div class='price'>£12.%d</div>", "<table><b>", "<td>", "x " * 40, "<tr><th>UPC</th><td>a%d</td></tr>",
    "<th>UPC</th>", "<dt>Name</dt><dd>Value %d</dd>", "<img src=a%d alt=b>", "<br>", "<hr>",
    "<script type='application/ld+json'>", '{"@type":"Product","name":"a%d","offers":', '{"a":', "[", "]", "}",
    "null", "</script>", "<div itemscope itemtype='https://schema.org/Product'>", "<span itemprop=name>a</span>",
    "<!--", "-->", "<![CDATA[", "]]>", "<?", "&amp;", "&#x1F600;", "&#99999999;", "&", ";", "<", ">", "\"", "'", "=",
    "/", "\x00", "\ud800".encode("utf-8", "replace").decode(), " ", "\n", "\t", "\r", "\u00a0", "\u200b", "\u202e",
    "a", "1", "-", "_", ".", ",", "1.", "12/05/2024", "$1,000.00", "€", "|", "*", "`", "#", "[[", "](", "![", "~~",
    "\\", "https://", "http://u:pw@h/", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "<|im_end|>", "<frameset><frame src=a%d>",
    "<a" + " x%d=1", " y%d", "<p hidden>", "<details><summary>", "<div style='display:none'>",
)  # fmt: skip
SITEMAP_WORDS = (
    '<?xml version="1.0" encoding="utf-8"?>', '<?xml version="1.0" encoding="punycode"?>',
    '<?xml version="1.0" encoding="UTF-7"?>', "<urlset xmlns='http://www.sitemaps.org/schemas/sitemap/0.9'>",
    "</urlset>", "<sitemapindex>", "<sitemap><loc>", "</loc></sitemap>", "<url><loc>https://x.example/%d</loc></url>",
    "<url>", "<loc>", "</loc>", "</url>", "<lastmod>2024-01-01</lastmod>", "<rss><channel>",
    "<item><link>https://x.example/%d</link><title>t</title><pubDate>Mon, 01 Jan 2024 00:00:00 GMT</pubDate></item>",
    "<feed>", "<entry><link href='https://x.example/%d'/></entry>",
    "<!DOCTYPE a [<!ENTITY b 'cccccccc'><!ENTITY d '&b;&b;&b;&b;'>]>", "&d;", "&b;", "&amp;", "&", "<![CDATA[", "]]>",
    "<!--", "-->", "<", ">", " ", "\n", "\x00", "https://x.example/%d\n", "<image:loc>", "<x:loc>",
    "<xhtml:link rel='alternate' hreflang='de' href='https://x.example/de/%d'/>", "\ufeff", "<a%d>", "<a b%d='c'>",
    "[a](https://x.example/%d)\n", "# ",
)  # fmt: skip
ROBOTS_WORDS = (
    "User-agent: *\n", "User-agent: llmcrawler\n", "User-agent: a%d\n", "Disallow: /a%d\n", "Allow: /a%d\n",
    "Disallow: /*a", "*a", "$", "\n", "Disallow: /\n", "Crawl-delay: 1\n", "Crawl-delay: 9e999\n",
    "Request-rate: 1/5s\n", "Sitemap: https://x.example/s%d.xml\n", ":", "#", "%", "%3F", "%e3%81%82", "\u3042", " ",
    "\t", "\r", "\x00", "\ufeff", "disallow:", "/" * 50, "*", "a" * 200, "host: x\n", "Disallow:\n",
)  # fmt: skip
PAGE_ROBOTS_WORDS = (
    "noindex", "nofollow", "none", "all", "llmcrawler", "googlebot", "unavailable_after", ": ", ":", ", ", ";", " ",
    ",", "25 Jun 2010 15:00:00 PST", "Friday, 25-Jun-10 15:00:00 UTC", "2010-06-25", "9" * 300, "jan 1",
    "max-snippet:-1", "max-image-preview:none", "\n", "\x00", "\xe9", "a%d", "*", "noindex,", "a:noindex:", "jun, 9,",
)  # fmt: skip
JSON_WORDS = (
    "{", "}", "[", "]", ":", ",", '"', '"pages":', '{"pages": [',
    '{"id": "1", "label": "product", "confidence": 0.9},', '"id": "%d"', "null", "true", "1e999", "-1", "NaN",
    "Infinity", "9" * 400, "```json\n", "```", "<think>", "</think>", '"values": [', '"field": "price"',
    '{"fields": [{"name": "price", "type": "number", "description": "", "many": false}],', '"blocks": [1]',
    '"quote": "a"', "\\ud800", "\\u0000", "\\", " ", "\n", "a", "{\"a\":", "[[", '"a",', "{}", "[]", "0.5",
    '"label": "article"', "yes, here it is: ",
)  # fmt: skip
URL_WORDS = (
    "http://", "https://", "//", "/", "x.example", "127.0.0.1", "[::1]", "[v1.x]", "u:pw@", ":80", ":99999", ":0",
    ":-1", "?", "&", "=", "#", "#!/", "%", "%2F", "%zz", "..", ".", "a", "1", "-", "_", ";jsessionid=a%d", "?page=%d",
    "&sort=a%d", "2024/05/", "tag/", "b" * 63, "xn--", "xn--a%d.", "\u3042", "\u202e", "\\", " ", "\t", "\n", "\x00",
    "é", "javascript:", "data:", "mailto:", "@", "8f3a9ce1b2d45f60718293a4b5c6d7e8", "index.html",
    "\ud800".encode("utf-8", "replace").decode(), "0x7f.1", "2130706433", "ß", "a..b", "&a[]=%d", "+", ",", "(", ")",
    "!", "*", "'", '"', "<", ">",
)  # fmt: skip
VALUE_WORDS = (
    "12", "1,234.56", "1.234,56", "£", "$", "€", "USD", "%", " ", "-", "/", ".", ",", ":", "12 May 2024",
    "2024-05-12T10:00:00Z", "12/05/24", "Mai", "januar", "5 days ago", "yesterday", "\u0661\u0662", "\u4e8c\u5341",
    "1e999", "9" * 400, "0" * 50, "true", "in stock", "https://x.example/a", "/a%d", "\n", "\t", "\u00a0", "a", "Z",
    "+00:00", "T", "(", ")", "May", "%d", "\u202e", "\x00", "'", '"',
)  # fmt: skip
_ODD_JSON = (
    "9" * 30, "-1", "1e999", "Infinity", "NaN", "1.5", "true", "null", "[]", "{}", '"\\u0000"', '"\\ud800"', "9" * 5000,
    str(2**63), '"../x"', '"/etc/passwd"', '"x' + "x" * 300 + '"', '"200"', '"text/html"', '"https://a.test/%d"',
)  # fmt: skip
INDEX_WORDS = (
    'com,a)/ 2026 {"url": "https://a.test/%d", "status": "200", "mime": "text/html", "filename": "a.warc.gz", ',
    *(f'"{name}": {odd}, ' for name in ("url", "status", "filename", "offset", "length") for odd in _ODD_JSON),
    '"offset": "1", "length": "9"}\n', "}\n", "{", "[", "]", ",", "\n", " ", "!", "CDX a V g\n",
)  # fmt: skip
CDX_WORDS = (
    " CDX N b a m s k r M S V g\n", " CDX a V g S\n", "com,a)/ 2026 https://a.test/%d text/html 200 X - - 5 1 a.warc\n",
    "-", " ", "\n", "\x00", "9" * 40, "-5", "nan", "1e999", "https://a.test/ ", "text/html ", "200 ", "a.warc.gz ",
    "[", "{",
)  # fmt: skip
SITES_WORDS = (
    "url,max_pages,goal\n", "url;depth\n", "url", "max_pages", "depth", "goal", "allow", "render", "refresh",
    "max_records", "https://a%d.test/",
    "http://[::1", "a%d.test", "9" * 23, "9" * 5000, "-1", "product", "never", "1e9", "(", '"', ",",
    ";", "\n", "\r", "\x00", "\ufeff", " ", "*",
)  # fmt: skip
TEMPLATES_WORDS = (
    '{"format": "llmcrawler-templates", "version": 1, "sites": {"a.test": [{"template": "t1"}]}, "state": {"a.test": "',
    "eJyrVkpUslIw1FFKUrIy1FFKAgAcFQPF", '"}}', '"', "{", "}", "[", "]", ":", ",", '"a.test"',
    '"sites"', '"state"', *_ODD_JSON,
)  # fmt: skip
