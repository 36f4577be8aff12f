// Opens a report page in headless Chromium and checks what it shows and does.
// Usage: node check.mjs REPORT.html FINDINGS.json [SCREENSHOT.png]
// Exit status: 0 all passed, 1 a check failed, 2 wrong usage or no browser.
import { copyFileSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { chromium } from "playwright-core";
import { findOnPath } from "./browser.mjs";

const [report, findingsPath, screenshot] = process.argv.slice(2);
if (!findingsPath) {
  console.error("usage: node check.mjs REPORT.html FINDINGS.json [SCREENSHOT.png]");
  process.exit(2);
}
const executablePath = findOnPath(["chromium-headless-shell", "chromium"]);
if (!executablePath) {
  console.error("neither chromium-headless-shell nor chromium is on PATH: apt-get install chromium-headless-shell");
  process.exit(2);
}
const findings = JSON.parse(readFileSync(findingsPath, "utf8"));

let passed = 0, failed = 0;
function check(what, ok, detail = "") {
  if (ok) passed++; else failed++;
  console.log((ok ? "ok    " : "FAIL  ") + what + (ok || !detail ? "" : ": " + detail));
}

const browser = await chromium.launch({
  executablePath,
  args: ["--no-sandbox", "--disable-background-networking", "--disable-component-update", "--no-first-run", "--no-pings"],
});
try {
  await run();
} finally {
  await browser.close();
}
console.log(`${passed} passed, ${failed} failed`);
process.exitCode = failed ? 1 : 0;

async function run() {
  const errors = [], requests = [];
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, colorScheme: "light" });
  const page = await context.newPage();
  const url = pathToFileURL(resolve(report)).href;
  page.on("console", (m) => { if (["error", "warning"].includes(m.type())) errors.push(m.text()); });
  page.on("pageerror", (e) => errors.push(String(e)));
  // A large run has its events in a folder beside the page.
  const beside = url.replace(/\.html$/, "_files/");
  const isOwn = (u) => u.split("#")[0] === url || (u.startsWith(beside) && /^[0-9a-f]{8}-\d{5}\.js$/.test(u.slice(beside.length)));
  page.on("request", (r) => { if (!isOwn(r.url()) && !/^(data|blob):/.test(r.url())) requests.push(r.url()); });
  await page.goto(url);
  // No assertion on time: the page says itself when it is done.
  await page.waitForSelector("html[data-ready]", { state: "attached", timeout: 60000 });

  if (findings.points) await simulation(page);
  else if (findings.rows) await placement(page);
  else await ofRun(page);
  await legends(page);
  await themes(page);
  await widths(page);
  if (!findings.points && !findings.rows && await page.evaluate(() => Boolean(idlewave.explorer.data?.has_files))) await withoutFolder(context);
  check("the console is free of errors", errors.length === 0, errors.join("; "));
  check("nothing was requested but the files beside the page", requests.length === 0, requests.join("; "));
}

/** The page of a run. */
async function ofRun(page) {
  await numbers(page);
  await drawings(page);
  if (findings.latest.length) await timeline(page);
  else if (await page.locator("#late").count()) check("the page says why there is no timeline", /No (step|lockstep)/.test(await page.textContent("#late")));
  if (findings.program) await program(page, findings.program);
  if (await page.locator("#spacetime-canvas").count()) await spacetime(page);
  if (await page.locator("#explorer-canvas").count()) await explorer(page);
  await sorting(page);
  await selection(page);
}

/** No two entries of a legend look the same. */
async function legends(page) {
  const alike = await page.$$eval(".legend", (all) => all.flatMap((legend) => {
    const seen = new Map(), twice = [];
    for (const entry of legend.querySelectorAll("span")) {
      const fill = entry.querySelector(".swatch")?.style.background;
      if (fill && seen.has(fill)) twice.push(seen.get(fill) + " = " + entry.textContent);
      seen.set(fill, entry.textContent);
    }
    return twice;
  }));
  check("no two entries of a legend share a colour", alike.length === 0, alike.join("; "));
  const palette = await page.evaluate(() => typeof idlewave === "undefined" ? [] : Array.from({ length: 40 }, (_, i) => idlewave.palette(i)));
  check("forty colours are told apart", new Set(palette).size === palette.length, palette.join(" "));
}

