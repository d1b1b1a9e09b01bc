"""Addresses of apps behind the "#"."""

import pytest
from scrapy import Request

from llmcrawler.core.urls import normalise, normalise_with_route, route_of, routed_path


@pytest.mark.parametrize(
    ("url", "spelled"),
    [
        ("HTTP://A.example:80/docs/#/Guide/a b", "http://a.example/docs/#/Guide/a%20b"),
        ("http://a.example/?utm_source=x#!/guide?id=1", "http://a.example/#!/guide?id=1"),
        ("http://a.example/#/", "http://a.example/"),
        ("http://a.example/page#section", "http://a.example/page"),
        ("http://a.example/page#1/2", "http://a.example/page"),
    ],
)
def test_a_route_is_of_the_address_and_a_place_on_the_page_is_not(url, spelled):
    assert normalise_with_route(url) == spelled
    assert Request(spelled).url == spelled
    assert normalise(url) == spelled.partition("#")[0]
    assert normalise_with_route(route_of(spelled), normalise(url)) == spelled


def test_a_route_has_words_as_a_path_has():
    assert routed_path("http://a.example/docs/?x=1#!/guide/start?q=2") == "http://a.example/docs/guide/start?q=2"
    assert routed_path("http://a.example/docs/") == "http://a.example/docs/"


def test_a_route_with_half_a_surrogate_pair_is_none():
    assert normalise_with_route("#/a\udc80", "http://docs.example/b") == "http://docs.example/b"
