"use strict";
/* Draws the charts and lists pages and records. Text of strangers' pages goes in as text (textContent), never as HTML. */
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const root = document.documentElement;
  root.classList.add("scripted");
  const { $, element, number, away, Listing, Look } = shared;
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const still = matchMedia("(prefers-reduced-motion: reduce)");

  /* -- colours ------------------------------------------------------------------------------------------------- */
  // Each carries its text (white, or nearly black in the dark) with a contrast of 4.5 at least.
  const LIGHT = ["#2f6fb3", "#b4560a", "#2e7d4f", "#a23b72", "#6a51a3", "#0f7683", "#80660a", "#b3323a", "#7a5230", "#44618c"];
  const DARK = ["#7fb2e5", "#f0a35e", "#7fcf9b", "#e08ab5", "#b8a3e8", "#5cc4d0", "#d9c25a", "#f08a8a", "#c9a27e", "#a3bde0"];
  let printing = false;
  const isDark = () => dark.matches && !printing;
  const colourOf = (type) => {
    const place = data.types.indexOf(type);
    if (type.startsWith("(") || place < 0) return isDark() ? "#8794a3" : "#67727f";
    const palette = isDark() ? DARK : LIGHT;
    return palette[place % palette.length];
  };
  // Between two colours, "#rrggbb"; `part` of the second.
  const mix = (one, other, part) => "#" + [1, 3, 5].map((at) => {
    const [a, b] = [one, other].map((colour) => parseInt(colour.slice(at, at + 2), 16));
    return Math.round(a + (b - a) * part).toString(16).padStart(2, "0");
  }).join("");
  const css = (name) => getComputedStyle(root).getPropertyValue(name).trim();
  function paintDots() {
    for (const dot of document.querySelectorAll(".dot[data-type]")) dot.style.background = colourOf(dot.dataset.type);
  }

  /* -- charts -------------------------------------------------------------------------------------------------- */
  const charts = new Map();
  const font = getComputedStyle(document.body).fontFamily;  // it measures texts, so it needs the name
  function draw(id, option, height) {
    const place = $(id);
    if (!place) return null;
    if (height) place.style.height = `${height}px`;
    let chart = charts.get(id);
    if (!chart) {
      chart = echarts.init(place, null, { renderer: "svg" });
      charts.set(id, chart);
    }
    chart.resize();
    const animation = !still.matches && !printing, series = option.series.map((one) => ({ ...one, animation }));
    chart.setOption({ animation, animationDuration: 300, textStyle: { fontFamily: font }, ...option, series }, true);
    if (printing) chart.getZr().flush();  // paper does not wait for the next frame
    return chart;
  }
  function tip(title, rows) {
    return element("div", { class: "tip" }, element("b", {}, title),
      ...rows.map(([name, value]) => element("div", {}, element("span", {}, name), element("span", {}, value))));
  }
  const tooltip = () => ({
    backgroundColor: css("--card"), borderColor: css("--line"), textStyle: { color: css("--ink") }, confine: true,
  });

  function drawStructure() {
    const text = isDark() ? "#10141a" : "#fff", place = $("chart-structure"), area = place.clientWidth * place.clientHeight;
    const dress = (box) => {
      const colour = colourOf(box.type), edge = box.children ? mix(colour, isDark() ? "#ffffff" : "#000000", 0.2) : css("--card");
      const isSmall = box.value / data.total * area < 4000;  // pixels; nothing could be read there
      return { ...box, upperLabel: isSmall ? { show: false } : undefined, itemStyle: { color: colour, borderColor: edge }, children: box.children && box.children.map(dress) };
    };
    if (charts.has("chart-structure")) {  // a tree map leaves labels of its old boxes behind
      charts.get("chart-structure").dispose();
      charts.delete("chart-structure");
    }
    const chart = draw("chart-structure", {
      tooltip: {
        ...tooltip(),
        formatter: ({ data: box }) => box && box.value
          ? tip(box.name, [["pages", number(box.value)], ["share", `${(100 * box.value / data.total).toFixed(1)}%`], ["page type", box.type]])
          : "",
      },
      series: [{
        type: "treemap", data: data.by_type.map(dress), roam: false, nodeClick: false, breadcrumb: { show: false },
        width: "100%", height: "100%", left: 0, top: 0,
        label: { color: text, fontSize: 12, overflow: "truncate", formatter: ({ name, value }) => `${name}\n${number(value)}`, lineHeight: 16 },
        upperLabel: { show: true, height: 24, color: text, fontWeight: 600, overflow: "truncate", formatter: ({ name, value }) => `${name}  ${number(value)}` },
        labelLayout: ({ rect, labelRect }) => rect.width < 44 || rect.height < Math.min(20, labelRect.height) ? { x: -999, y: -999 } : {},
        levels: [
          { itemStyle: { gapWidth: 6, borderWidth: 0, borderColor: css("--card") }, upperLabel: { show: false } },
          { itemStyle: { gapWidth: 2, borderWidth: 2 } },
          { itemStyle: { borderWidth: 0 } },
        ],
      }],
    });
    chart.on("click", ({ data: box }) => {
      if (box) show({ type: box.type, template: box.template, site: box.site });
    });
  }

  function drawDepth() {
    const names = data.types, depths = data.depths.map(([depth]) => depth);
    draw("chart-depth", {
      tooltip: {
        ...tooltip(), trigger: "axis", axisPointer: { type: "shadow" },
        formatter: (bars) => tip(`depth ${bars[0].name}`, bars.filter((bar) => bar.value).map((bar) => [bar.seriesName, number(bar.value)])),
      },
      legend: { type: "plain", bottom: 0, left: 0, right: 0, textStyle: { color: css("--ink") }, icon: "roundRect", itemWidth: 12, itemHeight: 12 },
      grid: { left: 34, right: 16, top: 8, bottom: 40 + 22 * Math.floor(names.join("    ").length * 8 / Math.max(300, $("chart-depth").clientWidth)) },
      xAxis: { type: "value", axisLabel: { color: css("--soft") }, splitLine: { lineStyle: { color: css("--line") } }, minInterval: 1 },
      yAxis: { type: "category", inverse: true, data: depths, axisLabel: { color: css("--ink") }, axisTick: { show: false }, axisLine: { lineStyle: { color: css("--line") } } },
      series: names.map((name, place) => ({
        type: "bar", stack: "all", name, barMaxWidth: 26, data: data.depths.map(([, counts]) => counts[place]),
        itemStyle: { color: colourOf(name) },
      })),
    }, Math.min(640, 110 + 34 * depths.length));
  }

  const clock = (seconds) => {
    const whole = Math.round(seconds), two = (n) => String(n).padStart(2, "0");
    const [h, m, s] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60, whole % 60];
    return h ? `${h}:${two(m)}:${two(s)}` : `${m}:${two(s)}`;
  };
  const panelTitle = (name, series) => `${name}   ${series.length < 2 ? "" : series.map((one) => `{${one.colour.slice(2)}|■ ${one.name}}`).join("   ")}`;
  function panels() {
    const { columns } = data.timeline, line = { type: "line", showSymbol: false, symbol: "none" };
    const all = [
      ["Urls a second", [{ ...line, name: "urls/s", data: columns.pages, step: "middle", areaStyle: { opacity: 0.25 }, colour: "--l0" }]],
      columns.in_flight && ["Requests in flight", [
        { ...line, name: "allowed", data: columns.allowed, connectNulls: true, step: "middle", lineStyle: { type: "dashed", width: 1.5 }, colour: "--l6" },
        { ...line, name: "in flight", data: columns.in_flight, connectNulls: true, step: "middle", areaStyle: { opacity: 0.2 }, colour: "--l2" }]],
      ["Latency, s", [
        { ...line, name: "95% below", data: columns.p95, connectNulls: true, lineStyle: { width: 1 }, colour: "--l3" },
        { ...line, name: "median", data: columns.p50, connectNulls: true, colour: "--l4" }]],
      [columns.refused ? "Refusals and errors" : "Failed urls", [
        columns.refused && { type: "bar", stack: "bad", name: "429, 503", data: columns.refused, colour: "--l1", barCategoryGap: "10%" },
        { type: "bar", stack: "bad", name: "errors", data: columns.errors, colour: "--bad", barCategoryGap: "10%" }].filter(Boolean)],
      columns.queued && ["Urls in the queue", [{ ...line, name: "queued", data: columns.queued, connectNulls: true, areaStyle: { opacity: 0.15 }, colour: "--l5" }]],
    ];
    return all.filter(Boolean);
  }
  function drawPace() {
    if (!$("chart-pace")) return;
    const { columns, start, width } = data.timeline, shown = panels(), each = 118;
    const grids = shown.map((_, place) => ({ left: 44, right: 12, top: 30 + place * each, height: each - 52 }));
    draw("chart-pace", {
      tooltip: {
        ...tooltip(), trigger: "axis",
        formatter: (points) => tip(
          `${clock(columns.at[points[0].dataIndex])} after the start, ${new Date(1000 * (start + columns.at[points[0].dataIndex])).toLocaleTimeString()}`,
          points.filter((point) => point.value != null).map((point) => [point.seriesName, number(point.value)])),
      },
      axisPointer: { link: [{ xAxisIndex: "all" }], lineStyle: { color: css("--soft") } },
      title: shown.map(([name, series], place) => ({
        text: panelTitle(name, series), left: 0, top: place * each + 4,
        textStyle: {
          fontSize: 13, fontWeight: 600, fontFamily: font, color: css("--ink"),
          rich: Object.fromEntries(series.map((one) => [one.colour.slice(2), { color: css(one.colour), fontSize: 12, fontWeight: 400, fontFamily: font }])),
        },
      })),
      grid: grids,
      xAxis: shown.map((_, place) => ({
        type: "category", gridIndex: place, data: columns.at.map(clock), boundaryGap: true,
        axisLabel: { show: place === shown.length - 1, color: css("--soft"), hideOverlap: true }, axisTick: { show: false }, axisLine: { lineStyle: { color: css("--line") } },
      })),
      yAxis: shown.map((_, place) => ({
        type: "value", gridIndex: place, splitNumber: 2, axisLabel: { color: css("--soft"), fontSize: 11 }, splitLine: { lineStyle: { color: css("--line") } },
      })),
      series: shown.flatMap(([, some], place) => some.map(({ colour, ...one }) => ({
        ...one, xAxisIndex: place, yAxisIndex: place, color: css(colour), itemStyle: { color: css(colour) }, lineStyle: { width: 1.5, ...one.lineStyle, color: css(colour) },
      }))),
    }, shown.length * each + 24);
  }
  function drawAll() {
    paintDots();
    drawStructure();
    drawDepth();
    drawPace();
  }

  /* -- the lists of pages and records ---------------------------------------------------------------------------- */
  const { names, columns, messages } = data.pages, count = columns.path.length;
  const everything = Array.from({ length: count }, (_, row) => row);
  const nameOf = (column, row) => names[column][columns[column][row]];
  const urlOf = (row) => nameOf("origin", row) + columns.path[row];
  const titleOf = (row) => columns.title[row] || urlOf(row);
  const texts = everything.map((row) => `${columns.title[row]} ${urlOf(row)}`.toLowerCase());
  const nameOfTemplate = (name) => data.patterns[name] ? `${name} ${data.patterns[name].replace(`${name} `, "")}`.slice(0, 80) : name || "none";
  const sureOf = (row) => nameOf("way", row) ? `${nameOf("way", row)}${columns.sure[row] == null ? "" : ` ${columns.sure[row]}%`}` : "";
  const faultOf = (row) => nameOf("error", row) ? `${nameOf("error", row)}${messages[row] ? `: ${messages[row]}` : ""}` : "";
  let site = null;

  const look = new Look({
    places: data.details, noHtml: data.no_html,
    describe: (row) => ({
      title: titleOf(row), url: urlOf(row),
      facts: [nameOf("type", row), sureOf(row), nameOf("template", row), columns.status[row] == null ? "" : `status ${columns.status[row]}`, nameOf("change", row), faultOf(row)],
    }),
  });
  const dotOf = (type) => {
    const dot = element("span", { class: "dot", "data-type": type, "aria-hidden": "true" });
    dot.style.background = colourOf(type);
    return dot;
  };
  /* The title of a page, to look at it; below it its address, which leads to the site. */
  function headOf(row, rows, title = titleOf(row)) {
    const url = urlOf(row), shown = names.origin.length > 1 ? url : columns.path[row];
    const button = element("button", { type: "button", class: "as-link" }, element("bdi", {}, title === url ? shown : title));
    button.addEventListener("click", () => look.open(row, rows()));
    return title === url ? [button] : [button, element("bdi", { class: "address" }, away(url, shown))];
  }
  function addOptions(select, rows, column, label) {
    const counts = new Map();
    for (const row of rows) counts.set(columns[column][row], (counts.get(columns[column][row]) || 0) + 1);
    const some = [...counts].filter(([place]) => names[column][place] !== "").sort((a, b) => b[1] - a[1]).slice(0, 300);
    for (const [place, pages] of some)
      select.append(element("option", { value: `=${names[column][place]}` }, `${label(names[column][place])} (${number(pages)})`));
    return some.length;
  }
  function fits(name, wanted) {
    if (!wanted) return null;
    if (wanted === "!fine" || wanted === "!any") {
      const none = names.error.indexOf("");
      return (row) => (columns.error[row] === none) === (wanted === "!fine");
    }
    const place = names[name].indexOf(wanted.slice(1));
    return (row) => columns[name][row] === place;
  }

  const pages = new Listing("pages", {
    noun: data.listed, rows: () => everything, text: (row) => texts[row],
    value: (column, row) => names[column] ? nameOf(column, row) : columns[column][row],
    tests: (form) => [...["type", "template", "error", "change"].map((name) => fits(name, form.elements[name].value)), site && fits("site", `=${site}`)],
    rowOf(row) {
      const fault = faultOf(row), change = nameOf("change", row), sure = sureOf(row);
      return element("tr", {},
        element("td", {}, ...headOf(row, () => pages.fitting), fault ? element("span", { class: "fault" }, fault) : null),
        element("td", { "data-label": "type" }, dotOf(nameOf("type", row)), nameOf("type", row),
          sure ? element("small", {}, ` ${sure}`) : null, change && change !== "unchanged" ? element("small", {}, ` ${change}`) : null),
        element("td", { "data-label": "template" }, nameOf("template", row)),
        element("td", { "data-label": "depth", class: "n" }, number(columns.depth[row])),
        element("td", { "data-label": "status", class: "n" }, columns.status[row] == null ? "–" : String(columns.status[row])),
        element("td", { "data-label": "latency", class: "n" }, columns.ms[row] == null ? "–" : `${(columns.ms[row] / 1000).toFixed(2)} s`));
    },
  });
  for (const [name, label] of [["type", (type) => type], ["template", nameOfTemplate], ["error", (kind) => kind]])
    addOptions(pages.form.elements[name], everything, name, label);
  pages.form.querySelector("label.optional").hidden = !addOptions(pages.form.elements.change, everything, "change", (change) => change);
  pages.form.addEventListener("reset", () => { site = null; });

  /* The records of one page type at a time, as each has its own fields. */
  function listRecords() {
    const types = Object.keys(data.records);
    if (!types.length || !$("records")) return null;
    let shownType = null, fields = [], head = null, values = new Map();
    // The page's title, or the field that says the same.
    const titled = (row) => (head != null && values.get(row)[head]) || titleOf(row);
    const records = new Listing("records", {
      noun: "records", rows: () => [...values.keys()],
      text: (row) => `${texts[row]} ${values.get(row).join(" ").toLowerCase()}`,
      value: (column, row) => column === "page" ? titled(row) : column === "template" ? nameOf("template", row) : values.get(row)[Number(column)],
      tests: (form) => { choose(form.elements.type.value); return [fits("template", form.elements.template.value)]; },
      rowOf: (row) => element("tr", {},
        element("td", {}, ...headOf(row, () => records.fitting, titled(row))),
        ...fields.map((name, place) => {
          if (place === head) return null;
          const value = values.get(row)[place], text = String(value);
          return element("td", { "data-label": name, class: typeof value === "number" ? "n" : text.length > 30 ? "long" : null },
            value == null ? element("span", { class: "none" }, "–") : element("bdi", { title: text.length > 60 ? text : null }, text));
        }),
        element("td", { "data-label": "template" }, nameOf("template", row))),
    });
    const type = records.form.elements.type, template = records.form.elements.template;
    for (const name of types) type.append(element("option", { value: name }, `${name} (${number(data.records[name].rows.length)})`));
    function choose(name) {
      if (name === shownType) return;
      shownType = name;
      ({ fields, head } = data.records[name]);
      values = new Map(data.records[name].rows.map(([row, ...some]) => [row, some]));
      records.order = null;
      template.replaceChildren(element("option", { value: "" }, "all"));
      addOptions(template, values.keys(), "template", nameOfTemplate);
      records.table.tHead.rows[0].replaceChildren(...[[head == null ? "page" : fields[head], "page"], ...fields.map((field, place) => [field, String(place)]).filter((_, place) => place !== head), ["template", "template"]].map(
        ([label, column]) => element("th", { scope: "col" }, element("button", { type: "button", "data-sort": column }, label))));
    }
    return records;
  }
  const records = listRecords();

  /* Shows the pages that have these values, and no other filter. */
  function show(wanted) {
    pages.form.reset();
    site = wanted.site && names.site.length > 1 ? wanted.site : null;
    pages.form.elements.text.value = wanted.text || "";
    for (const name of ["type", "template", "error", "change"]) if (wanted[name]) pages.form.elements[name].value = `=${wanted[name]}`;
    pages.filter();
    $("pages").scrollIntoView();
    $("pages").focus({ preventScroll: true });
  }
  document.addEventListener("click", ({ target }) => {
    const button = target.closest("button");
    if (button && button.dataset.filter) show({ [button.dataset.filter]: button.dataset.value, site: button.dataset.site });
  });

  /* -- the place in the report, and the size and light of the page ---------------------------------------------- */
  const links = new Map([...document.querySelectorAll(".sections a")].map((link) => [link.hash.slice(1), link]));
  const seen = new IntersectionObserver((entries) => {
    for (const entry of entries) if (entry.isIntersecting) {
      for (const link of links.values()) { link.classList.remove("here"); link.removeAttribute("aria-current"); }
      links.get(entry.target.id).classList.add("here");
      links.get(entry.target.id).setAttribute("aria-current", "true");
    }
  }, { rootMargin: "-20% 0px -70% 0px" });
  for (const id of links.keys()) seen.observe($(id));
  let width = innerWidth, timer = 0;
  addEventListener("resize", () => {
    if (innerWidth === width) return;  // a phone's address bar
    width = innerWidth;
    clearTimeout(timer);
    timer = setTimeout(drawAll, 150);
  });
  dark.addEventListener("change", drawAll);
  for (const [name, value] of [["beforeprint", true], ["afterprint", false]])
    addEventListener(name, () => {
      printing = value;
      root.classList.toggle("for-paper", value);  // the colours of the charts are read before the medium changes
      for (const id of charts.keys()) $(id).style.width = value ? "680px" : "";  // what a sheet of A4 has
      drawAll();
    });

  if (innerWidth < 700) for (const one of document.querySelectorAll(".template[open]")) one.open = false;  // it is long
  drawAll();
  pages.filter();
  if (records) records.filter();
})();
