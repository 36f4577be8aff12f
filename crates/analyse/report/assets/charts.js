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

  if (byId("chart-fixed-time")) {
    const most = findings.cpus.filter((c) => c.fixed_time).sort((a, b) => b.fixed_time.lost.value - a.fixed_time.lost.value).slice(0, 8);
    const shown = (v) => percent(Math.max(0, v));
    lines("chart-fixed-time", () => most.map((c, i) => ({
      name: "CPU " + c.cpu, color: palette(i), bare: true,
      points: c.fixed_time.work.map((w) => [w.begin, { value: w.mean, low: w.least, high: w.mean }]),
    })), { label: "time", format: time, tick: (v) => time(v).replace(/\.0+ /, " ") }, { linear: true, floor: 0, format: shown, tick: (v) => Math.round(v * 100) + " %" });
  }

  if (byId("chart-steps")) {
    drawings.push(() => {
      const runs = findings.lockstep.map((l, i) => ({ name: l.name, bins: l.histogram, color: palette(i + 1), step: l.step }));
      idlewave.histogram(byId("chart-steps"), runs, runs.map((r) => ({ at: r.step, color: r.color })));
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

  const work = () => {
    const counts = new Map(), marks = [];
    for (const c of chosen()) {
      if (!c.fixed_work) continue;
      for (const [edge, n] of c.fixed_work.histogram) counts.set(edge, (counts.get(edge) || 0) + n);
      if (choice.value !== "all") marks.push({ at: c.fixed_work.reference, color: color("ink") });
    }
    const bins = [...counts].sort((a, b) => a[0] - b[0]);
    idlewave.histogram(byId("chart-work"), [{ name: choice.selectedOptions[0].textContent, bins, color: color("interrupt") }], marks);
  };

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
  if (byId("chart-work")) drawings.push(work);
  if (byId("detour-classes")) classes();
  choice.addEventListener("change", () => {
    if (byId("chart-work")) work();
    if (byId("detour-classes")) classes();
  });
};
