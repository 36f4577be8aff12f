// Measures the timeline of the whole run in headless Chromium: zooming from the whole run to one interrupt and back, panning, jumps between late
// steps, and sums. A step lasts from the change of the view to the picture with everything read and drawn.
// Usage: node many_events.mjs REPORT.html [SCREENSHOTS]. Exit status: 0, or 1 if the page fails or the interrupt is not drawn by itself.
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
/** The goal for a step. */
const GOAL = 100;
const executablePath = findOnPath(["chromium-headless-shell", "chromium"]);
if (!executablePath) {
  console.error("neither chromium-headless-shell nor chromium is on PATH: apt-get install chromium-headless-shell");
  process.exit(2);
}
const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
try {
  await measure();
} finally {
  await browser.close();
}

function tell(what, times) {
  const sorted = [...times].sort((a, b) => a - b), over = times.filter((t) => t >= GOAL).length;
  console.log(`${what}: ${times.length} steps, median ${sorted[times.length >> 1].toFixed(1)} ms, longest ${sorted[times.length - 1].toFixed(1)} ms` +
    (over ? `, ${over} of ${GOAL} ms or more` : ""));
}

/** A fresh page, in which nothing but the root has been read. */
async function open() {
  const page = await (await browser.newContext({ viewport: { width: 1280, height: 900 } })).newPage();
  page.on("pageerror", (e) => { console.log(String(e)); process.exitCode = 1; });
  const begin = performance.now();
  await page.goto(pathToFileURL(resolve(report)).href);
  await page.waitForSelector("html[data-ready]", { state: "attached", timeout: 60000 });
  await page.evaluate(() => {
    window.step = async (act) => {
      const start = performance.now();
      await act();
      await idlewave.explorer.settled();
      return performance.now() - start;
    };
    return idlewave.explorer.settled();
  });
  console.log(`opened in ${(performance.now() - begin).toFixed(0)} ms, ${await page.evaluate(() => idlewave.explorer.data.events)} events`);
  return page;
}

async function measure() {
  if (shots) mkdirSync(shots, { recursive: true });
  // The first interrupt after 70 % of the run.
  const first = await open(), interrupt = await first.evaluate(() => {
    const { tree, data } = idlewave.explorer, wanted = data.names.flatMap((n, i) => n.of === "cpu" && n.class === 3 ? [i] : []);
    return tree.find(new Set(wanted), -1, data.span * .7, 1);
  });
  const page = await open();
  const shot = async (name) => {
    if (shots) await page.locator("#explorer").screenshot({ path: join(shots, name + ".png") });
  };
  await shot("whole-run");
  const middle = (interrupt.from + interrupt.to) / 2, zoom = [], out = [], pans = [], jumps = [], sums = [];
  for (let span = Infinity; span > (interrupt.to - interrupt.from) * 6;) {
    // A key repeats about thirty times a second.
    await page.waitForTimeout(33);
    const [ms, now] = await page.evaluate(async (at) => {
      const { pane } = idlewave.explorer, ms = await window.step(() => pane.zoomAt(.7, at));
      return [ms, pane.view().to - pane.view().from];
    }, middle);
    zoom.push(ms);
    span = now;
  }
  tell("zoom in from the whole run to one interrupt, nothing read before", zoom);
  const alone = await page.evaluate((e) => {
    const { pin, pane, data } = idlewave.explorer;
    pin(e);
    pane.draw();
    return Number(document.getElementById("explorer-canvas").dataset.exact) === data.rows.length;
  }, interrupt);
  if (!alone) { console.log("the interrupt is not drawn by itself"); process.exitCode = 1; }
  await shot("one-interrupt");
  const key = (name) => page.evaluate((k) => window.step(() => document.getElementById("explorer-canvas").dispatchEvent(new KeyboardEvent("keydown", { key: k }))), name);
  for (let n = 0; n < zoom.length; n++) out.push(await key("s"));
  tell("zoom out again", out);
  for (const share of [.1, .01, .001]) {
    await page.evaluate((f) => { const { pane, data, settled } = idlewave.explorer; pane.show(data.span * .2, data.span * (.2 + f)); return settled(); }, share);
    for (let n = 0; n < 20; n++) pans.push(await key("d"));
  }
  tell("pan by an eighth of the view", pans);
  const links = await page.$$eval('#late tr a[href^="#run="]', (l) => l.map((a) => a.getAttribute("href").match(/(\d+)\.\.(\d+)/).slice(1).map(Number)));
  for (const to of links.slice(0, 40)) jumps.push(await page.evaluate(([a, b]) => window.step(() => idlewave.explorer.jump(a, b)), to));
  if (jumps.length) tell("jump to a late step anywhere", jumps);
  await shot("one-late-step");
  for (let n = 1; n <= 20; n++) {
    sums.push(await page.evaluate(async (k) => {
      const { tree, data } = idlewave.explorer, start = performance.now();
      await tree.sum(Math.floor(data.span * k / 50), Math.floor(data.span * (1 - k / 45)));
      return performance.now() - start;
    }, n));
  }
  tell("sum up a stretch", sums);
}
