"""What gradus has for the functions and methods of PyTorch: for each a callable on gradus tensors
with PyTorch's arguments. A `direct` rule rewrites a call once, while a graph is compiled; all
others are called as they stand."""
import inspect
import math
import operator

import torch
import torch.nn.functional as F

import gradus
from ..fx import Slot, Unknown


class Call:
    """A call that a direct rule gives."""
    __slots__ = ("function", "args", "kwargs")

    def __init__(self, function, *args, **kwargs):
        self.function, self.args, self.kwargs = function, args, kwargs


class direct:
    """A rule that is asked while compiling: it gives a Call."""

    def __init__(self, rule):
        self.rule = rule


FUNCTIONS, METHODS, MODULES = {}, {}, {}

# Arguments without a meaning here: where values lie, and PyTorch's old names.
_IDLE = ("device", "layout", "pin_memory", "memory_format", "non_blocking", "out", "generator",
         "size_average", "reduce", "_stacklevel", "requires_grad", "inplace", "implicit")
_ATTRS = {}
# Same name, other meaning or arguments: they have rules of their own below, or none.
_OTHER = {"embedding", "batch_norm", "dropout", "alpha_dropout", "feature_dropout", "layer_norm",
          "scaled_dot_product_attention", "add", "sub", "rsub", "div", "normal", "uniform",
          "bernoulli", "network", "window", "conv", "unique", "slice", "copy", "group_norm",
          "instance_norm", "index", "poisson_nll_loss", "cond", "fold", "norm", "embed", "lu",
          "put", "contract", "embedding_bag", "max_pool1d", "max_pool2d", "max_pool3d", "index_put"}


def attrs_of(name):
    if name not in _ATTRS:
        _ATTRS[name] = [a[0] for a in gradus.describe(name)["attrs"]]
    return _ATTRS[name]


def op_of(name):
    """The op itself where gradus has a form of it in Python."""
    return getattr(gradus._gradus if name in gradus._more.__all__ else gradus, name)


def _casting(op, dtype):
    return lambda x, *args, **kwargs: op(gradus.cast(x, dtype), *args, **kwargs)


def same(name):
    """The op of that name with the same arguments, those without a meaning here left out."""
    op, attrs = op_of(name), attrs_of(name)

    def rule(*args, **kwargs):
        if kwargs.get("inplace"):
            return Call(getattr(gradus.Tensor, name + "_"), *args)
        kept = {k: v for k, v in kwargs.items() if k in attrs or k not in _IDLE}
        function = op
        if "dtype" in kept and "dtype" not in attrs:
            dtype = kept.pop("dtype")
            function = _casting(op, dtype) if dtype is not None else op
        return Call(function, *args, **kept)
    return direct(rule)


def signed(name, function):
    """The op of the name for a Python function of PyTorch: arguments by their names."""
    op, attrs, signature = op_of(name), attrs_of(name), inspect.signature(function)

    def rule(*args, **kwargs):
        given = signature.bind(*args, **kwargs).arguments
        if given.pop("inplace", False):
            kept = [v for k, v in given.items() if k not in _IDLE]
            if not hasattr(gradus.Tensor, name + "_"):
                raise Unknown(f"{name} in place")
            return Call(getattr(gradus.Tensor, name + "_"), *kept)
        operands, named, cast = [], {}, given.pop("dtype", None)
        for key, value in given.items():
            default = signature.parameters[key].default
            if key in attrs:
                if value is not None:
                    named[key] = value
            elif isinstance(value, (Slot, gradus.Tensor, list, tuple)) or value is None:
                if key not in _IDLE:
                    operands.append(value)
            elif key not in _IDLE and default is inspect.Parameter.empty:
                operands.append(value)
            elif key not in _IDLE and value != default:
                raise Unknown(f"{name}({key}={value!r})")
        while operands and operands[-1] is None:
            operands.pop()
        return Call(_casting(op, cast) if cast else op, *operands, **named)
    return direct(rule)


