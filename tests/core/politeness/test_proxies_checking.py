"""check_proxies over real proxies."""

import pytest

from llmcrawler.core.politeness.proxies import check_proxies, parse_proxy
from tests.servers.certificates import server_context
from tests.servers.mock_site import MockSite
from tests.servers.proxy_server import FORBIDDEN, ProxyServer, dead_proxy

pytestmark = pytest.mark.server


async def test_each_proxy_is_tried_and_told_without_its_credentials():
    silent = ProxyServer(b"")
    async with (
        MockSite() as site,
        ProxyServer() as good,
        ProxyServer(credentials="me-too:pa55word") as private,
        ProxyServer(FORBIDDEN) as forbidden,
        silent,
    ):
        login = private.url.replace("://", "://me-too:{}@")
        texts = [good.url, login.format("pa55word"), login.format("wr0ng"), forbidden.url, silent.url, dead_proxy()]
        checks = await check_proxies([parse_proxy(text) for text in texts], site.url("/about/"), timeout_seconds=20)
    assert [check.works for check in checks] == [True, True, False, False, False, False]
    assert [check.error for check in checks[2:4]] == ["status 407", "status 403"]
    assert "wr0ng" not in "".join(check.error for check in checks)
    assert (len(good.targets), len(silent.targets)) == (1, 2)


async def test_a_proxy_that_does_not_answer_is_given_up():
    async with MockSite(latency_seconds=60) as site, ProxyServer() as slow:
        (check,) = await check_proxies([parse_proxy(slow.url)], site.url(), timeout_seconds=0.1, attempts=1)
    assert check.error == "no answer within 0.1 s"


async def test_an_https_page_is_asked_for_through_a_tunnel_and_its_certificate_is_checked(tmp_path):
    async with MockSite(tls=server_context(tmp_path)) as site, ProxyServer() as proxy:
        (check,) = await check_proxies([parse_proxy(proxy.url)], site.url("/about/"), attempts=1)
    assert proxy.targets == [site.origin.removeprefix("https://")]
    assert "CERTIFICATE_VERIFY_FAILED" in check.error
