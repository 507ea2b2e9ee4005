"""The rows of gradus_bench_gpu by PyTorch: python3 peer.py OURS.json PEER.json [--device cuda:0].

Reads what was done from the lines that gradus_bench_gpu wrote, does the same work, and writes lines of the same
names. Calls follow each other without waiting, and the clock stops when the device has done them all. Training steps
named "captured" are CUDA graphs here. Exit code 4, with one line, where PyTorch or the device is missing.
"""
import argparse
import json
import statistics
import sys
import time

MISSING = 4
FACTORS = ("cholesky", "lu_factor", "solve", "qr", "eigh", "svd")


class NotOffered(Exception):
    pass


class Peer:
    def __init__(self, torch, device, brief):
        self.torch, self.device, self.brief = torch, torch.device(device), brief
        self.dtypes = {"f32": torch.float32, "tf32": torch.float32, "f64": torch.float64, "bf16": torch.bfloat16,
                       "f16": torch.float16}

    # ---- time

    def synchronize(self):
        if self.device.type == "cuda":
            self.torch.cuda.synchronize(self.device)

    def batch(self, call, calls):
        self.synchronize()
        start = time.perf_counter()
        for _ in range(calls):
            call()
        self.synchronize()
        return (time.perf_counter() - start) / calls

    def measure(self, call):
        """Median seconds of one call over batches, as gradus_bench_gpu does it."""
        part, most = (5e-3, 0.3) if self.brief else (3e-2, 2)
        one = self.batch(call, 1)
        if one < 0.3:
            self.batch(call, 3)
            one = self.batch(call, 1)
        calls = lambda: max(1, min(100000, int(part / one)))
        one = self.batch(call, calls())
        samples, end = [], time.perf_counter() + most
        while len(samples) < 9 and (len(samples) < 3 or time.perf_counter() < end):
            samples.append(self.batch(call, calls()))
        return statistics.median(samples)

    # ---- works: each gives the call to repeat

    def rand(self, *sizes, dtype="f32"):
        """Uniform in [-1, 1), drawn in f32 where the dtype is narrower."""
        drawn = self.torch.float64 if dtype == "f64" else self.torch.float32
        return (self.torch.rand(*sizes, dtype=drawn, device=self.device) * 2 - 1).to(self.dtypes[dtype])

    def work(self, row):
        torch, kind, sizes = self.torch, row["work"], row["sizes"]
        if kind == "gemm":
            m, n, k = sizes
            torch.backends.cuda.matmul.allow_tf32 = row["dtype"] == "tf32"
            a, b = self.rand(m, k, dtype=row["dtype"]), self.rand(k, n, dtype=row["dtype"])
            return lambda: torch.matmul(a, b)
        torch.backends.cuda.matmul.allow_tf32 = False
        if kind == "einsum":
            operands = [self.rand(*(sizes[label] for label in labels), dtype=row["dtype"])
                        for labels in row["equation"].split("->")[0].split(",")]
            return lambda: torch.einsum(row["equation"], *operands)
        if kind == "products":  # the sectors of block-sparse tensors, one by one
            pairs = [(self.rand(m, k, dtype=row["dtype"]), self.rand(k, n, dtype=row["dtype"]))
                     for m, n, k in sizes]
            return lambda: [torch.matmul(a, b) for a, b in pairs]
        if kind in FACTORS:
            x = self.rand(*sizes, dtype=row["dtype"])
            a = x @ x.mT + torch.diag(torch.arange(1, sizes[-1] + 1, dtype=x.dtype, device=self.device))
            function = getattr(torch.linalg, kind)
            more = {"solve": (a,)}.get(kind, ()), {"svd": {"full_matrices": False}}.get(kind, {})
            return lambda: function(a, *more[0], **more[1])
        if kind.startswith("mlp"):
            return self.steps(sizes, row["batch"], kind.endswith("captured"))
        if kind == "adam":
            p = self.rand(*sizes).requires_grad_()
            p.grad = self.rand(*sizes)
            fused = {"fused": True} if self.device.type == "cuda" else {}
            return torch.optim.Adam([p], lr=1e-6, **fused).step
        x = self.rand(*sizes)
        if kind == "layer_norm":
            w, b = self.rand(sizes[1]), self.rand(sizes[1])
            return lambda: torch.nn.functional.layer_norm(x, [sizes[1]], w, b)
        if kind == "permute":
            return lambda: x.permute(2, 0, 1).contiguous()
        n = sizes[0]
        if kind in ("add", "mul", "copy", "add row", "add column"):
            y = self.rand(1 if kind == "add row" else n, 1 if kind == "add column" else n)
        if kind == "exp of half of each row":
            x = self.rand(n, 2 * n)[:, :n]
        return {
            "copy": lambda: y.copy_(x),
            "add": lambda: x + y,
            "mul": lambda: x * y,
            "add row": lambda: x + y,
            "add column": lambda: x + y,
            "exp": lambda: torch.exp(x),
            "gelu": lambda: torch.nn.functional.gelu(x),
            "exp of half of each row": lambda: torch.exp(x),
            "sum": lambda: torch.sum(x),
            "sum of rows": lambda: torch.sum(x, 1),
            "sum of columns": lambda: torch.sum(x, 0),
            "transpose": lambda: x.t().contiguous(),
            "softmax": lambda: torch.softmax(x, 1),
        }[kind]

    def steps(self, sizes, batch, captured):
        torch, nn = self.torch, self.torch.nn
        if captured and self.device.type != "cuda":
            raise NotOffered("no CUDA graphs on " + self.device.type)
        layers = []
        for i in range(len(sizes) - 1):
            layers += ([nn.ReLU()] if i else []) + [nn.Linear(sizes[i], sizes[i + 1])]
        model = nn.Sequential(*layers).to(self.device)
        x = torch.rand(batch, sizes[0], device=self.device)
        y = (torch.arange(batch, device=self.device) * 7) % sizes[-1]
        options = {"capturable": True, "fused": True} if captured else {}
        adam = torch.optim.Adam(model.parameters(), lr=1e-6, **options)

        def step():
            adam.zero_grad(set_to_none=True)
            nn.functional.cross_entropy(model(x), y).backward()
            adam.step()

        if not captured:
            return step
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                step()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        adam.zero_grad(set_to_none=True)
        with torch.cuda.graph(graph):
            nn.functional.cross_entropy(model(x), y).backward()
            adam.step()
        return graph.replay


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("ours")
    parser.add_argument("peer")
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--quick", action="store_true")
    given = parser.parse_args()
    try:
        import torch
    except ImportError as error:
        print(f"peer.py: no PyTorch for this python3: {error}", file=sys.stderr)
        return MISSING
    if given.device.startswith("cuda") and not torch.cuda.is_available():
        print(f"peer.py: PyTorch {torch.__version__} finds no CUDA device", file=sys.stderr)
        return MISSING
    with open(given.ours, encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    peer = Peer(torch, given.device, given.quick)
    hardware = torch.cuda.get_device_name(peer.device) if peer.device.type == "cuda" else "cpu"
    timed = failed = 0
    with open(given.peer, "w", encoding="utf-8") as out:
        say = lambda line: (out.write(json.dumps(line) + "\n"), out.flush())
        say({"event": "machine", "torch": torch.__version__, "cuda": torch.version.cuda, "hardware": hardware})
        for row in rows:
            if "work" not in row:
                continue
            line = {"name": row["name"]}
            try:
                line["seconds"] = peer.measure(peer.work(row))
                shown = f"{line['seconds'] * 1e6:10.2f} us"
                timed += 1
            except NotOffered as reason:
                line["not_offered"] = shown = str(reason)
            except Exception as error:  # the other rows go on
                line["failed"] = shown = f"{type(error).__name__}: {error}"[:200]
                failed += 1
            if peer.device.type == "cuda":
                torch.cuda.empty_cache()
            print(f"{row['name']:<52} {shown}", flush=True)
            say(line)
    print(f"{timed} rows by PyTorch {torch.__version__} on {hardware}" + (f", {failed} failed" if failed else ""))
    return 0 if timed else 1


if __name__ == "__main__":
    sys.exit(main())
