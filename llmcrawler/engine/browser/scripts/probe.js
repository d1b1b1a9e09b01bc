// Links that are none in the HTML: router links without href, onclick, and what reacts to a click by going elsewhere.
// (limit: clicks) -> urls. Nothing is sent but GET requests meanwhile.
async (limit) => {
  const state = window.__llmcrawler;
  const urls = [];
  for (const element of state.all("[routerlink], [ng-reflect-router-link], [data-href], [data-link]"))
    for (const name of ["routerlink", "ng-reflect-router-link", "data-href", "data-link"])
      if (element.getAttribute(name)) urls.push(element.getAttribute(name));
  for (const element of state.all("router-link[to], nuxt-link[to]")) urls.push(element.getAttribute("to"));
  const quoted = /["'`]((?:https?:\/)?\/[^"'`\s]*)["'`]/g;
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