/** The page of a simulation: its numbers, curves, map and shares. */
async function simulation(page) {
  const embedded = JSON.parse(await page.textContent("#findings"));
  check("the sheet in the page is that of the simulation", JSON.stringify(embedded) === JSON.stringify(findings));
  const shown = await allNumbers(page), wrong = wrongNumbers(shown);
  check(`all ${shown.length} numbers equal the sheet`, shown.length > 0 && wrong.length === 0, wrong.slice(0, 5).join("; "));
  const rows = new Set(shown.map((n) => n.path.split(".")).filter((p) => p[0] === "points").map((p) => p[1]));
  check("every point is shown", rows.size === findings.points.length, `${rows.size} of ${findings.points.length}`);
  check("the page says that it is simulated", /^SIMULATED/.test(await page.textContent("#simulated")));
  await drawings(page);
  const many = (of) => new Set(findings.points.map(of)).size > 1;
  const curves = many((p) => p.ranks);
  for (const id of ["chart-ranks", "chart-amplification"]) {
    check(`${id} is drawn if there are several numbers of ranks`, (await page.locator(`#${id} canvas`).count()) === (curves ? 1 : 0));
  }
  const widths = await page.$$eval("#finish-bar i", (l) => l.map((i) => i.getBoundingClientRect().width));
  const bar = await page.$eval("#finish-bar", (b) => b.getBoundingClientRect().width);
  check("the parts of the finish time fill the bar", Math.abs(widths.reduce((a, b) => a + b, 0) / bar - 1) < 0.02, `${widths} of ${bar}`);
  const colors = await page.$$eval("#finish-bar i", (l) => l.map((i) => i.style.background));
  check("each part has a colour of its own", colors.every(Boolean) && new Set(colors).size === colors.length, colors.join("; "));
  const map = page.locator("#map-canvas");
  if (!(await map.count())) return check("the page says why there is no map", /needs several/.test(await page.textContent("#map")));
  await map.focus();
  for (const key of ["ArrowRight", "ArrowRight", "ArrowUp"]) await page.keyboard.press(key);
  const chosen = await page.textContent("#map-cell");
  check("arrow keys walk over the map", /ranks.*of computation: slow-down [0-9.]+ % \(/.test(chosen), chosen);
  const before = await map.evaluate((c) => c.toDataURL());
  await page.locator("#map-layout").selectOption({ index: 1 });
  check("another layout is another map", (await map.evaluate((c) => c.toDataURL())) !== before);
  const box = await map.boundingBox();
  await page.mouse.move(box.x + box.width - 12, box.y + 12);
  const tip = await page.evaluate(() => { const t = document.getElementById("tip"); return t.style.display === "block" ? t.textContent : ""; });
  check("the tooltip has the numbers of the cell", /ranks.*\nslow-down/.test(tip), tip);
}

/** The page of a placement, or of a study of placements: its numbers, bars, picture of loads, and files. */
async function placement(page) {
  const embedded = JSON.parse(await page.textContent("#findings"));
  check("the sheet in the page is that of the placement", JSON.stringify(embedded) === JSON.stringify(findings));
  const shown = await allNumbers(page), wrong = wrongNumbers(shown);
  check(`all ${shown.length} numbers equal the sheet`, shown.length > 0 && wrong.length === 0, wrong.slice(0, 5).join("; "));
  const rows = new Set(shown.map((n) => n.path.split(".")).filter((p) => p[0] === "rows").map((p) => p[1]));
  check("every row is shown", rows.size === findings.rows.length, `${rows.size} of ${findings.rows.length}`);
  await drawings(page);
  const table = page.locator("#table table.sortable");
  const column = () => table.evaluate((t) => [...t.tBodies[0].rows].map((r) => Number(r.cells[0].dataset.key)));
  await table.locator("thead button").nth(0).click();
  const down = await column();
  check("a heading sorts the table", down.length === findings.rows.length && down.every((v, i) => i === 0 || down[i - 1] >= v), `${down}`);
  const tip = async (selector) => {
    await page.locator(selector).first().hover({ force: true });
    return page.evaluate(() => { const t = document.getElementById("tip"); return t.style.display === "block" ? t.textContent : ""; });
  };
  const bars = await page.$$eval("svg[id^=chart] g[data-tip]", (l) => l.map((g) => g.getBoundingClientRect().height));
  const expected = findings.rows.length + findings.rows.filter((r) => r.predicted).length;
  check("every time is a bar", bars.length === expected && bars.every((h) => h > 0), `${bars}`);
  const bar = await tip("svg[id^=chart] g[data-tip] rect");
  check("a bar says its numbers", / [mun]?s \(.* to .*\)/.test(bar), bar);
  if (!findings.chosen) return;
  const shares = await page.$$eval("#chart-times g[data-tip]", (l) => l.map((g) => [...g.querySelectorAll("[data-share]")].map((r) => r.getBoundingClientRect().height)));
  const tallest = shares[findings.rows.length - 1], parts = findings.rows[findings.rows.length - 1].parts, sum = tallest.reduce((a, b) => a + b, 0);
  check("parts of a bar are as tall as their shares", parts.length === tallest.length && parts.every((p, i) => Math.abs(tallest[i] / sum - p[1]) < 0.01), `${tallest}`);
  const picture = page.locator("svg.loads").first(), apart = findings.chosen.nodes.length <= 64;
  const leaves = new Set(findings.chosen.nodes.map((n) => n.leaf)).size;
  check("every node or leaf is a box", (await picture.locator(".memory").count()) === (apart ? findings.chosen.nodes.length : Math.min(64, leaves)));
  check("links are lines", (await picture.locator(".link").count()) === Math.min(600, findings.chosen.links.length));
  const node = await tip("svg.loads .memory");
  check("a node says its loads", /ranks[^]*adapter out .* in [^]*memory/.test(node), node);
  await page.locator("[data-copy]").first().click();
  await page.waitForFunction(() => document.querySelector("[data-copy]").textContent !== "Copy");
  const code = await page.$$eval(".file code", (l) => l.map((c) => c.textContent + "\n"));
  check("the files are those of the sheet", JSON.stringify(code) === JSON.stringify(findings.files.map((f) => f.content)));
}

/** The whole run: zoom, keys, address, search, selection and links. What it shows is compared with the findings. */
async function explorer(page) {
  const canvas = page.locator("#explorer-canvas"), settled = () => page.evaluate(() => idlewave.explorer.settled());
  await settled();
  await canvas.scrollIntoViewIfNeeded();
  const view = async () => {
    await settled();
    return canvas.evaluate((c) => ({ from: Number(c.dataset.from), to: Number(c.dataset.to), exact: Number(c.dataset.exact), wanted: Number(c.dataset.wanted), pixels: c.toDataURL() }));
  };
  const span = (v) => v.to - v.from, rows = await page.evaluate(() => idlewave.explorer.data.rows.map((r) => r.kind));
  const whole = await view();
  check("the whole run is shown at first", whole.from === 0 && whole.to === await page.evaluate(() => idlewave.explorer.data.span));
  for (const kind of ["cpu", "rank"]) if (findings.latest.length) check(`the whole run has rows of kind ${kind}`, rows.includes(kind), rows.join(" "));

  // Keys, as in Perfetto.
  await canvas.focus();
  await page.keyboard.press("w");
  const closer = await view();
  check("w zooms in", span(closer) < span(whole) * .8 && closer.pixels !== whole.pixels);
  await page.keyboard.press("a");
  const left = await view();
  check("a goes left", left.from < closer.from && Math.abs(span(left) / span(closer) - 1) < 1e-6);
  await page.keyboard.press("d");
  check("d goes right", Math.abs((await view()).from - closer.from) < 2);
  await page.keyboard.press("s");
  check("s zooms out", span(await view()) > span(closer));
  for (let i = 0; i < 60 && (await view()).exact < rows.length; i++) await page.keyboard.press("w");
  const exact = await view();
  check("zoomed in, every event of all rows is drawn", exact.exact === rows.length && exact.wanted === 0, JSON.stringify({ ...exact, pixels: 0 }));
  const range = () => page.textContent("#explorer-range");
  check("and the page says so", (await range()).endsWith("; every event"), await range());
  await page.evaluate(() => {
    const { tree, pane } = idlewave.explorer, { from, to } = pane.view();
    tree.cover(from, to, 0).pieces.find((p) => p.node.groups?.length).node.leftOut = 1234;
    pane.draw();
  });
  check("events that a leaf left out are counted", (await range()).endsWith("; without the 1,234 shortest events"), await range());
  const wanted = `#run=${Math.round(exact.from)}..${Math.round(exact.to)}`;
  // It follows when nothing has changed for a moment.
  await page.waitForFunction((hash) => location.hash.startsWith(hash), wanted);
  check("the address keeps the view", true);
  await page.keyboard.press("0");
  check("0 shows the whole run", Math.abs(span(await view()) - span(whole)) < 1);

  await found(page, view);
  await summed(page, settled);
  await linked(page, view);
  await page.locator('#explorer-figure [data-zoom="all"]').click();
  await settled();
}

/** Search of the whole run: names, late steps, and what is not there. */
async function found(page, view) {
  const said = async (text, press = "Enter") => {
    await page.fill("#find", text);
    await page.locator("#find").press(press);
    await page.waitForFunction((old) => document.getElementById("found").textContent !== old, "searching");
    await page.evaluate(() => new Promise((done) => setTimeout(done, 30)));
    await page.evaluate(() => idlewave.explorer.settled());
    return page.textContent("#found");
  };
  const pinned = () => page.getAttribute("#explorer-canvas", "data-pinned");
  check("a name that is not there is told", /Nothing in this run/.test(await said("no such process")));
  check("a search without a name says what to type", /Type a name/.test(await said(" ")));
  const source = findings.sources.find((s) => s.events && ["task", "kernel_thread"].includes(s.kind));
  if (source) {
    const text = await said(source.name), first = await pinned();
    check(`${source.name} is found`, text.startsWith(source.name) && /one of /.test(text), text);
    check("what was found is pinned, with its times", (await page.textContent("#pinned")).includes(source.name));
    if (/one of 1[,)]/.test(text)) return lateFound(said, view);
    await page.locator("#find").press("Enter");
    await page.waitForFunction((old) => document.getElementById("explorer-canvas").dataset.pinned !== old, first);
    const second = await pinned(), at = (p) => Number(p.split("..")[0]);
    check(`the next ${source.name} is later`, at(second) > at(first), `${first} ${second}`);
    await page.locator('[data-find="-1"]').click();
    await page.waitForFunction((old) => document.getElementById("explorer-canvas").dataset.pinned !== old, second);
    check("and the previous one is the first again", (await pinned()) === first, await pinned());
  }
  return lateFound(said, view);
}

