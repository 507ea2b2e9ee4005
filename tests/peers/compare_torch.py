"""Compares every op that PyTorch also has with it: values, dtypes, gradients, second-order gradients
and jvps, on what `gradus check --record` wrote. An op is looked up in PyTorch by its name; ADAPTERS
holds those that differ in name or in the form of their arguments. A difference is a row of
ops/SEMANTICS.md, by its id, or a fault.

    python3 tests/peers/compare_torch.py [GRADUS] [--op NAME] [--seed N] [--cases K] [--file RECORDED] [-v]

Exit code: 0 no unexplained difference (or PyTorch is not here), 1 some, 2 the program did not run.
"""
import argparse
import collections
import json
import math
import os
import re
import subprocess
import sys
import tempfile
import warnings

import numpy as np

try:
    import torch
    import torch.autograd.forward_ad as forward_ad
    import torch.nn.functional as F
except ImportError as error:
    print(f"compare_torch: skipped, PyTorch can't be imported ({error})")
    sys.exit(0)

import compare_torch_edges as edges
import compare_torch_ops as ops
import compare_torch_rules as rules
import compare_torch_slopes as slopes

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

FLOOR = 1e-2
SLOPE_FLOOR = 1e-3  # cotangents and tangents are of size 1: where all cancels, rounding is left


# ---- the file

def read_safetensors(path):
    with open(path, "rb") as f:
        data = f.read()
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8:8 + size])
    meta = header.pop("__metadata__")
    numpy_type = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2", "C64": "<c8", "I64": "<i8",
                  "I32": "<i4", "U8": "u1", "BOOL": "?"}
    tensors = {}
    for name, info in header.items():
        begin, end = info["data_offsets"]
        x = np.frombuffer(data[8 + size + begin:8 + size + end], numpy_type[info["dtype"]]).copy()
        shape = info["shape"]
        if name.endswith(".c128"):
            x, shape = x.view("<c16"), shape[:-1]
        if info["dtype"] == "BF16":
            x = (x.astype("<u4") << 16).view("<f4")
        t = torch.from_numpy(x).reshape(shape)
        tensors[name] = t.to(torch.bfloat16) if info["dtype"] == "BF16" else t
    return json.loads(meta["ops"]), json.loads(meta["cases"]), tensors


def number(value):
    """An attribute or a number among the operands, as Python has it."""
    if isinstance(value, dict):
        return ops.DTYPES[value["dtype"]] if "dtype" in value else float(value["number"])
    return value


class Case:
    entry = None  # of PyTorch's operator database

    def __init__(self, record, tensors):
        self.op, self.kind = record["op"], record["kind"]
        self.attrs = {k: number(v) for k, v in record["attrs"].items()}
        self.record = record
        self.tensors = tensors
        self.inputs = [tensors[x] if isinstance(x, str) else number(x) for x in record["in"]]
        self.refused = record.get("refused")

    def list(self, key):
        return [None if x is None else self.tensors[x] for x in self.record[key]]

    def moves(self, k):
        """Are there derivatives by operand k?"""
        return floating(self.inputs[k])

    def dtypes(self):
        return [ops.NAMES[x.dtype] if torch.is_tensor(x) else type(x).__name__ for x in self.inputs]

    def __str__(self):
        shown = [f"{n}{list(x.shape) if torch.is_tensor(x) else ' ' + str(x)}"
                 for n, x in zip(self.dtypes(), self.inputs)]
        return f"{self.kind} ({', '.join(shown)}) {self.attrs}"


# ---- comparing

def widened(t):
    t = t.detach().resolve_conj().resolve_neg()
    if torch._is_zerotensor(t):  # has no memory
        t = torch.zeros(t.shape, dtype=t.dtype)
    t = t if t.dim() <= 64 else t.reshape(-1)  # the limit of numpy
    if t.is_complex():
        return t.to(torch.complex128).numpy()
    return t.to(torch.float64 if t.is_floating_point() else torch.int64).numpy()


def error_of(got, expected, least=0.0):
    """The worst relative error, and where; NaN and infinities must stand in the same places."""
    if list(got.shape) != list(expected.shape):
        return math.inf, f"shape {list(got.shape)}, PyTorch has {list(expected.shape)}"
    a, b = widened(got), widened(expected)
    if a.size == 0:
        return 0.0, ""
    if a.dtype.kind == "i" and b.dtype.kind == "i":
        wrong = a != b
        error = np.where(wrong, math.inf, 0.0)
    else:
        with np.errstate(all="ignore"):
            parts = lambda f: f(a.real, b.real) & f(a.imag, b.imag)
            same = parts(lambda x, y: (x == y) | (np.isnan(x) & np.isnan(y)))
            finite = np.abs(b)[np.isfinite(b)]
            scale = np.maximum(np.abs(b), max(least, FLOOR * finite.max() if finite.size else 0))
            error = np.abs(a - b) / scale
        error = np.where(same, 0.0, np.where(np.isnan(error), math.inf, error))
    at = np.unravel_index(np.argmax(error), error.shape)
    return float(error[at]), f"element {list(map(int, at))} is {a[at]}, PyTorch has {b[at]}"