def _by_name():
    for name in gradus.op_names:
        if name in _OTHER:
            continue
        for space in (torch, torch._C._nn, torch.special, torch.linalg):
            function = getattr(space, name, None)
            if callable(function) and not inspect.isfunction(function):
                FUNCTIONS[function] = same(name)
            elif inspect.isfunction(function):
                FUNCTIONS[function] = same(name)
        function = getattr(F, name, None)
        if inspect.isfunction(function):
            FUNCTIONS[function] = signed(name, function)
        elif callable(function):
            FUNCTIONS.setdefault(function, same(name))
        if hasattr(torch.Tensor, name):
            METHODS[name] = same(name)
        if hasattr(torch.Tensor, name + "_") and hasattr(gradus.Tensor, name + "_"):
            METHODS[name + "_"] = getattr(gradus.Tensor, name + "_")
            function = getattr(torch, name + "_", None)
            if function:
                FUNCTIONS[function] = METHODS[name + "_"]


def rule(*targets):
    """Registers a rule for functions of torch, and for methods by name."""
    def put(f):
        for t in targets:
            (METHODS if isinstance(t, str) else FUNCTIONS)[t] = f
        return f
    return put


def directly(*targets):
    return lambda f: rule(*targets)(direct(f)) and f


_by_name()
for _name in ("add sub mul truediv floordiv mod pow matmul neg pos abs invert and_ or_ xor lt le "
              "eq ne gt ge getitem setitem iadd isub imul itruediv ifloordiv imod ipow iand ior "
              "ixor lshift rshift ilshift irshift index not_ contains").split():
    FUNCTIONS[getattr(operator, _name)] = getattr(operator, _name)
for _name in ("add sub mul truediv floordiv mod pow matmul and or xor lshift rshift lt le eq ne gt ge "
              "getitem setitem neg abs invert pos iadd isub imul itruediv").split():
    METHODS[f"__{_name}__"] = getattr(operator, f"__{_name}__")
for _name in "add sub mul truediv pow matmul div".split():
    METHODS[f"__r{_name}__"] = direct(
        lambda a, b, _f=getattr(operator, f"__{_name.replace('div', 'truediv')}__"
                                if _name == "div" else f"__{_name}__"): Call(_f, b, a))
for _f in (getattr, max, min, int, float, bool, math.sqrt, math.floor, math.ceil, math.prod, sum,
           len, round):
    FUNCTIONS[_f] = _f
for _name in ("size numel dim item stride is_contiguous copy_ fill_ tolist detach detach_ "
              "storage_offset requires_grad_ element_size").split():
    if hasattr(gradus.Tensor, _name):
        METHODS[_name] = getattr(gradus.Tensor, _name)
for _name, _op in {"negative": "neg", "multiply": "mul", "absolute": "abs", "concat": "cat",
                   "concatenate": "cat", "greater": "gt", "less": "lt", "swapaxes": "transpose",
                   "swapdims": "transpose", "moveaxis": "movedim"}.items():
    METHODS[_name] = FUNCTIONS[getattr(torch, _name)] = same(_op)


# ---- arithmetic with PyTorch's extra arguments

@directly(torch.polygamma, torch.special.polygamma)
def _polygamma(n, input, *, out=None):
    return Call(gradus._gradus.polygamma, input, n)


def axpy(x, other, alpha):
    return gradus.addcmul(x, other, 1.0, value=alpha)


@directly(torch.add, "add")
def _add(x, other, *, alpha=1, out=None):
    return Call(gradus._gradus.add, x, other) if alpha == 1 else Call(axpy, x, other, alpha)


@directly(torch.sub, torch.subtract, "sub", "subtract")
def _sub(x, other, *, alpha=1, out=None):
    return Call(gradus._gradus.sub, x, other) if alpha == 1 else Call(axpy, x, other, -alpha)


@directly(torch.rsub, "rsub")
def _rsub(x, other, *, alpha=1):
    return Call(gradus.rsub, x, other) if alpha == 1 else Call(axpy, other, x, -alpha)


@directly("add_")
def _add_in_place(x, other, *, alpha=1):
    if alpha == 1:
        return Call(gradus.Tensor.add_, x, other)
    return Call(gradus.Tensor.addcmul_, x, other, 1.0, value=alpha)


