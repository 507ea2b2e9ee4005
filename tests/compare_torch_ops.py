"""For compare_torch.py: how each op of gradus is called in PyTorch, and which differences are known.

Most ops are found by their name in torch.nn.functional, torch, torch.special, torch.linalg or
torch.Tensor, with operands by position and attributes by name. ADAPTERS holds the others. EXPLAINED
says which row of ops/SEMANTICS.md a difference belongs to."""
import math
import re

import torch
import torch.nn.functional as F

DTYPES = {"f32": torch.float32, "f64": torch.float64, "c64": torch.complex64, "c128": torch.complex128,
          "i32": torch.int32, "i64": torch.int64, "u8": torch.uint8, "bool": torch.bool,
          "f16": torch.float16, "bf16": torch.bfloat16}
NAMES = {dtype: name for name, dtype in DTYPES.items()}
END = 2**63 - 1

# How far two correct implementations may differ, by the dtype of the result: relative to an element,
# or to a hundredth of the largest one, whichever is larger. Of derivatives, in f64 and c128 alone.
TOLERANCE = {"f64": 1e-11, "c128": 1e-11, "f32": 1e-5, "c64": 1e-5, "f16": 8e-3, "bf16": 6e-2}
SLOPE_TOLERANCE = 1e-10


class Lacks(Exception):
    """PyTorch has no such form of the op."""


# ---- the forms that differ. Each takes the operands x and the attributes a.

def axes(x, dim):
    return tuple(range(x.dim())) if not dim else tuple(dim)


def normal(dims, rank):
    """Axes without signs; refused where PyTorch, given them at once, would refuse."""
    out = [d % rank for d in dims if -rank <= d < rank]
    if len(set(out)) < len(dims):
        raise IndexError("no such axis, or one twice")
    return out


def reduction(function):
    return lambda x, a: function(x[0], dim=axes(x[0], a["dim"]), keepdim=a["keepdim"])


def prod(x, a):
    y, dims = x[0], axes(x[0], a["dim"])
    if not dims:
        return torch.prod(y)
    for d in sorted(normal(dims, max(1, y.dim())), reverse=True):
        y = torch.prod(y, dim=d, keepdim=a["keepdim"])
    return y


def spread(function):
    def call(x, a):
        if a["correction"] != int(a["correction"]):
            raise Lacks
        return function(x[0], dim=axes(x[0], a["dim"]), correction=int(a["correction"]), keepdim=a["keepdim"])
    return call


def cumsum(x, a):
    if a["reverse"]:
        raise Lacks
    return torch.cumsum(x[0], a["dim"])


def standard_only(function):
    def call(x, a):
        if a["algebra"] != "standard":
            raise Lacks
        return function(x, a)
    return call


def contract(x, a):
    labels = sorted(set(a["labels_a"]) | set(a["labels_b"]))
    short = lambda ls: [labels.index(label) for label in ls]
    return torch.einsum(x[0], short(a["labels_a"]), x[1], short(a["labels_b"]), short(a["labels_out"]))


def sliced(x, a):
    n = x[0].size(a["dim"])
    end = None if a["end"] == END else a["end"]
    start = None if a["step"] < 0 and a["start"] == 0 and end is None else a["start"]
    if a["step"] == 0:
        raise ValueError("step 0")
    if a["step"] < 0:  # PyTorch has no negative steps
        index = torch.tensor(list(range(n))[start:end:a["step"]], dtype=torch.int64)
        return torch.index_select(x[0], a["dim"], index)
    where = [slice(None)] * x[0].dim()
    where[a["dim"]] = slice(start, end, a["step"])
    return x[0][tuple(where)]


def squeeze(x, a):
    if a["dim"] is None:
        return x[0].squeeze()
    y = x[0]
    for d in sorted(normal(a["dim"], max(1, y.dim())), reverse=True):
        y = y.squeeze(d)
    return y


def dropout(function):
    def call(x, a, case):
        """The mask is that of gradus, whose numbers come from another generator."""
        if not a["training"] or a["p"] in (0, 1) or case.refused or not x[0].is_floating_point():
            return function(x[0], a["p"], a["training"])
        y = case.list("out")[0]
        return torch.where(y != 0, x[0] / (1 - a["p"]), torch.zeros_like(x[0]))
    return call


def alpha_dropout(x, a, case):
    """As dropout: what is dropped is -1.758..., then all is scaled and moved to keep mean and variance."""
    p, low = a["p"], -1.7580993408473766
    if not a["training"] or p in (0, 1) or case.refused:
        return F.alpha_dropout(x[0], p, a["training"])
    scale = ((low * low * p + 1) * (1 - p)) ** -0.5
    shift = -scale * low * p
    kept = (case.list("out")[0] - (scale * low + shift)).abs() > 1e-2
    return torch.where(kept, x[0], torch.full_like(x[0], low)) * scale + shift