class Difference:
    """What the rules of compare_torch_rules.EXPLAINED and compare_torch_edges.EXPLAINED look at."""

    def __init__(self, case, what, text, error=math.inf, got=None, expected=None):
        self.case, self.what, self.text, self.error = case, what, text, error
        self.op, self.attrs, self.kind = case.op, case.attrs, case.kind
        self.dtypes = case.dtypes()
        self.got, self.expected = got, expected


class Report:
    def __init__(self):
        self.worst = collections.defaultdict(float)
        self.differences = []
        self.cases = 0
        self.lacks = 0
        self.rounded = 0
        self.no_slopes = 0

    def check(self, case, what, got, expected, tolerance):
        if got is None and expected is None:
            return
        if got is None:
            got = torch.zeros_like(expected)
        if expected is None:
            expected = torch.zeros_like(got)
        if what == "value" and got.dtype != expected.dtype:
            self.differences.append(Difference(
                case, "dtype", f"dtype {ops.NAMES[got.dtype]}, PyTorch has {expected.dtype}",
                got=got, expected=expected))
        error, text = error_of(got, expected, 0.0 if what == "value" else SLOPE_FLOOR)
        if error > tolerance:
            self.differences.append(Difference(case, what, text, error, got, expected))
        else:
            self.worst[what] = max(self.worst[what], error)


def tuple_of(y):
    return list(y) if isinstance(y, (tuple, list)) else [y]


HALF = (torch.float16, torch.bfloat16)


def in_f32(function, inputs, attrs):
    """What 16-bit floats would give, where PyTorch's CPU build has no kernel for them."""
    to = rules.promoted(inputs)
    wide = [x.float() if torch.is_tensor(x) and x.dtype in HALF else x for x in inputs]
    return [y.to(to) if y.dtype == torch.float32 and to in HALF else y for y in tuple_of(function(wide, attrs))]


def computed(function, inputs, attrs, op):
    try:
        return tuple_of(function(inputs, attrs))
    except RuntimeError as error:
        half = any(torch.is_tensor(x) and x.dtype in HALF for x in inputs)
        # Its transposed convolution takes the weights of bf16 for those of a convolution.
        if not (re.search(r"not implemented for '(Half|BFloat16)'", str(error))
                or half and op.startswith("conv_transpose")):
            raise
        return in_f32(function, inputs, attrs)


def compare_value(report, case, function):
    try:
        expected = computed(function, case.inputs, case.attrs, case.op)
    except ops.Lacks:
        report.lacks += 1
        return False
    except Exception as error:  # whatever PyTorch refuses with
        if not case.refused:
            report.differences.append(
                Difference(case, "accepts", "PyTorch refuses: " + str(error).split("\n")[0]))
        report.cases += 1
        return False
    report.cases += 1
    if case.refused:
        report.differences.append(Difference(case, "refuses", "gradus refuses: " + case.refused))
        return False
    got = case.list("out")
    if len(got) != len(expected):
        report.differences.append(Difference(case, "outputs", f"{len(got)} outputs, PyTorch has {len(expected)}"))
        return False
    for i, (a, b) in enumerate(zip(got, expected)):
        b = b if torch.is_tensor(b) else torch.tensor(b)
        if a.dtype in HALF and a.dtype == b.dtype and error_of(a, b)[0] > ops.TOLERANCE[ops.NAMES[a.dtype]]:
            # Rounded at every step by PyTorch? Then its f32, rounded once, agrees.
            b = in_f32(function, case.inputs, case.attrs)[i]
            report.rounded += 1
        report.check(case, "value", a, b, ops.TOLERANCE.get(ops.NAMES[a.dtype], 0))
    return True


def floating(x):
    return torch.is_tensor(x) and (x.is_floating_point() or x.is_complex())