async function lateFound(said, view) {
  if (!findings.latest.length) return;
  const longest = findings.latest[0].lateness, text = await said(`late > ${longest / 1e3 - .001} us`);
  check("the latest step is found by its lateness", text.includes(`late step ${findings.latest[0].iteration}, rank ${findings.latest[0].last_rank}`), text);
  const none = await said(`late > ${longest / 1e3} us`);
  check("no step is later than the latest", /None is longer/.test(none), none);
  check("what was found is in view", (await view()).from < (await view()).to);
}

/** A selected stretch, and the table of it. */
async function summed(page, settled) {
  await page.locator('#explorer-figure [data-zoom="all"]').click();
  await page.locator("#select-view").click();
  await page.waitForSelector("#selection h3");
  const sums = () => page.$$eval("#selection tr[data-what]", (l) => l.map((r) => [Number(r.dataset.what), Number(r.dataset.time), Number(r.dataset.count)]));
  const all = await sums(), expected = await page.evaluate(() => idlewave.explorer.data.totals);
  const totals = new Map(expected.map(([what, t]) => [what, t]));
  check("the sums of the whole run are those of its tables", all.length > 0 && all.every(([what, time, count]) => totals.get(what).time === time && totals.get(what).count === count));
  const late = await page.$$eval("#selection [data-lateness]", (l) => l.map((e) => [Number(e.dataset.late), Number(e.dataset.lateness)]));
  const lateAll = expected.find(([what]) => what === late.what);
  if (findings.lockstep.length && findings.latest.length < 100) check("late steps of the whole run add up", late[0][1] === findings.latest.reduce((n, l) => n + l.lateness, 0), JSON.stringify([late, lateAll]));
  // Two halves add up to the whole, whatever leaves they cut.
  const whole = await page.evaluate(() => idlewave.explorer.data.span), cut = Math.floor(whole * .41);
  const halves = await page.evaluate(async ([cut, whole]) => {
    const parts = [await idlewave.explorer.tree.sum(0, cut), await idlewave.explorer.tree.sum(cut, whole + 1)], sums = {};
    for (const part of parts) part.forEach((s, what) => { const t = sums[what] ||= [0, 0]; t[0] += s.time; t[1] += s.count; });
    return sums;
  }, [cut, whole]);
  check("two stretches add up to the whole", expected.every(([what, t]) => halves[what] && halves[what][0] === t.time && halves[what][1] === t.count), JSON.stringify(halves));
  const box = await page.locator("#explorer-canvas").boundingBox(), y = box.y + 60;
  await page.keyboard.down("Shift");
  await page.mouse.move(box.x + box.width * .5, y);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * .6, y, { steps: 3 });
  await page.mouse.up();
  await page.keyboard.up("Shift");
  await settled();
  const [from, to] = (await page.getAttribute("#explorer-canvas", "data-selected")).split("..").map(Number);
  check("dragging with Shift selects a stretch", from > whole * .3 && to < whole * .7 && to > from, `${from} ${to}`);
  await page.waitForFunction((n) => { const r = document.querySelector("#selection tr[data-what]"); return r && Number(r.dataset.time) < n; }, all[0][1]);
  const exact = await page.evaluate(async ([a, b]) => [...await idlewave.explorer.tree.sum(a, b)].map(([what, s]) => [what, s.time]), [from, to]);
  const shown = await sums();
  check("the table follows the selection", shown.length > 0 && shown.every(([what, time]) => exact.some(([w, t]) => w === what && t === time)));
  await page.locator("#selection button").first().click();
  check("clearing it removes the table", (await page.locator("#selection table").count()) === 0);
}

