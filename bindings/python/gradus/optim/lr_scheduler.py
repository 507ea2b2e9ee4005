"""Learning rates over time: call scheduler.step() after each epoch, or each step, as you count."""
import bisect
import math

from .._gradus import ValueError  # which is Python's too
from ..nn.layers import REQUIRED, signature_of


class LRScheduler:
    """Sets group["lr"] of an optimiser. A schedule derives from it, names its options, and defines
    _next(lr, base, t): the rate at t from the present one and the first one, so that several
    schedules can act on one optimiser."""

    options = {}

    def __init_subclass__(cls):
        cls.__signature__ = signature_of({"optimizer": REQUIRED, **cls.options, "last_epoch": -1})

    def __init__(self, *args, **kwargs):
        given = self.__signature__.bind(*args, **kwargs)
        given.apply_defaults()
        self.__dict__.update(given.arguments)
        self._check()
        for group in self.optimizer.param_groups:
            if self.last_epoch == -1:
                group.setdefault("initial_lr", group["lr"])
            elif "initial_lr" not in group:
                raise ValueError(f"{type(self).__name__}: to go on at {self.last_epoch} the groups "
                                 f"need \"initial_lr\"")
        self.base_lrs = [g["initial_lr"] for g in self.optimizer.param_groups]
        self._first = True  # some leave the rate as it is when they are made
        self.step()
        self._first = False

    def _check(self):
        """Options that make no sense are errors."""

    def step(self):
        self.last_epoch += 1
        for i, (group, base) in enumerate(zip(self.optimizer.param_groups, self.base_lrs)):
            self._group = i
            group["lr"] = self._next(group["lr"], base, self.last_epoch)
        self._last_lr = [g["lr"] for g in self.optimizer.param_groups]

    def _next(self, lr, base, t):
        raise NotImplementedError(f"{type(self).__name__} has no _next()")

    def get_last_lr(self):
        return self._last_lr

    def state_dict(self):
        return {k: v for k, v in self.__dict__.items() if k not in ("optimizer", "lr_lambda")}

    def load_state_dict(self, state_dict):
        self.__dict__.update(state_dict)


class LambdaLR(LRScheduler):
    """The first rate times lr_lambda(t); a list holds one function for each group."""
    options = {"lr_lambda": REQUIRED}

    def _check(self):
        n = len(self.optimizer.param_groups)
        if not isinstance(self.lr_lambda, (list, tuple)):
            self.lr_lambda = [self.lr_lambda] * n
        if len(self.lr_lambda) != n:
            raise ValueError(f"LambdaLR: {len(self.lr_lambda)} functions for {n} groups")

    def _next(self, lr, base, t):
        return base * self.lr_lambda[self._group](t)


class StepLR(LRScheduler):
    """Times gamma at each step_size."""
    options = {"step_size": REQUIRED, "gamma": 0.1}

    def _next(self, lr, base, t):
        return lr * self.gamma if t > 0 and t % self.step_size == 0 else lr


class MultiStepLR(LRScheduler):
    """Times gamma at each milestone."""
    options = {"milestones": REQUIRED, "gamma": 0.1}

    def _next(self, lr, base, t):
        return lr * self.gamma ** list(self.milestones).count(t)


class ExponentialLR(LRScheduler):
    """Times gamma each time."""
    options = {"gamma": REQUIRED}

    def _next(self, lr, base, t):
        return lr * self.gamma if t > 0 and not self._first else lr


class LinearLR(LRScheduler):
    """The first rate times a factor that goes from start_factor to end_factor in total_iters."""
    options = {"start_factor": 1 / 3, "end_factor": 1.0, "total_iters": 5}

    def _check(self):
        if not 0 < self.start_factor <= 1 or not 0 <= self.end_factor <= 1:
            raise ValueError(f"LinearLR: the factors are {self.start_factor} and "
                             f"{self.end_factor}, expected from 0 to 1, the first above 0")

    def _factor(self, t):
        return self.start_factor + (self.end_factor - self.start_factor) * t / self.total_iters

    def _next(self, lr, base, t):
        if t == 0:
            return lr * self.start_factor
        return lr if t > self.total_iters or self._first else lr * self._factor(t) / self._factor(t - 1)


