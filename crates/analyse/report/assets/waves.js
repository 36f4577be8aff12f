"use strict";
/* Idle waves: ranks over time, waits as bars coloured by wave, and the speed fitted to the chosen one. */
idlewave.waves = (canvas) => {
  const { byId, time, color, palette, findings } = idlewave, waves = findings.program.waves;
  const LEFT = 74, AXIS = 26, HEIGHT = 300;
  let chosen = 0, spots = [];

  const draw = () => {
    const wave = waves[chosen], ends = wave.points.map((p) => p[2] + p[3]);
    const first = Math.min(wave.begin_ns, ...wave.points.map((p) => p[2])), last = Math.max(...ends), margin = (last - first) * .06 || 1000;
    const seen = waves.map((w, i) => ({ i, points: w.points.filter((p) => p[2] < last + margin && p[2] + p[3] > first - margin) }));
    const all = [wave.origin, ...seen.flatMap((w) => w.points.map((p) => p[0]))];
    const low = Math.min(...all), high = Math.max(...all), n = high - low + 1;
    const tall = Math.max(1, Math.min(22, HEIGHT / n)), { g, width } = idlewave.canvas(canvas, Math.ceil(n * tall) + AXIS + 4);
    const x = (t) => LEFT + (t - first + margin) / (last - first + 2 * margin) * (width - LEFT - 8), y = (rank) => AXIS + (rank - low) * tall;
    g.clearRect(0, 0, width, canvas.height);
    g.font = "12px system-ui, sans-serif";
    g.textBaseline = "middle";
    g.textAlign = "right";
    const every = Math.ceil(15 / tall);
    for (let rank = low; rank <= high; rank += every) {
      g.fillStyle = color(rank === wave.origin ? "ink" : "soft");
      g.fillText("rank " + rank, LEFT - 10, y(rank) + tall / 2);
      g.fillStyle = color("faint");
      g.fillRect(LEFT, y(rank), width - LEFT - 8, 1);
    }
    const span = last - first + 2 * margin, power = 10 ** Math.floor(Math.log10(span / 6));
    const tick = [1, 2, 5, 10].map((m) => m * power).find((t) => t >= span / 6);
    g.textAlign = "center";
    g.fillStyle = color("soft");
    for (let t = 0; t <= last - first + margin; t += tick) g.fillText((t ? "+" : "") + time(t), x(first + t), 10);
    spots = [];
    // The chosen wave lies on top.
    for (const w of [...seen.filter((s) => s.i !== chosen), seen[chosen]]) {
      g.fillStyle = palette(w.i);
      g.globalAlpha = w.i === chosen ? 1 : .45;
      for (const p of w.points) {
        const a = x(p[2]), b = Math.max(a + 1.5, x(p[2] + p[3]));
        g.fillRect(a, y(p[0]) + tall * .12, b - a, Math.max(1, tall * .76));
        spots.push({ a, b, y: y(p[0]), p, wave: w.i });
      }
    }
    g.globalAlpha = 1;
    // The end of the wait at h hops is expected h / speed after the start of the delay's first effect.
    if (wave.speed && wave.speed.value > 0) {
      const per = 1e9 / wave.speed.value, end = (p) => p[2] + p[3];
      const start = wave.points.reduce((sum, p) => sum + end(p) - p[1] * per, 0) / wave.points.length;
      g.strokeStyle = color("ink");
      g.lineWidth = 1.5;
      g.setLineDash([6, 4]);
      for (const side of [-1, 1]) {
        // For each hop, the next rank outwards: a wave that goes round a ring comes back on the other side.
        const near = [];
        for (const p of wave.points) {
          const away = side * (p[0] - wave.origin), before = near[near.length - 1];
          if (away <= 0 || (before && away <= side * (before[0] - wave.origin))) continue;
          if (before && before[1] === p[1]) continue;
          const rival = wave.points.find((q) => q[1] === p[1] && side * (q[0] - wave.origin) > (before ? side * (before[0] - wave.origin) : 0) && side * (q[0] - wave.origin) < away);
          near.push(rival || p);
        }
        if (!near.length) continue;
        g.beginPath();
        g.moveTo(x(start), y(wave.origin) + tall / 2);
        for (const p of near) g.lineTo(x(start + p[1] * per), y(p[0]) + tall / 2);
        g.stroke();
      }
      g.setLineDash([]);
    }
    g.fillStyle = color("ink");
    g.beginPath();
    g.arc(x(wave.begin_ns), y(wave.origin) + tall / 2, 4.5, 0, 7);
    g.fill();
    canvas.dataset.wave = chosen;
  };
  canvas.addEventListener("pointermove", (event) => {
    const { offsetX: px, offsetY: py } = event;
    const spot = [...spots].reverse().find((s) => px >= s.a - 2 && px <= s.b + 2 && py >= s.y && py < s.y + 22 && py - s.y < Math.max(4, 22));
    idlewave.tip(!spot ? "" : "rank " + spot.p[0] + " waited " + time(spot.p[3]) + "\n" + spot.p[1] + " hops from rank " + waves[spot.wave].origin +
      ", idle wave " + (spot.wave + 1), event.clientX, event.clientY);
  });
  canvas.addEventListener("pointerleave", () => idlewave.tip(""));
  idlewave.drawings.push(draw);
  const choose = idlewave.chooser("wave", (i) => {
    chosen = i;
    const source = findings.sources[waves[i].source];
    byId("wave-title").textContent = "Idle wave " + (i + 1) + ", from rank " + waves[i].origin + (source ? ", by " + source.name : "");
    draw();
  });
  choose(0);
};
