"""For compare_torch.py: how each op of gradus is called in PyTorch.

Most ops are found by their name in torch.nn.functional, torch, torch.special, torch.linalg or
torch.Tensor, with operands by position and attributes by name. ADAPTERS holds the others."""
import math

import torch
import torch.nn.functional as F

import torch_linalg
from torch_linalg import Lacks

DTYPES = {"f32": torch.float32, "f64": torch.float64, "c64": torch.complex64, "c128": torch.complex128,
          "i32": torch.int32, "i64": torch.int64, "u8": torch.uint8, "bool": torch.bool,
          "f16": torch.float16, "bf16": torch.bfloat16}
NAMES = {dtype: name for name, dtype in DTYPES.items()}
END = 2**63 - 1

# How far two correct implementations may differ, by the dtype of the result: relative to an element,
# or to a hundredth of the largest one, whichever is larger. Of derivatives, in f64 and c128 alone.
TOLERANCE = {"f64": 1e-11, "c128": 1e-11, "f32": 1e-5, "c64": 1e-5, "f16": 8e-3, "bf16": 6e-2}
SLOPE_TOLERANCE = 1e-10


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
    y = torch.einsum(x[0], short(a["labels_a"]), x[1], short(a["labels_b"]), short(a["labels_out"]))
    return y + x[2] if len(x) > 2 else y


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
        if not a["training"] or a["p"] in (0, 1) or case.refused or not (x[0].is_floating_point() or x[0].is_complex()):
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
    out = case.list("out")[0]
    kept = (out - (scale * low + shift)).abs() > (1e-2 if out.dtype in (torch.float16, torch.bfloat16) else 1e-5)
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
    return F.embedding(index, weight, padding_idx=a["padding_idx"] if a.get("padding_idx", -1) != -1 else None)


def together(x):
    """Operands of one dtype broadcast: PyTorch writes into the shape of one of them."""
    one = all(map(torch.is_tensor, x)) and len({t.dtype for t in x}) == 1
    return torch.broadcast_tensors(*x) if one else x


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
        y = x[0]
        if not a["dim"]:
            return function(y).reshape([1] * y.dim() if a["keepdim"] else [])
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
    if not dims or list(x[0].shape[len(x[0].shape) - len(dims):]) != list(a["normalized_shape"]):
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
    "clamp_tensor": lambda x, a: torch.clamp(*together(x)),
    "isclose": lambda x, a: torch.isclose(*together(x), **a),
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
ADAPTERS.update(torch_linalg.ADAPTERS)
NEEDS_CASE = {"dropout", "feature_dropout", "alpha_dropout"}
# Of gradus alone, or random: PyTorch's numbers come from another generator.
LACKING = {"embed", "block_copy", "grouped_contract", "fold", "uniform", "normal", "bernoulli"} | torch_linalg.LACKING


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
