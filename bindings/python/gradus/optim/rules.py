"""Rules made of ops: each reads as its formula."""
from .. import _gradus
from .optimizer import Optimizer


def _gradient(group, p):
    """The gradient of what is minimised, with the decay of the weights."""
    g = -p.grad if group["maximize"] else p.grad.detach()
    return g + group["weight_decay"] * p if group["weight_decay"] else g


def _zeros(p, value=0.0):
    return _gradus.full(p.shape, value, dtype=p.dtype, device=p.device)


class RMSprop(Optimizer):
    """v = alpha v + (1 - alpha) g^2; p -= lr g / (sqrt(v) + eps). centered: v less the squared mean
    of g; momentum: the quotients are summed up as SGD's gradients are."""

    def __init__(self, params, lr=1e-2, alpha=0.99, eps=1e-8, weight_decay=0.0, momentum=0.0,
                 centered=False, *, maximize=False):
        super().__init__(params, {"lr": lr, "alpha": alpha, "eps": eps,
                                  "weight_decay": weight_decay, "momentum": momentum,
                                  "centered": centered, "maximize": maximize})

    def _update(self, group, parameters):
        alpha, lr = group["alpha"], float(group["lr"])
        for p in parameters:
            g, held = _gradient(group, p), self.state.setdefault(p, {"step": 0})
            held["step"] += 1
            square = held.setdefault("square_avg", _zeros(p))
            square.mul_(alpha).addcmul_(g, g, value=1 - alpha)
            root = square
            if group["centered"]:
                mean = held.setdefault("grad_avg", _zeros(p))
                mean.lerp_(g, 1 - alpha)
                root = square - mean * mean
            root = root.sqrt() + group["eps"]
            if group["momentum"]:
                velocity = held.setdefault("momentum_buffer", _zeros(p))
                velocity.mul_(group["momentum"]).addcdiv_(g, root)
                p.sub_(velocity * lr)
            else:
                p.addcdiv_(g, root, value=-lr)


class Adagrad(Optimizer):
    """s += g^2; p -= lr / (1 + (t - 1) lr_decay) g / (sqrt(s) + eps) (Duchi et al., JMLR 2011)."""

    def __init__(self, params, lr=1e-2, lr_decay=0.0, weight_decay=0.0,
                 initial_accumulator_value=0.0, eps=1e-10, *, maximize=False):
        super().__init__(params, {"lr": lr, "lr_decay": lr_decay, "weight_decay": weight_decay,
                                  "initial_accumulator_value": initial_accumulator_value,
                                  "eps": eps, "maximize": maximize})

    def _update(self, group, parameters):
        for p in parameters:
            g, held = _gradient(group, p), self.state.setdefault(p, {"step": 0})
            held["step"] += 1
            if "sum" not in held:
                held["sum"] = _zeros(p, group["initial_accumulator_value"])
            held["sum"].addcmul_(g, g)
            lr = float(group["lr"]) / (1 + (held["step"] - 1) * group["lr_decay"])
            p.addcdiv_(g, held["sum"].sqrt() + group["eps"], value=-lr)
