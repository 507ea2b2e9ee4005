"""What Tensor has beside its ops: conversions, numpy's protocol, pickling, random tensors."""
import builtins
import operator

from . import _gradus
from ._gradus import Tensor, dtype, from_dlpack, tensor

_g = _gradus


def as_tensor(data, *, dtype=None, device=None):
    """The data as a tensor: itself, over the same memory (arrays), or made of its numbers."""
    if isinstance(data, Tensor):
        out = data
    elif hasattr(data, "__dlpack__") and getattr(data, "shape", ()) != ():
        out = from_dlpack(data)
    else:
        return tensor(data, dtype=dtype, device=device)
    return out.to(dtype=dtype, device=device)


def from_numpy(array):
    """A tensor over the memory of a numpy array; writes are seen on both sides."""
    return from_dlpack(array)


def asarray(data, *, dtype=None, device=None, copy=None):
    """as_tensor, with copy=True for memory of its own and copy=False for an error if that is needed."""
    if copy is True:
        return tensor(data, dtype=dtype, device=device)
    out = as_tensor(data, dtype=dtype, device=device)
    if copy is False and not _shares(out, data):
        raise _g.ValueError("asarray: this needs a copy, which copy=False forbids")
    return out


def _shares(out, data):
    if isinstance(data, Tensor):
        return out.data_ptr() == data.data_ptr()
    pointer = getattr(data, "__array_interface__", {}).get("data", (None,))[0]
    return pointer is None or pointer == out.data_ptr()


def is_tensor(x):
    """Is it a tensor of gradus?"""
    return isinstance(x, Tensor)


class _Op:
    """Error.op of an error that Python raised: the name that its text begins with."""

    def __get__(self, error, kind):
        return str(error).partition(":")[0]


_g.Error.op = _Op()


# ---- ops whose defaults in PyTorch are not the engine's

def full(size, fill_value, dtype=None, *, device=None, requires_grad=False):
    """One number everywhere. Without a dtype that of the number: bool, int64, float32, complex64."""
    if dtype is None and not isinstance(fill_value, float):
        dtype = _g.tensor(fill_value).dtype
    if isinstance(fill_value, complex) or _is_large(fill_value):
        out = _g.tensor(fill_value, dtype=dtype, device=device).expand(_size((size,))).clone()
        return _drawn(out, requires_grad)
    return _g.full(size, fill_value, dtype, device=device, requires_grad=requires_grad)


def full_like(x, fill_value, *, dtype=None, device=None, requires_grad=False):
    """One number everywhere, in x's shape and, without others, x's dtype and device."""
    if isinstance(fill_value, complex) or _is_large(fill_value) or dtype is not None or device is not None:
        return full(tuple(x.shape), fill_value, **_of(x, dtype, device, requires_grad))
    return _drawn(_g.full_like(x, fill_value), requires_grad)


def _of(x, dtype, device, requires_grad=False):
    if hasattr(x, "with_data"):
        raise _g.DTypeError("expected a tensor, got a block tensor; x.with_data(gradus.randn_like(x.data)) has "
                            "its blocks")
    return {"dtype": dtype or x.dtype, "device": device or x.device, "requires_grad": requires_grad}


def _like(name, doc):
    op = getattr(_g, name)

    def like(x, *, dtype=None, device=None, requires_grad=False):
        out = op(x)
        if dtype is not None or device is not None:
            out = out.to(dtype=dtype, device=device)
        return _drawn(out, requires_grad)
    like.__name__ = like.__qualname__ = name
    like.__doc__ = doc + " in x's shape and, without others, x's dtype and device."
    return like


zeros_like, ones_like = _like("zeros_like", "Zeros"), _like("ones_like", "Ones")


def _is_large(number):
    """Is it a whole number that a double may not hold?"""
    whole = _whole(number)
    return whole is not None and builtins.abs(whole) > 2 ** 53


