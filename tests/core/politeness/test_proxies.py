"""The pool of proxies: which one takes a request, which is banned or dead, and the check of all."""

from __future__ import annotations

from typing import Any

import pytest

from llmcrawler.core.politeness.proxies import PoolRules, ProxyPool, check_proxies
from llmcrawler.core.politeness.proxy_sources import FixedProxies, parse_proxy
from llmcrawler.errors import NoProxy
from tests.servers.certificates import server_context
from tests.servers.mock_site import MockSite
from tests.servers.proxy_server import FORBIDDEN, ProxyServer, dead_proxy
from tests.virtual_time import Clock


async def pool_of(count=3, clock=None, countries=(), **rules):
    proxies = [
        parse_proxy(f"10.0.0.{number}:80", countries[number - 1] if countries else "*")
        for number in range(1, count + 1)
    ]
    pool = ProxyPool(FixedProxies(proxies), PoolRules(**rules), clock=clock or Clock())
    await pool.open()
    return pool


def label(number: int) -> str:
    return f"http://10.0.0.{number}:80"


async def test_proxies_take_turns():
    pool = await pool_of(3)
    assert [pool.take().label for _ in range(4)] == [label(1), label(2), label(3), label(1)]


async def test_a_request_gets_a_proxy_that_it_has_not_tried():
    pool = await pool_of(3)
    assert pool.take(tried=[label(1), label(2)]).label == label(3)


async def test_a_request_that_was_unlucky_twice_gets_a_proxy_that_works():
    pool = await pool_of(6)
    pool.succeed(label(6))
    assert pool.take(tried=[label(1), label(2)]).label == label(6)


async def test_a_new_proxy_is_tried_by_one_request_at_a_time():
    pool = await pool_of(3)
    pool.succeed(label(3))
    assert [pool.take().label for _ in range(5)] == [label(1), label(2), label(3), label(3), label(3)]
    pool.give_back(label(1))
    assert pool.take().label == label(1)


async def test_a_session_keeps_its_proxy_until_that_fails():
    pool = await pool_of(3)
    first = pool.take(session="example.com").label
    pool.take()
    assert pool.take(session="example.com").label == first
    assert pool.take(session="other.example").label != first
    pool.fail(first, "dead")
    second = pool.take(session="example.com").label
    assert second != first
    assert pool.take(session="example.com").label == second


async def test_a_dead_proxy_that_never_worked_is_dropped_at_once():
    pool = await pool_of(2)
    pool.fail(label(1), "dead")
    assert {pool.take().label for _ in range(3)} == {label(2)}
    assert pool.figures()["dropped/dead"] == 1


async def test_a_proxy_that_worked_rests_ever_longer_and_is_dropped_after_three_faults_in_a_row():
    clock = Clock()
    pool = await pool_of(2, clock, cooldown_seconds=10)
    pool.succeed(label(1))
    for rest in (10, 20):
        pool.fail(label(1), "dead")
        clock.now += rest - 1
        assert pool.take(tried=[label(2)]).label == label(2)
        clock.now += 1
        assert pool.take(tried=[label(2)]).label == label(1)
    pool.fail(label(1), "dead")
    assert pool.figures()["dropped"] == 1


@pytest.mark.parametrize(("pages", "seconds"), [(5, 10), (1, 0)])  # new patience; they were on their way together
async def test_neither_faults_with_pages_between_nor_those_at_once_drop_a_proxy(pages, seconds):
    clock = Clock()
    pool = await pool_of(2, clock, cooldown_seconds=10)
    for number in range(5):
        if number < pages:
            pool.succeed(label(1))
        pool.fail(label(1), "dead")
        clock.now += seconds
    assert pool.figures()["dropped"] == 0


@pytest.mark.parametrize(("kind", "is_page"), [("banned", True), ("timed out", True), ("banned", False)])
async def test_a_proxy_is_convicted_of_what_it_was_suspected_of_when_another_one_gets_the_page(kind, is_page):
    pool = await pool_of(3)
    pool.suspect(label(1), kind)
    assert pool.figures()["dropped"] == 0
    pool.succeed(label(2), suspects=[label(1)], is_page=is_page)
    assert pool.figures()[f"dropped/{kind}"] == 1
    assert pool.is_proven(label(2)) == is_page  # a robots.txt proves nothing


async def test_a_page_that_three_working_proxies_refuse_is_as_it_is_and_none_is_blamed():
    pool = await pool_of(5)
    for number in (1, 2, 3):
        pool.succeed(label(number))
    for _page in range(3):
        suspects: list[Any] = []
        for number in (4, 5, 1, 2):
            assert pool.suspect(label(number), "banned", suspects)
            suspects.append(label(number))
        assert not pool.suspect(label(3), "banned", suspects)
    assert pool.figures()["dropped"] == 0


