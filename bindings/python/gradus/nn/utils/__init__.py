"""Gradients held back, the parameters as one vector, modules as functions of their parameters."""
import math

from ... import _gradus
from ..._modes import no_grad
from . import rnn


def _gradients(parameters):
    if isinstance(parameters, _gradus.Tensor):
        parameters = [parameters]
    return [p.grad.detach() for p in parameters if p.grad is not None]


def get_total_norm(tensors, norm_type=2.0, error_if_nonfinite=False):
    """The norm of all tensors together, a tensor of one number."""
    with no_grad():
        total = None
        for g in tensors:
            if norm_type == math.inf:
                part = g.abs().amax()
                total = part if total is None else _gradus.maximum(total, part)
            else:
                part = g.square().sum() if norm_type == 2 else g.abs().pow(float(norm_type)).sum()
                total = part if total is None else total + part
        if total is None:
            return _gradus.tensor(0.0)
        if norm_type != math.inf:
            total = total.sqrt() if norm_type == 2 else total.pow(1.0 / norm_type)
    if error_if_nonfinite and not math.isfinite(total.item()):
        raise _gradus.NumericError(f"clip_grad_norm_: the norm of the gradients is {total.item()}")
    return total


def clip_grad_norm_(parameters, max_norm, norm_type=2.0, error_if_nonfinite=False):
    """Scales all gradients by min(1, max_norm / (norm + 1e-6)), in place; gives the norm."""
    gradients = _gradients(parameters)
    total = get_total_norm(gradients, norm_type, error_if_nonfinite)
    with no_grad():
        gain = _gradus.minimum(float(max_norm) / (total + 1e-6), 1.0)
        for g in gradients:
            g.mul_(gain.to(g.dtype))
    return total


def clip_grad_value_(parameters, clip_value):
    """Holds every number of the gradients in [-clip_value, clip_value], in place."""
    with no_grad():
        for g in _gradients(parameters):
            g.clamp_(-float(clip_value), float(clip_value))


def parameters_to_vector(parameters):
    """All parameters one after another: (count,)."""
    return _gradus.cat([p.reshape(-1) for p in parameters], 0)


def vector_to_parameters(vec, parameters):
    """The other way: writes the numbers into the parameters."""
    parameters = list(parameters)
    count = sum(p.numel() for p in parameters)
    if tuple(vec.shape) != (count,):
        raise _gradus.ShapeError(f"vector_to_parameters: the parameters hold {count} numbers, the "
                                 f"vector has shape {tuple(vec.shape)}")
    at = 0
    with no_grad():
        for p in parameters:
            p.copy_(vec[at:at + p.numel()].reshape(p.shape))
            at += p.numel()


def functional_call(module, parameters_and_buffers, args=(), kwargs=None):
    """module(*args, **kwargs) with tensors in the place of its own, by name; the module stays as it
    was. So gradus.func can take derivatives by what is in it, also one for each sample."""
    args = args if isinstance(args, tuple) else (args,)
    places = {name: (holder, key) for name, holder, key in module._places()}
    unknown = [n for n in parameters_and_buffers if n not in places]
    if unknown:
        raise _gradus.ValueError(f"functional_call: {type(module).__name__} has no {unknown[0]!r}")
    before = {name: places[name][0][places[name][1]] for name in parameters_and_buffers}
    try:
        for name, tensor in parameters_and_buffers.items():
            places[name][0][places[name][1]] = tensor
        return module(*args, **(kwargs or {}))
    finally:
        for name, tensor in before.items():
            places[name][0][places[name][1]] = tensor
