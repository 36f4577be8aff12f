"use strict";
/* Waiting in space and time: ranks downwards, time to the right; the tone shows waiting, colours on top show what took the CPUs. */
idlewave.spacetime = (maps) => {
  const { byId, findings, time, percent, color, legend } = idlewave;
  const canvas = byId("spacetime-canvas"), select = byId("spacetime-map"), LEFT = 74, BOTTOM = 6;
  const LEVELS = 31, levels = (text) => Uint8Array.from(text, (c) => c.charCodeAt(0) - 48);
  const cells = maps.map((m) => ({ waiting: levels(m.waiting), who: levels(m.who), taken: levels(m.taken) }));
  const parse = (hex) => [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));
  // The tone of waiting is blue, so the palette's second is left out.
  const COLORS = [0, 2, 3, 4, 5, 6, 7];
  let chosen = 0, image = null;
  const map = () => maps[chosen];
  const span = () => map().columns * map().column;
  const tall = () => Math.min(22, 384 / map().rows);
  const nameOf = (who) => who > map().sources.length ? "others" : findings.sources[map().sources[who - 1]].name;
  const colorOf = (who) => who > map().sources.length ? color("unnamed") : idlewave.paletteOf(COLORS, who - 1);
  const firstRank = (row) => map().first + Math.ceil(row * map().ranks / map().rows);
  const ranksOf = (row) => {
    const a = firstRank(row), b = firstRank(row + 1) - 1;
    return a === b ? "rank " + a : "ranks " + a + " to " + b;
  };

  /** The cells as an image, one pixel each; rebuilt when colours or the map change. */
  const paint = () => {
    const m = map(), { waiting, who, taken } = cells[chosen], data = new ImageData(m.columns, m.rows);
    const ground = parse(color("card")), tone = parse(color("accent"));
    const fills = Array.from({ length: m.sources.length + 2 }, (_, i) => i ? parse(colorOf(i)) : ground);
    for (let i = 0; i < waiting.length; i++) {
      const w = .75 * waiting[i] / LEVELS, t = who[i] ? Math.min(1, .1 + taken[i] / LEVELS) : 0;
      const fill = fills[Math.min(who[i], fills.length - 1)];
      for (let k = 0; k < 3; k++) {
        const waited = ground[k] + (tone[k] - ground[k]) * w;
        data.data[4 * i + k] = waited + (fill[k] - waited) * t;
      }
      data.data[4 * i + 3] = 255;
    }
    image = new OffscreenCanvas(m.columns, m.rows);
    image.getContext("2d").putImageData(data, 0, 0);
    const box = byId("spacetime-legend"), seen = new Set(who);
    const mix = (s) => "rgb(" + ground.map((l, k) => Math.round(l + (tone[k] - l) * .75 * Math.sqrt(s))) + ")";
    box.replaceChildren(legend("waiting: no time", mix(0)), legend("a quarter", mix(.25)), legend("all of it", mix(1)));
    for (let i = 1; i < fills.length; i++) if (seen.has(i)) box.append(legend(nameOf(i), colorOf(i)));
  };
  const draw = (g, total) => {
    const m = map(), a = pane.area(), v = pane.view(), top = pane.AXIS, height = total - top - BOTTOM;
    g.imageSmoothingEnabled = (v.to - v.from) / m.column > a.width;
    g.imageSmoothingQuality = "high";
    const from = v.from / m.column, wide = (v.to - v.from) / m.column;
    g.drawImage(image, from, 0, wide, m.rows, a.left, top, a.width, height);
    g.textAlign = "right";
    g.fillStyle = color("soft");
    const every = Math.ceil(15 / tall());
    for (let row = 0; row < m.rows; row += every) g.fillText("rank " + firstRank(row), LEFT - 8, top + (row + .5) * tall());
  };
  /** The path of an undisturbed wave from the late rank. */
  const over = (g, total) => {
    const m = map(), late = m.late === null ? null : findings.latest[m.late];
    if (!late || !m.speed) return;
    const y = (rank) => pane.AXIS + (rank - m.first + .5) * m.rows / m.ranks * tall(), delayed = m.zero + late.end_ns - late.begin_ns;
    g.save();
    g.beginPath(); g.rect(LEFT, pane.AXIS, pane.area().width, total - pane.AXIS - BOTTOM); g.clip();
    g.strokeStyle = color("ink");
    g.lineWidth = 1.25;
    g.setLineDash([6, 4]);
    for (const side of m.one_sided ? [1] : [-1, 1]) {
      const ranks = side < 0 ? late.last_rank - m.first : m.first + m.ranks - 1 - late.last_rank;
      g.beginPath();
      g.moveTo(pane.x(delayed), y(late.last_rank));
      g.lineTo(pane.x(delayed + ranks / m.speed), y(late.last_rank + side * ranks));
      g.stroke();
    }
    g.restore();
  };
  const describe = (px, py, t) => {
    const m = map(), row = Math.floor((py - pane.AXIS) / tall()), column = Math.floor(t / m.column);
    if (row < 0 || row >= m.rows || column < 0 || column >= m.columns) return "";
    const i = row * m.columns + column, c = cells[chosen];
    const about = (x) => x === 0 ? "no time" : percent(((x - 1) / LEVELS) ** 2) + " to " + percent((x / LEVELS) ** 2) + " of the time";
    const from = column * m.column - m.zero;
    let text = ranksOf(row) + "\n" + time(from) + " to " + time(from + m.column) + "\nwaiting: " + about(c.waiting[i]);
    if (c.who[i]) text += "\ntaken: " + about(c.taken[i]) + ", most by " + nameOf(c.who[i]);
    return text;
  };
  const pane = idlewave.pane({
    canvas, tools: byId("spacetime-figure"), left: LEFT, least: 1, whole: () => [0, span()], zero: () => map().zero,
    layOut: () => map().rows * tall() + 26 + BOTTOM, draw, over, describe, focus: () => [0, span()],
    report: (v) => {
      const m = map();
      byId("spacetime-range").textContent = time(v.to - v.from) + " shown, from " + time(v.from - m.zero) +
        (m.late === null ? " after the begin" : " from the begin of the late step") + "; a cell is " + time(m.column) + " of " +
        (m.rows === m.ranks ? "one rank" : "about " + Math.round(m.ranks / m.rows) + " ranks");
      canvas.dataset.map = chosen;
    },
  });
  // Starts with a late step, if there is one: there is something to see.
  chosen = Math.max(0, maps.findIndex((m) => m.late !== null));
  select.value = chosen;
  select.addEventListener("change", () => { chosen = Number(select.value); paint(); pane.whole(); });
  let begun = false;
  idlewave.drawings.push(() => {
    paint();
    if (begun) pane.draw(); else { begun = true; pane.whole(); }
  });
};
