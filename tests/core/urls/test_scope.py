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


def test_depth_zero_means_the_given_urls_alone():
    scope = Scope([START], max_depth=0)
    assert scope.reason_to_refuse(START, 0) is None
    assert scope.reason_to_refuse(START + "a", 1) == "too deep: 1"


def test_depth_counts_links_from_the_start():
    scope = Scope([START], max_depth=2)
    assert scope.reason_to_refuse(START + "a", 2) is None
    assert scope.reason_to_refuse(START + "a", 3) == "too deep: 3"


def test_a_redirected_start_brings_its_host_into_scope():
    scope = Scope([START])
    scope.widen("https://www.new-name.example/home")
    assert scope.reason_to_refuse("http://new-name.example/a", 1) is None


@pytest.mark.parametrize("argument", ["allow", "deny"])
def test_a_bad_regular_expression_is_named(argument):
    with pytest.raises(ConfigError, match=f"{argument}: .*unterminated"):
        Scope([START], allow=["["] if argument == "allow" else (), deny=["["] if argument == "deny" else ())


def test_a_negative_depth_is_refused():
    with pytest.raises(ConfigError, match="depth"):
        Scope([START], max_depth=-1)


def test_a_short_length_limit_holds_for_every_url():
    assert Scope([START], max_url_length=10).reason_to_refuse(START, 0) == f"too long: {len(START)} characters"
