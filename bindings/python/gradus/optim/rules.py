"""Rules made of ops: each reads as its formula."""
from .. import _compile, _gradus
from .optimizer import Optimizer


class _ByOps(Optimizer):
    def __init__(self, params, defaults):
        self._rates = {}  # of each parameter: a tensor, so that recorded steps follow the rate too
        super().__init__(params, defaults)

    def _lr(self, group, step):
        return float(group["lr"])

    def _begin(self, group, p, names, value=0.0):
        """(gradient with the weights' decay, rate, tensors of the state) for one step of p."""
        held = self.state.setdefault(p, {"step": 0})
        for name in names:
            if name not in held:
                held[name] = _gradus.full(p.shape, value, dtype=p.dtype, device=p.device)
        if id(p) not in self._rates:
            self._rates[id(p)] = _gradus.zeros((), dtype=p.dtype, device=p.device)
        rate = self._rates[id(p)]

        def prepare():  # what the host says of a step
            held["step"] += 1
            rate.fill_(self._lr(group, held["step"]))
        recorder = _compile.recorder()
        if recorder is None or not recorder.advances(rate, prepare):
            prepare()
        g = -p.grad if group["maximize"] else p.grad.detach()
        if group["weight_decay"]:
            g = g + group["weight_decay"] * p
        return g, rate, [held[name] for name in names]

    def __getstate__(self):
        return {**self.__dict__, "_rates": {}}


class RMSprop(_ByOps):
    """v = alpha v + (1 - alpha) g^2; p -= lr g / (sqrt(v) + eps). centered: v less the squared mean
    of g; momentum: the quotients are summed up as SGD's gradients are."""

    def __init__(self, params, lr=1e-2, alpha=0.99, eps=1e-8, weight_decay=0.0, momentum=0.0,
                 centered=False, *, maximize=False):
        super().__init__(params, {"lr": lr, "alpha": alpha, "eps": eps,
                                  "weight_decay": weight_decay, "momentum": momentum,
                                  "centered": centered, "maximize": maximize})

    def _update(self, group, parameters):
        alpha = group["alpha"]
        names = ["square_avg"] + ["grad_avg"] * bool(group["centered"]) \
            + ["momentum_buffer"] * bool(group["momentum"])
        for p in parameters:
            g, rate, (square, *more) = self._begin(group, p, names)
            square.mul_(alpha).addcmul_(g, g, value=1 - alpha)
            root = square
            if group["centered"]:
                mean = more[0].lerp_(g, 1 - alpha)
                root = square - mean * mean
            move = g / (root.sqrt() + group["eps"])
            if group["momentum"]:
                move = more[-1].mul_(group["momentum"]).add_(move)
            p.sub_(rate * move)


class Adadelta(_ByOps):
    """v = rho v + (1 - rho) g^2; d = sqrt(u + eps) / sqrt(v + eps) g; u = rho u + (1 - rho) d^2;
    p -= lr d (Zeiler, arXiv 1212.5701)."""

    def __init__(self, params, lr=1.0, rho=0.9, eps=1e-6, weight_decay=0.0, *, maximize=False):
        super().__init__(params, {"lr": lr, "rho": rho, "eps": eps, "weight_decay": weight_decay,
                                  "maximize": maximize})

    def _update(self, group, parameters):
        rho, eps = group["rho"], group["eps"]
        for p in parameters:
            g, rate, (square, moved) = self._begin(group, p, ["square_avg", "acc_delta"])
            square.mul_(rho).addcmul_(g, g, value=1 - rho)
            move = (moved + eps).sqrt() / (square + eps).sqrt() * g
            moved.mul_(rho).addcmul_(move, move, value=1 - rho)
            p.sub_(rate * move)


class Adagrad(_ByOps):
    """s += g^2; p -= lr / (1 + (t - 1) lr_decay) g / (sqrt(s) + eps) (Duchi et al., JMLR 2011)."""

    def __init__(self, params, lr=1e-2, lr_decay=0.0, weight_decay=0.0,
                 initial_accumulator_value=0.0, eps=1e-10, *, maximize=False):
        super().__init__(params, {"lr": lr, "lr_decay": lr_decay, "weight_decay": weight_decay,
                                  "initial_accumulator_value": initial_accumulator_value,
                                  "eps": eps, "maximize": maximize})

    def _lr(self, group, step):
        return float(group["lr"]) / (1 + (step - 1) * group["lr_decay"])

    def _update(self, group, parameters):
        for p in parameters:
            g, rate, (total,) = self._begin(group, p, ["sum"], group["initial_accumulator_value"])
            total.addcmul_(g, g)
            p.sub_(rate * g / (total.sqrt() + group["eps"]))
