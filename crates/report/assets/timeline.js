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
    w.ranks.forEach((rank, row) => add("rank " + rank, rank === late.last_rank, { regions: pick(w.regions, row), detours: pick(w.detours, row) }));
    return y + 4;
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
    for (const p of interrupts || []) {
      box(p, y + Math.min(2, w.interrupts.more[p[2]]) * 3, strip, color("interrupt"), !w.interrupts.unsure.includes(p[2]));
    }
  };

  /** What the line above the drawing says of the visible stretch. */
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
    box.replaceChildren();
    items.forEach(([name, fill]) => box.append(idlewave.legend(name, fill)));
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
  const choose = idlewave.chooser("late", (index) => {
    chosen = index;
    const late = findings.latest[index], run = findings.lockstep.find((l) => l.phase === late.phase);
    byId("parts-title").textContent = "Step " + late.iteration + (run ? " of " + run.name : "") + ": rank " + late.last_rank + " was last";
    idlewave.parts(byId("parts"), late.parts, late.lateness, run ? "Later than the undisturbed step (" + time(run.step) + ") by" : "Late by");
    legend();
    pane.whole();
  });
  idlewave.drawings.push(() => { pane.draw(); legend(); });
  choose(0);
};
