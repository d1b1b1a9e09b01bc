"""Lists and groups within pages: what is found on generated sites and small templates, and what is turned down."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from lxml import etree

from llmcrawler.core.understanding.extraction.blocks import PageBlocks
from llmcrawler.core.understanding.extraction.extractor import TemplateExtractor, compile_extractor
from llmcrawler.core.understanding.extraction.record_schema import Field
from llmcrawler.core.understanding.extraction.repeated_parts import repeated_parts
from llmcrawler.core.understanding.extraction.selector_induction import (
    AnnotatedPage,
    TrainingSet,
    learn_field,
    learn_group,
)
from tests.servers.record_sites import make_site

ORIGIN = "https://site.example"
Found = dict[str, list[Any]]


def found_on(
    bodies: Sequence[str], page_type: str, paths: Sequence[str] = (), requested: Sequence[Field] = ()
) -> Found:
    """Return what is found, by name: of each page the texts of a list, or of each field of a group."""
    paths = paths or [f"/{page_type}/{at}/slug-{at}" for at in range(len(bodies))]
    pages = [
        PageBlocks(body if "<body" in body else f"<html><body>{body}</body></html>", ORIGIN + path)
        for body, path in zip(bodies, paths, strict=True)
    ]
    found: Found = {}
    for one in repeated_parts(pages, page_type, requested)[0]:
        found[one.name] = []
        for page, pointed in zip(pages, one.values, strict=True):
            texts = {value.field: [page.blocks[n - 1].text for n in value.blocks] for value in pointed}
            is_group = bool(one.fields[0].group)
            found[one.name].append(texts if is_group else texts.get(one.name, []))
    return found


def rows_of(values: Mapping[str, Sequence[str]], group: str, names: Sequence[str]) -> list[dict[str, str]]:
    columns = [values.get(f"{group}.{name}", ()) for name in names]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


@pytest.mark.parametrize(
    ("site", "redesign", "lists"),
    [
        ("news", False, {"authors": "authors", "tags": "tags"}),
        ("news", True, {"authors": "authors", "tags": "tags"}),
        ("bookstore", False, {"authors": "authors", "categories": "subjects"}),
        ("recipes", False, {"ingredients": "ingredients", "instructions": "steps"}),
        ("events", False, {"performers": "mitwirkende"}),
        ("fashion", False, {"colors": "colours"}),
        ("jobs", False, {"you_bring": "requirements"}),
        ("jobs", True, {"skills": "requirements"}),
    ],
)
def test_lists_of_generated_sites_are_found_and_nothing_else(site: str, redesign: bool, lists: dict[str, str]) -> None:
    made = make_site(site, 2, redesign=redesign)
    records = made.records[:12]
    found = found_on([one.html for one in records], made.page_type, [one.path for one in records])
    assert found.keys() == lists.keys()
    for name, field in lists.items():
        assert found[name] == [one.fields[field] or [] for one in records]


@pytest.mark.parametrize(
    ("site", "redesign", "name", "field", "columns"),
    [
        ("shop", False, "reviews", "reviews", ("author", "date", "text")),
        ("shop", True, "reviews", "reviews", ("author", "date", "text")),
        ("forum", False, "posts", "posts", ("author", "date", "text")),
        ("people", False, "publications", "publications", ("title", "url", "year")),
        ("cards", False, "items", "cards", ("title", "url", "price")),
    ],
)
def test_groups_of_generated_sites_are_found(
    site: str, redesign: bool, name: str, field: str, columns: tuple[str, ...]
) -> None:
    made = make_site(site, 2, redesign=redesign)
    records = made.records[:12]
    found = found_on([one.html for one in records], made.page_type, [one.path for one in records])
    for one, values in zip(records, found[name], strict=True):
        rows = one.fields[field] or []
        wanted = [{column: row[column] for column in columns} for row in rows] if len(rows) > 1 else []
        assert rows_of(values, name, columns) == wanted


WORDS = "amber birch cedar dune ember fjord grove heath inlet jetty kelp lagoon".split()


def several(make: str, *, count: int = 5) -> list[str]:
    """Return pages; {} in what is made of each is another word for each page and place."""
    return [
        f"<h1>Page {WORDS[at]}</h1>" + make.format(*(f"{WORDS[(at + place) % 12]} {place}" for place in range(12)))
        for at in range(count)
    ]


@pytest.mark.parametrize(
    ("html", "name"),
    [
        ("<p>Tags: <a href=/x>{}</a>, <a href=/y>{}</a></p>", "tags"),
        ("<div><h3>Schlagwörter</h3><ul><li>{}</li><li>{}</li></ul></div>", "tags"),
        ("<p><a rel=tag href=/x>{}</a> <a rel=tag href=/y>{}</a></p>", "tags"),
        ("<p><a href=/tag/1>{}</a> <a href=/tag/2>{}</a></p>", "tags"),
        ("<article><footer class=entry-footer><a href=/tag/1>{}</a> <a href=/tag/2>{}</a></footer></article>", "tags"),
        ('<ul aria-label="Tags"><li>{}</li><li>{}</li></ul>', "tags"),
        ("<div id=tags><i>{}</i><i>{}</i></div>", "tags"),
        ("<h2>Zutaten</h2><ul><li>{}</li><li>{}</li></ul>", "ingredients"),
        ("<h2>Składniki</h2><ul><li>{}</li><li>{}</li></ul>", "ingredients"),
        ("<h2>材料</h2><ul><li>{}</li><li>{}</li></ul>", "ingredients"),
        ("<div class=recipe-steps><p>{}</p><p>{}</p></div>", "instructions"),
        ("<h3>In the box</h3><ul><li>{}</li><li>{}</li></ul>", "scope_of_delivery"),
        ("<ul class=amenities><li class=amenity>{}</li><li class=amenity>{}</li></ul>", "amenities"),
    ],
)
def test_lists_are_named_by_labels_classes_and_addresses(html: str, name: str) -> None:
    found = found_on(several(html), "product")
    assert list(found) == [name]
    assert found[name][1] == ["birch 0", "cedar 1"]


def test_authors_have_names_of_people() -> None:
    pages = several("<div class=post-authors><span>{}</span> and <span>{}</span></div>")
    assert found_on(pages, "article") == {}
    found = found_on([re.sub(r" \d<", " Holt<", page) for page in pages], "article")
    assert found["authors"][0] == ["amber Holt", "birch Holt"]


def test_a_linked_value_is_the_text_of_its_link() -> None:
    found = found_on(
        several("<ul class=tags><li><a href=/tag/1>{}</a> (3)</li><li><a href=/tag/2>{}</a> (4)</li></ul>"), "article"
    )
    assert found["tags"][0] == ["amber 0", "birch 1"]


@pytest.mark.parametrize(
    "html",
    [
        "<nav><a href=/tag/1>{}</a><a href=/tag/2>{}</a></nav>",
        "<aside><h3>Tags</h3><a href=/tag/1>{}</a> <a href=/tag/2>{}</a></aside>",
        "<div class=sidebar><div class=tagcloud><a href=/tag/1>{}</a> <a href=/tag/2>{}</a></div></div>",
        "<footer><ul class=tags><li>{}</li><li>{}</li></ul></footer>",
        "<h3>You may also like</h3><ul class=tags><li>{}</li><li>{}</li></ul>",
        "<h3>Das könnte Sie auch interessieren</h3><ul><li>{}</li><li>{}</li></ul>",
        "<h3>Recent posts</h3><ul><li>{}</li><li>{}</li></ul>",
        "<p>{}</p><p>{}</p>",
        "<ul><li>{}</li><li>{}</li></ul>",
        "<h3>{}</h3><ul><li>{}</li><li>{}</li></ul>",
        "<ul class=tags><li>one</li><li>two</li></ul>",
        "<dl><dt>Tags</dt><dd>{}</dd><dt>Size</dt><dd>{}</dd></dl>",
        "<section id=template-tags><p>{}</p><p>{}</p></section>",
        "<p class=has-text-color><b>{}</b><b>{}</b></p>",
        "<div class=related><p><a rel=tag href=/x>{}</a> <a rel=tag href=/x>{}</a><p><a rel=tag href=/x>{}</a></div>",
    ],
)
def test_furniture_and_lists_that_nothing_names_are_no_fields(html: str) -> None:
    assert found_on(several(html), "product") == {}


def test_titles_of_other_pages_are_no_values() -> None:
    others = "".join(f"<li>Page {word}</li>" for word in WORDS[:4])
    assert found_on(several(f"<h3>Topics</h3><ul>{others}</ul><p>{{}}</p>"), "article") == {}


CRUMBS = (
    '<ol class="breadcrumb"><li><a href="/">{home}</a></li><li><a href="/c/{a}">{a}</a></li>{more}'
    "<li class=active>{title}</li></ol><h1>{title}</h1>"
)


def crumbs(count: int) -> list[str]:
    pages = []
    for at in range(count):
        a, b = WORDS[at % 3], WORDS[3 + at % 5]
        more = f'<li><a href="/c/{a}/{b}">{b}</a></li>' if at % 2 else ""
        pages.append(CRUMBS.format(home="Home", a=a, more=more, title=f"Thing {WORDS[at]}"))
    return pages


def test_a_path_has_neither_the_home_page_nor_the_page_itself() -> None:
    assert found_on(crumbs(4), "product")["categories"] == [
        ["amber"],
        ["birch", "ember"],
        ["cedar"],
        ["amber", "grove"],
    ]


def test_a_path_is_learned_without_its_first_link() -> None:
    pages = [PageBlocks(f"<body>{body}</body>", f"{ORIGIN}/p/{at}") for at, body in enumerate(crumbs(10))]
    path = next(one for one in repeated_parts(pages[:6], "product")[0] if one.name == "categories")
    annotated = [AnnotatedPage.of(page, pointed) for page, pointed in zip(pages[:6], path.values, strict=True)]
    rule = learn_field(path.fields[0], TrainingSet(annotated, pages[6:])).rule
    assert rule is not None
    extractor = compile_extractor(TemplateExtractor("product", (rule,)))
    record = extractor.extract(f"<body>{crumbs(8)[7]}</body>", f"{ORIGIN}/p/7").record
    assert record == {"categories": ["birch", "fjord"]}


def test_reviews_without_a_class_are_found_by_their_columns() -> None:
    html = "<div class=list>" + "".join(
        f"<div class=row><b>{{}}</b><time datetime=2024-05-0{n}>May</time>"
        "<p>What a thing, it has served me well for years now and then: {}</p></div>"
        for n in (1, 2)
    )
    named = [re.sub(r" \d<", "<", page) for page in several(f"{html}</div>")]
    found = found_on(named, "product")
    assert list(found) == ["reviews"]
    assert found["reviews"][0]["reviews.author"] == ["amber", "cedar"]
    assert found["reviews"][0]["reviews.date"] == ["2024-05-01", "2024-05-02"]
    assert list(found_on(named, "forum_thread")) == ["posts"]


@pytest.mark.parametrize(
    ("label", "name"), [("Отзывы (2)", "reviews"), ("Opinie", "reviews"), ("2 Comments", "comments")]
)
def test_groups_are_named_by_labels_in_many_languages(label: str, name: str) -> None:
    row = "<div><b>{}</b><p>A text of some length that somebody has written here about {}</p></div>"
    pages = [re.sub(r" \d<", "<", page) for page in several(f"<h2>{label}</h2><div>{2 * row}</div>")]
    assert list(found_on(pages, "article")) == [name]


@pytest.mark.parametrize(
    "around", ["<section class=related>{}</section>", "<h3>Customers also bought</h3><div>{}</div>", "<div>{}</div>"]
)
def test_teasers_of_other_pages_are_no_group(around: str) -> None:
    teaser = (
        "<div><a href=/product/7/slug-7><b>{}</b></a><i>{}</i><p>A text of more than fifty chars about {}</p></div>"
    )
    assert found_on(several(around.format(2 * teaser)), "product") == {}


def test_what_all_pages_show_is_no_group() -> None:
    said = "<div class=review><b>Ann</b><time datetime=2024-05-01>May</time><p>" + 9 * "Very good. " + "</p></div>"
    said += said.replace("Ann", "Bob")
    assert found_on(several(said + "<p>{}</p>"), "product") == {}


def test_rows_of_a_table_are_named_by_its_head() -> None:
    table = (
        "<h2>Variants</h2><table><thead><tr><th>Colour</th><th>Size</th><th>Price</th></tr></thead><tbody>"
        "<tr><td>{}</td><td>{}</td><td>£1.50</td></tr><tr><td>{}</td><td>{}</td><td>£2.50</td></tr></tbody></table>"
    )
    found = found_on(several(table), "product")
    assert list(found) == ["variants"]
    assert found["variants"][0] == {
        "variants.color": ["amber 0", "cedar 2"],
        "variants.size": ["birch 1", "dune 3"],
        "variants.price": ["£1.50", "£2.50"],
    }


def test_offers_have_a_name_and_a_price() -> None:
    row = "<li class=variant><span>{}</span><del>£9.00</del><b>£5.00</b></li>"
    found = found_on(several(f"<ul>{2 * row}</ul>"), "product")
    assert found["variants"][0] == {
        "variants.name": ["amber 0", "birch 1"],
        "variants.price": ["£5.00", "£5.00"],
        "variants.list_price": ["£9.00", "£9.00"],
    }


def test_of_a_page_with_one_row_nothing_of_the_group_is_said() -> None:
    row = "<li class=review><b class=author>{}</b><p>A text of some length that somebody has written here, {}</p></li>"
    made = [*several(f"<ul>{2 * row}</ul>"), *several(f"<ul>{row}</ul>", count=2)]
    pages = [re.sub(r" \d<", "<", page) for page in made]
    assert [bool(one) for one in found_on(pages, "product")["reviews"]] == [True] * 5 + [False] * 2


def test_what_is_listed_is_found_on_listing_pages_only() -> None:
    card = '<div class=card><a href="/p/{}"><img src="/i/{}.png"><h3>{}</h3></a><b class=price>£3.00</b></div>'
    menu = "<nav><ul>" + "<li><a href=/x>{}</a><i>{}</i></li>" * 2 + "</ul></nav>"
    pages = several(f"{menu}<div class=grid>{2 * card}</div>")
    found = found_on(pages, "product_listing")
    assert list(found) == ["items"]
    assert list(found["items"][0]) == ["items.title", "items.url", "items.price", "items.image"]
    assert found["items"][0]["items.title"] == ["grove 6", "jetty 9"]
    assert found_on(pages, "product") == {}


def test_pictures_of_what_is_sold_are_a_list_of_addresses() -> None:
    made = make_site("shop", 2)
    records = made.records[:12]
    found = found_on([one.html for one in records], "product", [one.path for one in records])
    assert found["images"] == [one.fields["images"] for one in records]
    assert "images" not in found_on([one.html for one in records], "article", [one.path for one in records])


def test_icons_of_all_pages_are_no_pictures_of_what_is_sold() -> None:
    assert found_on(several("<p>{}</p><p><img src=/visa.png><img src=/cash.png></p>"), "product") == {}


def test_two_layouts_of_a_template_make_one_list() -> None:
    first = several("<ul class=tags><li>{}</li><li>{}</li></ul>", count=3)
    second = several("<div class=meta><a rel=tag href=/x>{}</a> <a rel=tag href=/y>{}</a></div>", count=3)
    assert all(found_on([*first, *second], "article")["tags"])


def test_a_group_is_learned_from_what_is_pointed_at() -> None:
    made = make_site("forum", 3)
    pages = [PageBlocks(one.html, ORIGIN + one.path) for one in made.records]
    posts = next(one for one in repeated_parts(pages[:10], "forum_thread")[0] if one.name == "posts")
    annotated = [AnnotatedPage.of(page, pointed) for page, pointed in zip(pages[:10], posts.values, strict=True)]
    group = learn_group("posts", posts.fields, TrainingSet(annotated, pages[10:]))
    extractor = compile_extractor(TemplateExtractor("forum_thread", group.rules, ((group.name, group.rows),)))
    for one in made.records[10:20]:
        record = extractor.extract(one.html, ORIGIN + one.path).record or {}
        assert [post["author"] for post in record["posts"]] == [post["author"] for post in one.fields["posts"]]


def test_all_paragraphs_of_a_post_are_its_text() -> None:
    def post(at: int, number: int) -> str:
        text = "".join(f"<p>It was the <b>{WORDS[at + part]}</b> that I meant.</p>" for part in range(1 + number % 3))
        text = f"<div>{text}<ul><li>so</li></ul></div>"
        return f"<div class=post><b class=author>{WORDS[number]}</b><i>{number}</i>{text}</div>"

    bodies = ["".join(post(at, at + number) for number in range(4)) for at in range(7)]
    pages = [
        PageBlocks(f"<body><h1>Thread {WORDS[at]}</h1><div>{body}</div></body>", f"{ORIGIN}/t/{at}")
        for at, body in enumerate(bodies)
    ]
    posts = next(one for one in repeated_parts(pages[:5], "forum_thread")[0] if one.name == "posts")
    assert [one.name for one in posts.fields] == ["author", "text"]
    annotated = [AnnotatedPage.of(page, pointed) for page, pointed in zip(pages[:5], posts.values, strict=True)]
    group = learn_group("posts", posts.fields, TrainingSet(annotated, pages[5:]))
    extractor = compile_extractor(TemplateExtractor("forum_thread", group.rules, ((group.name, group.rows),)))
    record = extractor.extract(etree.tostring(pages[6].root, encoding="unicode"), f"{ORIGIN}/t/6").record or {}
    meant = "It was the {} that I meant."
    assert record["posts"][2]["text"] == f"{' '.join(meant.format(WORDS[6 + part]) for part in range(3))} so"


@pytest.mark.parametrize(
    "html",
    [
        "",
        "<ul class=tags>" + "<li></li>" * 3_000 + "<li>{}</li><li>{}</li></ul>",
        "<div>" * 300 + "<i class=tag>{}</i><i class=tag>{}</i>" + "</div>" * 300,
        "<table><tr>" + "<td>{}</td>" * 12 + "<td>x</td>" * 3_000 + "</tr></table>",
        "<p class=tags>" + "<a href='http://[x'>{}</a>" * 2 + "</p>",
    ],
)
def test_odd_pages_are_read_in_bounded_work(html: str) -> None:
    found_on(several(html, count=3), "product")
    found_on(several(html, count=1), "listing")


def test_no_pages_have_nothing() -> None:
    assert repeated_parts([], "product")[0] == ()


def test_what_was_done_somewhere_is_a_list_where_one_text_alone_tells_its_rows_apart() -> None:
    row = "<div class='job'><h3>{}</h3><h4>{}</h4><i>since {}</i></div>"
    rows = [[(f"Firm {n}{at}", f"Role {n}{at}", 2001 + at) for at in range(1 + n % 3)] for n in range(6)]
    alike = [[(firm, "Welder", year) for firm, _, year in some] for some in rows]

    def found(pages: list[list[tuple[str, str, int]]]) -> Found:
        heading = "<h1>{}</h1><h2>Work experience</h2>"
        return found_on(
            [heading.format(n) + "".join(row.format(*one) for one in some) for n, some in enumerate(pages)], "person"
        )

    assert found(rows) == {}
    assert found(alike) == {"employers": [[firm for firm, *_ in some] for some in alike]}
    roles = "Welder|Nurse|Data Analyst|Truck Driver|Head of Sales|Librarian".split("|")
    known = [
        [
            (roles[(n + at) % 6], f"{name} GmbH", 2001 + at)
            for at, name in enumerate(("Brandt", "Nordwerk", "Alpen")[: 1 + n % 3])
        ]
        for n in range(6)
    ]
    assert found(known) == {"employers": [[firm for _, firm, _ in some] for some in known]}


def test_words_of_a_line_are_no_ingredients_for_what_is_around_them() -> None:
    """The list has the name of what it stands in as well, and its own rows."""

    def body(at: int) -> str:
        amounts = "".join(f"<div class='card-ingredient'><span>{n + at}0 g of rice {n}</span></div>" for n in (1, 2, 3))
        servings = f"<div class='ingredients-counter'><span>{at}</span> <span>people</span></div>"
        return f"<h1>Soup {at}</h1><h2>Ingredients</h2>{servings}<div class='ingredients-items'>{amounts}</div>"

    found = found_on([body(at) for at in range(1, 6)], "recipe")
    assert found["ingredients"][0] == ["20 g of rice 1", "30 g of rice 2", "40 g of rice 3"]


def test_links_are_lists_of_their_own_by_what_they_say_that_they_lead_to() -> None:
    link = '<a href="/{0}/{1}" rel="{2}">{1}</a>'
    under = [("amber", ["birch", "cedar"]), ("ember", ["grove"]), ("cedar", ["amber", "grove"])]
    bodies = []
    for category, tags in under:
        listed = ", ".join(link.format("x", tag, "tag") for tag in tags)
        filed = link.format("y", category, "category tag")
        bodies.append(f"<article class='hentry category-x'><h1>{tags}</h1><p>In {filed}, {listed}</p></article>")
    assert found_on(bodies, "article")["tags"] == [tags for _, tags in under]


def test_rows_that_are_lists_themselves_are_no_values() -> None:
    row, inner = '<div class="topic-category">{}</div>', '<div class="tags">{}</div>'
    link = '<a href="/t/{0}">{0}</a>'
    bodies = []
    for category, tags in (("amber", ["birch", "cedar"]), ("ember", ["grove", "birch"]), ("cedar", ["ember", "grove"])):
        lists = row.format(link.format(category)) + row.format(inner.format(", ".join(map(link.format, tags))))
        bodies.append(f"<h1>{category} {tags}</h1><div>{lists}</div>")
    assert "categories" not in found_on(bodies, "forum_thread")


def test_a_list_under_details_is_no_description() -> None:
    bodies = [f"<h1>{at}</h1><h4>Details</h4><ul><li>It is no {at}</li><li>Nor {at}</li></ul>" for at in range(4)]
    assert not found_on(bodies, "issue")


def test_the_rows_of_a_table_of_threads_have_a_title_beside_what_its_head_names() -> None:
    head = "<thead><tr><th></th><th>Threads</th><th>Replies</th></tr></thead>"
    row = '<tr><td><i></i></td><td><a href="/t/{0}">About {0}</a> <small>by Ada {0}</small></td><td>{1}</td></tr>'
    pages = [WORDS[at : at + 4] for at in range(4)]
    bodies = [
        f"<table>{head}{''.join(row.format(word, 3 + at) for at, word in enumerate(page))}</table>" for page in pages
    ]
    found = found_on(bodies, "directory")["items"]
    assert [one["items.title"] for one in found] == [[f"About {word}" for word in page] for page in pages]
    assert [one["items.reply_count"] for one in found] == [["3", "4", "5", "6"]] * 4


SAID = "It saves the orchard in spite of the rain and all who came. The second day was as long as the first one."
NICKS = "Juniper tinker71 Gannet yarrow99 BlueHeron50 Wicket".split()


def test_what_people_say_below_an_article_are_comments_though_each_has_an_address() -> None:
    row = (
        "<li class='comment odd'><b class=fn><a href='/2020/05/other-{0}'>{1}</a></b>"
        "<a href='/2020/05/slug-{2}#c{0}'><time datetime=2020-05-1{0}>May 1{0}</time></a><p>{1} says: {3}</p></li>"
    )
    rows = ["".join(row.format(i, NICKS[(n + i) % 6], n, SAID) for i in range(2 + n % 3)) for n in range(6)]
    bodies = [f"<h1>News {n}</h1><p>{SAID}</p><ol>{rows[n]}</ol>" for n in range(6)]
    paths = [f"/2020/05/slug-{n}" for n in range(6)]
    found = found_on(bodies, "article", paths)["comments"]
    assert [one["comments.author"] for one in found] == [
        [NICKS[(n + i) % 6] for i in range(2 + n % 3)] for n in range(6)
    ]


def test_rows_of_a_requested_group_are_found_by_their_classes_and_what_they_look_like() -> None:
    row = "<div class=offer><i class=who>{}</i><i class=amt>${}</i><i class=day>{} May 2021</i></div>"
    rows = ["".join(row.format(NICKS[(n + i) % 6], 90 * n + i, i + 3) for i in range(2 + n % 3)) for n in range(6)]
    bodies = [f"<h1>Car {n}</h1><h3>Bids</h3><div>{rows[n]}</div>" for n in range(6)]
    asked = [Field(name, group="bids") for name in ("who", "price", "date")]
    found = found_on(bodies, "vehicle", requested=asked)["bids"]
    assert rows_of(found[1], "bids", ["who", "price", "date"]) == [
        {"who": NICKS[(1 + i) % 6], "price": f"${90 + i}", "date": f"{i + 3} May 2021"} for i in range(3)
    ]
