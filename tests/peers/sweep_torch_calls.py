"""For sweep_torch.py: how a call of PyTorch's reads in gradus. A sample of the operator database is an
input, arguments and keywords; PARAMETERS says what PyTorch calls them where that is not the order of
gradus' own operands and attributes, FORMS changes calls that gradus writes otherwise."""
import math

import torch

import torch_linalg as linalg
from compare_torch_ops import NAMES


class Left(Exception):
    """A form of the op that gradus leaves out; the message says which."""


# The op of gradus for an entry of the database, where the last part of its name is not it.
RENAMED = {
    "__getitem__": "index", "__radd__": "add", "__rand__": "bitwise_and", "__rdiv__": "div",
    "__rmatmul__": "matmul", "__rmod__": "remainder", "__rmul__": "mul", "__ror__": "bitwise_or",
    "__rpow__": "pow", "__rsub__": "sub", "__rxor__": "bitwise_xor", "alias_copy": "clone",
    "as_strided_copy": "as_strided", "bfloat16": "cast", "bool": "cast", "byte": "cast", "cdouble": "cast",
    "cfloat": "cast", "double": "cast", "float": "cast", "half": "cast", "int": "cast", "long": "cast",
    "clamp_max": "clamp", "clamp_min": "clamp", "concat": "cat", "conj_physical": "conj",
    "constant_pad_nd": "pad", "diagonal_copy": "diagonal", "div|floor_rounding": "floor_divide",
    "expand_as": "expand", "expand_copy": "expand", "true_divide": "div", "linalg.diagonal": "diagonal",
    "max|binary": "maximum",
    "max|reduction_no_dim": "max", "max|reduction_with_dim": "max", "min|binary": "minimum",
    "min|reduction_no_dim": "min", "min|reduction_with_dim": "min", "narrow_copy": "narrow",
    "nn.functional.dropout2d": "feature_dropout", "nn.functional.dropout3d": "feature_dropout",
    "nn.functional.batch_norm|without_cudnn": "batch_norm", "permute_copy": "permute",
    "reshape_as": "reshape", "split_with_sizes": "split", "split_with_sizes_copy": "split",
    "squeeze_copy": "squeeze", "sum_to_size": "sum_to", "swapaxes": "transpose", "t": "permute",
    "t_copy": "permute", "to": "cast", "transpose_copy": "transpose", "trapz": "trapezoid",
    "unbind_copy": "unbind", "unfold_copy": "unfold", "unsafe_chunk": "chunk", "unsafe_split": "split",
    "unsqueeze_copy": "unsqueeze", "view": "reshape", "view_as": "reshape", "view_copy": "reshape",
    "T": "permute", "H": "permute", "mT": "transpose", "mH": "transpose", "short": "", "char": "",
    "special.xlog1py": "xlog1py", "special.ndtr": "ndtr",
}
# Entries whose last part names another op than that of gradus.
OTHERS = {"nn.functional.unfold", "norm|nuc", "masked.", "fft.", "signal.", "sparse.", "linalg.norm", "normal", "uniform", "bernoulli", "max_pool2d_with_indices_backward"}

