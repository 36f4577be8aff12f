"use strict";
/* The map of nodes: one cell per node, stronger = more lost; a frame around those that differ from their peers. */
idlewave.nodes = (canvas) => {
  const { byId, color, percent, findings } = idlewave, AXIS = 26, GAP = 1;
  const of = byId("nodes-of"), by = byId("nodes-by"), ranked = findings.nodes.ranked;
  const byName = ranked.map((_, i) => i).sort((a, b) => ranked[a].name.localeCompare(ranked[b].name, "en", { numeric: true }));
  const byRank = ranked.map((_, i) => i);
  const value = (node) => node[of.value] ? Math.max(0, node[of.value].value) : null;
  const parse = (hex) => [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));
  let order = byName, columns = 1, side = 1;

  const draw = () => {
    order = by.value === "rank" ? byRank : byName;
    const room = canvas.clientWidth;
    // Cells as large as fit into about 420 px of height, 8 to 40 px wide.
    side = Math.max(8, Math.min(40, Math.floor(Math.sqrt(room * 420 / ranked.length))));
    columns = Math.max(1, Math.floor(room / side));
    const rows = Math.ceil(ranked.length / columns);
    const { g, width, height } = idlewave.canvas(canvas, rows * side + AXIS);
    const known = ranked.map(value).filter((v) => v !== null);
    const most = Math.max(1e-12, ...known);
    const low = parse(color("card")), high = parse(color("interrupt"));
    const mix = (s) => "rgb(" + low.map((l, k) => Math.round(l + (high[k] - l) * s)) + ")";
    g.clearRect(0, 0, width, height);
    order.forEach((i, place) => {
      const x = place % columns * side, y = Math.floor(place / columns) * side, v = value(ranked[i]);
      // Square root, so that small shares are visible beside large ones.
      g.fillStyle = v === null ? color("faint") : mix(.08 + .92 * Math.sqrt(v / most));
      g.fillRect(x, y, side - GAP, side - GAP);
      if (ranked[i].reasons.length) {
        g.strokeStyle = color("alarm");
        g.lineWidth = 2;
        g.strokeRect(x + 1, y + 1, side - GAP - 2, side - GAP - 2);
      }
    });
    g.fillStyle = color("soft");
    g.font = "12px system-ui, sans-serif";
    g.textBaseline = "middle";
    g.textAlign = "left";
    const from = ranked[order[0]].name, to = ranked[order[order.length - 1]].name;
    g.fillText(from + " to " + to + ", row by row; strongest: " + percent(most), 0, rows * side + AXIS / 2 + 2);
    canvas.dataset.cells = ranked.length;
  };
  const told = (node) => {
    const lines = [node.name + (node.cpus === 1 ? ", 1 CPU" : ", " + node.cpus + " CPUs")];
    const share = (name, e) => { if (e) lines.push(name + " " + percent(e.value) + " (" + percent(e.low) + " to " + percent(e.high) + ")"); };
    share("stolen", node.stolen);
    share("CPU " + node.worst_cpu + ":", node.worst_stolen);
    share("slowest CPU " + node.slowest_cpu + ":", node.slower);
    for (const reason of node.reasons) lines.push("unusual: " + reason.because);
    return lines.join("\n");
  };
  const at = (event) => {
    const column = Math.floor(event.offsetX / side), place = Math.floor(event.offsetY / side) * columns + column;
    return column >= 0 && column < columns ? order[place] : undefined;
  };
  canvas.addEventListener("pointermove", (event) => {
    const i = at(event);
    idlewave.tip(i === undefined ? "" : told(ranked[i]), event.clientX, event.clientY);
  });
  canvas.addEventListener("pointerleave", () => idlewave.tip(""));
  of.addEventListener("change", draw);
  by.addEventListener("change", draw);
  idlewave.drawings.push(draw);
};
