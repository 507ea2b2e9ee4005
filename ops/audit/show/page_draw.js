// The page of a graph: draws the groups that were laid out when the page was written. The forward
// is the left lane; in the right one each op's vjp stands where its op stands, and gradients rise.

const HEAD = 24, GAP = 34, CELL = 62, LANE = 60, BRACKET = 20;
const MANY = 200, SEVERAL = 60;  // nodes; above it modules begin folded, repeats as one

let L = G.layout, lane = true, colour = "none";
const folded = L.groups.map(() => nodes.length > MANY);
const repeats = L.repeats.map(r => ({ ...r, last: r.first + r.period * r.count, open: nodes.length <= SEVERAL }));
const repeatOf = L.groups.map((_, i) => repeats.find(r => i >= r.first && i < r.last));

// Groups that are drawn: neither empty nor the copy of one that stands for all.
const isCopy = i => repeatOf[i] && !repeatOf[i].open && i >= repeatOf[i].first + repeatOf[i].period;
const isDrawn = i => L.groups[i].boxes.length > 0 && !isCopy(i);
// The node that is drawn in place of this one.
function standIn(id) {
  const i = L.group_of[id];
  if (!isCopy(i)) return id;
  const r = repeatOf[i], own = L.groups[i], first = L.groups[r.first + (i - r.first) % r.period];
  return first.first + id - own.first;
}
const standKey = k => k[0] === "n" ? "n" + standIn(+k.slice(1)) : k;

const svg = el("svg", { role: "group", "aria-label": "the graph" }), root = el("g", {}, svg);
const boxes = new Map();  // key -> [elements]: a leaf may stand in several groups, a node in both lanes
const wires = [];         // {from, to, lane, e}
let tops = [], width = 0, height = 0;

const summaries = {
  forward(g) {
    const own = nodes.slice(g.first, g.last), ops = countOps(own);
    return ops.slice(0, 3).join(", ") + (ops.length > 3 ? ", ..." : "") + (ops.length ? "; " : "") + many(own.length, "node") + ", " + bytes(own.reduce((sum, n) => sum + n.saved_bytes, 0));
  },
  backward(g) {
    const own = nodes.slice(g.first, g.last).filter(n => n.step !== undefined);
    return many(own.length, "vjp") + ", " + many(own.reduce((sum, n) => sum + callsOf(n).length, 0), "op");
  },
};
const foldedWidth = Math.max(0, ...L.groups.map(g => 7 * Math.max(g.name.length + 6, summaries.forward(g).length)));
const laneX = () => lane ? width + LANE : 0;

// ---- boxes

function fill(g, rect, c) {
  if (!c) return;
  rect.style.fill = c.fill;
  g.classList.add(c.dark ? "dark" : "light");
}
function cross(parent, x, y) {
  const e = el("g", { class: "bad", transform: `translate(${x},${y})` }, parent);
  el("circle", { r: 7 }, e);
  el("text", { y: 4, "text-anchor": "middle" }, e, "✗");
}
const fits = (text, w) => text.length * 6.4 > w - 6 ? text.slice(0, Math.max(1, Math.floor((w - 6) / 6.4) - 1)) + "…" : text;
function drawBox(b, parent, back) {
  const node = b.kind === "node", n = node ? nodes[b.id] : null, name = label(b.kind, b.id);
  const says = back ? (node ? "vjp of " : "gradient of ") + name : name + " " + type(value(b.kind, b.id));
  const g = el("g", { class: "box " + b.kind + (back ? " vjp" : ""), transform: `translate(${b.x},${b.y})`, tabindex: back ? -1 : 0, role: "button", "aria-label": says }, parent);
  el("title", {}, g, says);
  const body = el("rect", { class: "body", width: b.w, height: b.h, rx: node ? 4 : 15 }, g);
  const w = node && !back ? b.w - CELL : b.w;
  const first = back ? (node ? "∂" : "∇ ") + name : name, second = back && node ? countOps(callsOf(n)).join(", ") || "passes it on" : type(value(b.kind, b.id));
  el("text", { x: w / 2, y: 14, "text-anchor": "middle" }, g, fits(first, w));
  el("text", { class: "type", x: w / 2, y: 27, "text-anchor": "middle" }, g, fits(second, w));
  if (node) {
    if (!back) {
      el("rect", { class: "cell", x: w, width: CELL, height: b.h, rx: 4 }, g);
      const d = n.outputs[0].gradient;
      el("text", { class: "norm late", x: w + CELL / 2, y: 20, "text-anchor": "middle" }, g, d ? "∇ " + short(typeof d.norm === "string" ? d.norm : +d.norm.toPrecision(2)) : "∇");
      if (n.verdict && n.verdict.bad) cross(g, 0, 0);
    }
    fill(g, body, shade(colour, n));
  }
  g.dataset.key = key(b.kind, b.id);
  g.onclick = () => select(b.kind, b.id, false, back);
  g.onkeydown = e => { if (e.key === "Enter" || e.key === " ") { g.onclick(); e.preventDefault(); e.stopPropagation(); } };
  boxes.set(g.dataset.key, (boxes.get(g.dataset.key) || []).concat(g));
}