# Names of positional parameters, input first; "*x" takes all that follow, or one list of them.
PARAMETERS = {
    "__rdiv__": "b a", "__rmatmul__": "b a", "__rmod__": "b a", "__rpow__": "b a", "__rsub__": "b a",
    "adaptive_max_pool1d": "input output_size return_indices", "adaptive_max_pool2d": "input output_size return_indices",
    "adaptive_max_pool3d": "input output_size return_indices",
    "as_strided": "x size stride offset", "as_strided_scatter": "x src size stride offset",
    "avg_pool1d": "input kernel_size stride padding ceil_mode count_include_pad",
    "avg_pool2d": "input kernel_size stride padding ceil_mode count_include_pad divisor_override",
    "avg_pool3d": "input kernel_size stride padding ceil_mode count_include_pad divisor_override",
    "batch_norm": "x running_mean running_var weight bias training momentum eps",
    "broadcast_tensors": "*tensors", "broadcast_to": "x size", "cat": "*tensors dim",
    "cdist": "x1 x2 p compute_mode", "chain_matmul": "*matrices", "clamp": "x min max", "clamp_max": "x max",
    "clamp_min": "x min",
    "conv_transpose1d": "input weight bias stride padding output_padding groups dilation",
    "cosine_embedding_loss": "x1 x2 target margin", "cross_entropy": "logits target weight",
    "diagonal_scatter": "x src offset dim1 dim2", "diff": "x n dim prepend append",
    "einsum": "*operands equation", "embedding": "weight index padding_idx", "expand": "x *size",
    "expand_as": "x other", "eye": "n m", "flip": "x *dims", "gather": "x dim index",
    "group_norm": "x num_groups weight bias eps", "index_add": "x dim index source alpha",
    "index_copy": "x dim index source", "index_fill": "x dim index value", "index_put": "x indices values accumulate",
    "index_select": "x dim index", "instance_norm": "x running_mean running_var weight bias use_input_stats momentum eps",
    "__getitem__": "x indices", "arange": "start end step", "any": "x dim keepdim", "trapezoid": "y x",
    "layer_norm": "x normalized_shape weight bias eps", "linalg.diagonal": "x offset dim1 dim2",
    "log_softmax": "x dim dtype", "masked_fill": "x mask value",
    "max_pool1d": "input kernel_size stride padding dilation ceil_mode return_indices",
    "max_pool2d": "input kernel_size stride padding dilation ceil_mode return_indices",
    "max_pool3d": "input kernel_size stride padding dilation ceil_mode return_indices",
    "meshgrid": "*tensors indexing", "nll_loss": "log_probabilities target weight", "norm": "x p dim keepdim dtype",
    "pad": "x pad mode value", "constant_pad_nd": "x pad value", "permute": "x *dims", "polygamma": "x n",
    "put": "x index source accumulate", "repeat": "x *repeats", "repeat_interleave": "x repeats dim",
    "reshape": "x *shape", "view": "x *shape", "reshape_as": "x other", "view_as": "x other",
    "rms_norm": "x normalized_shape weight eps", "roll": "x shifts dims", "round": "x decimals",
    "scaled_dot_product_attention": "query key value attn_mask dropout_p is_causal", "scatter": "x dim index src reduce",
    "scatter_add": "x dim index source", "searchsorted": "sorted_sequence values", "select_scatter": "x src dim index",
    "slice_scatter": "x src dim start end step", "softmax": "x dim dtype", "sort": "x dim descending stable",
    "split": "x split_size_or_sections dim", "std": "x unbiased", "std_mean": "x unbiased",
    "sum": "x dim keepdim dtype", "sum_to": "x *size", "take_along_dim": "x indices dim",
    "tensordot": "a b dims", "tile": "x *dims", "to": "x device dtype non_blocking copy", "topk": "x k dim largest sorted",
    "transpose": "x dim0 dim1", "unflatten": "x dim sizes", "unfold": "x dimension size step",
    "unique": "x sorted return_inverse return_counts dim", "unique_consecutive": "x return_inverse return_counts dim",
    "var": "x unbiased", "var_mean": "x unbiased", "vstack": "*tensors", "where": "a m b",
}
RENAMED.update(linalg.RENAMED)
PARAMETERS.update(linalg.PARAMETERS)
PARAMETERS["conv_transpose2d"] = PARAMETERS["conv_transpose3d"] = PARAMETERS["conv_transpose1d"]
for _name in ("hstack", "dstack", "column_stack"):
    PARAMETERS[_name] = "*tensors"
