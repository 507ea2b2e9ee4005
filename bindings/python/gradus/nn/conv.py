"""Convolutions and pooling over one, two or three axes."""
import math

from . import functional as F
from . import init
from .layers import REQUIRED, OpModule, new_parameter, tuple_of
from .module import Module, error


class _Conv(Module):
    """(n, in_channels, ...) -> (n, out_channels, ...), or without n. weight is (out, in / groups,
    kernel...), of transposed ones (in, out / groups, kernel...)."""

    axes, transposed = 2, False

    def __init__(self, in_channels, out_channels, kernel_size, stride=1, padding=0, dilation=1,
                 groups=1, bias=True, padding_mode="zeros", output_padding=0, device=None,
                 dtype=None):
        super().__init__()
        if padding_mode != "zeros":
            raise error("ValueError", self, f"padding_mode is {padding_mode!r}, there is zeros")
        if min(in_channels, out_channels, groups) < 1 or in_channels % groups \
                or out_channels % groups:
            raise error("ValueError", self, f"channels {in_channels} -> {out_channels} do not "
                        f"divide into {groups} groups")
        self.in_channels, self.out_channels, self.groups = in_channels, out_channels, groups
        self.kernel_size = tuple_of(kernel_size, self.axes)
        if len(self.kernel_size) != self.axes or min(self.kernel_size) < 1:
            raise error("ValueError", self, f"kernel_size is {kernel_size}, expected {self.axes} "
                        f"of 1 or more")
        self.stride = tuple_of(stride, self.axes)
        self.dilation = tuple_of(dilation, self.axes)
        self.padding = self._padding(padding)
        self.output_padding = tuple_of(output_padding, self.axes)
        first, second = (in_channels, out_channels) if self.transposed else \
            (out_channels, in_channels)
        made = {"dtype": dtype, "device": device}
        self.weight = new_parameter(first, second // groups, *self.kernel_size, **made)
        self.register_parameter("bias", new_parameter(out_channels, **made) if bias else None)
        self.reset_parameters()

    def _padding(self, padding):
        if not isinstance(padding, str):
            return tuple_of(padding, self.axes)
        widths = [d * (k - 1) for d, k in zip(self.dilation, self.kernel_size)]
        if self.transposed or padding not in ("valid", "same"):
            raise error("ValueError", self, f"padding is {padding!r}")
        if padding == "same" and any(s != 1 for s in self.stride):
            raise error("ValueError", self, "padding 'same' needs a stride of 1")
        if padding == "same" and any(w % 2 for w in widths):
            raise error("ValueError", self, "padding 'same' needs kernels of odd size")
        return tuple(w // 2 if padding == "same" else 0 for w in widths)

    def reset_parameters(self):
        init.layer_uniform_(self, math.prod(self.weight.shape[1:]))

    def forward(self, x):
        if x.ndim not in (self.axes + 1, self.axes + 2) \
                or x.shape[-1 - self.axes] != self.in_channels:
            sizes = ", ".join("dhw"[3 - self.axes:])
            raise error("ShapeError", self, f"expected {self.in_channels} channels, (n, "
                        f"{self.in_channels}, {sizes}), got an input of shape {tuple(x.shape)}")
        if x.ndim == self.axes + 1:
            return self._run(x.unsqueeze(0)).squeeze(0)
        return self._run(x)

    def _run(self, x):
        return type(self).op(x, self.weight, self.bias, self.stride, self.padding, self.dilation,
                             self.groups)

    def extra_repr(self):
        text = f"{self.in_channels}, {self.out_channels}"
        plain = {"stride": 1, "padding": 0, "dilation": 1, "output_padding": 0}
        for name in ("kernel_size", "stride", "padding", "output_padding", "dilation"):
            value = getattr(self, name)
            if value != (plain.get(name),) * self.axes:
                text += f", {name}={value}"
        if self.groups != 1:
            text += f", groups={self.groups}"
        return text + ("" if self.bias is not None else ", bias=False")


class Conv1d(_Conv):
    __doc__ = _Conv.__doc__
    axes, op = 1, staticmethod(F.conv1d)


class Conv2d(_Conv):
    __doc__ = _Conv.__doc__
    axes, op = 2, staticmethod(F.conv2d)


class Conv3d(_Conv):
    __doc__ = _Conv.__doc__
    axes, op = 3, staticmethod(F.conv3d)


class _ConvTranspose(_Conv):
    __doc__ = _Conv.__doc__
    transposed = True

    def __init__(self, in_channels, out_channels, kernel_size, stride=1, padding=0,
                 output_padding=0, groups=1, bias=True, dilation=1, padding_mode="zeros",
                 device=None, dtype=None):
        super().__init__(in_channels, out_channels, kernel_size, stride, padding, dilation, groups,
                         bias, padding_mode, output_padding, device, dtype)

    def _run(self, x):
        return type(self).op(x, self.weight, self.bias, self.stride, self.padding,
                             self.output_padding, self.groups, self.dilation)


class ConvTranspose1d(_ConvTranspose):
    __doc__ = _Conv.__doc__
    axes, op = 1, staticmethod(F.conv_transpose1d)


class ConvTranspose2d(_ConvTranspose):
    __doc__ = _Conv.__doc__
    axes, op = 2, staticmethod(F.conv_transpose2d)


class ConvTranspose3d(_ConvTranspose):
    __doc__ = _Conv.__doc__
    axes, op = 3, staticmethod(F.conv_transpose3d)


_MAX = {"kernel_size": REQUIRED, "stride": None, "padding": 0, "dilation": 1, "ceil_mode": False}
_AVG = {"kernel_size": REQUIRED, "stride": None, "padding": 0, "ceil_mode": False,
        "count_include_pad": True}


class MaxPool1d(OpModule):
    """The largest number of each window: (n, c, w). The stride is the kernel's size unless given."""
    op, options = staticmethod(F.max_pool1d), _MAX


class MaxPool2d(OpModule):
    """The largest number of each window: (n, c, h, w)."""
    op, options = staticmethod(F.max_pool2d), _MAX


class MaxPool3d(OpModule):
    """The largest number of each window: (n, c, d, h, w)."""
    op, options = staticmethod(F.max_pool3d), _MAX


class AvgPool1d(OpModule):
    """The mean of each window: (n, c, w)."""
    op, options = staticmethod(F.avg_pool1d), _AVG


class AvgPool2d(OpModule):
    """The mean of each window: (n, c, h, w)."""
    op, options = staticmethod(F.avg_pool2d), _AVG


class AvgPool3d(OpModule):
    """The mean of each window: (n, c, d, h, w)."""
    op, options = staticmethod(F.avg_pool3d), _AVG


class _Adaptive(OpModule):
    """Means, or maxima, over output_size windows that cover each axis; None keeps an axis."""
    axes, options = 1, {"output_size": REQUIRED}

    def forward(self, x):
        sizes = tuple_of(self.output_size, self.axes)
        return type(self).op(x, tuple(n if size is None else size
                                      for size, n in zip(sizes, x.shape[-self.axes:])))


class AdaptiveAvgPool1d(_Adaptive):
    __doc__ = _Adaptive.__doc__
    axes, op = 1, staticmethod(F.adaptive_avg_pool1d)


class AdaptiveAvgPool2d(_Adaptive):
    __doc__ = _Adaptive.__doc__
    axes, op = 2, staticmethod(F.adaptive_avg_pool2d)


class AdaptiveAvgPool3d(_Adaptive):
    __doc__ = _Adaptive.__doc__
    axes, op = 3, staticmethod(F.adaptive_avg_pool3d)


class AdaptiveMaxPool1d(_Adaptive):
    __doc__ = _Adaptive.__doc__
    axes, op = 1, staticmethod(F.adaptive_max_pool1d)


class AdaptiveMaxPool2d(_Adaptive):
    __doc__ = _Adaptive.__doc__
    axes, op = 2, staticmethod(F.adaptive_max_pool2d)