@directly("sub_", "subtract_")
def _sub_in_place(x, other, *, alpha=1):
    return Call(gradus.Tensor.addcmul_, x, other, 1.0, value=-alpha)


@directly(torch.div, torch.divide, torch.true_divide, "div", "divide", "true_divide")
def _div(x, other, *, rounding_mode=None, out=None):
    if rounding_mode == "trunc":
        return Call(lambda a, b: gradus.trunc(gradus.div(a, b)), x, other)
    return Call(gradus.floor_divide if rounding_mode else gradus.div, x, other)


@directly("prims.fma.default")
def _fma(a, b, c):
    return Call(gradus.addcmul, c, a, b)


@directly("zero_")
def _zero(x):
    return Call(gradus.Tensor.fill_, x, 0)


@directly(torch.zeros_like, "zeros_like")
def _zeros_like(x, *, dtype=None, **idle):
    return Call(gradus._gradus.zeros_like, x) if dtype is None else Call(_filled, x, 0, dtype)


@directly(torch.ones_like, "ones_like")
def _ones_like(x, *, dtype=None, **idle):
    return Call(gradus._gradus.ones_like, x) if dtype is None else Call(_filled, x, 1, dtype)


@directly(torch.full_like)
def _full_like(x, value, *, dtype=None, **idle):
    return Call(_filled, x, value, dtype)


def _filled(x, value, dtype=None):
    y = gradus.full_like(x.detach(), value)
    return y if dtype is None else gradus.cast(y, dtype)


for _name, _value in {"new_zeros": 0, "new_ones": 1}.items():
    @rule(_name)
    def _new(x, *size, dtype=None, value=_value, **idle):
        size = size[0] if len(size) == 1 and not isinstance(size[0], int) else size
        return like(x, torch.full(tuple(size), value, dtype=dtype or torch_dtype(x.dtype)))


@rule("new_full")
def _new_full(x, size, value, *, dtype=None, **idle):
    return like(x, torch.full(tuple(size), value, dtype=dtype or torch_dtype(x.dtype)))


# ---- shapes and dtypes

@directly("view", "reshape")
def _view(x, *shape):
    if shape and isinstance(shape[0], torch.dtype):
        raise Unknown("a view in another dtype")
    return Call(gradus.reshape, x, *shape)


@directly("view_as", "reshape_as")
def _view_as(x, other):
    return Call(lambda a, b: gradus.reshape(a, b.shape), x, other)


@directly("expand_as")
def _expand_as(x, other):
    return Call(lambda a, b: gradus.expand(a, b.shape), x, other)


@directly(torch.t, "t")
def _t(x):
    return Call(lambda a: a if a.ndim < 2 else gradus.transpose(a, 0, 1), x)


for _f in (torch.Tensor.T, torch.Tensor.mT):
    FUNCTIONS[_f.__get__] = lambda x: gradus.permute(x, tuple(range(x.ndim))[::-1])
FUNCTIONS[torch.Tensor.mT.__get__] = lambda x: gradus.transpose(x, -2, -1)


@rule("to")
def _to(x, *args, dtype=None, device=None, **idle):
    for a in (*args, dtype):
        if isinstance(a, (gradus.Tensor, torch.Tensor)):
            a = a.dtype
        if isinstance(a, (torch.dtype, gradus.dtype)) and torch_dtype(x.dtype) != torch_dtype(a):
            return gradus.cast(x, a)
    return x


METHODS["type_as"] = _to
for _name, _dtype in {"float": torch.float32, "double": torch.float64, "half": torch.float16,
                      "bfloat16": torch.bfloat16, "long": torch.int64, "int": torch.int32,
                      "bool": torch.bool}.items():
    METHODS[_name] = direct(lambda x, *, _d=_dtype, **idle: Call(_to, x, _d))
METHODS["type"] = direct(lambda x, dtype: Call(_to, x, dtype))


# ---- pooling, norms, lookups

for _n in ("1d", "2d", "3d"):
    @directly(getattr(F, "max_pool" + _n), getattr(F, "_max_pool" + _n),
              getattr(torch, "max_pool" + _n))
    def _max_pool(x, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False,
                  return_indices=False, _op=getattr(gradus, "max_pool" + _n)):
        if return_indices:
            raise Unknown("indices of a pooling")
        return Call(_op, x, kernel_size, stride, padding, dilation, ceil_mode)


