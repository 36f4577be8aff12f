"use strict";
/* Search and selection in the timeline of the whole run. */
idlewave.finding = (explorer) => {
  const { byId, time, count, element, percent } = idlewave, { tree, data, pane } = explorer, totals = new Map(data.totals);
  const box = byId("find"), found = byId("found");
  byId("find-names").append(...[...new Set([...totals.keys()].map((what) => data.names[what].name))].sort().slice(0, 500)
    .map((name) => element("option", undefined, { value: name })));

  /** "late > 50 us": the names that match, and the least weight in ns. */
  const parse = (text) => {
    const [, name, amount, unit] = text.trim().match(/^(.*?)\s*(?:>\s*([\d.]+)\s*(ns|us|\u00b5s|ms|s)?)?$/i), asked = name.toLowerCase();
    const above = amount === undefined ? -1 : Number(amount) * { ns: 1, us: 1e3, "\u00b5s": 1e3, ms: 1e6, s: 1e9 }[(unit || "us").toLowerCase()];
    const wanted = new Set();
    for (const what of totals.keys()) {
      if (asked === "late" || asked === "late step" ? what === data.late : asked && data.names[what].name.toLowerCase().includes(asked)) wanted.add(what);
    }
    return { name, above, wanted, isNumber: !Number.isNaN(above) };
  };
  const say = (text) => { found.textContent = text; };
  let last = null;
  const go = async (way) => {
    const { name, above, wanted, isNumber } = parse(box.value);
    if (!name) return say("Type a name, or late > 50 us.");
    if (!isNumber) return say("That is no number of ns, us, ms or s.");
    if (!wanted.size) return say("Nothing in this run has a name like that.");
    const sums = [...wanted].map((what) => totals.get(what)), greatest = Math.max(...sums.map((s) => s.greatest));
    if (greatest <= above) return say("None is longer: the longest of them takes " + time(greatest) + ".");
    const v = pane.view(), here = last && last.from >= v.from && last.from <= v.to && last.asked === box.value ? last.from : way > 0 ? -1 : Infinity;
    try {
      let hit = await tree.find(wanted, above, here, way), around = "";
      if (!hit) {
        hit = await tree.find(wanted, above, way > 0 ? -1 : Infinity, way);
        around = way > 0 ? "; from the start again" : "; from the end again";
      }
      if (!hit) return say("Nothing found.");
      last = { from: hit.from, asked: box.value };
      explorer.pin(hit);
      const span = Math.max(20000, (hit.to - hit.from) * 4), middle = (hit.from + hit.to) / 2;
      const all = sums.reduce((n, s) => n + s.count, 0), s = explorer.said(hit);
      say(s.who + ", " + s.when + " (" + (above < 0 ? "one of " + count(all) : "the longest takes " + time(greatest)) + around + ")");
      return explorer.jump(middle - span / 2, middle + span / 2);
    } catch { return say("The files of this run are not beside this page: only names can be found, no moments."); }
  };
  byId("search").addEventListener("submit", (event) => { event.preventDefault(); go(1); });
  document.querySelector('[data-find="-1"]').addEventListener("click", () => go(-1));

  const cells = (...list) => list.map((text, i) => element(i ? "td" : "th", text, i ? {} : { scope: "row" }));
  const sums = (title, hint, list, span) => {
    const table = element("table"), head = element("tr"), body = element("tbody");
    for (const h of [title, "Time", "Share", "Events", "Longest"]) head.append(element("th", h, { scope: "col", ...(h === title ? { class: "text" } : {}) }));
    for (const [what, s] of list.slice(0, 40)) {
      const row = element("tr", undefined, { "data-what": what, "data-time": s.time, "data-count": s.count });
      row.append(...cells(data.names[what].of === "cpu" ? idlewave.sourceName(data.names[what]) : data.names[what].name, time(s.time), percent(s.time / span), count(s.count), s.greatest ? time(s.greatest) : "\u2013"));
      body.append(row);
    }
    const thead = element("thead"), wide = element("div", undefined, { class: "wide", tabindex: "0" });
    thead.append(head);
    table.append(thead, body);
    wide.append(table);
    const rest = list.length > 40 ? " The other " + (list.length - 40) + " took less." : "";
    return [element("p", hint + rest, { class: "caption" }), wide];
  };
  const rowsOf = (kind) => data.rows.filter((r) => r.kind === kind).length || 1;
  let latest = 0;
  const show = async (stretch) => {
    const mine = ++latest, area = byId("selection");
    if (!stretch) return area.replaceChildren();
    const span = stretch.to - stretch.from;
    let made;
    try { made = await tree.sum(stretch.from, stretch.to); }
    catch { return area.replaceChildren(element("p", "The files of this run are not beside this page, so nothing can be summed up.", { class: "absent" })); }
    if (mine !== latest) return undefined;
    const of = (kind) => [...made].filter(([what]) => data.names[what].of === kind).sort((a, b) => b[1].time - a[1].time || a[0] - b[0]);
    const late = of("late")[0], clear = element("button", "Clear", { type: "button" });
    clear.addEventListener("click", () => explorer.select(null));
    const head = element("h3", "Selected: " + time(span) + ", from " + explorer.moment(stretch.from, span) + " to " + explorer.moment(stretch.to, span) + " ");
    head.append(clear);
    const said = element("p", !late || !late[1].count ? "No step that began in it was late."
      : count(late[1].count) + (late[1].count === 1 ? " step that began in it was late, by " : " steps that began in it were late, by ") + time(late[1].time) +
        (late[1].count === 1 ? "." : " in all; the latest by " + time(late[1].greatest) + "."), { "data-late": late ? late[1].count : 0, "data-lateness": late ? late[1].time : 0 });
    const listed = [...document.querySelectorAll("tr[data-late]")].filter((row) => Number(row.dataset.begin) >= stretch.from && Number(row.dataset.begin) < stretch.to).slice(0, 8);
    const links = element("p");
    if (listed.length) links.append("Those with a story: ");
    for (const row of listed) {
      const link = element("a", row.querySelector("button").textContent, { href: "#late-" + row.dataset.late });
      link.addEventListener("click", () => row.querySelector("button").click());
      links.append(link, " ");
    }
    area.replaceChildren(head, ...(data.names.some((n, i) => n.of === "late" && totals.has(i)) ? [said] : []), ...(listed.length ? [links] : []),
      ...(of("cpu").length ? sums("On the CPUs", "Who had the CPUs in the selected stretch. An interrupt's time is also that of the program it interrupted.", of("cpu"), span * rowsOf("cpu")) : []),
      ...(of("rank").length ? sums("In the ranks", "What the ranks did in it.", of("rank"), span * rowsOf("rank")) : []));
    return undefined;
  };
  explorer.onSelect(show);
  byId("select-view").addEventListener("click", () => { const v = pane.view(); explorer.select({ from: Math.round(v.from), to: Math.round(v.to) }); });
};
