// The page of a graph: draws the groups that were laid out when the page was written, folds them,
// finds, explains and plays backward. `G` is gradus.graph/1 with "layout" beside it.
"use strict";
const G = JSON.parse(document.getElementById("data").textContent);
const $ = id => document.getElementById(id);
const NS = "http://www.w3.org/2000/svg";
const HEAD = 24, GAP = 34, CELL = 62;
const nodes = G.nodes, steps = G.backward.steps, groups = G.layout.groups;
let selected = null, step = 0, timer = 0, view = { x: 0, y: 0, k: 1 };
const folded = groups.map(() => nodes.length > 200);

function el(name, attrs, parent, text) {
  const e = document.createElementNS(NS, name);
  for (const k in attrs) e.setAttribute(k, attrs[k]);
  if (text !== undefined) e.textContent = text;
  if (parent) parent.append(e);
  return e;
}
const short = x => typeof x === "string" ? x : x === 0 ? "0"
  : Math.abs(x) >= 1e-3 && Math.abs(x) < 1e5 ? String(+x.toPrecision(4)) : x.toExponential(2);
const bytes = n => { let u = 0; while (n >= 1024 && u < 4) { n /= 1024; ++u; } return short(n) + " " + ["B", "KiB", "MiB", "GiB", "TiB"][u]; };
const time = ns => ns < 1e3 ? short(ns) + " ns" : ns < 1e6 ? short(ns / 1e3) + " µs" : short(ns / 1e6) + " ms";
const type = v => v.dtype + "[" + v.shape.join(",") + "]";
const value = (kind, id) => kind === "node" ? nodes[id].outputs[0] : kind === "leaf" ? G.leaves[id] : G.constants[id];
const label = (kind, id) => kind === "node" ? "%" + id + " " + nodes[id].op : kind === "leaf" ? G.leaves[id].name : G.constants[id].name;
function source(s) {
  if (!s) return "none";
  const kind = Object.keys(s)[0], id = s[kind];
  if (kind === "seed") return "1";
  return kind === "node" ? "%" + id : kind === "call" ? "%b" + id : label(kind, id);
}
const key = (kind, id) => kind[0] + id;  // n3, l0, c1

const foldedWidth = Math.max(...groups.map(g => 7 * Math.max(g.name.length + 4, summary(g).length)));

// ---- drawing

const svg = el("svg", { role: "group", "aria-label": "the graph" }), root = el("g", {}, svg);
const boxes = new Map();  // key -> [elements]: a leaf may stand in several groups
const wires = [];         // {from, to, e}
let tops = [], width = 0, height = 0;

// Colours of viridis, dark to light, readable in grey too.
const RAMP = ["#440154", "#414487", "#2a788e", "#22a884", "#7ad151", "#fde725"];
const MEASURES = {
  none: null,
  "gradient norm": n => n.outputs[0].gradient && n.outputs[0].gradient.norm,
  "forward time": n => n.forward_ns, "backward time": n => n.backward_ns,
  "saved bytes": n => n.saved_bytes, flops: n => n.flops,
};
let range = null;  // logarithms of the least and largest measure
function measure() {
  const f = MEASURES[$("colour").value];
  range = null;
  if (!f) return;
  for (const n of nodes) {
    const x = f(n);
    if (x > 0) range = range ? [Math.min(range[0], Math.log(x)), Math.max(range[1], Math.log(x))] : [Math.log(x), Math.log(x)];
  }
}
function shade(n) {
  const x = range && MEASURES[$("colour").value](n);
  if (!(x > 0)) return -1;
  const share = range[1] > range[0] ? (Math.log(x) - range[0]) / (range[1] - range[0]) : 1;
  return Math.round(share * (RAMP.length - 1));
}

