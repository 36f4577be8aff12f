"use strict";
/* The tree of time under the explorer: which nodes there are, reading them, and finding what is in them. A node is
   a leaf with every event, or has four parts, bins, and sums by name of each part. Most nodes are in files beside the
   page, which are loaded when they are needed: they are scripts, since a page opened from a disk may load nothing else.
   src/html/explorer/packed.rs describes their bytes. Times are offsets in ns. */
idlewave.explorer = { put: () => {} };
idlewave.tree = (data) => {
  const CLASSES = 4, PARTS = 4, KEPT = 64, { bins, depth } = data, lines = data.rows.length * CLASSES;
  const size = (level) => data.unit * PARTS ** (depth - level);

  /** Places of all nodes, from the preorder: a node with parts is followed by them. */
  const places = [];
  {
    let next = 0;
    const place = (level, begin) => {
      const number = next++, here = { number, level, begin, end: begin + size(level) * bins, parts: null };
      places.push(here);
      if (data.tree[number] === "0") {
        here.parts = [];
        for (let p = 0; p < PARTS; p++) here.parts.push(place(level + 1, begin + p * size(level + 1) * bins));
      }
      return here;
    };
    place(0, 0);
  }
  const inside = new Map(data.inside), texts = new Map(), nodes = new Map(), files = new Map(), reading = new Map();
  /** The folder beside this page: its name without the extension, and _files. */
  const folder = () => {
    try {
      const name = decodeURIComponent(location.pathname.split("/").pop());
      return (name.replace(/(.)\.[^.]*$/, "$1") || "report") + "_files";
    } catch { return "report_files"; }
  };
  const state = { missing: false, loads: 0, folder: folder() };
  const EMPTY = { leaf: true, groups: [], leftOut: 0 };

  /** Numbers of a node, in order; `column` reads several into an array. */
  const reader = (bytes) => {
    let at = 0;
    const unsigned = () => {
      let byte = bytes[at++];
      if (byte < 128) return byte;
      let value = byte & 127, scale = 128;
      do { byte = bytes[at++]; value += (byte & 127) * scale; scale *= 128; } while (byte > 127);
      return value;
    };
    const signed = () => { const v = unsigned(); return v % 2 ? -(v + 1) / 2 : v / 2; };
    const column = (n, next) => { const list = new Float64Array(n); for (let i = 0; i < n; i++) list[i] = next(); return list; };
    return { unsigned, signed, column };
  };
  const withParts = ({ unsigned }) => {
    const parts = [], all = [];
    for (let p = 0; p < PARTS; p++) {
      const sums = new Map();
      for (let n = unsigned(), what = 0; n > 0; n--) {
        what += unsigned();
        sums.set(what, { count: unsigned(), time: unsigned(), greatest: unsigned() });
      }
      parts.push(sums);
    }
    for (let l = 0; l < lines; l++) {
      const n = unsigned(), line = { n, bin: new Uint16Array(n), count: new Float64Array(n), time: new Float64Array(n), greatest: new Float64Array(n) };
      for (let i = 0, bin = 0; i < n; i++) {
        line.bin[i] = bin += unsigned();
        line.count[i] = unsigned();
        line.time[i] = unsigned();
        line.greatest[i] = unsigned();
      }
      all.push(line);
    }
    return { leaf: false, parts, lines: all };
  };
  const leaf = ({ unsigned, signed, column }, begin) => {
    const leftOut = unsigned(), groups = [];
    for (let g = unsigned(); g > 0; g--) {
      const row = unsigned(), lane = unsigned(), mores = unsigned(), n = unsigned();
      const from = column(n, signed), to = new Float64Array(n), until = new Float64Array(n), more = [];
      let last = begin, latest = -Infinity;
      for (let i = 0; i < n; i++) {
        from[i] += last;
        last = to[i] = from[i] + unsigned();
        until[i] = latest = Math.max(latest, last);
      }
      const tag = column(n, unsigned);
      for (let m = 0; m < mores; m++) {
        let value = 0;
        more.push(column(n, () => value += signed()));
      }
      groups.push({ row, lane, n, from, to, until, tag, more });
    }
    return { leaf: true, groups, leftOut };
  };
  const decode = (bytes, begin) => {
    const numbers = reader(bytes);
    return numbers.unsigned() === 0 ? withParts(numbers) : leaf(numbers, begin);
  };

  /** Loads a file; resolves when its script has run. */
  const load = (file) => {
    if (!files.has(file)) {
      files.set(file, new Promise((done, fail) => {
        const script = document.createElement("script");
        script.src = encodeURIComponent(state.folder) + "/" + data.key + "-" + String(file).padStart(5, "0") + ".js";
        script.onload = () => { script.remove(); state.loads++; done(); };
        script.onerror = () => { script.remove(); state.missing = true; fail(new Error("missing " + script.src)); };
        document.head.append(script);
      }));
    }
    return files.get(file);
  };
  idlewave.explorer.put = (key, list) => { if (key === data.key) list.forEach(([number, text]) => texts.set(number, text)); };

  const isEmpty = (number) => !inside.has(number) && data.packs[number] === null;
  /** Whether a node is known only from bins of the root, because it is in no file. */
  const isLost = (number) => isEmpty(number) && !data.is_whole;
  const keep = (number, node) => {
    nodes.delete(number);
    nodes.set(number, node);
    for (const old of nodes.keys()) { if (nodes.size <= KEPT) break; if (old !== 0) nodes.delete(old); }
    return node;
  };
  /** A node that has been read; null otherwise. */
  const get = (number) => {
    if (nodes.has(number)) return keep(number, nodes.get(number));
    return isEmpty(number) && !isLost(number) ? EMPTY : null;
  };
  /** Reads a node. */
  const read = (number) => {
    const known = get(number);
    if (known) return Promise.resolve(known);
    if (isLost(number)) { state.missing = true; return Promise.reject(new Error("the page has no files")); }
    if (!reading.has(number)) {
      reading.set(number, (async () => {
        try {
          if (!inside.has(number) && !texts.has(number)) await load(data.packs[number]);
          const text = inside.get(number) || texts.get(number);
          return keep(number, decode(await idlewave.unpack(text), places[number].begin));
        } finally { reading.delete(number); }
      })());
    }
    return reading.get(number);
  };

  /** What to draw of a stretch: nodes whose bins are at most `longest`, or leaves, each with the part of time that it stands for;
      and the nodes to read for a finer view. Until they are read, a node above stands for them. */
  const cover = (from, to, longest) => {
    const pieces = [], wanted = [];
    const visit = (place, above) => {
      if (place.end <= from || place.begin >= to) return;
      const node = get(place.number), stands = node ? { node, place } : above;
      const enough = !place.parts || size(place.level) <= longest;
      if (!node && enough) wanted.push(place.number);
      if (enough) { if (stands) pieces.push({ ...stands, from: place.begin, to: place.end }); return; }
      place.parts.forEach((part) => visit(part, stands));
    };
    visit(places[0], null);
    return { pieces, wanted };
  };

  /** Index range of the events of a group that overlap a stretch. */
  const range = (group, from, to) => {
    const least = (n, is) => { let a = 0, b = n; while (a < b) { const m = (a + b) >> 1; if (is(m)) b = m; else a = m + 1; } return a; };
    return [least(group.n, (i) => group.until[i] > from || (group.from[i] >= from)), least(group.n, (i) => group.from[i] >= to)];
  };
  const weight = (group, i) => group.more.length === 3 ? group.more[0][i] : group.to[i] - group.from[i];

  /** The next event after a moment (or the one before it) that has one of these names and a greater weight. */
  const find = async (wanted, above, at, way) => {
    const visit = async (place, sums) => {
      if (way > 0 ? place.end <= at : place.begin >= at) return null;
      let any = false;
      for (const what of wanted) { const s = sums.get(what); if (s && s.count && s.greatest > above) any = true; }
      if (!any) return null;
      const node = await read(place.number);
      if (!node.leaf) {
        const order = way > 0 ? [0, 1, 2, 3] : [3, 2, 1, 0];
        for (const p of order) {
          const found = await visit(place.parts[p], node.parts[p]);
          if (found) return found;
        }
        return null;
      }
      let best = null;
      for (const g of node.groups) {
        for (let i = 0; i < g.n; i++) {
          const begin = g.from[i];
          if (begin < place.begin || (way > 0 ? begin <= at : begin >= at) || !wanted.has(g.tag[i] >> 3) || weight(g, i) <= above) continue;
          if (!best || way * (best.from - begin) > 0) best = event(g, i);
        }
      }
      return best;
    };
    return visit(places[0], new Map(data.totals));
  };
  const event = (g, i) => ({ row: g.row, lane: g.lane, from: g.from[i], to: g.to[i], what: g.tag[i] >> 3, depth: (g.tag[i] >> 1) & 3, unsure: g.tag[i] & 1, more: g.more.map((c) => c[i]) });

  /** Exact sums by name over a stretch: events that begin in it, time inside it, greatest weight. */
  const sum = async (from, to) => {
    const sums = new Map();
    const add = (what, count, time, greatest) => {
      const s = sums.get(what) || { count: 0, time: 0, greatest: 0 };
      s.count += count; s.time += time; s.greatest = Math.max(s.greatest, greatest);
      sums.set(what, s);
    };
    const visit = async (place, whole) => {
      if (place.end <= from || place.begin >= to) return;
      if (whole && from <= place.begin && Math.min(place.end, data.span) <= to) { whole.forEach((s, what) => add(what, s.count, s.time, s.greatest)); return; }
      const node = await read(place.number);
      if (!node.leaf) { await Promise.all(place.parts.map((part, p) => visit(part, node.parts[p]))); return; }
      for (const g of node.groups) {
        const [a, b] = range(g, Math.max(from, place.begin), Math.min(to, place.end));
        for (let i = a; i < b; i++) {
          const begins = g.from[i] >= Math.max(from, place.begin), late = g.more.length === 3;
          const time = late ? (begins ? weight(g, i) : 0)
            : Math.max(0, Math.min(to, place.end, g.to[i]) - Math.max(from, place.begin, g.from[i]));
          if (begins || time > 0) add(g.tag[i] >> 3, begins ? 1 : 0, time, begins ? weight(g, i) : 0);
        }
      }
    };
    await visit(places[0], new Map(data.totals));
    return sums;
  };

  return { CLASSES, places, size, state, get, read, cover, range, event, find, sum };
};
