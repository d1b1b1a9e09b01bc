"""Which pages need a browser."""

import pytest

from llmcrawler.core.content import read_page
from llmcrawler.core.content.render_features import read_page_and_features, read_render_features
from llmcrawler.core.urls import AddressGuard
from llmcrawler.crawl.render_choice import ALWAYS, AUTO, NEVER, RenderChoice, has_gained
from llmcrawler.engine.browser.handler import ContextTurns
from llmcrawler.engine.browser.rendered_page import BrowserRequest, TrafficRules, links_header

SCRIPT = '<script src="/app.js"></script>'
PROSE = "<p>" + "A sentence that somebody wrote for others to read. " * 30 + "</p>"
MENU = "<nav>" + "".join(f'<a href="/{n}">Entry {n}</a> ' for n in range(20)) + "</nav>"

SHELLS = {
    "react": f'<body><noscript>You need to enable JavaScript to run this app.</noscript><div id="root"></div>{SCRIPT}',
    "vue": f'<body><div id="app"></div>{SCRIPT}',
    "angular": '<body><app-root></app-root><script type="module" src="main.js"></script>',
    "it makes its own root": f"<body>{SCRIPT}</body>",
    "inline script": "<body><script>document.body.append('Hello')</script></body>",
    "loading": f'<body><div id="root"><div class="spinner">Loading…</div></div>{SCRIPT}',
    "excuse": f"<body><noscript>This site requires JavaScript.</noscript><p>One moment</p>{SCRIPT}",
    "upper case": '<BODY><DIV ID="app"></DIV><SCRIPT SRC="a.js"></SCRIPT>',
}
NOT_SHELLS = {
    "empty": "",
    "empty body": "<html><body></body></html>",
    "few words, no script": "<body><p>Hello</p></body>",
    "few words and a script": f"<body><h1>404</h1><p>Not found</p>{SCRIPT}</body>",
    "data only": '<body><div id="app"></div><script type="application/ld+json">{"@type": "Thing"}</script></body>',
    "a login": f'<body><form><input name="user"><button>Sign in</button></form><div id="msgs"></div>{SCRIPT}</body>',
    "rendered on the server": f'<body><div id="__next"><main>{PROSE}</main></div>{SCRIPT}</body>',
    "prose": f'<body>{MENU}<main>{PROSE}</main><div id="app"></div>{SCRIPT}</body>',
    "a frame": f'<body>{MENU}<main><iframe src="/x"></iframe></main>{SCRIPT}</body>',
    "a frame beside prose": f'<body>{MENU}<main>{PROSE}<iframe src="/x"></iframe></main>{SCRIPT}</body>',
    "prose and a style": f"<body>{PROSE}<noscript><style>/* javascript */</style><iframe></iframe></noscript>{SCRIPT}",
    "prose in a frame": f"<body>{MENU}<main>{PROSE}<iframe>{PROSE}</iframe></main>{SCRIPT}</body>",
}
SKELETON = '<div class="product-grid">' + '<div class="card skeleton"><span></span></div>' * 12 + "</div>"
PIXEL = '<noscript><img height="1" src="https://pixel.example/tr?noscript=1&js=0" alt="JavaScript"></noscript>'
NOT_SHELLS |= {
    "a pixel for those without scripts": f"<body>{MENU}<main><p>A small shop.</p></main>{PIXEL}{SCRIPT}</body>",
    "no links and prose": f"<body>{PROSE}{SCRIPT}</body>",
}
MAYBE_MORE = {
    "placeholders beside a menu": f"<body>{MENU}<main><h1>Shop</h1>{SKELETON}</main>{SCRIPT}</body>",
    "a script in a file fills it": f'<body>{MENU}<h1>Teas</h1><div id="tea-list"></div>{SCRIPT}</body>',
    "a script makes the only menu": f'<body><header><ul id="menu"></ul></header><main>{PROSE}</main>{SCRIPT}</body>',
    "empty main": f'<body><header>{MENU}</header><main id="content"></main>{SCRIPT}</body>',
    "a script fills it": f'<body>{MENU}<h1>Offers</h1><div id="offers"></div><script>fetch("/o").then(f);'
    'document.getElementById("offers")</script></body>',
    "loading beside a menu": f"<body>{MENU}<div>Loading results, please wait</div>{SCRIPT}</body>",
    "excuse beside a menu": f"<body>{MENU}<noscript>Please enable JavaScript</noscript><p>Hello</p>{SCRIPT}</body>",
}