// ---- wires

const mid = (b, back) => b.x + (b.kind === "node" && !back ? (b.w - CELL) / 2 : b.w / 2);
function onward(points) {
  let d = "";
  for (let i = 1; i < points.length; ++i) {
    const [x0, y0] = points[i - 1], [x1, y1] = points[i], m = (y0 + y1) / 2;
    d += `C${x0},${m} ${x1},${m} ${x1},${y1}`;
  }
  return d;
}
const route = points => "M" + points[0] + onward(points);
// In the right lane a wire is as thick as the gradient that rises along it is large.
let thickness = null;
function gradientOf(k) {
  const v = k[0] === "n" ? nodes[+k.slice(1)].outputs[0] : G.leaves[+k.slice(1)];
  if (unsound(v.gradient)) return thickness[1];
  return v.gradient && v.gradient.norm > 0 ? Math.log(v.gradient.norm) : null;
}
function addWire(parent, d, from, to, back) {
  const e = el("path", { class: back ? "wire rising" : "wire", d }, parent);
  const g = back && thickness ? gradientOf(from) : null;
  if (g !== null) e.style.strokeWidth = 1 + 4 * (thickness[1] > thickness[0] ? (g - thickness[0]) / (thickness[1] - thickness[0]) : 0.5);
  wires.push({ from, to, back, e });
}
const rises = (from, to) => nodes[+to.slice(1)].step !== undefined && (from[0] === "l" || (from[0] === "n" && nodes[+from.slice(1)].step !== undefined));

function wayOut(node, i, back) {  // from a node to the lower edge of its group
  const t = tops[i], dx = back ? laneX() : 0;
  if (folded[i]) return [[t.x + t.w / 2 + dx, t.y + t.h]];
  const p = L.groups[i].out.find(o => o.node === node), b = L.groups[i].boxes[p.box];
  const points = [[mid(b, back), b.y + b.h], ...p.bends].map(([x, y]) => [t.x + x + dx, t.y + HEAD + y]);
  return [...points, [points[points.length - 1][0], t.y + t.h]];
}
function wayIn(p, i, back) {
  const t = tops[i], b = L.groups[i].boxes[p.box], dx = back ? laneX() : 0;
  if (folded[i]) return [[t.x + t.w / 2 + dx, t.y]];
  const points = [...p.bends, [mid(b, back), b.y]].map(([x, y]) => [t.x + x + dx, t.y + HEAD + y]);
  return [[points[0][0], t.y], ...points];
}

// ---- groups

// The frame lies below the wires, what is written on it above them.
function drawFrame(g, i, below, above, x, y, w, h, back) {
  const frame = el("rect", { class: "frame", x, y, width: w, height: h, rx: 6 }, below);
  const e = el("g", { class: "group", transform: `translate(${x},${y})` }, above);
  const head = el("g", { class: "head", tabindex: back ? -1 : 0, role: "button", "aria-expanded": !folded[i] }, e);
  el("rect", { width: w, height: HEAD, fill: "transparent" }, head);
  el("text", { x: 8, y: 16 }, head, (folded[i] ? "▸ " : "▾ ") + (back ? "∂ " : "") + g.name);
  head.onclick = () => { folded[i] = !folded[i]; draw(); };
  head.onkeydown = k => { if (k.key === "Enter") head.onclick(); };
  if (!folded[i]) return;
  const own = nodes.slice(g.first, g.last);
  fill(e, frame, shadeOfAll(colour, own));
  if (own.some(n => n.verdict && n.verdict.bad)) cross(e, w - 12, 12);
  if (!back) el("rect", { class: "share", y: h - 4, height: 4, width: 0, fill: "var(--grad)", "data-group": i }, e);
  el("text", { class: "type", x: 8, y: 31 }, e, back ? summaries.backward(g) : summaries.forward(g));
}
function drawInside(g, parent, x, y, back) {
  const inner = el("g", { transform: `translate(${x},${y + HEAD})` }, parent);
  for (const wire of g.wires) {
    const a = g.boxes[wire.from], b = g.boxes[wire.to], from = key(a.kind, a.id), to = key(b.kind, b.id);
    if (back && !rises(from, to)) continue;
    addWire(inner, route([[mid(a, back), a.y + a.h], ...wire.bends, [mid(b, back), b.y]]), from, to, back);
  }
  for (const b of g.boxes)
    if (!back || (b.kind === "leaf" && G.leaves[b.id].gradient_is) || (b.kind === "node" && nodes[b.id].step !== undefined)) drawBox(b, inner, back);
}
function drawRepeat(r, parent) {
  const first = tops[r.first] || tops.find((t, i) => t && i > r.first);
  let last = first;
  for (let i = r.first; i < r.last; ++i) if (tops[i]) last = tops[i];
  if (!first) return;
  const x = Math.min(0, first.x) - 10, top = first.y - BRACKET;
  const e = el("g", { class: "repeat", tabindex: 0, role: "button", "aria-expanded": r.open }, parent);
  const own = nodes.slice(L.groups[r.first].first, L.groups[r.last - 1].last), bad = own.filter(n => n.verdict && n.verdict.bad).length;
  const span = (bad ? "✗ " + bad + " wrong  " : "") + L.groups[r.first].name + " … " + L.groups[r.last - 1].name;
  if (!r.open) el("rect", { class: "bracket", x, y: top, width: width + 20, height: last.y + last.h - top + 10, rx: 9 }, e);
  el("text", { x: x + 8, y: top + 14 }, e, fits((r.open ? "▾ " : "▸ ") + "× " + r.count + "  " + span, width));
  el("title", {}, e, r.open ? "equal modules: fold them to one" : "equal modules, drawn once: show them all");
  e.onclick = () => { r.open = !r.open; draw(); };
  e.onkeydown = k => { if (k.key === "Enter") e.onclick(); };
}