class CosineAnnealingLR(LRScheduler):
    """From the first rate to eta_min in T_max along half a cosine, and back in as many
    (Loshchilov & Hutter, ICLR 2017)."""
    options = {"T_max": REQUIRED, "eta_min": 0.0}

    def _height(self, t):
        return (1 + math.cos(math.pi * t / self.T_max)) / 2

    def _next(self, lr, base, t):
        if t == 0 or self._first:
            return lr
        if (t - 1 - self.T_max) % (2 * self.T_max) == 0:  # from the bottom there is no factor upwards
            return lr + (base - self.eta_min) * (1 - self._height(1))
        return self.eta_min + (lr - self.eta_min) * self._height(t) / self._height(t - 1)


class ConstantLR(LRScheduler):
    """The first rate times factor, from total_iters on without."""
    options = {"factor": 1 / 3, "total_iters": 5}

    def _next(self, lr, base, t):
        return lr * self.factor if t == 0 else lr / self.factor if t == self.total_iters else lr


class CosineAnnealingWarmRestarts(LRScheduler):
    """From the first rate to eta_min along half a cosine in T_0, then again in T_0 T_mult, ..."""
    options = {"T_0": REQUIRED, "T_mult": 1, "eta_min": 0.0}

    def _next(self, lr, base, t):
        whole = self.T_0
        while t >= whole:
            t, whole = t - whole, whole * self.T_mult
        return self.eta_min + (base - self.eta_min) * (1 + math.cos(math.pi * t / whole)) / 2


class OneCycleLR(LRScheduler):
    """From max_lr / div_factor up to max_lr in pct_start of total_steps (or epochs steps_per_epoch), then
    down to 1 / final_div_factor of the start; the momentum, or the first beta, the other way (Smith &
    Topin, 2018)."""
    options = {"max_lr": REQUIRED, "total_steps": None, "epochs": None, "steps_per_epoch": None,
               "pct_start": 0.3, "anneal_strategy": "cos", "cycle_momentum": True, "base_momentum": 0.85,
               "max_momentum": 0.95, "div_factor": 25.0, "final_div_factor": 1e4}

    def _check(self):
        if self.total_steps is None:
            if self.epochs is None or self.steps_per_epoch is None:
                raise ValueError("OneCycleLR: total_steps is not given, expected it, or epochs and steps_per_epoch")
            self.total_steps = self.epochs * self.steps_per_epoch
        if self.total_steps < 1 or not 0 <= self.pct_start <= 1:
            raise ValueError(f"OneCycleLR: total_steps is {self.total_steps} and pct_start {self.pct_start}, expected "
                             "1 or more and a share from 0 to 1")
        if self.anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"OneCycleLR: anneal_strategy is {self.anneal_strategy!r}, expected cos or linear")
        groups = self.optimizer.param_groups
        most = self.max_lr if isinstance(self.max_lr, (list, tuple)) else [self.max_lr] * len(groups)
        if len(most) != len(groups):
            raise ValueError(f"OneCycleLR: {len(most)} rates for {len(groups)} groups")
        if self.last_epoch == -1:
            for group, rate in zip(groups, most):
                group["lr"] = group["initial_lr"] = rate / self.div_factor

    def _next(self, lr, base, t):
        if t >= self.total_steps:
            raise ValueError(f"OneCycleLR: step {t + 1} of {self.total_steps}")
        top, last = self.pct_start * self.total_steps - 1, self.total_steps - 1
        up = t <= top
        share = (t / top if top else 1.0) if up else (t - top) / (last - top)
        most = base * self.div_factor
        ends, slow = ((base, most), (self.max_momentum, self.base_momentum)) if up else \
            ((most, base / self.final_div_factor), (self.base_momentum, self.max_momentum))
        if self.cycle_momentum:
            group, value = self.optimizer.param_groups[self._group], self._between(*slow, share)
            group.update({"betas": (value, *group["betas"][1:])} if "betas" in group else {"momentum": value})
        return self._between(*ends, share)

    def _between(self, a, b, share):
        return b + (a - b) * ((1 + math.cos(math.pi * share)) / 2 if self.anneal_strategy == "cos" else 1 - share)


