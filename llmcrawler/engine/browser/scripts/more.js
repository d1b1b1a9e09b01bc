// One step towards the end of a list: the button that loads more, else the end of the page. -> whether it clicked
({ loadsMore, pressable }) => {
  const wanted = new RegExp(loadsMore, "i");
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
