// The page of a graph: what is chosen, played, moved and saved; runs when all else is there.

const READABLE = 0.9, LEGIBLE = 0.7;  // letters of 10 pixels, of 8

let step = 0, timer = 0, view = { x: 0, y: 0, k: 1 };

// ---- states on top of the drawing

const marked = {};  // css class -> the keys or wires that have it
function unmark() { for (const css in marked) delete marked[css]; }
// Touches only what has changed: a page may hold thousands of boxes.
function mark(css, now, elements) {
  const before = marked[css] || new Set();
  for (const x of before) if (!now.has(x)) for (const e of elements(x)) e.classList.remove(css);
  for (const x of now) if (!before.has(x)) for (const e of elements(x)) e.classList.add(css);
  marked[css] = now;
}
function paint() {
  const path = new Set(selected ? [...related(selected)].map(standKey) : []), here = selected && standKey(selected);
  const text = $("find").value.trim().toLowerCase();
  const now = step > 0 ? steps[step - 1] : null, nowKey = now && "n" + standIn(now.node);
  const delivered = new Set(now ? now.to.map(d => standKey(keyOf(d.of))) : []);
  const boxesOf = k => boxes.get(k) || [], wireOf = w => [w.e];
  mark("on", new Set(here ? [here] : []), boxesOf);
  mark("path", new Set([...path].filter(k => k !== here)), boxesOf);
  mark("done", new Set(steps.slice(0, step).map(s => "n" + s.node)), boxesOf);
  mark("now", new Set(now ? [nowKey, ...delivered] : []), boxesOf);
  mark("found", new Set(text ? [...boxes.keys()].filter(k => matches(k, text)) : []), boxesOf);
  for (const e of root.querySelectorAll(".share")) {  // of a folded group's nodes that backward has done
    const g = L.groups[e.dataset.group], own = nodes.slice(g.first, g.last);
    e.setAttribute("width", foldedWidth * own.filter(n => n.step < step).length / Math.max(1, own.length));
  }
  mark("along", new Set(wires.filter(w => path.has(w.from) && path.has(w.to))), wireOf);
  mark("back", new Set(now ? wires.filter(w => w.to === nowKey && delivered.has(w.from)) : []), wireOf);
  move();
}
const move = () => root.setAttribute("transform", `translate(${view.x},${view.y}) scale(${view.k})`);
function centre(k) {
  const at = reveal(k);
  if (!at || !at.b) return;
  const t = tops[at.i], r = svg.getBoundingClientRect();
  view.k = Math.max(view.k, 0.8);
  view.x = r.width / 2 - (t.x + at.b.x + at.b.w / 2) * view.k;
  view.y = r.height / 2 - (t.y + HEAD + at.b.y) * view.k;
}
// Moves the view only if the node, or the group folded over it, is outside of it; what comes next
// is above it.
function follow(id) {
  const node = standIn(id), i = L.group_of[node], t = tops[i], b = L.groups[i].boxes.find(b => b.kind === "node" && b.id === node);
  if (!t || !(b || folded[i])) return;
  const at = folded[i] ? t : { x: t.x + b.x, y: t.y + HEAD + b.y, w: b.w, h: b.h }, r = svg.getBoundingClientRect();
  const shift = (from, size, room, part) => from < 0 || from + size > room ? (room - size) * part - from : 0;
  view.x += shift(view.x + (at.x + laneX()) * view.k, at.w * view.k, r.width, 0.5);
  view.y += shift(view.y + at.y * view.k, at.h * view.k, r.height, 0.75);
}
// What is drawn, with the wires beside it and a margin.
function extent() {
  const b = root.getBBox(), margin = 12;
  return { x: b.x - margin, y: b.y - margin, w: b.width + 2 * margin, h: b.height + 2 * margin };
}
// At this scale in the middle, or from the beginning where it is too large for that.
function show(k) {
  const r = svg.getBoundingClientRect(), all = extent();
  view.k = Math.min(1.1, k(r.width / all.w, r.height / all.h));
  view.x = Math.max(0, (r.width - all.w * view.k) / 2) - all.x * view.k;
  view.y = Math.max(0, (r.height - all.h * view.k) / 2) - all.y * view.k;
  move();
}
// Both lanes beside each other if their letters can be read, else forward alone.
function opening() {
  lane = svg.getBoundingClientRect().width / extent().w >= LEGIBLE;
  toggle("lane", lane);
  if (!lane) draw();
  show(across => across >= LEGIBLE ? across : READABLE);
}
const fit = () => show(Math.min);
const home = () => show(across => Math.max(READABLE, across));
function zoom(f, cx, cy) {
  const k = Math.max(0.05, Math.min(4, view.k * f));
  view.x = cx - (cx - view.x) * k / view.k;
  view.y = cy - (cy - view.y) * k / view.k;
  view.k = k;
  move();
}

