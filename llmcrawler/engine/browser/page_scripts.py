"""Scripts that run inside of the page, and the header for the links that they find beside the body.

Every script stands alone; names that pages can see begin with __llmcrawler.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final
from urllib.parse import quote

from llmcrawler.core.urls import normalise_with_route

LINKS_HEADER: Final = "X-Rendered-Links"
_MAX_LINKS: Final = 1000

# Before the page's own scripts. `probing` is set while links are looked for: then nothing may lead away from the page.
# Routers call history.pushState and show the new view afterwards: an exception keeps the view as it is. Some catch it
# and go on: React Router not when it is of this kind, and Vue Router's console message is where it can come up again.
# `all` looks into open shadow roots too.
PREPARE: Final = """
(() => {
  const state = { changed: performance.now(), probing: false, urls: [], roots: [], timers: new Set() };
  Object.defineProperty(window, "__llmcrawler", { value: state });
  const note = (url) => {
    if (url !== undefined && url !== null) state.urls.push(String(new URL(url, location.href)));
  };
  const no_way = new DOMException("no way", "DataCloneError");
  for (const name of ["pushState", "replaceState"]) {
    const original = history[name];
    history[name] = function (data, title, url) {
      if (!state.probing) return original.apply(this, arguments);
      if (url === undefined || url === null || new URL(url, document.baseURI).href === location.href) return;
      note(url);
      throw no_way;
    };
  }
  for (const name of ["error", "warn"]) {
    const original = console[name];
    console[name] = function (...words) {
      if (state.probing && words.includes(no_way)) throw no_way;
      return original.apply(this, words);
    };
  }
  window.open = (url) => { if (url) note(url); return null; };
  if (window.navigation) navigation.addEventListener("navigate", (event) => {
    if (!state.probing) return;
    if (!event.formData) note(event.destination.url);
    if (event.cancelable) event.preventDefault();
  });
  const metas = [];
  Object.defineProperty(state, "metas", { value: () => metas.map((meta) => [...meta]) });
  const watcher = new MutationObserver((records) => {
    state.changed = performance.now();
    if (document.readyState !== "loading") return;
    // As the server sent them: this runs before the page's scripts may change them.
    for (const { addedNodes } of records) for (const node of addedNodes)
      if (node.nodeName === "META" && node.name && metas.length < 100)
        metas.push([node.name.slice(0, 100), node.content.slice(0, 2000)]);
  });
  const watch = (root) => watcher.observe(root, { childList: true, subtree: true, characterData: true });
  watch(document);
  const attach = Element.prototype.attachShadow;
  Element.prototype.attachShadow = function (options) {
    const root = attach.apply(this, arguments);
    if (options.mode === "open") { state.roots.push(root); watch(root); }
    return root;
  };
  const [set_timer, clear_timer] = [window.setTimeout, window.clearTimeout];
  window.setTimeout = function (work, delay, ...given) {
    if (typeof work !== "function" || !(delay >= 100 && delay <= 10000)) return set_timer.apply(this, arguments);
    const timer = set_timer(() => { state.timers.delete(timer); work.apply(window, given); }, delay);
    state.timers.add(timer);
    return timer;
  };
  window.clearTimeout = (timer) => { state.timers.delete(timer); clear_timer(timer); };
  state.there = () => [document, ...state.roots.filter((root) => root.host.isConnected)];
  // Not what leads to a place on this page: "#/here?id=below" where there is an element of that name.
  const stays = (link) => {
    const [route, name] = link.hash.split("?");
    const value = (name || "").split("=").pop();
    return name && value && route.replace(/^#!?\\/?/, "") === location.hash.split("?")[0].replace(/^#!?\\/?/, "")
      && document.getElementById(decodeURIComponent(value)) !== null;
  };
  state.links = () => state.all("a[href]").filter((link) => /^http/.test(link.href) && !stays(link))
    .map((link) => link.href);
  state.all = (selector) => state.there().flatMap((root) => [...root.querySelectorAll(selector)]);
})();
"""

# -> {quiet: milliseconds since the page last changed, words, waits: it says that it is loading, or has set a timer}
LOOK: Final = """
() => {
  const state = window.__llmcrawler;
  const shadows = state ? state.there().slice(1).flatMap((root) => [...root.children]) : [];
  const text = [document.body, ...shadows].map((element) => element && element.innerText || "").join(" ").trim();
  const words = text ? text.split(/\\s+/).length : 0;
  const says = /loading|please wait|one moment|laden|chargement|cargando/i.test(text);
  const waits = words < 25 && (says || Boolean(state && state.timers.size));
  return { quiet: state ? performance.now() - state.changed : 1e9, words, waits };
}
"""

# -> the page as HTML, with what stands in open shadow roots at its place
SNAPSHOT: Final = """
() => {
  const hosts = [...document.querySelectorAll("*")].some((element) => element.shadowRoot);
  const doctype = document.doctype ? "<!DOCTYPE html>" : "";
  if (!hosts) return doctype + document.documentElement.outerHTML;
  const copy = (node) => {
    const clone = node.cloneNode(false);
    const shadow = node.shadowRoot;
    const slotted = node.nodeName === "SLOT" && node.assignedNodes ? node.assignedNodes() : [];
    const children = shadow ? shadow.childNodes : slotted.length ? slotted : node.childNodes;
    for (const child of children) if (!(child.nodeName === "STYLE" && shadow)) clone.appendChild(copy(child));
    return clone;
  };
  return doctype + copy(document.documentElement).outerHTML;
}
"""

# -> the urls of all links
LINKS: Final = "() => window.__llmcrawler.links()"

# -> the meta elements that the server sent, as pairs of name and content
METAS: Final = "() => window.__llmcrawler.metas()"

# -> {height, items}: whether a step has brought anything
SIZE: Final = "() => ({ height: document.documentElement.scrollHeight, items: window.__llmcrawler.all('*').length })"

# One step towards the end of a list: the button that loads more, else the end of the page. -> whether it clicked
MORE: Final = """
() => {
  const wanted = new RegExp("^\\\\W*(?:(?:load|show|view|see|get) (?:\\\\d+ )?more\\\\b|more (?:results|items|products|"
    + "posts|articles|stories)|mehr (?:laden|anzeigen)|weitere .{0,20}(?:laden|anzeigen)|(?:afficher|voir|charger) "
    + "(?:la suite|plus)|(?:cargar|ver|mostrar) m[áa]s|carica altr|mostra altr|meer laden|показать ещ)", "i");
  const pressable = "button, [role=button], a:not([href]), a[href='#'], a[href^='javascript:'], input[type=button]";
  const seen = (element) => element.offsetParent !== null && !element.disabled;
  for (const element of window.__llmcrawler.all(pressable)) {
    const text = (element.innerText || element.value || element.getAttribute("aria-label") || "").trim();
    if (text.length < 60 && wanted.test(text) && seen(element)) { element.click(); return true; }
  }
  window.scrollTo(0, document.documentElement.scrollHeight);
  for (const element of window.__llmcrawler.all("main, [role=main], div, ul, section")) {
    const scrolls = /(auto|scroll)/.test(getComputedStyle(element).overflowY);
    if (scrolls && element.scrollHeight > element.clientHeight + 200) element.scrollTop = element.scrollHeight;
  }
  return false;
}
"""

# Links that are none in the HTML: router links without href, onclick, and what reacts to a click by going elsewhere.
# (limit: clicks) -> urls. Nothing is sent but GET requests meanwhile (page_traffic.py).
PROBE: Final = """
async (limit) => {
  const state = window.__llmcrawler;
  const urls = [];
  for (const element of state.all("[routerlink], [ng-reflect-router-link], [data-href], [data-link]"))
    for (const name of ["routerlink", "ng-reflect-router-link", "data-href", "data-link"])
      if (element.getAttribute(name)) urls.push(element.getAttribute(name));
  for (const element of state.all("router-link[to], nuxt-link[to]")) urls.push(element.getAttribute("to"));
  const quoted = /["'`]((?:https?:\\/)?\\/[^"'`\\s]*)["'`]/g;
  for (const element of state.all("[onclick]"))
    for (const [, url] of element.getAttribute("onclick").matchAll(quoted)) urls.push(url);
  if (!limit) return urls;

  const never = new RegExp("delete|remove|buy|add to|basket|cart|log ?out|sign ?out|unsubscribe|accept|reject|cookie|"
    + "close|submit|save|cancel|print|share|download|vote|like|follow|report", "i");
  const is_link = (element) => element.closest("a[href]:not([href='#']):not([href^='javascript:'])");
  const points = (element) => getComputedStyle(element).cursor === "pointer";
  const parent_of = (element) => element.parentElement || element.getRootNode().host;
  const wanted = [];
  for (const element of state.all("*")) {
    if (wanted.length >= limit) break;
    const says = element.matches("[role=link], [onclick], button, a:not([href]), a[href='#'], a[href^='javascript:']");
    if (!says && !(points(element) && parent_of(element) && !points(parent_of(element)))) continue;
    if (is_link(element) || element.closest("form, label, select, summary, [type=submit]")) continue;
    if (element.matches("input, textarea, option, video, audio, iframe")) continue;
    const name = element.innerText || element.getAttribute("aria-label") || element.getRootNode().host?.innerText;
    const text = (name || "").trim();
    if (!text || text.length > 400 || (text.length < 80 && never.test(text)) || element.offsetParent === null) continue;
    if (wanted.some((other) => other.contains(element))) continue;
    wanted.push(element);
  }
  window.alert = () => {};
  window.confirm = () => false;
  window.prompt = () => null;
  state.probing = true;
  for (const element of wanted) {
    element.click();  // also one that another click has removed: most of what listened to it still does
    await new Promise((resolve) => setTimeout(resolve, 0));
  }
  await new Promise((resolve) => setTimeout(resolve, wanted.length ? 150 : 0));
  return [...urls, ...state.links(), ...state.urls];
}
"""


def links_header(found: Iterable[str], base: str) -> str:
    """Return the header's value for links as the page's scripts named them: absolute or relative, in any characters."""
    urls: dict[str, None] = {}
    for reference in found:
        url = normalise_with_route(reference.strip(), base)
        if url is not None:
            urls[quote(url, safe="%/:?#[]@!$&'()*+,;=~-._")] = None
        if len(urls) >= _MAX_LINKS:
            break
    return " ".join(urls)
