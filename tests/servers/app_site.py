"""A single-page app in plain JavaScript, and on the same host some plain pages, pages that are half made by scripts,
and a list that grows. Raw, the app's pages are one and the same empty shell. /hash/ is an app behind the "#", with its
menu in a shadow root, and buttons of a router that catches what goes wrong, as Vue Router does.
"""

from __future__ import annotations

import json

from aiohttp import web

from tests.servers.mock_pages import layout, paragraphs
from tests.servers.mock_site import Handler, MockSite, html

ITEMS = 12
FEED_BATCHES = 3

SHELL = (
    '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>App</title><link rel="icon" href="/icon.png">'
    "</head><body><noscript>You need to enable JavaScript to run this app.</noscript>"
    '<div id="root"></div><script src="/app/app.js"></script></body></html>'
)

APP = """
const root = document.getElementById("root");
const get = (path) => fetch(path).then((answer) => answer.json());
const menu = '<nav><a href="/app/">Home</a> <a href="/app/items">Items</a> <span style="cursor:pointer" '
  + 'data-to="/app/team">Our team</span> <button data-to="/app/contact">Contact</button></nav>'
  + '<img src="/app/photo.png">';
const views = {
  "/app/": async () => "<h1>Welcome to the app</h1><p>Everything here is made by scripts, and there is a lot of it "
    + "to read for those who stay a while and look around.</p><a href='/plain/'>Plain</a> <a href='/half/'>Half</a>",
  "/app/items": async () => "<h1>Items</h1><ul>" + (await get("/app/api/items")).map((item) =>
    `<li><a href="/app/item/${item.id}">${item.name}</a></li>`).join("") + "</ul>",
  "/app/team": async () => "<h1>Our team</h1>" + (await get("/app/api/text?seed=77")).text,
  "/app/contact": async () => "<h1>Contact</h1>" + (await get("/app/api/text?seed=78")).text,
};
async function show() {
  const path = location.pathname;
  const number = (path.match(/^.app.item.(\\d+)$/) || [])[1];
  const view = number ? async () => { const item = await get("/app/api/items/" + number);
    return `<article><h1>${item.name}</h1><p class="price">${item.price}</p>${item.text}</article>`; } : views[path];
  document.title = path;
  root.innerHTML = menu + "<main>" + (view ? await view() : "<h1>Nothing here</h1><p>No such view.</p>") + "</main>";
}
document.addEventListener("click", (event) => {
  const to = event.target.dataset && event.target.dataset.to;
  if (to) { history.pushState(null, "", to); show(); }
});
window.addEventListener("popstate", show);
show();
"""

HASH = """
const root = document.getElementById("root");
const menu = document.createElement("nav").attachShadow({ mode: "open" });
menu.innerHTML = '<a href="#/lamps">Lamps</a> <button>Team</button> <button>Press</button>';
const words = " pages are all behind the mark, and there is enough to read on each one of them.";
function show() {
  const name = location.hash.replace("#/", "");
  root.replaceChildren(menu.host, document.createElement("main"));
  root.lastChild.innerHTML = `<h1 id="top">${name || "Front"}</h1><a href="#/${name}?id=top">Up</a>`
    + `<p>${name}${words}</p>`;
}
async function go(name) {
  await null;
  try { history.replaceState({ scroll: 0 }, ""); history.pushState(null, "", "#/" + name); }
  catch (error) { console.error(error); location.assign("#/" + name); }
  root.textContent = "Another view";
}
for (const button of menu.querySelectorAll("button"))
  button.onclick = () => root.contains(menu.host) && go(button.textContent.toLowerCase());
addEventListener("hashchange", show);
setTimeout(show, 600);
"""

