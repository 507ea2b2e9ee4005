"""A peer in a process of its own: times Python statements for gradus_bench, turn by turn with it.

One JSON object per line. The first says who answers; then each request {"setup", "call", "threads", "seconds",
"calls"} is answered by {"samples": [seconds of one call, ...]} or {"error": text}. A setup is kept until another
one comes. "peak": true asks for the peak bytes of tensors instead, counted from before the setup.
"""
import contextlib
import gc
import itertools
import json
import os
import re
import sys
import tempfile
import time

import numpy

try:
    import torch
except ImportError:
    torch = None

BUNCH = 1e-3  # short calls are timed together
LONG = 0.02  # calls from here on need no warming


class Statement:
    def __init__(self, setup, call):
        self.names = {"torch": torch, "np": numpy}
        exec(setup, self.names)
        exec("def loop(n):\n    for _ in range(n):\n        " + call.replace("\n", "\n        "), self.names)
        self.bunch, self.one = 0, 0.0

    def sample(self, seconds, calls):
        loop, clock = self.names["loop"], time.perf_counter
        if self.one < LONG:
            loop(1)
        if self.bunch == 0:
            start = clock()
            loop(1)
            self.one = clock() - start
            self.bunch = max(1, min(1000000, int(BUNCH / max(self.one, 1e-9))))
        samples, now = [], clock()
        end = now + seconds
        while not samples or now < end:
            loop(self.bunch)
            after = clock()
            samples.append((after - now) / self.bunch / calls)
            now = after
        return samples


def peak_bytes(setup, call):
    """The profiler counts what is allocated while it runs, so all is made under it, and what is gone goes before."""
    gc.collect()
    def work():
        Statement(setup, call).names["loop"](3)

    if not torch.autograd.kineto_available():
        from torch.autograd import profiler_legacy
        profiler_legacy.profile(profile_memory=True)._start_trace()
        work()
        events = [e for thread in torch.autograd._disable_profiler_legacy() for e in thread]
        live = itertools.accumulate(e.cpu_memory_usage() for e in events if e.kind() == "memory_alloc")
        return max(live)
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "trace.json")
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
            work()
        profile.export_chrome_trace(file)
        with open(file, encoding="utf-8") as f:
            events = json.load(f)["traceEvents"]
    return max(int(e["args"]["Total Allocated"]) for e in events if e.get("name") == "[memory]")


@contextlib.contextmanager
def silent():
    """The profiler's C++ talks on standard error."""
    kept, null = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(null)


def main():
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print must not stand among the answers

    def say(answer):
        out.write(json.dumps(answer) + "\n")
        out.flush()

    say({"torch": re.match(r"[0-9.]*[0-9]", torch.__version__).group() if torch else "", "numpy": numpy.__version__,
         "kernels": re.search(r"capability usage: (\w+)", torch.__config__.show()).group(1) if torch else ""})
    key, statement = None, None
    for line in sys.stdin:
        request = json.loads(line)
        try:
            if torch:
                torch.set_num_threads(request["threads"])
            if request.get("peak"):
                key = statement = None
                with silent():
                    peak = peak_bytes(request["setup"], request["call"])
                say({"bytes": peak})
                continue
            asked = (request["setup"], request["call"], request["threads"])
            if key != asked:
                key = statement = None
                gc.collect()
                statement = Statement(*asked[:2])
                key = asked
            gc.disable()
            say({"samples": statement.sample(request["seconds"], request["calls"])})
            gc.enable()
        except Exception as error:  # the bench goes on without this peer
            key = statement = None
            say({"error": f"{type(error).__name__}: {error}"[:300]})


main()
