// The page of a graph: what there is to say of one node, and what it hangs together with.

let selected = null, edges = null;

function related(start) {  // all that leads to the node, and all it leads to
  if (!edges) {
    edges = { users: {}, operands: {} };
    nodes.forEach((n, id) => n.inputs.forEach(s => {
      if (!s) return;
      (edges.users[keyOf(s)] ||= []).push("n" + id);
      if (s.node !== undefined || s.leaf !== undefined) (edges.operands["n" + id] ||= []).push(keyOf(s));
    }));
  }
  const out = new Set([start]);
  const go = next => {
    const waiting = [start], seen = new Set(waiting);
    while (waiting.length) for (const k of next[waiting.pop()] || []) if (!seen.has(k)) { seen.add(k); out.add(k); waiting.push(k); }
  };
  go(edges.users);
  go(edges.operands);
  return out;
}
const words = new Map();  // by key, what a search looks in
function matches(k, text) {
  if (!words.has(k)) {
    const kind = { n: "node", l: "leaf", c: "constant" }[k[0]], id = +k.slice(1);
    const path = kind === "node" ? nodes[id].path.join(" ") : "";
    words.set(k, (label(kind, id) + " " + type(value(kind, id)) + " " + path).toLowerCase());
  }
  return words.get(k).includes(text);
}

function bars(s, css) {
  const most = Math.max(1, ...s.histogram);
  return `<svg class="bars ${css}" viewBox="0 0 240 46" width="240" height="46" role="img" aria-label="histogram">` +
    s.histogram.map((n, i) => n ? `<rect x="${i * 10}" y="${46 - 44 * n / most - 1}" width="9" height="${44 * n / most + 1}"/>` : "").join("") + "</svg>" +
    `<div>${short(s.min)} … ${short(s.max)}</div>`;
}
const row = (name, text) => `<dt>${escape(name)}</dt><dd>${text}</dd>`;
function stats(title, s, css, other) {
  if (!s) return "";
  const beside = name => other ? ` <span class="other">${short(other[name])}</span>` : "";
  return `<h3>${title}</h3>${bars(s, css)}<dl>` + row("mean", short(s.mean) + beside("mean")) + row("spread", short(s.std) + beside("std")) +
    row("norm", short(s.norm) + beside("norm")) + row("zeros", s.zeros + beside("zeros")) +
    (unsound(s) ? row("not finite", `<b>${s.nan} NaN, ${s.inf} inf</b>`) : "") +
    row("first", s.first.map(short).join(", ")) + "</dl>";
}
function link(s) {
  if (!s) return "none";
  const kind = Object.keys(s)[0], id = s[kind];
  return kind === "node" || kind === "leaf" ? `<a href="#${hashOf(key(kind, id))}">${escape(label(kind, id))}</a>` : escape(source(s));
}
const hashOf = k => k[0] + "=" + k.slice(1);

function verdictOf(n) {
  const v = n.verdict;
  if (!v) return "";
  return `<h3>audit</h3><div class="verdict ${v.bad ? "wrong" : v.verdict === "ok" ? "ok" : "doubt"}"><b>${v.bad ? "✗" : v.verdict === "ok" ? "✓" : "?"} ${escape(v.verdict)}</b>: error ${short(v.error)}, allowed ${short(v.tolerance)}` +
    (v.text ? `<br>${escape(v.text)}` : "") + "</div>";
}
const nameOf = (n, k) => { const names = G.ops[n.op].operands; return names.length ? names[Math.min(k, names.length - 1)] : String(k); };
function savedOf(n) {
  if (!n.saved.length) return row("saves", "nothing");
  return n.saved.map(s => row("saves", escape(s.what) + ", " + bytes(s.bytes) + (s.packed ? " (packed)" : s.counted ? "" : " (shared)") +
    (!s.read ? "; <b>no vjp reads it</b>" : s.read_by.length ? ", for the vjp of " + s.read_by.map(k => escape(nameOf(n, k))).join(", ") : ""))).join("");
}
function costOf(name, flops, moved, ns) {
  if (ns === undefined) return "";
  const part = ofPeak(flops, moved, ns);
  return row(name, time(ns) + " in kernels" + (flops === undefined ? "" : ", " + short(flops) + " flop") + (moved === undefined ? "" : ", " + bytes(moved)) +
    (part === undefined ? "" : `, <b>${percent(part)}</b> of peak`));
}
function backwardOf(n) {
  if (n.step === undefined) return "<h3>backward</h3><div>backward never comes here</div>";
  const s = steps[n.step], list = [];
  for (let i = s.calls[0]; i < s.calls[1]; ++i) list.push(`%b${i} = ${call(G.backward.calls[i])}` + (i < s.calls[0] + s.sums ? "  # gradients add up" : ""));
  for (const d of s.to) list.push(`g:${source(d.of)} ${d.count > 1 ? "+=" : "="} ${source(d.value)}` + (d.count > 1 ? `  # ${d.nth} of ${d.count}` : ""));
  return `<h3 id="backward">backward, step ${n.step + 1} of ${steps.length}</h3><pre>${escape(list.join("\n"))}</pre>`;
}
// The program where it was recorded: the line that is marked, or the part of the config.
function sourceOf(n) {
  const place = n.path.filter(p => G.sources && G.sources[p]).pop();
  if (!place) return "";
  return `<pre class="source">${escape(G.sources[place]).replace(/^&gt;.*$/m, "<b>$&</b>")}</pre>`;
}
function describe(n) {
  const op = G.ops[n.op], derivatives = n.derivatives || op.derivatives;
  return `<div>${escape(op.doc)}</div>` + (n.path.length ? `<div>in ${escape(n.path.join(" › "))}</div>` : "") + sourceOf(n) + verdictOf(n) +
    (op.formula ? `<h3>formula</h3><code>${escape(op.formula)}</code>` : "") +
    (derivatives.length ? `<h3>derivative</h3><code>${derivatives.map(escape).join("<br>")}</code>` : "") + "<dl>" +
    n.inputs.map((s, k) => row(nameOf(n, k), link(s))).join("") + Object.entries(n.attrs).map(([k, x]) => row(k, escape(x))).join("") +
    costOf("forward", n.flops, n.bytes, n.forward_ns) + costOf("backward", n.backward_flops, n.backward_bytes, n.backward_ns) + savedOf(n) + "</dl>" + backwardOf(n);
}

// `back`: it was its vjp that was asked for.
function select(kind, id, jump, back) {
  selected = key(kind, id);
  if (jump) centre(selected);
  const v = value(kind, id), n = kind === "node" ? nodes[id] : null, other = counterpart(kind, id);
  let html = `<h2>${escape(label(kind, id))}</h2><code>${escape(type(v))}</code>` + (v.strides ? ` strides (${v.strides.join(", ")})` : "");
  if (n) html += describe(n);
  else if (kind === "leaf") html += v.uses ? `<div>a leaf, used ${many(v.uses, "time")}</div>` : v.gradient_is ? "<div>a leaf that backward begins with: its gradient is the cotangent</div>" : "<div>not in the graph: it gets no gradient</div>";
  else html += "<div>no gradient was asked for</div>";
  if (n && kind === "node" && n.outputs.length > 1) html += `<div>${n.outputs.length} outputs; these are of the first</div>`;
  $("panel").innerHTML = html + stats("value", v.value, "", other && other.value) + stats("gradient", v.gradient, "g", other && other.gradient);
  $("panel").scrollTop = back && $("backward") ? $("backward").offsetTop - 20 : 0;
  paint();
  if (location.hash !== "#" + hashOf(selected)) history.replaceState(null, "", "#" + hashOf(selected));
}