/** A page that was copied without the folder beside it. */
async function withoutFolder(context) {
  const directory = mkdtempSync(join(tmpdir(), "idlewave-page-"));
  try {
    const alone = join(directory, "report.html");
    copyFileSync(report, alone);
    const page = await context.newPage();
    await page.goto(pathToFileURL(alone).href);
    await page.waitForSelector("html[data-ready]", { state: "attached" });
    const blank = await page.$eval("#explorer-canvas", (c) => c.toDataURL());
    await page.evaluate(() => { const { pane, data } = idlewave.explorer; pane.show(data.span * .3, data.span * .31); });
    await page.waitForSelector("#pinned.alarm");
    check("without its folder, a page says what is missing", /_files is not beside this page/.test(await page.textContent("#pinned")));
    check("and shows the run in bins", (await page.$eval("#explorer-canvas", (c) => c.toDataURL())) !== blank);
    await page.fill("#find", "late > 1 us");
    await page.locator("#find").press("Enter");
    await page.waitForFunction(() => /not beside this page/.test(document.getElementById("found").textContent));
    check("a search says that moments cannot be found", true);
    await page.close();
  } finally {
    rmSync(directory, { recursive: true });
  }
}

/** Links of tables to their moments, and the way back. */
async function linked(page, view) {
  const links = await page.$$eval('a[href^="#run="]', (l) => l.map((a) => a.getAttribute("href")));
  const rows = findings.latest.length + (findings.program ? findings.program.latest.length : 0);
  check("rows of late steps and waits link to their moments", links.length >= Math.min(rows, 1), `${links.length}`);
  if (!links.length) return;
  // The address that keeps the view is 200 ms late, and would replace this one.
  await page.evaluate(() => new Promise((done) => setTimeout(done, 250)));
  await page.evaluate(() => history.replaceState(null, "", "#sources"));
  const link = page.locator('a[href^="#run="]').first(), href = await link.getAttribute("href");
  await link.click();
  const [from, to] = href.match(/#run=(\d+)\.\.(\d+)/).slice(1).map(Number);
  // The event that tells of the new address comes later.
  await page.waitForFunction((at) => Math.abs(Number(document.getElementById("explorer-canvas").dataset.from) - at) <= 1, from);
  const there = await view();
  check("a link shows its moment", Math.abs(there.from - from) <= 1 && Math.abs(there.to - to) <= 1, `${href}: ${there.from}..${there.to}`);
  await page.goBack();
  await page.waitForFunction(() => location.hash === "#sources");
  check("the back button goes back", (await page.evaluate(() => location.hash)) === "#sources");
  if (!findings.latest.length) return;
  const last = findings.latest.length - 1;
  await page.evaluate((n) => { location.hash = "#late-" + n; }, last);
  await page.waitForFunction((n) => document.getElementById("late-" + n).classList.contains("chosen"), last);
  const told = await page.textContent(`#late-${last}`), late = findings.latest[last];
  check("the story of a late step says who was late", told.includes(`rank ${late.last_rank}`) && told.includes(late.iteration.toLocaleString("en")), told);
  const [chosen] = await page.$$eval("tr.chosen[data-late]", (l) => l.map((r) => Number(r.dataset.late)));
  check("its row is chosen", chosen === last);
  const visible = await page.$$eval(".story", (l) => l.filter((s) => s.offsetHeight > 0).length);
  check("one story is shown", visible === 1, `${visible}`);
}

/** Waiting over ranks and time: zoom, keys, tooltip, and another stretch. */
async function spacetime(page) {
  const canvas = page.locator("#spacetime-canvas");
  await canvas.scrollIntoViewIfNeeded();
  const view = () => canvas.evaluate((c) => ({ from: Number(c.dataset.from), to: Number(c.dataset.to), map: c.dataset.map, pixels: c.toDataURL() }));
  const span = (v) => v.to - v.from;
  const before = await view(), box = await canvas.boundingBox(), y = Math.min(box.y + box.height / 2, 850);
  await page.mouse.move(box.x + box.width * 0.6, y);
  const tip = await page.evaluate(() => { const t = document.getElementById("tip"); return t.style.display === "block" ? t.textContent : ""; });
  check("the tooltip says who waited", /^ranks? \d+.*\n.* to .*\nwaiting: /.test(tip), tip);
  await page.mouse.wheel(0, -240);
  await page.waitForFunction((to) => Number(document.getElementById("spacetime-canvas").dataset.to) !== to, before.to);
  const zoomed = await view();
  check("the wheel zooms space and time", span(zoomed) < span(before) * 0.9 && zoomed.pixels !== before.pixels);
  await canvas.focus();
  await page.keyboard.press("ArrowLeft");
  check("arrow keys pan space and time", (await view()).from < zoomed.from);
  await page.keyboard.press("0");
  check("0 shows all of it", Math.abs(span(await view()) - span(before)) < 1);
  const maps = await page.locator("#spacetime-map option").count();
  for (let i = 0; i < maps; i++) {
    await page.locator("#spacetime-map").selectOption({ index: i });
    const now = await view();
    check(`map ${i} of space and time is shown`, now.map === String(i) && now.from === 0 && now.to > 0);
  }
  await page.locator("#spacetime-map").selectOption(before.map);
}

/** Every number with a path equals the findings, exactly in its value and to its digits in its text. */
async function numbers(page) {
  const embedded = JSON.parse(await page.textContent("#findings"));
  check("the findings in the page are those of the run", JSON.stringify(embedded) === JSON.stringify(findings));
  const shown = await allNumbers(page);
  const wrong = wrongNumbers(shown);
  check("the page shows numbers of the findings", shown.length > 0 || findings.sources.length === 0);
  check(`all ${shown.length} numbers equal the findings`, wrong.length === 0, wrong.slice(0, 5).join("; "));
  const listed = await page.locator("#sources tbody tr").count();
  check("every entry of sources is shown", listed === findings.sources.length, `${listed} of ${findings.sources.length}`);
  for (const what of ["lockstep", "latest"]) {
    const rows = new Set(shown.map((n) => n.path.split(".")).filter((p) => p[0] === what).map((p) => p[1]));
    check(`every entry of ${what} is shown`, rows.size === findings[what].length, `${rows.size} of ${findings[what].length}`);
  }
}

function allNumbers(page) {
  return page.$$eval("[data-path]", (list) => list.map((e) => ({ path: e.dataset.path, value: e.value, text: e.textContent })));
}

function wrongNumbers(shown) {
  const wrong = [];
  for (const { path, value, text } of shown) {
    const exact = path.split(".").reduce((at, key) => at?.[key], findings);
    // The sheets of placements are in seconds, all else is in nanoseconds. A slow-down s above 1000 % is shown as the factor 1 + s.
    const isFactor = text.startsWith("x") && /\b(slowdown|left|predicted|measured)\b/.test(path);
    const meant = findings.rows && / [num]?s$/.test(text) ? exact * 1e9 : isFactor ? exact + 1 : exact;
    if (typeof exact !== "number" || Number(value) !== exact) wrong.push(`${path}: page ${value}, findings ${exact}`);
    else if (!agrees(text, meant)) wrong.push(`${path}: page shows "${text}" for ${exact}`);
  }
  return wrong;
}

/** Whether a text like "1.23 ms", "12.3 %", "x1.8", "65k", "1,000,000" is the number, rounded. */
function agrees(text, exact) {
  const ungrouped = (number) => number.replaceAll(",", "");
  const plain = text.replace(/^\d{1,3}(,\d{3})+$/, ungrouped);
  if (/^(<|>-)0\.001 %$/.test(plain)) return Math.abs(exact) < 1e-5 && exact !== 0;
  const match = plain.match(/^x?(-?[0-9.]+)\s*([a-zA-Z%]*)( %)?$/);
  if (!match) return false;
  const scale = { "": 1, "%": 0.01, B: 1, KiB: 2 ** 10, MiB: 2 ** 20, GiB: 2 ** 30, TiB: 2 ** 40, ns: 1, us: 1e3, ms: 1e6, s: 1e9, k: 1e3, M: 1e6, G: 1e9 }[match[2]];
  if (scale === undefined) return false;
  const value = Number(match[1]) * scale * (match[3] ? 0.01 : 1);
  const decimals = (match[1].split(".")[1] || "").length;
  const unit = scale * 10 ** -decimals * (match[3] ? 0.01 : 1);
  // "65k" ranks is cut, not rounded; everything else is off by half a unit of its last digit at most.
  return Math.abs(value - exact) <= unit * (match[2] === "k" || match[2] === "M" ? 1 : 0.5) * 1.0001;
}

/** No canvas is blank, and each figure holds something. */
async function drawings(page) {
  const blank = await page.$$eval("canvas", (list) => list.filter((c) => {
    // On a copy: reading from the canvas itself makes the browser warn.
    const copy = new OffscreenCanvas(c.width, c.height).getContext("2d", { willReadFrequently: true });
    copy.drawImage(c, 0, 0);
    const data = copy.getImageData(0, 0, c.width, c.height).data;
    const seen = new Set();
    for (let i = 0; i < data.length; i += 4) seen.add((data[i] << 24) | (data[i + 1] << 16) | (data[i + 2] << 8) | data[i + 3]);
    return seen.size < 3;
  }).map((c) => c.id || c.className || c.parentElement.className));
  check("no drawing is blank", blank.length === 0, blank.join(", "));
  const empty = await page.$$eval(".chart, .parts, .tile", (list) => list.filter((e) => !e.textContent.trim() && !e.querySelector("canvas")).map((e) => e.id));
  check("no box is empty", empty.length === 0, empty.join(", "));
}

async function timeline(page) {
  const canvas = page.locator("#timeline-canvas");
  await canvas.scrollIntoViewIfNeeded();
  const view = () => canvas.evaluate((c) => ({ from: Number(c.dataset.from), to: Number(c.dataset.to), late: c.dataset.late, pixels: c.toDataURL() }));
  const span = (v) => v.to - v.from;
  const box = await canvas.boundingBox();
  await page.mouse.move(box.x + box.width * 0.6, box.y + box.height * 0.5);
  const before = await view();
  await page.mouse.wheel(0, -240);
  await page.waitForFunction((to) => Number(document.getElementById("timeline-canvas").dataset.to) !== to, before.to);
  const zoomed = await view();
  check("the wheel zooms the timeline", span(zoomed) < span(before) * 0.9 && zoomed.pixels !== before.pixels);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * 0.4, box.y + box.height * 0.5, { steps: 4 });
  await page.mouse.up();
  const dragged = await view();
  check("dragging pans the timeline", dragged.from > zoomed.from && Math.abs(span(dragged) / span(zoomed) - 1) < 1e-6);
  await canvas.focus();
  await page.keyboard.press("ArrowLeft");
  const panned = await view();
  check("arrow keys pan the timeline", panned.from < dragged.from);
  await page.keyboard.press("+");
  check("+ zooms the timeline", span(await view()) < span(panned));
  await page.keyboard.press("0");
  const whole = await view();
  check("0 shows the whole window", Math.abs(span(whole) - span(before)) < 1);

  const marked = await canvas.evaluate((c) => c.clientHeight);
  let tip = "";
  for (let y = 30; y < marked && !tip.includes("\n"); y += 8) {
    await page.mouse.move(box.x + box.width * 0.5, box.y + y);
    tip = await page.evaluate(() => { const t = document.getElementById("tip"); return t.style.display === "block" ? t.textContent : ""; });
  }
  check("the tooltip names what is under the cursor", /^(\S+ )?(CPU|rank) \d+\n./.test(tip), tip);

  for (const i of [0, findings.latest.length - 1]) {
    await page.locator(`tr[data-late="${i}"] button`).click();
    const late = findings.latest[i];
    const parts = await page.$$eval("[data-part]", (l) => l.map((e) => Number(e.dataset.part)));
    const sum = Number(await page.getAttribute("[data-lateness]", "data-lateness"));
    check(`the parts of late step ${i} are those of the findings and add up`,
      JSON.stringify(parts) === JSON.stringify(late.parts.map((p) => p.time)) &&
      sum === late.lateness && parts.reduce((a, b) => a + b, 0) === sum);
    const drawn = JSON.parse(await canvas.getAttribute("data-charged"));
    const length = (source) => drawn.filter((d) => d[0] === source).reduce((a, d) => a + d[1], 0);
    const missing = late.parts.filter((p) => p.time >= sum / 100 && length(p.source) < p.time * .99);
    check(`every part of late step ${i} is drawn with its length`, missing.length === 0, JSON.stringify([missing, drawn]));
  }
  const last = await view();
  check("choosing a late step changes the view", findings.latest.length === 1 || (last.late !== before.late && last.pixels !== whole.pixels));
  await page.locator('tr[data-late="0"] button').click();
  await legend(page, "#timeline-legend", findings.latest[0]);
}