def compare_slopes(report, case, function):
    if "failed" in case.record:
        report.differences.append(Difference(case, "failed", "gradus: " + case.record["failed"]))
    if "grads" not in case.record:
        return
    moving = [k for k in range(len(case.inputs)) if case.moves(k)]
    leaves = [x.clone().requires_grad_() if k in moving else x for k, x in enumerate(case.inputs)]
    inputs = [leaves[k] for k in moving]
    try:
        if case.op in slopes.WRONG_SLOPES:
            raise RuntimeError("not differentiable with respect to argument 0")
        y = tuple_of(function(leaves, case.attrs))
    except RuntimeError as error:
        if case.op not in slopes.SLOPES or not re.search("not differentiable with respect to argument", str(error)):
            raise
        by_operator, function = function, (lambda x, a: slopes.SLOPES[case.op](x, a))
        y = tuple_of(function(leaves, case.attrs))
        report.check(case, "value", y[0], tuple_of(by_operator(case.inputs, case.attrs))[0], ops.TOLERANCE["f64"])
    w = case.list("w")
    second = "u" in case.record
    roots = [(y[i], w[i].clone().requires_grad_(second)) for i in range(len(y))
             if w[i] is not None and y[i].requires_grad]
    if not roots:
        g = [None] * len(inputs)
    else:
        g = torch.autograd.grad([r for r, _ in roots], inputs, [s for _, s in roots],
                                create_graph=second, allow_unused=True)
    grads = case.list("grads")
    for k, expected in zip(moving, g):
        report.check(case, "grad", grads[k], expected, ops.SLOPE_TOLERANCE)
    if not second:
        return
    where_there_is(report, lambda: compare_second(report, case, moving, inputs, roots, g))
    where_there_is(report, lambda: compare_jvp(report, case, function, leaves, w))


def where_there_is(report, compare):
    """PyTorch has not all derivatives of all its ops."""
    try:
        compare()
    except RuntimeError as error:
        if not re.search(r"derivative for .* (is )?not implemented|not support automatic differentiation", str(error)):
            raise
        report.no_slopes += 1


def compare_second(report, case, moving, inputs, roots, g):
    u = case.list("u")
    if not roots:
        return
    pairs = [(x, torch.ones_like(x) if u[k] is None else u[k])
             for k, x in zip(moving, g) if x is not None and x.requires_grad]
    n = len(inputs)
    all_inputs = inputs + [s for _, s in roots]
    got = [None] * len(all_inputs)
    if "second" in case.record:
        by_x = case.list("second")
        by_w = [x for x, w in zip(case.list("second_w"), case.list("w")) if w is not None]
        if len(by_w) != len(roots):
            return
        got = [by_x[k] for k in moving] + by_w
    if not pairs:
        expected = [None] * len(all_inputs)
    else:
        expected = torch.autograd.grad([x for x, _ in pairs], all_inputs, [v for _, v in pairs],
                                       allow_unused=True)
    for i, (a, b) in enumerate(zip(got, expected)):
        report.check(case, "second" if i < n else "second_w", a, b, ops.SLOPE_TOLERANCE)


def compare_jvp(report, case, function, leaves, w):
    v = case.list("v")
    function = slopes.WRONG_JVP.get(case.op, function)
    try:
        with forward_ad.dual_level():
            dual = [x if t is None else forward_ad.make_dual(x.detach(), t) for x, t in zip(leaves, v)]
            expected = [forward_ad.unpack_dual(y).tangent if floating(y) else None
                        for y in tuple_of(function(dual, case.attrs))]
    except Exception:  # no forward mode of this op, or a broken one
        expected = jvp_by_two_vjps(function, leaves, case.attrs, v)
    for a, b in zip(case.list("jvp"), expected):
        report.check(case, "jvp", a, b, ops.SLOPE_TOLERANCE)


def jvp_by_two_vjps(function, leaves, attrs, v):
    """<v, J^H w> is linear in w; its gradient by w is J v."""
    y = tuple_of(function(leaves, attrs))
    w = [torch.zeros_like(one).requires_grad_() if floating(one) and one.requires_grad else None for one in y]
    inputs = [x for x, t in zip(leaves, v) if t is not None]
    roots = [i for i, one in enumerate(w) if one is not None]
    g = torch.autograd.grad([y[i] for i in roots], inputs, [w[i] for i in roots], create_graph=True,
                            allow_unused=True)
    pairs = [(x, t) for x, t in zip(g, [t for t in v if t is not None]) if x is not None and x.requires_grad]
    if not pairs:
        return [None] * len(y)
    by_w = torch.autograd.grad([x for x, _ in pairs], [w[i] for i in roots], [t for _, t in pairs],
                               allow_unused=True)
    out = [None] * len(y)
    for i, one in zip(roots, by_w):
        out[i] = one
    return out