def tensordot(a, b, dims=None, dims_b=None, *, dims_a=None):
    """The contraction over pairs of axes: dims are the axes of each, ((1, 0), (0, 1)), or how many, the
    last of a and the first of b, 2 unless given. Or dims_a and dims_b, one list for each."""
    if dims_b is not None or dims_a is not None:
        return _g.tensordot(a, b, dims if dims_a is None else dims_a, dims_b)
    if dims is None or _whole(dims) is not None:
        return _g.tensordot(a, b, dims=2 if dims is None else dims)
    return _g.tensordot(a, b, *dims)


def empty(*sizes, size=None, dtype=_g.float32, device=None, requires_grad=False):
    """A tensor whose elements are not set."""
    return _g.empty(_size(sizes) if size is None else size, dtype=dtype, device=device, requires_grad=requires_grad)


def empty_like(x, *, dtype=None, device=None, requires_grad=False):
    """A tensor in x's shape whose elements are not set."""
    return _g.empty(x.shape, **_of(x, dtype, device, requires_grad))


def numel(x):
    """How many elements are there?"""
    return x.numel()


def is_floating_point(x):
    """Is the dtype one of real numbers?"""
    return x.dtype.is_floating_point


def is_complex(x):
    """Is the dtype one of complex numbers?"""
    return x.dtype.is_complex


# ---- methods

def _to(self, *args, dtype=None, device=None, copy=False, non_blocking=False):
    """x.to(dtype), x.to(device), x.to(other), x.to(device=..., dtype=...)."""
    for a in args:
        if isinstance(a, Tensor):
            dtype, device = a.dtype, a.device
        elif isinstance(a, (_g.dtype, type)) or hasattr(a, "itemsize"):
            dtype = a
        elif isinstance(a, bool):
            copy = a
        elif isinstance(a, str) and _is_dtype(a):
            dtype = a
        else:
            device = a
    out = self
    if dtype is not None:
        out = out._cast(dtype)
    if device is not None and str(device) != out.device:
        out = out._to_device(device)
    return out.clone() if copy and out.data_ptr() == self.data_ptr() else out


def _is_dtype(text):
    return isinstance(getattr(_g, text, None), _g.dtype) or text in ("f16", "f32", "f64", "bf16", "c64",
                                                                     "c128", "i32", "i64", "u8")


def _numpy(self, *, force=False):
    """A numpy array over the same memory; force=True also of tensors elsewhere or with history."""
    import numpy
    if force:
        return numpy.asarray(self.detach().cpu())
    return self.__array__()


def _array(self, dtype=None, copy=None):
    import numpy
    if self.requires_grad and _g.is_grad_enabled():
        raise _g.DTypeError("a tensor that requires a gradient is no array: x.detach() gives one that "
                        "shares its memory")
    if self.device != "cpu":
        raise _g.DTypeError(f"the tensor is on {self.device}; x.cpu() copies it")
    if self.dtype == _g.bfloat16:
        raise _g.DTypeError("numpy has no bfloat16; cast it first: x.float()")
    out = numpy.asarray(memoryview(self))
    if dtype is not None and out.dtype != dtype:
        if copy is False:
            raise _g.ValueError(f"another dtype than {out.dtype} needs a copy, which copy=False forbids")
        return out.astype(dtype)
    return out.copy() if copy else out


def _reduce(self):
    if self.grad_fn is not None:
        raise _g.AutogradError("pickle: a tensor with history can't be stored; detach() it first")
    return _rebuild, (self._bytes(), tuple(self.shape), self.dtype, self.device, self.requires_grad)


def _rebuild(data, shape, dtype, device, requires_grad):
    out = _g._from_bytes(data, shape, dtype, device if device == "cpu" else None)
    return out.requires_grad_() if requires_grad else out


def _deepcopy(self, memo):
    if self.grad_fn is not None:
        raise _g.AutogradError("deepcopy: of leaves alone; this tensor has history, detach() it first")
    out = self.detach().clone()
    if self.requires_grad:
        out.requires_grad_()
    if self.grad is not None:
        out.grad = self.grad.clone()
    memo[id(self)] = out
    return out