/** A recorded MPI program: its tables, the time line of ranks, idle waves and the matrix. */
async function program(page, found) {
  const paths = (await allNumbers(page)).map((n) => n.path.split("."));
  for (const [what, most] of [["ranks_time", 64], ["operations", Infinity], ["waits", Infinity], ["waves", Infinity], ["marks", Infinity], ["matrix", 20]]) {
    const rows = new Set(paths.filter((p) => p[0] === "program" && p[1] === what).map((p) => p[2])).size;
    const expected = Math.min(found[what].length, what === "matrix" && !found.messages ? 0 : most);
    check(`every entry of program.${what} is shown`, rows === expected, `${rows} of ${expected}`);
  }
  if (await page.locator("#lanes-canvas").count()) await lanes(page, found);
  else check("the page says why there is no time line of ranks", /no time line/.test(await page.textContent("#waits")));
  const waves = page.locator("#wave-canvas");
  if (found.waves.length) {
    const first = await waves.evaluate((c) => c.toDataURL());
    await page.locator(`tr[data-wave="${found.waves.length - 1}"] button`).click();
    const last = await waves.evaluate((c) => ({ wave: Number(c.dataset.wave), pixels: c.toDataURL() }));
    check("choosing an idle wave shows it", last.wave === found.waves.length - 1 && (found.waves.length === 1 || last.pixels !== first));
    await page.locator('tr[data-wave="0"] button').click();
  } else check("the page says why there is no idle wave", (await page.textContent("#waves .absent")).length > 40);
  if (found.messages) {
    const sum = () => page.$eval("#matrix", (c) => Number(c.dataset.sum));
    const all = (field) => found.matrix.reduce((a, b) => a + b[field], 0);
    check("the matrix holds all bytes", (await sum()) === all(3));
    await page.locator("#matrix-of").selectOption("2");
    check("the matrix holds all messages", (await sum()) === all(2));
    await page.locator("#matrix-of").selectOption("3");
  }
}

