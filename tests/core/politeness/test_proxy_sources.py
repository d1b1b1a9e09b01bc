"""The forms in which proxies are given, and what is said when they are wrong."""

from __future__ import annotations

import pytest

from llmcrawler.core.politeness.proxies import BanRules, is_captcha_page
from llmcrawler.core.politeness.proxy_sources import parse_proxy, read_countries, resolve_proxies
from llmcrawler.errors import ConfigError

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
    assert await loaded({"PROXIES_FILE": path, "PROXY_PROVIDER": "file", "PROXIES": ["c.example:3"]}) == expected
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
        ({"PROXY_PROVIDER": "list"}, "PROXIES is empty"),
        ({"PROXY_PROVIDER": "file"}, "PROXIES_FILE"),
        ({"PROXY_PROVIDER": "environment"}, "HTTP_PROXY"),
        ({"PROXY_PROVIDER": "tor"}, "PROXY_PROVIDER='tor'"),
        ({"PROXY_PROVIDER": "no.such.Class"}, "PROXY_PROVIDER=no.such.Class"),
    ],
)
def test_a_wrong_setting_is_named(settings, named):
    with pytest.raises(ConfigError) as error:
        resolve_proxies(settings, {})
    assert named in str(error.value)


def test_a_country_is_two_letters():
    assert read_countries({"PROXY_COUNTRY": "de, fr"}) == ("DE", "FR")
    with pytest.raises(ConfigError, match="PROXY_COUNTRY: 'Italy' is not a country"):
        read_countries({"PROXY_COUNTRY": "Italy"})


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