def tensordot(x, a):
    lists = (a["dims_a"] or [], a["dims_b"] or [])
    if a["dims"] and any(lists):
        raise ValueError("a count and lists")
    return torch.tensordot(x[0], x[1], dims=a["dims"] or lists)


def dot(x, a):
    """Debian's PyTorch gives 0 for complex vectors (its BLAS returns complex numbers otherwise)."""
    return (x[0] * x[1]).sum() if x[0].is_complex() and x[0].dim() == x[1].dim() == 1 else None


def or_dot(function):
    def call(x, a):
        y = dot(x, a)
        return function(*x) if y is None else y
    return call


def cut_to_index(x):
    return x[2][tuple(slice(0, n) for n in x[1].shape)] if x[1].dim() == x[2].dim() > 0 else x[2]


def vdot(x, a):
    one_axis = x[0].dim() == x[1].dim() == 1
    return (x[0].conj() * x[1]).sum() if one_axis and x[0].is_complex() else torch.vdot(*x)


def vecdot(x, a):
    """Debian's PyTorch gives 0 for complex vectors."""
    if x[0].is_complex() and x[1].is_complex():
        return (x[0].conj() * x[1]).sum(a["dim"])
    return torch.linalg.vecdot(x[0], x[1], dim=a["dim"])


def linear(x, a):
    """With a vector for the weight PyTorch takes a bias only in its documentation."""
    if x[1].dim() == 1 and len(x) > 2:
        return F.linear(x[0], x[1]) + x[2]
    return F.linear(*x)


def baddbmm(x, a):
    """With beta = 0 PyTorch reads memory that it never wrote: now and then NaN."""
    a = {k: whole(v) for k, v in a.items()}
    return torch.baddbmm(torch.zeros_like(x[0]), *x[1:], alpha=a["alpha"]) if a["beta"] == 0 else torch.baddbmm(*x, **a)


def adaptive(function, axes):
    """One size serves for all axes."""
    def call(x, a):
        size = a["output_size"]
        return function(x[0], size * axes if len(size) == 1 else size)
    return call


def scatter_add(x, a):
    """A source larger than the index is cut: PyTorch takes it, but has no derivative of it."""
    return torch.scatter_add(x[0], a["dim"], x[1], cut_to_index(x))


def embedding(x, a):
    """PyTorch's has no derivative of complex weights, nor of no index at all."""
    weight, index = x
    if weight.is_complex() or index.numel() == 0:
        padding = a.get("padding_idx", -1)
        return torch.where((index == padding).unsqueeze(-1), weight.detach()[index], weight[index])
    return F.embedding(index, weight, padding_idx=a["padding_idx"] if a.get("padding_idx", -1) >= 0 else None)


def present(attrs):
    return {k: v for k, v in attrs.items() if v is not None}


def by_position(function, *names):
    """The operands, then these attributes by position."""
    return lambda x, a: function(*x, *(a[n] for n in names))


def whole(value):
    """A number among gradus' attributes counts as an integer where it is one."""
    return int(value) if isinstance(value, float) and math.isfinite(value) and value == int(value) else value


def wholes(function):
    """Operands by position; attributes by name, whole numbers as integers."""
    return lambda x, a: function(*x, **{k: whole(v) for k, v in present(a).items()})


def then(function, positional, *names):
    """So many operands by position, those that may follow by name."""
    return lambda x, a: function(*x[:positional], **dict(zip(names, x[positional:])), **present(a))


def given(function):
    """The operands as one list."""
    return lambda x, a: function(x, **present(a))


def with_dim(function, *between):
    """function(x, dim, the other operands, these attributes)."""
    return lambda x, a: function(x[0], a["dim"], *x[1:], *(whole(a[n]) for n in between))


def either(function):
    """Of all elements, or along an axis."""
    return lambda x, a: function(x[0]) if a["dim"] is None else function(x[0], dim=a["dim"], keepdim=a["keepdim"])


def one_axis_at_a_time(function):
    def call(x, a):
        if not a["dim"]:
            return function(x[0])
        y = x[0]
        for d in sorted(normal(a["dim"], max(1, y.dim())), reverse=True):
            y = function(y, dim=d, keepdim=a["keepdim"])
        return y
    return call


def scatter(x, a):
    if len(x) == 2:
        return torch.scatter(x[0], a["dim"], x[1], whole(a["value"]))
    return torch.scatter(x[0], a["dim"], x[1], cut_to_index(x))


def slice_scatter(x, a):
    return torch.slice_scatter(x[0], x[1], dim=a["dim"], start=a["start"],
                               end=None if a["end"] == END else a["end"], step=a["step"])


def split(x, a):
    sizes = a["split_size_or_sections"]
    return torch.split(x[0], sizes[0] if len(sizes) == 1 else sizes, a["dim"])