@pytest.mark.parametrize(
    ("html", "is_shell", "may_be_more"),
    [
        *((html, True, None) for html in SHELLS.values()),
        *((html, False, False) for html in NOT_SHELLS.values()),
        *((html, False, True) for html in MAYBE_MORE.values()),
    ],
    ids=[*SHELLS, *NOT_SHELLS, *MAYBE_MORE],
)
def test_a_shell_is_recognised_and_a_page_with_something_to_read_or_no_script_is_left_alone(
    html, is_shell, may_be_more
):
    signs = read_render_features(html)
    assert (signs.is_shell, signs.may_be_more if may_be_more is not None else None) == (is_shell, may_be_more)


def test_a_page_whose_text_came_as_data_is_left_alone_where_it_links_to_others():
    data = '<script id="__NEXT_DATA__" type="application/json">{"body": "' + "The tea is ready. " * 40 + '"}</script>'
    excuse, waits = "<noscript>Please enable JavaScript</noscript>", "<div>Loading results, please wait</div>"
    for menu, may_be_more in ((MENU, False), (MENU + excuse, False), (MENU + waits, False), ("", True)):
        html = f'<body><div id="__next">{menu}<main></main></div>{data}{SCRIPT}</body>'
        assert read_page_and_features(html, "https://a.test/")[1].may_be_more is may_be_more


@pytest.mark.parametrize(
    ("button", "has_more"),
    [
        ("<button>Load more</button>", True),
        ("<a href='#' class=btn> Show 12 more products </a>", True),
        ("<input type=button value='Weitere Artikel laden'>", True),
        ("<a href='/list?page=2'>Load more</a>", False),  # a link like any other
        ("<button aria-expanded=false>Show more</button>", False),  # of a text that is there
        ("<button>Buy</button>", False),
    ],
)
def test_a_button_for_more_of_a_list_is_noticed(button, has_more):
    html = f"<body><main>{PROSE}{button}</main>{SCRIPT}</body>"
    for features in (read_render_features(html), read_page_and_features(html, "https://a.test/")[1]):
        assert features.has_more is has_more
    choice, url = RenderChoice(AUTO), "https://a.test/"
    assert not choice.wants(url, features)
    assert choice.unpressed == has_more
    assert RenderChoice(AUTO, presses_more=True).wants(url, features) is has_more


@pytest.mark.parametrize(
    ("raw", "rendered", "gained"),
    [
        (SHELLS["react"], f"<body>{PROSE}", True),
        (SHELLS["react"], SHELLS["react"], False),
        (SHELLS["react"], "<body><p>Sold out</p>", True),
        (SHELLS["react"], "<body><p>Loading page</p>", False),
        (SHELLS["vue"], f"<body><div id=app>{MENU}</div>", True),
        (MAYBE_MORE["empty main"], f"<body>{MENU}<main>{PROSE}</main>", True),
        (MAYBE_MORE["empty main"], f"<body>{MENU}<main>No news today</main>", False),
        (f"<body>{PROSE}{SCRIPT}", f"<body>{PROSE}<p>Accept our cookies, please.</p>", False),
        (MAYBE_MORE["a script makes the only menu"], f"<body>{MENU}{PROSE}", True),
    ],
)
def test_gain_is_measured_in_what_there_is_to_read(raw, rendered, gained):
    before, after = (read_render_features(html, is_rendered=True) for html in (raw, rendered))
    assert has_gained(before, after) is gained


SHELL, FINE = read_render_features(SHELLS["vue"]), read_render_features(NOT_SHELLS["prose"])
MAYBE = read_render_features(MAYBE_MORE["empty main"])
FULL = read_render_features(f"<body><main>{PROSE}</main>", is_rendered=True)


def test_a_template_that_gained_goes_straight_to_the_browser_and_others_do_not():
    choice = RenderChoice(AUTO)
    for number in (1, 2):
        url = f"https://a.example/item/{number}"
        assert not choice.goes_straight(url)
        assert choice.wants(url, MAYBE)
        assert choice.note(url, MAYBE, FULL)
    assert choice.goes_straight("https://a.example/item/3")
    assert not choice.goes_straight("https://a.example/about")
    assert not choice.goes_straight("https://b.example/item/3")


def test_a_template_whose_trials_gained_nothing_is_left_alone_but_for_a_look_now_and_then():
    choice = RenderChoice(AUTO)
    asked = []
    for number in range(40):
        url = f"https://a.example/item/{number}"
        asked.append(choice.wants(url, MAYBE))
        if asked[-1]:
            choice.note(url, MAYBE, MAYBE)
    assert asked[:3] == [True] * 3
    assert sum(asked) <= 8
    assert any(asked[3:])


def test_where_one_shape_of_url_holds_both_kinds_each_page_is_looked_at():
    choice = RenderChoice(AUTO)
    for number in range(3):
        choice.wants(f"https://a.example/p/{number}", SHELL)
        choice.note(f"https://a.example/p/{number}", SHELL, FULL)
    assert not choice.wants("https://a.example/p/77", FINE)
    assert not choice.goes_straight("https://a.example/p/78")
    assert choice.wants("https://a.example/p/78", SHELL)


