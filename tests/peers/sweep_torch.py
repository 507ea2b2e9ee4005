"""Sweeps PyTorch's own operator database: for every op that gradus has, the samples, reference inputs and
error inputs of torch.testing._internal.common_methods_invocations.op_db, in all dtypes of gradus: values,
dtypes, shapes, and in f64 and c128 gradients, second-order gradients and jvps; what PyTorch refuses must be
refused, what it takes must be taken. A difference is a row of ops/SEMANTICS.md, by its id, or a fault.

    python3 tests/peers/sweep_torch.py [GRADUS] [--op NAME] [--entry NAME] [-v]

Its last line is "N of M agree, K unexplained". Exit code: 0 if K is 0 (or PyTorch 2 is not here), 1 if not,
2 if the program did not run.
"""
import argparse
import collections
import json
import os
import random
import subprocess
import sys
import tempfile
import warnings

try:
    import numpy as np
    import torch
    if int(torch.__version__.split(".")[0]) < 2:
        raise ImportError(f"this is PyTorch {torch.__version__}, the sweep needs 2 or later")
    warnings.filterwarnings("ignore")
    from torch.testing._internal.common_methods_invocations import op_db
    from torch.utils._pytree import tree_map
except ImportError as error:
    print(f"sweep_torch: skipped, PyTorch's operator database can't be imported ({error})")
    sys.exit(0)

import compare_torch as compare
import compare_torch_edges as edges
import compare_torch_ops as ops
import compare_torch_slopes as slopes
import sweep_torch_calls as calls
import torch_linalg as linalg

SLOPES = (torch.float64, torch.complex128)
# PyTorch's own derivative fails ("The size of tensor a (0) must match ..."), its alias `narrow` is swept.
BROKEN_SLOPES = {"narrow_copy"}
LARGEST = 1 << 16  # elements of one operand: more says nothing new, and takes long


# ---- what goes to gradus

def overlaps(t):
    """Do two subscripts name one element, other than along axes of stride 0?"""
    reach = 0
    for stride, size in sorted((s, n) for s, n in zip(t.stride(), t.shape) if s != 0 and n > 1):
        if stride <= reach:
            return True
        reach += (size - 1) * stride
    return False


class File:
    """A .safetensors file of operands and calls."""

    def __init__(self):
        self.arrays, self.calls = [], []

    def tensor(self, t, constant):
        t = t.detach().resolve_conj().resolve_neg()
        view = {}
        if not t.is_contiguous() and not overlaps(t):
            extent = 1 + sum((n - 1) * s for n, s in zip(t.shape, t.stride())) if t.numel() else 0
            view = {"size": list(t.shape), "stride": list(t.stride())}
            t = t.as_strided((extent,), (1,))
            if t.dtype == torch.bool:  # between its elements lies what was never written
                t = t.view(torch.uint8) != 0
        name = f"{len(self.arrays)}" + (".c128" if t.dtype == torch.complex128 else "")
        self.arrays.append((name, t.contiguous()))
        return {"tensor": name, "constant": constant, **view}

    def write(self, path):
        header, data, at = {"__metadata__": {"calls": json.dumps(self.calls)}}, [], 0
        for name, t in self.arrays:
            shape, kind = list(t.shape), ops.NAMES[t.dtype].upper()
            if t.dtype == torch.complex128:
                shape, kind = shape + [2], "F64"
                t = torch.view_as_real(t).contiguous()
            t = t.reshape(-1)  # numpy has 64 axes at most
            raw = t.view(torch.int16).numpy().tobytes() if t.dtype == torch.bfloat16 else t.numpy().tobytes()
            header[name] = {"dtype": kind, "shape": shape, "data_offsets": [at, at + len(raw)]}
            data.append(raw)
            at += len(raw)
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        with open(path, "wb") as f:
            f.write(len(text).to_bytes(8, "little") + text + b"".join(data))


# ---- samples

def seed(name):
    number = sum(map(ord, name))
    torch.manual_seed(number)
    np.random.seed(number)
    random.seed(number)


