"""What gradus has for the aten ops of AOT autograd's graphs, their arguments kept. There is no
differentiation here: the *_backward ops are written out."""
import torch

import gradus
from gradus import _gradus
from ._functions import METHODS, Call, _fma, direct, same, torch_dtype

_TABLE = {}
NUMBERS = set()


def taken(t):
    return gradus.from_dlpack(t) if isinstance(t, torch.Tensor) else t


def given(t):
    return torch.from_dlpack(t.detach()) if isinstance(t, gradus.Tensor) else t


def rule(*names):
    def put(f):
        for n in names:
            _TABLE[n] = f
        return f
    return put


def directly(*names):
    return lambda f: rule(*names)(direct(f)) and f


def find(target):
    """The rule of an aten op, None where there is none. "name.overload" goes before "name"."""
    if not isinstance(target, torch._ops.OpOverload):
        return None
    if target.namespace == "prims":
        return _TABLE.get(str(target))
    if target.namespace != "aten" or target._schema.is_mutable:
        return None
    name, overload = target._schema.name.split("::")[1], target._overloadname
    return _TABLE.get(f"{name}.{overload}") or _TABLE.get(name)


for _name in """mul neg reciprocal sqrt rsqrt exp log erf abs relu sigmoid tanh silu gelu where
        clamp lerp addcmul addcdiv pow eq ne lt le gt ge logical_and logical_or logical_not
        bitwise_and bitwise_or bitwise_xor bitwise_not bitwise_left_shift bitwise_right_shift
        any all mm bmm addmm baddbmm cat stack permute
        transpose unbind unsqueeze select select_scatter slice_scatter masked_fill tril triu sum
        mean amax amin argmax argmin gather sin cos floor ceil sign minimum maximum cumsum flip
        leaky_relu log1p expm1 logsumexp square repeat isnan isinf sort topk var softplus
        index_select scatter_add hardtanh elu mv dot outer scatter atan2 remainder roll diagonal
        hardswish hardsigmoid nonzero""".split():
    if _name in gradus.op_names:
        _TABLE[_name] = same(_name)
for _name in ("add", "sub", "rsub", "div", "zeros_like", "ones_like", "new_zeros", "new_ones",
              "new_full", "t"):
    _TABLE[_name] = METHODS[_name]
_TABLE["prims.fma.default"] = direct(_fma)
for _name in ("max", "min", "div", "cumsum"):
    _TABLE.setdefault(f"{_name}.dim", same(_name))


@rule("sym_size", "sym_stride")
def sym_size(x, dim):
    return x.shape[dim]


@rule("sym_numel")
def sym_numel(x):
    return x.numel()


del _TABLE["sym_stride"]
NUMBERS |= {sym_size, sym_numel}


# ---- shapes, copies, creation

@directly("view", "_unsafe_view", "reshape")
def _view(x, shape):
    return Call(gradus.reshape, x, shape)


@rule("alias", "detach", "view.dtype")
def alias(x):
    return x


@rule("lift_fresh_copy")
def lift_fresh_copy(x):
    return gradus.clone(x)


del _TABLE["view.dtype"]


@rule("clone")
def clone(x, *, memory_format=None):
    return gradus.contiguous(x) if memory_format == torch.contiguous_format else gradus.clone(x)


@directly("expand")
def _expand(x, size, *, implicit=False):
    return Call(gradus.expand, x, size)


@rule("squeeze")
def squeeze(x, dims=None):
    if dims is None:
        return gradus.squeeze(x)
    dims = [dims] if isinstance(dims, int) else dims
    for d in sorted((d % x.ndim for d in dims), reverse=True):
        if x.shape[d] == 1:
            x = gradus.squeeze(x, d)
    return x


@directly("slice")
def _slice(x, dim=0, start=None, end=None, step=1):
    return Call(gradus.slice, x, dim, 0 if start is None else start,
                2 ** 63 - 1 if end is None else end, step)


