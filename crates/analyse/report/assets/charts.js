"use strict";
/* Figures that need only the findings: prediction curves (uPlot), distributions. */
idlewave.charts = () => {
  const { byId, element, findings, percent, ranks, time, color, palette, drawings } = idlewave;
  const LABELS = { ring1d: "1D", torus2d: "2D", torus3d: "3D", barrier: "barrier" };
  const label = (topology) => LABELS[topology] || topology;
  const prediction = findings.prediction;

  const { lines } = idlewave;
  const inRanks = { label: "ranks", format: (v) => idlewave.count(v), tick: ranks };
  const inTime = { label: "granularity", format: time, tick: (v) => time(v).replace(/\.0+ /, " ") };
  const points = (curve) => curve ? curve.points.map((p) => [p.ranks, p.slowdown]) : [];
  if (byId("chart-curves")) {
    lines("chart-curves", () => prediction.curves.map((c, i) => ({ name: label(c.topology), points: points(c), color: palette(i) })), inRanks);
  }
  if (byId("chart-without")) {
    const select = byId("without-topology");
    const end = (c) => c.points.length ? c.points[c.points.length - 1].slowdown.value : -1;
    prediction.curves.forEach((c) => select.append(element("option", label(c.topology), { value: c.topology })));
    select.value = prediction.curves.reduce((a, b) => end(b) >= end(a) ? b : a).topology;
    const of = (curves) => points(curves.find((c) => c.topology === select.value));
    lines("chart-without", () => [{ name: "all sources", points: of(prediction.curves), color: color("ink") },
      ...prediction.without.map((w, i) => ({ name: "without " + w.name, points: of(w.curves), color: palette(i), dash: [8, 5] }))], inRanks);
    select.addEventListener("change", drawings[drawings.length - 1]);
  }
  if (byId("chart-granularity")) {
    lines("chart-granularity", () => prediction.by_granularity.map((c, i) => ({
      name: label(c.topology), points: c.points, color: palette(i),
    })), inTime, { mark: prediction.granularity });
  }

  if (byId("chart-load")) {
    const sweep = findings.load_sweep, inCpus = { label: "busy CPUs", format: (v) => idlewave.count(v), tick: ranks, each: true };
    const known = (pick) => sweep.points.filter(pick).map((p) => [p.busy, pick(p)]);
    const inTimes = { floor: 1, format: time, tick: (v) => time(v).replace(/\.0+ /, " "), fine: true };
    lines("chart-load", () => [{ name: "median length of a detour", points: known((p) => p.length), color: palette(0) },
      { name: "median timer tick on CPU " + sweep.first, points: known((p) => p.tick), color: palette(1) }].filter((line) => line.points.length), inCpus, inTimes);
    lines("chart-load-work", () => [{ name: "median work on CPU " + sweep.first, points: known((p) => p.work), color: color("interrupt") }], inCpus, inTimes);
  }

  const short = (v) => time(v).replace(/\.0+ /, " ");
  const inSpan = { label: "time", format: time, tick: short, title: "time since the start" };
  if (byId("chart-fixed-time")) {
    const most = findings.cpus.filter((c) => c.fixed_time).sort((a, b) => b.fixed_time.lost.value - a.fixed_time.lost.value).slice(0, 8);
    const shown = (v) => percent(Math.max(0, v));
    lines("chart-fixed-time", () => most.map((c, i) => ({
      name: "CPU " + c.cpu, color: palette(i), bare: true,
      points: c.fixed_time.work.map((w) => [w.begin, { value: w.mean, low: w.least, high: w.mean }]),
    })), inSpan, { linear: true, floor: 0, format: shown, tick: (v) => Math.round(v * 100) + " %", title: "work done, of what fits" });
  }

  if (byId("chart-steps")) {
    drawings.push(() => {
      // The turns of a way are one run.
      const turns = (way, i) => {
        const own = findings.lockstep.filter((l) => way.phases.includes(l.phase)), bins = new Map();
        for (const [edge, n] of own.flatMap((l) => l.histogram)) bins.set(edge, (bins.get(edge) || 0) + n);
        return { name: way.siblings || way.variant.replace("_", ""), bins: [...bins].sort((a, b) => a[0] - b[0]), color: palette(i + 1), step: way.step.value };
      };
      const run = (l, i) => ({ name: l.name, bins: l.histogram, color: palette(i + 1), step: l.step });
      const runs = findings.ways ? findings.ways.ways.map(turns) : findings.lockstep.map(run);
      idlewave.histogram(byId("chart-steps"), runs, runs.map((r) => ({ at: r.step, color: r.color })), { x: "duration of a step", y: "steps" });
    });
  }

  const nodeOf = (c) => {
    const node = findings.nodes && findings.nodes.ranked.find((n) => n.node === c.node);
    return node ? " of " + node.name : "";
  };
  const choice = byId("cpu-choice");
  if (!choice) return;
  if (findings.cpus.length > 1) choice.append(element("option", "all CPUs", { value: "all" }));
  findings.cpus.forEach((c, i) => choice.append(element("option", "CPU " + c.cpu + nodeOf(c), { value: i })));
  const chosen = () => choice.value === "all" ? findings.cpus : [findings.cpus[Number(choice.value)]];

  /** Histogram of the chosen CPUs together, with a mark if it is one. */
  const histogram = (id, pick, titles, tone, at) => {
    const counts = new Map(), marks = [];
    for (const found of chosen().map(pick)) {
      if (!found) continue;
      for (const [edge, n] of found.histogram) counts.set(edge, (counts.get(edge) || 0) + n);
      if (at && choice.value !== "all") marks.push({ at: at(found), color: color("ink") });
    }
    const bins = [...counts].sort((a, b) => a[0] - b[0]);
    idlewave.histogram(byId(id), [{ name: choice.selectedOptions[0].textContent, bins, color: color(tone) }], marks, titles);
  };
  const work = () => histogram("chart-work", (c) => c.fixed_work, { x: "duration of the same work", y: "quanta" }, "interrupt", (f) => f.reference);
  const lengths = () => histogram("chart-lengths", (c) => c.detours, { x: "length of a detour", y: "detours" }, "task");

  /** A line per chosen CPU, of many the eight with the most of something. */
  const worst = (has, most) => chosen().filter(has).sort((a, b) => most(b) - most(a)).slice(0, 8);
  const named = (c, i) => ({ name: "CPU " + c.cpu + nodeOf(c), color: palette(i), bare: true });
  const bare = (value) => ({ value, low: value, high: value });

  const slowest = () => worst((c) => c.fixed_work && c.fixed_work.times.length, (c) => c.fixed_work.slowdown.value);
  const speed = () => slowest().map((c, i) => ({
    ...named(c, i), points: c.fixed_work.times.map((t) => [t.begin, { value: t.median, low: t.lower, high: t.upper }]),
  }));
  const speeds = () => choice.value === "all" ? [] : slowest().flatMap((c) => c.fixed_work.levels.map((l) => ({ at: l.duration, color: color("soft") })));

  /** All but the slowest twentieth of the stretches, which one interruption may make a thousand times as slow, and all levels. */
  const usual = () => {
    const all = slowest().map((c) => c.fixed_work), stretches = all.flatMap((f) => f.times);
    const tops = stretches.map((t) => t.upper).sort((a, b) => a - b);
    const high = Math.max(tops[Math.floor(.95 * (tops.length - 1))] || 1, ...all.flatMap((f) => f.levels.map((l) => l.duration)));
    const low = Math.min(high, ...stretches.map((t) => t.lower)), room = Math.max(.1 * (high - low), .01 * high);
    return [Math.max(0, low - room), high + room];
  };

  const hertz = (v) => v < 999.5 ? idlewave.digits(v) + " Hz" : idlewave.digits(v / 1e3) + " kHz";
  const strongest = () => worst((c) => c.detours && c.detours.spectrum, (c) => c.detours.periods.length ? c.detours.periods[0].power : 0);
  const spectra = () => strongest().map((c, i) => ({
    ...named(c, i), width: 1, points: c.detours.spectrum.points.map(([f, power]) => [f, bare(power / c.detours.spectrum.threshold)]),
  }));
  const periods = () => choice.value === "all" ? [] : strongest().flatMap((c) => c.detours.periods.map((p) => ({
    at: 1e9 / p.period.value, color: color("ink"), text: time(p.period.value),
  })));

  /** Classes of the chosen CPUs: the mean of the rates, and shares of the time stolen from all of them. */
  const classes = () => {
    const box = byId("detour-classes"), seen = chosen().filter((c) => c.detours && c.detours.classes.length);
    box.replaceChildren();
    if (!seen.length) { box.append(element("p", "Not measured.", { class: "absent" })); return; }
    const stolen = (c) => c.detours.stolen.value * c.detours.watched;
    const all = seen.reduce((sum, c) => sum + stolen(c), 0) || 1;
    const list = seen[0].detours.classes.map((k, i) => ({
      name: k.below === null ? time(k.from) + " and longer" : time(k.from) + " to " + time(k.below),
      rate: seen.reduce((sum, c) => sum + c.detours.classes[i].per_second, 0) / seen.length,
      share: seen.reduce((sum, c) => sum + c.detours.classes[i].share * stolen(c), 0) / all,
    }));
    if (seen.length === 1) list.forEach((k, i) => { k.rate = seen[0].detours.classes[i].per_second; k.share = seen[0].detours.classes[i].share; });
    const grid = element("div", undefined, { class: "classes" }), most = Math.max(...list.map((k) => k.rate)) || 1;
    for (const head of ["length", "per second", "of stolen time"]) grid.append(element("span", head, { class: "head" }));
    list.forEach((k, i) => {
      grid.append(element("span", k.name, { class: "label" }));
      const value = (x, width, text, group, field) => {
        const cell = element("span", undefined, { class: "value" }), bar = element("i", undefined, { class: group });
        bar.style.width = "calc((100% - 66px) * " + width + ")";
        const number = element("data", text, { class: "n", value: x });
        if (choice.value !== "all") number.dataset.path = "cpus." + choice.value + ".detours.classes." + i + "." + field;
        cell.append(bar, number);
        grid.append(cell);
      };
      value(k.rate, k.rate / most, idlewave.count(Number(k.rate.toPrecision(3))), "g-interrupt", "per_second");
      value(k.share, k.share, percent(k.share), "g-task", "share");
    });
    box.append(grid);
  };
  const absent = "Not measured, or left out: this is kept for the 16 CPUs that lose most.";
  const of = [];
  const draw = (id, plot) => { if (byId(id)) { plot(); of.push(drawings[drawings.length - 1]); } };
  draw("chart-work", () => drawings.push(work));
  draw("chart-lengths", () => drawings.push(lengths));
  draw("chart-speed", () => lines("chart-speed", speed, inSpan,
    { linear: true, floor: 0, format: time, tick: short, title: "duration of the same work", levels: speeds, range: usual, absent }));
  draw("chart-spectrum", () => lines("chart-spectrum", spectra,
    { label: "frequency", format: hertz, tick: (v) => hertz(v).replace(/\.0+ /, " "), title: "frequency" },
    { floor: 1e-2, format: (v) => idlewave.digits(v), tick: (v) => String(v), title: "power over the threshold",
      uprights: periods, levels: () => [{ at: 1, color: color("alarm") }], absent }));
  if (byId("detour-classes")) classes();
  choice.addEventListener("change", () => {
    of.forEach((draw) => draw());
    if (byId("detour-classes")) classes();
  });
};