PARAMETERS["stack"] = "*tensors dim"
# Keywords of PyTorch's that gradus calls otherwise.
KEYWORDS = {"storage_offset": "offset", "ord": "p", "input": "x", "self": "x", "other": "b", "exponent": "b"}
# Keywords that change nothing here.
IDLE = {"memory_format", "device", "requires_grad", "layout", "pin_memory", "compute_mode", "inplace", "sparse", "sorted"}
# What leaving a parameter out means in PyTorch, where a call gives it.
DEFAULTS = {"size_average": (None,), "reduce": (None,), "dtype": (None,), "return_indices": (False, True),
            "divisor_override": (None,), "mode": ("constant", None), "decimals": (0,), "max_norm": (None,),
            "norm_type": (2.0,), "scale_grad_by_freq": (False,), "enable_gqa": (False,), "rounding_mode": (None, "floor"), "alpha": (1,),
            "as_tuple": (False,), "out": (None,), "driver": (None,), "sorter": (None,), "out_int32": (False,),
            "bias": (None,), "weight": (None,), "pos_weight": (None,)}


def target(entry, known):
    """The op of gradus for an entry of the database, or None."""
    full = entry.name + ("|" + entry.variant_test_name if entry.variant_test_name else "")
    if any(full == o or entry.name == o or o.endswith(".") and full.startswith(o) for o in OTHERS):
        return None
    name = RENAMED.get(full, RENAMED.get(entry.name, entry.name.split(".")[-1]))
    return name if name in known else None


def listed(value):
    return list(value) if isinstance(value, (list, tuple, torch.Size)) else [value]


def bound(entry, op, info, sample):
    """Parameters by gradus' names."""
    names = PARAMETERS.get(entry.name, PARAMETERS.get(entry.name.split(".")[-1], PARAMETERS.get(op)))
    if names is None:
        operands = list(info["operands"])
        if info["variadic"]:
            operands[-1] = "*" + operands[-1]
        names = operands + list(info["attrs"])
    else:
        names = names.split()
    values = [sample.input, *sample.args]
    params, variadic = {}, None
    for at, name in enumerate(names):
        if not values:
            break
        if name.startswith("*"):
            name = name[1:]
            if isinstance(values[0], (list, tuple)):
                params[name] = list(values.pop(0))
            elif at + 1 < len(names) and name != "tensors" and name != "operands":
                params[name] = [values.pop(0)]
            else:
                taken = [v for v in values if torch.is_tensor(v)] if name in ("tensors", "operands") else values
                params[name], values = list(taken), values[len(taken):]
                if values and isinstance(values[0], (list, tuple)) and torch.is_tensor(next(iter(values[0]), None)):
                    params[name] += values.pop(0)
        else:
            params[name] = values.pop(0)
    if values:
        raise Left(f"{len(values)} more arguments")
    for name, value in sample.kwargs.items():
        name = KEYWORDS.get(name, name) if name not in info["attrs"] and name not in info["operands"] else name
        if name in params:
            raise Left(f"{name} twice")
        params[name] = value
    return params


# ---- forms: each takes and gives (op, params), or raises Left

def cast(op, p, entry):
    name = {"double": "float64", "float": "float32", "half": "float16", "int": "int32", "long": "int64",
            "byte": "uint8", "cdouble": "complex128", "cfloat": "complex64"}.get(entry.name, entry.name)
    if entry.name == "to":
        dtype = p.pop("dtype", None)
        device = p.pop("device", None)
        dtype = device if isinstance(device, torch.dtype) else dtype
        for extra in ("non_blocking", "copy"):
            p.pop(extra, None)
        if not isinstance(dtype, torch.dtype):
            raise Left("to(device)")
    else:
        dtype = getattr(torch, name)
    return "cast", {**p, "dtype": dtype}


def clamp(op, p, entry):
    low, high = p.get("min"), p.get("max")
    if not torch.is_tensor(low) and not torch.is_tensor(high):
        return op, {k: v for k, v in p.items() if v is not None}
    x = p["x"]
    if low is None and high is None:
        return op, p
    if low is None:
        return "minimum", {"a": x, "b": high}
    if high is None:
        return "maximum", {"a": x, "b": low}
    return "clamp_tensor", {"x": x, "min": low, "max": high}


def order(x):
    return list(range(x.dim()))