function drawBox(b, parent) {
  const node = b.kind === "node";
  const g = el("g", { class: "box " + b.kind, transform: `translate(${b.x},${b.y})`, tabindex: 0, role: "button",
    "aria-label": label(b.kind, b.id) + " " + type(value(b.kind, b.id)) }, parent);
  el("rect", { class: "body", width: b.w, height: b.h, rx: node ? 4 : 15 }, g);
  const w = node ? b.w - CELL : b.w;
  el("text", { x: w / 2, y: 14, "text-anchor": "middle" }, g, label(b.kind, b.id));
  el("text", { class: "type", x: w / 2, y: 27, "text-anchor": "middle" }, g, type(value(b.kind, b.id)));
  if (node) {
    el("rect", { class: "cell", x: w, width: CELL, height: b.h, rx: 4 }, g);
    el("text", { class: "norm", x: w + CELL / 2, y: 20, "text-anchor": "middle" }, g, "");
    const c = shade(nodes[b.id]);
    if (c >= 0) {
      g.firstChild.style.fill = RAMP[c];
      g.classList.add(c < 3 ? "dark" : "light");
    }
  }
  g.dataset.key = key(b.kind, b.id);
  g.onclick = () => select(b.kind, b.id, false);
  g.onkeydown = e => { if (e.key === "Enter" || e.key === " ") { select(b.kind, b.id, false); e.preventDefault(); e.stopPropagation(); } };
  boxes.set(g.dataset.key, (boxes.get(g.dataset.key) || []).concat(g));
}

function draw() {
  root.textContent = "";
  boxes.clear();
  wires.length = 0;
  tops = [];
  let y = 0;
  width = Math.max(foldedWidth, ...groups.map((g, i) => folded[i] ? 0 : g.w));
  measure();
  const frames = el("g", {}, root), wireLayer = el("g", {}, root), insides = el("g", {}, root);
  groups.forEach((g, i) => {
    const w = folded[i] ? foldedWidth : g.w, h = folded[i] ? HEAD + 14 : HEAD + g.h;
    const x = (width - w) / 2, at = `translate(${x},${y})`;
    const e = el("g", { transform: at }, frames);
    el("rect", { class: "frame", width: w, height: h, rx: 6 }, e);
    const head = el("g", { class: "head", tabindex: 0, role: "button", "aria-expanded": !folded[i] }, e);
    el("rect", { width: w, height: HEAD, fill: "transparent" }, head);
    el("text", { x: 8, y: 16 }, head, (folded[i] ? "▸ " : "▾ ") + g.name);
    head.onclick = () => { folded[i] = !folded[i]; draw(); };
    head.onkeydown = k => { if (k.key === "Enter") head.onclick(); };
    tops.push({ x, y, w, h });
    if (folded[i]) {
      el("rect", { class: "share", y: h - 4, height: 4, width: 0, fill: "var(--grad)", "data-group": i }, e);
      el("text", { class: "type", x: 8, y: 31 }, e, summary(g));
    }
    else {
      const inner = el("g", { transform: `translate(${x},${y + HEAD})` }, insides);
      for (const wire of g.wires) {
        const a = g.boxes[wire.from], b = g.boxes[wire.to];
        addWire(inner, route([[mid(a), a.y + a.h], ...wire.bends, [mid(b), b.y]]), key(a.kind, a.id), key(b.kind, b.id));
      }
      g.boxes.forEach(b => drawBox(b, inner));
    }
    y += h + GAP;
  });
  height = y - GAP;
  const drawn = new Set();
  groups.forEach((g, i) => g.in.forEach(p => {
    const j = G.layout.group_of[p.node], id = g.boxes[p.box].id, once = folded[i] && folded[j] ? j + ">" + i : "n" + p.node + ">" + (folded[i] ? i : "n" + id);
    if (drawn.has(once)) return;
    drawn.add(once);
    const from = wayOut(p.node, j), to = wayIn(p, i);
    if (i - j === 1) return addWire(wireLayer, route([...from, ...to]), "n" + p.node, "n" + id);
    const a = from[from.length - 1], b = to[0], side = -14 - 9 * Math.min(i - j, 12);  // past what lies between
    addWire(wireLayer, route(from) + `C${a[0]},${a[1] + 20} ${side},${a[1]} ${side},${a[1] + 26}V${b[1] - 26}C${side},${b[1]} ${b[0]},${b[1] - 20} ${b}` + onward(to), "n" + p.node, "n" + id);
  }));
  paint();
}
const mid = b => b.x + (b.kind === "node" ? (b.w - CELL) / 2 : b.w / 2);
function wayOut(node, i) {  // from a node to the lower edge of its group
  const t = tops[i];
  if (folded[i]) return [[t.x + t.w / 2, t.y + t.h]];
  const p = groups[i].out.find(o => o.node === node), b = groups[i].boxes[p.box];
  const points = [[mid(b), b.y + b.h], ...p.bends].map(([x, y]) => [t.x + x, t.y + HEAD + y]);
  return [...points, [points[points.length - 1][0], t.y + t.h]];
}
function wayIn(p, i) {
  const t = tops[i], b = groups[i].boxes[p.box];
  if (folded[i]) return [[t.x + t.w / 2, t.y]];
  const points = [...p.bends, [mid(b), b.y]].map(([x, y]) => [t.x + x, t.y + HEAD + y]);
  return [[points[0][0], t.y], ...points];
}
function onward(points) {
  let d = "";
  for (let i = 1; i < points.length; ++i) {
    const [x0, y0] = points[i - 1], [x1, y1] = points[i], m = (y0 + y1) / 2;
    d += `C${x0},${m} ${x1},${m} ${x1},${y1}`;
  }
  return d;
}
const route = points => "M" + points[0] + onward(points);
function addWire(parent, d, from, to) { wires.push({ from, to, e: el("path", { class: "wire", d }, parent) }); }
function summary(g) {
  const counts = {};
  let saved = 0;
  for (let i = g.first; i < g.last; ++i) {
    counts[nodes[i].op] = (counts[nodes[i].op] || 0) + 1;
    saved += nodes[i].saved_bytes;
  }
  const ops = Object.entries(counts).sort((a, b) => b[1] - a[1]);
  return ops.slice(0, 3).map(([op, n]) => n > 1 ? op + " x " + n : op).join(", ") + (ops.length > 3 ? ", ..." : "") +
    "; " + (g.last - g.first) + (g.last - g.first > 1 ? " nodes, " : " node, ") + bytes(saved);
}