def compare_op(info, cases):
    report = Report()
    function = ops.find(info)
    for case in cases:
        here = case.function = (lambda inputs, attrs, case=case: function(inputs, attrs, case))
        if not compare_value(report, case, here):
            continue
        if any(d.case is case and d.what == "value" and d.error == math.inf and "shape" in d.text
               for d in report.differences):
            continue
        try:
            where_there_is(report, lambda: compare_slopes(report, case, here))
        except ops.Lacks:
            report.lacks += 1
        except Exception as error:
            report.differences.append(Difference(
                case, "slopes", f"PyTorch: {type(error).__name__}: " + str(error).split("\n")[0]))
    return report


# ---- the account

def documented_ids():
    with open(os.path.join(ROOT, "ops", "SEMANTICS.md")) as f:
        return set(re.findall(r"^\| `([a-z0-9-]+)` \|", f.read(), re.M))


def record(args):
    handle, path = tempfile.mkstemp(suffix=".safetensors")
    os.close(handle)
    command = [args.gradus, "check", "--record", path, "--seed", str(args.seed), "--cases", str(args.cases)]
    if args.op:
        command += ["--op", args.op]
    try:
        done = subprocess.run(command, stdout=subprocess.DEVNULL)
    except OSError as error:
        print(f"compare_torch: {args.gradus}: {error.strerror}", file=sys.stderr)
        sys.exit(2)
    if done.returncode != 0:
        sys.exit(2)
    try:
        return read_safetensors(path)
    finally:
        os.remove(path)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("gradus", nargs="?", default=os.path.join(ROOT, "build", "release", "gradus"))
    parser.add_argument("--op", default="")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cases", type=int, default=8)
    parser.add_argument("--file", help="compare what was recorded before")
    parser.add_argument("-v", action="store_true", help="every difference")
    args = parser.parse_args()
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    op_list, records, tensors = read_safetensors(args.file) if args.file else record(args)
    ids = documented_ids()
    by_op = collections.defaultdict(list)
    for one in records:
        by_op[one["op"]].append(Case(one, tensors))
    compared, lacking, cases, bad_ops, unexplained = 0, [], 0, 0, 0
    reasons = collections.Counter()
    worst = collections.defaultdict(float)
    for info in op_list:
        name = info["name"]
        if args.op and name != args.op:
            continue
        if ops.find(info) is None:
            lacking.append(name)
            continue
        report = compare_op(info, by_op[name])
        explained, bad = collections.Counter(), []
        for d in report.differences:
            why = edges.explanation(d)
            for reason in why or ():
                if reason not in ids:
                    raise SystemExit(f'compare_torch: the id "{reason}" is not in ops/SEMANTICS.md')
                explained[reason] += 1
            if not why:
                bad.append(d)
        compared += 1
        cases += report.cases
        reasons.update(explained)
        unexplained += len(bad)
        bad_ops += bool(bad)
        for what, error in report.worst.items():
            worst[what] = max(worst[what], error)
        figures = "  ".join(f"{what} {error:.1e}" for what, error in sorted(report.worst.items()))
        line = f"{'DIFFERENT' if bad else 'ok':9} {name:22} {report.cases:4} cases  {figures}"
        if report.lacks:
            line += f"  {report.lacks} cases PyTorch lacks"
        if report.no_slopes:
            line += f"  {report.no_slopes} derivatives PyTorch lacks"
        if report.rounded:
            explained["half-rounding"] = report.rounded
            reasons["half-rounding"] += report.rounded
        if explained:
            line += "  explained: " + ", ".join(f"{r} ({n})" for r, n in sorted(explained.items()))
        print(line, flush=True)
        for d in bad if args.v else bad[:4]:
            print(f"          {d.what}: {d.text}\n            {d.case}")
        if len(bad) > 4 and not args.v:
            print(f"          and {len(bad) - 4} more")
    print(f"\n{compared} ops compared with PyTorch {torch.__version__}, {cases} cases; worst relative error: "
          + ", ".join(f"{what} {error:.1e}" for what, error in sorted(worst.items())))
    print(f"{len(lacking)} ops that PyTorch lacks: {', '.join(lacking) or 'none'}")
    print(f"{sum(reasons.values())} differences explained by {len(reasons)} rows of ops/SEMANTICS.md: "
          + ", ".join(f"{r} ({n})" for r, n in reasons.most_common()))
    print(f"{unexplained} unexplained, in {bad_ops} ops")
    return 1 if unexplained else 0


if __name__ == "__main__":
    sys.exit(main())