def transposed(op, p, entry):
    x = p["x"]
    if entry.name in ("H", "mH") and x.is_complex():
        raise Left("conjugated too")
    if entry.name in ("t", "t_copy") and x.dim() > 2:
        raise Left("t of more than two axes")
    if entry.name in ("t", "t_copy", "T", "H"):
        return "permute", {"x": x, "dims": order(x)[::-1]}
    return "transpose", {"x": x, "dim0": -2, "dim1": -1}


def as_other(op, p, entry):
    return op, {"x": p["x"], {"expand": "size"}.get(op, "shape"): list(p["other"].shape)} if "other" in p else p


def spread(op, p, entry):
    p = dict(p)
    unbiased = p.pop("unbiased", None)
    if isinstance(unbiased, (int, list, tuple)) and not isinstance(unbiased, bool):
        p["dim"], unbiased = unbiased, None
    if unbiased is not None:
        p["correction"] = int(unbiased)
    return op, p


def index(op, p, entry):
    i = p["indices"]
    i = list(i) if isinstance(i, (tuple, list)) else [i]
    if not i or not all(torch.is_tensor(one) for one in i):
        raise Left("subscripts that are no tensors")
    out = {"x": p["x"], "indices": i}
    if op == "index_put":
        out = {"x": p["x"], "values": p["values"], "indices": i, "accumulate": p.get("accumulate", False)}
    return op, out


def index_value(op, p, entry):
    value = p.get("value")
    return op, {**p, "value": value.item()} if torch.is_tensor(value) and not value.requires_grad else p


def scatter(op, p, entry):
    if p.get("reduce") is not None:
        raise Left("reduce")
    p = dict(p)
    src = p.pop("src", p.pop("value", None))
    return op, {**p, "src": src} if torch.is_tensor(src) else {**p, "value": src}


def batch_norm(op, p, entry):
    p = dict(p)
    x = p.get("x")
    channels = [x.shape[1]] if torch.is_tensor(x) and x.dim() > 1 else [1]
    real = x.abs().dtype if torch.is_tensor(x) else torch.float32
    for name, one in (("running_mean", 0.0), ("running_var", 1.0)):
        if p.get(name) is None:
            if not p.get("training"):
                raise Left("no running statistics, and not training")
            p[name] = torch.full(channels, one, dtype=real)
    return op, fill(p, ("weight", "bias"), channels, real)


def fill(p, names, shape, dtype):
    """A weight that is not given, where a later operand is, is 1."""
    if p.get(names[0]) is None and p.get(names[1]) is not None:
        p[names[0]] = torch.ones(shape, dtype=p[names[1]].dtype)
    return p


def normal_form(op, p, entry):
    p = dict(p)
    if op == "instance_norm":
        if p.get("use_input_stats") is False:
            raise Left("running statistics")
        for name in ("running_mean", "running_var", "use_input_stats", "momentum"):
            p.pop(name, None)
        channels = [p["x"].shape[1]] if p["x"].dim() > 1 else [1]
        return op, fill(p, ("weight", "bias"), channels, p["x"].dtype)
    if op == "layer_norm":
        return op, fill(p, ("weight", "bias"), listed(p["normalized_shape"]), p["x"].dtype)
    if op == "group_norm" and p["x"].dim() > 1:
        return op, fill(p, ("weight", "bias"), [p["x"].shape[1]], p["x"].dtype)
    if op == "rms_norm" and p.get("eps") is None:
        p["eps"] = torch.finfo(p["x"].dtype).eps
    return op, p


def weighted(op, p, entry):
    return op, fill(dict(p), ("weight", "pos_weight"), [1], torch.float64)