def arange(x, a):
    return torch.arange(whole(a["start"]), whole(a["end"]), whole(a["step"]), dtype=a["dtype"])


def window(x, a):
    if a.get("dilation", 1) == 1:
        return x[0].unfold(a["dim"], a["size"], a["step"])
    d = normal([a["dim"]], x[0].dim())[0]
    reach = (a["size"] - 1) * a["dilation"] + 1
    wide = x[0].unfold(d, reach, a["step"])
    return wide[..., ::a["dilation"]]


def batch_norm(x, a):
    x = list(x)
    x[1:3] = [t.clone() for t in x[1:3]]  # it moves the running statistics
    return F.batch_norm(*x, **a)


def normalized(x, a):
    """As torch.nn.functional.rms_norm of PyTorch 2 is documented."""
    dims = tuple(range(-len(a["normalized_shape"]), 0))
    y = x[0] * torch.rsqrt((x[0] * x[0].conj()).real.mean(dims, keepdim=True) + a["eps"])
    if list(x[0].shape[len(x[0].shape) - len(dims):]) != list(a["normalized_shape"]):
        raise ValueError("shape")
    return y * x[1] if len(x) > 1 else y


def attention(x, a):
    """As PyTorch 2 documents scaled_dot_product_attention; a row that sees nothing is 0."""
    if a["dropout_p"] != 0:
        raise Lacks
    q, k, v = x[:3]
    scale = a["scale"] or 1 / math.sqrt(q.size(-1))
    score = q @ k.transpose(-2, -1) * scale
    masks = list(x[3:])
    if a["is_causal"]:  # PyTorch takes one mask at most: of two, both hold
        masks.append(torch.ones(q.size(-2), k.size(-2), dtype=torch.bool).tril())
    for mask in masks:
        score = score.masked_fill(~mask, -math.inf) if mask.dtype == torch.bool else score + mask
    unseen = (score == -math.inf).all(-1, keepdim=True)
    weight = torch.softmax(score.masked_fill(unseen, 0.0), -1).masked_fill(unseen, 0.0)
    return weight @ v


