"use strict";
/* Lists to search, filter, sort and turn over, and a look at one page. Text of strangers' pages goes in as text
   (textContent), never as HTML; a stored page goes into a frame where nothing runs and nothing is fetched. */
const shared = (() => {
  const $ = (id) => document.getElementById(id);
  function element(name, attributes, ...children) {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes || {})) if (value != null) made.setAttribute(key, value);
    made.append(...children.filter((child) => child != null));
    return made;
  }
  const webLink = (url) => /^https?:\/\/[^/]/i.test(url);
  const number = (value) => value == null ? "–" : value.toLocaleString("en-US");
  const away = (url, text) => webLink(url)
    ? element("a", { href: url, target: "_blank", rel: "noopener noreferrer nofollow" }, text) : text;
  const collator = new Intl.Collator("en", { numeric: true, sensitivity: "base" });
  const compare = (x, y) => typeof x === "number" && typeof y === "number" ? x - y : collator.compare(String(x), String(y));

  /* The list in the section `id`. `rows()` are its rows, `text(row)` what is searched, `value(column, row)` what is
     sorted by, `tests(form)` what the form asks for besides words, `rowOf(row)` the element. */
  class Listing {
    constructor(id, { noun, rows, text, value, tests, rowOf }) {
      Object.assign(this, { noun, rows, text, value, tests, rowOf, first: 0, order: null, fitting: [] });
      this.section = $(id);
      this.form = this.section.querySelector("form");
      this.table = this.section.querySelector("table.list");
      this.found = this.section.querySelector(".found");
      [this.previous, this.next] = this.section.querySelectorAll(".pager button");
      this.place = this.section.querySelector(".pager span");
      this.atOnce = innerWidth < 700 ? 20 : 50;
      this.form.addEventListener("input", () => this.filter());
      this.form.addEventListener("submit", (event) => event.preventDefault());
      this.form.addEventListener("reset", () => setTimeout(() => this.filter()));
      this.previous.addEventListener("click", () => this.turn(-1));
      this.next.addEventListener("click", () => this.turn(1));
      this.table.tHead.addEventListener("click", ({ target }) => {
        const button = target.closest("button[data-sort]");
        if (button) this.sortBy(button);
      });
    }
    filter() {
      const words = this.form.elements.text.value.trim().toLowerCase().split(/\s+/).filter(Boolean);
      const tests = this.tests(this.form).filter(Boolean);
      if (words.length) tests.push((row) => { const text = this.text(row); return words.every((word) => text.includes(word)); });
      this.all = this.rows();
      this.fitting = this.all.filter((row) => tests.every((test) => test(row)));
      this.sort();
      this.first = 0;
      this.list();
    }
    sortBy(button) {
      const column = button.dataset.sort, sign = this.order && this.order.column === column ? -this.order.sign : 1;
      this.order = { column, sign };
      for (const head of this.table.tHead.rows[0].cells) head.removeAttribute("aria-sort");
      button.closest("th").setAttribute("aria-sort", sign > 0 ? "ascending" : "descending");
      this.sort();
      this.first = 0;
      this.list();
    }
    sort() {
      if (!this.order) return;
      const { column, sign } = this.order;
      const places = new Map(this.fitting.map((row, place) => [row, place]));
      this.fitting.sort((a, b) => {
        const [x, y] = [this.value(column, a), this.value(column, b)];
        if (x == null || y == null) return (x == null) - (y == null) || places.get(a) - places.get(b);  // unknown last
        return sign * compare(x, y) || places.get(a) - places.get(b);
      });
    }
    list() {
      const { fitting, all, first, atOnce, noun } = this;
      this.table.tBodies[0].replaceChildren(...fitting.slice(first, first + atOnce).map((row) => this.rowOf(row)));
      this.found.textContent = fitting.length === all.length ? `${number(all.length)} ${noun}` : `${number(fitting.length)} of ${number(all.length)} ${noun} fit`;
      this.place.textContent = fitting.length ? `${number(first + 1)} to ${number(Math.min(first + atOnce, fitting.length))}` : "";
      this.previous.disabled = first === 0;
      this.next.disabled = first + atOnce >= fitting.length;
    }
    turn(by) {
      this.first = Math.max(0, this.first + by * this.atOnce);
      this.list();
      this.section.scrollIntoView();
    }
  }

  /* -- a look at one page ----------------------------------------------------------------------------------------- */
  const POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";
  const MARKS = `:root{color-scheme:light;background:#fff;color:#17202b}body{font:15px/1.5 system-ui,sans-serif;margin:12px;overflow-wrap:anywhere}
    img{max-width:100%;font-size:12px;color:#5a6675}table{border-collapse:collapse}td,th{border:1px solid #dfe3e8;padding:2px 6px;text-align:left}
    [data-llmcrawler]{outline:2px solid #b4560a!important;outline-offset:2px;background:#fff3d6!important;color:#17202b!important;scroll-margin:40px;visibility:visible!important;opacity:1!important}
    [data-llmcrawler]::before{content:attr(data-llmcrawler);font:600 11px/1.5 ui-monospace,monospace;background:#8a3f00;color:#fff;padding:0 5px;margin-right:6px;border-radius:3px;display:inline-block}
    [data-llmcrawler]:target{outline:4px solid #b3261e!important;background:#ffe0b8!important}`;
  const pieces = new Map();
  async function unpack(at) {
    if (!pieces.has(at)) {
      const packed = Uint8Array.from(atob($(`piece-${at}`).textContent), (letter) => letter.charCodeAt(0));
      const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
      pieces.clear();  // one is enough: neighbours are in the same
      pieces.set(at, JSON.parse(await new Response(stream).text()));
    }
    return pieces.get(at);
  }

  /* The dialog that shows one page at a time. `describe(row)` gives its title, url and facts, `places[row]` where its
     details are packed; `noHtml` says why there is no stored page. */
  class Look {
    constructor({ describe, places, noHtml }) {
      Object.assign(this, { describe, places, noHtml, row: null, rows: [] });
      this.dialog = $("look");
      for (const button of this.dialog.querySelectorAll("[data-by]")) button.addEventListener("click", () => this.turn(Number(button.dataset.by)));
      $("look-close").addEventListener("click", () => this.dialog.close());
      this.dialog.addEventListener("click", ({ target }) => { if (target === this.dialog) this.dialog.close(); });
      this.dialog.addEventListener("close", () => $("look-page").replaceChildren());
      for (const choice of document.getElementsByName("look-at")) choice.addEventListener("change", () => this.choose());
    }
    open(row, rows) {
      this.rows = rows;
      this.show(row);
      if (!this.dialog.open) this.dialog.showModal();
    }
    turn(by) {
      const at = this.rows.indexOf(this.row) + by;
      if (at >= 0 && at < this.rows.length) this.show(this.rows[at]);
    }
    async show(row) {
      this.row = row;
      const { title, url, facts } = this.describe(row), at = this.rows.indexOf(row);
      $("look-title").replaceChildren(element("bdi", {}, title));
      $("look-url").replaceChildren(away(url, element("bdi", {}, url)));
      $("look-facts").replaceChildren(...facts.filter(Boolean).map((fact) => element("span", {}, fact)));
      $("look-place").textContent = `${number(at + 1)} of ${number(this.rows.length)}`;
      for (const button of this.dialog.querySelectorAll("[data-by]")) button.disabled = !this.rows[at + Number(button.dataset.by)] && this.rows[at + Number(button.dataset.by)] !== 0;
      let detail = null;
      if (this.places[row]) {
        try {
          detail = (await unpack(this.places[row][0]))[this.places[row][1]];
        } catch (error) {
          $("look-record").replaceChildren(element("p", { class: "empty" }, "This browser cannot unpack it: it is older than 2023."));
          return;
        }
      }
      if (this.row === row) this.fill(detail);
    }
    fill(detail) {
      const left = element("p", { class: "empty" }, "This page is left out of what can be looked at, so that the report stays a file to send.");
      $("look-record").replaceChildren(!detail ? left : detail.record ? this.record(detail.record, detail.html) : element("p", { class: "empty" }, "It has no record."));
      $("look-text").replaceChildren(detail && detail.text ? element("pre", { tabindex: "0", dir: "auto" }, detail.text + (detail.cut ? "\n…" : "")) : element("p", { class: "empty" }, "There is no text."));
      const page = $("look-page");
      if (detail && detail.html) {
        this.frame = element("iframe", { sandbox: "", referrerpolicy: "no-referrer", title: "The stored page, without its scripts, styles and pictures" });
        this.frame.srcdoc = `<!DOCTYPE html><meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="${POLICY}"><style>${MARKS}</style>${detail.html}`;
        page.replaceChildren(this.frame);
      } else {
        this.frame = null;
        page.replaceChildren(element("p", { class: "empty" }, this.noHtml));
      }
      this.choose();
    }
    record(rows, html) {
      return element("dl", {}, ...rows.flatMap(([name, value, selectors, place]) => [
        element("dt", {}, name, place ? this.pointer(name, place) : null),
        element("dd", {},
          element("bdi", { class: value == null ? "none" : null }, value == null ? "no value" : String(value)),
          selectors ? element("code", {}, element("bdi", {}, selectors)) : html && value != null ? element("small", {}, "no selector gives it now") : null),
      ]));
    }
    pointer(name, place) {
      const button = element("button", { type: "button", class: "as-link", "aria-label": `Show ${name} on the page` }, "show");
      button.addEventListener("click", () => {
        for (const choice of document.getElementsByName("look-at")) choice.checked = choice.value === "page";
        this.choose();
        this.frame.scrollIntoView({ block: "nearest" });
        this.frame.contentWindow.location.replace(`about:srcdoc#${place}`);
      });
      return button;
    }
    choose() {
      const wanted = [...document.getElementsByName("look-at")].find((choice) => choice.checked).value;
      for (const name of ["page", "text"]) $(`look-${name}`).hidden = name !== wanted;
    }
  }
  return { $, element, webLink, number, away, Listing, Look };
})();
