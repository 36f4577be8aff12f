"use strict";
/* A stretch of time on a canvas, with zoom, pan and keys: what both time lines share. The caller
   says what is drawn in it, and what is under the cursor. Times are offsets in ns.
   `what`: { canvas, tools (element with [data-zoom] buttons), left (margin), least (span in ns),
   whole() -> [from, to], zero() -> time of the axis' 0, layOut() -> height, draw(g, pane, height),
   over(g, pane, height) on top of everything, describe(x, y, t) -> tip, report(view), focus() -> [from, to];
   click(x, y, t) and select(from, to), with Shift, if it has them } */
idlewave.pane = (what) => {
  const { color } = idlewave, { canvas } = what, AXIS = 26;
  let view = { from: 0, to: 1 }, area = { left: what.left, width: 1 };
  const x = (t) => area.left + (t - view.from) / (view.to - view.from) * area.width;
  const at = (px) => view.from + (px - area.left) / area.width * (view.to - view.from);
  const edge = (t) => Math.max(area.left, Math.min(area.left + area.width, x(t)));

  const axis = (g, total) => {
    const zero = what.zero(), span = view.to - view.from, target = span / Math.max(2, area.width / 110);
    const power = 10 ** Math.floor(Math.log10(target));
    const tick = [1, 2, 5, 10].map((m) => m * power).find((t) => t >= target);
    const scale = tick >= 1e9 ? [1e9, "s"] : tick >= 1e6 ? [1e6, "ms"] : tick >= 1e3 ? [1e3, "us"] : [1, "ns"];
    g.textAlign = "center";
    g.lineWidth = 1;
    // Far from 0 only the first label has all digits; the others count from it.
    const start = Math.ceil((view.from - zero) / tick) * tick, far = Math.abs(start) / scale[0] >= 1e4;
    for (let t = start; t <= view.to - zero; t += tick) {
      const px = Math.round(x(t + zero)) + .5;
      g.strokeStyle = color("faint");
      g.beginPath(); g.moveTo(px, AXIS - 5); g.lineTo(px, total); g.stroke();
      g.fillStyle = color("soft");
      const digits = Math.min(9, Math.max(0, Math.round(9 - Math.log10(tick))));
      const text = far && t === start ? (t / 1e9).toFixed(digits) + " s" : (far ? "+" : "") + Number(((far ? t - start : t) / scale[0]).toFixed(3)) + " " + scale[1];
      if (px > area.left + 18 && px < area.left + area.width - 18) g.fillText(text, px, 10);
    }
  };
  /** Clips everything inside to the area. */
  const clipped = (g, y, height, inside) => {
    g.save();
    g.beginPath();
    g.rect(area.left, y, area.width, height);
    g.clip();
    inside();
    g.restore();
  };
  const draw = () => {
    const total = what.layOut(), { g, width } = idlewave.canvas(canvas, total);
    area = { left: what.left, width: Math.max(1, width - what.left - 8) };
    g.font = "12px system-ui, sans-serif";
    g.textBaseline = "middle";
    g.clearRect(0, 0, width, total);
    axis(g, total);
    what.draw(g, total);
    clipped(g, 0, total, () => what.over(g, total));
    canvas.dataset.from = view.from;
    canvas.dataset.to = view.to;
    what.report(view);
  };
  /** Marks the stretch between two times with dashed edges over everything, so that rows can be compared. */
  const marked = (g, total, from, to) => {
    const [a, b] = [x(from), x(to)];
    g.fillStyle = color("accent");
    g.fillRect(a, AXIS - 7, b - a, 3);
    g.strokeStyle = color("accent");
    g.lineWidth = 1;
    g.setLineDash([4, 3]);
    for (const px of [a, b]) { g.beginPath(); g.moveTo(px, AXIS - 6); g.lineTo(px, total - 4); g.stroke(); }
    g.setLineDash([]);
  };
  /** A piece from one time to another; returns its width in pixels. */
  const box = (g, from, to, top, height, fill, solid) => {
    const a = Math.max(x(from), area.left - 2), b = Math.min(x(to), area.left + area.width + 2);
    if (b < area.left - 1 || a > area.left + area.width + 1) return 0;
    g.globalAlpha = solid === false ? .65 : 1;
    g.fillStyle = fill;
    g.fillRect(a, top, Math.max(1, b - a - (b - a > 3 ? .6 : 0)), height);
    g.globalAlpha = 1;
    return b - a;
  };

  /** The same with slanting lines; returns its width in pixels. */
  const hatched = (g, from, to, top, height, stroke) => {
    const a = Math.max(x(from), area.left - 2), b = Math.min(x(to), area.left + area.width + 2);
    if (b < area.left - 1 || a > area.left + area.width + 1) return 0;
    const wide = Math.max(1, b - a);
    g.save();
    g.beginPath();
    g.rect(a, top, wide, height);
    g.clip();
    g.strokeStyle = stroke;
    g.lineWidth = 1.5;
    g.beginPath();
    // Lines are fixed to the canvas, so that pieces which touch look like one.
    for (let px = Math.floor((a - height) / 6) * 6; px < a + wide; px += 6) { g.moveTo(px, top + height); g.lineTo(px + height, top); }
    g.stroke();
    g.strokeRect(a + .5, top + .5, Math.max(0, wide - 1), height - 1);
    g.restore();
    return wide;
  };

  const show = (from, to) => {
    const [first, last] = what.whole(), span = Math.min(last - first, Math.max(what.least, to - from));
    const start = Math.max(first, Math.min(last - span, from + (to - from - span) / 2));
    view = { from: start, to: start + span };
    draw();
  };
  const zoom = (factor, around) => show(around - (around - view.from) * factor, around + (view.to - around) * factor);
  const middle = () => (view.from + view.to) / 2;
  const whole = () => show(...what.whole());

  canvas.addEventListener("wheel", (event) => {
    const out = event.deltaY > 0, [first, last] = what.whole();
    // When all is in view, the wheel scrolls the page, so that nobody gets stuck in the drawing.
    if (event.deltaY === 0 || (out && view.to - view.from >= last - first)) return;
    event.preventDefault();
    const lines = event.deltaMode === 1 ? 30 : 1;
    zoom(Math.exp(Math.max(-1, Math.min(1, event.deltaY * lines / 400))), at(event.offsetX));
  }, { passive: false });
  let drag = null;
  canvas.addEventListener("pointerdown", (event) => {
    drag = { x: event.clientX, from: view.from, to: view.to, begin: event.shiftKey && what.select ? at(event.offsetX) : null, moved: false };
    canvas.setPointerCapture(event.pointerId);
    idlewave.tip("");
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!drag) {
      const { offsetX: px, offsetY: py } = event;
      return idlewave.tip(px < area.left ? "" : what.describe(px, py, at(px)), event.clientX, event.clientY);
    }
    if (!drag.moved && Math.abs(drag.x - event.clientX) < 3) return undefined;
    drag.moved = true;
    if (drag.begin !== null) {
      const [first, last] = what.whole(), now = Math.max(first, Math.min(last, at(event.offsetX)));
      return what.select(Math.min(drag.begin, now), Math.max(drag.begin, now));
    }
    const by = (drag.x - event.clientX) / area.width * (drag.to - drag.from);
    return show(drag.from + by, drag.to + by);
  });
  for (const end of ["pointerup", "pointercancel"]) canvas.addEventListener(end, (event) => {
    const clicked = drag && !drag.moved && end === "pointerup" && event.offsetX >= area.left;
    drag = null;
    if (clicked && what.click) what.click(event.offsetX, event.offsetY, at(event.offsetX));
  });
  canvas.addEventListener("pointerleave", () => idlewave.tip(""));
  canvas.addEventListener("keydown", (event) => {
    const by = (view.to - view.from) / 8;
    const act = {
      ArrowLeft: () => show(view.from - by, view.to - by), ArrowRight: () => show(view.from + by, view.to + by),
      a: () => show(view.from - by, view.to - by), d: () => show(view.from + by, view.to + by), w: () => zoom(.7, middle()), s: () => zoom(1 / .7, middle()),
      "+": () => zoom(.7, middle()), "=": () => zoom(.7, middle()), "-": () => zoom(1 / .7, middle()), 0: whole, Home: whole,
    }[event.key];
    if (act && !event.ctrlKey && !event.metaKey && !event.altKey) { event.preventDefault(); act(); }
  });
  what.tools.querySelectorAll("[data-zoom]").forEach((button) => {
    const act = { in: () => zoom(.6, middle()), out: () => zoom(1 / .6, middle()), all: whole, step: () => show(...what.focus()) };
    button.addEventListener("click", act[button.dataset.zoom]);
  });
  return {
    AXIS, x, at, edge, box, hatched, clipped, marked, draw, show, whole, zoomAt: zoom,
    view: () => view, area: () => area, perPixel: () => (view.to - view.from) / area.width,
  };
};