ADAPTERS = {
    # pointwise
    "clamp": lambda x, a: torch.clamp(x[0], whole(a["min"]), whole(a["max"])),
    "sign": lambda x, a: torch.sgn(x[0]),
    "gelu_tanh": lambda x, a: F.gelu(x[0], approximate="tanh"),
    "clamp_tensor": lambda x, a: torch.clamp(*x),
    "polygamma": lambda x, a: torch.polygamma(whole(a["n"]), x[0]),
    "logit": lambda x, a: torch.logit(x[0], None if a["eps"] < 0 else a["eps"]),
    "hardtanh": wholes(F.hardtanh),
    "threshold": wholes(F.threshold),
    "addcmul": wholes(torch.addcmul),
    "addcdiv": wholes(torch.addcdiv),
    "rsub": wholes(torch.rsub),
    "add": wholes(torch.add),
    "sub": wholes(torch.sub),
    # reductions
    "sum": reduction(torch.sum),
    "mean": reduction(torch.mean),
    "amax": reduction(torch.amax),
    "amin": reduction(torch.amin),
    "logsumexp": reduction(torch.logsumexp),
    "prod": prod,
    "var": spread(torch.var),
    "std": spread(torch.std),
    "var_mean": spread(torch.var_mean),
    "std_mean": spread(torch.std_mean),
    "any": one_axis_at_a_time(torch.any),
    "all": one_axis_at_a_time(torch.all),
    "max": either(torch.max),
    "min": either(torch.min),
    "median": either(torch.median),
    "cumsum": cumsum,
    "trapezoid": lambda x, a: torch.trapezoid(*x, dim=a["dim"], **({} if len(x) > 1 else {"dx": a["dx"]})),
    "cumulative_trapezoid": lambda x, a: torch.cumulative_trapezoid(
        *x, dim=a["dim"], **({} if len(x) > 1 else {"dx": a["dx"]})),
    "sum_to": lambda x, a: x[0].sum_to_size(*a["size"]) if a["size"] else x[0].sum(),
    # views, rearrangements, creation
    "cast": lambda x, a: x[0].to(a["dtype"]),
    "as_strided_scatter": lambda x, a: torch.as_strided_scatter(
        x[0], x[1], x[1].shape, a["stride"], a["offset"]),
    "as_strided": by_position(torch.as_strided, "size", "stride", "offset"),
    "reshape": by_position(torch.reshape, "shape"),
    "permute": by_position(torch.permute, "dims"),
    "expand": lambda x, a: x[0].expand(a["size"]),
    "slice": sliced,
    "squeeze": squeeze,
    "window": window,
    "unfold": lambda x, a: x[0].unfold(*a.values()) if list(a) == ["dimension", "size", "step"]
    else x[0].unfold(a.get("dim", a.get("dimension")), a["size"], a["step"]),
    "cat": lambda x, a: torch.cat(x, a["dim"]),
    "stack": lambda x, a: torch.stack(x, a["dim"]),
    "hstack": given(torch.hstack),
    "vstack": given(torch.vstack),
    "dstack": given(torch.dstack),
    "column_stack": given(torch.column_stack),
    "meshgrid": lambda x, a: torch.meshgrid(*x, indexing=a["indexing"]),
    "split": split,
    "unflatten": lambda x, a: x[0].unflatten(a["dim"], a["sizes"]),
    "repeat": lambda x, a: x[0].repeat(a["repeats"]),
    "cross": lambda x, a: torch.linalg.cross(x[0], x[1], dim=a["dim"]),
    "full": lambda x, a: torch.full(a["size"], a["fill_value"], dtype=a["dtype"]),
    "zeros": lambda x, a: torch.zeros(a["size"], dtype=a["dtype"]),
    "ones": lambda x, a: torch.ones(a["size"], dtype=a["dtype"]),
    "arange": arange,
    # order and indices
    "sort": lambda x, a: torch.sort(x[0], dim=a["dim"], descending=a["descending"], stable=True),
    "argsort": lambda x, a: torch.sort(x[0], dim=a["dim"], descending=a["descending"], stable=True)[1],
    "topk": lambda x, a: torch.topk(x[0], a["k"], a["dim"], a["largest"], True),
    "unique": lambda x, a: torch.unique(x[0], return_inverse=True, return_counts=True),
    "unique_consecutive": lambda x, a: torch.unique_consecutive(x[0], return_inverse=True, return_counts=True),
    "gather": lambda x, a: torch.gather(x[0], a["dim"], x[1]),
    "scatter": scatter,
    "scatter_add": scatter_add,
    "index_select": with_dim(torch.index_select),
    "index_add": lambda x, a: torch.index_add(x[0], a["dim"], x[1], x[2], alpha=whole(a["alpha"])),
    "index_copy": with_dim(torch.index_copy),
    "index_fill": with_dim(torch.index_fill, "value"),
    "index": lambda x, a: x[0][tuple(x[1:])],
    "index_put": lambda x, a: torch.index_put(x[0], tuple(x[2:]), x[1], a["accumulate"]),
    "slice_scatter": slice_scatter,
    "masked_fill": lambda x, a: torch.masked_fill(x[0], x[1], x[2] if len(x) > 2 else whole(a["value"])),
    "embedding": embedding,
    # products
    "contract": standard_only(contract),
    "einsum": standard_only(lambda x, a: torch.einsum(a["equation"], *x)),
    "tensordot": tensordot,
    "dot": or_dot(torch.dot),
    "matmul": or_dot(torch.matmul),
    "inner": or_dot(torch.inner),
    "vdot": vdot,
    "vecdot": vecdot,
    "linear": linear,
    "chain_matmul": lambda x, a: torch.linalg.multi_dot(list(x)) if len(x) > 1 else x[0],
    "cdist": lambda x, a: torch.cdist(*x, p=a["p"], compute_mode="donot_use_mm_for_euclid_dist"),
    "scaled_dot_product_attention": attention,
    # norms and losses
    "layer_norm": then(F.layer_norm, 1, "weight", "bias"),
    "group_norm": then(F.group_norm, 1, "weight", "bias"),
    "instance_norm": then(F.instance_norm, 1, "weight", "bias"),
    "batch_norm": batch_norm,
    "rms_norm": normalized,
    "norm": lambda x, a: torch.norm(x[0], p=a["p"], dim=axes(x[0], a["dim"]), keepdim=a["keepdim"]),
    "nll_loss": then(F.nll_loss, 2, "weight"),
    "cross_entropy": then(F.cross_entropy, 2, "weight"),
    "binary_cross_entropy": then(F.binary_cross_entropy, 2, "weight"),
    "binary_cross_entropy_with_logits": then(F.binary_cross_entropy_with_logits, 2, "weight", "pos_weight"),
    "bce_with_logits": then(F.binary_cross_entropy_with_logits, 2),
    "multilabel_soft_margin_loss": then(F.multilabel_soft_margin_loss, 2, "weight"),
    "multi_margin_loss": lambda x, a: then(F.multi_margin_loss, 2, "weight")(x, {**a, "p": whole(a["p"])}),
    "dropout": dropout(F.dropout),
    "feature_dropout": dropout(torch.feature_dropout),
    "alpha_dropout": alpha_dropout,
}
for product in ("addmm", "addmv", "addr", "addbmm"):
    ADAPTERS[product] = wholes(getattr(torch, product))
ADAPTERS["baddbmm"] = baddbmm
for d in (1, 2, 3):
    for pool in ("avg", "max"):
        name = f"adaptive_{pool}_pool{d}d"
        ADAPTERS[name] = adaptive(getattr(F, name), d)
