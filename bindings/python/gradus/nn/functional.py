"""Layers without state, by PyTorch's names: ops as they are, or with its order of arguments."""
import math
import operator

from .. import _gradus as _g
from .._gradus import (
    adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d, adaptive_max_pool1d,
    adaptive_max_pool2d, adaptive_max_pool3d, avg_pool1d, avg_pool2d, avg_pool3d, bilinear,
    conv1d, conv2d, conv3d, conv_transpose1d, conv_transpose2d, conv_transpose3d,
    cosine_embedding_loss, cosine_similarity, cross_entropy, gaussian_nll_loss, gelu, glu,
    hardshrink, hinge_embedding_loss, huber_loss, kl_div, l1_loss, linear, local_response_norm,
    log_softmax, logsigmoid, margin_ranking_loss, max_pool1d, max_pool2d, max_pool3d, mse_loss,
    multi_margin_loss, multilabel_soft_margin_loss, nll_loss, normalize, one_hot,
    pairwise_distance, poisson_nll_loss, prelu, scaled_dot_product_attention, sigmoid,
    smooth_l1_loss, soft_margin_loss, softmax, softmin, softplus, softshrink, softsign, tanh,
    tanhshrink, triplet_margin_loss, binary_cross_entropy, binary_cross_entropy_with_logits)
from .._modes import no_grad


def _with_inplace(op):
    """The op, with `inplace` after its options: then the input holds the result, and is it."""
    count = len(_g.describe(op.__name__)["attrs"])

    def function(input, *options, inplace=False, **named):
        if len(options) > count:
            *options, inplace = options
        if not inplace:
            return op(input, *options, **named)
        return input.copy_(op(input.clone(), *options, **named))  # the clone is what a graph keeps
    function.__name__ = function.__qualname__ = op.__name__
    function.__doc__ = op.__doc__
    return function


relu, relu6, elu, selu, celu, leaky_relu, silu, mish = map(_with_inplace, (
    _g.relu, _g.relu6, _g.elu, _g.selu, _g.celu, _g.leaky_relu, _g.silu, _g.mish))
hardtanh, hardsigmoid, hardswish, threshold, dropout, feature_dropout = map(_with_inplace, (
    _g.hardtanh, _g.hardsigmoid, _g.hardswish, _g.threshold, _g.dropout, _g.feature_dropout))
dropout1d = dropout2d = dropout3d = feature_dropout
_alpha_dropout = _with_inplace(_g.alpha_dropout)


def alpha_dropout(input, p=0.5, training=False, inplace=False):
    """Dropout to selu's lower limit: keeps mean 0 and variance 1."""
    return _alpha_dropout(input, p, training, inplace)


def embedding(input, weight, padding_idx=None):
    """Rows of weight (count, dim) for integers (...): (..., dim). padding_idx has no gradient."""
    if padding_idx is None:
        return _g.embedding(weight, input)
    return _g.embedding(weight, input, padding_idx % weight.shape[0])


def layer_norm(input, normalized_shape, weight=None, bias=None, eps=1e-5):
    return _g.layer_norm(input, weight, bias, normalized_shape=normalized_shape, eps=eps)


def rms_norm(input, normalized_shape, weight=None, eps=None):
    """Without eps: the spacing of the input's numbers at 1."""
    if eps is None:
        eps = {"float64": 2.0 ** -52, "float16": 2.0 ** -10, "bfloat16": 2.0 ** -7}.get(
            str(input.dtype).rpartition(".")[2], 2.0 ** -23)
    return _g.rms_norm(input, weight, normalized_shape=normalized_shape, eps=eps)


def group_norm(input, num_groups, weight=None, bias=None, eps=1e-5):
    return _g.group_norm(input, weight, bias, num_groups=num_groups, eps=eps)


def batch_norm(input, running_mean, running_var, weight=None, bias=None, training=False,
               momentum=0.1, eps=1e-5):
    """Each channel (axis 1) to mean 0 and variance 1, by the batch's statistics when training; then
    the running ones move by momentum towards them, in place, the variance with n - 1."""
    if not training:
        if running_mean is None or running_var is None:
            raise _g.ValueError("batch_norm: needs running_mean and running_var when not training")
        return _g.batch_norm(input, running_mean, running_var, weight, bias, eps=eps)
    if input.ndim < 2 or input.numel() == input.shape[1]:
        raise _g.ShapeError(f"batch_norm: the input has shape {tuple(input.shape)}: training needs "
                            f"(n, channels, ...) and more than one value per channel")
    shape = (1, input.shape[1]) + (1,) * (input.ndim - 2)
    y, mean, var = _g.standardize(
        input, weight if weight is None else weight.reshape(shape),
        bias if bias is None else bias.reshape(shape),
        dim=(0, *range(2, input.ndim)), eps=eps)
    if running_mean is not None and input.numel() > 0:
        n = input.numel() // input.shape[1]
        with no_grad():
            for running, now in ((running_mean, mean), (running_var, var.detach() * (n / (n - 1)))):
                running.copy_(running * (1 - momentum) + now.reshape(running.shape) * momentum)
    return y.to(input.dtype)


