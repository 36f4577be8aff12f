"use strict";
/* The page of a calibration: bandwidth over lengths, all-to-all over ranks per node, the ping-pong. */
idlewave.calibration = () => {
  const { byId, element, findings: sheet, time, palette, redraw } = idlewave;
  const unique = (of, points) => [...new Set(points.map(of))];
  const short = (v) => String(Number(v.toPrecision(3)));
  const bytes = (b) => b >= 1 << 20 ? short(b / (1 << 20)) + " MiB" : b >= 1024 ? short(b / 1024) + " KiB" : short(b) + " B";
  const rate = (v) => v >= 1e9 ? short(v / 1e9) + " GB/s" : v >= 1e6 ? short(v / 1e6) + " MB/s" : short(v / 1e3) + " kB/s";
  const lengths = { label: "message", format: bytes, tick: bytes, powers: true };
  const duration = (ns) => time(ns).replace(/\.0+ /, " ");
  /** The measured curve and, dashed in its colour, that of the model. */
  const both = (name, i, points, x, measured, model) => [
    { name, color: palette(i), points: points.filter((p) => x(p) > 0).map((p) => [x(p), measured(p)]) },
    { name: name + ", model", color: palette(i), dash: [6, 5], bare: true,
      points: points.filter((p) => x(p) > 0 && model(p)).map((p) => [x(p), { value: model(p), low: model(p), high: model(p) }]) },
  ];

  if (byId("chart-bandwidth")) {
    const select = byId("bandwidth-way");
    const key = (p) => p.way + (p.both_ways ? ", both ways" : ", one way");
    const ways = unique(key, sheet.streams);
    ways.sort((a, b) => b.startsWith("between") - a.startsWith("between"));
    ways.forEach((w) => select.append(element("option", w, { value: w })));
    const curves = () => {
      // Shorter messages measure the ranks, not the link.
      const points = sheet.streams.filter((p) => key(p) === select.value && p.bytes >= 1024);
      return unique((p) => p.pairs, points).sort((a, b) => a - b).map((k, i) => ({
        name: k + (k === 1 ? " pair" : " pairs"), color: palette(i),
        points: points.filter((p) => p.pairs === k).sort((a, b) => a.bytes - b.bytes).map((p) => [p.bytes, p.per_pair]),
      }));
    };
    idlewave.lines("chart-bandwidth", curves, lengths, { floor: 1, format: rate, tick: rate, fine: true });
    select.addEventListener("change", redraw);
  }
  if (byId("chart-alltoall")) {
    const points = sheet.all_to_all, inRanks = { label: "ranks per node", format: String, tick: String, each: true };
    const curves = () => unique((p) => p.bytes, points).flatMap((b, i) => both(bytes(b), i,
      points.filter((p) => p.bytes === b).sort((a, b) => a.per_node - b.per_node), (p) => p.per_node, (p) => p.time_ns, (p) => p.model_ns));
    idlewave.lines("chart-alltoall", curves, inRanks, { floor: 1, format: duration, tick: duration, fine: true });
  }
  if (byId("chart-pingpong")) {
    const points = sheet.ping_pongs;
    const curves = () => unique((p) => p.way, points).flatMap((w, i) => both(w, i,
      points.filter((p) => p.way === w).sort((a, b) => a.bytes - b.bytes), (p) => p.bytes, (p) => p.time_ns, (p) => p.model_ns));
    idlewave.lines("chart-pingpong", curves, lengths, { floor: 1, format: duration, tick: duration });
  }
};