@directly("split", "unsafe_split", "split_with_sizes")
def _split(x, sizes, dim=0):
    return Call(gradus._gradus.split, x, sizes, dim)


@rule("_to_copy")
def to_copy(x, *, dtype=None, **idle):
    return gradus.clone(x) if dtype is None else gradus.cast(x, dtype)


@rule("copy")
def copy(x, source):
    return gradus.clone(gradus.expand(gradus.cast(source, x.dtype), x.shape))


@rule("fill.Scalar", "full_like")
def full_like(x, value, *, dtype=None, **idle):
    y = gradus.full_like(x, value)
    return y if dtype is None else gradus.cast(y, dtype)


@rule("full", "scalar_tensor")
def full(size, value=None, *, dtype=None, **idle):
    size, value = ([], size) if value is None else (size, value)
    if dtype is None:
        dtype = torch.bool if isinstance(value, bool) else torch.int64 if isinstance(value, int) \
            else torch.get_default_dtype()
    return gradus.full(size, float(value), dtype)


@rule("zeros")
def zeros(size, *, dtype=None, **idle):
    return gradus.full(size, 0.0, dtype or torch.float32)


@rule("ones")
def ones(size, *, dtype=None, **idle):
    return gradus.full(size, 1.0, dtype or torch.float32)


@rule("arange")
def arange(start, end=None, step=1, *, dtype=None, **idle):
    start, end = (0, start) if end is None else (start, end)
    whole = all(isinstance(a, int) for a in (start, end, step))
    return gradus.arange(start, end, step, dtype=dtype or (torch.int64 if whole else torch.float32))


@rule("select_backward")
def select_backward(g, sizes, dim, index):
    return gradus.select_scatter(gradus.zeros(sizes, g.dtype), g, dim, index)


@rule("slice_backward")
def slice_backward(g, sizes, dim, start, end, step):
    return gradus.slice_scatter(gradus.zeros(sizes, g.dtype), g, dim, start, end, step)


@rule("index.Tensor")
def index(x, indices):
    return x[tuple(slice(None) if i is None else i for i in indices)]


@rule("index_put", "_unsafe_index_put")
def index_put(x, indices, values, accumulate=False):
    return gradus._gradus.index_put(x, values, list(indices), accumulate=accumulate)


@directly("scatter.value")
def _scatter_value(x, dim, index, value):
    return Call(gradus.scatter, x, dim, index, value=value)


@directly("embedding")
def _embedding(weight, index, *idle):
    return Call(gradus.embedding, weight, index)


@rule("embedding_dense_backward")
def embedding_backward(g, index, rows, padding, by_frequency):
    if by_frequency:
        raise gradus.ValueError("scaled by frequency")
    index, g = gradus.reshape(index, (-1,)), gradus.reshape(g, (-1, g.shape[-1]))
    if padding >= 0:
        g = gradus.masked_fill(g, gradus.unsqueeze(gradus.eq(index, padding), 1), 0.0)
    return gradus._gradus.index_put(gradus.zeros((rows, g.shape[1]), g.dtype), g, [index], accumulate=True)


# ---- softmax, losses, activations

@directly("_softmax")
def _softmax(x, dim, half):
    return Call(gradus.softmax, x, dim)


@directly("_log_softmax")
def _log_softmax(x, dim, half):
    return Call(gradus.log_softmax, x, dim)


@rule("_safe_softmax")
def safe_softmax(x, dim, dtype=None):
    y = gradus.softmax(x, dim)
    return gradus.masked_fill(y, gradus.eq(gradus.amax(x, dim, True), -float("inf")), 0.0)


@rule("_softmax_backward_data")
def softmax_backward(g, y, dim, dtype):
    gy = g * y
    return gy - y * gradus.sum(gy, dim, True)


@rule("_log_softmax_backward_data")
def log_softmax_backward(g, y, dim, dtype):
    return g - gradus.exp(y) * gradus.sum(g, dim, True)


_REDUCTIONS = ("none", "mean", "sum")


