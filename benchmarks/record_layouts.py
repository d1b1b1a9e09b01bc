"""Sites for null_discipline: the markup of shops and other software, with values that are on some pages only.

site = layout_site("cartridge", seed=1, pages=60): pages of one template with their truth. Each optional field is on a
share of the pages of its own, from 5 to 60%. What it is mistaken for stands on all of them: prices of other products,
names of other categories in the menu, forms for reviews, counts of nothing.
"""

from __future__ import annotations

from random import Random
from typing import Any

import jinja2

from tests.servers.record_sites import Shown, Site, SitePage
from tests.servers.record_sites import words as w

SHARES = (0.05, 0.1, 0.2, 0.3, 0.45, 0.6)
CATEGORIES = "Clothing|Books|Kitchen|Garden|Games|Office|Music|Travel".split("|")
OPTIONAL = (
    "old_price brand colour weight isbn stock rating badge subtitle updated tags author deadline salary phone website"
    " summary video doi license servings fee reviews room translator"
).split()

_ENV = jinja2.Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
_FRAME = """<!DOCTYPE html><html lang="en"><head><title>{{ p.title }} - {{ site }}</title>{{ head|safe }}</head><body>
{{ before|safe }}{{ main|safe }}{{ after|safe }}</body></html>"""
_AROUND = {
    "bootstrap": (
        """<div class="navbar navbar-default"><a class="navbar-brand" href="/">{{ site }}</a><ul class="nav navbar-nav">
{% for c in categories %}<li><a href="/c/{{ c|lower }}/">{{ c }}</a></li>{% endfor %}</ul><form action="/search/">
<input name="q"><button>Go</button></form></div><div class="container"><div class="row"><div class="col-md-9">""",
        """</div><div class="col-md-3 right"><div class="panel"><h4>Basket</h4><p>Your basket is empty: £0.00</p></div>
<div class="panel"><h4>Recent</h4><ul>{% for o in others %}<li><a href="{{ o.path }}">{{ o.title }}</a>
<small>{{ o.date }}</small></li>{% endfor %}</ul></div></div></div></div><footer class="footer"><div class="container">
<p>Powered by software, since 2009</p><a href="/terms/">Terms</a></div></footer>""",
    ),
    "semantic": (
        """<header id="masthead"><a href="/">{{ site }}</a><nav class="main-navigation"><ul>{% for c in categories %}
<li class="menu-item"><a href="/category/{{ c|lower }}">{{ c }}</a></li>{% endfor %}</ul></nav></header><main>""",
        """</main><aside class="widget-area"><section class="widget"><h2>Categories</h2><ul>{% for c in categories %}
<li><a href="/category/{{ c|lower }}">{{ c }}</a> (12)</li>{% endfor %}</ul></section></aside>
<footer id="colophon"><p>© 2024 {{ site }}. <a href="tel:+441134960000">0113 496 0000</a></p></footer>""",
    ),
    "bare": (
        """<div class="x1"><div class="x2"><a href="/"><img src="/logo.png" alt="{{ site }}"></a></div>
<div class="x3">{% for c in categories %}<a href="/{{ c|lower }}">{{ c }}</a> {% endfor %}</div></div>""",
        """<div class="x9"><div>From 9.99 a month</div><div>{{ site }} Ltd</div></div>""",
    ),
}
_BOX = """{% macro sale(o) %}{% if o.old_price %}<span class="old-price">{{ o.old_price }}</span> On sale:{% endif %}
<span class="price">{{ o.price }}</span>{% endmacro %}"""

