"use strict";
/* The communication matrix: sender to the right, receiver downwards, stronger = more. Many ranks share a cell. */
idlewave.matrix = (canvas) => {
  const { byId, color, count, findings } = idlewave, program = findings.program, LEFT = 62, TOP = 22, MOST = 128;
  const n = Math.max(1, program.ranks), cells = Math.min(n, MOST), of = (rank) => Math.floor(rank * cells / n);
  const choice = byId("matrix-of");
  const parse = (hex) => [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));
  const amount = (v, field) => field === 2 ? count(v) + " messages" : count(v) + " B";
  let sums = null, side = 1;

  const draw = () => {
    const field = Number(choice.value), all = new Float64Array(cells * cells);
    for (const entry of program.matrix) if (entry[0] < n && entry[1] < n) all[of(entry[1]) * cells + of(entry[0])] += entry[field];
    sums = all;
    const room = Math.min(canvas.clientWidth - LEFT - 2, 420);
    side = room / cells;
    const { g, width, height } = idlewave.canvas(canvas, Math.ceil(room) + TOP + 24), most = Math.max(1, ...all);
    const low = parse(color("card")), high = parse(color("interrupt"));
    g.clearRect(0, 0, width, height);
    for (let i = 0; i < all.length; i++) {
      // Square root, so that small amounts are visible beside large ones; zero keeps the background.
      const strength = all[i] ? .12 + .88 * Math.sqrt(all[i] / most) : 0;
      g.fillStyle = all[i] ? "rgb(" + low.map((l, k) => Math.round(l + (high[k] - l) * strength)) + ")" : color("faint");
      g.fillRect(LEFT + i % cells * side, TOP + Math.floor(i / cells) * side, Math.max(1, side - (side > 6 ? 1 : 0)), Math.max(1, side - (side > 6 ? 1 : 0)));
    }
    g.fillStyle = color("soft");
    g.font = "12px system-ui, sans-serif";
    g.textBaseline = "middle";
    const every = Math.ceil(17 / side), wide = Math.ceil(26 / side), rank = (c) => Math.ceil(c * n / cells);
    for (let c = 0; c < cells; c++) {
      if (c % every === 0) { g.textAlign = "right"; g.fillText((c ? "" : "rank ") + rank(c), LEFT - 7, TOP + (c + .5) * side); }
      if (c % wide === 0) { g.textAlign = "center"; g.fillText(String(rank(c)), LEFT + (c + .5) * side, 10); }
    }
    g.textAlign = "left";
    g.fillText("strongest: " + amount(most, field) + (cells < n ? ", in one cell of several ranks" : ""), LEFT, TOP + room + 13);
    canvas.dataset.sum = all.reduce((a, b) => a + b, 0);
  };
  canvas.addEventListener("pointermove", (event) => {
    const c = Math.floor((event.offsetX - LEFT) / side), r = Math.floor((event.offsetY - TOP) / side);
    if (c < 0 || r < 0 || c >= cells || r >= cells) return idlewave.tip("");
    const name = (i) => {
      const a = Math.ceil(i * n / cells), b = Math.ceil((i + 1) * n / cells) - 1;
      return a === b ? "rank " + a : "ranks " + a + " to " + b;
    };
    idlewave.tip(name(c) + " to " + name(r) + "\n" + amount(sums[r * cells + c], Number(choice.value)), event.clientX, event.clientY);
  });
  canvas.addEventListener("pointerleave", () => idlewave.tip(""));
  choice.addEventListener("change", draw);
  idlewave.drawings.push(draw);
  draw();
};