def test_never_and_always_ask_nothing():
    assert not RenderChoice(NEVER).wants("https://a.example/", SHELL)
    assert not RenderChoice(NEVER).goes_straight("https://a.example/")
    assert RenderChoice(ALWAYS).goes_straight("https://a.example/")


def test_links_survive_a_header():
    header = links_header(
        ["/a b", "#/r ü?q=1", "#there", "https://x.example/ü?q=1", "javascript:void(0)", "../c"],
        "https://x.example/d/e",
    )
    assert header.split() == [
        "https://x.example/a%20b", "https://x.example/d/e#/r%20%C3%BC?q=1", "https://x.example/d/e",
        "https://x.example/%C3%BC?q=1", "https://x.example/c",
    ]  # fmt: skip
    assert header.isascii()


def test_contexts_are_closed_after_their_pages_and_never_under_an_open_page():
    turns = ContextTurns(max_pages=2)
    first, second, third = turns.enter("direct"), turns.enter("direct"), turns.enter("direct")
    assert first == second != third
    assert turns.leave(first) == []
    assert turns.leave(second) == [first]
    assert turns.leave(third) == []


def test_no_more_contexts_are_open_than_wanted():
    turns = ContextTurns(max_pages=50, max_open=2)
    names = [turns.enter(f"proxy {number}") for number in range(4)]
    assert [turns.leave(name) for name in names] == [[names[0]], [names[1]], [], []]


RULES = TrafficRules(
    refuse_url=AddressGuard(["http://localhost:631/"]).reason_to_refuse, is_forbidden=lambda url: "/private/" in url
)


LOCAL = "http://localhost:631/"


@pytest.mark.parametrize(
    ("ask", "reason"),
    [
        (BrowserRequest("https://a.example/app.js", "Script"), None),
        (BrowserRequest("https://a.example/api", "Fetch", "POST"), None),
        (BrowserRequest("https://a.example/a.png", "Image"), "kind"),
        (BrowserRequest("https://a.example/favicon.ico", "Other"), "kind"),
        (BrowserRequest("https://a.example/a.woff2", "Font"), "kind"),
        (BrowserRequest("https://a.example/a.mp4", "Media"), "kind"),
        (BrowserRequest("https://a.example/frame", "Document"), "kind"),
        (BrowserRequest("https://a.example/", "Document", is_page=True), None),
        (BrowserRequest("http://10.0.0.1/metadata", "Fetch"), "private_address"),
        (BrowserRequest(LOCAL, "Document", is_page=True, source="https://a.example/"), "private_address"),
        (BrowserRequest(f"{LOCAL}a", "Fetch", "POST", source=LOCAL), None),
        (BrowserRequest("http://localhost:632/a", "Fetch", "POST", source=LOCAL), "private_address"),
        (BrowserRequest("https://a.example/private/x", "XHR"), "robots"),
        (BrowserRequest("file:///etc/passwd", "Fetch"), "scheme"),
        (BrowserRequest("data:text/plain,x", "Fetch"), None),
    ],
)
def test_what_a_page_asks_for_is_judged(ask, reason):
    assert RULES.reason_to_block(ask, probing=False) == reason


def test_what_a_page_posts_while_it_is_probed_is_blocked():
    post, get = (BrowserRequest("https://a.example/api", "Fetch", method) for method in ("POST", "GET"))
    assert [RULES.reason_to_block(one, probing=True) for one in (post, get)] == ["probing", None]


@pytest.mark.parametrize("html", [*SHELLS.values(), *NOT_SHELLS.values(), *MAYBE_MORE.values()])
def test_one_parse_says_the_same_of_content_and_signs_as_two(html):
    url = "https://a.test/"
    (content, signs), alone = read_page_and_features(html, url), read_render_features(html)
    assert content == read_page(html, url)
    if alone.own_words > 150 and alone.scripts and alone.links:  # whatever else there is to know, no browser is wanted
        assert 150 < signs.own_words <= alone.own_words
        assert not signs.may_be_more
        assert not alone.may_be_more
    else:
        assert signs == alone


@pytest.mark.parametrize(
    "around",
    [
        "<nav>{}</nav>",
        '<div role="navigation"><p role="banner">a</p>{}</div>',
        "<div hidden>{}</div>",
        "<noscript>{}</noscript>",
    ],
)
def test_what_stands_around_the_content_or_is_hidden_makes_no_full_page(around):
    html = f"<body>{around.format(PROSE)}<main></main>{SCRIPT}"
    assert read_page_and_features(html, "https://a.test/")[1] == read_render_features(html)
