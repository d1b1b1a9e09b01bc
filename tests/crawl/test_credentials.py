"""Headers and cookies of the user's own: the forms of their files, and where they go."""

import json

import pytest

from llmcrawler.crawl.arguments import ExploreOptions
from llmcrawler.crawl.credentials import Credentials, read_cookies, read_headers
from llmcrawler.errors import ConfigError

START = ("https://shop.example/start", "http://plain.example:8000/")
NETSCAPE = """# Netscape HTTP Cookie File
# https://curl.se/docs/http-cookies.html

#HttpOnly_.shop.example\tTRUE\t/\tTRUE\t0\tsid\ts3cret
www.other.example\tFALSE\t/\tFALSE\t1999999999\tad\t1
"""
EXPORT = [
    {"domain": "shop.example", "hostOnly": False, "path": "/", "secure": True, "name": "sid", "value": "s3cret"},
    {"domain": "www.other.example", "hostOnly": True, "path": "/", "secure": False, "name": "ad", "value": "1"},
]


def write(path, text):
    path.write_text(text)
    return str(path)


@pytest.mark.parametrize(
    "text", ["Authorization: Bearer a:b\n\nX-Key:  1\nHost: x\n", '{"Authorization": "Bearer a:b", "X-Key": 1}']
)
def test_headers_are_lines_or_json(tmp_path, text):
    assert read_headers(write(tmp_path / "h", text)) == {"Authorization": "Bearer a:b", "X-Key": "1"}


@pytest.mark.parametrize("text", [NETSCAPE, json.dumps(EXPORT), json.dumps({"cookies": EXPORT, "origins": []})])
def test_cookies_are_as_browsers_and_curl_write_them(tmp_path, text):
    cookies = read_cookies(write(tmp_path / "c", text))
    sid = {"name": "sid", "value": "s3cret", "path": "/", "secure": True}
    assert cookies[0] == {**sid, "domain": ".shop.example"}
    given = Credentials({}, cookies, START)
    assert given.cookies_for("https://www.shop.example/a") == [{**sid, "domain": "www.shop.example"}]
    assert given.cookies_for("http://plain.example:8000/") == []


def test_a_cookie_without_a_domain_is_for_all_start_urls(tmp_path):
    (cookie,) = read_cookies(write(tmp_path / "c", '[{"name": "a", "value": "1", "domain": null}]'))
    assert cookie["domain"] == ""


def test_names_and_values_alone_are_for_all_start_urls(tmp_path):
    given = Credentials({}, read_cookies(write(tmp_path / "c", '{"a": 1}')), START)
    assert [one["value"] for one in given.cookies_for("http://plain.example:8000/x")] == ["1"]


@pytest.mark.parametrize(
    ("url", "gets"),
    [
        ("https://shop.example/a", True),
        ("https://www.shop.example:443/a", True),
        ("http://shop.example/a", False),  # without TLS
        ("https://shop.example:8443/", False),
        ("https://cdn.shop.example/", False),
        ("https://shop.example@evil.test/", False),
        ("https://shop.example.evil.test/", False),
        ("http://plain.example:8000/a", True),
        ("http://plain.example/a", False),
    ],
)
def test_only_the_hosts_of_the_start_urls_get_them(url, gets):
    given = Credentials({"X-Key": "1"}, ({"name": "a", "value": "1", "domain": ""},), START)
    assert bool(given.headers_for(url)) is bool(given.cookies_for(url)) is gets


@pytest.mark.parametrize(
    ("argument", "text", "told"),
    [
        ("headers", "s3cret", "has no `Name: value` as header 1"),
        ("headers", "X: 1\nCookie: a=s3cret", "give cookies with -a cookies=FILE"),
        ("headers", '{"X": "s3cret\\r\\nY: 1"}', "header 1"),
        ("headers", '{"X": s3cret}', "line 1 column 7"),
        ("cookies", '[{"name": "a", "value": "s3cret", "domain": null, "path": 1}]', "cookie 1"),
        ("cookies", "a=s3cret", "has no name and value as cookie 1: it is cookies.txt or JSON"),
        ("cookies", '[{"name": "a", "value": "s3cret; Domain=example"}]', "cookie 1"),
        ("cookies", None, "cannot be read: No such file"),
    ],
)
def test_a_wrong_file_is_named_without_what_stands_in_it(tmp_path, argument, text, told):
    file = tmp_path / "file"
    if text is not None:
        file.write_text(text)
    with pytest.raises(ConfigError) as refused:
        ExploreOptions.of({"url": "https://shop.example", argument: str(file)})
    assert told in str(refused.value)
    assert str(refused.value).startswith(f"{argument}='{file}'")
    assert "s3cret" not in str(refused.value)


def test_what_is_read_is_not_shown(tmp_path):
    options = ExploreOptions.of({"url": "https://shop.example", "headers": write(tmp_path / "h", "X-Key: s3cret")})
    assert options.headers == {"X-Key": "s3cret"}
    assert "s3cret" not in f"{options!r} {options.identity()} {options.given}"
