"""What runs inside of the page. Every script stands alone; names that pages can see begin with __llmcrawler."""

from __future__ import annotations

from typing import Final

# Before the page's own scripts. `probing` is set while links are looked for: then nothing may lead away from the page.
# Routers call history.pushState and show the new view afterwards: an exception keeps the view as it is.
PREPARE: Final = """
(() => {
  const state = { changed: performance.now(), probing: false, urls: [] };
  Object.defineProperty(window, "__llmcrawler", { value: state });
  const note = (url) => {
    if (url !== undefined && url !== null) state.urls.push(String(new URL(url, location.href)));
  };
  for (const name of ["pushState", "replaceState"]) {
    const original = history[name];
    history[name] = function (data, title, url) {
      if (!state.probing) return original.apply(this, arguments);
      note(url);
      throw new Error("no way");
    };
  }
  window.open = (url) => { if (url) note(url); return null; };
  if (window.navigation) navigation.addEventListener("navigate", (event) => {
    if (!state.probing) return;
    if (!event.formData) note(event.destination.url);
    if (event.cancelable) event.preventDefault();
  });
  const watch = () => new MutationObserver(() => { state.changed = performance.now(); })
    .observe(document, { childList: true, subtree: true, characterData: true });
  watch();
})();
"""

# -> {quiet: milliseconds since the page last changed, words, waits: it says that it is loading}
LOOK: Final = """
() => {
  const text = document.body ? document.body.innerText.trim() : "";
  const words = text ? text.split(/\\s+/).length : 0;
  const waits = words < 25 && /loading|please wait|one moment|laden|chargement|cargando/i.test(text);
  const state = window.__llmcrawler;
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
LINKS: Final = (
    "() => [...document.querySelectorAll('a[href]')].map((link) => link.href).filter((url) => /^http/.test(url))"
)

# -> {height, items}: whether a step has brought anything
SIZE: Final = "() => ({ height: document.documentElement.scrollHeight, items: document.querySelectorAll('*').length })"

# One step towards the end of a list: the button that loads more, else the end of the page. -> whether it clicked
MORE: Final = """
() => {
  const wanted = new RegExp("^\\\\W*(?:(?:load|show|view|see|get) (?:\\\\d+ )?more\\\\b|more (?:results|items|products|"
    + "posts|articles|stories)|mehr (?:laden|anzeigen)|weitere .{0,20}(?:laden|anzeigen)|(?:afficher|voir|charger) "
    + "(?:la suite|plus)|(?:cargar|ver|mostrar) m[áa]s|carica altr|mostra altr|meer laden|показать ещ)", "i");
  const pressable = "button, [role=button], a:not([href]), a[href='#'], a[href^='javascript:'], input[type=button]";
  const seen = (element) => element.offsetParent !== null && !element.disabled;
  for (const element of document.querySelectorAll(pressable)) {
    const text = (element.innerText || element.value || element.getAttribute("aria-label") || "").trim();
    if (text.length < 60 && wanted.test(text) && seen(element)) { element.click(); return true; }
  }
  window.scrollTo(0, document.documentElement.scrollHeight);
  for (const element of document.querySelectorAll("main, [role=main], div, ul, section")) {
    const scrolls = /(auto|scroll)/.test(getComputedStyle(element).overflowY);
    if (scrolls && element.scrollHeight > element.clientHeight + 200) element.scrollTop = element.scrollHeight;
  }
  return false;
}
"""

# Links that are none in the HTML: router links without href, onclick, and what reacts to a click by going elsewhere.
# (limit: clicks) -> urls. Nothing is sent but GET requests meanwhile (browser/traffic.py).
PROBE: Final = """
async (limit) => {
  const state = window.__llmcrawler;
  const urls = [];
  for (const element of document.querySelectorAll("[routerlink], [ng-reflect-router-link], [data-href], [data-link]"))
    for (const name of ["routerlink", "ng-reflect-router-link", "data-href", "data-link"])
      if (element.getAttribute(name)) urls.push(element.getAttribute(name));
  for (const element of document.querySelectorAll("router-link[to], nuxt-link[to]"))
    urls.push(element.getAttribute("to"));
  const quoted = /["'`]((?:https?:\\/)?\\/[^"'`\\s]*)["'`]/g;
  for (const element of document.querySelectorAll("[onclick]"))
    for (const [, url] of element.getAttribute("onclick").matchAll(quoted)) urls.push(url);
  if (!state || !limit) return urls;

  const never = new RegExp("delete|remove|buy|add to|basket|cart|log ?out|sign ?out|unsubscribe|accept|reject|cookie|"
    + "close|submit|save|cancel|print|share|download|vote|like|follow|report", "i");
  const is_link = (element) => element.closest("a[href]:not([href='#']):not([href^='javascript:'])");
  const points = (element) => getComputedStyle(element).cursor === "pointer";
  const wanted = [];
  for (const element of document.querySelectorAll("body *")) {
    if (wanted.length >= limit) break;
    const named = element.matches("[role=link], [onclick], button, a:not([href]), a[href='#'], a[href^='javascript:']");
    if (!named && !(points(element) && element.parentElement && !points(element.parentElement))) continue;
    if (is_link(element) || element.closest("form, label, select, summary, [type=submit]")) continue;
    if (element.matches("input, textarea, option, video, audio, iframe")) continue;
    const text = (element.innerText || element.getAttribute("aria-label") || "").trim();
    if (!text || text.length > 400 || (text.length < 80 && never.test(text)) || element.offsetParent === null) continue;
    if (wanted.some((other) => other.contains(element))) continue;
    wanted.push(element);
  }
  window.alert = () => {};
  window.confirm = () => false;
  window.prompt = () => null;
  state.probing = true;
  for (const element of wanted) {
    if (!element.isConnected) continue;
    element.click();
    await new Promise((resolve) => setTimeout(resolve, 0));
  }
  await new Promise((resolve) => setTimeout(resolve, wanted.length ? 150 : 0));
  for (const link of document.querySelectorAll("a[href]")) if (/^http/.test(link.href)) urls.push(link.href);
  return [...urls, ...state.urls];
}
"""
