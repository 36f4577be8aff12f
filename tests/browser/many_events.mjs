// Measures the timeline of the whole run in headless Chromium: every step of zooming from the whole run to one interrupt and back, panning,
// jumps between late steps, searches and sums. A step lasts from the key to the picture with everything read and drawn.
// Usage: node many_events.mjs REPORT.html [SCREENSHOTS]. Exit status: 1 if a step took 100 ms or more, or an event is not found.
import { mkdirSync } from "node:fs";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { chromium } from "playwright-core";
import { findOnPath } from "./browser.mjs";

const [report, shots] = process.argv.slice(2);
if (!report) {
  console.error("usage: node many_events.mjs REPORT.html [SCREENSHOTS]");
  process.exit(2);
}
const browser = await chromium.launch({ executablePath: findOnPath(["chromium-headless-shell", "chromium"]), args: ["--no-sandbox"] });
const page = await (await browser.newContext({ viewport: { width: 1280, height: 900 } })).newPage();
page.on("pageerror", (e) => { console.log(String(e)); process.exitCode = 1; });
const begin = performance.now();
await page.goto(pathToFileURL(resolve(report)).href);
await page.waitForSelector("html[data-ready]", { state: "attached", timeout: 60000 });
await page.evaluate(() => idlewave.explorer.settled());
console.log(`opened in ${(performance.now() - begin).toFixed(0)} ms, ${await page.evaluate(() => idlewave.explorer.data.events)} events`);
if (shots) mkdirSync(shots, { recursive: true });
const shot = async (name) => {
  if (!shots) return;
  await page.evaluate(() => idlewave.explorer.settled());
  await page.locator("#explorer").screenshot({ path: join(shots, name + ".png") });
};
await page.evaluate(() => {
  const { explorer } = idlewave;
  /** Milliseconds from a change of the view to the complete picture; the frame is the browser's own work of showing it. */
  window.step = async (act) => {
    const start = performance.now();
    await act();
    await explorer.settled();
    return performance.now() - start;
  };
  window.key = (name) => window.step(() => document.getElementById("explorer-canvas").dispatchEvent(new KeyboardEvent("keydown", { key: name })));
});
const median = (l) => [...l].sort((a, b) => a - b)[Math.floor(l.length / 2)];
const tell = (what, times) => {
  const most = Math.max(...times);
  console.log(`${what}: ${times.length} steps, median ${median(times).toFixed(1)} ms, longest ${most.toFixed(1)} ms`);
  if (most >= 100) process.exitCode = 1;
};
await shot("whole-run");
await page.evaluate(() => {
  // Around the first interrupt after 70 % of the run: nothing has been read there.
  const { explorer } = idlewave, { data } = explorer;
  window.interrupts = new Set(data.names.flatMap((n, i) => n.class === 3 && n.of === "cpu" ? [i] : []));
});
const zoomIn = [];
const target = await page.evaluate(async () => { window.hit = await idlewave.explorer.tree.find(window.interrupts, -1, idlewave.explorer.data.span * .7, 1); return window.hit; });
// Read again by a fresh page, so that the way to the interrupt is cold.
await page.reload();
await page.waitForSelector("html[data-ready]", { state: "attached", timeout: 60000 });
await page.evaluate((hit) => {
  const { explorer } = idlewave;
  window.hit = hit;
  window.step = async (act) => { const start = performance.now(); await act(); await explorer.settled(); return performance.now() - start; };
  window.key = (name) => window.step(() => document.getElementById("explorer-canvas").dispatchEvent(new KeyboardEvent("keydown", { key: name })));
}, target);
for (let n = 0; n < 80; n++) {
  const [ms, span] = await page.evaluate(async () => {
    const { pane } = idlewave.explorer, middle = (window.hit.from + window.hit.to) / 2;
    const ms = await window.step(() => pane.zoomAt(.7, middle)), v = pane.view();
    return [ms, v.to - v.from];
  });
  zoomIn.push(ms);
  if (span < (target.to - target.from) * 6) break;
}
tell("zoom in from the whole run to one interrupt, nothing read before", zoomIn);
await page.evaluate(() => { idlewave.explorer.pin(window.hit); idlewave.explorer.pane.draw(); });
await shot("one-interrupt");
const seen = await page.evaluate(() => Number(document.getElementById("explorer-canvas").dataset.exact) === idlewave.explorer.data.rows.length);
if (!seen) { console.log("the interrupt is not drawn by itself"); process.exitCode = 1; }
const out = [];
for (let n = 0; n < zoomIn.length; n++) out.push(await page.evaluate(() => window.key("s")));
tell("zoom out again", out);
const pans = [];
for (const factor of [.1, .01, .001]) {
  await page.evaluate((f) => { const { pane, data } = idlewave.explorer; pane.show(data.span * .2, data.span * (.2 + f)); return idlewave.explorer.settled(); }, factor);
  for (let n = 0; n < 20; n++) pans.push(await page.evaluate(() => window.key("d")));
}
tell("pan by an eighth of the view", pans);
const jumps = [];
const links = await page.$$eval('#late a[href^="#run="]', (l) => l.map((a) => a.getAttribute("href").match(/(\d+)\.\.(\d+)/).slice(1).map(Number)));
for (const [from, to] of links.slice(0, 40)) jumps.push(await page.evaluate(([a, b]) => window.step(() => idlewave.explorer.jump(a, b)), [from, to]));
if (jumps.length) tell("jump to a late step anywhere", jumps);
await shot("one-late-step");
const sums = [];
for (let n = 1; n <= 20; n++) {
  sums.push(await page.evaluate(async (n) => {
    const { tree, data } = idlewave.explorer, start = performance.now();
    await tree.sum(Math.floor(data.span * n / 50), Math.floor(data.span * (1 - n / 45)));
    return performance.now() - start;
  }, n));
}
tell("sum up a stretch", sums);
await browser.close();
