"use strict";
/* The page of a simulation: curves over ranks, the map over ranks and granularity, colours of the shares. */
idlewave.simulation = () => {
  const { byId, element, findings: sheet, ranks, time, count, color, palette, drawings } = idlewave;
  const points = sheet.points;
  const unique = (of) => [...new Set(points.map(of))];
  const layouts = unique((p) => p.layout), times = unique((p) => p.granularity_ns).sort((a, b) => a - b);
  const inRanks = { label: "ranks", format: (v) => count(v), tick: ranks };
  const short = (ns) => time(ns).replace(/\.0+ /, " ");

  /** One line for each layout and granularity: the layout is the colour, the granularity the dashes. */
  const curves = (of) => layouts.flatMap((layout, l) => times.map((ns, t) => ({
    name: layout + (times.length > 1 ? ", " + short(ns) : ""),
    points: points.filter((p) => p.layout === layout && p.granularity_ns === ns && of(p))
      .sort((a, b) => a.ranks - b.ranks).map((p) => [p.ranks, of(p)]),
    color: palette(layouts.length > 1 ? l : t),
    dash: layouts.length > 1 && t ? [[8, 5], [2, 4], [12, 4, 2, 4]][(t - 1) % 3] : undefined,
  })));
  if (byId("chart-ranks")) idlewave.lines("chart-ranks", () => curves((p) => p.slowdown), inRanks);
  if (byId("chart-amplification")) {
    const times = (v) => "x" + Number(v.toPrecision(3));
    idlewave.lines("chart-amplification", () => curves((p) => p.amplification), inRanks, { floor: 1e-3, format: times, tick: times });
  }
  drawings.push(() => {
    document.querySelectorAll("[data-part]").forEach((part) => {
      const { part: what, palette: i } = part.dataset;
      part.style.background = what === "work" ? color("compute") : what === "communication" ? color("exchange") : palette(Number(i));
    });
  });
  if (byId("map-canvas")) idlewave.map(byId("map-canvas"), points, layouts, times);
};

/** Ranks to the right, granularity upwards, the slow-down as a tone on a logarithmic scale. */
idlewave.map = (canvas, points, layouts, times) => {
  const { byId, element, slowdown, ranks, time, color, drawings } = idlewave, LEFT = 74, BOTTOM = 26, FROM = 1e-3, TO = 10;
  const select = byId("map-layout"), parse = (hex) => [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));
  const columns = [...new Set(points.map((p) => p.ranks))].sort((a, b) => a - b), rows = [...times].reverse();
  const short = (ns) => time(ns).replace(/\.0+ /, " ");
  layouts.forEach((l) => select.append(element("option", l, { value: l })));
  const at = (c, r) => points.find((p) => p.layout === select.value && p.ranks === columns[c] && p.granularity_ns === rows[r]);
  const strength = (s) => Math.max(0, Math.min(1, Math.log(Math.max(s, FROM) / FROM) / Math.log(TO / FROM)));
  const tone = (s) => {
    const low = parse(color("faint")), high = parse(color("alarm"));
    return "rgb(" + low.map((l, k) => Math.round(l + (high[k] - l) * strength(s))) + ")";
  };
  let cell = null, wide = 1, tall = 1;
  const draw = () => {
    tall = Math.max(22, Math.min(44, 330 / rows.length));
    const { g, width, height } = idlewave.canvas(canvas, rows.length * tall + BOTTOM);
    wide = (width - LEFT) / columns.length;
    g.clearRect(0, 0, width, height);
    g.font = "12px system-ui, sans-serif";
    g.textBaseline = "middle";
    rows.forEach((ns, r) => {
      g.textAlign = "right";
      g.fillStyle = color("soft");
      g.fillText(short(ns), LEFT - 8, (r + .5) * tall);
      columns.forEach((_, c) => {
        const p = at(c, r);
        if (!p) return;
        g.fillStyle = tone(p.slowdown.value);
        g.fillRect(LEFT + c * wide, r * tall, wide - 1, tall - 1);
        const text = slowdown(p.slowdown.value);
        if (g.measureText(text).width > wide - 8) return;
        g.textAlign = "center";
        g.fillStyle = strength(p.slowdown.value) > .55 ? color("card") : color("ink");
        g.fillText(text, LEFT + (c + .5) * wide, (r + .5) * tall);
      });
    });
    g.fillStyle = color("soft");
    g.textAlign = "center";
    const every = Math.ceil(48 / wide);
    columns.forEach((n, c) => { if (c % every === 0) g.fillText(ranks(n), LEFT + (c + .5) * wide, rows.length * tall + BOTTOM / 2); });
    if (cell) {
      g.strokeStyle = color("ink");
      g.lineWidth = 2;
      g.strokeRect(LEFT + cell.c * wide + 1, cell.r * tall + 1, wide - 3, tall - 3);
    }
    canvas.dataset.cell = cell ? cell.c + "," + cell.r : "";
    byId("map-legend").replaceChildren(...[FROM, 1e-2, 1e-1, 1, TO].map((s, i) =>
      idlewave.legend((i === 0 ? "at most " : i === 4 ? "at least " : "") + Number((s * 100).toPrecision(2)) + " %", tone(s))));
  };
  const words = ({ c, r }) => {
    const p = at(c, r), place = idlewave.count(columns[c]) + " ranks, " + short(rows[r]) + " of computation";
    if (!p) return place + "\nnot simulated";
    const { value, low, high } = p.slowdown;
    return place + "\nslow-down " + slowdown(value) + " (" + slowdown(low, value) + " to " + slowdown(high, value) + ")";
  };
  const choose = (next) => {
    cell = next;
    byId("map-cell").textContent = cell ? words(cell).replace("\n", ": ") : "";
    draw();
  };
  canvas.addEventListener("pointermove", (event) => {
    const c = Math.floor((event.offsetX - LEFT) / wide), r = Math.floor(event.offsetY / tall);
    const inside = c >= 0 && c < columns.length && r >= 0 && r < rows.length;
    idlewave.tip(inside ? words({ c, r }) : "", event.clientX, event.clientY);
  });
  canvas.addEventListener("pointerleave", () => idlewave.tip(""));
  canvas.addEventListener("keydown", (event) => {
    const by = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    if (!by || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    const from = cell || { c: 0, r: rows.length - 1 }, limit = (v, n) => Math.max(0, Math.min(n - 1, v));
    choose(cell ? { c: limit(from.c + by[0], columns.length), r: limit(from.r + by[1], rows.length) } : from);
  });
  select.addEventListener("change", () => choose(cell));
  drawings.push(draw);
};