def same_padding(op, p, entry):
    p = dict(p)
    pad = p.get("padding", 0)
    if pad == "valid":
        p["padding"] = 0
    elif pad == "same":
        sizes = p["weight"].shape[2:]
        dilation = listed(p.get("dilation", 1))
        dilation = dilation * len(sizes) if len(dilation) == 1 else dilation
        total = [d * (k - 1) for d, k in zip(dilation, sizes)]
        if any(t % 2 for t in total) or any(s != 1 for s in listed(p.get("stride", 1))):
            raise Left("padding that is not even")
        p["padding"] = [t // 2 for t in total]
    elif isinstance(pad, str):
        raise Left(f"padding {pad}")
    return op, p


def pool(op, p, entry):
    p = {k: v for k, v in p.items() if k != "return_indices"}
    if isinstance(p.get("stride"), (list, tuple)) and len(p["stride"]) == 0:
        p.pop("stride")
    if "output_size" in p:
        x, sizes = p["input"], listed(p["output_size"])
        spatial = int(op[-2])
        if None in sizes:
            sizes = [x.shape[x.dim() - spatial + i] if s is None else s for i, s in enumerate(sizes)]
        p["output_size"] = sizes
    return op, p


def tensordot(op, p, entry):
    dims = p.pop("dims", 2)
    if isinstance(dims, (tuple, list)):
        a, b = (listed(d) for d in dims)
        return op, {**p, "dims_a": a, "dims_b": b}
    return op, {**p, "dims": int(dims)}


def arange(op, p, entry):
    values = [p[k] for k in ("start", "end", "step") if k in p]
    if len(values) == 1:
        p = {**{k: v for k, v in p.items() if k != "start"}, "start": 0, "end": values[0]}
    if p.get("dtype") is None:
        real = any(isinstance(v, float) for v in values)
        p["dtype"] = torch.float32 if real else torch.int64
    return op, p


def linspace(op, p, entry):
    for k in ("start", "end"):
        if torch.is_tensor(p[k]):
            p[k] = p[k].item()
        if isinstance(p[k], complex):
            raise Left("complex ends")
    if p.get("dtype") is None:
        p["dtype"] = torch.float32
    return op, p


def created(op, p, entry):
    p = dict(p)
    if p.get("dtype") is None:
        p["dtype"] = torch.float32
    return op, p


def logit(op, p, entry):
    return op, {k: v for k, v in p.items() if v is not None}


def unique(op, p, entry):
    if p.get("dim") is not None:
        raise Left("unique rows")
    p = {k: v for k, v in p.items() if k != "dim"}
    return op, {k: v for k, v in p.items() if k not in ("sorted", "return_inverse", "return_counts")}


def round_(op, p, entry):
    if p.pop("decimals", 0) != 0:
        raise Left("decimals")
    return op, p


def diff(op, p, entry):
    parts = [p.pop(k, None) for k in ("prepend", "append")]
    if any(t is not None for t in parts):
        raise Left("prepend, append")
    return op, p


def searchsorted(op, p, entry):
    side, right = p.pop("side", None), p.pop("right", False)
    if p.pop("sorter", None) is not None or p.pop("out_int32", False):
        raise Left("sorter, out_int32")
    return op, {**p, "right": right or side == "right"}


def vector_norm(op, p, entry):
    p = {k: v for k, v in p.items() if v is not None}
    if p.get("p") in ("fro", None):
        p["p"] = 2.0
    if p["p"] == "nuc":
        raise Left("nuclear norm")
    return op, p


def attention(op, p, entry):
    if p.pop("enable_gqa", False):
        raise Left("enable_gqa")
    if p.get("dropout_p"):
        raise Left("dropout_p")
    return op, {k: v for k, v in p.items() if v is not None}


def embedding(op, p, entry):
    if p.get("padding_idx") is not None and p["padding_idx"] < 0:
        p["padding_idx"] += p["weight"].shape[0]
    return op, {k: v for k, v in p.items() if v is not None}


def scatter_shape(op, p, entry):
    if list(p.pop("size")) != list(p["src"].shape):
        raise Left("a size that is not the source's")
    return op, p


FORMS = {
    "cast": cast, "permute": lambda op, p, e: transposed(op, p, e) if e.name in ("t", "t_copy", "T", "H") else (op, p),
    "transpose": lambda op, p, e: transposed(op, p, e) if e.name in ("mT", "mH") else (op, p), "clamp": clamp,
    "reshape": as_other, "expand": as_other, "std": spread, "var": spread, "std_mean": spread, "var_mean": spread,
    "index": index, "index_put": index, "index_fill": index_value, "scatter": scatter, "batch_norm": batch_norm,
    "instance_norm": normal_form, "layer_norm": normal_form, "group_norm": normal_form, "rms_norm": normal_form,
    "conv1d": same_padding, "conv2d": same_padding, "conv3d": same_padding, "tensordot": tensordot, "arange": arange,
    "linspace": linspace, "full": created, "zeros": created, "ones": created, "eye": created, "logit": logit,
    "unique": unique, "unique_consecutive": unique, "round": round_, "diff": diff, "searchsorted": searchsorted,
    "bucketize": searchsorted, "norm": vector_norm, "scaled_dot_product_attention": attention, "cross": linalg.cross,
    "binary_cross_entropy_with_logits": weighted, "embedding": embedding, "as_strided_scatter": scatter_shape,
}
for _d in (1, 2, 3):
    for _pool in ("avg_pool", "max_pool", "adaptive_avg_pool", "adaptive_max_pool"):
        FORMS[f"{_pool}{_d}d"] = pool


def json_number(value):
    if isinstance(value, bool) or isinstance(value, int):
        return value
    if math.isfinite(value):
        return float(value)
    return {"number": "nan" if value != value else "inf" if value > 0 else "-inf"}


def attribute(name, kind, value):
    """A value as JSON, of the type that gradus' attribute has; what does not fit is sent as it is."""
    integral = torch.is_tensor(value) and not value.is_floating_point() and value.dtype != torch.bool
    if torch.is_tensor(value) and value.dim() == 0 and (kind != "integer" or integral):
        value = value.item()
    if isinstance(value, complex):
        raise Left(f"complex {name}")
    if isinstance(value, torch.dtype):
        if value not in NAMES:
            raise Left(f"{value}")
        return {"dtype": NAMES[value]}
    if isinstance(value, (list, tuple, torch.Size)):
        out = [v.item() if torch.is_tensor(v) and v.numel() == 1 else v for v in value]
        if any(not isinstance(v, int) for v in out):
            raise Left(f"{name} that are no integers")
        if len(out) == 1 and kind == "integer":
            return int(out[0])
        return [int(v) for v in out]
    if kind == "integers" and isinstance(value, (int, bool)):
        return [int(value)]
    if kind == "boolean" and isinstance(value, int):
        return bool(value)
    if kind in ("number", "integer") and isinstance(value, bool):
        return int(value)
    if isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return json_number(value)
    raise Left(f"{name} of type {type(value).__name__}")


def read(entry, op, known, sample):
    """(op of gradus, operands, attributes as JSON). Raises Left."""
    params = bound(entry, op, known[op], sample)
    if entry.name.startswith("linalg.") or entry.name in linalg.PARAMETERS:
        op, params = linalg.form(op, dict(params), entry, Left)
    if op in FORMS:
        op, params = FORMS[op](op, dict(params), entry)
    info = known[op]
    operands = []
    for i, name in enumerate(info["operands"]):
        value = params.pop(name, None)
        if i + 1 == len(info["operands"]) and info["variadic"]:
            operands += listed(value) if value is not None else []
        elif value is not None:
            if name in info["attrs"] and not torch.is_tensor(value):
                params[name] = value  # a number may be either
                continue
            operands.append(value)
        elif any(params.get(n) is not None for n in info["operands"][i + 1:]):
            raise Left(f"no {name}, but what follows it")
    attrs = {}
    for name, value in params.items():
        if name in info["attrs"]:
            if value is not None:
                attrs[name] = attribute(name, info["attrs"][name], value)
        elif name == "dtype" and torch.is_tensor(sample.input) and value == sample.input.dtype and (
                value.is_floating_point or value.is_complex or value == torch.int64):
            continue
        elif name in IDLE or any(value is d or type(value) is type(d) and value == d for d in DEFAULTS.get(name, ())):
            continue
        else:
            raise Left(f"{name}=")
    for x in operands:
        if not torch.is_tensor(x) and not isinstance(x, (bool, int, float, complex)):
            raise Left(f"an operand of type {type(x).__name__}")
    return op, operands, attrs
