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


def best(*functions, n=20_000, rounds=15):
    """ns of this thread's processor time per call of each: the best round. Rounds take turns, since a machine
    may change its speed between them."""
    least = [float("inf")] * len(functions)
    for f in functions:
        f()
    for _ in range(rounds):
        for k, f in enumerate(functions):
            began = time.thread_time_ns()
            for _ in range(n):
                f()
            least[k] = min(least[k], time.thread_time_ns() - began)
    return [ns / n for ns in least]


def row(name, ours, peers, goal=None, clock=best):
    mine, *theirs = clock(ours, *peers.values())
    told = {"bench": name, "gradus_ns": round(mine, 1)}
    for peer, ns in zip(peers, theirs):
        told[peer + "_ns"] = round(ns, 1)
        told["ratio_to_" + peer] = round(mine / ns, 3)
    if goal is not None:
        told["goal"] = goal
        told["met"] = mine / theirs[0] <= goal
    print(json.dumps(told), flush=True)


def calls():
    x, w = gradus.ones(16), gradus.ones(16, requires_grad=True)
    a = np.ones(16, np.float32)
    if torch is None:
        return row("x + x, 16 elements", lambda: x + x, {"numpy": lambda: a + a})
    t, v = torch.ones(16), torch.ones(16, requires_grad=True)
    row("x + x, 16 elements", lambda: x + x, {"torch": lambda: t + t, "numpy": lambda: a + a}, 0.25)
    row("x + x, recorded", lambda: w + w, {"torch": lambda: v + v}, 0.25)
    row("x + 1.0", lambda: x + 1.0, {"torch": lambda: t + 1.0}, 0.25)
    row("x.exp()", x.exp, {"torch": t.exp}, 0.35)
    row("x.tanh()", x.tanh, {"torch": t.tanh}, 0.35)
    row("x.sum(dim=0, keepdim=True)", lambda: x.sum(dim=0, keepdim=True),
        {"torch": lambda: t.sum(dim=0, keepdim=True)}, 0.35)
    row("gradus.softmax(x, dim=0)", lambda: gradus.softmax(x, dim=0),
        {"torch": lambda: torch.softmax(t, dim=0)}, 0.35)
    row("x[3]", lambda: x[3], {"torch": lambda: t[3]}, 0.35)
    row("x.reshape(4, 4)", lambda: x.reshape(4, 4), {"torch": lambda: t.reshape(4, 4)}, 0.35)
    m, n = gradus.ones(8, 8), torch.ones(8, 8)
    row("8x8 @ 8x8", lambda: m @ m, {"torch": lambda: n @ n}, 0.35)


def crossing():
    x, a = gradus.ones(16), np.ones(16, np.float32)
    row("from_dlpack(numpy)", lambda: gradus.from_dlpack(a), {"numpy": lambda: np.from_dlpack(a)})
    row("np.asarray(gradus)", lambda: np.asarray(x), {"numpy": lambda: np.from_dlpack(a)})
    if torch is None:
        return
    t = torch.ones(16)
    from gradus.torch import to_torch
    into, out = best(lambda: gradus.from_dlpack(t), lambda: to_torch(x))
    told = {"bench": "torch tensor in and out", "in_ns": round(into, 1), "out_ns": round(out, 1),
            "goal": "200 + 700 ns", "met": into <= 200 and out <= 700}
    print(json.dumps(told), flush=True)


def imports():
    def seconds(code):
        def once():
            script = f"import time; b = time.process_time(); {code}; print(time.process_time() - b)"
            return float(subprocess.run([sys.executable, "-c", script], capture_output=True, text=True).stdout)
        return min(once() for _ in range(5)) * 1e9
    row("import", "import gradus", {"numpy": "import numpy"}, 0.15, lambda *all: map(seconds, all))


if __name__ == "__main__":
    calls()
    crossing()
    imports()
    if torch is not None:
        import bench_torch
        bench_torch.main()