def drawn(entry, inputs, dtype, slopes):
    """The same ones for ever. Some entries draw integers too, which can't want a gradient: then none does."""
    for wanted in (slopes, False):
        seed(entry.name)
        try:
            return list(inputs("cpu", dtype, requires_grad=wanted))
        except ValueError:
            if not wanted:
                raise


def unaliased(sample):
    """Every tensor an object of its own, without history; says which want a derivative."""
    wanted = set()

    def one(t):
        if not torch.is_tensor(t):
            return t
        alone = t.detach()
        if t.requires_grad:
            wanted.add(id(alone))
        return alone
    sample.input, sample.args, sample.kwargs = (
        tree_map(one, part) for part in (sample.input, sample.args, sample.kwargs))
    return wanted


def caller(entry, sample, operands, op):
    """f(operands, attrs): PyTorch's own call, with other tensors in the places of the operands."""
    place = {id(x): k for k, x in enumerate(operands) if torch.is_tensor(x)}
    function = linalg.ALIKE.get(entry.name, entry.op)

    def call(inputs, attrs):
        def one(t):
            if not torch.is_tensor(t):
                return t
            k = place.get(id(t))
            # PyTorch moves running statistics: they are copied for each call.
            return t.clone() if k is None else inputs[k].clone() if op == "batch_norm" else inputs[k]
        parts = [tree_map(one, part) for part in (sample.input, sample.args, sample.kwargs)]
        y = function(parts[0], *parts[1], **parts[2])
        if y is NotImplemented:  # an operator of Python's refuses
            raise TypeError("unsupported operands")
        if op.startswith(("max_pool", "adaptive_max_pool")) and isinstance(y, tuple):
            return y[0]  # gradus gives no indices
        return y
    return call


class Sampled(compare.Case):
    def __init__(self, op, kind, operands, attrs, constant, function, entry):
        self.op, self.kind, self.inputs, self.entry = op, kind, operands, entry
        self.constant, self.function = constant, function
        self.record = {"attrs": attrs}
        self.sent = attrs

    def take(self, record, tensors):
        self.record, self.tensors = record, tensors
        self.attrs = {k: compare.number(v) for k, v in record["attrs"].items()}
        self.refused = record.get("refused")

    def moves(self, k):
        return compare.floating(self.inputs[k]) and not self.constant[k]

    def list(self, key):
        out = super().list(key)
        return [out[k] for k in self.outputs(len(out))] if key == "out" else out

    def outputs(self, n):
        """Those of gradus that PyTorch gives."""
        if self.op in ("unique", "unique_consecutive"):
            return [0] + [k for k, name in ((1, "return_inverse"), (2, "return_counts")) if self.asked.get(name)]
        return range(n)