def instance_norm(input, running_mean=None, running_var=None, weight=None, bias=None,
                  use_input_stats=True, momentum=0.1, eps=1e-5):
    """Each channel of each sample to mean 0 and variance 1; no running statistics."""
    if running_mean is not None or running_var is not None or not use_input_stats:
        raise _g.ValueError("instance_norm: running statistics are not kept")
    return _g.instance_norm(input, weight, bias, eps=eps)


def pad(input, pad, mode="constant", value=0.0):
    """A border around the last axes: (before, after) of the last, then of the one before, ... The mode is
    constant, reflect, replicate or circular."""
    if mode == "constant":
        return _g.pad(input, pad, 0.0 if value is None else value)
    if mode not in _BORDERS:
        raise _g.ValueError(f"pad: the mode is {mode!r}, there are constant, " + ", ".join(_BORDERS))
    if len(pad) % 2 or len(pad) > 2 * input.ndim:
        raise _g.ValueError(f"pad: expected before and after of up to {input.ndim} axes, got {len(pad)} numbers")
    for axis, (before, after) in enumerate(zip(pad[::2], pad[1::2]), 1):
        n = input.shape[-axis]
        if n + before + after < 1 or max(before, after) > n - (mode == "reflect") and mode != "replicate":
            raise _g.ShapeError(f"pad: {mode} takes ({before}, {after}) of an axis of {n}")
        places = [_BORDERS[mode](i, n) for i in range(-before, n + after)]
        input = input.index_select(_g.tensor(places, dtype=_g.int64, device=input.device), -axis)
    return input


_BORDERS = {"reflect": lambda i, n: n - 1 - abs(n - 1 - abs(i)), "replicate": lambda i, n: min(max(i, 0), n - 1),
            "circular": lambda i, n: i % n}


def _pixels(who, input, factor):
    if input.ndim < 3 or factor < 1:
        raise _g.ValueError(f"{who}: expected (..., channels, h, w) and a factor of 1 or more, got {tuple(input.shape)} "
                            f"and {factor}")
    return input.shape


def interpolate(input, size=None, scale_factor=None, mode="nearest", align_corners=None):
    """An image (n, channels, ...) of another size, given or by a factor: nearest, nearest-exact, or linear,
    bilinear, trilinear, for which align_corners keeps the corners where they are."""
    axes, between = input.ndim - 2, "linear" in mode
    if not 1 <= axes <= 3:
        raise _g.ShapeError(f"interpolate: expected (n, channels) and 1 to 3 axes more, got {tuple(input.shape)}")
    if mode not in ("nearest", "nearest-exact", *("linear", "bilinear", "trilinear")[axes - 1:axes]):
        raise _g.ValueError(f"interpolate: the mode is {mode!r}, there are nearest, nearest-exact and for 1, 2, 3 axes "
                            f"linear, bilinear, trilinear; the input has {axes}")
    if between and not input.is_floating_point():
        raise _g.DTypeError(f"interpolate: {mode} is of real numbers, got {input.dtype}; nearest is of any")
    if align_corners is not None and not between:
        raise _g.ValueError(f"interpolate: align_corners is of linear, bilinear and trilinear, the mode is {mode!r}")
    if (size is None) == (scale_factor is None):
        raise _g.ValueError(f"interpolate: expected size or scale_factor, got {size} and {scale_factor}")
    given = scale_factor if size is None else size
    given = list(given) if isinstance(given, (tuple, list)) else [given] * axes
    if len(given) != axes:
        raise _g.ValueError(f"interpolate: expected one number or {axes}, got {len(given)}")
    if not all(math.isfinite(x) and int(x * (n if size is None else 1)) >= 1 for x, n in zip(given, input.shape[2:])):
        raise _g.ValueError(f"interpolate: {given} of {tuple(input.shape)} leaves no pixel")
    dtype = _g.float64 if input.dtype == _g.float64 and between else _g.float32
    for axis, number in enumerate(given, 2):
        n = input.shape[axis]
        m, step = (int(n * number), 1 / number) if size is None else (operator.index(number), n / number)
        at = _g.arange(m, dtype=dtype, device=input.device)
        if not between:
            at = (at + 0.5 * (mode != "nearest")) * _g.tensor(step, dtype=dtype, device=input.device)
            input = input.index_select(at.long().clamp(0, n - 1), axis)
            continue
        at = at * ((n - 1) / max(m - 1, 1)) if align_corners else ((at + 0.5) * step - 0.5).clamp(0, None)
        low = at.long().clamp(0, n - 1)
        share = (at - low).to(input.dtype).reshape(-1, *[1] * (input.ndim - 1 - axis))
        input = _g.lerp(input.index_select(low, axis), input.index_select((low + 1).clamp(0, n - 1), axis), share)
    return input