// ---- playing backward, and memory on the way

// Times of the strip under the head: the whole step where its memory was measured, else backward.
const moments = G.memory ? G.memory.moments : [{ op: "the beginning", live: G.saved_bytes, peak: G.saved_bytes }, ...steps.map(s => ({ live: s.saved_bytes_left, peak: s.saved_bytes_left, node: s.node, backward: true }))];
const momentOfVjp = new Map(moments.flatMap((m, i) => m.backward ? [[m.node, i]] : []).reverse());  // the first of each node
const momentText = m => `${m.backward ? "vjp of " : ""}${m.node === undefined ? m.op : label("node", m.node)}: ${bytes(m.live)} live` + (m.peak > m.live ? `, ${bytes(m.peak)} during it` : "");
function goTo(n) {
  step = Math.max(0, Math.min(steps.length, n));
  $("slider").value = step;
  const s = step ? steps[step - 1] : null;
  $("now").textContent = s ? `step ${step} of ${steps.length}: vjp of %${s.node} ${nodes[s.node].op}; ${bytes(s.saved_bytes_left)} left`
    : `${many(steps.length, "step")}; ${bytes(G.saved_bytes)} saved`;
  const at = s ? momentOfVjp.get(s.node) ?? -1 : moments.findIndex(m => m.backward) - 1;
  $("cursor").setAttribute("x", 1000 * Math.max(0, at + 0.5) / moments.length);
  if (s) follow(s.node);
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
  const strip = $("memory"), most = Math.max(1, ...moments.map(m => m.peak)), n = moments.length, y = b => 46 - 42 * b / most;
  const stairs = of => moments.map((m, i) => `L${1000 * i / n},${y(of(m))}L${1000 * (i + 1) / n},${y(of(m))}`).join("");
  const begin = moments.findIndex(m => m.backward);
  if (begin > 0 && G.memory) el("rect", { class: "pass", x: 1000 * begin / n, width: 1000 * (n - begin) / n, height: 46 }, strip);
  if (G.memory) el("path", { class: "peak", d: "M0,46" + stairs(m => m.peak) + "L1000,46Z" }, strip);
  el("path", { class: "live", d: "M0,46" + stairs(m => m.live) + "L1000,46Z" }, strip);
  el("rect", { id: "cursor", width: 3, height: 46, fill: "var(--grad)" }, strip);
  const top = moments.reduce((a, m, i) => m.peak > moments[a].peak ? i : a, 0);
  const about = (G.memory ? "memory during the step; most: " : "saved tensors left in backward; most: ") + momentText(moments[top]);
  const at = e => moments[Math.max(0, Math.min(n - 1, Math.floor((e.clientX - strip.getBoundingClientRect().left) / strip.clientWidth * n)))];
  $("moment").textContent = about;
  strip.onpointermove = e => { $("moment").textContent = momentText(at(e)); };
  strip.onpointerleave = () => { $("moment").textContent = about; };
  strip.onclick = e => { const m = at(e); if (m.node !== undefined) select("node", m.node, true, m.backward); };
}

// ---- saving