@rule("nll_loss_forward")
def nll_loss(x, target, weight, reduction, ignore):
    if weight is None:
        total = gradus.sum(gradus.cast(gradus.ne(target, ignore), x.dtype))
    else:
        kept = gradus.masked_fill(target, gradus.eq(target, ignore), 0)
        total = gradus.sum(weight[kept] * gradus.cast(gradus.ne(target, ignore), x.dtype))
    y = gradus.nll_loss(x, target, weight, ignore_index=ignore, reduction=_REDUCTIONS[reduction])
    return y, total if reduction else gradus.zeros([], x.dtype)


@rule("nll_loss_backward")
def nll_loss_backward(g, x, target, weight, reduction, ignore, total):
    classes = x.shape[1]
    hit = gradus.eq(gradus.unsqueeze(target, 1), gradus.arange(classes))
    if 0 <= ignore < classes:
        hit = gradus.logical_and(hit, gradus.unsqueeze(gradus.ne(target, ignore), 1))
    g = gradus.neg(g / total if reduction == 1 else g)
    if weight is not None:
        g = g * weight[gradus.masked_fill(target, gradus.eq(target, ignore), 0)]
    return gradus._gradus.where(hit, gradus.unsqueeze(g, -1), 0.0)


@rule("mse_loss")
def mse_loss(x, y, reduction=1):
    return gradus.mse_loss(x, y, reduction=_REDUCTIONS[reduction])


@rule("mse_loss_backward")
def mse_loss_backward(g, x, y, reduction):
    return (x - y) * (2 / x.numel() if reduction == 1 else 2.0) * g


@rule("threshold_backward")
def threshold_backward(g, x, threshold):
    return gradus.masked_fill(g, gradus.le(x, threshold), 0.0)


@rule("tanh_backward")
def tanh_backward(g, y):
    return g * (1.0 - y * y)


@rule("sigmoid_backward")
def sigmoid_backward(g, y):
    return g * (y * (1.0 - y))


@rule("silu_backward")
def silu_backward(g, x):
    s = gradus.sigmoid(x)
    return g * (s * (1.0 + x * (1.0 - s)))


def pulled(f, x, g):
    """g pulled back through f at x: f is run again."""
    before = _gradus._set_modes(True, False, False)
    try:
        leaf = x.detach().requires_grad_()
        return gradus.grad(f(leaf), leaf, g)[0]
    finally:
        _gradus._set_modes(*before)


@rule("gelu_backward")
def gelu_backward(g, x, *, approximate="none"):
    return pulled(lambda t: gradus.gelu(t, approximate), x, g)


def _no_divisor(attrs):
    if attrs[5:] not in ((), (None,)):
        raise gradus.ValueError("avg_pool2d with a divisor of its own")
    return attrs[:5]


@rule("avg_pool2d_backward")
def avg_pool2d_backward(g, x, *attrs):
    attrs = _no_divisor(attrs)
    return pulled(lambda t: gradus.avg_pool2d(t, *attrs), x, g)


@directly("avg_pool2d")
def _avg_pool2d(x, *attrs):
    return Call(gradus.avg_pool2d, x, *_no_divisor(attrs))


@rule("native_dropout_backward")
def dropout_backward(g, mask, scale):
    return g * mask * scale


# ---- convolutions and norms

@rule("convolution")
def convolution(x, weight, bias, stride, padding, dilation, transposed, output_padding, groups):
    name = f"conv_transpose{x.ndim - 2}d" if transposed else f"conv{x.ndim - 2}d"
    more = {"output_padding": output_padding} if transposed else {}
    return getattr(gradus, name)(x, weight, bias, stride=stride, padding=padding, dilation=dilation,
                                 groups=groups, **more)