# name: (page type, frame, fields beside the title, template of the page's own part, and of its head)
LAYOUTS: dict[str, tuple[str, str, str, str, str]] = {
    # -- shops --
    "cartridge": ("product", "bootstrap", "price old_price description category", _BOX + """
<ul class="breadcrumb"><li><a href="/">Home</a></li><li><a href="/shop/">Shop</a></li>
<li><a href="/c/{{ p.category|lower }}/">{{ p.category }}</a></li><li>{{ p.title }}</li></ul><h1>{{ p.title }}</h1>
<ul id="product-images-large" class="list-unstyled"><li id="image-{{ n }}-large"><a class="product-image-large"
href="/m/{{ n }}.jpg"><img src="/m/{{ n }}.jpg" class="img-thumbnail"></a></li></ul><p>{{ p.description }}</p>
<ul id="variations" class="list-unstyled">{% for v in range(n % 3 + 1) %}<li id="variation-{{ n }}{{ v }}"
{% if v %}style="display:none;"{% endif %}>{{ sale(p) }}</li>{% endfor %}</ul>
<form method="post" id="add-cart"><label>Quantity</label><input name="quantity" value="1"><button>Buy</button></form>
<div class="panel rating"><form><label><input type="radio" name="value">4</label><button>Rate</button></form></div>
<h2>Related Products</h2><div class="row related-products">{% for o in others %}<div class="product-thumb"><a href="{{
o.path }}"><div class="caption"><h6>{{ o.title }}</h6><div class="price-info">{{ sale(o) }}</div></div></a></div>
{% endfor %}</div>""", ""),
    "oscar": ("product", "bootstrap", "price upc description category reviews rating", """
<ul class="breadcrumb"><li><a href="/">Home</a></li><li><a href="/c/{{ p.category|lower }}">{{ p.category }}</a></li>
<li class="active">{{ p.title }}</li></ul><article class="product_page"><div class="row"><div class="col-sm-6
product_main"><h1>{{ p.title }}</h1><p class="price_color">{{ p.price }}</p><p class="instock availability">In stock</p>
<p class="star-rating">{% if p.rating %}<b class="score">{{ p.rating }}</b> of 5{% endif %}</p></div></div>
<div id="product_description" class="sub-header"><h2>Product Description</h2></div><p>{{ p.description }}</p>
<div class="sub-header"><h2>Product Information</h2></div><table class="table table-striped"><tr><th>UPC</th><td>
{{ p.upc }}</td></tr><tr><th>Product Type</th><td>Book</td></tr><tr><th>Number of reviews</th>
<td>{{ (p.reviews or [])|length }}</td></tr></table><div id="reviews"><h2>Customer Reviews</h2>{% for r in p.reviews or
[] %}<article><h3>{{ r.author }}</h3><p>{{ r.text }}</p></article>{% else %}<p>This product does not have any reviews
yet. Be the first to write one.</p>{% endfor %}</div></article><div class="sub-header"><h2>Products you recently
viewed</h2></div><ul class="row">{% for o in others %}<li><article class="product_pod"><h3><a href="{{ o.path }}">
{{ o.title }}</a></h3><p class="price_color">{{ o.price }}</p></article></li>{% endfor %}</ul>""", ""),
    "woocommerce": ("product", "semantic", "price old_price sku category tags badge stock", """
<nav class="woocommerce-breadcrumb"><a href="/">Home</a>&nbsp;/&nbsp;<a href="/category/{{ p.category|lower }}">{{
p.category }}</a>&nbsp;/&nbsp;{{ p.title }}</nav><div id="product-{{ n }}" class="product type-product">
{% if p.old_price %}<span class="onsale">Sale!</span>{% endif %}<div class="summary entry-summary">
<h1 class="product_title entry-title">{{ p.title }}</h1>{% if p.badge %}<em>{{ p.badge }}</em>{% endif %}
<p class="price">{% if p.old_price %}<del><span class="woocommerce-Price-amount amount"><bdi>{{ p.old_price }}</bdi>
</span></del> <ins><span class="woocommerce-Price-amount amount"><bdi>{{ p.price }}</bdi></span></ins>{% else %}
<span class="woocommerce-Price-amount amount"><bdi>{{ p.price }}</bdi></span>{% endif %}</p>
{% if p.stock %}<p class="stock in-stock">{{ p.stock }} in stock</p>{% endif %}<form class="cart"><button>Add to cart
</button></form><div class="product_meta"><span class="sku_wrapper">SKU: <span class="sku">{{ p.sku }}</span></span>
<span class="posted_in">Category: <a href="/category/{{ p.category|lower }}">{{ p.category }}</a></span>{% if p.tags %}
<span class="tagged_as">Tags: {% for t in p.tags %}<a href="/tag/{{ t }}" rel="tag">{{ t }}</a>{{ "" if loop.last else
", " }}{% endfor %}</span>{% endif %}</div></div><section class="related"><h2>Related products</h2><ul>{% for o in
others %}<li class="product"><a href="{{ o.path }}"><h2 class="loop__title">{{ o.title }}</h2><span class="price">
{% if o.old_price %}<del><span class="amount">{{ o.old_price }}</span></del>{% endif %}<span class="amount">{{ o.price
}}
</span></span></a></li>{% endfor %}</ul></section></div>""", ""),
    "dawn": ("product", "semantic", "price old_price vendor badge description", """
<section class="shopify-section"><product-info><div class="product__title"><h1>{{ p.title }}</h1></div>
<p class="product__text caption-with-letter-spacing">{{ p.vendor }}</p><div class="price price--large{{ "
price--on-sale"
if p.old_price }}"><div class="price__container"><div class="price__regular"><span class="visually-hidden">Regular
price</span> <span class="price-item price-item--regular">{{ p.price }}</span></div>{% if p.old_price %}<div
class="price__sale"><span>Regular price</span><span><s class="price-item price-item--regular">{{ p.old_price
}}</s></span>
<span>Sale price</span><span class="price-item price-item--last">{{ p.price }}</span></div>{% endif %}</div>{% if
p.badge
%}<span class="badge">{{ p.badge }}</span>{% endif %}</div><div class="product__description rte"><p>{{ p.description }}
</p></div></product-info></section>""", """<meta property="og:price:amount" content="{{ p.price[1:] }}">"""),
    "magento": ("product", "semantic", "price old_price sku brand colour weight rating", """
<div class="breadcrumbs"><ul class="items"><li class="item home"><a href="/">Home</a></li><li class="item product">
<strong>{{ p.title }}</strong></li></ul></div><h1 class="page-title"><span class="base">{{ p.title }}</span></h1>
<div class="product-reviews-summary{{ " empty" if not p.rating }}">{% if p.rating %}<div class="rating-result"><span>
<span>{{ p.rating }}</span></span></div>{% endif %}<a class="add" href="#review-form">Be the first to review this
product</a></div><div class="price-box price-final_price">{% if p.old_price %}<span class="special-price"><span
class="price-label">Special Price</span><span class="price">{{ p.price }}</span></span><span class="old-price"><span
class="price-label">Regular Price</span><span class="price">{{ p.old_price }}</span></span>{% else %}<span
class="price">
{{ p.price }}</span>{% endif %}</div><div class="product attribute sku"><strong class="type">SKU</strong><div
class="value">{{ p.sku }}</div></div><table class="data table additional-attributes"><tbody>{% for l, v in (("Brand",
p.brand), ("Color", p.colour), ("Weight", p.weight), ("Warranty", "2 years")) if v %}<tr><th class="col label">{{ l }}
</th><td class="col data">{{ v }}</td></tr>{% endfor %}</tbody></table><form id="review-form"><label>Nickname</label>
<input name="nickname"><label>Summary</label><input name="title"></form>""", ""),
    "prestashop": ("product", "semantic", "price old_price brand isbn stock", """
<section id="main"><div class="row product-container"><div class="col-md-6"><h1 class="h1">{{ p.title }}</h1><div
class="product-prices">{% if p.old_price %}<div class="product-discount"><span class="regular-price">{{ p.old_price }}
</span></div>{% endif %}<div class="product-price h5"><div class="current-price"><span>{{ p.price }}</span></div></div>
<div class="tax-shipping-delivery-label">Tax included</div></div><div class="product-quantities">{% if p.stock %}
<label class="label">In stock</label><span>{{ p.stock }} Items</span>{% endif %}</div><dl class="data-sheet">
{% for l, v in (("Brand", p.brand), ("ISBN", p.isbn), ("Condition", "New product")) if v %}<dt class="name">{{ l }}</dt>
<dd class="value">{{ v }}</dd>{% endfor %}</dl></div></div></section><section class="featured-products"><h2>You might
also like</h2>{% for o in others %}<article><h3><a href="{{ o.path }}">{{ o.title }}</a></h3>{% if o.old_price %}<span
class="regular-price">{{ o.old_price }}</span>{% endif %}<span class="price">{{ o.price }}</span></article>{% endfor %}
</section>""", ""),
    "opencart": ("product", "bootstrap", "price old_price brand sku stock", """
<div id="product-product"><h1>{{ p.title }}</h1><ul class="list-unstyled">{% if p.brand %}<li>Brand: <a href="/b">{{
p.brand }}</a></li>{% endif %}<li>Product Code: {{ p.sku }}</li><li>Availability: {{ p.stock or "In Stock" }}</li></ul>
<ul class="list-unstyled">{% if p.old_price %}<li><span class="line">{{ p.old_price }}</span></li>{% endif %}<li><h2>{{
p.price }}</h2></li><li>Ex Tax: {{ p.price }}</li></ul><div class="rating"><p><a href="#r">0 reviews</a> / <a href="#r">
Write a review</a></p></div></div>""", ""),
    "spree": ("product", "bare", "price sku colour summary", """
<div class="m1" data-hook="product_show"><h1 class="t">{{ p.title }}</h1><div class="k">{% if p.summary %}<i>{{
p.summary }}</i>{% endif %}</div><div id="product-price"><h6>Price</h6><div><span class="price selling">{{ p.price }}
</span></div></div><table id="product-properties"><tbody>{% if p.colour %}<tr class="even"><td><strong>Colour</strong>
</td><td>{{ p.colour }}</td></tr>{% endif %}<tr class="odd"><td><strong>Code</strong></td><td>{{ p.sku }}</td></tr>
</tbody></table></div>""", ""),
    "odoo": ("product", "semantic", "price old_price description weight", """
<section id="product_detail"><div class="row"><div class="col-lg-6"><h1>{{ p.title }}</h1><div class="product_price">
<h3 class="css_editable_mode_hidden"><span class="oe_price"><span class="oe_currency_value">{{ p.price }}</span></span>
<span class="text-danger oe_default_price" style="{{ "" if p.old_price else "display:none" }}"><span
class="oe_currency_value">{{ p.old_price or p.price }}</span></span></h3></div><p class="text-muted">{{ p.description }}
</p><small>{% if p.weight %}Weight: {{ p.weight }}{% else %}30-day guarantee{% endif
%}</small></div></div></section>""",
              ""),
    "bookshop": ("product", "bare", "price author isbn translator subtitle", """
<table class="b"><tr><td class="l"><img src="/cover/{{ n }}.jpg"></td><td class="r"><big>{{ p.title }}</big><br>
{% if p.subtitle %}<small>{{ p.subtitle }}</small><br>{% endif %}{% if p.author %}by <a href="/a/{{ n }}">{{ p.author }}
</a>{% endif %}{% if p.translator %}, translated by <a href="/a/t{{ n }}">{{ p.translator }}</a>{% endif %}<p>Paperback,
{{ n + 90 }} pages{% if p.isbn %}, ISBN {{ p.isbn }}{% endif %}</p><p><font color="red">{{ p.price
}}</font></p></td></tr>
</table>""", ""),
    # -- other kinds --
    "notmyidea": ("article", "semantic", "date updated author category tags", """
<section id="content" class="body"><article><header><h1 class="entry-title"><a href="/a/{{ n }}" rel="bookmark">{{
p.title }}</a></h1></header><div class="entry-content"><footer class="post-info"><abbr class="published">Published:
{{ p.date }}</abbr>{% if p.updated %}<br><abbr class="modified">Updated: {{ p.updated }}</abbr>{% endif %}{% if p.author
%}<address class="vcard author">By <a class="url fn" href="/author">{{ p.author }}</a></address>{% endif %}<p>In <a
href="/category/{{ p.category|lower }}">{{ p.category }}</a>.</p>{% if p.tags %}<p>tags: {% for t in p.tags %}<a
href="/tag/{{ t }}">{{ t }}</a> {% endfor %}</p>{% endif %}</footer>{% for t in p.body %}<p>{{ t }}</p>{% endfor
%}</div>
<div class="comments"><h2>Comments</h2><a href="#c">0 comments</a></div></article></section>""", ""),
    "hexo": ("article", "bare", "date updated category tags", """
<article class="post-block" itemscope><h1 class="post-title" itemprop="name headline">{{ p.title }}</h1><div
class="post-meta"><span class="post-meta-item"><span>Posted on</span> <time itemprop="dateCreated">{{ p.date }}</time>
</span>{% if p.updated %}<span class="post-meta-item"><span>Edited on</span> <time itemprop="dateModified">{{ p.updated
}}</time></span>{% endif %}<span class="post-meta-item"><span>In</span> <a href="/c"><span itemprop="name">{{ p.category
}}</span></a></span></div><div class="post-body" itemprop="articleBody">{% for t in p.body %}<p>{{ t }}</p>{% endfor %}
</div>{% if p.tags %}<div class="post-tags">{% for t in p.tags %}<a href="/t/{{ t }}">{{ t }}</a> {% endfor %}</div>
{% endif %}<div class="post-nav">{% for o in others[:2] %}<a href="{{ o.path }}">{{ o.title }}</a>{% endfor %}</div>
</article>""", ""),
    "wordpress": ("article", "semantic", "date author category updated summary", """
<article id="post-{{ n }}" class="post type-post hentry"><header class="entry-header"><h1 class="entry-title">{{
p.title }}
</h1>{% if p.summary %}<p class="lede">{{ p.summary }}</p>{% endif %}</header><div class="entry-content">{% for t in
p.body %}<p>{{ t }}</p>{% endfor %}</div><footer class="entry-footer"><span class="posted-on">Posted on <time
class="entry-date published">{{ p.date }}</time>{% if p.updated %}<time class="updated">{{ p.updated }}</time>{% endif
%}
</span>{% if p.author %}<span class="byline"> by <a class="fn" href="/author/x">{{ p.author }}</a></span>{% endif
%}<span
class="cat-links">Posted in <a href="/category/{{ p.category|lower }}" rel="category tag">{{ p.category }}</a></span>
</footer></article><div id="comments"><h2>Leave a reply</h2><form><label>Name</label><input></form></div>""", ""),
    "jobs": ("job", "bootstrap", "company location salary deadline date", """
<div class="job"><h2 class="listing-company"><span class="company-name">{{ p.title }}</span></h2><p>{{ p.company }}</p>
<span class="listing-location">{{ p.location }}</span><dl>{% if p.salary %}<dt>Salary</dt><dd>{{ p.salary }}</dd>{%
endif
%}<dt>Contract</dt><dd>Permanent</dd>{% if p.deadline %}<dt>Closing date</dt><dd>{{ p.deadline }}</dd>{% endif %}</dl>
<div class="job-description">{% for t in p.body %}<p>{{ t }}</p>{% endfor %}</div><p class="small">Posted: {{ p.date }}
</p></div>""", ""),
    "events": ("event", "semantic", "date location fee room website", """
<div class="vevent"><h1 class="summary">{{ p.title }}</h1><p><strong>When:</strong> {{ p.date }}<br><strong>Where:
</strong> {{ p.location }}{% if p.room %}<br><strong>Room:</strong> {{ p.room }}{% endif %}</p><ul
class="facts"><li>Doors
open at 19:00</li>{% if p.fee %}<li>Tickets: {{ p.fee }}</li>{% endif %}{% if p.website %}<li><a href="{{ p.website }}">
Web site</a></li>{% endif %}</ul><p>{{ p.description }}</p></div>""", ""),
    "recipes": ("recipe", "semantic", "author servings rating video ingredients", """
<div class="wprm-recipe"><h2 class="wprm-recipe-name">{{ p.title }}</h2>{% if p.author %}<div>Author: <span
class="wprm-recipe-author">{{ p.author }}</span></div>{% endif %}<div class="wprm-rating">{% if p.rating %}<span
class="wprm-average">{{ p.rating }}</span> from {{ n }} votes{% else %}No ratings yet{% endif %}</div>{% if p.servings
%}
<div class="block"><span class="label">Servings</span> <span class="wprm-servings">{{ p.servings }}</span></div>
{% endif %}<div class="block"><span class="label">Course</span> <span>Dinner</span></div>{% if p.video %}<a
class="watch" href="{{ p.video }}">Watch</a>{% endif %}<ul class="ing">{% for i in p.ingredients %}<li>{{ i }}</li>
{% endfor %}</ul><a class="print" href="/print/{{ n }}">Print</a></div>""", ""),
    "people": ("profile", "semantic", "role phone room website", """
<div class="person"><h1>{{ p.title }}</h1><p class="role">{{ p.role }}</p><ul class="contact">{% if p.phone %}<li>{{
p.phone }}</li>{% endif %}{% if p.room %}<li>{{ p.room }}</li>{% endif %}{% if p.website %}<li><a href="{{ p.website
}}">
Home page</a></li>{% endif %}</ul><div class="bio">{% for t in p.body %}<p>{{ t }}</p>{% endfor %}</div></div>""", ""),
    "papers": ("article", "bare", "authors date doi license summary", """
<div id="abs"><div class="dateline">[Submitted on {{ p.date }}]</div><h1 class="title"><span>Title:</span> {{ p.title }}
</h1><div class="authors">{% for a in p.authors %}<a href="/au/{{ loop.index }}">{{ a }}</a>{{ "" if loop.last else ",
" }}
{% endfor %}</div>{% if p.summary %}<blockquote class="abstract">{{ p.summary }}</blockquote>{% endif %}<table
class="metatable"><tr><td class="tablecell label">Subjects:</td><td class="tablecell">{{ p.category }}</td></tr>
{% if p.doi %}<tr><td class="tablecell label">DOI:</td><td class="tablecell">{{ p.doi }}</td></tr>{% endif %}{% if
p.license %}<tr><td class="tablecell label">License:</td><td class="tablecell">{{ p.license }}</td></tr>{% endif %}
</table></div>""", ""),
    "packages": ("software", "semantic", "version license author website date", """
<div class="package-header"><h1>{{ p.title }} <small>{{ p.version }}</small></h1><p>Released: <time>{{ p.date
}}</time></p>
</div><div class="sidebar"><h3>Meta</h3>{% if p.license %}<p><strong>License:</strong> {{ p.license }}</p>{% endif %}
{% if p.author %}<p><strong>Author:</strong> <a href="mailto:x@site.example">{{ p.author }}</a></p>{% endif
%}<p><strong>
Requires:</strong> Python &gt;=3.8</p><h3>Links</h3><ul>{% if p.website %}<li><a href="{{ p.website
}}">Homepage</a></li>
{% endif %}<li><a href="/dl/{{ n }}.tar.gz">Download</a></li></ul></div><div class="readme"><p>{{ p.description }}</p>
</div>""", ""),
    "homes": ("property", "bootstrap", "price location fee rooms updated", """
<div class="listing"><h1>{{ p.title }}</h1><div class="pricing"><strong>{{ p.price }}</strong>{% if p.fee %} <span
class="fee">+ {{ p.fee }} service charge</span>{% endif %}</div><p class="addr">{{ p.location }}</p><ul class="specs">
<li>{{ p.rooms }} rooms</li><li>1 bath</li></ul>{% if p.updated %}<p>Reduced on {{ p.updated }}</p>{% endif %}<p>{{
p.description }}</p></div><div class="similar">{% for o in others %}<div class="tile"><b>{{ o.title }}</b> <strong>{{
o.price }}</strong></div>{% endfor %}</div>""", ""),
    "museum": ("artwork", "bare", "artist year material size website", """
<div class="w"><div class="obj-title">{{ p.title }}</div><div class="obj-line">{{ p.artist }}, {{ p.year }}</div><div
class="obj-line">{{ p.material }}</div>{% if p.weight %}<div class="obj-line">{{ p.weight }}</div>{% endif %}<div
class="obj-line">{{ p.size }}</div>{% if p.website %}<a href="{{ p.website }}">More</a>{% endif %}<p class="note">On
view since 2019</p></div>""", ""),
    "docs": ("article", "semantic", "updated author license", """
<div class="document"><div class="body" role="main"><section><h1>{{ p.title }}<a class="headerlink" href="#x">¶</a></h1>
{% if p.author %}<p class="author">Written by {{ p.author }}.</p>{% endif %}{% for t in p.body %}<p>{{ t }}</p>{% endfor
%}</section></div></div><div class="footer">{% if p.license %}License: {{ p.license }}.{% endif %} {% if p.updated
%}Last
updated on {{ p.updated }}.{% endif %} Created using Sphinx 7.3.</div>""", ""),
}  # fmt: skip
SHOPS = tuple(name for name, layout in LAYOUTS.items() if layout[0] == "product")
_PARTS = {key: tuple(map(_ENV.from_string, parts)) for key, parts in _AROUND.items()}