// ---- states on top of the drawing

function related(start) {  // all that leads to the node, and all it leads to
  const out = new Set([start]), users = {};
  nodes.forEach((n, id) => n.inputs.forEach(s => {
    if (s) { const kind = Object.keys(s)[0]; (users[key(kind, s[kind])] ||= []).push("n" + id); }
  }));
  const go = next => {
    const waiting = [start], seen = new Set(waiting);
    while (waiting.length) for (const k of next(waiting.pop())) if (!seen.has(k)) { seen.add(k); out.add(k); waiting.push(k); }
  };
  go(k => users[k] || []);
  go(k => k[0] === "n" ? nodes[+k.slice(1)].inputs.filter(s => s && (s.node !== undefined || s.leaf !== undefined)).map(s => { const kind = Object.keys(s)[0]; return key(kind, s[kind]); }) : []);
  return out;
}
function paint() {
  const path = selected ? related(selected) : new Set(), text = $("find").value.trim().toLowerCase();
  const now = step > 0 ? steps[step - 1] : null, delivered = new Set(now ? now.to.map(d => { const k = Object.keys(d.of)[0]; return key(k, d.of[k]); }) : []);
  for (const [k, list] of boxes) for (const e of list) {
    const node = k[0] === "n" ? nodes[+k.slice(1)] : null;
    const done = node && node.step !== undefined && node.step < step;
    e.classList.toggle("on", k === selected);
    e.classList.toggle("path", path.has(k) && k !== selected);
    e.classList.toggle("done", !!done);
    e.classList.toggle("now", !!now && (k === "n" + now.node || delivered.has(k)));
    e.classList.toggle("found", text !== "" && matches(k, text));
    if (node) {
      const g = node.outputs[0].gradient;
      e.querySelector(".norm").textContent = done ? (g ? "∇ " + short(+(+g.norm).toPrecision(2)) : "∇") : "";
    }
  }
  for (const e of root.querySelectorAll(".share")) {  // of a folded group's nodes that backward has done
    const g = groups[e.dataset.group], own = nodes.slice(g.first, g.last);
    e.setAttribute("width", foldedWidth * own.filter(n => n.step < step).length / own.length);
  }
  for (const w of wires) {
    w.e.classList.toggle("path", path.has(w.from) && path.has(w.to));
    w.e.classList.toggle("back", !!now && w.to === "n" + now.node && delivered.has(w.from));
  }
  root.setAttribute("transform", `translate(${view.x},${view.y}) scale(${view.k})`);
}
function matches(k, text) {
  const kind = { n: "node", l: "leaf", c: "constant" }[k[0]], id = +k.slice(1);
  const path = kind === "node" ? nodes[id].path.join(" ") : "";
  return (label(kind, id) + " " + type(value(kind, id)) + " " + path).toLowerCase().includes(text);
}
function centre(k) {
  let at = null;
  groups.forEach((g, i) => g.boxes.forEach(b => { if (!at && key(b.kind, b.id) === k) at = { i, b }; }));
  if (!at) return;
  if (folded[at.i]) { folded[at.i] = false; draw(); }
  const t = tops[at.i], r = svg.getBoundingClientRect();
  view.k = Math.max(view.k, 0.8);
  view.x = r.width / 2 - (t.x + at.b.x + at.b.w / 2) * view.k;
  view.y = r.height / 2 - (t.y + HEAD + at.b.y) * view.k;
}
function fit() {
  const r = svg.getBoundingClientRect(), w = width + 180;
  view.k = Math.min(1.1, Math.max(0.45, Math.min(r.width / w, r.height / (height + 20))));
  view.x = (r.width - width * view.k) / 2;
  view.y = height * view.k > r.height ? 10 : (r.height - height * view.k) / 2;
  paint();
}