function picture() {
  const copy = svg.cloneNode(true), all = whole(), css = getComputedStyle(document.documentElement);
  copy.setAttribute("xmlns", NS);
  copy.setAttribute("viewBox", `${all.x} ${all.y} ${all.w} ${all.h}`);
  copy.setAttribute("width", all.w);
  copy.setAttribute("height", all.h);
  copy.querySelector("g").removeAttribute("transform");
  copy.prepend(el("style", {}, null, document.querySelector("style").textContent.replace(/var\((--[\w-]+)\)/g, (_, n) => css.getPropertyValue(n))));
  const paper = el("rect", { x: all.x, y: all.y, width: all.w, height: all.h, fill: css.getPropertyValue("--paper") });
  copy.insertBefore(paper, copy.querySelector("g"));
  return { text: new XMLSerializer().serializeToString(copy), all };
}
function download(blob, name) {
  const a = document.createElement("a");
  a.href = URL.createObjectURL(blob);
  a.download = name;
  a.click();
}
// The picture as a bitmap; `then` gets the blob.
function png(then) {
  const { text, all } = picture(), image = new Image(), scale = Math.min(2, 16000 / Math.max(all.w, all.h));
  image.onload = () => {
    const canvas = document.createElement("canvas");
    canvas.width = Math.ceil(all.w * scale);
    canvas.height = Math.ceil(all.h * scale);
    canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
    canvas.toBlob(then, "image/png");
  };
  image.src = "data:image/svg+xml;charset=utf-8," + encodeURIComponent(text);
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
function toNode(id) { if (nodes.length) select("node", Math.max(0, Math.min(nodes.length - 1, id)), true); }
function fromHash() {
  const m = /^#([nl])=(\d+)$/.exec(location.hash);
  if (m && +m[2] < (m[1] === "n" ? nodes : G.leaves).length) select(m[1] === "n" ? "node" : "leaf", +m[2], true);
}
function choices() {
  $("colour").replaceChildren(...measures().map(m => new Option(m, m)));
  $("colour").value = colour;
}
function toggle(id, on) { $(id).setAttribute("aria-pressed", on); }
const hands = {
  fold() { const all = folded.some(f => !f); folded.fill(all); draw(); home(); },
  fit,
  trivial() { hideTrivial(L === G.layout); home(); },
  lane() { lane = !lane; toggle("lane", lane); draw(); home(); },
  svg() { download(new Blob([picture().text], { type: "image/svg+xml" }), "graph.svg"); },
  png() { png(blob => download(blob, "graph.png")); },
  against() { $("other").click(); },
};
function pointers() {
  let drag = null;
  svg.onwheel = e => { const r = svg.getBoundingClientRect(); zoom(e.deltaY < 0 ? 1.15 : 1 / 1.15, e.clientX - r.left, e.clientY - r.top); e.preventDefault(); };
  svg.onpointerdown = e => { drag = [e.clientX - view.x, e.clientY - view.y]; };
  window.addEventListener("pointermove", e => { if (drag && e.buttons) { view.x = e.clientX - drag[0]; view.y = e.clientY - drag[1]; move(); } });
  window.addEventListener("pointerup", () => { drag = null; });
}
function keyboard(e) {
  if (e.target.matches("input[type=search], select") || e.ctrlKey || e.metaKey || e.altKey) return;
  const r = svg.getBoundingClientRect(), id = selected && selected[0] === "n" ? +selected.slice(1) : -1;
  const keys = { "/": () => $("find").focus(), " ": play, p: play, ArrowRight: () => goTo(step + 1), ArrowLeft: () => goTo(step - 1),
    j: () => toNode(id + 1), k: () => toNode(id - 1),
    "+": () => zoom(1.2, r.width / 2, r.height / 2), "-": () => zoom(1 / 1.2, r.width / 2, r.height / 2), 0: fit, 1: home, f: hands.fold, t: hands.trivial, b: hands.lane,
    Escape: () => { selected = null; paint(); } };
  if (keys[e.key] && !(e.key === " " && e.target.matches("button, summary"))) { keys[e.key](); e.preventDefault(); }
}
function start() {
  document.body.classList.remove("nojs");
  $("stage").replaceChildren(svg);
  if (nodes.some(n => n.verdict)) colour = "verdict";
  choices();
  $("slider").max = steps.length;
  $("trivial").hidden = !G.layout_plain;
  memory();
  draw();
  opening();
  goTo(0);
  for (const name in hands) $(name).onclick = hands[name];
  $("colour").onchange = () => { colour = $("colour").value; draw(); };
  $("slider").oninput = () => goTo(+$("slider").value);
  $("play").onclick = play;
  $("other").onchange = e => { if (e.target.files[0]) load(e.target.files[0]); };
  $("find").oninput = () => { hit = -1; next(1); };
  $("find").onkeydown = e => {
    if (e.key === "Enter") next(e.shiftKey ? -1 : 1);
    if (e.key === "Escape") { $("find").value = ""; $("hits").textContent = ""; $("find").blur(); paint(); }
  };
  requestAnimationFrame(() => setTimeout(unpackTables));  // when the graph is seen
  pointers();
  window.addEventListener("hashchange", fromHash);
  window.addEventListener("beforeprint", () => {  // all of it on the paper
    const all = whole();
    svg.setAttribute("viewBox", `${all.x} ${all.y} ${all.w} ${all.h}`);
    root.removeAttribute("transform");
  });
  window.addEventListener("afterprint", () => { svg.removeAttribute("viewBox"); paint(); });
  document.addEventListener("keydown", keyboard);
  fromHash();
}
start();