/** Beside the time lines: who ran longest comes first, and who is charged most is named. */
async function legend(page, id, late) {
  const order = await page.evaluate(() => idlewave.mostTime({
    tasks: [{ kind: 2, name: "a" }, { kind: 3, name: "rank" }, { kind: 1, name: "k/0" }, { kind: 1, name: "k/1" }, { kind: 2, name: "b" }],
    windows: [{ bursts: { what: [0, 1, 2], len: [5, 99, 3] } }, { bursts: { what: [3, 4], len: [4, 6] } }],
  }));
  check("tasks are in the order of the time that they ran", JSON.stringify(order) === "[2,4,0]", JSON.stringify(order));
  const most = late.parts.reduce((a, b) => (b.time > a.time ? b : a), { time: 0 }), source = findings.sources[most.source];
  if (!source || source.kind !== "task") return;
  const named = await page.textContent(id);
  check(`the legend names ${source.name}, to which most is charged`, named.includes(source.name), named);
}

async function lanes(page, found) {
  const canvas = page.locator("#lanes-canvas");
  const view = () => canvas.evaluate((c) => ({ from: Number(c.dataset.from), to: Number(c.dataset.to), wait: c.dataset.wait, messages: Number(c.dataset.messages), exact: Number(c.dataset.exact), pixels: c.toDataURL() }));
  const span = (v) => v.to - v.from;
  await page.locator('#lanes [data-zoom="all"]').click();
  const whole = await view();
  await canvas.scrollIntoViewIfNeeded();
  const box = await canvas.boundingBox(), y = Math.min(box.y + box.height * 0.5, 800);
  await page.mouse.move(box.x + box.width * 0.6, y);
  await page.mouse.wheel(0, -240);
  await page.waitForFunction((to) => Number(document.getElementById("lanes-canvas").dataset.to) !== to, whole.to);
  const zoomed = await view();
  check("the wheel zooms the time line of ranks", span(zoomed) < span(whole) * 0.9 && zoomed.pixels !== whole.pixels);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * 0.4, y, { steps: 4 });
  await page.mouse.up();
  const dragged = await view();
  check("dragging pans the time line of ranks", dragged.from > zoomed.from && Math.abs(span(dragged) / span(zoomed) - 1) < 1e-6);
  await canvas.focus();
  await page.keyboard.press("ArrowLeft");
  check("arrow keys pan the time line of ranks", (await view()).from < dragged.from);
  await page.keyboard.press("0");
  check("0 shows the whole program", Math.abs(span(await view()) - span(whole)) < 1);
  const tips = new Set();
  for (let at = 30; at < box.height; at += 6) {
    await page.mouse.move(box.x + box.width * 0.5, box.y + at);
    const tip = await page.evaluate(() => { const t = document.getElementById("tip"); return t.style.display === "block" ? t.textContent : ""; });
    if (tip) tips.add(tip.split("\n")[0]);
  }
  check("the tooltip names the rank under the cursor", tips.size > 0 && [...tips].every((t) => /^rank \d+/.test(t)), [...tips].join("; "));

  const rows = await page.$$eval("tr[data-wait]", (l) => l.map((r) => ({ wait: Number(r.dataset.wait), after: Number(r.cells[r.cells.length - 1].dataset.key) })));
  check("waits are listed", rows.length > 0 || found.latest.length === 0);
  let messages = 0;
  for (const row of rows.length ? [rows[rows.length - 1], rows[0]] : []) {
    await page.locator(`tr[data-wait="${row.wait}"] button`).click();
    const late = found.latest[row.wait], now = await view();
    check(`choosing wait ${row.wait} goes to its place`, Number(now.wait) === row.wait && now.from <= row.after && row.after < now.to);
    const parts = await page.$$eval("#wait-parts [data-part]", (l) => l.map((e) => Number(e.dataset.part)));
    const sum = Number(await page.getAttribute("#wait-parts [data-lateness]", "data-lateness"));
    check(`the parts of wait ${row.wait} are those of the findings and add up`,
      JSON.stringify(parts) === JSON.stringify(late.parts.map((p) => p.time)) && parts.reduce((a, b) => a + b, 0) === sum, `${parts} / ${sum}`);
    const title = await page.textContent("#wait-title");
    check(`the title of wait ${row.wait} names who waited for whom`, title === `Rank ${late.rank} waited in ${late.operation} for rank ${late.culprit}`, title);
    for (let i = 0; i < 12 && !messages; i++) {
      messages = (await view()).messages;
      await page.locator('#lanes [data-zoom="in"]').click();
    }
    check(`the calls around wait ${row.wait} are drawn one by one`, (await view()).exact > 0);
    await page.locator('#lanes [data-zoom="step"]').click();
  }
  if (found.messages && rows.length) check("messages are drawn as lines", messages > 0);
  if (found.latest.length) await legend(page, "#lanes-legend", found.latest[0]);
}