def _format(self, spec):
    return format(self.item(), spec) if spec and self.numel() == 1 else format(repr(self), spec)


def _contains(self, element):
    return bool((self == element).any())


def _new(name):
    def make(self, *size, dtype=None, device=None, requires_grad=False):
        size = _size(size)
        return getattr(_g, name)(size, dtype=dtype or self.dtype, device=device or self.device,
                                 requires_grad=requires_grad)
    return make


def _view(self, *shape):
    """reshape without a copy: an error where the strides don't allow it."""
    if not shape or isinstance(shape[0], (_g.dtype, str)):
        raise _g.DTypeError(f"view: expected a shape, got {shape[0] if shape else 'nothing'}; x.to(dtype) converts")
    try:
        out = self.reshape(*shape)
    except _g.Error as e:
        raise type(e)(str(e).replace("reshape", "view", 1)) from None
    if out.numel() and out.data_ptr() != self.data_ptr():
        raise _g.ShapeError(f"view: the shape {tuple(self.shape)} with strides {self.stride()} can't be "
                         f"seen as {tuple(out.shape)} without a copy; reshape() makes one")
    return out


def _type_as(self, other):
    return self._cast(other.dtype)


def _array_namespace(self, *, api_version=None):
    from .array_api import _members
    return _members.namespace(self, api_version=api_version)


def _adjoint(self):
    if self.ndim != 2:
        raise _g.ShapeError(f"H: the tensor has {self.ndim} axes; it is of matrices, mH of stacks of them")
    return self.mH


for _name, _f in {
        "__array_namespace__": _array_namespace,
        "to": _to, "numpy": _numpy, "__array__": _array, "__reduce__": _reduce,
        "__deepcopy__": _deepcopy, "__contains__": _contains, "__format__": _format,
        "__complex__": lambda self: builtins.complex(self.item()), "tensordot": tensordot,
        "view": _view, "type_as": _type_as,
        "new_zeros": _new("zeros"), "new_ones": _new("ones"), "new_empty": _new("empty"),
        "new_full": lambda self, size, fill_value, *, dtype=None, device=None: full(
            size, fill_value, dtype or self.dtype, device=device or self.device),
        "new_tensor": lambda self, data, *, dtype=None, device=None: tensor(
            data, dtype=dtype or self.dtype, device=device or self.device),
        "real": property(_g.real), "imag": property(_g.imag), "H": property(_adjoint),
        "is_cuda": property(lambda self: "cuda" in self.device),
        "is_cpu": property(lambda self: "cpu" in self.device), "byte": lambda self: self._cast(_g.uint8),
        "clamp_min": lambda self, min: self.clamp(min, None), "clamp_max": lambda self, max: self.clamp(None, max),
        "float": lambda self: self._cast(_g.float32), "double": lambda self: self._cast(_g.float64),
        "half": lambda self: self._cast(_g.float16), "bfloat16": lambda self: self._cast(_g.bfloat16),
        "int": lambda self: self._cast(_g.int32), "long": lambda self: self._cast(_g.int64),
        "cfloat": lambda self: self._cast(_g.complex64), "cdouble": lambda self: self._cast(_g.complex128),
        "bool": lambda self: self._cast(_g.bool), "cpu": lambda self: self.to(device="cpu"),
        "cuda": lambda self, index=0: self.to(device=f"cuda:{index}"),
        "__copy__": lambda self: type(self)(self.detach()).requires_grad_(self.requires_grad),
        "is_floating_point": is_floating_point, "is_complex": is_complex,
        "element_size": lambda self: self.itemsize, "nelement": Tensor.numel,
        "ndimension": Tensor.dim, "t": lambda self: self.T, "zero_": lambda self: self.fill_(0),
        "view_as": lambda self, other: _view(self, *other.shape),
        "reshape_as": lambda self, other: self.reshape(other.shape),
        "expand_as": lambda self, other: self.expand(other.shape),
        "uniform_": lambda self, low=0.0, high=1.0: self.copy_(
            _g.uniform(self.shape, low, high, self.dtype)),
        "normal_": lambda self, mean=0.0, std=1.0: self.copy_(
            _g.normal(self.shape, mean, std, self.dtype)),
}.items():
    setattr(Tensor, _name, _f)