class Samples:
    """All cases of one entry, and the file that asks gradus for them."""

    def __init__(self, entry, op, known, left):
        self.entry, self.op, self.known, self.left = entry, op, known, left
        self.cases, self.file = [], File()

    def collect(self):
        entry = self.entry
        for dtype in ops.DTYPES.values():
            if dtype not in entry.dtypes:
                continue
            slopes = dtype in SLOPES and entry.supports_autograd
            for sample in drawn(entry, entry.sample_inputs, dtype, slopes):
                self.add(sample, "sample", slopes, True)
            if entry.reference_inputs_func is not None:
                for sample in drawn(entry, entry.reference_inputs, dtype, slopes):
                    self.add(sample, "reference", slopes, False)
        if entry.error_inputs_func is not None:
            seed(entry.name)
            for error in entry.error_inputs("cpu"):
                self.add(error.sample_input, "error", False, False)

    def add(self, sample, kind, slopes, higher):
        wanted = unaliased(sample)
        asked = dict(sample.kwargs)
        try:
            op, operands, attrs = calls.read(self.entry, self.op, self.known, sample)
            operands = [complex_number(x, operands) if isinstance(x, complex) else x for x in operands]
            for x in operands:
                if torch.is_tensor(x) and x.dtype not in ops.NAMES:
                    raise calls.Left(f"operands of {x.dtype}")
                if torch.is_tensor(x) and (x.layout != torch.strided or x.device.type != "cpu"):
                    raise calls.Left("sparse operands, or of a device")
                if torch.is_tensor(x) and x.numel() > LARGEST:
                    raise calls.Left(f"more than {LARGEST} elements")
        except calls.Left as form:
            self.left[f"{self.op} {form}"] += 1
            return
        except Exception as error:
            if kind != "error":
                raise
            self.left[f"{self.op}: an error sample that can't be written down ({type(error).__name__})"] += 1
            return
        constant = [not torch.is_tensor(x) or id(x) not in wanted for x in operands]
        case = Sampled(op, kind, operands, attrs, constant, caller(self.entry, sample, operands, op), self.entry)
        case.asked = asked
        if len(asked) == 0 and op in ("unique", "unique_consecutive"):
            names = ["sorted", "return_inverse", "return_counts"][op == "unique_consecutive":]
            case.asked = dict(zip(names, sample.args))
        self.cases.append(case)
        self.file.calls.append({
            "op": op, "attrs": attrs, "slopes": slopes and not all(constant),
            "higher": higher and self.entry.supports_gradgrad,
            "in": [self.file.tensor(x, c) if torch.is_tensor(x) else calls.json_number(x)
                   for x, c in zip(operands, constant)]})

    def ask(self, gradus):
        """Fills the cases with what gradus gives; says why not if it did not."""
        with tempfile.TemporaryDirectory() as folder:
            given, made = os.path.join(folder, "given.safetensors"), os.path.join(folder, "made.safetensors")
            self.file.write(given)
            try:
                done = subprocess.run([gradus, "check", "--calls", given, "--record", made],
                                      stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=600)
            except OSError as error:
                print(f"sweep_torch: {gradus}: {error.strerror}", file=sys.stderr)
                sys.exit(2)
            except subprocess.TimeoutExpired:
                return "gradus did not end within 10 minutes"
            if done.returncode != 0:
                return f"exit {done.returncode}: " + done.stderr.decode(errors="replace").strip()[-400:]
            _, records, tensors = compare.read_safetensors(made)
        for case, record in zip(self.cases, records, strict=True):
            case.take(record, tensors)
        return None


# ---- the account

def compare_case(case):
    """Its differences."""
    report = compare.Report()
    if case.op in ops.NEEDS_CASE:
        function = lambda inputs, attrs: ops.ADAPTERS[case.op](inputs, attrs, case)
    else:
        function = case.function
    if compare.compare_value(report, case, function) and not any("shape" in d.text for d in report.differences):
        if case.op == "rms_norm" and case.inputs[0].is_complex():  # the mean of other squares, see SEMANTICS.md
            function = lambda inputs, attrs: ops.ADAPTERS["rms_norm"](inputs, attrs)
        try:
            if case.entry.name not in BROKEN_SLOPES:
                compare.where_there_is(report, lambda: compare.compare_slopes(report, case, function))
        except Exception as error:
            report.differences.append(compare.Difference(
                case, "slopes", f"PyTorch: {type(error).__name__}: " + str(error).split("\n")[0]))
    return report.differences


def known_ops(gradus):
    try:
        done = subprocess.run([gradus, "ops", "--json"], stdout=subprocess.PIPE)
    except OSError as error:
        print(f"sweep_torch: {gradus}: {error.strerror}", file=sys.stderr)
        sys.exit(2)
    if done.returncode != 0:
        sys.exit(2)
    known = {}
    for line in done.stdout.decode().splitlines():
        op = json.loads(line)
        known[op["name"]] = {"operands": [o["name"] for o in op["operands"]],
                             "variadic": any(o["variadic"] for o in op["operands"]),
                             "attrs": {a["name"]: a["type"] for a in op["attrs"]}}
    return known