async def test_no_page_is_asked_for_through_more_than_so_many_proxies():
    pool = await pool_of(20, max_switches=4)
    labels = [label(number) for number in range(1, 4)]
    assert pool.suspect(label(3), "banned", labels[:2])
    assert not pool.suspect(label(4), "banned", labels)


async def test_proxies_that_never_worked_are_not_dropped_over_pages_that_are_forbidden_to_all():
    pool = await pool_of(2)
    pool.succeed(label(1))
    for _page in range(50):
        pool.succeed(label(1))
        suspects = [label(2), label(1), label(2), label(1)]
        for place, suspect in enumerate(suspects):
            pool.suspect(suspect, "banned", suspects[:place])
        assert not pool.suspect(label(1), "banned", suspects)
    assert pool.figures()["dropped"] == 0


async def test_a_site_that_refuses_every_page_uses_the_proxies_up():
    pool = await pool_of(2)
    for _page in range(20):
        for number in (1, 2):
            pool.suspect(label(number), "banned")
    # The last one rests, and would be dropped after two more such runs.
    assert pool.figures()["dropped"] == 1
    assert pool.figures()["resting"] == 1


async def test_the_last_proxy_gets_the_patience_of_one_that_worked():
    clock = Clock()
    pool = await pool_of(1, clock, cooldown_seconds=10)
    pool.fail(label(1), "dead")
    assert pool.take() is None
    assert pool.seconds_to_wait() == 10
    clock.now += 10
    assert pool.take().label == label(1)


async def test_exhaustion_says_what_became_of_them():
    clock = Clock()
    pool = await pool_of(3, clock, max_faults=1)
    pool.fail(label(1), "dead")
    pool.fail(label(2), "dead")
    pool.fail(label(3), "credentials refused")
    with pytest.raises(NoProxy, match=r"3 of 3 dropped \(1 credentials refused, 2 dead\)") as error:
        pool.take()
    assert error.value.is_final


@pytest.mark.parametrize(
    ("there", "asked", "of_the_setting", "taken"),
    [
        (["DE", "FR", "*"], ["DE"], (), {1}),
        (["DE", "FR", "*"], ["IT"], (), {3}),
        (["DE", "FR", "*"], [], (), {3}),
        (["DE", "FR", "*"], [], ("FR",), {2}),
        (["DE", "FR", "*"], ["DE"], ("FR",), {1}),
        (["DE", "FR", "DE"], [], (), {1, 2, 3}),
        (["DE", "FR", "DE"], ["DE"], (), {1, 3}),
    ],
)
async def test_the_country_chooses(there, asked, of_the_setting, taken):
    pool = await pool_of(3, countries=there)
    pool.rules = PoolRules(countries=of_the_setting)
    assert {pool.take(countries=asked).label for _ in range(6)} == {label(number) for number in taken}


async def test_a_country_without_proxies_ends_its_requests_only():
    pool = await pool_of(2, countries=["DE", "FR"])
    with pytest.raises(NoProxy, match="in IT") as error:
        pool.take(countries=["IT"])
    assert not error.value.is_final


async def test_a_country_whose_proxies_are_gone_does_not_fall_back_on_others():
    pool = await pool_of(2, countries=["DE", "*"], max_faults=1)
    pool.fail(label(1), "dead")
    with pytest.raises(NoProxy, match="no proxy is left in DE"):
        pool.take(countries=["DE"])


async def test_a_provider_that_fails_is_asked_once():
    class Broken:
        calls = 0

        async def load(self):
            self.calls += 1
            raise NoProxy("the key is wrong")

    provider = Broken()
    pool = ProxyPool(provider, PoolRules(), clock=Clock())
    for _ in range(2):
        with pytest.raises(NoProxy, match="the key is wrong"):
            await pool.open()
    assert provider.calls == 1


async def test_accounts_name_proxies_of_one_address_without_their_credentials():
    proxies = [parse_proxy(f"http://user{number}:secret@gate.example:80") for number in (1, 2)]
    pool = ProxyPool(FixedProxies(proxies), PoolRules(), clock=Clock())
    await pool.open()
    for _ in range(3):
        pool.take()
    pool.fail("http://gate.example:80 #2", "dead")
    assert pool.accounts() == {
        "http://gate.example:80": "2 requests, 0 pages",
        "http://gate.example:80 #2": "1 requests, 0 pages, 1 dead; dropped: dead",
    }


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
    assert [not check.error for check in checks] == [True, True, False, False, False, False]
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