NEEDS_CASE = {"dropout", "feature_dropout", "alpha_dropout"}
# Of gradus alone, or random: PyTorch's numbers come from another generator.
LACKING = {"embed", "fold", "uniform", "normal", "bernoulli"}


def reduced(loss, a):
    return {"none": lambda t: t, "sum": torch.sum, "mean": torch.mean}[a["reduction"]](loss)


def weighted_classes(x, a):
    scores, target, weight = x
    if "label_smoothing" in a:
        scores = torch.log_softmax(scores, min(1, scores.dim() - 1))
    axis = min(1, scores.dim() - 1)
    if target.is_floating_point():  # probabilities
        share = target * (1 - a["label_smoothing"]) + a["label_smoothing"] / scores.size(axis)
        shape = [-1 if d == axis else 1 for d in range(scores.dim())]
        loss = -(share * scores * weight.reshape(shape)).sum(axis)
        return reduced(loss, a) if a["reduction"] != "mean" else loss.sum() / max(1, loss.numel())
    ignored = target == a["ignore_index"]
    index = target.masked_fill(ignored, 0)
    share = weight[index].masked_fill(ignored, 0.0)
    loss = -scores.gather(axis, index.unsqueeze(axis)).squeeze(axis) * share
    smoothing = a.get("label_smoothing", 0.0)
    if smoothing:
        shape = [-1 if d == axis else 1 for d in range(scores.dim())]
        every = -(scores * weight.reshape(shape)).sum(axis).masked_fill(ignored, 0.0)
        loss = loss * (1 - smoothing) + every * smoothing / scores.size(axis)
    return loss.sum() / share.sum() if a["reduction"] == "mean" else reduced(loss, a)


def weighted_margins(x, a):
    scores, target = x[:2]
    index = target.unsqueeze(-1)
    cost = F.relu(scores - scores.gather(-1, index) + a["margin"]) ** whole(a["p"])
    if len(x) > 2:
        cost = cost * x[2][index]
    return reduced(cost.scatter(-1, index, 0.0).sum(-1) / scores.size(-1), a)


def weighted_bce(x, a):
    return reduced(F.binary_cross_entropy(*x[:2], reduction="none") * x[2], a)


def weighted_logits(x, a):
    scores, target, weight = x[:3]
    rise = 1 + (x[3] - 1) * target if len(x) > 3 else 1
    return reduced(((1 - target) * scores - rise * F.logsigmoid(scores)) * weight, a)


def batch_statistics(x, a):
    if a["training"]:  # does not read the running ones
        return F.batch_norm(x[0], None, None, *x[3:], training=True, eps=a["eps"])
    shape = [-1 if d == 1 else 1 for d in range(x[0].dim())]
    mean, var = (t.reshape(shape) for t in x[1:3])
    y = (x[0] - mean) / torch.sqrt(var + a["eps"])
    for t, f in zip(x[3:], (torch.mul, torch.add)):
        y = f(y, t.reshape(shape))
    return y


def running_logsumexp(x, a):
    if x[0].dim() == 0 or x[0].numel() == 0:
        return x[0] + 0
    top = x[0].detach().amax(a["dim"], keepdim=True)
    return (x[0] - top).exp().cumsum(a["dim"]).log() + top


def scattered(x, a):
    place = torch.arange(x[0].numel()).as_strided(x[1].shape, a["stride"], a["offset"])
    return x[0].reshape(-1).scatter(0, place.reshape(-1), x[1].reshape(-1)).reshape(x[0].shape)


# Where PyTorch holds an operand constant that gradus differentiates, or its derivative reads memory
# that it never wrote (WRONG_SLOPES), derivatives are those of the same function in other ops of
# PyTorch; compare_torch.py checks that the values agree.
WRONG_SLOPES = {"as_strided_scatter", "trace"}
WRONG_JVP = {"logcumsumexp": running_logsumexp}  # NaN
SLOPES = {"nll_loss": weighted_classes, "cross_entropy": weighted_classes, "multi_margin_loss": weighted_margins,
          "binary_cross_entropy": weighted_bce, "binary_cross_entropy_with_logits": weighted_logits,
          "batch_norm": batch_statistics, "as_strided_scatter": scattered, "trace": lambda x, a: x[0].diagonal().sum()}


def find(info):
    """f(inputs, attrs, case), or None where PyTorch lacks the op."""
    name = info["name"]
    if name in LACKING:
        return None
    if name in NEEDS_CASE:
        return lambda x, a, case: ADAPTERS[name](x, a, case)
    if name in ADAPTERS:
        return lambda x, a, case: ADAPTERS[name](x, a)
    for home in (F, torch, torch.special, torch.linalg, torch.Tensor):
        function = getattr(home, name, None)
        if callable(function):
            return lambda x, a, case: function(*x, **present(a))
    return None


# ---- known differences. Each rule: the id of a row of ops/SEMANTICS.md, and what it explains.

