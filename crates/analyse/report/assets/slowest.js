"use strict";
/* The map of the slowest rank: steps to the right, ranks downwards, darker = more often last. */
idlewave.slowest = (canvas, map) => {
  const MARGIN = 62, AXIS = 24;
  const rowHeight = Math.max(1, Math.min(34, 300 / map.rows));
  const perColumn = new Array(map.columns).fill(0);
  map.counts.forEach((n, i) => { perColumn[i % map.columns] += n; });
  const share = (row, column) => map.counts[row * map.columns + column] / (perColumn[column] || 1);
  const firstRank = (row) => Math.ceil(row * map.ranks / map.rows);
  const ranksOf = (row) => {
    const a = firstRank(row), b = firstRank(row + 1) - 1;
    return a === b ? "rank " + a : "ranks " + a + " to " + b;
  };
  const parse = (hex) => [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));
  let area;

  const draw = () => {
    const { g, width, height } = idlewave.canvas(canvas, rowHeight * map.rows + AXIS);
    area = { width: width - MARGIN, height: height - AXIS };
    const low = parse(idlewave.color("card")), high = parse(idlewave.color("interrupt"));
    const image = new ImageData(map.columns, map.rows);
    for (let i = 0; i < map.counts.length; i++) {
      const strength = Math.sqrt(share(Math.floor(i / map.columns), i % map.columns));
      for (let k = 0; k < 3; k++) image.data[i * 4 + k] = low[k] + (high[k] - low[k]) * strength;
      image.data[i * 4 + 3] = 255;
    }
    const small = new OffscreenCanvas(map.columns, map.rows);
    small.getContext("2d").putImageData(image, 0, 0);
    g.clearRect(0, 0, width, height);
    g.imageSmoothingEnabled = false;
    g.drawImage(small, MARGIN, 0, area.width, area.height);
    g.fillStyle = idlewave.color("soft");
    g.font = "12px system-ui, sans-serif";
    g.textBaseline = "middle";
    g.textAlign = "right";
    const every = Math.ceil(16 / rowHeight);
    for (let row = 0; row < map.rows; row += every) g.fillText("rank " + firstRank(row), MARGIN - 8, (row + .5) * rowHeight);
    g.textAlign = "left";
    g.fillText("step 0", MARGIN, area.height + AXIS / 2);
    if (area.width > 440) scale(g, low, high, MARGIN + area.width / 2, area.height + AXIS / 2);
    g.textAlign = "right";
    g.fillText(idlewave.count(map.steps), width - 2, area.height + AXIS / 2);
  };
  const scale = (g, low, high, middle, y) => {
    const mix = (s) => "rgb(" + low.map((l, k) => Math.round(l + (high[k] - l) * s)) + ")";
    for (let i = 0; i < 60; i++) { g.fillStyle = mix(Math.sqrt(i / 59)); g.fillRect(middle - 60 + 2 * i, y - 5, 2, 10); }
    g.fillStyle = idlewave.color("soft");
    g.textAlign = "right"; g.fillText("never last", middle - 66, y);
    g.textAlign = "left"; g.fillText("always", middle + 66, y);
  };
  canvas.addEventListener("pointermove", (event) => {
    const column = Math.floor((event.offsetX - MARGIN) / area.width * map.columns);
    const row = Math.floor(event.offsetY / rowHeight);
    if (column < 0 || column >= map.columns || row < 0 || row >= map.rows) return idlewave.tip("");
    const from = Math.ceil(column * map.steps / map.columns), to = Math.ceil((column + 1) * map.steps / map.columns) - 1;
    const steps = from === to ? "step " + from : "steps " + from + " to " + to;
    idlewave.tip(ranksOf(row) + "\n" + steps + "\nlast in " + idlewave.percent(share(row, column)) +
      " of them; by chance " + idlewave.percent((firstRank(row + 1) - firstRank(row)) / map.ranks), event.clientX, event.clientY);
  });
  canvas.addEventListener("pointerleave", () => idlewave.tip(""));
  idlewave.drawings.push(draw);
};
