"use strict";
/* What all parts of the page share: data, formats, colours, tooltip, sorting, theme. */
const idlewave = {};

/* Numbers as `idlewave_units::show` writes them in the rest of the page. */
/** Three significant digits. */
idlewave.digits = (v) => {
  const a = Math.abs(v);
  return a === 0 ? "0" : a < 0.0009995 || a >= 999500 ? v.toExponential(2) : a >= 99.95 ? v.toFixed(0) : v.toPrecision(3);
};
/** Duration in ns. */
idlewave.time = (ns) => {
  const sign = ns < 0 ? "-" : "", a = Math.abs(ns);
  if (a < 999.5) return sign + (Number.isInteger(a) ? a : idlewave.digits(a)) + " ns";
  let v = a / 1e3, unit = "us";
  for (const next of ["ms", "s"]) { if (v < 999.5) break; v /= 1e3; unit = next; }
  return sign + idlewave.digits(v) + " " + unit;
};
idlewave.percent = (x) => {
  const p = x * 100, a = Math.abs(p);
  if (a === 0) return "0 %";
  if (a < 0.001) return p < 0 ? ">-0.001 %" : "<0.001 %";
  return p.toFixed(a >= 99.95 ? 0 : a >= 9.995 ? 1 : a >= 0.0995 ? 2 : 3) + " %";
};
/** A slow-down, or an end of the interval of the slow-down `value`: above 1000 % the factor 1 + s. */
idlewave.slowdown = (s, value = s) => value > 10 ? "x" + idlewave.digits(1 + s) : idlewave.percent(s);
idlewave.count = (n) => n.toLocaleString("en", { maximumSignificantDigits: n < 1000 ? 3 : 15 });
idlewave.ranks = (n) => n < 1000 ? String(n) : n < 1e6 ? Math.floor(n / 1e3) + "k" : Number((n / 1e6).toPrecision(3)) + "M";

idlewave.byId = (id) => document.getElementById(id);
idlewave.findings = JSON.parse(idlewave.byId("findings").textContent);

/** Bytes from base64 and raw deflate. */
idlewave.unpack = async (text) => {
  const binary = atob(text), bytes = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; i++) bytes[i] = binary.charCodeAt(i);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
};
/** The same, parsed as JSON. */
idlewave.inflate = async (text) => JSON.parse(new TextDecoder().decode(await idlewave.unpack(text)));

/** Colours of the style sheet, kept until the next redraw: reading them is slow. */
idlewave.colors = new Map();
idlewave.color = (name) => {
  if (!idlewave.colors.has(name)) {
    idlewave.colors.set(name, getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim());
  }
  return idlewave.colors.get(name);
};
idlewave.isDark = () => {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
};
/** Colours that can be told apart, in order of use: eight tones, then lighter and darker ones of the same tones. */
idlewave.palette = (i) => {
  const light = ["#c9530a", "#0072b2", "#00805c", "#7b4ea3", "#b8336a", "#8a6d00", "#5a7d2a", "#8c564b"];
  const dark = ["#ee8a45", "#56a9e0", "#2fbf94", "#b493dc", "#ec7fa9", "#d1b23f", "#a3c76d", "#c99a8d"];
  const base = (idlewave.isDark() ? dark : light)[i % light.length];
  const [to, share] = [[0, 0], [255, .45], [0, .4], [255, .68], [0, .65]][Math.floor(i / light.length) % 5];
  const mixed = (k) => Math.round(parseInt(base.slice(k, k + 2), 16) * (1 - share) + to * share);
  return "#" + [1, 3, 5].map((k) => mixed(k).toString(16).padStart(2, "0")).join("");
};
/** The same without the tones that other things in the picture use: the n-th of the remaining tones. */
idlewave.paletteOf = (tones, n) => idlewave.palette(tones[n % tones.length] + 8 * Math.floor(n / tones.length));
/** Colour group of a class of sources; the same as in the table of sources. */
idlewave.group = (kind) => ({
  task: "task", kernel_thread: "task", other_task: "task", rank: "task",
  irq: "interrupt", softirq: "interrupt", timer_tick: "interrupt", ipi: "interrupt", nmi: "interrupt",
  slow_level: "hardware", hypervisor: "hardware", imbalance: "program", network: "program", shared_memory: "program", recorder: "own", tracing: "own", unexplained: "unnamed",
})[kind] || "scheduling";

