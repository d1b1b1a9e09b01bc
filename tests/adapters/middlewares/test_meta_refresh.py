"""Which pages are looked through for a <meta http-equiv=refresh>."""

import pytest
from scrapy.http import HtmlResponse

from llmcrawler.engine.responses import may_refresh

REFRESH = '<meta HTTP-EQUIV="Refresh" content="0; url=/there">'


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (REFRESH.encode(), True),
        (REFRESH.encode("utf-16"), True),
        (REFRESH.replace("Refresh", "&#82;efresh").encode(), True),
        (REFRESH.replace("Refresh", "&#82;&#101;&#102;&#114;&#101;&#115;&#104;").encode(), True),
        (b'<meta http-equiv="Content-Type" content="text/html">', False),
        (b"<p>refresh</p>", False),
        (b" " * 20_000 + REFRESH.encode(), False),
    ],
)
def test_only_a_page_that_may_lead_on_is_looked_through(body, expected):
    assert may_refresh(HtmlResponse("http://x.test/", body=body)) is expected
