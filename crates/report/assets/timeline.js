"use strict";
/* The timeline: CPUs and ranks around one late step, with zoom and pan. Times are nanoseconds after
   the window's base, so they are exact although the clock itself may exceed 2^53. */
idlewave.timeline = (data) => {
  const { byId, element, time, color } = idlewave, findings = idlewave.findings;
  const canvas = byId("timeline-canvas"), REGIONS = ["compute", "exchange", "barrier"];
  const KINDS = ["idle", "kernel thread", "user thread", "rank of this run", "idlewave itself", "thread"];
  const REASONS = ["then preempted", "then slept", "then slept (uninterruptible)", "then stopped", "then exited", ""];
  const RANK = 3, AXIS = 26, LEAST_SPAN = 200, GAP = 10;
  let chosen = 0, view = { from: 0, to: 1 }, rows = [], area = { left: 0, width: 1 };
  const others = data.tasks.map((t, i) => i).filter((i) => data.tasks[i].kind !== RANK);
  // Blue is for interrupts: the palette's second colour is left out.
  const taskColor = (i) => data.tasks[i].kind === RANK ? color("rank") : idlewave.palette([0, 2, 3, 4, 5, 6, 7][others.indexOf(i) % 7]);

  /** Rows of the chosen window with their pieces; pieces are [begin, end, index]. */
  const layOut = () => {
    const w = data.windows[chosen], late = findings.latest[chosen];
    const height = w.cpus.length + w.ranks.length > 16 ? 17 : 30;
    const pick = (pieces, row) => {
      const list = [];
      pieces.row.forEach((r, i) => { if (r === row) list.push([pieces.at[i], pieces.at[i] + pieces.len[i], i]); });
      return list;
    };
    let y = AXIS;
    const add = (label, marked, layers) => { rows.push({ label, marked, y, height, layers }); y += height + 3; };
    rows = [];
    w.cpus.forEach((cpu, row) => add("CPU " + cpu, cpu === late.cpu, { bursts: pick(w.bursts, row), interrupts: pick(w.interrupts, row) }));
    if (w.cpus.length && w.ranks.length) y += GAP;
    w.ranks.forEach((rank, row) => add("rank " + rank, rank === late.last_rank, { regions: pick(w.regions, row), detours: pick(w.detours, row) }));
    return y + 4;
  };

  const x = (t) => area.left + (t - view.from) / (view.to - view.from) * area.width;
  const at = (px) => view.from + (px - area.left) / area.width * (view.to - view.from);

  const draw = () => {
    const w = data.windows[chosen], total = layOut();
    const { g, width } = idlewave.canvas(canvas, total);
    area = { left: 74, width: width - 82 };
    g.font = "12px system-ui, sans-serif";
    g.textBaseline = "middle";
    g.clearRect(0, 0, width, total);
    drawAxis(g, w, total);
    const edge = (t) => Math.max(area.left, Math.min(area.left + area.width, x(t)));
    g.fillStyle = color("band");
    g.fillRect(edge(w.step[0]), AXIS - 4, edge(w.step[1]) - edge(w.step[0]), total - AXIS);
    for (const row of rows) {
      g.fillStyle = color(row.marked ? "ink" : "soft");
      g.font = (row.marked ? "700 " : "") + "12px system-ui, sans-serif";
      g.textAlign = "right";
      g.fillText(row.label, area.left - 10, row.y + row.height / 2);
      g.save();
      g.beginPath();
      g.rect(area.left, row.y, area.width, row.height);
      g.clip();
      drawRow(g, w, row);
      g.restore();
    }
    // The edges of the late step lie over everything, so that they can be compared with the rows.
    g.save();
    g.beginPath();
    g.rect(area.left, 0, area.width, total);
    g.clip();
    const [a, b] = [x(w.step[0]), x(w.step[1])];
    g.fillStyle = color("accent");
    g.fillRect(a, AXIS - 7, b - a, 3);
    g.strokeStyle = color("accent");
    g.setLineDash([4, 3]);
    for (const px of [a, b]) { g.beginPath(); g.moveTo(px, AXIS - 6); g.lineTo(px, total - 4); g.stroke(); }
    g.restore();
    report(w);
  };

  const drawAxis = (g, w, total) => {
    const span = view.to - view.from, target = span / Math.max(2, area.width / 110);
    const power = 10 ** Math.floor(Math.log10(target));
    const tick = [1, 2, 5, 10].map((m) => m * power).find((t) => t >= target);
    g.textAlign = "center";
    g.lineWidth = 1;
    for (let t = Math.ceil((view.from - w.step[0]) / tick) * tick; t <= view.to - w.step[0]; t += tick) {
      const px = Math.round(x(t + w.step[0])) + .5;
      g.strokeStyle = color("faint");
      g.beginPath(); g.moveTo(px, AXIS - 5); g.lineTo(px, total); g.stroke();
      g.fillStyle = color("soft");
      const scale = tick >= 1e6 ? [1e6, "ms"] : tick >= 1e3 ? [1e3, "us"] : [1, "ns"];
      const text = Number((t / scale[0]).toFixed(3)) + " " + scale[1];
      if (px > area.left + 18 && px < area.left + area.width - 18) g.fillText(text, px, 10);
    }
  };

  const drawRow = (g, w, row) => {
    const { bursts, interrupts, regions, detours } = row.layers, y = row.y, h = row.height;
    const box = (piece, top, height, fill, solid) => {
      const a = Math.max(x(piece[0]), area.left - 2), b = Math.min(x(piece[1]), area.left + area.width + 2);
      if (b < area.left - 1 || a > area.left + area.width + 1) return 0;
      g.globalAlpha = solid ? 1 : .65;
      g.fillStyle = fill;
      g.fillRect(a, top, Math.max(1, b - a - (b - a > 3 ? .6 : 0)), height);
      g.globalAlpha = 1;
      return b - a;
    };
    const strip = h * .3;
    for (const p of regions || []) box(p, y, h, color(REGIONS[w.regions.what[p[2]]]), true);
    for (const p of detours || []) box(p, y, strip, color("detour"), true);
    for (const p of bursts || []) {
      const task = w.bursts.what[p[2]], wide = box(p, y, h, taskColor(task), !w.bursts.unsure.includes(p[2]));
      if (wide < 46 || h < 20) continue;
      g.save();
      g.beginPath();
      g.rect(Math.max(x(p[0]), area.left), y, wide - 4, h);
      g.clip();
      g.textAlign = "left";
      g.font = "11px system-ui, sans-serif";
      g.fillStyle = data.tasks[task].kind === RANK ? color("soft") : color("card");
      g.fillText(data.tasks[task].name, Math.max(x(p[0]), area.left) + 5, y + h * .68);
      g.restore();
    }
    for (const p of interrupts || []) {
      box(p, y + Math.min(2, w.interrupts.more[p[2]]) * 3, strip, color("interrupt"), !w.interrupts.unsure.includes(p[2]));
    }
  };

  /** What the attributes and the line above the drawing say of the visible stretch. */
  const report = (w) => {
    canvas.dataset.from = view.from;
    canvas.dataset.to = view.to;
    canvas.dataset.late = chosen;
    const signed = (t) => (t < 0 ? "" : "+") + time(Math.round(t));
    const left = w.bursts.left_out + w.interrupts.left_out + w.regions.left_out + w.detours.left_out;
    byId("range").textContent = time(Math.round(view.to - view.from)) + " shown, from " + signed(view.from - w.step[0]) +
      " to " + signed(view.to - w.step[0]) + " after the begin of the late step" +
      (left ? "; the " + left + " shortest pieces are left out" : "");
  };

  const show = (from, to) => {
    const whole = data.windows[chosen].span, span = Math.min(whole, Math.max(LEAST_SPAN, to - from));
    const start = Math.max(0, Math.min(whole - span, from + (to - from - span) / 2));
    view = { from: start, to: start + span };
    draw();
  };
  const zoom = (factor, around) => show(around - (around - view.from) * factor, around + (view.to - around) * factor);
  const middle = () => (view.from + view.to) / 2;
  const whole = () => show(0, data.windows[chosen].span);
  const toStep = () => {
    const [a, b] = data.windows[chosen].step;
    show(a - (b - a) * .04, b + (b - a) * .04);
  };

  const describe = (px, py) => {
    const w = data.windows[chosen], row = rows.find((r) => py >= r.y && py < r.y + r.height);
    if (!row || px < area.left) return "";
    const near = (view.to - view.from) / area.width * 1.5, t = at(px);
    const under = (list) => (list || []).filter((p) => p[0] - near <= t && t <= p[1] + near).reverse();
    const when = (p) => time(p[1] - p[0]) + ", from " + (p[0] < w.step[0] ? "" : "+") + time(p[0] - w.step[0]);
    const lines = [];
    for (const p of under(row.layers.interrupts)) {
      const s = data.sources[w.interrupts.what[p[2]]];
      lines.push(s.name + (s.kind === s.name ? "" : " (" + s.kind + ")") + "\n" + when(p));
    }
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
    const kinds = [...new Set(w.regions.what)].sort(), items = [];
    if (tasks.some((t) => data.tasks[t].kind === RANK)) items.push(["thread of a rank", color("rank")]);
    tasks.filter((t) => data.tasks[t].kind !== RANK).slice(0, 10).forEach((t) => items.push([data.tasks[t].name, taskColor(t)]));
    if (w.interrupts.row.length) items.push(["interrupt", color("interrupt")]);
    kinds.forEach((k) => items.push([REGIONS[k] || "region", color(REGIONS[k] || "faint")]));
    if (w.detours.row.length) items.push(["detour", color("detour")]);
    box.replaceChildren();
    items.forEach(([name, fill]) => box.append(idlewave.legend(name, fill)));
  };

  const parts = () => {
    const late = findings.latest[chosen], box = byId("parts"), run = findings.lockstep.find((l) => l.phase === late.phase);
    byId("parts-title").textContent = "Step " + late.iteration + (run ? " of " + run.name : "") + ": rank " + late.last_rank + " was last";
    box.replaceChildren();
    for (const part of late.parts) {
      const s = findings.sources[part.source] || { name: "not in the table of sources", kind: "unexplained" };
      const item = element("div", undefined, { class: "part", "data-part": part.time });
      const name = element("span", s.name), track = element("div", undefined, { class: "track" });
      if (s.kind.replace("_", " ") !== s.name) name.append(element("em", " " + s.kind.replace(/_/g, " ")));
      const fill = element("i", undefined, { class: "g-" + idlewave.group(s.kind) });
      fill.style.width = (late.lateness ? part.time / late.lateness * 100 : 0) + "%";
      track.append(fill);
      item.append(name, element("span", idlewave.percent(late.lateness ? part.time / late.lateness : 0)), element("strong", time(part.time)), track);
      box.append(item);
    }
    const sum = element("div", undefined, { class: "sum", "data-lateness": late.lateness });
    sum.append(element("span", run ? "Later than the undisturbed step (" + time(run.step) + ") by" : "Late by"), element("span", time(late.lateness)));
    box.append(sum);
  };

  const choose = (index, button) => {
    chosen = index;
    document.querySelectorAll("tr[data-late]").forEach((r) => {
      const is = Number(r.dataset.late) === index;
      r.classList.toggle("chosen", is);
      r.querySelector("button").setAttribute("aria-pressed", is);
    });
    parts();
    legend();
    whole();
    if (button) button.focus({ preventScroll: true });
  };

  document.querySelectorAll("tr[data-late]").forEach((row) => {
    row.addEventListener("click", () => choose(Number(row.dataset.late), row.querySelector("button")));
  });
  canvas.addEventListener("wheel", (event) => {
    const out = event.deltaY > 0, w = data.windows[chosen];
    // At the whole window the wheel scrolls the page, so that nobody is caught in the drawing.
    if (event.deltaY === 0 || (out && view.to - view.from >= w.span)) return;
    event.preventDefault();
    const lines = event.deltaMode === 1 ? 30 : 1;
    zoom(Math.exp(Math.max(-1, Math.min(1, event.deltaY * lines / 400))), at(event.offsetX));
  }, { passive: false });
  let drag = null;
  canvas.addEventListener("pointerdown", (event) => {
    drag = { x: event.clientX, from: view.from, to: view.to };
    canvas.setPointerCapture(event.pointerId);
    idlewave.tip("");
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!drag) return idlewave.tip(describe(event.offsetX, event.offsetY), event.clientX, event.clientY);
    const by = (drag.x - event.clientX) / area.width * (drag.to - drag.from);
    show(drag.from + by, drag.to + by);
  });
  for (const end of ["pointerup", "pointercancel"]) canvas.addEventListener(end, () => { drag = null; });
  canvas.addEventListener("pointerleave", () => idlewave.tip(""));
  canvas.addEventListener("keydown", (event) => {
    const by = (view.to - view.from) / 8;
    const act = {
      ArrowLeft: () => show(view.from - by, view.to - by), ArrowRight: () => show(view.from + by, view.to + by),
      "+": () => zoom(.7, middle()), "=": () => zoom(.7, middle()), "-": () => zoom(1 / .7, middle()), 0: whole, Home: whole,
    }[event.key];
    if (act && !event.ctrlKey && !event.metaKey) { event.preventDefault(); act(); }
  });
  byId("timeline").querySelectorAll("[data-zoom]").forEach((button) => {
    const act = { in: () => zoom(.6, middle()), out: () => zoom(1 / .6, middle()), all: whole, step: toStep };
    button.addEventListener("click", act[button.dataset.zoom]);
  });
  idlewave.drawings.push(() => { draw(); legend(); });
  choose(0);
};
