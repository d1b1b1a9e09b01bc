"""The forms in which proxies are given, and what is said when they are wrong."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from llmcrawler.core.politeness import proxy_sources as services
from llmcrawler.core.politeness.proxies import BanRules, is_captcha_page
from llmcrawler.core.politeness.proxy_sources import parse_proxy, resolve_proxies
from llmcrawler.errors import ConfigError, NoProxy

CAPTCHA = "<title>{}</title><body><p>Please go on.</p></body>"


@pytest.mark.parametrize(
    ("text", "address", "login"),
    [
        ("http://1.2.3.4:8080", "http://1.2.3.4:8080", ("", "")),
        ("1.2.3.4:8080", "http://1.2.3.4:8080", ("", "")),
        ("HTTP://Gate.Example:443/", "http://gate.example:443", ("", "")),
        ("http://me:p%40ss%3A1@gate.example:80", "http://gate.example:80", ("me", "p@ss:1")),
        ("me:a@b@gate.example:80", "http://gate.example:80", ("me", "a@b")),
        ("gate.example:80:me:pass_country-de:x", "http://gate.example:80", ("me", "pass_country-de:x")),
        ("[::1]:3128", "http://[::1]:3128", ("", "")),
        ("[2001:db8::1]:80:me:pw", "http://[2001:db8::1]:80", ("me", "pw")),
    ],
)
def test_a_proxy_is_read(text, address, login):
    proxy = parse_proxy(text)
    assert (proxy.address, (proxy.username, proxy.password)) == (address, login)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "gate.example",
        "gate.example:http",
        "gate.example:0",
        "gate.example:70000",
        "socks5://gate.example:1080",
        "https://gate.example:443",
    ],
)
def test_what_is_no_proxy_is_told_with_the_cure(text):
    with pytest.raises(ConfigError, match="host:port"):
        parse_proxy(text)


@pytest.mark.parametrize("text", ["me:secret@gate.example", "me:secret:gate.example:80", "http://me:secret@:80"])
def test_a_wrong_proxy_is_told_without_its_password(text):
    with pytest.raises(ConfigError) as error:
        parse_proxy(text)
    assert "secret" not in str(error.value)


def test_no_form_of_a_proxy_shows_its_credentials():
    proxy = parse_proxy("http://me:s%2Fcret@gate.example:80")
    assert "cret" not in f"{proxy} {proxy!r}"
    assert "me" not in repr(proxy).replace("scheme", "")
    assert "cret" not in proxy.hide(f"me:s/cret s%2Fcret {proxy.authorization.decode()}")
    assert "bWU6" not in proxy.hide(proxy.authorization.decode())


async def loaded(settings, environ=None):
    provider = resolve_proxies(settings, environ or {})
    return None if provider is None else [(one.address, one.country) for one in await provider.load()]


@pytest.mark.parametrize(
    ("value", "proxies"),
    [
        (["a.example:1", "http://b.example:2"], [("http://a.example:1", "*"), ("http://b.example:2", "*")]),
        ("a.example:1, b.example:2", [("http://a.example:1", "*"), ("http://b.example:2", "*")]),
        ('["a.example:1"]', [("http://a.example:1", "*")]),
        ("[::1]:80,[::2]:80", [("http://[::1]:80", "*"), ("http://[::2]:80", "*")]),
        ({"de": ["a.example:1"], "*": ["b.example:2"]}, [("http://a.example:1", "DE"), ("http://b.example:2", "*")]),
        ('{"FR": "a.example:1 b.example:2"}', [("http://a.example:1", "FR"), ("http://b.example:2", "FR")]),
        ("a.example:1,a.example:1", [("http://a.example:1", "*")]),
        ([], None),
        ("", None),
    ],
)
async def test_the_setting_is_a_list_a_dict_or_a_text(value, proxies):
    assert await loaded({"PROXIES": value}) == proxies


async def test_a_file_has_one_proxy_a_line(tmp_path):
    path = tmp_path / "proxies.txt"
    path.write_text("# mine\n\na.example:1:me:pw\nhttp://b.example:2 de  # fast\n", encoding="utf-8-sig")
    expected = [("http://a.example:1", "*"), ("http://b.example:2", "DE")]
    assert await loaded({"PROXIES_FILE": str(path)}) == expected
    assert len(await loaded({"PROXIES_FILE": path, "PROXIES": ["c.example:3"]})) == 3


async def test_a_file_may_be_json(tmp_path):
    path = tmp_path / "proxies.json"
    path.write_text('{"US": ["a.example:1"]}')
    assert await loaded({"PROXIES_FILE": path}) == [("http://a.example:1", "US")]


@pytest.mark.parametrize(
    ("environ", "proxies"),
    [
        ({"PROXIES": "a.example:1 b.example:2"}, [("http://a.example:1", "*"), ("http://b.example:2", "*")]),
        ({"https_proxy": "http://a.example:1", "HTTP_PROXY": "http://a.example:1"}, [("http://a.example:1", "*")]),
    ],
)
async def test_the_environment_is_a_provider(environ, proxies):
    assert await loaded({"PROXY_PROVIDER": "environment"}, environ) == proxies


class Own:
    async def load(self):
        return [parse_proxy("own.example:1")]


async def test_a_class_of_ones_own_is_a_provider():
    assert await loaded({"PROXY_PROVIDER": f"{__name__}.Own"}) == [("http://own.example:1", "*")]


async def test_none_turns_them_off():
    assert await loaded({"PROXIES": ["a.example:1"], "PROXY_PROVIDER": "none"}) is None


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"PROXIES": ["a.example:1", "nonsense"]}, "PROXIES, entry 2"),
        ({"PROXIES": {"Germany": ["a.example:1"]}}, "'Germany' is not a country"),
        ({"PROXIES": {"DE": 7}}, "PROXIES, DE"),
        ({"PROXIES": 7}, "PROXIES is a int"),
        ({"PROXIES": "{not json"}, "PROXIES is not JSON"),
        ({"PROXIES_FILE": "no/such/file"}, "PROXIES_FILE=no/such/file"),
        ({"PROXY_PROVIDER": "environment"}, "HTTP_PROXY"),
        ({"PROXY_PROVIDER": "file"}, "PROXY_PROVIDER='file'"),
        ({"PROXY_PROVIDER": "no.such.Class"}, "PROXY_PROVIDER=no.such.Class"),
        ({"PROXY_PROVIDER": "webshare"}, "PROXY_WEBSHARE_KEY"),
        ({"PROXY_PROVIDER": "iproyal", "PROXY_IPROYAL_KEY": "k"}, "PROXY_IPROYAL_LOGIN"),
        ({"PROXY_PROVIDER": "webshare", "PROXY_WEBSHARE_KEY": "k", "PROXY_COUNTRY": "Italy"}, "PROXY_COUNTRY"),
    ],
)
def test_a_wrong_setting_is_named(settings, named):
    with pytest.raises(ConfigError) as error:
        resolve_proxies(settings, {})
    assert named in str(error.value)


@pytest.mark.parametrize(
    ("status", "location", "reason"),
    [
        (200, "", None),
        (404, "", None),
        (403, "", "status 403"),
        (407, "", "status 407"),
        (302, "/next/", None),
        (302, "https://example.com/captcha?from=/x", "a redirect to a captcha"),
    ],
)
def test_statuses_and_redirects_that_are_bans(status, location, reason):
    assert BanRules().of_status(status, location) == reason


@pytest.mark.parametrize(
    ("html", "is_ban"),
    [
        (CAPTCHA.format("Are you a robot?"), True),
        (CAPTCHA.format("Just a moment..."), True),
        (CAPTCHA.format("Captcha"), True),
        ("<h1>Please verify you are human</h1><script>var words = '" + "a b " * 500 + "'</script>", True),
        ('<title>shop.example</title><script>var dd={"host":"geo.captcha-delivery.com/captcha/"}</script>', True),
        ("<body>Please solve the captcha below.<form><input name=answer></form></body>", True),
        (CAPTCHA.format("Contact us"), False),
        ("<p>" + "<a href=/x>x</a>" * 8 + "<form>Your name, your message, the captcha</form>", False),
        ("<body><script>load('captcha.js')</script><p>Hello.</p></body>", False),
        ("<title>How a CAPTCHA works</title>" + "<p>words of an article</p>" * 100, False),
        ("<title>Contact</title><form><div class='g-recaptcha'></div></form>", False),
        ("<h1>" * 25_000, False),
        ("captcha<h1 " * 9_000, False),
        ("<title>captcha</title>" + "<script" * 14_000, True),
        ("", False),
    ],
)
def test_pages_that_are_bans(html, is_ban):
    assert is_captcha_page(html) == is_ban


pytestmark = pytest.mark.server


KEY = "key-of-mine-123"


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch):
    monkeypatch.setattr(services, "_PAUSE_SECONDS", 0.0)


@asynccontextmanager
async def api(method, path, handler):
    connections = []

    @web.middleware
    async def noting(request, handler):
        connections.append(request.transport)
        return await handler(request)

    app = web.Application(middlewares=[noting])
    app.router.add_route(method, path, handler)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.01)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()
        for connection in connections:  # of one whose client has left in the middle of an answer
            if connection is not None:
                connection.abort()
        await asyncio.sleep(0)


PATHS = {
    "webshare": ("GET", "/api/v2/proxy/list/"),
    "iproyal": ("POST", "/v1/access/generate-proxy-list"),
    "proxyscrape": ("GET", "/v2/account/datacenter_shared/proxy-list"),
}


async def load(service, handler, **settings):
    method, where = PATHS[service]
    async with api(method, where, handler) as url:
        login = "me:password-7"
        given = {"PROXY_PROVIDER": service, "PROXY_API_URL": url, "PROXY_IPROYAL_LOGIN": login, **settings}
        return await resolve_proxies(given, {f"PROXY_{service.upper()}_KEY": KEY}).load()


def told(proxies):
    return [(proxy.address, proxy.username, proxy.password, proxy.country) for proxy in proxies]


async def webshare(request):
    if request.headers.get("Authorization") != f"Token {KEY}":
        return web.json_response({"detail": "Invalid token."}, status=401)
    assert request.query["mode"] == "direct"
    numbers = {"1": (1, 2), "2": (3, 4)}[request.query["page"]]
    entries = [
        {
            "id": f"d-{number}",
            "username": "me",
            "password": f"p:w{number}",
            "proxy_address": f"10.0.0.{number}",
            "port": 8000 + number,
            "valid": number != 4,
            "country_code": ["US", "DE", None, "FR"][number - 1],
        }
        for number in numbers
    ]
    # A link elsewhere, which must not get the key.
    following = "http://192.0.2.1/next" if request.query["page"] == "1" else None
    return web.json_response({"count": 4, "next": following, "previous": None, "results": entries})


async def test_webshare_gives_all_pages_of_the_plan():
    assert told(await load("webshare", webshare)) == [
        ("http://10.0.0.1:8001", "me", "p:w1", "US"),
        ("http://10.0.0.2:8002", "me", "p:w2", "DE"),
        ("http://10.0.0.3:8003", "me", "p:w3", "*"),
    ]


async def test_webshare_is_asked_for_the_countries():
    asked = []

    async def note(request):
        asked.append(request.query.get("country_code__in"))
        return web.json_response({"next": None, "results": []})

    await load("webshare", note, PROXY_COUNTRY="de,fr")
    assert asked == ["DE,FR"]


async def iproyal(request):
    if request.headers.get("Authorization") != f"Bearer {KEY}":
        return web.json_response({"message": "Unauthenticated."}, status=401)
    body = await request.json()
    assert (body["username"], body["password"]) == ("me", "pw")
    assert body["format"] == "{hostname}:{port}:{username}:{password}"
    where = body.get("location", "")
    return web.json_response(
        [
            f"{body['hostname']}:12321:me:pw{where}_session-{number}_lifetime-{body['lifetime']}"
            for number in range(body["proxy_count"])
        ]
    )


async def test_iproyal_makes_up_as_many_logins_as_asked_for_in_each_country():
    proxies = told(await load("iproyal", iproyal, PROXY_IPROYAL_LOGIN="me:pw", PROXY_COUNTRY="DE FR", PROXY_COUNT="2"))
    assert proxies[0] == ("http://geo.iproyal.com:12321", "me", "pw_country-de_session-0_lifetime-30m", "DE")
    assert [country for *_rest, country in proxies] == ["DE", "DE", "FR", "FR"]


async def test_proxyscrape_gives_the_proxies_of_an_account():
    async def account(request):
        assert (request.query["auth"], request.query["country[]"]) == (KEY, "de")
        return web.Response(text="10.0.0.1:3128\r\n10.0.0.2:3129\r\n")

    proxies = told(await load("proxyscrape", account, PROXY_COUNTRY="DE"))
    assert proxies == [("http://10.0.0.1:3128", "", "", "DE"), ("http://10.0.0.2:3129", "", "", "DE")]


@pytest.mark.parametrize("service", PATHS)
@pytest.mark.parametrize(
    ("status", "body", "message"),
    [
        (401, f"bad key {KEY}", "refuses the key (status 401): see PROXY_{}_KEY"),
        (403, f"bad key {KEY}", "refuses the key (status 403): see PROXY_{}_KEY"),
        (404, "gone", "API answers with status 404"),
        (500, "oops", "API answers with status 500, 3 times"),
        (429, "slower", "API answers with status 429, 3 times"),
        (200, f"<html>no list for {KEY}</html>", "API"),
        (200, json.dumps({"error": KEY}), "API"),
    ],
)
async def test_an_api_that_fails_is_told_without_the_key(service, status, body, message, caplog):
    async def fail(_request):
        return web.Response(status=status, text=body)

    caplog.set_level(logging.INFO)
    with pytest.raises(NoProxy) as error:
        await load(service, fail)
    assert message.format(service.upper()) in str(error.value)
    assert KEY not in str(error.value) + caplog.text


async def test_an_api_that_is_busy_once_is_asked_again():
    tries = []

    async def busy(request):
        tries.append(1)
        return await webshare(request) if len(tries) > 1 else web.Response(status=503)

    assert len(await load("webshare", busy)) == 3


async def test_an_api_that_is_not_there_is_told():
    settings = {"PROXY_PROVIDER": "proxyscrape", "PROXY_API_URL": "http://127.0.0.1:9"}
    with pytest.raises(NoProxy, match="cannot be reached"):
        await resolve_proxies(settings, {"PROXY_PROXYSCRAPE_KEY": KEY}).load()


HOSTILE = {
    "nested": b"[" * 500_000 + b"]" * 500_000,
    "nested a little too deep": b"[" * 990 + b"]" * 990,
    "nested entries": b'{"results": [{"proxy_address": ' + b"[" * 900 + b"]" * 900 + b', "port": 1}]}',
    "entries of anything": b'{"results": [1, null, {"proxy_address": {"a": 1}, "port": [1]}]}',
    "a port that is none": b'{"results": [{"proxy_address": "a.b", "port": "many"}]}',
    "a long port": b'{"results": [{"proxy_address": "a", "port": "%s"}], "proxies": []}' % (b"9" * 5_000),
    "a host that is a path": b'{"results": [{"proxy_address": "a/../b c", "port": 1}]}',
    "a million lines": b"10.0.0.1:80\n" * 1_000_000,
    "thirty thousand lines": b"10.0.0.1:80\n" * 30_000,
    "many values": b'{"results": [' + b"[]," * 1_000_000 + b"0]}",
    "garbage": bytes(range(256)) * 100,
    "one long line": b"a" * 1_000_000,
}


@pytest.mark.slow
@pytest.mark.parametrize("service", PATHS)
@pytest.mark.parametrize("body", HOSTILE.values(), ids=HOSTILE)
async def test_whatever_a_service_sends_is_an_error_that_names_it(service, body):
    async def answer(_request):
        return web.Response(body=body, content_type="text/html", charset="punycode")

    with pytest.raises(NoProxy) as error:
        await load(service, answer)
    assert "API returned" in str(error.value) or "did not return JSON" in str(error.value)
    assert len(str(error.value)) < 200


@pytest.mark.parametrize("service", PATHS)
async def test_an_answer_of_a_service_is_bounded_and_no_redirect_is_followed(service):
    followed = []

    async def elsewhere(request):
        followed.append(request)

    async def endless(request):
        response = web.StreamResponse()
        await response.prepare(request)
        with contextlib.suppress(ConnectionError):
            for _ in range(3_200):
                await response.write(b"a" * 65_536)
        return response

    async def moved(_request):
        raise web.HTTPTemporaryRedirect(f"{url}/elsewhere")

    async with api("*", "/elsewhere", elsewhere) as url:
        for handler, said in ((endless, "more than 8,388,608 bytes"), (moved, "status 307")):
            with pytest.raises(NoProxy, match=said):
                await load(service, handler)
    assert not followed


async def test_half_a_surrogate_pair_in_a_login_can_be_sent_and_hidden():
    async def entry(_request):
        one = {"proxy_address": "10.0.0.1", "port": 80, "username": "me\ud800", "password": "p\udfff"}
        return web.json_response({"next": None, "results": [one]})

    (proxy,) = await load("webshare", entry)
    assert proxy.authorization
    assert proxy.hide("p? said") == "*** said"
