"""Normalisation: mean 0 and variance 1 over some axes, then a learned scale and shift."""
from .. import _gradus
from . import functional as F
from . import init
from .layers import REQUIRED, op_module, tuple_of
from .module import Module, error
from .parameter import Parameter


class _Norm(Module):
    """What all share: weight of ones and bias of zeros, or None, and how they look as text."""

    def __init__(self, size, weight, bias, dtype, device, **options):
        super().__init__()
        for name, value in options.items():
            setattr(self, name, value)
        self._told = list(options)
        for name, wanted in (("weight", weight), ("bias", bias)):
            self.register_parameter(name, Parameter(
                _gradus.full(size, name == "weight", dtype=dtype, device=device)) if wanted
                else None)

    def reset_parameters(self):
        for tensor, value in ((self.weight, 1.0), (self.bias, 0.0)):
            if tensor is not None:
                init.constant_(tensor, value)

    def _need_channels(self, x, channels, ranks=()):
        if x.ndim < 2 or x.shape[1] != channels or ranks and x.ndim not in ranks:
            axes = f" in {' or '.join(map(str, ranks))} axes" if ranks else ""
            raise error("ShapeError", self, f"expected (n, {channels}, ...){axes}, got an input of "
                        f"shape {tuple(x.shape)}")

    def _need_last(self, x):
        sizes = self.normalized_shape
        if tuple(x.shape[max(0, x.ndim - len(sizes)):]) != sizes:
            raise error("ShapeError", self, f"expected {sizes} as last axes, got an input of shape "
                        f"{tuple(x.shape)}")

    def extra_repr(self):
        values = [getattr(self, n) for n in self._told]
        return ", ".join(f"{v}" if n.startswith("n") else f"{n}={v}"
                         for n, v in zip(self._told, values))


class _BatchNorm(_Norm):
    """Each channel (axis 1) over the batch; running statistics are kept, and used after eval()."""

    def __init__(self, num_features, eps=1e-5, momentum=0.1, affine=True, track_running_stats=True,
                 device=None, dtype=None):
        super().__init__((num_features,), affine, affine, dtype, device, num_features=num_features,
                         eps=eps, momentum=momentum, affine=affine,
                         track_running_stats=track_running_stats)
        made = {"running_mean": lambda: _gradus.zeros((num_features,), dtype=dtype, device=device),
                "running_var": lambda: _gradus.ones((num_features,), dtype=dtype, device=device),
                "num_batches_tracked": lambda: _gradus.zeros((), dtype=_gradus.int64,
                                                             device=device)}
        for name, value in made.items():
            self.register_buffer(name, value() if track_running_stats else None)

    def reset_running_stats(self):
        if self.track_running_stats:
            for buffer, value in ((self.running_mean, 0.0), (self.running_var, 1.0),
                                  (self.num_batches_tracked, 0)):
                buffer.fill_(value)

    def forward(self, x):
        self._need_channels(x, self.num_features, self.ranks)
        share = self.momentum
        if self.training and self.track_running_stats:
            self.num_batches_tracked += 1
            if share is None:  # the mean of all batches
                share = 1.0 / self.num_batches_tracked.item()
        return F.batch_norm(x, self.running_mean, self.running_var, self.weight, self.bias,
                            self.training or not self.track_running_stats, share, self.eps)


class _InstanceNorm(_Norm):
    """Each channel of each sample: (n, channels, ...)."""

    def __init__(self, num_features, eps=1e-5, momentum=0.1, affine=False,
                 track_running_stats=False, device=None, dtype=None):
        super().__init__((num_features,), affine, affine, dtype, device, num_features=num_features,
                         eps=eps, affine=affine)
        if track_running_stats:
            raise error("ValueError", self, "running statistics are not kept")

    def forward(self, x):
        self._need_channels(x, self.num_features, self.ranks)
        return F.instance_norm(x, weight=self.weight, bias=self.bias, eps=self.eps)


def _norm(name, base, *ranks):
    return type(name, (base,), {"ranks": ranks, "__doc__": base.__doc__, "__module__": __name__})


BatchNorm1d = _norm("BatchNorm1d", _BatchNorm, 2, 3)
BatchNorm2d = _norm("BatchNorm2d", _BatchNorm, 4)
BatchNorm3d = _norm("BatchNorm3d", _BatchNorm, 5)
InstanceNorm1d = _norm("InstanceNorm1d", _InstanceNorm, 3)
InstanceNorm2d = _norm("InstanceNorm2d", _InstanceNorm, 4)
InstanceNorm3d = _norm("InstanceNorm3d", _InstanceNorm, 5)


class GroupNorm(_Norm):
    """Each group of neighbouring channels of each sample: (n, num_channels, ...)."""

    def __init__(self, num_groups, num_channels, eps=1e-5, affine=True, device=None, dtype=None):
        super().__init__((num_channels,), affine, affine, dtype, device, num_groups=num_groups,
                         num_channels=num_channels, eps=eps, affine=affine)
        if num_groups < 1 or num_channels % num_groups:
            raise error("ValueError", self, f"{num_channels} channels do not divide into "
                        f"{num_groups} groups")

    def forward(self, x):
        self._need_channels(x, self.num_channels)
        return F.group_norm(x, self.num_groups, self.weight, self.bias, self.eps)


class LayerNorm(_Norm):
    """The last axes, whose extents are normalized_shape."""

    def __init__(self, normalized_shape, eps=1e-5, elementwise_affine=True, bias=True, device=None,
                 dtype=None):
        size, affine = tuple_of(normalized_shape, 1), elementwise_affine
        super().__init__(size, affine, affine and bias, dtype, device, normalized_shape=size,
                         eps=eps, elementwise_affine=affine)

    def forward(self, x):
        self._need_last(x)
        return F.layer_norm(x, self.normalized_shape, self.weight, self.bias, self.eps)


LocalResponseNorm = op_module(__name__)(
    "LocalResponseNorm", F.local_response_norm, "Damped by the squares of the neighbouring channels.",
    size=REQUIRED, alpha=1e-4, beta=0.75, k=1.0)


class RMSNorm(_Norm):
    """The last axes to mean square 1, no shift. Without eps: the numbers' spacing at 1."""

    def __init__(self, normalized_shape, eps=None, elementwise_affine=True, device=None,
                 dtype=None):
        size = tuple_of(normalized_shape, 1)
        super().__init__(size, elementwise_affine, False, dtype, device, normalized_shape=size,
                         eps=eps, elementwise_affine=elementwise_affine)

    def forward(self, x):
        self._need_last(x)
        return F.rms_norm(x, self.normalized_shape, self.weight, self.eps)
