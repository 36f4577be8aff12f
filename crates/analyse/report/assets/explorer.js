"use strict";
/* The timeline of the whole run: late steps, CPUs, ranks and sources over one axis. Where events are closer than
   pixels, one-pixel columns stand for them; elsewhere every event is drawn. The data come from the tree (tree.js). */
idlewave.exploring = async (data) => {
  const { byId, time, color, percent, count } = idlewave, canvas = byId("explorer-canvas"), tree = idlewave.tree(data);
  const { CLASSES } = tree, MOST_BOXES = 24000, OWN = 2, INTERRUPT = 3;
  const { names, rows } = data, greatestLate = (new Map(data.totals).get(data.late) || { greatest: 1 }).greatest;
  let pane = null, layout = [], pieces = [], picture = new Map(), pinned = null, selected = null, settled = Promise.resolve(), drawnAt = 0;

  const fill = (kind, cls, what) => {
    if (kind === "late") return color("alarm");
    if (kind === "rank") return color(["compute", "exchange", "detour", "layer-4"][cls]);
    if (kind === "source") cls = names[what].class;
    return color(["rank", "task", "own", "interrupt"][cls]);
  };
  const layOut = () => {
    const height = rows.length > 64 ? 9 : rows.length > 24 ? 15 : 22;
    let y = pane.AXIS, last = null;
    layout = rows.map((row) => {
      if (last && row.kind !== last) y += 9;
      last = row.kind;
      const place = { ...row, y, height };
      y += height + (height < 12 ? 1 : 2);
      return place;
    });
    return y + 4;
  };

  /** Height of a column for a share of time: full for all of it, a fifth less for each factor of ten. */
  const tall = (share, height) => share > 0 ? Math.max(2, height * Math.min(1, 1 + Math.log10(share) / 5)) : 2;
  const lateTall = (lateness, height) => Math.max(3, height * Math.log10(1 + lateness / 100) / Math.log10(1 + greatestLate / 100));

  /** Events of leaves that a row shows, as { group, a, b }; of a source, those of all CPUs with its name. */
  const parts = (index) => {
    const row = rows[index], { from, to } = pane.view(), found = [];
    for (const piece of pieces) {
      if (!piece.node.leaf) continue;
      for (const group of piece.node.groups) {
        if (row.kind === "source" ? rows[group.row].kind !== "cpu" : group.row !== index) continue;
        const [a, b] = tree.range(group, Math.max(from, piece.from), Math.min(to, piece.to));
        if (a < b) found.push({ group, a, b, from: piece.from, to: piece.to, what: row.kind === "source" ? row.what : null });
      }
    }
    return found;
  };
  const isOf = (part, i) => part.what === null || (part.group.tag[i] >> 3) === part.what;

  /** Columns of a row: time, events and greatest weight by class and pixel. */
  const columns = (index, found) => {
    const { left, width } = pane.area(), W = Math.ceil(width), made = [];
    for (let c = 0; c < CLASSES; c++) made.push({ time: new Float64Array(W), count: new Float64Array(W), greatest: new Float64Array(W), any: false });
    const put = (c, from, to, sum, events, greatest) => {
      const a = pane.x(from) - left, b = Math.max(a, pane.x(to) - left);
      const first = Math.max(0, Math.floor(a)), last = Math.min(W - 1, Math.max(Math.floor(a), Math.ceil(b) - 1));
      if (last < 0 || first >= W) return;
      c.any = true;
      if (first === last) {
        // Most are narrower than a pixel.
        const share = b > a ? (Math.min(b, first + 1) - Math.max(a, first)) / (b - a) : 1;
        c.time[first] += sum * share;
        c.count[first] += events * share;
        if (greatest > c.greatest[first]) c.greatest[first] = greatest;
        return;
      }
      for (let px = first; px <= last; px++) {
        const share = Math.max(0, (Math.min(b, px + 1) - Math.max(a, px)) / (b - a));
        c.time[px] += sum * share;
        c.count[px] += events * share;
        if (greatest > c.greatest[px]) c.greatest[px] = greatest;
      }
    };
    for (const piece of pieces) {
      if (piece.node.leaf) continue;
      const bin = tree.size(piece.place.level);
      for (let c = 0; c < CLASSES; c++) {
        const line = piece.node.lines[index * CLASSES + c];
        for (let i = 0; i < line.n; i++) {
          const from = piece.place.begin + line.bin[i] * bin;
          if (from + bin > piece.from && from < piece.to) put(made[c], from, from + bin, line.time[i], line.count[i], line.greatest[i]);
        }
      }
    }
    const isSource = rows[index].kind === "source";
    for (const part of found) {
      const { group: g, what } = part, isLate = g.more.length === 3;
      for (let i = part.a; i < part.b; i++) {
        const tag = g.tag[i], own = tag >> 3;
        if (what !== null && own !== what) continue;
        const from = Math.max(g.from[i], part.from), to = Math.min(g.to[i], part.to), nested = (tag & 6) > 0 && !isSource;
        put(made[isSource ? 0 : names[own].class], from, to, nested ? 0 : to - from, g.from[i] >= part.from ? 1 : 0, isLate ? g.more[0][i] : g.to[i] - g.from[i]);
      }
    }
    return made;
  };

  /** Columns of equal height as one box: from the top of the row, or from its bottom. */
  const bars = (g, row, line, paint, height, fromTop, below) => {
    if (!line.any) return;
    const { left } = pane.area(), W = line.time.length;
    g.fillStyle = paint;
    let start = 0, was = 0, base = 0;
    for (let px = 0; px <= W; px++) {
      const h = px < W && (line.count[px] > 0 || line.time[px] > 0) ? Math.round(height(px)) : 0, b = below && px < W ? below[px] : 0;
      if (h === was && b === base) continue;
      if (was > 0) g.fillRect(left + start, fromTop ? row.y : row.y + row.height - base - was, px - start, was);
      start = px; was = h; base = b;
    }
  };
  const drawColumns = (g, row, index, made) => {
    const per = pane.perPixel(), h = row.height, share = (c) => (px) => tall(made[c].time[px] / per, h);
    const linear = (c) => (px) => Math.min(h, Math.max(made[c].time[px] > 0 ? 1 : 0, made[c].time[px] / per * h));
    if (row.kind === "late") return bars(g, row, made[0], fill("late"), (px) => lateTall(made[0].greatest[px], h));
    if (row.kind === "source") return bars(g, row, made[0], fill("source", 0, row.what), share(0));
    if (row.kind === "rank") {
      const lower = Float64Array.from(made[0].time, (t, px) => made[0].count[px] > 0 || t > 0 ? Math.round(Math.min(h, t / per * h)) : 0);
      bars(g, row, made[0], fill("rank", 0), (px) => lower[px]);
      bars(g, row, made[1], fill("rank", 1), (px) => Math.min(h - lower[px], Math.max(1, made[1].time[px] / per * h)), false, lower);
      bars(g, row, made[3], fill("rank", 3), linear(3));
      return bars(g, row, made[2], fill("rank", 2), (px) => tall(made[2].time[px] / per, h * .3), true);
    }
    bars(g, row, made[0], fill("cpu", 0), linear(0));
    bars(g, row, made[1], fill("cpu", 1), (px) => tall(made[1].time[px] / per, h * .66));
    bars(g, row, made[OWN], fill("cpu", OWN), (px) => tall(made[OWN].time[px] / per, h * .66));
    return bars(g, row, made[INTERRUPT], fill("cpu", INTERRUPT), (px) => tall(made[INTERRUPT].time[px] / per, h * .34), true);
  };
  const label = (g, row, text, from, to, tone, at = .68) => {
    const { left, width } = pane.area(), a = Math.max(left, pane.x(from)), b = Math.min(left + width, pane.x(to));
    if (b - a < 46 || row.height < 20) return;
    g.save();
    g.beginPath(); g.rect(a, row.y, b - a - 4, row.height); g.clip();
    g.textAlign = "left";
    g.font = "11px system-ui, sans-serif";
    g.fillStyle = color(tone);
    g.fillText(text, a + 5, row.y + row.height * at);
    g.restore();
  };
  const drawEvents = (g, row, found) => {
    const h = row.height, strip = Math.max(4, h * .34);
    for (const lane of [0, 1]) for (const part of found) {
      const { group } = part;
      if (group.lane !== lane && row.kind !== "source") continue;
      if (row.kind === "source" && lane) continue;
      for (let i = part.a; i < part.b; i++) {
        if (!isOf(part, i)) continue;
        const from = group.from[i], to = group.to[i], what = group.tag[i] >> 3, solid = !(group.tag[i] & 1);
        const paint = fill(row.kind, names[what].class, what);
        if (row.kind === "late") {
          const tallness = lateTall(group.more[0][i], h);
          pane.box(g, from, to, row.y + h - tallness, tallness, paint);
          label(g, row, "rank " + group.more[1][i] + ", " + time(group.more[0][i]) + " late", from, to, tallness > h * .7 ? "card" : "ink", tallness > h * .7 ? .68 : .4);
        } else if (lane && row.kind === "cpu") {
          const deep = Math.min(2, (group.tag[i] >> 1) & 3) * 2;
          pane.box(g, from, to, row.y + deep, strip - deep, paint, solid);
        } else if (lane) {
          pane.box(g, from, to, row.y, strip, paint, solid);
        } else {
          pane.box(g, from, to, row.y, h, paint, solid);
          label(g, row, names[what].name, from, to, row.kind === "cpu" && names[what].class === 0 ? "soft" : row.kind === "rank" ? "ink" : "card");
        }
      }
    }
  };

  const draw = (g, total) => {
    const start = performance.now(), { from, to } = pane.view(), { left, width } = pane.area();
    const covered = tree.cover(from, to, pane.perPixel() * 2.5);
    pieces = covered.pieces;
    picture = new Map();
    let boxes = MOST_BOXES;
    layout.forEach((row, index) => {
      g.fillStyle = color("soft");
      g.font = (row.height < 12 ? "9px" : "12px") + " system-ui, sans-serif";
      g.textAlign = "right";
      g.fillText(shortened(g, row.label, left - 12), left - 8, row.y + row.height / 2);
      g.fillStyle = color("faint");
      g.fillRect(left, row.y, width, row.height);
      const found = parts(index), exact = pieces.every((p) => p.node.leaf);
      const many = found.reduce((n, p) => n + p.b - p.a, 0);
      pane.clipped(g, row.y, row.height, () => {
        if (exact && many <= Math.min(boxes, width * (row.kind === "source" ? 4 : .75))) { boxes -= many; return drawEvents(g, row, found); }
        const made = columns(index, found);
        picture.set(index, made);
        return drawColumns(g, row, index, made);
      });
    });
    canvas.dataset.exact = layout.length - picture.size;
    canvas.dataset.ms = (performance.now() - start).toFixed(2);
    want(covered.wanted);
  };
  /** Reads ahead, while idle, what the next steps of zooming into the middle need. */
  let ahead = 0;
  const readAhead = () => {
    const { from, to } = pane.view(), quarter = (to - from) / 4;
    tree.cover(from + quarter, to - quarter, pane.perPixel() * 1.2).wanted.slice(0, 8).forEach((number) => tree.read(number).catch(() => {}));
  };
  /** Reads what is missing and draws again. */
  const want = (numbers) => {
    canvas.dataset.wanted = numbers.length;
    const mine = ++drawnAt;
    clearTimeout(ahead);
    if (!numbers.length) { ahead = setTimeout(readAhead, 20); return; }
    settled = Promise.allSettled(numbers.map(tree.read)).then((all) => {
      if (all.some((r) => r.status === "rejected")) missing();
      else if (mine === drawnAt) pane.draw();
    });
  };
  const missing = () => {
    byId("pinned").textContent = data.has_files
      ? "The folder " + tree.state.folder + " is not beside this page, or belongs to another run: single events cannot be shown. Copy it here, or write the page again: idlewave report RUN"
      : "This page has no single events of the run: it was written without a folder beside it. Write it to a file: idlewave report RUN -o FILE";
    byId("pinned").classList.add("alarm");
  };
  const shortened = (g, text, most) => {
    if (g.measureText(text).width <= most) return text;
    let n = text.length;
    while (n > 1 && g.measureText(text.slice(0, n) + "\u2026").width > most) n--;
    return text.slice(0, n) + "\u2026";
  };
  const over = (g, total) => {
    if (selected) {
      const [a, b] = [pane.edge(selected.from), pane.edge(selected.to)];
      g.fillStyle = color("band");
      g.fillRect(a, pane.AXIS - 4, b - a, total - pane.AXIS);
      pane.marked(g, total, selected.from, selected.to);
    }
    if (!pinned) return;
    const row = layout[pinned.row], a = pane.x(pinned.from), b = pane.x(pinned.to);
    g.strokeStyle = color("accent");
    g.lineWidth = 2;
    g.strokeRect(a - 2, row.y - 1, Math.max(1, b - a) + 4, row.height + 2);
  };

  const exactTime = (ns) => (ns / 1e9).toFixed(9).replace(/(\d{3})(?=\d)/g, (d, _, at, all) => at > all.indexOf(".") ? d + "\u202f" : d) + " s";
  /** A moment with as many digits as a stretch of this length can show. */
  const momentOf = (ns, span) => (Math.max(0, ns) / 1e9).toFixed(Math.max(0, Math.min(9, Math.ceil(-Math.log10(span / 1e9)) + 2))) + " s";
  const said = (e) => {
    const name = names[e.what], row = rows[e.row];
    const who = row.kind === "late" ? "late step " + e.more[2] + ", rank " + e.more[1] + " last, " + time(e.more[0]) + " late"
      : name.kind === "region" ? name.name + " of step " + e.more[0]
      : name.kind === "wait" ? "wait for rank " + e.more[0] : name.of === "cpu" ? idlewave.sourceName(name) : name.name;
    return { who, when: time(e.to - e.from) + " long, from " + exactTime(e.from), unsure: e.unsure ? " (start or end inferred)" : "" };
  };
  /** The events of a row at a moment, the topmost first. */
  const under = (index, t) => {
    const near = pane.perPixel() * 1.5, found = [];
    for (const part of parts(index)) {
      for (let i = part.a; i < part.b; i++) {
        if (isOf(part, i) && part.group.from[i] - near <= t && t <= part.group.to[i] + near) found.push(tree.event(part.group, i));
      }
    }
    const off = (e) => Math.max(0, e.from - t, t - e.to);
    return found.sort((a, b) => b.lane - a.lane || off(a) - off(b) || b.depth - a.depth || a.to - a.from - (b.to - b.from));
  };
  const rowAt = (py) => layout.findIndex((r) => py >= r.y && py < r.y + r.height);
  const describe = (px, py, t) => {
    const index = rowAt(py);
    if (index < 0) return "";
    const row = rows[index], made = picture.get(index);
    if (!made) {
      const list = under(index, t).slice(0, 3).map((e) => { const s = said(e); return s.who + "\n" + s.when + s.unsure; });
      return row.label + "\n" + (list.join("\n") || "nothing recorded");
    }
    const at = Math.min(made[0].time.length - 1, Math.max(0, Math.floor(px - pane.area().left))), per = pane.perPixel(), list = [];
    const CLASS = row.kind === "cpu" ? ["ranks", "other programs", "idlewave itself", "interrupts"]
      : row.kind === "rank" ? ["computing", "communicating", "detours", "waiting"] : [row.label];
    CLASS.forEach((name, c) => {
      const { time: t2, count: n, greatest } = made[c];
      if (!(n[at] > 0 || t2[at] > 0)) return;
      const often = n[at] >= .95 ? ", " + count(Math.round(n[at])) + (Math.round(n[at]) === 1 ? " event" : " events") : "";
      list.push(name + ": " + (row.kind === "late" ? "" : percent(Math.min(1, t2[at] / per))) + often + (greatest[at] ? ", longest " + time(greatest[at]) : ""));
    });
    return row.label + "\n" + (list.join("\n") || "nothing recorded") + "\nof " + time(per) + " around " + time(t);
  };

  const pin = (e) => {
    pinned = e;
    const box = byId("pinned");
    box.classList.toggle("alarm", false);
    if (e) { const s = said(e); box.textContent = rows[e.row].label + ": " + s.who + ", " + s.when + s.unsure; }
    else box.textContent = "Click an event for its exact times.";
    canvas.dataset.pinned = e ? e.from + ".." + e.to : "";
  };
  const click = (px, py, t) => {
    const index = rowAt(py), found = index >= 0 && !picture.has(index) ? under(index, t)[0] : null;
    if (index >= 0 && picture.has(index)) return pane.zoomAt(.25, t);
    pin(found ? { ...found, row: rows[index].kind === "source" ? index : found.row } : null);
    return pane.draw();
  };
  const report = (view) => {
    // Events left out because there were more at one moment than a leaf keeps.
    const out = pieces.reduce((n, p) => n + (p.node.leaf ? p.node.leftOut : 0), 0);
    byId("explorer-range").textContent = time(Math.round(view.to - view.from)) + " shown, from " + momentOf(view.from, view.to - view.from) +
      (out ? "; without the " + count(out) + " shortest events" : picture.size ? "" : "; every event");
    changed();
  };

  const legend = () => {
    const box = byId("explorer-legend"), has = (kind, cls) => names.some((n, i) => n.of === kind && n.class === cls && totals.has(i)), items = [];
    const totals = new Map(data.totals);
    for (const [kind, cls, text] of [["late", 0, "late step"], ["cpu", 0, "thread of a rank"], ["cpu", 1, "another program"], ["cpu", 2, "idlewave itself"],
      ["cpu", 3, "interrupt"], ["rank", 0, "computing"], ["rank", 1, "communicating"], ["rank", 2, "detour seen by the rank"], ["rank", 3, "waiting for another rank"]]) {
      if (has(kind, cls)) items.push([text, fill(kind, cls)]);
    }
    box.replaceChildren(...items.map(([text, paint]) => idlewave.legend(text, paint)));
  };

  // The address keeps the view: #run=FROM..TO, in ns after the start of the recording.
  let timer = 0, applying = false;
  const address = () => {
    const v = pane.view(), parts = ["run=" + Math.round(v.from) + ".." + Math.round(v.to)];
    if (selected) parts.push("select=" + Math.round(selected.from) + ".." + Math.round(selected.to));
    if (byId("find").value) parts.push("find=" + encodeURIComponent(byId("find").value));
    return "#" + parts.join("&");
  };
  const changed = () => {
    clearTimeout(timer);
    if (applying || !pane) return;
    timer = setTimeout(() => history.replaceState(null, "", address()), 200);
  };
  /** Goes to another moment; the back button returns. */
  const jump = (from, to) => {
    clearTimeout(timer);
    applying = true;
    pane.show(from, to);
    applying = false;
    history.pushState(null, "", address());
    return settled;
  };
  const apply = (first) => {
    const asked = new URLSearchParams(location.hash.slice(1)), stretch = (name) => {
      const [, a, b] = (asked.get(name) || "").match(/^(\d{1,16})\.\.(\d{1,16})$/) || [];
      return a !== undefined && Number(a) < Math.min(Number(b), data.span) ? { from: Number(a), to: Math.min(Number(b), data.span) } : null;
    };
    const view = stretch("run"), find = asked.get("find");
    if (!view && find === null) {
      // Back at the page as it was opened.
      if (location.hash === "" && !first) pane.whole();
      return;
    }
    applying = true;
    if (find !== null) byId("find").value = find;
    select(stretch("select"), false);
    if (view) pane.show(view.from, view.to);
    applying = false;
    byId("explorer").scrollIntoView();
  };

  let afterSelect = () => {};
  const select = (stretch, draws = true) => {
    selected = stretch;
    canvas.dataset.selected = stretch ? stretch.from + ".." + stretch.to : "";
    afterSelect(stretch);
    if (draws) pane.draw();
  };

  await tree.read(0);
  if (byId("folder")) byId("folder").replaceChildren(idlewave.element("code", tree.state.folder));
  pane = idlewave.pane({
    canvas, tools: byId("explorer-figure"), least: 100, layOut, draw, over, describe, report, click,
    get left() { return Math.min(128, Math.round(canvas.clientWidth * .28)); },
    whole: () => [0, data.span], zero: () => 0, focus: () => [0, data.span],
    select: (from, to) => select(to - from > 0 ? { from: Math.round(from), to: Math.round(to) } : null),
  });
  idlewave.drawings.push(() => { pane.draw(); legend(); });
  const explorer = {
    tree, pane, data, pin, jump, said, select, moment: momentOf, selected: () => selected,
    /** Resolves when everything in view has been read and drawn. */
    settled: async () => { for (let was = null; was !== settled;) { was = settled; await was; } },
    onSelect: (f) => { afterSelect = f; },
  };
  Object.assign(idlewave.explorer, explorer);
  idlewave.finding(explorer);
  applying = true;
  pane.whole();
  applying = false;
  apply(true);
  addEventListener("hashchange", () => apply(false));
};