// ---- the panel

function bars(s, css) {
  const most = Math.max(1, ...s.histogram);
  return `<svg class="bars ${css}" viewBox="0 0 240 46" width="240" height="46" role="img" aria-label="histogram">` +
    s.histogram.map((n, i) => n ? `<rect x="${i * 10}" y="${46 - 44 * n / most - 1}" width="9" height="${44 * n / most + 1}"/>` : "").join("") + "</svg>" +
    `<div>${short(s.min)} … ${short(s.max)}</div>`;
}
const escape = s => String(s).replace(/[&<>"]/g, c => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[c]);
function stats(title, s, css) {
  if (!s) return "";
  return `<h3>${title}</h3>${bars(s, css)}<dl><dt>mean</dt><dd>${short(s.mean)}</dd><dt>spread</dt><dd>${short(s.std)}</dd>` +
    `<dt>norm</dt><dd>${short(s.norm)}</dd><dt>zeros</dt><dd>${s.zeros}</dd>` +
    (s.nan || s.inf ? `<dt>not finite</dt><dd><b>${s.nan} NaN, ${s.inf} inf</b></dd>` : "") +
    `<dt>first</dt><dd>${s.first.map(short).join(", ")}</dd></dl>`;
}
function link(s) {
  if (!s) return "none";
  const kind = Object.keys(s)[0], id = s[kind];
  return kind === "node" || kind === "leaf" ? `<a href="#${key(kind, id).replace(/^(.)/, "$1=")}">${escape(label(kind, id))}</a>` : escape(source(s));
}
function call(c) {
  return `${c.op}(${c.inputs.map(source).join(", ")}${Object.entries(c.attrs).map(([k, v]) => "; " + k + "=" + v).join("")})`;
}
function select(kind, id, jump) {
  selected = key(kind, id);
  if (jump) centre(selected);
  const v = value(kind, id), n = kind === "node" ? nodes[id] : null;
  let html = `<h2>${escape(label(kind, id))}</h2><code>${escape(type(v))}</code>`;
  if (n) {
    const op = G.ops[n.op];
    html += `<div>${escape(op.doc)}</div>` + (n.path.length ? `<div>in ${escape(n.path.join(" › "))}</div>` : "") +
      `<h3>formula</h3><code>${escape(op.formula)}</code>` +
      (op.derivatives.length ? `<h3>derivative</h3><code>${op.derivatives.map(escape).join("<br>")}</code>` : "") + "<dl>" +
      n.inputs.map((s, k) => `<dt>${escape(op.operands[Math.min(k, op.operands.length - 1)] || k)}</dt><dd>${link(s)}</dd>`).join("") +
      Object.entries(n.attrs).map(([k, x]) => `<dt>${escape(k)}</dt><dd>${escape(x)}</dd>`).join("") +
      (n.flops === undefined ? "" : `<dt>flops</dt><dd>${short(n.flops)}</dd>`) +
      (n.forward_ns === undefined ? "" : `<dt>forward</dt><dd>${time(n.forward_ns)} in kernels</dd>`) +
      (n.backward_ns === undefined ? "" : `<dt>backward</dt><dd>${time(n.backward_ns)} in kernels</dd>`) +
      `<dt>saved</dt><dd>${n.saved.length ? n.saved.map(s => escape(s.what) + " " + bytes(s.bytes) + (s.packed ? " (packed)" : s.counted ? "" : " (shared)") + (s.read ? "" : " (never read)")).join(", ") : "nothing"}</dd></dl>`;
    if (n.step !== undefined) {
      const s = steps[n.step], list = [];
      for (let i = s.calls[0]; i < s.calls[1]; ++i) list.push(`%b${i} = ${call(G.backward.calls[i])}` + (i < s.calls[0] + s.sums ? "  # gradients add up" : ""));
      for (const d of s.to) list.push(`g:${source(d.of)} ${d.count > 1 ? "+=" : "="} ${source(d.value)}` + (d.count > 1 ? `  # ${d.nth} of ${d.count}` : ""));
      html += `<h3>backward, step ${n.step + 1} of ${steps.length}</h3><pre>${escape(list.join("\n"))}</pre>`;
    }
  } else if (kind === "leaf") {
    html += v.uses ? `<div>a leaf, used ${v.uses} time${v.uses > 1 ? "s" : ""}</div>` : "<div>not in the graph: it gets no gradient</div>";
  } else html += "<div>no gradient was asked for</div>";
  $("panel").innerHTML = html + stats("value", v.value, "") + stats("gradient", v.gradient, "g");
  paint();
  if (location.hash !== "#" + selected.replace(/^(.)/, "$1=")) history.replaceState(null, "", "#" + selected.replace(/^(.)/, "$1="));
}

// ---- playing backward

function goTo(n) {
  step = Math.max(0, Math.min(steps.length, n));
  $("slider").value = step;
  const s = step ? steps[step - 1] : null;
  $("now").textContent = s ? `step ${step} of ${steps.length}: vjp of %${s.node} ${nodes[s.node].op}; ${bytes(s.saved_bytes_left)} left`
    : `${steps.length} steps; ${bytes(G.saved_bytes)} saved`;
  $("cursor").setAttribute("x", steps.length ? 1000 * step / steps.length : 0);
  if (s && timer) centre("n" + s.node);
  paint();
}
function play() {
  if (timer) { clearInterval(timer); timer = 0; }
  else {
    if (step === steps.length) goTo(0);
    timer = setInterval(() => { goTo(step + 1); if (step === steps.length) play(); }, Math.max(30, Math.min(500, 20000 / steps.length)));
  }
  $("play").textContent = timer ? "❚❚ pause" : "▶ play backward";
}
function memory() {
  const most = Math.max(1, G.saved_bytes);
  let d = "M0,30";
  [G.saved_bytes, ...steps.map(s => s.saved_bytes_left)].forEach((b, i) => { d += `L${1000 * i / Math.max(1, steps.length)},${30 - 28 * b / most}`; });
  el("path", { d: d + "L1000,30Z", fill: "var(--leaf)", stroke: "var(--line)" }, $("memory"));
  el("rect", { id: "cursor", width: 3, height: 30, fill: "var(--grad)" }, $("memory"));
  el("title", {}, $("memory"), "bytes of saved tensors that are left after each step of backward");
}

// ---- hands

let hit = -1;
function next(by) {
  const text = $("find").value.trim().toLowerCase();
  const all = [...nodes.map((_, i) => "n" + i), ...G.leaves.map((_, i) => "l" + i)].filter(k => text && matches(k, text));
  $("hits").textContent = text ? all.length + " found" : "";
  if (!all.length) return paint();
  hit = (hit + by + all.length) % all.length;
  select({ n: "node", l: "leaf" }[all[hit][0]], +all[hit].slice(1), true);
}
function zoom(f, cx, cy) {
  const k = Math.max(0.05, Math.min(4, view.k * f));
  view.x = cx - (cx - view.x) * k / view.k;
  view.y = cy - (cy - view.y) * k / view.k;
  view.k = k;
  paint();
}
function fromHash() {
  const m = /^#([nl])=(\d+)$/.exec(location.hash);
  if (m && +m[2] < (m[1] === "n" ? nodes : G.leaves).length) select(m[1] === "n" ? "node" : "leaf", +m[2], true);
}
function start() {
  document.body.classList.remove("nojs");
  $("stage").replaceChildren(svg);
  for (const m in MEASURES) $("colour").append(new Option(m, m));
  $("slider").max = steps.length;
  memory();
  draw();
  fit();
  goTo(0);
  $("find").oninput = () => { hit = -1; next(1); };
  $("find").onkeydown = e => { if (e.key === "Enter") next(e.shiftKey ? -1 : 1); if (e.key === "Escape") { $("find").value = ""; $("hits").textContent = ""; $("find").blur(); paint(); } };
  $("fold").onclick = () => { const all = folded.some(f => !f); folded.fill(all); draw(); fit(); };
  $("fit").onclick = fit;
  $("colour").onchange = draw;
  $("slider").oninput = () => goTo(+$("slider").value);
  $("play").onclick = play;
  $("save").onclick = () => {
    const copy = svg.cloneNode(true), a = document.createElement("a");
    copy.setAttribute("xmlns", NS);
    copy.setAttribute("viewBox", `-130 -10 ${width + 150} ${height + 20}`);
    copy.firstChild.removeAttribute("transform");
    const css = getComputedStyle(document.documentElement);
    copy.prepend(el("style", {}, null, document.querySelector("style").textContent.replace(/var\((--\w+)\)/g, (_, n) => css.getPropertyValue(n))));
    a.href = URL.createObjectURL(new Blob([new XMLSerializer().serializeToString(copy)], { type: "image/svg+xml" }));
    a.download = "graph.svg";
    a.click();
  };
  svg.onwheel = e => { const r = svg.getBoundingClientRect(); zoom(e.deltaY < 0 ? 1.15 : 1 / 1.15, e.clientX - r.left, e.clientY - r.top); e.preventDefault(); };
  let drag = null;
  svg.onpointerdown = e => { drag = [e.clientX - view.x, e.clientY - view.y]; };
  window.addEventListener("pointermove", e => { if (drag && e.buttons) { view.x = e.clientX - drag[0]; view.y = e.clientY - drag[1]; paint(); } });
  window.addEventListener("pointerup", () => { drag = null; });
  window.addEventListener("hashchange", fromHash);
  window.addEventListener("beforeprint", () => {  // all of it on the paper
    svg.setAttribute("viewBox", `-130 -10 ${width + 150} ${height + 20}`);
    root.removeAttribute("transform");
  });
  window.addEventListener("afterprint", () => { svg.removeAttribute("viewBox"); paint(); });
  document.addEventListener("keydown", e => {
    if (e.target.matches("input[type=search], select") || e.ctrlKey || e.metaKey || e.altKey) return;
    const r = svg.getBoundingClientRect(), id = selected && selected[0] === "n" ? +selected.slice(1) : -1;
    const keys = { "/": () => $("find").focus(), " ": play, p: play, ArrowRight: () => goTo(step + 1), ArrowLeft: () => goTo(step - 1),
      j: () => select("node", Math.min(nodes.length - 1, id + 1), true), k: () => select("node", Math.max(0, id - 1), true),
      "+": () => zoom(1.2, r.width / 2, r.height / 2), "-": () => zoom(1 / 1.2, r.width / 2, r.height / 2), 0: fit, f: () => $("fold").onclick(),
      Escape: () => { selected = null; paint(); } };
    if (keys[e.key] && !(e.key === " " && e.target.matches("button, summary"))) { keys[e.key](); e.preventDefault(); }
  });
  fromHash();
}
start();