def number_operand(d):
    return d.what == "accepts" and any(n in ("float", "int") or (n == "bool" and not torch.is_tensor(x))
                                       for n, x in zip(d.dtypes, d.case.inputs)) and (
        "must be Tensor" in d.text or "invalid combination" in d.text)


def complex_half(d):
    return "complex32" in d.text or "ComplexHalf" in d.text or (
        d.expected is not None and d.expected.dtype == torch.complex32)


def refuses_bool(d):
    return d.what == "accepts" and "bool" in d.dtypes and re.search(r"\b[bB]ool", d.text)


def mixed(d):
    return len({x.dtype for x in d.case.inputs if torch.is_tensor(x) and x.dtype != torch.bool}) > 1


def narrowest(d):
    return max((n for n in d.dtypes if n in TOLERANCE), key=TOLERANCE.get, default="f64")


def promoted(inputs):
    """PyTorch's own promotion of all operands: those with axes, then 0-d tensors, then numbers."""
    level = lambda x: 2 if not torch.is_tensor(x) else 1 if x.dim() == 0 else 0
    result = None
    for x in sorted(inputs, key=level):
        if result is None:
            result = torch.empty([1] * (1 - level(x)), dtype=x.dtype) if torch.is_tensor(x) else x
        else:
            result = torch.empty([1] * getattr(result, "ndim", 0), dtype=torch.result_type(result, x))
    return result.dtype


def promotes_more(d):
    """Mixed dtypes, or integers where PyTorch wants real numbers; or the dtype of one operand for all."""
    if d.what == "dtype":
        return d.op in ("prelu", "huber_loss", "cosine_embedding_loss") and d.got.dtype == promoted(d.case.inputs)
    return d.what == "accepts" and re.search(
        r"can't be cast|expected scalar type|same dtype|should (have|be) the same|must have the same|did not match"
        r"|with different dtypes|expected dtype .* but got|Found dtype|mixed dtype|could not infer output dtype", d.text)


MORE_KERNELS = (r"not implemented for|(Integral|Complex) inputs not supported|only supports floating-point dtypes"
                r"|Expected a floating point or complex tensor")


def all_integers(d):
    return all(n in ("u8", "i32", "i64", "bool", "int") for n in d.dtypes)


def fraction(d):
    return all_integers(d) and any(isinstance(v, float) and math.isfinite(v) and v != int(v) for v in d.attrs.values()) and (
        d.what in ("dtype", "value") or "argument alpha must not be" in d.text)


def of_nothing(d):
    """A derivative of 0 / 0."""
    return d.what in ("grad", "second_w", "jvp") and d.got is not None and d.expected is not None and any(
        torch.is_tensor(x) and x.numel() == 0 for x in d.case.inputs) and bool(d.got[apart(d)].isnan().all())


def first_nan_wins(d):
    """With numbers for NaN that make the first one the largest, PyTorch has the gradient of gradus."""
    x = d.case.inputs[0]
    if d.what != "grad" or int(x.isnan().sum()) < 2:
        return False
    large = torch.where(x.isnan(), 1e6 - torch.arange(x.numel()).reshape(x.shape), x).requires_grad_()
    y = ADAPTERS.get(d.op, getattr(F, d.op, None))
    y = y([large], d.attrs) if d.op in ADAPTERS else y(large, **present(d.attrs))
    return torch.equal(torch.autograd.grad(y.sum(), large)[0], d.got)


def writes_twice(d):
    """Does an op that replaces elements replace one more than once?"""
    x, a = d.case.inputs, d.attrs
    if a.get("accumulate") or d.op not in ("scatter", "index_copy", "index_put", "put"):
        return False
    count = torch.zeros(x[0].shape)
    if d.op == "scatter":
        count.scatter_add_(a["dim"], x[1], torch.ones(x[1].shape))
    elif d.op == "index_copy":
        count.index_add_(a["dim"], x[1], torch.ones(x[2].shape))
    elif d.op == "put":
        count.put_(x[1], torch.ones(x[1].shape), accumulate=True)
    else:
        count.index_put_(tuple(x[2:]), torch.ones(()), accumulate=True)
    return bool((count > 1).any())


def other_of_equals(d):
    """Indices of other elements of the same value."""
    if d.op not in ("topk", "kthvalue") or d.got is None:
        return False
    if d.what == "grad":
        return d.kind == "ties"
    x, dim = d.case.inputs[0], d.attrs["dim"]
    if d.what != "value" or d.got.dtype != torch.int64 or d.got.shape != d.expected.shape:
        return False
    pick = lambda i: torch.gather(x, dim, i) if i.dim() == x.dim() else torch.gather(x, dim, i.unsqueeze(dim))
    a, b = pick(d.got), pick(d.expected)
    return bool(((a == b) | (a.isnan() & b.isnan())).all())


