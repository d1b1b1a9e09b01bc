// Runs before the page's own scripts. `probing` is set while links are looked for: then nothing may lead away from the
// page. Routers call history.pushState and show the new view afterwards: an exception keeps the view as it is. Some
// catch it and go on: React Router not when it is of this kind, and Vue Router's console message is where it can come up
// again. `all` looks into open shadow roots too.
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
    return name && value && route.replace(/^#!?\/?/, "") === location.hash.split("?")[0].replace(/^#!?\/?/, "")
      && document.getElementById(decodeURIComponent(value)) !== null;
  };
  state.links = () => state.all("a[href]").filter((link) => /^http/.test(link.href) && !stays(link))
    .map((link) => link.href);
  state.all = (selector) => state.there().flatMap((root) => [...root.querySelectorAll(selector)]);
})();
