"""The base of optimisers: groups of parameters with options, state by parameter."""
import copy

from .. import _gradus
from .._gradus import Tensor
from .._modes import enable_grad, no_grad
from ..nn.module import clear_gradient
from ..nn.parameter import holders


class Optimizer:
    """Of parameters, or of groups: [{"params": [...], "lr": 0.1}, ...]; defaults fill the groups.

    A rule derives from it and defines _update(group, parameters): the parameters of one group that
    have a gradient, no op being recorded. state[p] is a dict of what the rule keeps for p."""

    _real = False  # takes real parameters alone

    def __new__(cls, *args, **kwargs):
        made = super().__new__(cls)
        made.param_groups, made.state = [], {}
        holders.add(made)
        return made

    def __init__(self, params, defaults):
        self.defaults = dict(defaults)
        if isinstance(params, Tensor):
            raise _gradus.DTypeError(f"{self._name}: a list of parameters is expected, not one tensor")
        groups = list(params)
        if not groups:
            raise _gradus.ValueError(f"{self._name}: there are no parameters to optimise")
        for group in groups if isinstance(groups[0], dict) else [{"params": groups}]:
            self.add_param_group(group)

    @property
    def _name(self):
        return type(self).__name__

    def add_param_group(self, param_group):
        """Further parameters, with options that need not be the others'."""
        group = dict(param_group)
        params = group["params"]
        params = [params] if isinstance(params, Tensor) else list(params)
        # model.named_parameters() is taken too
        params = [p[1] if isinstance(p, tuple) else p for p in params]
        known = {id(p) for g in self.param_groups for p in g["params"]}
        for p in params:
            if not isinstance(p, Tensor):
                raise _gradus.DTypeError(f"{self._name}: takes tensors, got a {type(p).__name__}"
                                         + ("; its numbers are x.data" if hasattr(p, "with_data") else ""))
            if not p.is_leaf:
                raise _gradus.ValueError(f"{self._name}: a tensor of shape {tuple(p.shape)} is no "
                                         f"leaf: an op made it")
            if p.is_complex() and self._real:
                raise _gradus.DTypeError(f"{self._name}: takes real parameters, got one of {p.dtype}; two real ones "
                                         "can be its parts: gradus.complex(a, b)")
            if id(p) in known:
                raise _gradus.ValueError(f"{self._name}: a parameter of shape {tuple(p.shape)} is "
                                         f"given twice")
            known.add(id(p))
        unknown = [k for k in group if k not in self.defaults and k not in ("params", "name", "initial_lr")]
        if unknown:
            raise _gradus.ValueError(f"{self._name}: has no option {unknown[0]!r}; there are "
                                     + ", ".join(self.defaults))
        group = {"params": params, **self.defaults, **group, "params": params}
        self._check(group)
        self.param_groups.append(group)

    def _check(self, group):
        """Options that make no sense are errors."""
        for name in ("lr", "eps", "weight_decay", "momentum", "lr_decay", "alpha", "rho", "momentum_decay",
                     "initial_accumulator_value"):
            if name in group and not group[name] >= 0:
                raise _gradus.ValueError(f"{self._name}: {name} is {group[name]}, expected 0 or "
                                         f"more")
        if not all(0 <= beta < 1 for beta in group.get("betas", ())):
            raise _gradus.ValueError(f"{self._name}: betas are {group['betas']}, expected numbers from 0 to "
                                     "below 1")
        if group.get("rho", 0) > 1:
            raise _gradus.ValueError(f"{self._name}: rho is {group['rho']}, expected a number from 0 to 1")

    def zero_grad(self, set_to_none=True):
        """Forgets the gradients, or fills them with zeros."""
        for group in self.param_groups:
            for p in group["params"]:
                clear_gradient(p, set_to_none)

    def step(self, closure=None):
        """One update of all parameters that have a gradient; `closure` computes the loss anew, with
        its gradients, and the loss is what step() gives."""
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        with no_grad():
            for group in self.param_groups:
                ready = [p for p in group["params"] if p.grad is not None]
                if ready:
                    self._update(group, ready)
        return loss

    def _update(self, group, parameters):
        raise NotImplementedError(f"{self._name} has no _update()")

    # ---- state, in PyTorch's form: parameters are numbers, in the order of the groups

    def state_dict(self):
        """{"state": {number: {...}}, "param_groups": [...]}, over the same memory."""
        numbers, groups = {}, []
        for group in self.param_groups:
            for p in group["params"]:
                numbers[id(p)] = len(numbers)
            groups.append({**{k: v for k, v in group.items() if k != "params"},
                           "params": [numbers[id(p)] for p in group["params"]]})
        state = {numbers[id(p)]: dict(held) for p, held in self.state.items()}
        return {"state": dict(sorted(state.items())), "param_groups": groups}

    def load_state_dict(self, state_dict):
        """Goes on from a state_dict(): its tensors are copied, its options replace those here."""
        groups, saved = state_dict["param_groups"], state_dict["state"]
        here = [len(g["params"]) for g in self.param_groups]
        there = [len(g["params"]) for g in groups]
        if here != there:
            raise _gradus.ValueError(f"{self._name}.load_state_dict: the groups have {here} "
                                     f"parameters, those of the state {there}")
        state = {}
        for group, old in zip(self.param_groups, groups):
            for p, number in zip(group["params"], old["params"]):
                if number in saved:
                    state[p] = {k: self._loaded(p, k, v) for k, v in saved[number].items()}
        for group, old in zip(self.param_groups, groups):
            group.update({k: copy.deepcopy(v) for k, v in old.items()
                          if k in self.defaults or k == "initial_lr"})
        self.state = state
        self._forget()

    def _forget(self):
        """The state is another: what was made of it is made anew."""

    def _follow(self, moved):
        """Goes on with parameters that took the place of others: moved[id(old)] is the new one."""
        if not any(id(p) in moved for group in self.param_groups for p in group["params"]):
            return
        for group in self.param_groups:
            group["params"] = [moved.get(id(p), p) for p in group["params"]]
        self.state = {moved.get(id(p), p): {k: self._loaded(moved[id(p)], k, v) for k, v in held.items()}
                      if id(p) in moved else held for p, held in self.state.items()}
        self._forget()

    def _loaded(self, p, name, value):
        if name == "step":
            return int(value)
        if not hasattr(value, "shape"):
            return value
        if tuple(value.shape) not in ((), tuple(p.shape)):
            raise _gradus.ShapeError(f"{self._name}.load_state_dict: {name} has shape "
                                     f"{tuple(value.shape)}, its parameter {tuple(p.shape)}")
        return _gradus.zeros(p.shape, dtype=p.dtype, device=p.device).copy_(value)

    def __repr__(self):
        lines = [self._name + " ("]
        for i, group in enumerate(self.param_groups):
            lines.append(f"group {i}: {len(group['params'])} parameters, " + ", ".join(
                f"{k}={v}" for k, v in group.items() if k != "params"))
        return "\n    ".join(lines) + "\n)"