def layout_site(name: str, seed: int = 1, pages: int = 60) -> Site:
    page_type, frame, names, own, head = LAYOUTS[name]
    rng = Random(f"{name} {seed}")
    shares = dict.fromkeys(OPTIONAL, 1.0)
    for place, field in enumerate(field for field in names.split() if field in OPTIONAL):
        shares[field] = SHARES[(place + rng.randrange(2)) % len(SHARES)] if seed % 2 else rng.choice(SHARES)
    things = [_thing(rng, title, number, shares) for number, title in enumerate(w.titles(rng, pages), 101)]
    template, head_template, (before, after) = _ENV.from_string(own), _ENV.from_string(head), _PARTS[frame]
    made = []
    for number, one in enumerate(things, 101):
        context = {"p": one, "n": number, "site": name.title(), "categories": CATEGORIES}
        context["others"] = rng.sample([other for other in things if other is not one], min(4, pages - 1))
        parts = {
            "main": template.render(context),
            "before": before.render(context),
            "after": after.render(context),
            "head": head_template.render(context),
        }
        truth = {field: one[field] for field in ("title", *names.split())}
        made.append(SitePage(one["path"], _ENV.from_string(_FRAME).render(context, **parts), page_type, truth))
    rng.shuffle(made)
    return Site(name, page_type, tuple(made))


