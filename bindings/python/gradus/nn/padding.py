"""Borders, and images of other sizes."""
from .. import _gradus
from . import functional as F
from .layers import REQUIRED, op_module
from .module import Module

_made = op_module(__name__)


class _Pad(Module):
    """A border around the last axes: padding before and after each, or (before, after) of the last one,
    then of the one before, ..."""

    mode, axes, value = "constant", 1, 0.0

    def __init__(self, padding):
        super().__init__()
        self.padding = (padding,) * (2 * self.axes) if isinstance(padding, int) else tuple(padding)
        if len(self.padding) != 2 * self.axes:
            raise _gradus.ValueError(f"{type(self).__name__}: padding has {len(self.padding)} numbers, expected "
                                     f"one or {2 * self.axes}")

    def forward(self, x):
        return F.pad(x, self.padding, self.mode, self.value)

    def extra_repr(self):
        return str(self.padding)


class _ConstantPad(_Pad):
    __doc__ = _Pad.__doc__

    def __init__(self, padding, value):
        super().__init__(padding)
        self.value = value

    def extra_repr(self):
        return f"padding={self.padding}, value={self.value}"


__all__ = ["PixelShuffle", "PixelUnshuffle", "Upsample"]
for _name, _base, _mode in (("ZeroPad", _Pad, "constant"), ("ConstantPad", _ConstantPad, "constant"),
                            ("ReflectionPad", _Pad, "reflect"), ("ReplicationPad", _Pad, "replicate"),
                            ("CircularPad", _Pad, "circular")):
    for _axes in (1, 2, 3):
        __all__.append(f"{_name}{_axes}d")
        globals()[__all__[-1]] = type(__all__[-1], (_base,), {
            "mode": _mode, "axes": _axes, "__module__": __name__, "__doc__": _base.__doc__})

Upsample = _made("Upsample", F.interpolate, "An image of another size: (n, channels, ...), to size or by "
                 "scale_factor.", size=None, scale_factor=None, mode="nearest", align_corners=None)
PixelShuffle = _made("PixelShuffle", F.pixel_shuffle, "Channels as pixels: (..., c r r, h, w) -> "
                     "(..., c, h r, w r).", upscale_factor=REQUIRED)
PixelUnshuffle = _made("PixelUnshuffle", F.pixel_unshuffle, "Pixels as channels: (..., c, h r, w r) -> "
                       "(..., c r r, h, w).", downscale_factor=REQUIRED)
