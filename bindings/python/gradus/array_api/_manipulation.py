"""Shapes and places: joining, moving, repeating, picking by index."""
from .. import _gradus as op
from . import _base
from ._base import array, axes_of, one_axis, several, to_common

__all__ = ["broadcast_arrays", "broadcast_to", "concat", "expand_dims", "flip", "moveaxis",
           "permute_dims", "repeat", "reshape", "roll", "squeeze", "stack", "take",
           "take_along_axis", "tile", "unstack"]


def broadcast_arrays(*arrays):
    """The arrays in their common shape, a list."""
    return list(several(op.broadcast_tensors(*arrays))) if arrays else []


def broadcast_to(x, /, shape):
    """x in this shape, its elements repeated along new and longer axes."""
    return op.broadcast_to(array(x, "broadcast_to"), tuple(shape))


def concat(arrays, /, *, axis=0):
    """The arrays one after another along an axis; axis=None: all their elements in a row."""
    arrays = to_common(arrays, "concat")
    if axis is None:
        arrays, axis = [op.reshape(x, (-1,)) for x in arrays], 0
    return op.cat(arrays, dim=one_axis(axis, arrays[0].ndim, "concat"))


def stack(arrays, /, *, axis=0):
    """The arrays one after another along a new axis."""
    arrays = to_common(arrays, "stack")
    return op.stack(arrays, dim=one_axis(axis, arrays[0].ndim + 1, "stack"))


def unstack(x, /, *, axis=0):
    """The arrays that lie along an axis, a tuple."""
    return several(op.unbind(x, one_axis(axis, x.ndim, "unstack")))


def expand_dims(x, /, axis):
    """x with new axes of extent 1 at these places of the result."""
    axes = axis if isinstance(axis, tuple) else (axis,)
    for k in sorted(axes_of(axes, x.ndim + len(axes), "expand_dims")):
        x = op.unsqueeze(x, k)
    return x


def squeeze(x, /, axis):
    """x without these axes, whose extent is 1."""
    axes = axes_of(axis, x.ndim, "squeeze")
    for k in axes:
        if x.shape[k] != 1:
            raise ValueError(f"squeeze: axis {k} has extent {x.shape[k]}, not 1")
    return op.squeeze(x, axes) if axes else x


def flip(x, /, *, axis=None):
    """x with the order along these axes turned round."""
    return op.flip(x, axes_of(axis, x.ndim, "flip"))


def moveaxis(x, source, destination, /):
    """x with some axes moved to other places."""
    return op.movedim(x, axes_of(source, x.ndim, "moveaxis"),
                      axes_of(destination, x.ndim, "moveaxis"))


def permute_dims(x, /, axes):
    """x with its axes in this order."""
    return op.permute(x, axes_of(axes, x.ndim, "permute_dims"))


def reshape(x, /, shape, *, copy=None):
    """x's elements, row by row, in another shape; a view where that can be."""
    y = op.reshape(x, tuple(shape) if isinstance(shape, (tuple, list)) else (shape,))
    if copy is None:
        return y
    shared = y.data_ptr() == x.data_ptr()
    if copy is False and not shared and x.nbytes:
        raise ValueError("reshape: these strides need a copy; copy=False forbids it")
    return op.clone(y) if copy and shared else y


def roll(x, /, shift, *, axis=None):
    """x's elements moved on along these axes, round the end; axis=None: in a row."""
    shifts = shift if isinstance(shift, (tuple, list)) else (shift,)
    if axis is None:
        return op.reshape(op.roll(op.reshape(x, (-1,)), sum(shifts), 0), x.shape)
    axes = axis if isinstance(axis, (tuple, list)) else (axis,)
    for s, k in zip(shifts * len(axes) if len(shifts) == 1 else shifts, axes):
        x = op.roll(x, s, one_axis(k, x.ndim, "roll"))
    return x


def tile(x, repetitions, /):
    """x again and again along its axes."""
    return op.tile(x, tuple(repetitions))


def repeat(x, repeats, /, *, axis=None):
    """Each element this many times; repeats may be an array with a number for each."""
    if axis is None:
        x, axis = op.reshape(x, (-1,)), 0
    axis = one_axis(axis, x.ndim, "repeat")
    if not isinstance(repeats, _base.Tensor) or repeats.numel() == 1:
        return op.repeat_interleave(x, int(repeats), axis)
    if repeats.shape != x.shape[axis:axis + 1]:
        raise ValueError(f"repeat: {repeats.shape} numbers for an axis of extent {x.shape[axis]}")
    ends = op.cumsum(op.cast(repeats, _base.int64))
    total = int(ends[-1]) if ends.numel() else 0
    places = op.searchsorted(ends, op.arange(total, dtype=_base.int64), right=True)
    return op.index_select(x, places, dim=axis)


def _from_front(indices, size):
    indices = op.cast(indices, _base.int64)
    return op.where(op.lt(indices, 0), indices + size, indices)


def take(x, indices, /, *, axis=None):
    """The slices at these indices of an axis, which may be left out where there is one only."""
    if axis is None:
        if x.ndim != 1:
            raise ValueError(f"take: axis is needed, the array has {x.ndim} axes")
        axis = 0
    axis = one_axis(axis, x.ndim, "take")
    return op.index_select(x, _from_front(indices, x.shape[axis]), dim=axis)


def take_along_axis(x, indices, /, *, axis=-1):
    """For each index the element there along the axis, else at the index's own place."""
    axis = one_axis(axis, x.ndim, "take_along_axis")
    return op.take_along_dim(x, _from_front(indices, x.shape[axis]), dim=axis)