/** What a task is, why its burst ended, and the colours of tasks; blue is for interrupts, so the palette's second is left out. */
idlewave.KINDS = ["idle", "kernel thread", "user thread", "rank of this run", "idlewave itself", "thread"];
idlewave.REASONS = ["then preempted", "then slept", "then slept (uninterruptible)", "then stopped", "then exited", ""];
idlewave.RANK = 3;
idlewave.taskColors = (tasks, order, colors = [0, 2, 3, 4, 5, 6, 7]) => {
  const bases = order.map((i) => idlewave.baseName(tasks[i]));
  return (i) => tasks[i].kind === idlewave.RANK ? idlewave.color("rank")
    : idlewave.paletteOf(colors, bases.indexOf(idlewave.baseName(tasks[i])));
};
/** One task of each name, longest total run in the time lines first: colours and legends start with those. */
idlewave.mostTime = ({ tasks, windows }) => {
  const ran = new Map(), first = new Map();
  tasks.forEach((t, i) => {
    if (t.kind === idlewave.RANK || first.has(idlewave.baseName(t))) return;
    first.set(idlewave.baseName(t), i);
    ran.set(idlewave.baseName(t), 0);
  });
  for (const { bursts } of windows) bursts.what.forEach((task, i) => {
    const name = idlewave.baseName(tasks[task]);
    if (ran.has(name)) ran.set(name, ran.get(name) + bursts.len[i]);
  });
  return [...first.keys()].sort((a, b) => ran.get(b) - ran.get(a)).map((name) => first.get(name));
};
/** Copies of a kernel thread go by one name, as in the table of sources: kworker/0:1 is kworker. */
idlewave.baseName = (task) => task.kind === 1 ? task.name.split("/")[0] : task.name;
/** "name (class)", the class alone where it says no more. */
idlewave.sourceName = (s) => s.name + (s.kind === s.name ? "" : " (" + s.kind + ")");

