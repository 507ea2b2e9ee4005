"""For both comparisons: which row of ops/SEMANTICS.md a difference belongs to, beside what
compare_torch_rules.py says: infinities, powers, nothing at all, rounding, Python's operators."""
import re

import torch

import compare_torch_rules as rules
from compare_torch_ops import NAMES, TOLERANCE, normalized
from compare_torch_rules import NAN, SLOPES, beside, everywhere, mixed, narrowest


def complex_infinities(d):
    """Operands, or both results, are not finite."""
    if not any(torch.is_tensor(x) and x.is_complex() for x in d.case.inputs) or d.expected is None:
        return False
    try:
        return everywhere(d, beside(d, lambda x: ~x.isfinite()) | ~d.got.isfinite() & ~d.expected.isfinite())
    except RuntimeError:
        return False


def python_operator(d):
    """Operators of Python take no number first; torch.max(x, 2) takes the number for an axis."""
    if d.what != "accepts" or d.case.entry is None:
        return False
    name = d.case.entry.name
    return name.startswith("__r") and re.search(
        "unsupported operands|descriptor '__r|object has no attribute", d.text) or (
        name in ("max", "min") and d.dtypes[1] == "int" and "Dimension out of range" in d.text)


def as_near(d):
    """Is the value of gradus as near as PyTorch's to what PyTorch computes in f64?"""
    if d.what != "value" or d.got.shape != d.expected.shape or d.got.dtype not in NARROW \
            or d.expected.dtype not in NARROW:
        return False
    whole = all(n not in ("f16", "bf16", "f32", "c64") for n in d.dtypes)  # integers, computed in f32
    wide = lambda x: x if not torch.is_tensor(x) or x.dtype == torch.bool else (
        x.double() if whole else x.to(NARROW.get(x.dtype, x.dtype)))
    try:
        y = d.case.function([wide(x) for x in d.case.inputs], d.attrs)
    except Exception:  # its other arguments are narrow
        return False
    exact = next((e for e in (y if isinstance(y, (tuple, list)) else [y])
                  if torch.is_tensor(e) and e.shape == d.got.shape), None)
    if exact is None or exact.numel() == 0 or not bool(exact.isfinite().all()):
        return False
    worst = lambda t: float((t.to(exact.dtype) - exact).abs().max())
    return worst(d.got) <= 2 * worst(d.expected)


def scores_rounded(d):
    """Are f32 values of attention off by no more than two roundings of the scores, which are exponents?"""
    if d.op != "scaled_dot_product_attention" or d.what != "value" or d.got.dtype != torch.float32:
        return False
    q, k, v, *mask = [x.double() for x in d.case.inputs]
    scores = q @ k.mT / q.shape[-1] ** 0.5 + sum(mask)
    off = (d.got.double() - d.expected.double()).abs().max()
    return bool(off <= 2 * torch.finfo(torch.float32).eps * scores.abs().max() * v.abs().max())


NARROW = {torch.float32: torch.float64, torch.float16: torch.float64, torch.bfloat16: torch.float64,
          torch.complex64: torch.complex128}
# What needs the larger of two numbers.
ORDERED = ("logaddexp", "logcumsumexp", "nan_to_num")


def pair(d, holds):
    """Elements for which this holds of both operands, broadcast."""
    a, b = (x if torch.is_tensor(x) else torch.tensor(x) for x in d.case.inputs[:2])
    return holds(a, b)