async function sorting(page) {
  const table = page.locator("#sources table.sortable");
  if (!(await table.count())) return;
  const column = () => table.evaluate((t) => [...t.tBodies[0].rows].map((r) => Number(r.cells[4].dataset.key)));
  await table.locator("thead button").nth(4).click();
  const down = await column();
  await table.locator("thead button").nth(4).click();
  const up = await column();
  const sorted = (list, sign) => list.every((v, i) => i === 0 || sign * (v - list[i - 1]) >= 0);
  check("a heading sorts the table of sources both ways", sorted(down, -1) && sorted(up, 1), `${down} / ${up}`);
  await table.locator("thead button").nth(1).click();
}

async function selection(page) {
  const choice = page.locator("#cpu-choice");
  if (!(await choice.count())) return;
  const values = await choice.locator("option").evaluateAll((l) => l.map((o) => o.value).filter((v) => v !== "all"));
  await choice.selectOption(values[values.length - 1]);
  const wrong = wrongNumbers(await allNumbers(page));
  check("choosing a CPU shows that CPU's numbers", wrong.length === 0, wrong.slice(0, 3).join("; "));
  await choice.selectOption({ index: 0 });
}

async function themes(page) {
  const ground = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const brightness = (rgb) => rgb.match(/\d+/g).slice(0, 3).reduce((a, b) => a + Number(b), 0) / 3;
  const light = await ground();
  await page.emulateMedia({ colorScheme: "dark" });
  const dark = await ground();
  check("the page follows the system to dark", brightness(light) > 200 && brightness(dark) < 60, `${light} / ${dark}`);
  await drawings(page);
  if (screenshot) await page.screenshot({ path: screenshot.replace(/(\.png)?$/, "-dark.png"), fullPage: true });
  await page.click("#theme");
  check("the button switches to light", brightness(await ground()) > 200);
  await page.click("#theme");
  check("and back to dark", brightness(await ground()) < 60);
  await page.emulateMedia({ colorScheme: "light" });
  await page.click("#theme");
  if (screenshot) await page.screenshot({ path: screenshot, fullPage: true });
}

async function widths(page) {
  for (const width of [1280, 768, 390]) {
    await page.setViewportSize({ width, height: 844 });
    await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
    const over = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    check(`the page does not scroll sideways at ${width} px`, over <= 0, `${over} px too wide`);
    const beyond = await page.$$eval("canvas", (l) => l.filter((c) => c.getBoundingClientRect().right > innerWidth + 1).map((c) => c.id || c.className));
    check(`all drawings fit at ${width} px`, beyond.length === 0, beyond.join(", "));
  }
  if (screenshot) await page.screenshot({ path: screenshot.replace(/(\.png)?$/, "-narrow.png"), fullPage: true });
}
