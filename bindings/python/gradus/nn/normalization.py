"""Normalisation: mean 0 and variance 1 over some axes, then a learned scale and shift."""
from .. import _gradus
from . import functional as F
from .layers import tuple_of
from .module import Module, error
from .parameter import Parameter


class _Norm(Module):
    def _make_affine(self, size, weight, bias, dtype, device):
        for name, wanted in (("weight", weight), ("bias", bias)):
            self.register_parameter(name, Parameter(
                _gradus.full(size, name == "weight", dtype=dtype, device=device)) if wanted
                else None)

    def reset_parameters(self):
        from . import init
        for tensor, value in ((self.weight, 1.0), (self.bias, 0.0)):
            if tensor is not None:
                init.constant_(tensor, value)

    def _need_channels(self, x, channels, ranks=None):
        if x.ndim < 2 or x.shape[1] != channels or ranks and x.ndim not in ranks:
            axes = "" if ranks is None else f" in {' or '.join(map(str, ranks))} axes"
            raise error("ShapeError", self, f"expected (n, {channels}, ...){axes}, got an input of "
                        f"shape {tuple(x.shape)}")


class _BatchNorm(_Norm):
    """Each channel (axis 1) over the batch; running statistics are kept, and used by eval()."""

    ranks = (2, 3)

    def __init__(self, num_features, eps=1e-5, momentum=0.1, affine=True, track_running_stats=True,
                 device=None, dtype=None):
        super().__init__()
        self.num_features, self.eps, self.momentum = num_features, eps, momentum
        self.affine, self.track_running_stats = affine, track_running_stats
        self._make_affine((num_features,), affine, affine, dtype, device)
        made = {"dtype": dtype, "device": device}
        tracked = track_running_stats
        self.register_buffer(
            "running_mean", _gradus.zeros((num_features,), **made) if tracked else None)
        self.register_buffer(
            "running_var", _gradus.ones((num_features,), **made) if tracked else None)
        self.register_buffer("num_batches_tracked", _gradus.zeros(
            (), dtype=_gradus.int64, device=device) if tracked else None)

    def reset_running_stats(self):
        if self.track_running_stats:
            self.running_mean.zero_()
            self.running_var.fill_(1.0)
            self.num_batches_tracked.zero_()

    def forward(self, x):
        self._need_channels(x, self.num_features, self.ranks)
        if not (self.training and self.track_running_stats):
            batch = self.training or self.running_mean is None
            return F.batch_norm(x, None if batch else self.running_mean,
                                None if batch else self.running_var, self.weight, self.bias, batch,
                                0.0, self.eps)
        self.num_batches_tracked += 1
        share = self.momentum
        if share is None:  # the mean of all batches
            share = 1.0 / self.num_batches_tracked.item()
        return F.batch_norm(x, self.running_mean, self.running_var, self.weight, self.bias, True,
                            share, self.eps)

    def extra_repr(self):
        return (f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, "
                f"affine={self.affine}, track_running_stats={self.track_running_stats}")


class BatchNorm1d(_BatchNorm):
    __doc__ = _BatchNorm.__doc__
    ranks = (2, 3)


class BatchNorm2d(_BatchNorm):
    __doc__ = _BatchNorm.__doc__
    ranks = (4,)


class BatchNorm3d(_BatchNorm):
    __doc__ = _BatchNorm.__doc__
    ranks = (5,)


class _InstanceNorm(_Norm):
    """Each channel of each sample: (n, channels, ...)."""

    ranks = (4,)

    def __init__(self, num_features, eps=1e-5, momentum=0.1, affine=False,
                 track_running_stats=False, device=None, dtype=None):
        super().__init__()
        if track_running_stats:
            raise error("ValueError", self, "running statistics are not kept")
        self.num_features, self.eps, self.affine = num_features, eps, affine
        self._make_affine((num_features,), affine, affine, dtype, device)

    def forward(self, x):
        self._need_channels(x, self.num_features, self.ranks)
        return F.instance_norm(x, weight=self.weight, bias=self.bias, eps=self.eps)

    def extra_repr(self):
        return f"{self.num_features}, eps={self.eps}, affine={self.affine}"


class InstanceNorm1d(_InstanceNorm):
    __doc__ = _InstanceNorm.__doc__
    ranks = (3,)


class InstanceNorm2d(_InstanceNorm):
    __doc__ = _InstanceNorm.__doc__


class GroupNorm(_Norm):
    """Each group of neighbouring channels of each sample: (n, num_channels, ...)."""

    def __init__(self, num_groups, num_channels, eps=1e-5, affine=True, device=None, dtype=None):
        super().__init__()
        if num_groups < 1 or num_channels % num_groups:
            raise error("ValueError", self, f"{num_channels} channels do not divide into "
                        f"{num_groups} groups")
        self.num_groups, self.num_channels = num_groups, num_channels
        self.eps, self.affine = eps, affine
        self._make_affine((num_channels,), affine, affine, dtype, device)

    def forward(self, x):
        self._need_channels(x, self.num_channels)
        return F.group_norm(x, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self):
        return f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}"


class _LastAxes(_Norm):
    def _need_last(self, x):
        sizes = self.normalized_shape
        if tuple(x.shape[max(0, x.ndim - len(sizes)):]) != sizes:
            raise error("ShapeError", self, f"expected {sizes} as last axes, got an input of shape "
                        f"{tuple(x.shape)}")

    def extra_repr(self):
        return (f"{self.normalized_shape}, eps={self.eps}, "
                f"elementwise_affine={self.elementwise_affine}")


class LayerNorm(_LastAxes):
    """The last axes, whose extents are normalized_shape."""

    def __init__(self, normalized_shape, eps=1e-5, elementwise_affine=True, bias=True, device=None,
                 dtype=None):
        super().__init__()
        self.normalized_shape = tuple_of(normalized_shape, 1)
        self.eps, self.elementwise_affine = eps, elementwise_affine
        self._make_affine(self.normalized_shape, elementwise_affine, elementwise_affine and bias,
                          dtype, device)

    def forward(self, x):
        self._need_last(x)
        return F.layer_norm(x, self.normalized_shape, self.weight, self.bias, self.eps)


class RMSNorm(_LastAxes):
    """The last axes to mean square 1, no shift. Without eps: the numbers' spacing at 1."""

    def __init__(self, normalized_shape, eps=None, elementwise_affine=True, device=None,
                 dtype=None):
        super().__init__()
        self.normalized_shape = tuple_of(normalized_shape, 1)
        self.eps, self.elementwise_affine = eps, elementwise_affine
        self._make_affine(self.normalized_shape, elementwise_affine, False, dtype, device)

    def forward(self, x):
        self._need_last(x)
        return F.rms_norm(x, self.normalized_shape, self.weight, self.eps)


class LocalResponseNorm(Module):
    """x over a power of the mean square of the neighbouring channels."""

    def __init__(self, size, alpha=1e-4, beta=0.75, k=1.0):
        super().__init__()
        self.size, self.alpha, self.beta, self.k = size, alpha, beta, k

    def forward(self, x):
        return F.local_response_norm(x, self.size, self.alpha, self.beta, self.k)

    def extra_repr(self):
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"