EXPLAINED = [
    ("infinite-bound", lambda d: d.op in ("clamp", "hardtanh") and d.what == "grad" and everywhere(
        d, beside(d, lambda x: x.isinf()) & (d.expected == 0))),
    ("equal-infinities", lambda d: d.op in ("logaddexp", "logaddexp2") and d.what == "grad" and everywhere(
        d, pair(d, lambda a, b: (a == b) & a.isinf()) & d.expected.isnan())),
    ("beyond-logarithm", lambda d: d.op in ("xlogy", "xlog1py") and d.what in SLOPES and everywhere(
        d, pair(d, lambda a, b: (a == 0) & (b <= (0 if d.op == "xlogy" else -1))) & (d.got == 0))),
    ("power-of-infinity", lambda d: d.op == "pow" and d.what == "value" and everywhere(
        d, pair(d, lambda a, b: a == -float("inf")) & d.expected.isnan())),
    ("powers-at-zero", lambda d: d.op == "pow" and d.what in SLOPES and everywhere(
        d, pair(d, lambda a, b: ((a == 0) | a.isnan()) & (b == 0)) & (d.got == 0) & d.expected.isnan())),
    ("vanishing-power", lambda d: d.op == "pow" and d.what in SLOPES and everywhere(
        d, (pair(d, lambda a, b: a == 0) | (d.case.list("out")[0] == 0)) & d.got.isfinite() & d.expected.isnan())),
    ("large-phases", lambda d: d.op == "pow" and d.what == "value" and d.got.dtype == torch.complex128 and everywhere(
        d, pair(d, lambda a, b: (d.got - d.expected).abs() <= 1e-15 * (b * a.log()).abs() * d.expected.abs())
        | ~d.got.isfinite() & ~d.expected.isfinite() | pair(d, lambda a, b: ~a.isfinite() | ~b.isfinite()))),
    ("large-phases", lambda d: d.op == "logsumexp" and d.got is not None and d.what != "value" and d.got.is_complex()
     and d.case.inputs[0].numel() > 0 and d.error < 1e-15 * float(d.case.inputs[0].abs().max()) < 1e-8),
    ("fmod-turns", lambda d: d.op == "fmod" and d.what == "grad" and d.got.shape == d.case.list("out")[0].shape and everywhere(
        d, pair(d, lambda a, b: (a + d.got * b - d.case.list("out")[0]).abs() <= 1e-9 * a.abs()))),
    ("sensible-numbers", lambda d: d.what == "refuses" and re.search("eps is -.*, expected 0 or more", d.text)),
    ("norm-at-zero", lambda d: d.op in ("hypot", "atan2") and d.what in SLOPES and everywhere(
        d, pair(d, lambda a, b: (a == 0) & (b == 0)) & (d.got == 0) & d.expected.isnan())),
    ("rms-of-complex", lambda d: d.op == "rms_norm" and d.dtypes[0] in ("c64", "c128") and d.what == "value"
     and torch.allclose(normalized(d.case.inputs, d.attrs), d.got)),
    ("gaussian-broadcasts", lambda d: d.op == "gaussian_nll_loss" and d.what == "accepts"
     and "var is of incorrect size" in d.text),
    ("numbers-anywhere", python_operator),
    ("mixed-rounding", lambda d: mixed(d) and d.what in ("grad", "second", "second_w", "jvp")
     and d.error <= TOLERANCE[narrowest(d)]),
    ("out-of-range", lambda d: d.op == "cast" and d.what == "value" and not d.got.dtype.is_floating_point
     and d.got.dtype in (torch.uint8, torch.int32, torch.int64)
     and everywhere(d, ~((d.case.inputs[0].real >= torch.iinfo(d.got.dtype).min)
                         & (d.case.inputs[0].real < float(torch.iinfo(d.got.dtype).max) + 1)))),
    ("complex-infinities", complex_infinities),
    ("complex-order", lambda d: d.what == "refuses" and d.op in ORDERED
     and any(n in ("c64", "c128") for n in d.dtypes)),
    ("checked-always", lambda d: d.what == "refuses" and (
        "of a tensor with 0 axes" in d.text or d.op == "index_add" and "outside [0, 0)" in d.text or d.op == "batch_norm" and "x has shape (0,)" in d.text)),
    ("real-activations", lambda d: d.what == "refuses" and d.op == "alpha_dropout"
     and re.search(r"is not defined for c(64|128)", d.text)),
    ("bool-arithmetic", lambda d: d.what == "dtype" and d.op in ("addr", "pow") and d.expected.dtype == torch.bool),
    ("bool-arithmetic", lambda d: d.op == "addr" and d.what == "value" and d.expected.dtype == torch.bool),
    ("empty-index", lambda d: d.what == "refuses" and re.search("the index is (u8|f32|f64|bool)", d.text)
     and any(torch.is_tensor(x) and x.numel() == 0 for x in d.case.inputs[1:])),
    ("order-of-equals", lambda d: d.op in ("argsort", "sort", "msort") and not d.attrs.get("stable")
     and d.what == "value" and d.got.dtype == torch.int64
     and torch.equal(*(torch.take_along_dim(d.case.inputs[0], i, d.attrs.get("dim", 0)) for i in (d.got, d.expected)))),
    ("as-strided-memory", lambda d: d.case.entry is not None and d.case.entry.variant_test_name == "partial_views"),
    ("trapezoid-u8", lambda d: d.op in ("trapezoid", "cumulative_trapezoid") and d.what == "value"
     and d.case.inputs[0].dtype == torch.uint8 and float(d.got.max()) > 127),
    ("logcumsumexp-digits", lambda d: d.op == "logcumsumexp" and d.what in SLOPES[1:] and d.error < 1e-4),
    ("norm-of-nothing", lambda d: d.op == "group_norm" and d.what == "accepts" and d.case.inputs[0].numel() == 0
     and "to be greater than" in d.text),
    ("f32-rounding", as_near),
    ("scores-rounded", scores_rounded),
    ("ndtr-tail", lambda d: d.op == "ndtr" and d.what == "value" and everywhere(
        d, (d.got.double() - torch.erfc(-d.case.inputs[0].double() / 2 ** 0.5) / 2).abs()
        <= TOLERANCE[NAMES[d.got.dtype]] * d.got)),
    ("limits", lambda d: d.op == "sigmoid" and d.what == "value" and d.got.is_complex()
     and everywhere(d, d.got.isfinite() & d.expected.isnan())),
    ("zero-power", lambda d: d.op == "pow" and d.what == "value" and d.got.is_complex()
     and everywhere(d, pair(d, lambda a, b: (a == 0) & (b == 0)) & (d.got == 1) & d.expected.isnan()
                    | ~d.got.isfinite() & ~d.expected.isfinite())),
    ("empty-batch", lambda d: "_pool" in d.op and d.what == "accepts" and 0 in d.case.inputs[0].shape
     and "non-zero size for non-batch dimensions" in d.text),
    ("put-shapes", lambda d: d.op == "put" and d.what == "refuses"
     and re.search("the index has shape .*, the source", d.text)
     and d.case.inputs[1].numel() == d.case.inputs[2].numel()),
    ("sum-to-itself", lambda d: d.op == "sum_to" and d.what == "dtype" and d.got.dtype == d.case.inputs[0].dtype
     and d.got.shape == d.case.inputs[0].shape),
    ("one-shape", lambda d: d.what == "refuses" and d.op in ("hinge_embedding_loss", "margin_ranking_loss")
     and "the input has shape" in d.text),
    ("rounding-of-zero", lambda d: d.what in ("second", "second_w")
     and (d.op == "normalize" and d.attrs["p"] < 1 or d.op == "logsumexp" and d.got.is_complex())
     and everywhere(d, (d.got.abs() < 1e-14) & (d.expected.abs() < 1e-10))),
]


def explanation(d):
    """The ids of the rows that explain a difference; none if nothing does."""
    for reason, matches in EXPLAINED:
        if matches(d):
            return [reason]
    return rules.explanation(d)
