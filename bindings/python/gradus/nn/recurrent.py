"""Recurrent layers: cells of one step, and whole sequences in several layers and directions."""
import math

from .. import _gradus
from . import functional as F
from . import init
from .layers import new_parameter
from .module import Module, error


# One step each: what the input gives (n, gates hidden), the state, what the state gives.

def _lstm_step(a, state, b):
    i, f, g, o = (a + b).chunk(4, -1)
    c = F.sigmoid(f) * state[1] + F.sigmoid(i) * F.tanh(g)
    return F.sigmoid(o) * F.tanh(c), c


def _gru_step(a, state, b):
    ar, az, an = a.chunk(3, -1)
    br, bz, bn = b.chunk(3, -1)
    n = F.tanh(an + F.sigmoid(ar + br) * bn)
    return (n + F.sigmoid(az + bz) * (state[0] - n),)


_PLAIN = {"tanh": lambda a, state, b: (F.tanh(a + b),), "relu": lambda a, state, b: (F.relu(a + b),)}


class _Recurrent(Module):
    """What cells and layers share: the weights of each layer and direction, and their first values,
    uniform on +-1 / sqrt(hidden_size)."""

    gates, states, step = 1, 1, None

    def _add_weights(self, suffix, inputs, hidden, bias, made):
        for name, *size in (("weight_ih", self.gates * hidden, inputs),
                            ("weight_hh", self.gates * hidden, hidden),
                            ("bias_ih", self.gates * hidden), ("bias_hh", self.gates * hidden)):
            wanted = bias or name.startswith("weight")
            self.register_parameter(name + suffix, new_parameter(*size, **made) if wanted else None)

    def _check_sizes(self, inputs, hidden):
        if inputs < 1 or hidden < 1:
            raise error("ValueError", self, f"needs at least one feature, got {inputs} -> {hidden}")

    def _check_features(self, x, ranks):
        if x.ndim not in ranks or x.shape[-1] != self.input_size:
            raise error("ShapeError", self, f"expected {self.input_size} features in "
                        f"{' or '.join(map(str, ranks))} axes, got an input of shape "
                        f"{tuple(x.shape)}")

    def _start(self, state, size, like):
        """The first state: zeros unless given."""
        if state is None:
            return (_gradus.zeros(size, dtype=like.dtype, device=like.device),) * self.states
        given = (state,) if self.states == 1 else tuple(state)
        for t in given:
            if tuple(t.shape) != size:
                raise error("ShapeError", self, f"the first state has shape {tuple(t.shape)}, "
                            f"expected {size}")
        return given

    def reset_parameters(self):
        bound = 1 / math.sqrt(self.hidden_size)
        for p in self.parameters():
            init.uniform_(p, -bound, bound)


class _Cell(_Recurrent):
    """One step: input (n, input_size) and state (n, hidden_size), or both without n."""

    def __init__(self, input_size, hidden_size, bias=True, device=None, dtype=None):
        super().__init__()
        self._check_sizes(input_size, hidden_size)
        self.input_size, self.hidden_size = input_size, hidden_size
        self._add_weights("", input_size, hidden_size, bias, {"dtype": dtype, "device": device})
        self.reset_parameters()

    def forward(self, input, hx=None):
        self._check_features(input, (1, 2))
        state = self._start(hx, (*input.shape[:-1], self.hidden_size), input)
        new = self.step(F.linear(input, self.weight_ih, self.bias_ih), state,
                        F.linear(state[0], self.weight_hh, self.bias_hh))
        return new if self.states > 1 else new[0]

    def extra_repr(self):
        return f"{self.input_size}, {self.hidden_size}"


class LSTMCell(_Cell):
    """(h, c) of the next step: cell(input, (h, c)), each state (n, hidden_size)."""
    gates, states, step = 4, 2, staticmethod(_lstm_step)


class GRUCell(_Cell):
    """h of the next step: cell(input, h)."""
    gates, step = 3, staticmethod(_gru_step)