def has_nan(d):
    x = d.case.inputs[0]
    return x.is_floating_point() and bool(x.isnan().any())


def half_steps(d):
    """Of several steps in 16 bits each may be off by half a unit of what it adds."""
    if d.what != "value" or NAMES[d.got.dtype] not in ("f16", "bf16"):
        return False
    size = 1.0
    for x in d.case.inputs:
        if torch.is_tensor(x) and x.is_floating_point() and x.numel():
            size *= max(1.0, float(x.abs().max()))
    off = (d.got.double() - d.expected.double()).abs().max()
    size = max(size, float(d.expected.abs().max()))
    return bool(off <= 2 * torch.finfo(d.got.dtype).eps * size)


STEPS = ("addcmul", "addcdiv", "lerp", "avg_pool1d", "avg_pool2d", "avg_pool3d", "adaptive_avg_pool2d",
         "adaptive_avg_pool3d", "conv_transpose2d", "kl_div", "bilinear",
         "scaled_dot_product_attention")


def f32_constants(d):
    """PyTorch keeps 1/6, alpha or p in f32 in its f64 kernels."""
    inexact = lambda v: isinstance(v, float) and math.isfinite(v) and float(torch.tensor(v, dtype=torch.float32)) != v
    return d.what != "dtype" and d.error < 1e-6 and (
        d.op == "hardsigmoid" or d.op == "celu" and inexact(d.attrs["alpha"])
        or d.op in ("norm", "dist", "cdist", "pairwise_distance", "triplet_margin_loss") and inexact(d.attrs["p"]))


# ---- differences element by element, at the edges of numbers

def apart(d):
    """Where the two differ by more than rounding."""
    a, b = d.got, d.expected
    near = (a - b).abs() <= 1e-9 * b.abs()
    return ~(near | (a == b) | (a.isnan() & b.isnan()))


# id, ops (all if none), where (of the operand x, gradus' a, PyTorch's b, the value y)
POINTS = [
    ("limits", (), lambda x, a, b, y: (x.abs() >= 1e3) & (b.isnan() | (a * b == 0) & (a.abs() < 1e-160))),
    ("sign-of-nan", ("abs", "sign", "sgn", "softshrink"), lambda x, a, b, y: x.isnan()),
    ("poles", ("digamma", "polygamma"), lambda x, a, b, y: (x <= 0) & (x == x.trunc()) & (a.isinf() | x.isinf())),
    ("outside-domain", ("logit", "acosh"), lambda x, a, b, y: y.isnan() & ~x.isnan()),
    ("trigamma-digits", ("digamma", "polygamma", "lgamma"), lambda x, a, b, y: (a - b).abs() <= 1e-8 * b.abs()),
]


def at_points(d):
    """The ids that explain all elements, or none."""
    if d.kind != "special" or d.what not in ("value", "grad") or len(d.case.inputs) != 1 or d.expected is None:
        return None
    left, ids = apart(d), []
    for name, names, where in POINTS:
        if not names or d.op in names:
            here = left & where(d.case.inputs[0], d.got, d.expected, d.case.list("out")[0])
            if here.any():
                ids.append(name)
                left = left & ~here
    return ids if ids and not left.any() else None


def nan_at(d):
    """All that differs comes of NaN operands: an element's slope, or the whole loss."""
    return d.got is not None and any(torch.is_tensor(x) and x.is_floating_point() and x.isnan().any()
                                     for x in d.case.inputs) and bool(d.got[apart(d)].isnan().all())