aliases = {"multiply": "mul", "divide": "div", "true_divide": "div", "subtract": "sub",
           "negative": "neg", "absolute": "abs", "concat": "cat", "concatenate": "cat", "greater": "gt",
           "less": "lt", "greater_equal": "ge", "less_equal": "le", "not_equal": "ne", "clip": "clamp",
           "arctan2": "atan2", "moveaxis": "movedim", "swapaxes": "transpose", "swapdims": "transpose",
           "ger": "outer", "inverse": "inv", "pinverse": "pinv", "split_with_sizes": "split",
           "fix": "trunc", "row_stack": "vstack", "trapz": "trapezoid",
           **{"arc" + name: "a" + name for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh")}}
for _alias, _op in aliases.items():
    setattr(_g, _alias, getattr(_g, _op))
    if _op not in ("cat", "vstack"):
        setattr(Tensor, _alias, getattr(_g, _op))


# ---- functions of _composed.py, which is loaded when one is called

composed_methods = """adjoint corrcoef cov diagflat dsplit float_power gcd histc hsplit isneginf isposinf isreal lcm
    ldexp logdet positive resolve_conj resolve_neg tensor_split vsplit""".split()
composed = [*composed_methods, *"""atleast_1d atleast_2d atleast_3d block_diag broadcast_shapes cartesian_prod clamp_max
    clamp_min combinations detach logspace t tril_indices triu_indices unravel_index vander view_as_complex
    view_as_real""".split()]


def _later(name):
    def method(self, *args, **kwargs):
        from . import _composed
        return getattr(_composed, name)(self, *args, **kwargs)
    method.__name__ = method.__qualname__ = name
    method.__doc__ = f"gradus.{name} of the tensor."
    return method


for _name in composed_methods:
    setattr(Tensor, _name, _later(_name))


# ---- numbers in a row

def _whole(number):
    try:
        return operator.index(number)
    except TypeError:
        return None


def arange(start=None, end=None, step=1, *, dtype=None, device=None, requires_grad=False):
    """start, start + step, ... up to, without, end; arange(end) begins at 0. Without a dtype it is
    int64 if all three are whole numbers, then exact, else float32."""
    start, end = (0, start) if end is None else (0 if start is None else start, end)
    if end is None:
        raise _g.DTypeError("arange: where does it end?")
    first, last, by = whole = [_whole(v) for v in (start, end, step)]
    if None in whole:
        return _g.arange(end, start, step, dtype or _g.float32, device=device, requires_grad=requires_grad)
    if max(map(builtins.abs, whole)) < 2 ** 53:
        return _g.arange(last, first, by, dtype, device=device, requires_grad=requires_grad)
    for v in (first, by):
        if not -2 ** 63 <= v < 2 ** 63:
            raise _g.ValueError(f"arange: expected whole numbers of 64 bits, got {v}")
    if by == 0 or (last - first) * by < 0:
        raise _g.ValueError(f"arange: from {first} one never gets to {last} by steps of {by}")
    places = _g.arange(-((first - last) // by), device=device)
    return _drawn((places * by + first)._cast(dtype or _g.int64), requires_grad)


# ---- random tensors, from the thread's generator

def _size(size):
    one = len(size) == 1 and (hasattr(size[0], "__len__") or not hasattr(size[0], "__index__"))
    return tuple(size[0]) if one else size


def _drawn(out, requires_grad):
    return out.requires_grad_() if requires_grad else out


def _names_complex(dtype):
    return dtype is not _g.float32 and _g._is_complex(dtype)


def rand(*size, dtype=_g.float32, device=None, requires_grad=False):
    """Uniform numbers from [0, 1); of complex ones both parts."""
    if _names_complex(dtype):
        return _drawn(_g._random_complex(_size(size), False, dtype, device), requires_grad)
    return _g.uniform(_size(size), 0, 1, dtype, device=device, requires_grad=requires_grad)


def randn(*size, dtype=_g.float32, device=None, requires_grad=False):
    """Standard normal numbers; complex ones have variance 1 in both parts together."""
    if _names_complex(dtype):
        return _drawn(_g._random_complex(_size(size), True, dtype, device), requires_grad)
    return _g.normal(_size(size), 0, 1, dtype, device=device, requires_grad=requires_grad)


def rand_like(x, *, dtype=None, device=None, requires_grad=False):
    """rand in x's shape and, without others, x's dtype and device."""
    return rand(tuple(x.shape), **_of(x, dtype, device, requires_grad))


def randn_like(x, *, dtype=None, device=None, requires_grad=False):
    """randn in x's shape and, without others, x's dtype and device."""
    return randn(tuple(x.shape), **_of(x, dtype, device, requires_grad))


def randint(low, high=None, size=None, *, dtype=_g.int64, device=None):
    """Integers from low up to, without, high: randint(high, size) or randint(low, high, size)."""
    if high is None or size is None:
        low, high, size = 0, low, high if size is None else size
        if size is None:
            raise _g.DTypeError("randint: the size is missing: randint(high, size) or randint(low, high, size)")
    low, high = operator.index(low), operator.index(high)
    if high <= low:
        raise _g.ValueError(f"randint: low {low} is not below high {high}")
    if low < -2 ** 63 or high > 2 ** 63:
        raise _g.ValueError(f"randint: {low} to {high} are more than the whole numbers of 64 bits")
    if high - low > 2 ** 53:
        raise _g.ValueError(f"randint: from {low} to {high} are more than the 2 ** 53 numbers that a draw "
                            "tells apart; add draws of the high and the low digits")
    for end in (low, high - 1):
        try:
            held = _g.tensor([end], dtype=dtype).isfinite().item()
        except _g.Error:
            held = False
        if not held:
            raise _g.ValueError(f"randint: {dtype} does not hold {end}")
    drawn = _g.uniform(_size((size,)), 0, high - low, _g.float64, device=device)
    return (drawn.floor().clamp(0, high - low - 1)._cast(_g.int64) + low)._cast(dtype)


def randint_like(x, low, high=None, *, dtype=None, device=None):
    """Integers from low up to, without, high in x's shape and dtype: randint_like(x, high) too."""
    low, high = (0, low) if high is None else (low, high)
    return randint(low, high, tuple(x.shape), dtype=dtype or x.dtype, device=device or x.device)


def randperm(n, *, dtype=_g.int64, device=None):
    """0 .. n - 1 in random order."""
    return _g.argsort(_g.uniform((n,), 0, 1, _g.float64, device=device))._cast(dtype)


def get_rng_state():
    """(seed, position) of this thread's generator."""
    return _g._generator_state()


def set_rng_state(state):
    """Goes on from a state that get_rng_state() gave."""
    _g._set_generator_state(*state)


# ---- comparisons of whole tensors

def equal(a, b):
    """Have they the same shape and the same elements?"""
    return tuple(a.shape) == tuple(b.shape) and builtins.bool((a == b).all())


def allclose(a, b, rtol=1e-5, atol=1e-8, equal_nan=False):
    """Is |a - b| <= atol + rtol |b| everywhere?"""
    same = _g.isclose(a, b, rtol=rtol, atol=atol)
    if equal_nan:
        same = same | (_g.isnan(a) & _g.isnan(b))
    return builtins.bool(same.all())


Tensor.equal = equal
Tensor.allclose = allclose
