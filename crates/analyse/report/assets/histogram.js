"use strict";
/* Histograms on log bins, both scales logarithmic. A series is { name, bins: [[edge ns, count]], color };
   a mark is a vertical line { at, color }; `titles` of the axes are { x, y }. */
idlewave.histogram = (box, series, marks, titles) => {
  const LEFT = 70, RIGHT = 10, TOP = 8, BOTTOM = 44, HEIGHT = 268;
  box.replaceChildren();
  const shown = series.filter((s) => s.bins.length);
  if (!shown.length) { box.append(idlewave.element("p", "Not measured.", { class: "absent" })); return; }
  const canvas = idlewave.element("canvas", undefined, { role: "img", "aria-label": "Histogram" });
  box.append(canvas);
  const { g, width } = idlewave.canvas(canvas, HEIGHT);
  const ratio = binRatio(shown);
  const right = (bins, i) => {
    const next = bins[i + 1] && bins[i + 1][0], own = Math.max(bins[i][0], 1) * ratio;
    return next && next < own * 1.4 ? next : own;
  };
  const edges = shown.flatMap((s) => [s.bins[0][0], right(s.bins, s.bins.length - 1)]);
  edges.push(...marks.map((m) => m.at));
  const low = Math.log(Math.max(1, Math.min(...edges)) / ratio), high = Math.log(Math.max(...edges) * ratio);
  const top = Math.log10(Math.max(...shown.flatMap((s) => s.bins.map((b) => b[1])))) + .15, floor = Math.log10(.6);
  const x = (ns) => LEFT + (Math.log(Math.max(1, ns)) - low) / (high - low) * (width - LEFT - RIGHT);
  const y = (n) => TOP + (top - Math.log10(n)) / (top - floor) * (HEIGHT - TOP - BOTTOM);
  const foot = HEIGHT - BOTTOM;

  g.font = "12px system-ui, sans-serif";
  g.textBaseline = "middle";
  g.lineWidth = 1;
  g.textAlign = "right";
  const every = Math.max(1, Math.ceil(top / 5));
  for (let p = 0; p <= top; p += every) {
    line(g, LEFT, Math.round(y(10 ** p)) + .5, width - RIGHT, Math.round(y(10 ** p)) + .5, idlewave.color("faint"));
    g.fillStyle = idlewave.color("soft");
    g.fillText(idlewave.count(10 ** p), LEFT - 7, y(10 ** p));
  }
  g.textAlign = "center";
  let free = 0;
  for (const tick of ticks(Math.exp(low), Math.exp(high), width)) {
    const px = x(tick), text = idlewave.time(tick).replace(/\.0+ /, " ");
    line(g, px, TOP, px, foot, idlewave.color("faint"));
    const half = g.measureText(text).width / 2;
    if (px - half < free || px + half > width) continue;
    g.fillStyle = idlewave.color("soft");
    g.fillText(text, px, foot + 15);
    free = px + half + 14;
  }
  g.fillStyle = idlewave.color("soft");
  g.fillText(titles.x, (LEFT + width - RIGHT) / 2, HEIGHT - 8);
  g.save();
  g.translate(8, (TOP + foot) / 2);
  g.rotate(-Math.PI / 2);
  g.fillText(titles.y, 0, 0);
  g.restore();
  for (const s of shown) {
    g.fillStyle = s.color;
    g.globalAlpha = shown.length > 1 ? .55 : .85;
    s.bins.forEach((b, i) => {
      const a = x(b[0]), w = Math.max(1.5, x(right(s.bins, i)) - a - .5);
      if (b[1] > 0) g.fillRect(a, y(b[1]), w, foot - y(b[1]));
    });
    g.globalAlpha = 1;
  }
  line(g, LEFT, foot + .5, width - RIGHT, foot + .5, idlewave.color("soft"));
  g.setLineDash([5, 3]);
  for (const m of marks) line(g, x(m.at), TOP, x(m.at), foot, m.color);
  g.setLineDash([]);

  if (shown.length > 1) {
    const legend = idlewave.element("p", undefined, { class: "legend" });
    shown.forEach((s) => legend.append(idlewave.legend(s.name, s.color)));
    box.append(legend);
  }
  canvas.addEventListener("pointermove", (event) => {
    const lines = [];
    for (const s of shown) {
      s.bins.forEach((b, i) => {
        if (event.offsetX >= x(b[0]) - 1 && event.offsetX < Math.max(x(b[0]) + 2, x(right(s.bins, i)))) {
          lines.push(s.name + ": " + idlewave.count(b[1]) + ", from " + idlewave.time(b[0]) + " on");
        }
      });
    }
    idlewave.tip(lines.slice(0, 6).join("\n"), event.clientX, event.clientY);
  });
  canvas.addEventListener("pointerleave", () => idlewave.tip(""));

  function line(g, x0, y0, x1, y1, color) {
    g.strokeStyle = color;
    g.beginPath(); g.moveTo(x0, y0); g.lineTo(x1, y1); g.stroke();
  }
  /** Width of a bin as a ratio: empty bins are left out, so the closest pair of edges gives it. */
  function binRatio(all) {
    let least = Infinity;
    for (const s of all) {
      for (let i = 1; i < s.bins.length; i++) {
        const r = s.bins[i][0] / Math.max(1, s.bins[i - 1][0]);
        if (r > 1.0005) least = Math.min(least, r);
      }
    }
    return least === Infinity ? 1.05 : Math.min(2, least);
  }
  /** Round times between two ends: six per decade, fewer if there are many decades, evenly spaced within a third of one. */
  function ticks(from, to, width) {
    const decades = Math.log10(to / from), out = [];
    const steps = decades < .35 ? null : decades > 4 ? [1] : decades > 2 ? [1, 3] : [1, 1.5, 2, 3, 5, 7];
    if (!steps) {
      const target = (to - from) / Math.max(2, width / 120), power = 10 ** Math.floor(Math.log10(target));
      const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= target);
      for (let t = Math.ceil(from / step) * step; t <= to; t += step) out.push(Math.round(t));
      return out;
    }
    for (let p = Math.floor(Math.log10(from)); p <= Math.log10(to); p++) {
      for (const m of steps) if (m * 10 ** p >= from && m * 10 ** p <= to) out.push(Math.round(m * 10 ** p));
    }
    return out;
  }
};