@directly(F.layer_norm)
def _layer_norm(x, normalized_shape, weight=None, bias=None, eps=1e-5, cudnn_enable=True):
    return Call(gradus.layer_norm, x, weight, bias, normalized_shape=normalized_shape, eps=eps)


@directly(F.group_norm)
def _group_norm(x, num_groups, weight=None, bias=None, eps=1e-5, cudnn_enabled=True):
    return Call(gradus.group_norm, x, weight, bias, num_groups=num_groups, eps=eps)


FUNCTIONS[torch.layer_norm], FUNCTIONS[torch.group_norm] = direct(_layer_norm), direct(_group_norm)


@rule(F.batch_norm)
def batch_norm(x, running_mean, running_var, weight=None, bias=None, training=False, momentum=0.1,
               eps=1e-5):
    if not training:
        return gradus.batch_norm(x, running_mean, running_var, weight, bias, eps=eps)
    shape = (1, x.shape[1]) + (1,) * (x.ndim - 2)
    y, mean, var = gradus.standardize(
        x, weight if weight is None else gradus.reshape(weight, shape),
        bias if bias is None else gradus.reshape(bias, shape), dim=(0, *range(2, x.ndim)), eps=eps)
    if running_mean is not None:
        n = x.numel() // x.shape[1]
        running_mean.lerp_(mean.detach().reshape(-1), momentum)
        running_var.lerp_(var.detach().reshape(-1) * (n / max(n - 1, 1)), momentum)
    return y


@directly(F.embedding)
def _embedding(index, weight, padding_idx=None, max_norm=None, norm_type=2.0,
               scale_grad_by_freq=False, sparse=False):
    if max_norm is not None or scale_grad_by_freq or sparse:
        raise Unknown("embedding with max_norm, scale_grad_by_freq or sparse")
    if padding_idx is None or isinstance(padding_idx, int) and padding_idx < 0:
        return Call(gradus.embedding, weight, index)
    return Call(gradus.embedding, weight, index, padding_idx=padding_idx)


FUNCTIONS[torch.embedding] = direct(lambda weight, index, padding_idx=-1, *idle:
                                    _embedding(index, weight, padding_idx))


# ---- helpers

def torch_dtype(dtype):
    return dtype if isinstance(dtype, torch.dtype) else getattr(torch, str(dtype).split(".")[-1])


def place_of(x):
    """Where torch makes what goes to a gradus tensor's device."""
    return x.device.replace("hip", "cuda") if x.device.startswith(("cuda", "hip")) else "cpu"


def like(x, tensor):
    """A torch tensor as one of gradus on x's device."""
    t = gradus.from_dlpack(tensor)
    return t if t.device == x.device else t._to_device(str(x.device))


@rule(torch._C._set_grad_enabled, torch.set_grad_enabled)
def _grad_mode(on):
    _, inference, anomaly = gradus._gradus._modes()
    gradus._gradus._set_modes(on, inference, anomaly)


# ---- asking

def find(target, method=False):
    """The rule of a function, or of a method by its name; None where there is none."""
    if method or isinstance(target, str):
        return METHODS.get(target)
    try:
        found = FUNCTIONS.get(target)
    except TypeError:
        return None
    if found is None and isinstance(target, torch._ops.OpOverload):
        return METHODS.get(str(target))
    if found is None and getattr(torch.Tensor, getattr(target, "__name__", ""), None) is target:
        return METHODS.get(target.__name__)
    return found


def bound(found, args, kwargs):
    """(function, args, kwargs) of a rule's call."""
    if not isinstance(found, direct):
        return found, args, kwargs
    call = found.rule(*args, **kwargs)
    return call.function, call.args, call.kwargs


def lookup(node, args, kwargs):
    """fx.flatten's question."""
    found = find(node.target, node.op == "call_method")
    if found is None:
        raise Unknown("there is no rule for it")
    return (*bound(found, args, kwargs), "g")
