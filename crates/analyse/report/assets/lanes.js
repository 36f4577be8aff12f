"use strict";
/* The time line of ranks: the whole program in bins, exact calls and what ran on their CPUs where the page has
   them. Times are nanoseconds after the start of the recording. */
idlewave.lanes = (data) => {
  const { byId, time, percent, color, KINDS, REASONS, RANK, findings } = idlewave;
  const canvas = byId("lanes-canvas"), program = findings.program, AXIS = 26;
  // Neither the colour of waiting nor that of interrupts; regions have shades of the fourth.
  const order = idlewave.mostTime(data), colorOf = idlewave.taskColors(data.tasks, order, [0, 2, 5, 6, 7]), markColor = (i) => idlewave.palette(3 + 8 * (1 + i % 4)), { baseName } = idlewave;
  const own = (row, task) => data.tasks[task].kind === RANK && row.threads.includes(data.tasks[task].pid);
  const taskColor = (row, task) => data.tasks[task].kind === RANK && !own(row, task) ? color("sharing") : colorOf(task);
  const calls = data.operations.some((o) => o.name.startsWith("MPI_")) ? "MPI" : "calls";
  // Layers of the bins: names, and the order in which they are stacked from the bottom.
  const LAYERS = ["point-to-point", "completion", "collective", "other " + calls, "waiting", "taken"], STACK = [4, 2, 1, 0, 3], WAIT = 4, TAKEN = 5;
  const bytes = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const layers = data.layers.map(bytes);
  let chosen = 0, rows = [], pane = null;

  /** Where the pieces of each row begin among those of a window: they are sorted by row and time. */
  const index = (pieces) => {
    const first = new Array(data.rows.length + 1).fill(pieces.row.length);
    for (let i = pieces.row.length - 1; i >= 0; i--) first[pieces.row[i]] = i;
    for (let r = data.rows.length - 1; r >= 0; r--) first[r] = Math.min(first[r], first[r + 1]);
    return first;
  };
  for (const w of data.windows) for (const kind of ["calls", "waits", "bursts", "interrupts", "messages", "marks"]) w[kind].first = index(w[kind]);

  /** First piece of a row that may extend beyond `from`; nested ones are few. */
  const search = (pieces, row, from) => {
    let [a, b] = [pieces.first[row], pieces.first[row + 1]];
    const begin = a;
    while (a < b) { const m = (a + b) >> 1; if (pieces.at[m] < from) a = m + 1; else b = m; }
    return Math.max(begin, a - 4);
  };
  const each = (pieces, row, from, to, visit) => {
    for (let i = search(pieces, row, from); i < pieces.first[row + 1] && pieces.at[i] < to; i++) {
      if (pieces.at[i] + pieces.len[i] >= from) visit(i, pieces.at[i], pieces.at[i] + pieces.len[i]);
    }
  };
  /** Windows whose pieces are far enough apart to be seen one by one. */
  const exact = () => {
    const { from, to } = pane.view(), room = pane.area().width / 3;
    return data.windows.filter((w) => {
      if (w.to <= from || w.from >= to || pane.edge(w.to) - pane.edge(w.from) < 40) return false;
      const [a, b] = [Math.max(from, w.from), Math.min(to, w.to)];
      const share = (pane.edge(b) - pane.edge(a)) / pane.area().width;
      return data.rows.every((_, r) => search(w.calls, r, b) - search(w.calls, r, a) <= room * share + 4);
    });
  };

  const layOut = () => {
    const n = data.rows.length, height = n <= 8 ? 40 : n <= 16 ? 28 : 15, gap = n <= 16 ? 5 : 2;
    let y = AXIS, node = null;
    rows = data.rows.map((r) => {
      let heading = null;
      if (data.nodes.length > 1 && r.node !== node) { heading = y + 9; y += 20; node = r.node; }
      const row = { ...r, heading, y, height, strip: Math.max(4, Math.round(height * .36)) };
      y += height + gap;
      return row;
    });
    return y + 4;
  };
  const rowOf = (rank) => rows.findIndex((r) => r.rank === rank);

  const drawBins = (g, row, r) => {
    const { from, to } = pane.view(), { left, width } = pane.area(), bins = data.bins, per = data.span / bins;
    const top = row.y + row.strip, h = row.height - row.strip;
    const a = pane.edge(0), b = pane.edge(data.span);
    g.fillStyle = color("compute");
    g.fillRect(a, top, b - a, h);
    g.fillStyle = color("rank");
    g.fillRect(a, row.y, b - a, row.strip);
    const step = Math.max(1, per / (to - from) * width);
    for (let px = Math.max(left, a); px < Math.min(left + width, b); px += step) {
      const first = Math.max(0, Math.floor(pane.at(px) / per)), last = Math.min(bins - 1, Math.max(first, Math.ceil(pane.at(px + step) / per) - 1));
      const mean = (layer) => {
        let sum = 0;
        for (let i = first; i <= last; i++) sum += layers[layer][r * bins + i];
        return sum / (last - first + 1) / 255;
      };
      let y = row.y + row.height;
      for (const layer of STACK) {
        const share = mean(layer) * h;
        if (share <= 0) continue;
        // However short it is, it is visible: at least half a pixel.
        const tall = Math.min(Math.max(.5, share), y - top);
        g.fillStyle = color("layer-" + layer);
        g.fillRect(px, y - tall, step + .3, tall);
        y -= tall;
      }
      const taken = mean(TAKEN);
      if (taken > 0) {
        g.fillStyle = color("taken");
        const tall = Math.max(1, taken * row.strip);
        g.fillRect(px, row.y + row.strip - tall, Math.max(1, step), tall);
      }
    }
  };

  const drawExact = (g, w, row, r) => {
    const { from, to } = pane.view(), [a, b] = [Math.max(from, w.from), Math.min(to, w.to)];
    const top = row.y + row.strip, h = row.height - row.strip, box = (...p) => pane.box(g, ...p);
    g.fillStyle = color("compute");
    g.fillRect(pane.edge(a), top, pane.edge(b) - pane.edge(a), h);
    g.fillStyle = color("faint");
    g.fillRect(pane.edge(a), row.y, pane.edge(b) - pane.edge(a), row.strip);
    const names = [];
    each(w.calls, r, a, b, (i, p, q) => {
      const o = data.operations[w.calls.what[i]];
      box(p, q, top, h, color("layer-" + (o ? o.layer : 3)));
      if (!o || h < 18 || pane.x(q) - pane.x(p) < 40) return;
      // Its name stands after its waits.
      let from = p;
      each(w.waits, r, p, q, (k, c, d) => { if (c < q) from = Math.max(from, d); });
      names.push([o.name.replace(/^MPI_/, ""), from, pane.x(q) - pane.x(from)]);
    });
    each(w.waits, r, a, b, (i, p, q) => {
      const wide = box(p, q, top, h, color("layer-" + WAIT));
      if (h >= 18) label(g, "waits for " + w.waits.what[i], p, wide, top, h, "card");
    });
    for (const [name, from, wide] of names) label(g, name, from, wide, top, h, "soft");
    each(w.bursts, r, a, b, (i, p, q) => {
      const task = data.tasks[w.bursts.what[i]];
      const wide = box(p, q, row.y, row.strip, taskColor(row, w.bursts.what[i]), !w.bursts.unsure.includes(i));
      if (row.strip >= 13 && !own(row, w.bursts.what[i])) label(g, task.name, p, wide, row.y, row.strip, "card");
    });
    each(w.interrupts, r, a, b, (i, p, q) => {
      const deep = Math.min(2, w.interrupts.more[i]) * 3;
      box(p, q, row.y + deep, row.strip - deep, color("interrupt"), !w.interrupts.unsure.includes(i));
    });
    each(w.marks, r, a, b, (i, p, q) => box(p, q, row.y + row.height - 3, 3, markColor(w.marks.what[i])));
  };
  const label = (g, text, from, wide, y, h, tone) => {
    if (wide < 40) return;
    const left = Math.max(pane.x(from), pane.area().left);
    g.save();
    g.beginPath();
    g.rect(left, y, Math.min(wide, pane.x(from) + wide - left) - 4, h);
    g.clip();
    g.textAlign = "left";
    g.font = "11px system-ui, sans-serif";
    g.fillStyle = color(tone);
    g.fillText(text, left + 4, y + h / 2 + .5);
    g.restore();
  };

  /** Messages as lines, where there are few enough to follow one. */
  const drawMessages = (g, w) => {
    const { from, to } = pane.view(), m = w.messages, seen = [];
    for (let i = 0; i < m.row.length && seen.length <= 400; i++) if (m.at[i] < to && m.at[i] + m.len[i] > from) seen.push(i);
    if (seen.length > 400) return 0;
    g.strokeStyle = color("soft");
    g.lineWidth = 1;
    g.globalAlpha = .6;
    for (const i of seen) {
      const s = rows[m.row[i]], d = rows[m.what[i]], middle = (r) => r.y + r.strip + (r.height - r.strip) / 2;
      g.beginPath();
      g.moveTo(pane.x(m.at[i]), middle(s));
      g.lineTo(pane.x(m.at[i] + m.len[i]), middle(d));
      g.stroke();
    }
    g.globalAlpha = 1;
    return seen.length;
  };

  let messages = 0;
  const draw = (g, total) => {
    const late = program.latest[chosen], shown = exact(), { left } = pane.area();
    rows.forEach((row, r) => {
      const marked = late && (row.rank === late.culprit || row.rank === late.origin);
      g.font = (marked ? "700 " : "") + "12px system-ui, sans-serif";
      g.fillStyle = color(marked ? "ink" : "soft");
      g.textAlign = "right";
      g.fillText("rank " + row.rank, left - 10, row.y + row.height / 2);
      if (row.heading !== null) {
        g.textAlign = "left";
        g.font = "700 12px system-ui, sans-serif";
        g.fillText(data.nodes[row.node], 8, row.heading);
      }
      pane.clipped(g, row.y, row.height, () => {
        drawBins(g, row, r);
        for (const w of shown) pane.clipped(g, row.y, row.height, () => drawExact(g, w, row, r));
      });
    });
    messages = 0;
    pane.clipped(g, AXIS, total, () => { for (const w of shown) messages += drawMessages(g, w); });
  };

  /** Where the source to which most of the chosen wait is charged took the origin's CPU: its longest stay there and what adjoins it. */
  const culprit = () => {
    const late = program.latest[chosen], focus = late && data.waits[chosen], r = late ? rowOf(late.origin) : -1;
    const part = late && late.parts[0], source = part && findings.sources[part.source];
    if (r < 0 || !source) return null;
    const is = (task) => source.kind === "rank" ? data.tasks[task].kind === RANK && !own(rows[r], task)
      : baseName(data.tasks[task]) === source.name || data.tasks[task].name === source.name;
    const seen = [];
    for (const w of data.windows) {
      if (w.to < focus.from || w.from > focus.end) continue;
      each(w.bursts, r, focus.from, focus.end, (i, p, q) => { if (is(w.bursts.what[i])) seen.push([p, q]); });
      each(w.interrupts, r, focus.from, focus.end, (i, p, q) => { if (data.sources[w.interrupts.what[i]].name === source.name) seen.push([p, q]); });
    }
    if (!seen.length) return null;
    let [from, to] = seen.reduce((a, b) => b[1] - b[0] > a[1] - a[0] ? b : a);
    const near = (to - from) / 10;
    for (let more = true; more;) {
      more = false;
      for (const [p, q] of seen) {
        if ((p < from && from - q < near) || (q > to && p - to < near)) { from = Math.min(from, p); to = Math.max(to, q); more = true; }
      }
    }
    return { from, to, row: rows[r], text: source.name + " " + time(part.time) };
  };
  const over = (g, total) => {
    const late = program.latest[chosen];
    if (!late) return;
    const focus = data.waits[chosen];
    pane.marked(g, total, focus.begin, focus.end);
    const found = culprit();
    if (!found) return;
    const a = pane.x(found.from), b = pane.x(found.to), { left, width } = pane.area();
    if (b < left || a > left + width) return;
    g.strokeStyle = color("accent");
    g.lineWidth = 2;
    g.strokeRect(a - 1.5, found.row.y - 1.5, Math.max(2, b - a) + 3, found.row.strip + 3);
    const { text } = found;
    g.font = "700 12px system-ui, sans-serif";
    const wide = g.measureText(text).width + 10, at = b + 6 + wide < left + width ? b + 5 : Math.max(left, a - wide - 5);
    g.fillStyle = color("accent");
    g.fillRect(at, found.row.y - 1, wide, Math.max(15, found.row.strip + 2));
    g.fillStyle = color("card");
    g.textAlign = "left";
    g.textBaseline = "middle";
    g.fillText(text, at + 5, found.row.y + Math.max(15, found.row.strip) / 2);
  };

  const report = (view) => {
    canvas.dataset.wait = chosen;
    canvas.dataset.exact = exact().length;
    canvas.dataset.messages = messages;
    const left = exact().reduce((n, w) => n + ["calls", "waits", "bursts", "interrupts", "messages"].reduce((m, k) => m + w[k].left_out, 0), 0);
    byId("lanes-range").textContent = time(Math.round(view.to - view.from)) + " shown, from " + time(Math.round(view.from)) + " to " +
      time(Math.round(view.to)) + " after the begin of the recording; " +
      (exact().length ? "every call" + (messages ? " and message" : "") : "shares of the time; zoom in or choose a wait for the calls themselves") +
      (left ? "; the " + left + " shortest pieces are left out" : "") +
      (data.rows.length < data.ranks ? "; " + data.rows.length + " of " + data.ranks + " ranks" : "");
  };

  const describe = (px, py, t) => {
    const r = rows.findIndex((row) => py >= row.y && py < row.y + row.height + 1), row = rows[r];
    if (!row || t < 0 || t > data.span) return "";
    const head = "rank " + row.rank + (data.nodes.length > 1 ? " on " + data.nodes[row.node] : ""), near = pane.perPixel() * 1.5;
    const w = exact().find((e) => e.from <= t && t <= e.to), lines = [];
    const when = (p, q) => time(q - p) + ", after " + time(p);
    if (!w) {
      const per = data.span / data.bins, i = r * data.bins + Math.min(data.bins - 1, Math.floor(t / per));
      const inside = STACK.reduce((sum, l) => sum + layers[l][i], 0) / 255;
      const part = (name, share) => { if (share > 0) lines.push(name + " " + percent(Math.min(1, share))); };
      part("outside of " + calls, Math.max(0, 1 - inside));
      for (const l of STACK) part(LAYERS[l], layers[l][i] / 255);
      part("taken by others", layers[TAKEN][i] / 255);
      return head + "\n" + lines.join("\n") + "\nof " + time(per) + " around " + time(t);
    }
    const under = (kind, say) => each(w[kind], r, t - near, t + near, (i, p, q) => { if (p - near <= t && t <= q + near) lines.push(say(i, p, q)); });
    under("interrupts", (i, p, q) => idlewave.sourceName(data.sources[w.interrupts.what[i]]) + "\n" + when(p, q));
    under("bursts", (i, p, q) => {
      const task = data.tasks[w.bursts.what[i]];
      const who = own(row, w.bursts.what[i]) ? "the rank itself" : task.kind === RANK ? "another rank" : task.name + ", " + KINDS[task.kind];
      return who + " " + task.pid + "\n" + when(p, q) + " " + REASONS[w.bursts.more[i]];
    });
    under("waits", (i, p, q) => "waits for rank " + w.waits.what[i] + (w.waits.more[i] ? ", " + w.waits.more[i] + " hops from the origin" : "") + "\n" + when(p, q));
    under("calls", (i, p, q) => {
      const o = data.operations[w.calls.what[i]];
      return (o ? o.name : "a call") + (w.calls.more[i] ? ", " + w.calls.more[i] + " B sent" : "") + "\n" + when(p, q);
    });
    under("marks", (i, p, q) => "region " + data.marks[w.marks.what[i]] + "\n" + when(p, q));
    return head + "\n" + (lines.slice(0, 5).join("\n") || "computing");
  };

  const legend = () => {
    const box = byId("lanes-legend"), has = (l) => layers[l].some((v) => v > 0);
    box.replaceChildren(idlewave.legend("outside of " + calls, color("compute")));
    for (const l of STACK) if (has(l)) box.append(idlewave.legend(l === WAIT ? "waiting for another rank" : LAYERS[l], color("layer-" + l)));
    if (has(TAKEN)) box.append(idlewave.legend("taken from the rank", color("taken")));
    order.slice(0, 8).forEach((i) => box.append(idlewave.legend(baseName(data.tasks[i]), colorOf(i))));
    const shared = data.windows.some((w) => w.bursts.row.some((r, i) => data.tasks[w.bursts.what[i]].kind === RANK && !own(data.rows[r], w.bursts.what[i])));
    if (shared) box.append(idlewave.legend("another rank on the same CPU", color("sharing")));
    if (data.sources.length) box.append(idlewave.legend("interrupt", color("interrupt")));
    data.marks.slice(0, 4).forEach((name, i) => box.append(idlewave.legend("region " + name, markColor(i))));
  };

  pane = idlewave.pane({
    canvas, tools: byId("lanes"), left: 74, least: 200, layOut, draw, over, describe, report,
    whole: () => [0, data.span], zero: () => 0,
    focus: () => data.waits.length ? [data.waits[chosen].from, data.waits[chosen].to] : [0, data.span],
  });
  idlewave.drawings.push(() => { pane.draw(); legend(); });
  const choose = idlewave.chooser("wait", (i) => {
    const late = program.latest[i];
    chosen = i;
    byId("wait-title").textContent = "Rank " + late.rank + " waited in " + late.operation + " for rank " + late.culprit;
    idlewave.parts(byId("wait-parts"), late.parts, data.waits[i].end - data.waits[i].begin, "Waited (" + late.kind + ")");
    pane.show(data.waits[i].from, data.waits[i].to);
  });
  const first = document.querySelector("tr[data-wait]");
  if (first) choose(Number(first.dataset.wait)); else pane.whole();
};