HALF = (
    "<script>fetch('/app/api/text?seed=' + location.pathname.split('/').pop()).then((answer) => answer.json())"
    ".then((value) => { document.getElementById('content').innerHTML = value.text; });</script>"
)
FEED = """
<script>
let batch = 0;
async function more() {
  const answer = await fetch("/app/api/feed?batch=" + batch++);
  for (const name of await answer.json()) {
    const entry = document.createElement("p");
    entry.innerHTML = '<a href="/plain/feed-' + name + '">Entry ' + name + '</a>';
    entry.style.height = "900px";
    document.getElementById("feed").appendChild(entry);
  }
}
let busy = false;
addEventListener("scroll", async () => { if (!busy) { busy = true; await more(); busy = false; } });
more();
</script>
"""

PRODUCTS = [f'<p><a href="/plain/p{n}">Lamp {n}</a> of brushed brass with a shade of linen.</p>' for n in range(30)]
LOAD_MORE = f"""
<button onclick="more()">Load more products</button>
<script>
const rest = {PRODUCTS[10:]};
function more() {{ document.getElementById("list").insertAdjacentHTML("beforeend", rest.splice(0, 10).join("")); }}
</script>
"""


class AppSite(MockSite):
    def __init__(self, *, latency_seconds: float = 0.0, routes: dict[str, str | Handler] | None = None) -> None:
        plain = "".join(f'<a href="/plain/{number}">Plain {number}</a> ' for number in range(1, 6))
        half = "".join(f'<a href="/half/{number}">Half {number}</a> ' for number in range(1, 6))
        own: dict[str, str | Handler] = {
            "/robots.txt": _robots,
            "/app/app.js": _script,
            "/app/photo.png": _picture,
            "/app/*": SHELL,
            "/hash/": SHELL.replace('<script src="/app/app.js">', f"<script>{HASH}"),
            "/app/api/*": _api,
            "/plain/": layout("Plain pages", f"<h1>Plain pages</h1>{paragraphs(2, 3)}{plain}", head=_counter()),
            "/plain/*": _plain,
            "/half/": layout("Half", f"<h1>Half</h1>{paragraphs(2, 4)}{half}"),
            "/half/*": layout("Half made", "") + HALF,
            "/products": layout("Lamps", f'<h1>Lamps</h1><div id="list">{"".join(PRODUCTS[:10])}</div>') + LOAD_MORE,
            "/feed": layout("Feed", '<h1>Feed</h1><div id="feed"></div>') + FEED,
        }
        super().__init__({**own, **(routes or {})}, latency_seconds=latency_seconds)


def _counter() -> str:
    """What most plain pages have: scripts that add nothing."""
    return "<script>window.counted = (window.counted || 0) + 1;</script>"


async def _robots(_: web.Request) -> web.Response:
    return web.Response(text="User-agent: *\nDisallow: /private/\n")


async def _script(_: web.Request) -> web.Response:
    return web.Response(text=APP, content_type="text/javascript", headers={"Cache-Control": "max-age=600"})


async def _picture(_: web.Request) -> web.Response:
    return web.Response(body=b"\x89PNG", content_type="image/png")


async def _plain(request: web.Request) -> web.Response:
    number = request.path.rpartition("/")[2]
    return html(layout(f"Plain {number}", f"<h1>Plain {number}</h1>{paragraphs(4, len(number))}", head=_counter()))


async def _api(request: web.Request) -> web.Response:
    name = request.path.rpartition("/")[2]
    if name == "items":
        return web.json_response([{"id": number, "name": f"Item {number}"} for number in range(1, ITEMS + 1)])
    if name == "text":
        return web.json_response({"text": paragraphs(4, len(request.query.get("seed", "")))})
    if name == "feed":
        batch = int(request.query["batch"])
        found = range(10 * batch, 10 * batch + 3) if batch < FEED_BATCHES else []
        return web.json_response(list(found))
    number = int(name)
    item = {"name": f"Item {number}", "price": f"${number}.00", "text": paragraphs(3, number)}
    return web.Response(text=json.dumps(item), content_type="application/json")
