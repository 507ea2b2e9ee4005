"""import gradus beside torch and numpy, in one run: what a call costs, what crossing costs, what an
import costs. Lines of JSON; `goal` is the most that `ratio` should be. ./dev bench python runs this.
"""
import json
import subprocess
import sys
import time

import gradus
import numpy as np

try:
    import torch
    torch.set_num_threads(1)
except ImportError:
    torch = None


def best(f, n=20_000, rounds=15):
    """ns per call: the best round."""
    f()
    least = float("inf")
    for _ in range(rounds):
        began = time.perf_counter()
        for _ in range(n):
            f()
        least = min(least, time.perf_counter() - began)
    return least / n * 1e9


def row(name, ours, peers, goal=None):
    told = {"bench": name, "gradus_ns": round(ours, 1)}
    for peer, ns in peers.items():
        told[peer + "_ns"] = round(ns, 1)
        told["ratio_to_" + peer] = round(ours / ns, 3)
    if goal is not None:
        told["goal"] = goal
        told["met"] = ours / next(iter(peers.values())) <= goal
    print(json.dumps(told), flush=True)


def calls():
    x, w = gradus.ones(16), gradus.ones(16, requires_grad=True)
    a = np.ones(16, np.float32)
    if torch is None:
        return row("x + x, 16 elements", best(lambda: x + x), {"numpy": best(lambda: a + a)})
    t, v = torch.ones(16), torch.ones(16, requires_grad=True)
    row("x + x, 16 elements", best(lambda: x + x), {"torch": best(lambda: t + t), "numpy": best(lambda: a + a)}, 0.25)
    row("x + x, recorded", best(lambda: w + w), {"torch": best(lambda: v + v)}, 0.25)
    row("x + 1.0", best(lambda: x + 1.0), {"torch": best(lambda: t + 1.0)}, 0.25)
    row("x.exp()", best(x.exp), {"torch": best(t.exp)}, 0.35)
    row("x.tanh()", best(x.tanh), {"torch": best(t.tanh)}, 0.35)
    row("x.sum(dim=0, keepdim=True)", best(lambda: x.sum(dim=0, keepdim=True)),
        {"torch": best(lambda: t.sum(dim=0, keepdim=True))}, 0.35)
    row("gradus.softmax(x, dim=0)", best(lambda: gradus.softmax(x, dim=0)),
        {"torch": best(lambda: torch.softmax(t, dim=0))}, 0.35)
    row("x[3]", best(lambda: x[3]), {"torch": best(lambda: t[3])}, 0.35)
    row("x.reshape(4, 4)", best(lambda: x.reshape(4, 4)), {"torch": best(lambda: t.reshape(4, 4))}, 0.35)
    m, n = gradus.ones(8, 8), torch.ones(8, 8)
    row("8x8 @ 8x8", best(lambda: m @ m), {"torch": best(lambda: n @ n)}, 0.35)


def crossing():
    x, a = gradus.ones(16), np.ones(16, np.float32)
    row("from_dlpack(numpy)", best(lambda: gradus.from_dlpack(a)), {"numpy": best(lambda: np.from_dlpack(a))})
    row("np.asarray(gradus)", best(lambda: np.asarray(x)), {"numpy": best(lambda: np.from_dlpack(a))})
    if torch is None:
        return
    t = torch.ones(16)
    into = best(lambda: gradus.from_dlpack(t))
    import gradus.torch
    out = best(lambda: gradus.torch.to_torch(x))
    told = {"bench": "torch tensor in and out", "in_ns": round(into, 1), "out_ns": round(out, 1),
            "goal": "200 + 700 ns", "met": into <= 200 and out <= 700}
    print(json.dumps(told), flush=True)


def imports():
    def seconds(code):
        def once():
            script = f"import time; b = time.process_time(); {code}; print(time.process_time() - b)"
            return float(subprocess.run([sys.executable, "-c", script], capture_output=True, text=True).stdout)
        return min(once() for _ in range(5)) * 1e9
    row("import", seconds("import gradus"), {"numpy": seconds("import numpy")}, 0.15)


if __name__ == "__main__":
    calls()
    crossing()
    imports()
    if torch is not None:
        import bench_torch
        bench_torch.main()
