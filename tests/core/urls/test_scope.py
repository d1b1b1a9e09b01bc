import pytest

from llmcrawler.core.urls import Scope
from llmcrawler.errors import ConfigError

START = "http://www.shop.example/"


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        (START, None),
        ("https://shop.example/a", None),
        ("http://www.shop.example/a.html", None),
        ("http://blog.shop.example/", "offsite: blog.shop.example"),
        ("http://shop.example:8080/", "offsite: shop.example:8080"),
        ("http://other.example/", "offsite: other.example"),
        ("http://notshop.example/", "offsite: notshop.example"),
        ("http://shop.example/a.PDF", "no page: .pdf"),
        ("http://shop.example/a.jpg?size=2", "no page: .jpg"),
        ("http://shop.example/?file=a.jpg", None),
        ("http://shop.example/a.tar.gz", "no page: .gz"),
        ("http://shop.example/v1.zip/readme", None),
        ("http://shop.example/a.php", None),
        ("http://shop.example/" + "a" * 2083, "too long: 2103 characters"),
    ],
)
def test_the_start_site_and_its_pages_are_in_scope(url, reason):
    assert Scope([START]).reason_to_refuse(url, 1) == reason


def test_deny_wins_over_allow():
    scope = Scope([START], allow=["/blog/", "/news/"], deny="/blog/private")
    assert scope.reason_to_refuse(START + "blog/1", 1) is None
    assert scope.reason_to_refuse(START + "news/1", 1) is None
    assert scope.reason_to_refuse(START + "shop/1", 1) == "not allowed"
    assert scope.reason_to_refuse(START + "blog/private", 1) == "denied"
    assert scope.reason_to_refuse(START, 0) is None


@pytest.mark.parametrize(("max_depth", "depth", "reason"), [(0, 1, "too deep: 1"), (2, 2, None), (2, 3, "too deep: 3")])
def test_depth_counts_links_from_the_given_urls(max_depth, depth, reason):
    scope = Scope([START], max_depth=max_depth)
    assert scope.reason_to_refuse(START, 0) is None
    assert scope.reason_to_refuse(START + "a", depth) == reason


def test_a_redirected_start_brings_its_host_into_scope():
    scope = Scope([START])
    scope.widen("https://www.new-name.example/home")
    assert scope.reason_to_refuse("http://new-name.example/a", 1) is None


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"allow": ["["]}, "allow: .*unterminated"),
        ({"deny": "["}, "deny: .*unterminated"),
        ({"max_depth": -1}, "depth"),
    ],
)
def test_wrong_arguments_are_named(given, message):
    with pytest.raises(ConfigError, match=message):
        Scope([START], **given)


def test_a_short_length_limit_holds_for_every_url():
    assert Scope([START], max_url_length=10).reason_to_refuse(START, 0) == f"too long: {len(START)} characters"