function draw() {
  root.textContent = "";
  boxes.clear();
  wires.length = 0;
  unmark();
  tops = [];
  width = Math.max(foldedWidth, ...L.groups.map((g, i) => folded[i] || !isDrawn(i) ? 0 : g.w));
  measure(colour);
  $("legend").innerHTML = legend(colour);
  thickness = null;
  for (const n of nodes) {
    const g = n.outputs[0].gradient;
    if (g && g.norm > 0 && isFinite(g.norm)) thickness = thickness ? [Math.min(thickness[0], Math.log(g.norm)), Math.max(thickness[1], Math.log(g.norm))] : [Math.log(g.norm), Math.log(g.norm)];
  }
  const [frames, wireLayer, insides, heads] = [0, 1, 2, 3].map(() => el("g", {}, root));
  const lanes = lane ? [false, true] : [false], bracketed = new Set();
  let y = 0;
  L.groups.forEach((g, i) => {
    if (!isDrawn(i)) return;
    if (repeatOf[i] && !bracketed.has(repeatOf[i])) y += BRACKET;
    bracketed.add(repeatOf[i]);
    const w = folded[i] ? foldedWidth : g.w, h = folded[i] ? HEAD + 14 : HEAD + g.h, x = (width - w) / 2;
    tops[i] = { x, y, w, h };
    for (const back of lanes) {
      const at = x + (back ? laneX() : 0);
      drawFrame(g, i, frames, heads, at, y, w, h, back);
      if (!folded[i]) drawInside(g, insides, at, y, back);
    }
    y += h + GAP;
  });
  height = Math.max(0, y - GAP);
  repeats.forEach(r => drawRepeat(r, heads));
  const place = [];  // among those that are drawn
  tops.forEach((_, i) => { place[i] = place.count = (place.count || 0) + 1; });
  const drawn = new Set();
  L.groups.forEach((g, i) => tops[i] && g.in.forEach(p => {
    const node = standIn(p.node), j = L.group_of[node], id = g.boxes[p.box].id;
    if (!tops[j] || j >= i) return;  // from a copy of its own
    const once = folded[i] && folded[j] ? j + ">" + i : "n" + node + ">" + (folded[i] ? i : "n" + id);
    if (drawn.has(once)) return;
    drawn.add(once);
    for (const back of lanes) {
      if (back && !rises("n" + node, "n" + id)) continue;
      const from = wayOut(node, j, back), to = wayIn(p, i, back), jump = place[i] - place[j];
      if (jump === 1) { addWire(wireLayer, route([...from, ...to]), "n" + node, "n" + id, back); continue; }
      const a = from[from.length - 1], b = to[0], out = 14 + 9 * Math.min(jump, 12);  // past what lies between
      const side = back ? laneX() + width + out : -out;
      addWire(wireLayer, route(from) + `C${a[0]},${a[1] + 20} ${side},${a[1]} ${side},${a[1] + 26}V${b[1] - 26}C${side},${b[1]} ${b[0]},${b[1] - 20} ${b}` + onward(to), "n" + node, "n" + id, back);
    }
  }));
  if (lane) {
    el("text", { class: "lane", x: width / 2, y: -26, "text-anchor": "middle" }, root, "forward ↓");
    el("text", { class: "lane", x: laneX() + width / 2, y: -26, "text-anchor": "middle" }, root, "backward ↑");
  }
  paint();
}
const whole = () => ({ x: -140, y: -46, w: width + 280 + laneX(), h: height + 60 });

// Shows the box of a node or leaf: unfolds what hides it.
function reveal(k) {
  const find = () => L.groups.findIndex(g => g.boxes.some(b => key(b.kind, b.id) === k));
  let i = k[0] === "n" ? L.group_of[+k.slice(1)] : find();
  if (k[0] === "n" && !L.groups[i].boxes.some(b => key(b.kind, b.id) === k)) hideTrivial(false);
  if (i < 0) return null;
  if (isCopy(i) || folded[i]) {
    if (isCopy(i)) repeatOf[i].open = true;
    folded[i] = false;
    draw();
  }
  return { i, b: L.groups[i].boxes.find(b => key(b.kind, b.id) === k) };
}
function hideTrivial(on) {
  L = on && G.layout_plain ? G.layout_plain : G.layout;
  $("trivial").setAttribute("aria-pressed", L !== G.layout);
  draw();
}
