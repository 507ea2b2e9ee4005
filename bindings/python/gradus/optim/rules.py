"""Rules made of ops: each reads as its formula."""
from .. import _compile, _gradus
from .optimizer import Optimizer


class _ByOps(Optimizer):
    _count = 1  # of what _factors gives
    _real = True

    def __init__(self, params, defaults):
        self._rates = {}  # of each parameter: tensors, so that recorded steps follow the rate too
        super().__init__(params, defaults)

    def _factors(self, group, held):
        """What the step held["step"], counted from 1, takes from the host."""
        return [group["lr"]]

    def _begin(self, group, p, names, value=0.0):
        """(gradient with the weights' decay, factors, tensors of the state) for one step of p."""
        held = self.state.setdefault(p, {"step": 0})
        for name in names:
            if name not in held:
                held[name] = _gradus.full(p.shape, value, dtype=p.dtype, device=p.device)
        if id(p) not in self._rates:
            self._rates[id(p)] = [_gradus.zeros((), dtype=p.dtype, device=p.device)
                                  for _ in range(self._count)]
        rates = self._rates[id(p)]

        def prepare():  # what the host says of a step
            held["step"] += 1
            for rate, factor in zip(rates, self._factors(group, held)):
                rate.fill_(float(factor))

        def options():  # what a recording holds; the rate is the host's
            return {k: v for k, v in group.items() if k not in ("params", "lr", "initial_lr")}
        recorded = options()

        def alive():
            return self.state.get(p) is held and options() == recorded
        recorder = _compile.recorder()
        if recorder is None or not recorder.advances(rates[0], prepare, alive):
            prepare()
        g = -p.grad if group["maximize"] else p.grad.detach()
        if group.get("weight_decay") and not group.get("decoupled_weight_decay"):
            g = g + group["weight_decay"] * p
        return g, rates, [held[name] for name in names]

    def _forget(self):
        self._rates = {}

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
            g, (rate,), (square, *more) = self._begin(group, p, names)
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
            g, (rate,), (square, moved) = self._begin(group, p, ["square_avg", "acc_delta"])
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

    def _factors(self, group, held):
        return [group["lr"] / (1 + (held["step"] - 1) * group["lr_decay"])]

    def _update(self, group, parameters):
        for p in parameters:
            g, (rate,), (total,) = self._begin(group, p, ["sum"], group["initial_accumulator_value"])
            total.addcmul_(g, g)
            p.sub_(rate * g / (total.sqrt() + group["eps"]))


class _Moments(_ByOps):
    """What follows Adam: m and v are running means of g and g^2. With decoupled_weight_decay the
    weights' decay is AdamW's."""

    def __init__(self, params, lr, betas, eps, weight_decay, maximize, **more):
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay,
                                  "maximize": maximize, **more})

    def _means(self, group, p):
        (b1, b2), names = group["betas"], ["exp_avg", "exp_avg_sq"]
        g, (shrink, *factors), (m, v) = self._begin(group, p, names)
        if group["decoupled_weight_decay"]:
            p.mul_(shrink)
        m.lerp_(g, 1 - b1)
        v.mul_(b2).addcmul_(g, g, value=1 - b2)
        return g, factors, m, v

    @staticmethod
    def _shrink(group):
        return 1 - group["lr"] * group["weight_decay"] if group["decoupled_weight_decay"] else 1


class NAdam(_Moments):
    """Adam with Nesterov's momentum, mu_t = beta1 (1 - 0.96^(t momentum_decay) / 2):
    p -= lr ((1 - mu_t) / (1 - M_t) g + mu_t+1 / (1 - M_t mu_t+1) m) / (sqrt(v / (1 - beta2^t)) + eps),
    M_t the product of mu_1 to mu_t (Dozat, ICLR 2016 workshop)."""
    _count = 4

    def __init__(self, params, lr=2e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0, momentum_decay=4e-3,
                 decoupled_weight_decay=False, *, maximize=False):
        super().__init__(params, lr, betas, eps, weight_decay, maximize, momentum_decay=momentum_decay,
                         decoupled_weight_decay=decoupled_weight_decay)

    def _factors(self, group, held):
        lr, (b1, b2), t = group["lr"], group["betas"], held["step"]
        mu, after = (b1 * (1 - 0.5 * 0.96 ** (k * group["momentum_decay"])) for k in (t, t + 1))
        product = held["mu_product"] = held.get("mu_product", 1.0) * mu
        return [self._shrink(group), 1 / (1 - b2 ** t), lr * (1 - mu) / (1 - product),
                lr * after / (1 - product * after)]

    def _update(self, group, parameters):
        for p in parameters:
            g, (unbiased, of_g, of_m), m, v = self._means(group, p)
            p.sub_((of_g * g + of_m * m) / ((v * unbiased).sqrt() + group["eps"]))


