"""A peer in a process of its own: contraction orders by opt_einsum and cotengra, for gradus_bench.

One JSON object per line. The first names the versions, {"peers": {"cotengra": "0.8.3", ...}}; then each network
{"inputs": [[label, ...], ...], "output": [...], "sizes": [...], "seconds": S} is answered by
{"orders": [{"peer": name, "log2_mults": x, "seconds": s} or {"peer": name, "error": text}, ...]}.
"""
import json
import math
import sys
import time
import warnings

warnings.filterwarnings("ignore")
try:
    import opt_einsum
except ImportError:
    opt_einsum = None
try:
    import cotengra
except ImportError:
    cotengra = None


def log2_mults(inputs, output, sizes, path):
    """Of the products of all steps; a label is summed by the step after which nothing else has it."""
    count = [0] * len(sizes)
    for term in inputs + [output]:
        for label in set(term):
            count[label] += 1
    tensors, works = [frozenset(term) for term in inputs], []
    for pair in path:
        taken = [tensors.pop(k) for k in sorted(pair, reverse=True)]
        union = frozenset().union(*taken)
        works.append(sum(math.log2(sizes[label]) for label in union))
        for label in union:
            count[label] -= sum(label in t for t in taken)
        rest = frozenset(label for label in union if count[label] > 0)
        for label in rest:
            count[label] += 1
        tensors.append(rest)
    most = max(works)
    return most + math.log2(sum(2.0 ** (w - most) for w in works))


def searches(network):
    inputs, output = network["inputs"], network["output"]
    names = [tuple(str(label) for label in term) for term in inputs]
    result = tuple(str(label) for label in output)
    extents = {str(label): n for label, n in enumerate(network["sizes"])}
    if opt_einsum:
        sets = [frozenset(term) for term in names]
        yield "opt_einsum greedy", lambda: opt_einsum.paths.greedy(sets, frozenset(result), extents)
    if cotengra:
        yield "cotengra greedy", lambda: cotengra.array_contract_path(names, result, extents, optimize="greedy")
        if network["seconds"] > 0:
            hyper = cotengra.HyperOptimizer(max_time=network["seconds"], max_repeats=10**6, minimize="flops",
                                            optlib="random", parallel=True, progbar=False)
            yield "cotengra", lambda: hyper.search(names, result, extents).get_path()


def answer(network):
    orders = []
    for peer, search in searches(network):
        start = time.perf_counter()
        try:
            path = search()
            took = time.perf_counter() - start
            found = log2_mults(network["inputs"], network["output"], network["sizes"], path)
            orders.append({"peer": peer, "log2_mults": found, "seconds": took})
        except Exception as error:
            orders.append({"peer": peer, "error": repr(error)[:200]})
    return {"orders": orders}


if __name__ == "__main__":
    known = {"opt_einsum": opt_einsum, "cotengra": cotengra}
    print(json.dumps({"peers": {name: m.__version__ for name, m in known.items() if m}}), flush=True)
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), flush=True)