def complex_number(z, operands):
    """As a 0-d tensor, in the precision of the others: a number of Python's has none of its own."""
    wide = any(torch.is_tensor(x) and x.dtype in SLOPES for x in operands)
    return torch.tensor(z, dtype=torch.complex128 if wide else torch.complex64)


def account(samples, args, ids, totals, reasons):
    """Compares one entry and prints its line."""
    agree, bad = 0, []
    explained = collections.Counter()
    for case in samples.cases:
        differences = compare_case(case)
        unexplained = []
        for d in differences:
            why = edges.explanation(d)
            for reason in why or ():
                if reason not in ids:
                    raise SystemExit(f'sweep_torch: the id "{reason}" is not in ops/SEMANTICS.md')
                explained[reason] += 1
            if not why:
                unexplained.append(d)
        agree += not differences
        if unexplained:
            bad.append(unexplained[0])
    totals["agree"] += agree
    totals["cases"] += len(samples.cases)
    totals["unexplained"] += len(bad)
    reasons.update(explained)
    entry = samples.entry
    name = entry.name + ("|" + entry.variant_test_name if entry.variant_test_name else "")
    line = f"{'DIFFERENT' if bad else 'ok':9} {name:34} {samples.op:22} {agree:5} of {len(samples.cases):5} agree"
    if bad:
        line += f", {len(bad)} unexplained"
    if explained:
        line += "  explained: " + ", ".join(f"{r} ({n})" for r, n in sorted(explained.items()))
    print(line, flush=True)
    for d in bad if args.v else bad[:4]:
        print(f"          {d.what}: {d.text}\n            {d.case}")
    return len(bad)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("gradus", nargs="?", default=os.path.join(compare.ROOT, "build", "release", "gradus"))
    parser.add_argument("--op", default="", help="an op of gradus alone")
    parser.add_argument("--entry", default="", help="an entry of the database alone")
    parser.add_argument("-v", action="store_true", help="every difference")
    args = parser.parse_args()
    torch.set_num_threads(1)
    # The sweep asks for derivatives only where PyTorch has them.
    slopes.WRONG_SLOPES.intersection_update({"as_strided_scatter"})
    slopes.SLOPES = {"as_strided_scatter": slopes.SLOPES["as_strided_scatter"]}
    known = known_ops(args.gradus)
    ids = compare.documented_ids()
    totals, reasons, left, by_op = (collections.Counter() for _ in range(4))
    swept = set()
    for entry in sorted(op_db, key=lambda e: (e.name, e.variant_test_name)):
        op = calls.target(entry, known)
        if op is None or op in ops.LACKING or args.op and op != args.op or args.entry and entry.name != args.entry:
            continue
        samples = Samples(entry, op, known, left)
        samples.collect()
        if not samples.cases:
            continue
        swept |= {case.op for case in samples.cases}
        failure = samples.ask(args.gradus)
        if failure:
            print(f"FAILED    {entry.name}: {failure}", flush=True)
            totals.update(cases=len(samples.cases), unexplained=len(samples.cases))
            by_op[op] += len(samples.cases)
            continue
        by_op[op] += account(samples, args, ids, totals, reasons)
    print(f"\n{len(swept)} ops of gradus, PyTorch {torch.__version__}; not in its database: "
          + ", ".join(sorted(set(known) - swept)))
    print(f"{sum(left.values())} calls left out: " + ", ".join(f"{form} ({n})" for form, n in left.most_common()))
    print(f"{sum(reasons.values())} differences explained by {len(reasons)} rows of ops/SEMANTICS.md: "
          + ", ".join(f"{r} ({n})" for r, n in reasons.most_common()))
    bad = [(op, n) for op, n in by_op.most_common() if n]
    if bad:
        print("unexplained by op: " + ", ".join(f"{op} {n}" for op, n in bad))
    print(f"{totals['agree']} of {totals['cases']} agree, {totals['unexplained']} unexplained")
    return 1 if totals["unexplained"] else 0


if __name__ == "__main__":
    sys.exit(main())
