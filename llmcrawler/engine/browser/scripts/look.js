// -> {quiet: milliseconds since the page last changed, words, waits: it says that it is loading, or has set a timer}
() => {
  const state = window.__llmcrawler;
  const shadows = state ? state.there().slice(1).flatMap((root) => [...root.children]) : [];
  const text = [document.body, ...shadows].map((element) => element && element.innerText || "").join(" ").trim();
  const words = text ? text.split(/\s+/).length : 0;
  const says = /loading|please wait|one moment|laden|chargement|cargando/i.test(text);
  const waits = words < 25 && (says || Boolean(state && state.timers.size));
  return { quiet: state ? performance.now() - state.changed : 1e9, words, waits };
}