@rule("convolution_backward")
def convolution_backward(g, x, weight, bias, stride, padding, dilation, transposed, output_padding,
                         groups, mask):
    if transposed:
        raise gradus.ValueError("the backward of a transposed convolution")
    axes, options = range(2, x.ndim), dict(stride=stride, dilation=dilation, groups=groups)
    padding = list(padding) * (x.ndim - 2) if len(padding) == 1 else padding
    found = [None, None, None]
    if mask[0]:
        gx = gradus.conv_input(g, weight, size=[x.shape[a] + 2 * p for a, p in zip(axes, padding)],
                               **options)
        for a, p in zip(axes, padding):
            gx = gradus.slice(gx, a, p, p + x.shape[a]) if p else gx
        found[0] = gx
    if mask[1]:
        if any(padding):
            x = gradus.pad(x, [p for q in reversed(padding) for p in (q, q)])
        found[1] = gradus.conv_weight(x, g, size=weight.shape[2:], **options)
    if mask[2]:
        found[2] = gradus.sum(g, [0, *axes])
    return tuple(found)


@rule("_native_batch_norm_legit_functional")
def batch_norm(x, weight, bias, mean, var, training, momentum, eps):
    if not training:
        raise gradus.ValueError("not in training")
    shape = (1, x.shape[1]) + (1,) * (x.ndim - 2)
    y, m, v = gradus.standardize(
        x, weight if weight is None else gradus.reshape(weight, shape),
        bias if bias is None else gradus.reshape(bias, shape), dim=(0, *range(2, x.ndim)), eps=eps)
    m, v, n = gradus.reshape(m, (-1,)), gradus.reshape(v, (-1,)), x.numel() // x.shape[1]
    return (y, m, gradus.rsqrt(v + eps), gradus.lerp(mean, m, momentum),
            gradus.lerp(var, v * (n / max(n - 1, 1)), momentum))


@rule("_native_batch_norm_legit_no_training")
def batch_norm_fixed(x, weight, bias, mean, var, momentum, eps):
    empty = gradus.zeros([0], x.dtype)
    return gradus.batch_norm(x, mean, var, weight, bias, eps=eps), empty, empty


@rule("native_batch_norm_backward")
def batch_norm_backward(g, x, weight, mean, var, saved_mean, saved_rstd, training, eps, mask):
    shape, axes = (1, x.shape[1]) + (1,) * (x.ndim - 2), [0, *range(2, x.ndim)]
    if training:
        mean, rstd = saved_mean, saved_rstd
    else:
        rstd = gradus.rsqrt(var + eps)
    rstd = gradus.reshape(rstd, shape)
    normal = (x - gradus.reshape(mean, shape)) * rstd
    gb, gw, n = gradus.sum(g, axes), gradus.sum(g * normal, axes), x.numel() // x.shape[1]
    scale = rstd if weight is None else rstd * gradus.reshape(weight, shape)
    gx = None
    if mask[0]:
        gx = g - (gradus.reshape(gb, shape) + normal * gradus.reshape(gw, shape)) / n \
            if training else g
        gx = gx * scale
    return gx, gw if mask[1] else None, gb if mask[2] else None


@rule("native_layer_norm")
def layer_norm(x, shape, weight, bias, eps):
    y, mean, var = gradus.standardize(x, weight, bias, dim=list(range(-len(shape), 0)), eps=eps)
    return y, mean, gradus.rsqrt(var + eps)


@rule("native_layer_norm_backward")
def layer_norm_backward(g, x, shape, mean, rstd, weight, bias, mask):
    last, rest = list(range(-len(shape), 0)), list(range(x.ndim - len(shape)))
    normal, gs, n = (x - mean) * rstd, g if weight is None else g * weight, 1
    for s in shape:
        n *= s
    gx = None
    if mask[0]:
        gx = rstd * (gs - (gradus.sum(gs, last, True)
                           + normal * gradus.sum(gs * normal, last, True)) / n)
    return (gx, gradus.sum(g * normal, rest) if mask[1] else None,
            gradus.sum(g, rest) if mask[2] else None)


__all__ = ["NUMBERS", "find", "given", "taken", "torch_dtype"]
