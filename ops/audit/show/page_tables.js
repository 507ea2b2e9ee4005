// The page of a graph: tables that sort themselves, and the comparison with another run.

// Tables lie in <noscript>, as text: thousands of rows would hold up the drawing.
function unpackTables() {
  for (const e of document.querySelectorAll("details noscript")) e.outerHTML = e.textContent;
  document.querySelectorAll("table").forEach(sortable);
}

function sortable(table) {
  const body = table.tBodies[0], number = c => c.dataset.v === undefined ? NaN : +c.dataset.v;
  [...table.tHead.rows[0].cells].forEach((th, column) => {
    th.tabIndex = 0;
    th.onclick = () => {  // numbers begin with the largest, words with a
      const rows = [...body.rows], cell = r => r.cells[column] || { dataset: {}, textContent: "" };
      const was = th.getAttribute("aria-sort"), numbers = rows.some(r => !isNaN(number(cell(r))));
      const down = was ? was === "ascending" : numbers;
      for (const other of th.parentNode.cells) other.removeAttribute("aria-sort");
      th.setAttribute("aria-sort", down ? "descending" : "ascending");
      const known = r => isNaN(number(cell(r))) ? -Infinity : number(cell(r));
      const order = numbers ? (a, b) => known(a) === known(b) ? 0 : known(a) - known(b) : (a, b) => cell(a).textContent.localeCompare(cell(b).textContent);
      body.append(...rows.sort((a, b) => down ? order(b, a) : order(a, b)));
    };
    th.onkeydown = e => { if (e.key === "Enter") th.onclick(); };
  });
}

// ---- another run: its nodes go by module and op, in order

let other = null;  // {graph, node: id -> id}
function match(graph) {
  const places = {}, seen = {};
  const name = (n, counts) => { const k = n.path.join("/") + "|" + n.op; counts[k] = (counts[k] || 0) + 1; return k + "|" + counts[k]; };
  graph.nodes.forEach((n, id) => { places[name(n, seen)] = id; });
  const own = {}, node = nodes.map(n => places[name(n, own)]);
  const matched = new Set(node);
  return { graph, node, added: nodes.map((_, i) => i).filter(i => node[i] === undefined), gone: graph.nodes.map((_, i) => i).filter(i => !matched.has(i)) };
}
function counterpart(kind, id) {
  if (!other) return null;
  if (kind === "node") return other.node[id] === undefined ? null : other.graph.nodes[other.node[id]].outputs[0];
  return kind === "leaf" ? other.graph.leaves.find(l => l.name === G.leaves[id].name) : null;
}
// The largest difference of what is known of two values, relative to their size.
function apart(a, b) {
  if (!a || !b) return undefined;
  const pairs = [...["min", "max", "mean", "std", "norm"].map(k => [a[k], b[k]]), ...a.first.map((x, i) => [x, b.first[i]])];
  const size = Math.max(Math.abs(+a.max), Math.abs(+a.min), Math.abs(+b.max), Math.abs(+b.min), 1e-300);
  let worst = 0;
  for (const [x, y] of pairs) {
    if (x === y) continue;
    if (typeof x !== "number" || typeof y !== "number") return Infinity;
    worst = Math.max(worst, Math.abs(x - y) / Math.max(size, Math.abs(x), Math.abs(y)));
  }
  return a.nan !== b.nan || a.inf !== b.inf ? Infinity : worst;
}
const apartIn = what => n => {
  const o = counterpart("node", n.id);
  return o ? apart(n.outputs[0][what], o[what]) : undefined;
};
function compare(text, name) {
  const data = /<script type="application\/json" id="data">([^]*?)<\/script>/.exec(text);
  const graph = JSON.parse(data ? data[1] : text);
  if (graph.format !== G.format) throw new Error("is no " + G.format);
  other = match(graph);
  const value = nodes.map(apartIn("value")), gradient = nodes.map(apartIn("gradient"));
  const cached = list => n => list[n.id];
  NUMBERS["difference of value"] = { of: cached(value), text: short };
  NUMBERS["difference of gradient"] = { of: cached(gradient), text: short };
  choices();
  const td = x => x === undefined ? "<td>" : `<td class=n data-v="${x}">${x === Infinity ? "∞" : short(x)}`;
  const ns = n => n.forward_ns === undefined ? undefined : n.forward_ns + (n.backward_ns || 0);
  const rows = nodes.map((n, i) => {
    const o = other.node[i] === undefined ? null : graph.nodes[other.node[i]];
    const types = o && type(o.outputs[0]) !== type(n.outputs[0]) ? type(o.outputs[0]) : "";
    return `<tr><td data-v="${i}"><a href="#n=${i}">%${i}</a><td>${escape(n.op)}<td>${escape(n.path[n.path.length - 1] || "")}<td>${o ? types : "not there"}` +
      td(value[i]) + td(gradient[i]) + td(o && ns(n) && ns(o) ? ns(n) / ns(o) : undefined) + "</tr>";
  });
  const firstApart = value.findIndex(x => x > 0);
  $("comparison").innerHTML = `<h2>against ${escape(name)}</h2><p>${other.node.filter(x => x !== undefined).length} of ${nodes.length} nodes are in both, ` +
    `${other.added.length} only here, ${other.gone.length} only there` + (other.gone.length ? " (" + other.gone.slice(0, 8).map(i => "%" + i + " " + escape(graph.nodes[i].op)).join(", ") + (other.gone.length > 8 ? ", …" : "") + ")" : "") + ". " +
    (firstApart < 0 ? "No value that both know differs." : `The first value that differs: <a href="#n=${firstApart}">%${firstApart} ${escape(nodes[firstApart].op)}</a>, by ${short(value[firstApart])} of its size.`) +
    "</p><table><thead><tr><th>node<th>op<th>module<th>there<th>value apart<th>gradient apart<th>time here / there</tr></thead><tbody>" + rows.join("") + "</tbody></table>";
  sortable($("comparison").querySelector("table"));
  $("comparison").hidden = false;
  draw();
}
function load(file) {
  const reader = new FileReader();
  reader.onload = () => {
    try { compare(reader.result, file.name); } catch (e) {
      other = null;
      $("comparison").hidden = false;
      $("comparison").innerHTML = `<p role="alert">${escape(file.name)} can't be compared: ${escape(e.message)}. Give the page of another run, or what gradus graph --json wrote.</p>`;
    }
    $("comparison").scrollIntoView();
  };
  reader.readAsText(file);
}