class RAdam(_Moments):
    """Adam whose quotient is scaled by r_t while the variance of v is known, and left out before:
    rho = 2 / (1 - beta2) - 1, rho_t = rho - 2 t beta2^t / (1 - beta2^t), r_t^2 = (rho_t - 4)
    (rho_t - 2) rho / ((rho - 4) (rho - 2) rho_t) where rho_t > 5 (Liu et al., arXiv 1908.03265)."""
    _count = 3

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0,
                 decoupled_weight_decay=False, *, maximize=False):
        super().__init__(params, lr, betas, eps, weight_decay, maximize,
                         decoupled_weight_decay=decoupled_weight_decay)

    def _factors(self, group, held):
        (b1, b2), t = group["betas"], held["step"]
        rate, unbiased, rho = group["lr"] / (1 - b1 ** t), 1 - b2 ** t, 2 / (1 - b2) - 1
        at = rho - 2 * t * b2 ** t / unbiased
        if at <= 5:
            return [self._shrink(group), 0.0, rate]
        r = ((at - 4) * (at - 2) * rho / ((rho - 4) * (rho - 2) * at)) ** 0.5
        return [self._shrink(group), rate * r * unbiased ** 0.5, 0.0]

    def _update(self, group, parameters):
        for p in parameters:
            _, (adaptive, plain), m, v = self._means(group, p)
            p.sub_(m * (adaptive / (v.sqrt() + group["eps"]) + plain))


class Adamax(_ByOps):
    """m as Adam's, u = max(beta2 u, |g| + eps); p -= lr / (1 - beta1^t) m / u (Kingma and Ba, arXiv
    1412.6980, section 7.1)."""

    def __init__(self, params, lr=2e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0, *, maximize=False):
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay,
                                  "maximize": maximize})

    def _factors(self, group, held):
        return [group["lr"] / (1 - group["betas"][0] ** held["step"])]

    def _update(self, group, parameters):
        b1, b2 = group["betas"]
        for p in parameters:
            g, (rate,), (m, u) = self._begin(group, p, ["exp_avg", "exp_inf"])
            m.lerp_(g, 1 - b1)
            u.copy_(_gradus.maximum(b2 * u, g.abs() + group["eps"]))
            p.sub_(rate * m / u)


class Rprop(_ByOps):
    """Each element has a step of its own, lr at first: times etas[1] while its gradient keeps its sign,
    times etas[0] where it changes, which skips that move (Riedmiller and Braun, ICNN 1993)."""

    def __init__(self, params, lr=1e-2, etas=(0.5, 1.2), step_sizes=(1e-6, 50), *, maximize=False):
        super().__init__(params, {"lr": lr, "etas": etas, "step_sizes": step_sizes, "maximize": maximize})

    def _check(self, group):
        super()._check(group)
        (less, more), (least, most) = group["etas"], group["step_sizes"]
        if not 0 < less < 1 < more:
            raise _gradus.ValueError(f"Rprop: etas are {group['etas']}, expected one from 0 to 1 and one above 1")
        if not 0 <= least <= most:
            raise _gradus.ValueError(f"Rprop: step_sizes are {group['step_sizes']}, expected the smaller one first")

    def _update(self, group, parameters):
        less, more = group["etas"]
        for p in parameters:
            held = self.state.setdefault(p, {"step": 0})
            if "step_size" not in held:
                held["step_size"] = _gradus.full_like(p.detach(), group["lr"])
            g, _, (before, size) = self._begin(group, p, ["prev", "step_size"])
            turn = g * before
            size.mul_(_gradus.where(turn < 0, less, _gradus.where(turn > 0, more, _gradus.ones_like(g))))
            size.clamp_(*group["step_sizes"])
            before.copy_(_gradus.where(turn < 0, 0.0, g))
            p.sub_(before.sign() * size)