class SequentialLR:
    """One schedule until the first milestone, then the next one from its beginning, ..."""

    def __init__(self, optimizer, schedulers, milestones, last_epoch=-1):
        if schedulers and len(milestones) != len(schedulers) - 1:
            raise ValueError(f"SequentialLR: {len(milestones)} milestones for {len(schedulers)} schedulers, expected "
                             f"{len(schedulers) - 1}")
        if not schedulers or any(s.optimizer is not optimizer for s in schedulers):
            raise ValueError("SequentialLR: expected one or more schedulers of the optimizer that is given")
        self.optimizer, self.schedulers, self.milestones = optimizer, schedulers, milestones
        self.last_epoch = last_epoch
        self.step()

    def step(self):
        self.last_epoch += 1
        at = bisect.bisect_right(self.milestones, self.last_epoch)
        if self.last_epoch == ([0] + list(self.milestones))[at]:
            for group in self.optimizer.param_groups:
                group["lr"] = group["initial_lr"]
            self.schedulers[at].last_epoch = -1
        self.schedulers[at].step()
        self._last_lr = self.schedulers[at].get_last_lr()

    get_last_lr = LRScheduler.get_last_lr

    def state_dict(self):
        return {"last_epoch": self.last_epoch, "milestones": self.milestones, "_last_lr": self._last_lr,
                "schedulers": [s.state_dict() for s in self.schedulers]}

    def load_state_dict(self, state_dict):
        state = dict(state_dict)
        for s, saved in zip(self.schedulers, state.pop("schedulers")):
            s.load_state_dict(saved)
        self.__dict__.update(state)


class ReduceLROnPlateau:
    """Times factor when a number has not become better for more than `patience` steps:
    step(metric)."""

    def __init__(self, optimizer, mode="min", factor=0.1, patience=10, threshold=1e-4,
                 threshold_mode="rel", cooldown=0, min_lr=0.0, eps=1e-8):
        if factor >= 1:
            raise ValueError(f"ReduceLROnPlateau: factor is {factor}, expected below 1")
        if mode not in ("min", "max") or threshold_mode not in ("rel", "abs"):
            raise ValueError(f"ReduceLROnPlateau: mode is {mode!r} and threshold_mode "
                             f"{threshold_mode!r}, expected min or max, rel or abs")
        self.optimizer, self.mode, self.factor, self.patience = optimizer, mode, factor, patience
        self.threshold, self.threshold_mode = threshold, threshold_mode
        self.cooldown, self.min_lr, self.eps = cooldown, min_lr, eps
        self.best = math.inf if mode == "min" else -math.inf
        self.num_bad_epochs = self.cooldown_counter = self.last_epoch = 0
        self._last_lr = [g["lr"] for g in optimizer.param_groups]

    def _is_better(self, x):
        sign = 1 if self.mode == "min" else -1
        if self.threshold_mode == "abs":
            return sign * x < sign * self.best - self.threshold
        if math.isinf(self.best):
            return sign * x < sign * self.best
        return sign * x < sign * self.best * (1 - sign * self.threshold)

    def step(self, metrics):
        self.last_epoch += 1
        x = float(metrics)
        if self._is_better(x):
            self.best, self.num_bad_epochs = x, 0
        else:
            self.num_bad_epochs += 1
        if self.cooldown_counter > 0:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            self._reduce()
            self.cooldown_counter, self.num_bad_epochs = self.cooldown, 0
        self._last_lr = [g["lr"] for g in self.optimizer.param_groups]

    def _reduce(self):
        groups = self.optimizer.param_groups
        several = isinstance(self.min_lr, (list, tuple))
        for group, least in zip(groups, self.min_lr if several else [self.min_lr] * len(groups)):
            new = max(group["lr"] * self.factor, least)
            if group["lr"] - new > self.eps:
                group["lr"] = new

    get_last_lr = LRScheduler.get_last_lr
    state_dict = LRScheduler.state_dict
    load_state_dict = LRScheduler.load_state_dict