def pixel_shuffle(input, upscale_factor):
    """Channels as pixels: (..., c r r, h, w) -> (..., c, h r, w r)."""
    *n, c, h, w = _pixels("pixel_shuffle", input, upscale_factor)
    r, k = upscale_factor, len(n)
    if c % (r * r):
        raise _g.ShapeError(f"pixel_shuffle: expected channels in multiples of {r * r}, got {c}")
    x = input.reshape(*n, c // (r * r), r, r, h, w).permute(*range(k + 1), k + 3, k + 1, k + 4, k + 2)
    return _own(x.reshape(*n, c // (r * r), h * r, w * r), input)


def pixel_unshuffle(input, downscale_factor):
    """Pixels as channels: (..., c, h r, w r) -> (..., c r r, h, w)."""
    *n, c, h, w = _pixels("pixel_unshuffle", input, downscale_factor)
    r, k = downscale_factor, len(n)
    if h % r or w % r:
        raise _g.ShapeError(f"pixel_unshuffle: expected pixels in multiples of {r}, got {h} x {w}")
    x = input.reshape(*n, c, h // r, r, w // r, r).permute(*range(k + 1), k + 2, k + 4, k + 1, k + 3)
    return _own(x.reshape(*n, c * r * r, h // r, w // r), input)


def _own(out, input):
    """A copy, if nothing was moved: no view of the input."""
    return out.clone() if out.shape == input.shape else out


def _two(name, what, value):
    value, least = (value,) * 2 if isinstance(value, int) else tuple(value), int(what != "padding")
    if len(value) != 2 or min(value) < least:
        raise _g.ValueError(f"{name}: {what} is {value}, expected two numbers of {least} or more")
    return value


def unfold(input, kernel_size, dilation=1, padding=0, stride=1):
    """The windows of images as columns: (n, c, h, w) -> (n, c kh kw, windows)."""
    (kh, kw), (dh, dw), (ph, pw), (sh, sw) = (_two("unfold", what, v) for what, v in (
        ("kernel_size", kernel_size), ("dilation", dilation), ("padding", padding), ("stride", stride)))
    if input.ndim not in (3, 4):
        raise _g.ShapeError(f"unfold: expected (n, c, h, w) or (c, h, w), got {tuple(input.shape)}")
    x = _g.pad(input if input.ndim == 4 else input.unsqueeze(0), (pw, pw, ph, ph))
    x = _g.window(_g.window(x, 2, kh, sh, dh), 3, kw, sw, dw)  # (n, c, rows, columns, kh, kw)
    n, c, rows, columns = x.shape[:4]
    x = x.permute(0, 1, 4, 5, 2, 3).reshape(n, c * kh * kw, rows * columns)
    return x if input.ndim == 4 else x.squeeze(0)


def fold(input, output_size, kernel_size, dilation=1, padding=0, stride=1):
    """The sums of windows where they overlap, unfold the other way: (n, c kh kw, windows) -> (n, c, h, w)."""
    (h, w), (kh, kw), (dh, dw), (ph, pw), (sh, sw) = (_two("fold", what, v) for what, v in (
        ("output_size", output_size), ("kernel_size", kernel_size), ("dilation", dilation), ("padding", padding),
        ("stride", stride)))
    rows, columns = ((size + 2 * p - d * (k - 1) - 1) // s + 1 for size, p, d, k, s in
                     ((h, ph, dh, kh, sh), (w, pw, dw, kw, sw)))
    if input.ndim not in (2, 3) or input.shape[-2] % (kh * kw) or input.shape[-1] != rows * columns:
        raise _g.ShapeError(f"fold: expected (n, c {kh * kw}, {rows * columns}), which windows of {kh} x {kw} give of "
                            f"{h} x {w}, got {tuple(input.shape)}")
    x = input.reshape(-1, input.shape[-2] // (kh * kw), kh, kw, rows, columns).permute(0, 1, 4, 5, 2, 3)
    x = _g.fold(_g.fold(x, 3, w + 2 * pw, sw, dw), 2, h + 2 * ph, sh, dh)[:, :, ph:ph + h, pw:pw + w]
    return x if input.ndim == 3 else x.squeeze(0)


def gumbel_softmax(logits, tau=1, hard=False, dim=-1):
    """softmax((logits + g) / tau) with g drawn from the Gumbel distribution; hard: its largest as one-hot,
    with the gradient of the soft one."""
    drawn = _g.uniform(logits.shape, 2.0 ** -24, 1, logits.dtype, device=logits.device)
    soft = _g.softmax((logits - (-drawn.log()).log()) / tau, dim)
    if not hard:
        return soft
    return _g.zeros_like(soft).scatter(dim, soft.argmax(dim, True), 1.0) - soft.detach() + soft
