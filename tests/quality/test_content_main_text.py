"""Pinned floors of the main text on pages of our own making: raise them, never lower them."""

import pytest

from llmcrawler.core.content import main_text, read_page

HEAD = """<html><head><title>Growing tomatoes - The Garden</title></head><body><header class="site-header">
<nav class="menu"><ul>
<li><a href=/>Home</a><li><a href=/news>News</a><li><a href=/shop>Shop</a></ul>
</nav></header>"""
FOOT = """<footer class="footer"><ul><li><a href=/imprint>Imprint</a><li><a href=/privacy>Privacy policy</a></ul>
<p>Copyright 2024 The Garden. All rights reserved.</p></footer></body></html>"""
ARTICLE = """<main><article class="post"><h1>Growing tomatoes</h1>
<p>Tomatoes like warmth, and they want to stand in a place that is sheltered from the rain all summer.</p>
<p>Water them in the morning, close to the ground, so that the leaves stay dry and no blight can settle.</p>
<ul><li>Plant them deep, up to the first leaves.</li><li>Take out the side shoots every week.</li></ul>
</article></main>"""
PRODUCT = """<div id="content"><div class="product"><h1>Watering can</h1><p class="price">£12.50</p>
<div class="description"><p>A can of ten litres, made of zinc, that lasts a gardener's life and then some.</p></div>
<table class="specs"><tr><th>Volume</th><td>10 l</td></tr><tr><th>Weight</th><td>1.2 kg</td></tr></table></div></div>"""


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        (ARTICLE, ["Tomatoes like warmth", "close to the ground", "- Plant them deep"]),
        (PRODUCT, ["A can of ten litres"]),
    ],
)
def test_main_content_stays_and_navigation_goes(body: str, wanted: list[str]) -> None:
    text = main_text(read_page(HEAD + body + FOOT, "http://garden.example/a").blocks, None)
    assert [part for part in wanted if part not in text] == []
    assert [part for part in ("Privacy policy", "All rights reserved", "[News]") if part in text] == []
