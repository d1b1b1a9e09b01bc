"use strict";
/* Lists the pages that are not the same in two crawls. */
(() => {
  const { $, element, number, away, Listing } = shared;
  const { rows } = JSON.parse($("data").textContent);
  document.documentElement.classList.add("scripted");
  const [KIND, URL, TITLE, TYPE, CHANGES] = [0, 1, 2, 3, 4];
  const texts = rows.map((row) => `${row[TITLE]} ${row[URL]} ${row[CHANGES].flat().join(" ")}`.toLowerCase());
  const columns = { kind: KIND, type: TYPE, title: TITLE };
  const value = (tag, text) => text == null ? element("span", { class: "none" }, "no value") : element(tag, {}, element("bdi", {}, String(text)));
  const pages = new Listing("pages", {
    noun: "pages", rows: () => [...rows.keys()], text: (row) => texts[row],
    value: (column, row) => rows[row][columns[column]] || rows[row][URL],
    tests: (form) => [
      ...["kind", "type"].map((name) => form.elements[name].value && ((row) => rows[row][columns[name]] === form.elements[name].value)),
      form.elements.field.value && ((row) => rows[row][CHANGES].some(([name]) => name === form.elements.field.value)),
    ],
    rowOf(row) {
      const [kind, url, title, type, changes] = rows[row];
      return element("tr", {},
        element("td", {}, away(url, element("bdi", {}, title || url)), title ? element("bdi", { class: "address" }, url) : null),
        element("td", { "data-label": "change" }, element("span", { class: `kind ${kind}` }, kind)),
        element("td", { "data-label": "type" }, type),
        element("td", {}, changes.length ? element("dl", {}, ...changes.flatMap(([name, before, after]) => [
          element("dt", {}, name), before == null && after == null ? element("dd", {}, "is another") : element("dd", {}, value("del", before), " → ", value("ins", after)),
        ])) : null));
    },
  });
  for (const [name, all] of [["kind", rows.map((row) => row[KIND])], ["type", rows.map((row) => row[TYPE])], ["field", rows.flatMap((row) => row[CHANGES].map(([field]) => field))]]) {
    const counts = new Map();
    for (const one of all) if (one) counts.set(one, (counts.get(one) || 0) + 1);
    for (const [one, count] of [...counts].sort((a, b) => b[1] - a[1]).slice(0, 300))
      pages.form.elements[name].append(element("option", { value: one }, `${one} (${number(count)})`));
  }
  document.addEventListener("click", ({ target }) => {
    const button = target.closest("button[data-filter]");
    if (!button) return;
    pages.form.reset();
    pages.form.elements.kind.value = button.dataset.filter;
    pages.filter();
    $("pages").scrollIntoView();
    $("pages").focus({ preventScroll: true });
  });
  pages.filter();
})();