/** What made something late: the parts with bars, and their sum with its label. */
idlewave.parts = (box, list, total, words) => {
  const { element, findings, time } = idlewave;
  box.replaceChildren();
  for (const part of list) {
    const s = findings.sources[part.source] || { name: "not in the table of sources", kind: "unexplained" };
    const item = element("div", undefined, { class: "part", "data-part": part.time });
    const name = element("span", s.name), track = element("div", undefined, { class: "track" });
    if (!s.name.startsWith(s.kind.replace(/_/g, " "))) name.append(element("em", " " + s.kind.replace(/_/g, " ")));
    const fill = element("i", undefined, { class: "g-" + idlewave.group(s.kind) });
    fill.style.width = (total ? part.time / total * 100 : 0) + "%";
    track.append(fill);
    item.append(name, element("span", idlewave.percent(total ? part.time / total : 0)), element("strong", time(part.time)), track);
    box.append(item);
  }
  const sum = element("div", undefined, { class: "sum", "data-lateness": total });
  sum.append(element("span", words), element("span", time(total)));
  box.append(sum);
};

/** Rows of a table that can be chosen, one at a time: those with the attribute data-NAME. */
idlewave.chooser = (name, chosen) => {
  const rows = document.querySelectorAll("tr[data-" + name + "]");
  const choose = (index, button) => {
    rows.forEach((r) => {
      const is = Number(r.dataset[name]) === index;
      r.classList.toggle("chosen", is);
      r.querySelector("button").setAttribute("aria-pressed", is);
    });
    chosen(index, Boolean(button));
    if (button) button.focus({ preventScroll: true });
  };
  rows.forEach((row) => row.addEventListener("click", (event) => { if (!event.target.closest("a")) choose(Number(row.dataset[name]), row.querySelector("button")); }));
  return choose;
};
