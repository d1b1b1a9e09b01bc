"""The software that made a page is recognised by its marks, and by nothing else."""

from __future__ import annotations

import time

import pytest

from llmcrawler.core.content.platforms import PLATFORMS, platform_of

PAGES = [
    ("Shopify", '<script src="//cdn.shopify.com/s/files/1/0001/t/1/assets/theme.js"></script>', ()),
    ("Shopify", "<p>nothing</p>", ("content-type", "x-shopid")),
    ("WooCommerce", '<meta name="generator" content="WooCommerce 8.2.1" /><link href="/wp-content/themes/x.css">', ()),
    ("WooCommerce", '<link href="/wp-content/x.css"><body class="archive woocommerce woocommerce-page">', ()),
    ("Magento", '<script type="text/x-magento-init">{}</script>', ()),
    ("PrestaShop", "<script>var prestashop = {};</script>", ()),
    ("WordPress", '<meta name="generator" content="WordPress 6.4">', ()),
    ("WordPress", '<link rel="stylesheet" href="/wp-includes/css/dist/block-library/style.min.css">', ()),
    ("WordPress", "<p>nothing</p>", ("x-pingback",)),
    ("Discourse", '<meta name="discourse_theme_id" content="2">', ()),
    ("phpBB", '<body id="phpbb" class="nojs notouch section-viewtopic ltr">', ()),
    ("phpBB", "<p>nothing</p>", ("phpbb3_abc_sid",)),
    ("MediaWiki", '<meta content="MediaWiki 1.41.0-wmf" name="generator">', ()),
    ("MediaWiki", '<body class="skin-vector mediawiki ltr sitedir-ltr">', ()),
    ("Docusaurus", '<div id="__docusaurus"></div>', ()),
    ("Docusaurus", "<meta name=generator content='Docusaurus v3.1.0'>", ()),
    ("Sphinx", '<script src="../_static/documentation_options.js?v=1"></script>', ()),
    ("Ghost", '<meta name="generator" content="Ghost 5.75">', ()),
    ("Drupal", '<meta name="Generator" content="Drupal 10 (https://www.drupal.org)">', ()),
    ("Drupal", '<link rel="stylesheet" href="/sites/default/files/css/css_abc.css">', ()),
    ("", "<p>We moved from Shopify to WordPress, with Drupal between.</p>", ("content-type", "set-cookie")),
    ("", '<meta name="description" content="WordPress hosting">', ()),
    ("", "", ()),
]


@pytest.mark.parametrize(("platform", "html", "names"), PAGES)
def test_a_page_is_known_by_the_marks_of_its_software(platform: str, html: str, names: tuple[str, ...]) -> None:
    assert platform_of(html, names) == platform


def test_each_platform_has_one_row() -> None:
    assert len(set(PLATFORMS)) == len(PLATFORMS)


@pytest.mark.parametrize(
    "html",
    ["<meta name=generator " * 20_000, "<body class='" + "a " * 400_000, "<meta name='generator'" + " x" * 10**6],
)
def test_hostile_pages_take_no_time(html: str) -> None:
    started = time.process_time()
    assert platform_of(html) == ""
    assert time.process_time() - started < 1
