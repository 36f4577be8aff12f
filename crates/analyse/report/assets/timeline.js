"use strict";
/* The timeline of lockstep runs: CPUs and ranks around one late step. Times are nanoseconds after the
   window's base, so they are exact although the clock itself may exceed 2^53. */
idlewave.timeline = (data) => {
  const { byId, time, color, KINDS, REASONS, RANK } = idlewave, findings = idlewave.findings;
  const canvas = byId("timeline-canvas"), REGIONS = ["compute", "exchange", "barrier"], GAP = 10;
  const order = idlewave.mostTime(data), taskColor = idlewave.taskColors(data.tasks, order), { baseName } = idlewave;
  let chosen = 0, rows = [], pane = null;

  /** Rows of the chosen window with their pieces; pieces are [begin, end, index]. */
  const layOut = () => {
    const w = data.windows[chosen], late = findings.latest[chosen];
    const height = w.cpus.length + w.ranks.length > 16 ? 17 : 30;
    const pick = (pieces, row) => {
      const list = [];
      pieces.row.forEach((r, i) => { if (r === row) list.push([pieces.at[i], pieces.at[i] + pieces.len[i], i]); });
      return list;
    };
    let y = pane.AXIS;
    const add = (label, marked, layers) => { rows.push({ label, marked, y, height, layers }); y += height + 3; };
    rows = [];
    w.cpus.forEach((cpu, row) => add(cpu, row === w.late_cpu, { bursts: pick(w.bursts, row), interrupts: pick(w.interrupts, row) }));
    if (w.cpus.length && w.ranks.length) y += GAP;
    w.ranks.forEach((rank, row) => {
      add("rank " + rank, rank === late.last_rank, { regions: pick(w.regions, row), detours: pick(w.detours, row) });
      const pieces = charged(w, late, rank, row);
      if (pieces.length) add("charged", rank === late.last_rank, { charged: pieces });
    });
    return y + 4;
  };

  /** Colours of what a step is charged with: those of the same task or interrupt above it, and colours of their own for the rest. */
  const chargeColor = (s) => {
    const task = order.find((t) => baseName(data.tasks[t]) === s.name);
    if (s.kind === "hypervisor") return color("gap");
    if (s.kind === "slow_level") return color("slow");
    if (s.kind === "rank") return color("sharing");
    if (task !== undefined && idlewave.group(s.kind) === "task") return taskColor(task);
    return color(idlewave.group(s.kind));
  };
  const sourceOf = (i) => findings.sources[i] || { name: "not in the table of sources", kind: "unexplained" };

  /** What the late step is charged with on a rank: where it was, or, if only its length is known, a hatched share of what is left
      of the step, from its end backwards. Pieces are { from, to, source, time, hatched }. */
  const charged = (w, late, rank, row) => {
    const own = [], { at, len, what } = w.charged;
    w.charged.row.forEach((r, i) => { if (r === row) own.push({ from: at[i], to: at[i] + len[i], source: what[i], time: len[i], hatched: false }); });
    if (rank !== late.last_rank) return own;
    const drawn = (source) => what.reduce((sum, s, i) => sum + (s === source ? len[i] : 0), 0);
    const busy = own.map((p) => [p.from, p.to]).sort((a, b) => a[0] - b[0]), free = [];
    let from = w.step[0];
    for (const [a, b] of busy) { if (a > from) free.push([from, a]); from = Math.max(from, b); }
    if (from < w.step[1]) free.push([from, w.step[1]]);
    for (const part of late.parts) {
      let rest = part.time - drawn(part.source);
      if (rest < late.lateness / 200) continue;
      while (rest > 0 && free.length) {
        const last = free[free.length - 1], take = Math.min(rest, last[1] - last[0]);
        own.push({ from: last[1] - take, to: last[1], source: part.source, time: part.time, hatched: true });
        last[1] -= take;
        rest -= take;
        if (last[1] <= last[0]) free.pop();
      }
    }
    return own;
  };

  const draw = (g, total) => {
    const w = data.windows[chosen], [a, b] = w.step.map(pane.edge);
    g.fillStyle = color("band");
    g.fillRect(a, pane.AXIS - 4, b - a, total - pane.AXIS);
    for (const row of rows) {
      g.fillStyle = color(row.marked ? "ink" : "soft");
      g.font = (row.marked ? "700 " : "") + "12px system-ui, sans-serif";
      g.textAlign = "right";
      g.fillText(row.label, pane.area().left - 10, row.y + row.height / 2);
      pane.clipped(g, row.y, row.height, () => drawRow(g, w, row));
    }
  };

  const drawRow = (g, w, row) => {
    const { bursts, interrupts, regions, detours } = row.layers, y = row.y, h = row.height, left = pane.area().left;
    const box = (p, top, height, fill, solid) => pane.box(g, p[0], p[1], top, height, fill, solid);
    const strip = h * .3;
    for (const p of regions || []) box(p, y, h, color(REGIONS[w.regions.what[p[2]]]), true);
    for (const p of detours || []) box(p, y, strip, color("detour"), true);
    for (const p of bursts || []) {
      const task = w.bursts.what[p[2]], wide = box(p, y, h, taskColor(task), !w.bursts.unsure.includes(p[2]));
      if (wide < 46 || h < 20) continue;
      g.save();
      g.beginPath();
      g.rect(Math.max(pane.x(p[0]), left), y, wide - 4, h);
      g.clip();
      g.textAlign = "left";
      g.font = "11px system-ui, sans-serif";
      g.fillStyle = data.tasks[task].kind === RANK ? color("soft") : color("card");
      g.fillText(data.tasks[task].name, Math.max(pane.x(p[0]), left) + 5, y + h * .68);
      g.restore();
    }
    for (const p of row.layers.charged || []) drawCharged(g, row, p);
    if (row.marked && bursts) for (const p of gaps(w)) pane.hatched(g, p.from, p.to, y, h, chargeColor(sourceOf(p.source)));
    for (const p of interrupts || []) {
      box(p, y + Math.min(2, w.interrupts.more[p[2]]) * 3, strip, color("interrupt"), !w.interrupts.unsure.includes(p[2]));
    }
  };

  /** Where the late rank's CPU did not run what the kernel says it ran. */
  const gaps = (w) => {
    const late = findings.latest[chosen], row = w.ranks.indexOf(late.last_rank);
    return row < 0 ? [] : charged(w, late, late.last_rank, row).filter((p) => !p.hatched && sourceOf(p.source).kind === "hypervisor");
  };
  const drawCharged = (g, row, p) => {
    const s = sourceOf(p.source), fill = chargeColor(s), { y, height: h } = row;
    const wide = p.hatched ? pane.hatched(g, p.from, p.to, y, h, fill) : pane.box(g, p.from, p.to, y, h, fill);
    const text = s.name + " " + time(p.time) + (p.hatched ? ", length only" : ""), left = Math.max(pane.x(p.from), pane.area().left);
    g.font = "11px system-ui, sans-serif";
    g.textAlign = "left";
    const room = g.measureText(text).width + 8;
    if (h < 14 || wide < room) return;
    g.fillStyle = color("card");
    if (p.hatched) g.fillRect(left + 2, y + h * .2, room, h * .6);
    g.fillStyle = color(p.hatched ? "ink" : "card");
    g.fillText(text, left + 6, y + h / 2);
  };

  /** What the line above the drawing says about the visible stretch. */
  const report = (view) => {
    const w = data.windows[chosen];
    canvas.dataset.late = chosen;
    const signed = (t) => (t < 0 ? "" : "+") + time(Math.round(t));
    const left = w.bursts.left_out + w.interrupts.left_out + w.regions.left_out + w.detours.left_out;
    byId("range").textContent = time(Math.round(view.to - view.from)) + " shown, from " + signed(view.from - w.step[0]) +
      " to " + signed(view.to - w.step[0]) + " after the begin of the late step" +
      (left ? "; the " + left + " shortest pieces are left out" : "");
  };

  const describe = (px, py, t) => {
    const w = data.windows[chosen], row = rows.find((r) => py >= r.y && py < r.y + r.height);
    if (!row) return "";
    const near = pane.perPixel() * 1.5;
    const under = (list) => (list || []).filter((p) => p[0] - near <= t && t <= p[1] + near).reverse();
    const when = (p) => time(p[1] - p[0]) + ", from " + (p[0] < w.step[0] ? "" : "+") + time(p[0] - w.step[0]);
    const lines = [];
    for (const p of under(row.layers.interrupts)) lines.push(idlewave.sourceName(data.sources[w.interrupts.what[p[2]]]) + "\n" + when(p));
    for (const p of under(row.layers.detours)) lines.push("detour seen by the rank\n" + when(p));
    for (const p of under(row.layers.bursts)) {
      const task = data.tasks[w.bursts.what[p[2]]], unsure = w.bursts.unsure.includes(p[2]) ? " (begin or end inferred)" : "";
      lines.push(task.name + ", " + KINDS[task.kind] + " " + task.pid + "\n" + when(p) + unsure + " " + REASONS[w.bursts.more[p[2]]]);
    }
    for (const p of under(row.layers.regions)) {
      lines.push(REGIONS[w.regions.what[p[2]]] + " of step " + w.regions.more[p[2]] + "\n" + when(p));
    }
    for (const p of (row.layers.charged || []).filter((c) => c.from - near <= t && t <= c.to + near)) {
      lines.push(sourceOf(p.source).name + "\n" + (p.hatched ? time(p.time) + " of the step; where in it is not known" : when([p.from, p.to])));
    }
    return row.label + "\n" + (lines.slice(0, 4).join("\n") || "nothing recorded");
  };

  const legend = () => {
    const w = data.windows[chosen], box = byId("timeline-legend"), tasks = [...new Set(w.bursts.what)];
    const there = new Set(tasks.map((t) => baseName(data.tasks[t])));
    const kinds = [...new Set(w.regions.what)].sort(), items = [];
    if (tasks.some((t) => data.tasks[t].kind === RANK)) items.push(["thread of a rank", color("rank")]);
    order.filter((t) => there.has(baseName(data.tasks[t]))).slice(0, 10).forEach((t) => items.push([baseName(data.tasks[t]), taskColor(t)]));
    if (w.interrupts.row.length) items.push(["interrupt", color("interrupt")]);
    kinds.forEach((k) => items.push([REGIONS[k] || "region", color(REGIONS[k] || "faint")]));
    if (w.detours.row.length) items.push(["detour", color("detour")]);
    // What the step is charged with, unless its name and colour are there already.
    const late = findings.latest[chosen], row = w.ranks.indexOf(late.last_rank), seen = new Set();
    for (const p of charged(w, late, late.last_rank, row)) {
      const s = sourceOf(p.source), fill = chargeColor(s), key = s.name + p.hatched;
      if (seen.has(key) || items.some((item) => item[0] === s.name && !p.hatched)) continue;
      seen.add(key);
      items.push([s.name + (p.hatched ? " (length only)" : ""), fill, p.hatched]);
    }
    canvas.dataset.charged = JSON.stringify(charged(w, late, late.last_rank, row).map((p) => [p.source, p.to - p.from, p.hatched]));
    // Classes of one colour are one entry: interrupts of several names.
    const byFill = new Map();
    for (const [name, fill, hatched] of items) {
      const key = fill + (hatched || false), had = byFill.get(key);
      byFill.set(key, had ? [had[0] + ", " + name, fill, hatched] : [name, fill, hatched]);
    }
    box.replaceChildren();
    byFill.forEach(([name, fill, hatched]) => box.append(idlewave.legend(name, fill, hatched)));
  };

  pane = idlewave.pane({
    canvas, tools: byId("timeline"), left: 74, least: 200, layOut, draw, describe, report,
    whole: () => [0, data.windows[chosen].span],
    zero: () => data.windows[chosen].step[0],
    over: (g, total) => pane.marked(g, total, ...data.windows[chosen].step),
    focus: () => {
      const [a, b] = data.windows[chosen].step;
      return [a - (b - a) * .04, b + (b - a) * .04];
    },
  });
  const stories = document.querySelectorAll(".story");
  const choose = idlewave.chooser("late", (index, byHand) => {
    chosen = index;
    stories.forEach((s) => s.classList.toggle("chosen", s.id === "late-" + index));
    // Each late step has an address of its own.
    if (byHand && location.hash !== "#late-" + index) history.pushState(null, "", "#late-" + index);
    const late = findings.latest[index], run = findings.lockstep.find((l) => l.phase === late.phase);
    byId("parts-title").textContent = "Step " + late.iteration + (run ? " of " + run.name : "") + ": rank " + late.last_rank + " was last";
    idlewave.parts(byId("parts"), late.parts, late.lateness, run ? "Later than the undisturbed step (" + time(run.step) + ") by" : "Late by");
    legend();
    pane.whole();
  });
  idlewave.drawings.push(() => { pane.draw(); legend(); });
  choose(0);
  const follow = () => {
    const index = Number((location.hash.match(/^#late-(\d{1,4})$/) || [])[1]);
    if (!data.windows[index]) return;
    choose(index);
    byId("late-" + index).scrollIntoView({ block: "center" });
  };
  addEventListener("hashchange", follow);
  follow();
};
