"""What is told about compiled graphs, and when results count as the same."""
import logging

import torch

log = logging.getLogger("gradus.torch")
history = []  # of each graph: {"way", "why", "steps", "by_torch"}


def told(way, why, steps, by_torch=()):
    history.append({"way": way, "why": why, "steps": steps, "by_torch": tuple(by_torch)})
    del history[:-100]
    log.info("graph of %d steps: way %s: %s%s", steps, way, why,
             f"; run by torch: {', '.join(by_torch)}" if by_torch else "")


LIMIT = {torch.float64: 1e-7, torch.float16: 3e-2, torch.bfloat16: 1e-1, torch.complex128: 1e-7}


def differ(x, y, limit=None):
    """Why x (ours) is not y (torch's), or None. A missing gradient is 0."""
    if not isinstance(y, torch.Tensor) and not isinstance(x, torch.Tensor):
        return None if x == y else f"{x}, torch has {y}"
    if x is None or y is None:
        other = y if x is None else x
        return None if not other.any() else "there is no gradient"
    if x.device != y.device:
        return f"on {x.device}, torch's is on {y.device}"
    if x.shape != y.shape or x.dtype != y.dtype:
        return f"{tuple(x.shape)} {x.dtype}, torch has {tuple(y.shape)} {y.dtype}"
    x, y = x.detach(), y.detach()
    if not (y.is_floating_point() or y.is_complex()):
        return None if torch.equal(x, y) else "other whole numbers"
    limit = limit or LIMIT.get(y.dtype, 1e-3)
    good = torch.isfinite(y)
    if not torch.equal(good, torch.isfinite(x)):
        return "NaN or infinity at other places"
    if not good.any():
        return None
    x, y = x[good], y[good]
    wide = torch.complex128 if y.is_complex() else torch.float64
    off = (x.to(wide) - y.to(wide)).abs()
    size = y.abs().max().item()
    worst = off.max().item()
    if worst <= limit * max(size, 1e-3):
        return None
    return f"off by {worst:.3g}, the size is {size:.3g}"