class _Layers(_Recurrent):
    """A sequence (length, n, input_size), with batch_first (n, length, input_size), or one without
    n -> (outputs of the last layer, last states (layers directions, n, hidden_size))."""

    def __init__(self, input_size, hidden_size, num_layers=1, bias=True, batch_first=False,
                 dropout=0.0, bidirectional=False, device=None, dtype=None):
        super().__init__()
        self._check_sizes(input_size, hidden_size)
        if num_layers < 1:
            raise error("ValueError", self, f"num_layers is {num_layers}, expected 1 or more")
        self.input_size, self.hidden_size, self.num_layers = input_size, hidden_size, num_layers
        self.bias, self.batch_first, self.dropout = bias, batch_first, dropout
        self.bidirectional = bidirectional
        self._ways = ("", "_reverse") if bidirectional else ("",)
        made = {"dtype": dtype, "device": device}
        for layer in range(num_layers):
            inputs = input_size if layer == 0 else hidden_size * len(self._ways)
            for way in self._ways:
                self._add_weights(f"_l{layer}{way}", inputs, hidden_size, bias, made)
        self.reset_parameters()

    def forward(self, input, hx=None):
        self._check_features(input, (2, 3))
        alone = input.ndim == 2
        x = input.unsqueeze(1) if alone else input.transpose(0, 1) if self.batch_first else input
        if x.shape[0] == 0:
            raise error("ShapeError", self, f"the input has shape {tuple(input.shape)}, expected a length of 1 or more")
        if hx is not None and alone:
            hx = hx.unsqueeze(1) if self.states == 1 else tuple(t.unsqueeze(1) for t in hx)
        start = self._start(
            hx, (self.num_layers * len(self._ways), x.shape[1], self.hidden_size), x)
        last = []
        for layer in range(self.num_layers):
            if layer > 0 and self.dropout:
                x = F.dropout(x, self.dropout, self.training)
            sides = []
            for way in self._ways:
                state = tuple(s[len(last)] for s in start)
                outputs, state = self._run(x, state, f"_l{layer}{way}", bool(way))
                sides.append(outputs)
                last.append(state)
            x = sides[0] if len(sides) == 1 else _gradus.cat(sides, -1)
        states = tuple(_gradus.stack(list(s), 0) for s in zip(*last))
        if alone:
            x, states = x.squeeze(1), tuple(s.squeeze(1) for s in states)
        elif self.batch_first:
            x = x.transpose(0, 1)
        return x, states if self.states > 1 else states[0]

    def _run(self, x, state, suffix, reverse):
        """One layer in one direction: (outputs (length, n, hidden), last state)."""
        weight_ih, weight_hh, bias_ih, bias_hh = (
            getattr(self, n + suffix) for n in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"))
        steps = _gradus.unbind(F.linear(x, weight_ih, bias_ih), 0)
        outputs = []
        for a in reversed(steps) if reverse else steps:
            state = self.step(a, state, F.linear(state[0], weight_hh, bias_hh))
            outputs.append(state[0])
        return _gradus.stack(outputs[::-1] if reverse else outputs, 0), state

    def extra_repr(self):
        text = f"{self.input_size}, {self.hidden_size}"
        for name, plain in (("num_layers", 1), ("bias", True), ("batch_first", False),
                            ("dropout", 0.0), ("bidirectional", False)):
            if getattr(self, name) != plain:
                text += f", {name}={getattr(self, name)}"
        return text


class LSTM(_Layers):
    __doc__ = _Layers.__doc__
    gates, states, step = 4, 2, staticmethod(_lstm_step)


class GRU(_Layers):
    __doc__ = _Layers.__doc__
    gates, step = 3, staticmethod(_gru_step)


class _Plain(_Recurrent):
    """h of the next step: tanh (or relu) of what input and state give."""

    @property
    def step(self):
        return _PLAIN[self.nonlinearity]

    def _choose(self, nonlinearity):
        if nonlinearity not in _PLAIN:
            raise error("ValueError", self, f"nonlinearity is {nonlinearity!r}, expected tanh or relu")
        self.nonlinearity = nonlinearity


class RNNCell(_Plain, _Cell):
    """h of the next step, tanh (or relu) of what input and state give: cell(input, h)."""

    def __init__(self, input_size, hidden_size, bias=True, nonlinearity="tanh", device=None, dtype=None):
        super().__init__(input_size, hidden_size, bias, device, dtype)
        self._choose(nonlinearity)


class RNN(_Plain, _Layers):
    __doc__ = _Layers.__doc__

    def __init__(self, input_size, hidden_size, num_layers=1, nonlinearity="tanh", bias=True,
                 batch_first=False, dropout=0.0, bidirectional=False, device=None, dtype=None):
        super().__init__(input_size, hidden_size, num_layers, bias, batch_first, dropout,
                         bidirectional, device, dtype)
        self._choose(nonlinearity)