EXPLAINED = [
    ("numbers-anywhere", number_operand),
    ("no-complex-half", complex_half),
    ("bool-arithmetic", refuses_bool),
    ("more-kernels", lambda d: d.what == "accepts" and re.search(MORE_KERNELS, d.text)),
    ("sign-of-nan", lambda d: d.op in ("l1_loss", "multi_margin_loss") and d.kind == "ties" and nan_at(d)),
    ("limits", lambda d: d.op == "copysign" and d.kind == "special" and d.what == "grad"
     and bool(d.expected[apart(d)].isnan().all())),
    ("clamp-unsigned", lambda d: d.op == "clamp" and d.what == "value" and d.dtypes == ["u8"] and d.attrs["min"] < 0
     or d.op == "hardtanh" and "unsigned type with negative limits" in d.text),
    ("fractions", fraction),
    ("addcdiv-integers", lambda d: d.op == "addcdiv" and "Integer division with addcdiv" in d.text),
    ("pad-to-nothing", lambda d: d.op == "pad" and d.what in ("accepts", "slopes") and "negative output size" in d.text
     and (0 in d.case.list("out")[0].shape or d.what == "slopes")),
    ("mean-of-nothing", of_nothing),
    ("norm-of-nothing", lambda d: d.op == "dist" and d.what == "second_w" and d.case.inputs[0].numel() == 0
     and float(d.got) == 0),
    ("sum-of-nothing", lambda d: d.op == "multi_margin_loss" and d.what == "value" and float(d.got) == 0
     and d.case.inputs[0].numel() == 0),
    ("as-strided-overlap", lambda d: d.op == "as_strided" and d.what == "refuses" and "overlap" in d.text),
    ("tensordot-ones", lambda d: d.op == "tensordot" and d.what == "refuses" and re.search(r"axis \d+ of . is 1\b", d.text)),
    ("no-classes", lambda d: d.op in ("nll_loss", "cross_entropy") and d.what == "refuses"
     and d.case.inputs[0].numel() == 0),
    ("empty-index", lambda d: d.what == "refuses" and any(
        torch.is_tensor(x) and x.dtype == torch.int64 and x.numel() == 0 for x in d.case.inputs)),
    ("floats-wanted", lambda d: d.what == "refuses" and "is not defined; cast to f32 first" in d.text),
    ("real-activations", lambda d: d.what == "refuses" and d.op in ("silu", "softsign", "soft_margin_loss")
     and re.search(r"is not defined for c(64|128)", d.text)),
    ("pool-padding", lambda d: "_pool" in d.op and d.what == "accepts" and any(d.attrs["padding"])
     and re.search("at most half of kernel size|smaller than kernel size", d.text)),
    ("empty-batch", lambda d: "_pool" in d.op and d.what == "accepts" and 0 in d.case.inputs[0].shape
     and "optional 0 dim batch size" in d.text),
    ("spread-of-one", lambda d: d.op == "instance_norm" and "Expected more than 1 spatial element" in d.text),
    ("any-rank", lambda d: d.op == "local_response_norm" and "Expected 3D or higher" in d.text),
    ("last-nan", lambda d: "max_pool" in d.op and d.kind == "ties" and first_nan_wins(d)),
    ("cosine-eps", lambda d: d.op == "cosine_similarity" and d.what in ("grad", "second", "second_w", "jvp")
     and any(bool((x.norm(dim=d.attrs["dim"]) < d.attrs["eps"]).any()) for x in d.case.inputs)),
    ("bce-epsilon", lambda d: d.op == "binary_cross_entropy" and d.what in ("second", "second_w") and d.error < 1e-8),
    ("trigamma-digits", lambda d: d.op in ("lgamma", "digamma", "polygamma") and d.error < 1e-8
     or d.op == "digamma" and d.what == "value" and d.dtypes == ["f32"] and d.error < 1e-4),
    ("f32-constants", f32_constants),
    ("half-steps", lambda d: d.op in STEPS and half_steps(d)),
    ("einsum-integers", lambda d: d.op in ("contract", "einsum", "tensordot") and d.dtypes[0] in ("i32", "u8")
     and (d.what == "dtype" or "Long but found" in d.text)),
    ("promotes-more", promotes_more),
    ("negative-to-u8", lambda d: d.op == "as_strided_scatter" and d.dtypes == ["u8", "f64"] and d.what == "value"),
    ("last-written", lambda d: d.what in ("grad", "second", "second_w", "jvp") and writes_twice(d)),
    ("source-dtype", lambda d: d.op in ("select_scatter", "slice_scatter", "diagonal_scatter") and d.what == "refuses"
     and len(set(d.dtypes)) > 1 and ", source " in d.text),
    ("negative-steps", lambda d: d.op == "slice_scatter" and d.attrs["step"] < 0 and "step must be positive" in d.text),
    ("sign-of-nan", lambda d: d.op == "multi_margin_loss" and d.kind == "ties" and has_nan(d)),
    ("any-of-u8", lambda d: d.op in ("any", "all") and d.what == "dtype" and d.dtypes == ["u8"]),
    ("order-of-equals", other_of_equals),
    ("median-ties", lambda d: d.op == "median" and d.kind == "ties" and d.what == "grad" and d.attrs["dim"] is None),
    ("max-nan", lambda d: d.op in ("max", "min") and d.what == "grad" and has_nan(d) and bool(d.got.isnan().all())),
    ("unique-nan", lambda d: d.op in ("unique", "unique_consecutive") and has_nan(d)),
    ("bincount-dtype", lambda d: d.op == "bincount" and d.what in ("dtype", "value", "slopes") and len(d.dtypes) > 1
     and d.dtypes[1] not in ("f32", "f64")),
    ("checked-always", lambda d: d.op in ("cummax", "cummin", "diff") and d.what == "refuses"
     and (d.case.inputs[0].dim() == 0 or d.case.inputs[0].numel() == 0)),
    ("mixed-rounding", lambda d: d.what == "value" and mixed(d) and d.error <= TOLERANCE[narrowest(d)]),
]


def explanation(d):
    """The ids of the rows that explain a difference; none if nothing does."""
    for reason, matches in EXPLAINED:
        if matches(d):
            return [reason]
    return at_points(d)
