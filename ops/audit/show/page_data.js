// The page of a graph, first of its scripts: the data, words and numbers for people, and the
// measures that boxes can be coloured by. `G` is gradus.graph/1 with two layouts beside it.
"use strict";
const G = JSON.parse(document.getElementById("data").textContent);
const $ = id => document.getElementById(id);
const NS = "http://www.w3.org/2000/svg";
const nodes = G.nodes, steps = G.backward.steps;
nodes.forEach((n, id) => { n.id = id; });

function el(name, attrs, parent, text) {
  const e = document.createElementNS(NS, name);
  for (const k in attrs) e.setAttribute(k, attrs[k]);
  if (text !== undefined) e.textContent = text;
  if (parent) parent.append(e);
  return e;
}
const escape = s => String(s).replace(/[&<>"]/g, c => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[c]);
const short = x => typeof x === "string" ? x : x === 0 ? "0"
  : Math.abs(x) >= 1e-3 && Math.abs(x) < 1e5 ? String(+x.toPrecision(4)) : x.toExponential(2);
const bytes = n => { let u = 0; while (n >= 1024 && u < 4) { n /= 1024; ++u; } return short(n) + " " + ["B", "KiB", "MiB", "GiB", "TiB"][u]; };
const time = ns => ns < 1e3 ? short(ns) + " ns" : ns < 1e6 ? short(ns / 1e3) + " µs" : short(ns / 1e6) + " ms";
const percent = x => short(+(100 * x).toPrecision(3)) + " %";
const many = (n, word) => n + " " + word + (n === 1 ? "" : "s");
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
const keyOf = s => { const kind = Object.keys(s)[0]; return key(kind, s[kind]); };
function call(c) {
  return `${c.op}(${c.inputs.map(source).join(", ")}${Object.entries(c.attrs).map(([k, v]) => "; " + k + "=" + v).join("")})`;
}
function countOps(list) {  // "mul x 3, sum"
  const counts = {};
  for (const c of list) counts[c.op] = (counts[c.op] || 0) + 1;
  return Object.entries(counts).sort((a, b) => b[1] - a[1]).map(([op, n]) => n > 1 ? op + " x " + n : op);
}
const callsOf = n => n.step === undefined ? [] : G.backward.calls.slice(steps[n.step].calls[0] + steps[n.step].sums, steps[n.step].calls[1]);

// The least time that the machine's peaks allow, as a part of the time it took (cost.hpp).
function ofPeak(flops, moved, ns) {
  if (!G.peaks || !(ns > 0) || !(flops > 0 || moved > 0)) return undefined;
  return Math.max((flops || 0) / G.peaks.flops, (moved || 0) / G.peaks.bytes) / (ns * 1e-9);
}

// ---- colours: numbers by viridis, which is readable in grey too; kinds by Okabe and Ito

const RAMP = ["#440154", "#414487", "#2a788e", "#22a884", "#7ad151", "#fde725"];
const GOOD = "#b5e3d3", DOUBT = "#f5eda0", WRONG = "#d55e00", ODD = "#e69f00";
// What is not finite is larger than all.
const stat = name => n => { const x = n.outputs[0].gradient && n.outputs[0].gradient[name]; return typeof x === "string" ? Infinity : x; };
const NUMBERS = {
  "gradient norm": { of: stat("norm"), text: short },
  "forward time": { of: n => n.forward_ns, text: time },
  "backward time": { of: n => n.backward_ns, text: time },
  "part of peak": { of: n => ofPeak(n.flops, n.bytes, n.forward_ns), text: percent },
  "saved bytes": { of: n => n.saved_bytes, text: bytes },
  "bytes moved": { of: n => n.bytes, text: bytes },
  flops: { of: n => n.flops, text: short },
};
const unsound = s => s && (s.nan > 0 || s.inf > 0);
const KINDS = {
  verdict: {
    of: n => !n.verdict ? null : n.verdict.bad ? "wrong" : n.verdict.verdict === "ok" ? "ok" : "not compared",
    colours: { ok: GOOD, "not compared": DOUBT, wrong: WRONG },
  },
  "not finite": {
    of: n => n.outputs.some(y => unsound(y.value)) ? "value" : n.outputs.some(y => unsound(y.gradient)) ? "gradient" : null,
    colours: { gradient: ODD, value: WRONG },
  },
};
let range = null;  // logarithms of the least and largest of the chosen measure

// What can be chosen for this graph: that of which anything is known.
function measures() {
  return ["none", ...Object.keys(KINDS).filter(m => nodes.some(KINDS[m].of)), ...Object.keys(NUMBERS).filter(m => nodes.some(n => NUMBERS[m].of(n) > 0))];
}
function measure(name) {
  range = null;
  if (!NUMBERS[name]) return;
  for (const n of nodes) {
    const x = NUMBERS[name].of(n);
    if (x > 0 && isFinite(x)) range = range ? [Math.min(range[0], Math.log(x)), Math.max(range[1], Math.log(x))] : [Math.log(x), Math.log(x)];
  }
}
// {fill, dark}: dark paper wants light letters.
function shade(name, n) {
  if (KINDS[name]) {
    const kind = KINDS[name].of(n);
    return kind && { fill: KINDS[name].colours[kind], dark: false };
  }
  const x = range && NUMBERS[name].of(n);
  if (!(x > 0)) return null;
  const share = range[1] > range[0] ? Math.min(1, (Math.log(x) - range[0]) / (range[1] - range[0])) : 1;
  const c = Math.round(share * (RAMP.length - 1));
  return { fill: RAMP[c], dark: c < 3 };
}
// A folded group shows the worst of its nodes, or the most.
function shadeOfAll(name, own) {
  if (KINDS[name]) {
    const kinds = own.map(KINDS[name].of), worst = Object.keys(KINDS[name].colours).reverse().find(k => kinds.includes(k));
    return worst && { fill: KINDS[name].colours[worst], dark: false };
  }
  if (!range) return null;
  const of = n => NUMBERS[name].of(n) || 0;
  return shade(name, own.reduce((a, b) => of(b) > of(a) ? b : a));
}
function legend(name) {
  if (KINDS[name]) return Object.entries(KINDS[name].colours).map(([kind, c]) => `<i style="background:${c}"></i>${kind} (${nodes.filter(n => KINDS[name].of(n) === kind).length})`).join(" ");
  if (!range) return "";
  const text = NUMBERS[name].text;
  return `${text(Math.exp(range[0]))} <i class="ramp" style="background:linear-gradient(90deg,${RAMP.join()})"></i> ${text(Math.exp(range[1]))}`;
}
