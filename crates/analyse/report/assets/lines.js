"use strict";
/** Lines with bands over a logarithmic x, or on linear scales (`linear`); a line is { name, points: [[x, estimate]], color, dash }. Ticks are at powers of ten; of x at
 *  every one (`each`) or at powers of four (`powers`), of y at 2 and 5 as well (`fine`). `uprights` and `levels` return marks
 *  { at, color, text } on x and y; `title` of an axis stands beside it;
 *  `range` returns [low, high] of y, beyond which lines are cut off. A line may have a `width`. */
idlewave.lines = (id, all, xText, { mark, floor = 1e-4, format, tick, fine, linear, title, uprights, levels, range, absent } = {}) => {
  const { byId, slowdown, color, drawings } = idlewave;
  const shown = format || slowdown;
  let plot;
  drawings.push(() => {
    const box = byId(id);
    if (plot) plot.destroy();
    plot = undefined;
    box.replaceChildren();
    const drawn = (typeof all === "function" ? all() : all).filter((l) => l.points.length);
    if (absent && !drawn.length) { box.append(idlewave.element("p", absent, { class: "absent" })); return; }
    const xs = [...new Set(drawn.flatMap((l) => l.points.map((p) => p[0])))].sort((a, b) => a - b);
    const column = (l, pick) => {
      const known = new Map(l.points.map((p) => [p[0], Math.max(floor, pick(p[1]))]));
      return xs.map((x) => known.has(x) ? known.get(x) : null);
    };
    const data = [xs], series = [{ label: xText.label, value: (u, v) => v === null ? "–" : xText.format(v) }], bands = [];
    for (const l of drawn) {
      const at = series.length;
      data.push(column(l, (e) => e.value), column(l, (e) => e.high), column(l, (e) => e.low));
      series.push({
        label: l.name, stroke: l.color, width: l.width || 2, dash: l.dash, spanGaps: true, points: { size: 5 },
        value: (u, v) => v === null ? "–" : shown(v),
        ...(l.bare && l.points.length > 1 ? { points: { show: false } } : {}),
      });
      for (let i = 0; i < 2; i++) series.push({ label: "", stroke: "transparent", width: 0, spanGaps: true, points: { show: false }, class: "u-edge" });
      bands.push({ series: [at + 1, at + 2], fill: l.color + "26" });
    }
    const decade = (v) => v !== null && Math.abs(Math.log10(v) - Math.round(Math.log10(v))) < 1e-9;
    const filter = (u, at) => at.map((v) => decade(v) ? v : null);
    const steps = (u, at) => at.map((v) => v !== null && [1, 2, 5].includes(Number((v / 10 ** Math.floor(Math.log10(v) + 1e-9)).toPrecision(6))) ? v : null);
    const special = xText.each ? () => xs : xText.powers ? () => xs.filter((x) => Math.round(Math.log2(x)) % 4 === 2 || xs.length < 9) : null;
    const onX = special ? { splits: special, filter: (u, at) => at } : {};
    const onY = fine ? { filter: steps, grid: { stroke: color("faint"), width: 1, filter: steps } } : {};
    const decades = (format, size) => ({
      stroke: color("soft"), font: "12px system-ui, sans-serif", size, filter,
      grid: { stroke: color("faint"), width: 1, filter }, ticks: { stroke: color("line"), width: 1, size: 5, filter },
      values: (u, at) => at.map((v) => v === null ? "" : format(v)),
    });
    const even = (format, size) => {
      const { filter, grid, ticks, ...rest } = decades(format, size);
      const all = ({ filter, ...marks }) => marks;
      return { ...rest, grid: all(grid), ticks: all(ticks) };
    };
    const axis = linear ? even : decades;
    const slow = (v) => v > 10 ? slowdown(v) : Number((v * 100).toPrecision(3)) + " %";
    const upright = uprights ? uprights() : mark ? [{ at: mark, color: color("soft") }] : [], level = levels ? levels() : [];
    const hooks = { draw: [(u) => {
      const { left, top, width, height } = u.bbox, dense = window.devicePixelRatio || 1;
      u.ctx.save();
      u.ctx.beginPath(); u.ctx.rect(left, top, width, height); u.ctx.clip();
      u.ctx.setLineDash([6, 4]);
      u.ctx.font = 12 * dense + "px system-ui, sans-serif";
      u.ctx.textBaseline = "top";
      u.ctx.textAlign = "left";
      const rule = (m, x0, y0, x1, y1) => {
        u.ctx.strokeStyle = m.color;
        u.ctx.beginPath(); u.ctx.moveTo(x0, y0); u.ctx.lineTo(x1, y1); u.ctx.stroke();
      };
      upright.forEach((m, i) => {
        const px = Math.round(u.valToPos(m.at, "x", true));
        rule(m, px, top, px, top + height);
        if (!m.text) return;
        const long = u.ctx.measureText(m.text).width, y = top + (2 + 15 * (i % 4)) * dense;
        const x = px + 8 * dense + long < left + width ? px + 4 * dense : px - 4 * dense - long;
        u.ctx.fillStyle = color("ground");
        u.ctx.fillRect(x - 1, y, long + 2, 13 * dense);
        u.ctx.fillStyle = m.color;
        u.ctx.fillText(m.text, x, y);
      });
      for (const m of level) { const py = Math.round(u.valToPos(m.at, "y", true)); rule(m, left, py, left + width, py); }
      u.ctx.restore();
    }] };
    const titled = (text) => text ? { label: text, labelSize: 20, labelGap: 0, labelFont: "12px system-ui, sans-serif" } : {};
    plot = new uPlot({
      width: box.clientWidth, height: 300, series, bands, hooks,
      scales: { x: { time: false, distr: linear ? 1 : 3 }, y: { distr: linear ? 1 : 3, ...(range ? { range } : {}) } },
      axes: [{ ...axis(xText.tick, 32), ...onX, ...titled(xText.title) }, { ...axis(tick || slow, 62), ...onY, ...titled(title) }],
      padding: [8, 26, 0, 0],
      cursor: { drag: { x: true, y: false } }, legend: { live: true },
    }, data, box);
  });
};