def _thing(rng: Random, title: str, number: int, shares: dict[str, float]) -> dict[str, Any]:
    def money() -> Shown:
        amount = rng.randint(300, 90_000) / 100
        return Shown(f"£{amount:,.2f}", amount)

    def day() -> Shown:
        one = w.day(rng)
        return Shown(f"{one.day} {w.MONTHS[one.month - 1]} {one.year}", one.isoformat())

    def number_of(least: int, most: int) -> Shown:
        count = rng.randint(least, most)
        return Shown(str(count), count)

    cents = rng.randint(300, 90_000)
    old = cents + rng.randint(100, 9_000)
    rating = rng.randint(21, 49) / 10
    thing: dict[str, Any] = {
        "path": f"/{rng.choice('abc')}/{w.slug(title)}-{number}",
        "title": title,
        "price": Shown(f"£{cents / 100:,.2f}", cents / 100),
        "old_price": Shown(f"£{old / 100:,.2f}", old / 100),
        "description": w.paragraph(rng, rng.randint(1, 3)),
        "body": w.paragraphs(rng, rng.randint(1, 4)),
        "category": rng.choice(CATEGORIES),
        "upc": str(rng.randint(10**11, 10**12)),
        "sku": f"{rng.choice('ABC')}{rng.randint(1_000, 99_999)}",
        "brand": rng.choice(w.BRANDS),
        "vendor": rng.choice(w.BRANDS),
        "colour": rng.choice(["oak", "slate", "ivory", "rust"]),
        "weight": f"{rng.randint(1, 90) / 10} kg",
        "isbn": f"978-0-{rng.randint(1_000, 9_999)}-{rng.randint(1_000, 9_999)}-{rng.randint(0, 9)}",
        "stock": number_of(2, 60),
        "rating": Shown(f"{rating:.1f}", rating),
        "badge": rng.choice(["New", "Last chance", "Handmade"]),
        "subtitle": w.sentence(rng),
        "summary": w.sentence(rng),
        "date": day(),
        "updated": day(),
        "deadline": day(),
        "tags": rng.sample(w.NOUNS, rng.randint(1, 4)),
        "author": w.person(rng),
        "translator": w.person(rng),
        "artist": w.person(rng),
        "authors": w.people(rng, rng.randint(1, 4)),
        "role": rng.choice(["Professor", "Lecturer", "Technician", "Librarian", "Dean"]),
        "company": f"{rng.choice(w.LAST_NAMES)} & {rng.choice(w.LAST_NAMES)}",
        "location": f"{rng.choice(w.CITIES)} {rng.randint(10, 99)}",
        "salary": Shown(f"£{rng.randint(20, 90)},000", None),
        "phone": f"+44 113 {rng.randint(100, 999)} {rng.randint(1_000, 9_999)}",
        "room": f"{rng.choice('ABCDE')}{rng.randint(10, 499)}",
        "website": f"https://{w.slug(title)}.example/",
        "video": f"https://tube.example/watch/{number}",
        "doi": f"10.{rng.randint(1_000, 9_999)}/x.{number}",
        "license": rng.choice(["MIT", "BSD", "Apache-2.0", "GPL-3.0"]),
        "servings": number_of(1, 9),
        "fee": money(),
        "version": f"{rng.randint(0, 9)}.{rng.randint(0, 20)}.{rng.randint(0, 9)}",
        "rooms": number_of(1, 9),
        "year": number_of(1500, 1990),
        "material": f"{rng.choice(w.ADJECTIVES)} {rng.choice(['oil on wood', 'bronze', 'ink on paper'])}",
        "size": f"{rng.randint(9, 200)} x {rng.randint(9, 200)} cm",
        "ingredients": [f"{rng.randint(1, 9)} {noun}s" for noun in rng.sample(w.NOUNS, rng.randint(2, 6))],
        "reviews": [{"author": w.person(rng), "text": w.paragraph(rng, 1)} for _ in range(rng.randint(1, 3))],
    }
    return thing | {field: None for field, share in shares.items() if share < 1 and rng.random() >= share}
