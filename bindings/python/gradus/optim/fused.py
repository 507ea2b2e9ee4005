"""SGD, Adam, AdamW: the engine's optimiser step, which reads a parameter, its gradient and its
state once and writes them once."""
from .. import _compile, _gradus
from .optimizer import Optimizer


class _Fused(Optimizer):
    """The engine keeps one optimiser for the parameters of a group that are equally far; those
    whose gradients came later, or were not there in every step, get one of their own. The truth is
    state[p], whose tensors are the engine's: an engine can be made anew from it at any time."""

    names = {}  # of the state: the engine's, PyTorch's
    _real = True

    def __init__(self, params, defaults):
        self._engines = {}  # by group: what they were made of, and [(engine, parameters), ...]
        super().__init__(params, defaults)

    def _rule(self, group):
        raise NotImplementedError

    def _update(self, group, parameters):
        rule = self._rule(group)
        made_of, engines = self._engines.get(id(group), (None, ()))
        wanted = (rule, [id(p) for p in parameters])
        if made_of != wanted:
            engines = self._made(rule, parameters)
            self._engines[id(group)] = (wanted, engines)
        gain = None
        if group["maximize"]:
            gain = _gradus.full((1,), -1.0, device=parameters[0].device)
        for engine, some in engines:
            self._advance(group, engine, some, gain)

    def _advance(self, group, engine, parameters, gain):
        def prepare():  # what the host says of a step
            engine.prepare(float(group["lr"]))
            for p in parameters:
                self.state[p]["step"] += 1

        def alive():
            made_of, engines = self._engines.get(id(group), ((None,), ()))
            return (made_of[0] == self._rule(group) and group["maximize"] == (gain is not None)
                    and any(engine is e for e, _ in engines))

        recorder = _compile.recorder()
        if recorder is None or not recorder.advances(engine, prepare, alive):
            prepare()
        engine.apply(gain)

    def _made(self, rule, parameters):
        by_steps = {}
        for p in parameters:
            held = self.state.setdefault(p, {})
            # PyTorch's SGD keeps no count: who has a momentum is past the first step
            steps = held.setdefault("step", 1 if held else 0)
            by_steps.setdefault(steps, []).append(p)
        return [(self._engine(rule, steps, some), some) for steps, some in by_steps.items()]

    def _engine(self, rule, steps, parameters):
        engine = _gradus.Optimizer([(str(i), p) for i, p in enumerate(parameters)], rule)
        tensors = dict(engine.state())
        before = {}
        for i, p in enumerate(parameters):
            for name, ours in self.names.items():
                made = tensors.get(f"{i}.{name}")
                if made is not None:
                    before[f"{i}.{name}"] = self.state[p].get(ours, made)
                    self.state[p][ours] = made
        if steps:
            engine.load(list(before.items()), steps)
        return engine

    def _forget(self):
        self._engines = {}

    def __getstate__(self):
        return {**self.__dict__, "_engines": {}}


class SGD(_Fused):
    """g += weight_decay p; v = g at first, then momentum v + (1 - dampening) g;
    p -= lr v, with nesterov lr (g + momentum v), without momentum lr g."""

    names = {"velocity": "momentum_buffer"}

    def __init__(self, params, lr=1e-3, momentum=0.0, dampening=0.0, weight_decay=0.0,
                 nesterov=False, *, maximize=False):
        super().__init__(params, {"lr": lr, "momentum": momentum, "dampening": dampening,
                                  "weight_decay": weight_decay, "nesterov": nesterov,
                                  "maximize": maximize})

    def _check(self, group):
        super()._check(group)
        if group["nesterov"] and (group["momentum"] <= 0 or group["dampening"] != 0):
            raise _gradus.ValueError("SGD: nesterov needs a momentum above 0 and no dampening")

    def _rule(self, group):
        return {"name": "sgd", **{k: group[k] for k in ("momentum", "dampening", "weight_decay",
                                                        "nesterov")}}


class Adam(_Fused):
    """m = b1 m + (1 - b1) g; v = b2 v + (1 - b2) g^2; p -= lr m' / (sqrt(v') + eps), where
    m' = m / (1 - b1^t), v' = v / (1 - b2^t); before that g += weight_decay p (Kingma & Ba, ICLR
    2015)."""

    names = {"m": "exp_avg", "v": "exp_avg_sq"}
    rule, weight_decay = "adam", 0.0

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=None,
                 amsgrad=False, *, maximize=False):
        if amsgrad:
            raise _gradus.ValueError(f"{self._name}: amsgrad is not there; without it the rule is "
                                     f"the same but for the largest v so far")
        if weight_decay is None:
            weight_decay = self.weight_decay
        super().__init__(params, {"lr": lr, "betas": tuple(betas), "eps": eps,
                                  "weight_decay": weight_decay, "amsgrad": False,
                                  "maximize": maximize})

    def load_state_dict(self, state_dict):
        if any(g.get("amsgrad") for g in state_dict["param_groups"]):
            raise _gradus.ValueError(f"{self._name}: amsgrad is not there, the state is of it")
        super().load_state_dict(state_dict)

    def _rule(self, group):
        return {"name": self.rule, "betas": list(group["betas"]), "eps": group["eps"],
                "weight_decay": group["weight_decay"]}


class AdamW(Adam):
    """Adam, after p -= lr weight_decay p (Loshchilov & Hutter, ICLR 2019)."""

    rule, weight_decay = "adamw", 1e-2
