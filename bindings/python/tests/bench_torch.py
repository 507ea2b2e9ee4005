"""What the PyTorch bridge costs: JSON lines, times of one thread, ratios of the same run.

    python bench_torch.py [--inductor]

The step is forward and backward of the net 8-16-16-4, batch 32, cross entropy. All ways are
measured in turns; of many rounds the best counts.
"""
import json
import sys
import time

import torch

import gradus.torch

nn = torch.nn


def net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 16), nn.Tanh(),
                         nn.Linear(16, 4))


def step_of(**options):
    torch._dynamo.reset()
    model = net()
    x, target = torch.randn(32, 8), torch.randint(0, 4, (32,))

    def loss():
        return nn.functional.cross_entropy(model(x), target)

    start = time.perf_counter()
    made = torch.compile(loss, **options) if options else loss

    parameters = list(model.parameters())

    def step():
        made().backward()
        for p in parameters:
            p.grad = None

    for _ in range(3):
        step()
    return step, time.perf_counter() - start


def best(f, count, rounds=1, known=float("inf")):
    for _ in range(rounds):
        start = time.thread_time_ns()
        for _ in range(count):
            f()
        known = min(known, (time.thread_time_ns() - start) / count)
    return known


def main():
    torch.set_num_threads(1)
    ways = {"eager": {}, "B": dict(backend="gradus"),
            "A": dict(backend="gradus", options={"way": "A"})}
    if "--inductor" in sys.argv:
        ways["inductor"] = dict(backend="inductor")
    steps, times = {}, {}
    for name, options in ways.items():  # a backward on another thread would not be in its time
        with torch.autograd.set_multithreading_enabled(False):
            steps[name], first = step_of(**options)
        times[name] = float("inf")
        print(json.dumps({"first_calls_s": name, "value": round(first, 2)}))
    with torch.autograd.set_multithreading_enabled(False):
        for _ in range(25):
            for name, step in steps.items():
                times[name] = best(step, 100, known=times[name])
    for name, value in times.items():
        line = {"step_us": name, "value": round(value / 1000, 1),
                "of_eager": round(value / times["eager"], 3)}
        if "inductor" in times:
            line["of_inductor"] = round(value / times["inductor"], 3)
        print(json.dumps(line))

    t = torch.randn(16)
    g = gradus.from_dlpack(t)
    for name, f in (("torch_tensor_in_ns", lambda: gradus.from_dlpack(t)),
                    ("torch_tensor_out_ns", lambda: torch.from_dlpack(g)),
                    ("to_torch_ns", lambda: gradus.torch.to_torch(g))):
        print(json.dumps({name: round(best(f, 2000, 20))}))


if __name__ == "__main__":
    main()