/** An element with text; text that comes from a run never becomes markup. */
idlewave.element = (name, text, attributes) => {
  const e = document.createElement(name);
  if (text !== undefined) e.textContent = text;
  for (const [k, v] of Object.entries(attributes || {})) e.setAttribute(k, v);
  return e;
};

/** An entry of a legend; hatched for what has a length but no known place. */
idlewave.legend = (name, fill, hatched) => {
  const entry = idlewave.element("span"), swatch = idlewave.element("i", "", { class: "swatch" });
  swatch.style.background = hatched ? "repeating-linear-gradient(135deg, " + fill + " 0 2px, transparent 2px 5px)" : fill;
  entry.append(swatch, name);
  return entry;
};

/** A canvas in device pixels; returns its context in CSS pixels. */
idlewave.canvas = (canvas, height) => {
  const width = canvas.clientWidth, dense = window.devicePixelRatio || 1;
  canvas.style.height = height + "px";
  canvas.width = Math.round(width * dense);
  canvas.height = Math.round(height * dense);
  const g = canvas.getContext("2d");
  g.setTransform(dense, 0, 0, dense, 0, 0);
  return { g, width, height };
};

{
  const tip = idlewave.element("div", "", { id: "tip", role: "status" });
  document.body.append(tip);
  idlewave.tip = (text, x, y) => {
    tip.style.display = text ? "block" : "none";
    if (!text) return;
    tip.textContent = text;
    const w = tip.offsetWidth, h = tip.offsetHeight;
    tip.style.left = Math.max(4, Math.min(x + 14, innerWidth - w - 6)) + "px";
    tip.style.top = (y + 18 + h > innerHeight ? Math.max(4, y - h - 10) : y + 18) + "px";
  };
}

/** What has to be drawn again when colours or widths change. */
idlewave.drawings = [];
idlewave.redraw = () => { idlewave.colors.clear(); idlewave.drawings.forEach((draw) => draw()); };

/** Aligns headings with their columns: to the left over text. */
idlewave.align = (table) => {
  const first = table.tBodies[0].rows[0];
  if (first) [...first.cells].forEach((c, i) => { if (c.classList.contains("text")) table.tHead.rows[0].cells[i].classList.add("text"); });
};

idlewave.sortable = (table) => {
  const heads = [...table.tHead.rows[0].cells], body = table.tBodies[0];
  heads.forEach((head, column) => {
    const button = idlewave.element("button", head.textContent, { type: "button" });
    head.replaceChildren(button);
    button.addEventListener("click", () => {
      const was = head.getAttribute("aria-sort");
      const key = (row) => row.cells[column].dataset.key;
      const rows = [...body.rows];
      const numbers = rows.every((r) => Number.isFinite(Number(key(r))));
      const down = was ? was === "ascending" : numbers;
      const compare = numbers ? (a, b) => key(a) - key(b) : (a, b) => key(a).localeCompare(key(b));
      rows.sort((a, b) => (down ? -1 : 1) * compare(a, b));
      heads.forEach((h) => h.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      body.append(...rows);
    });
  });
};

idlewave.theme = () => {
  const root = document.documentElement, button = idlewave.byId("theme");
  const system = matchMedia("(prefers-color-scheme: dark)");
  const isDark = idlewave.isDark;
  const show = () => { button.textContent = isDark() ? "Light" : "Dark"; idlewave.redraw(); };
  button.addEventListener("click", () => { root.dataset.theme = isDark() ? "light" : "dark"; show(); });
  system.addEventListener("change", show);
  let before;
  addEventListener("beforeprint", () => { before = root.dataset.theme; root.dataset.theme = "light"; show(); });
  addEventListener("afterprint", () => {
    if (before) root.dataset.theme = before; else delete root.dataset.theme;
    show();
  });
  button.textContent = isDark() ? "Light" : "Dark";
};
