"""Convolutions and pooling over one, two or three axes."""
import math

from . import functional as F
from . import init
from .layers import REQUIRED, OpModule, new_parameter, op_module, tuple_of
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


def _conv(name, base, axes, op):
    return type(name, (base,), {"axes": axes, "op": staticmethod(op), "__module__": __name__,
                                "__doc__": _Conv.__doc__})


Conv1d = _conv("Conv1d", _Conv, 1, F.conv1d)
Conv2d = _conv("Conv2d", _Conv, 2, F.conv2d)
Conv3d = _conv("Conv3d", _Conv, 3, F.conv3d)
ConvTranspose1d = _conv("ConvTranspose1d", _ConvTranspose, 1, F.conv_transpose1d)
ConvTranspose2d = _conv("ConvTranspose2d", _ConvTranspose, 2, F.conv_transpose2d)
ConvTranspose3d = _conv("ConvTranspose3d", _ConvTranspose, 3, F.conv_transpose3d)


def _pool(name, op):
    rest = {"dilation": 1, "ceil_mode": False} if name.startswith("Max") else \
        {"ceil_mode": False, "count_include_pad": True}
    what = "largest number" if name.startswith("Max") else "mean"
    return op_module(__name__)(
        name, op, f"The {what} of each window, over the last axes; the stride is kernel_size "
        f"unless given.", kernel_size=REQUIRED, stride=None, padding=0, **rest)


MaxPool1d = _pool("MaxPool1d", F.max_pool1d)
MaxPool2d = _pool("MaxPool2d", F.max_pool2d)
MaxPool3d = _pool("MaxPool3d", F.max_pool3d)
AvgPool1d = _pool("AvgPool1d", F.avg_pool1d)
AvgPool2d = _pool("AvgPool2d", F.avg_pool2d)
AvgPool3d = _pool("AvgPool3d", F.avg_pool3d)


class _Adaptive(OpModule):
    """output_size windows that cover each axis, of each its mean or maximum; None keeps an axis."""

    def forward(self, x):
        axes = int(type(self).__name__[-2])
        sizes = tuple_of(self.output_size, axes)
        return type(self).op(x, tuple(n if size is None else size
                                      for size, n in zip(sizes, x.shape[-axes:])))


def _adaptive(name, op):
    return op_module(__name__, _Adaptive)(name, op, _Adaptive.__doc__, output_size=REQUIRED)


AdaptiveAvgPool1d = _adaptive("AdaptiveAvgPool1d", F.adaptive_avg_pool1d)
AdaptiveAvgPool2d = _adaptive("AdaptiveAvgPool2d", F.adaptive_avg_pool2d)
AdaptiveAvgPool3d = _adaptive("AdaptiveAvgPool3d", F.adaptive_avg_pool3d)
AdaptiveMaxPool1d = _adaptive("AdaptiveMaxPool1d", F.adaptive_max_pool1d)
AdaptiveMaxPool2d = _adaptive("AdaptiveMaxPool2d", F.adaptive_max_pool2d)
AdaptiveMaxPool3d = _adaptive("AdaptiveMaxPool3d", F.adaptive_max_pool3d)
