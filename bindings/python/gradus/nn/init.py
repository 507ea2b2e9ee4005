"""First values of parameters: each function writes into a tensor, in place, and gives it back."""
import math

from .. import _gradus
from .._modes import no_grad


def _write(tensor, values):
    with no_grad():
        return tensor.copy_(values)


def uniform_(tensor, a=0.0, b=1.0):
    """Uniform on [a, b)."""
    return _write(tensor, _gradus.uniform(tensor.shape, a, b, tensor.dtype, device=tensor.device))


def normal_(tensor, mean=0.0, std=1.0):
    return _write(tensor,
                  _gradus.normal(tensor.shape, mean, std, tensor.dtype, device=tensor.device))


def trunc_normal_(tensor, mean=0.0, std=1.0, a=-2.0, b=2.0):
    """Normal within [a, b]: the inverse of its distribution function, of uniform numbers."""
    low, high = (math.erf((end - mean) / std / math.sqrt(2)) for end in (a, b))
    drawn = _gradus.uniform(tensor.shape, low, high, _gradus.float64, device=tensor.device)
    return _write(tensor, (_gradus.erfinv(drawn) * (std * math.sqrt(2)) + mean).clamp(a, b))


def constant_(tensor, val):
    with no_grad():
        return tensor.fill_(val)


def zeros_(tensor):
    return constant_(tensor, 0.0)


def ones_(tensor):
    return constant_(tensor, 1.0)


def calculate_gain(nonlinearity, param=None):
    """The factor that makes up for what an activation takes of the variance."""
    gains = {"linear": 1.0, "sigmoid": 1.0, "tanh": 5 / 3, "relu": math.sqrt(2), "selu": 0.75}
    if nonlinearity == "leaky_relu":
        return math.sqrt(2 / (1 + (0.01 if param is None else param) ** 2))
    if nonlinearity.startswith("conv"):
        return 1.0
    if nonlinearity not in gains:
        raise _gradus.ValueError(f"calculate_gain: no gain is known for {nonlinearity!r}; there are "
                         + ", ".join([*gains, "leaky_relu"]))
    return gains[nonlinearity]


def fans(tensor):
    """(fan_in, fan_out) of a weight (out, in, ...): how many numbers meet in one, and leave one."""
    if tensor.ndim < 2:
        raise _gradus.ValueError(f"init: a weight of two axes or more is expected, got {tensor.shape}")
    places = math.prod(tensor.shape[2:])
    return tensor.shape[1] * places, tensor.shape[0] * places


def xavier_uniform_(tensor, gain=1.0):
    """Glorot & Bengio, AISTATS 2010."""
    bound = gain * math.sqrt(6.0 / sum(fans(tensor)))
    return uniform_(tensor, -bound, bound)


def xavier_normal_(tensor, gain=1.0):
    return normal_(tensor, 0.0, gain * math.sqrt(2.0 / sum(fans(tensor))))


def _kaiming(tensor, a, mode, nonlinearity):
    if mode not in ("fan_in", "fan_out"):
        raise _gradus.ValueError(f"init: mode is {mode!r}, expected fan_in or fan_out")
    return calculate_gain(nonlinearity, a) / math.sqrt(fans(tensor)[mode == "fan_out"])


def kaiming_uniform_(tensor, a=0, mode="fan_in", nonlinearity="leaky_relu"):
    """He et al., ICCV 2015."""
    bound = math.sqrt(3.0) * _kaiming(tensor, a, mode, nonlinearity)
    return uniform_(tensor, -bound, bound)


def kaiming_normal_(tensor, a=0, mode="fan_in", nonlinearity="leaky_relu"):
    return normal_(tensor, 0.0, _kaiming(tensor, a, mode, nonlinearity))


def orthogonal_(tensor, gain=1.0):
    """Orthonormal rows or columns, whichever are fewer, of the matrix (out, the rest)."""
    rows, columns = tensor.shape[0], math.prod(tensor.shape[1:])
    drawn = _gradus.normal((max(rows, columns), min(rows, columns)), 0, 1, tensor.dtype,
                           device=tensor.device)
    q = _gradus.qr(drawn, positive=True)[0]
    return _write(tensor, ((q if rows >= columns else q.T) * gain).reshape(tensor.shape))


def layer_uniform_(layer, fan_in):
    """The rule of layers: weight, then bias if there is one, uniform on +-1 / sqrt(fan_in)."""
    bound = 1 / math.sqrt(fan_in)
    for tensor in (layer.weight, layer.bias):
        if tensor is not None:
            uniform_(tensor, -bound, bound)
