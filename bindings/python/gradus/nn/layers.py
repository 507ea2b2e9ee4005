"""Linear maps, tables, dropout, and changes of shape."""
import inspect

from .. import _gradus
from . import functional as F
from . import init
from .module import Module, error
from .parameter import Parameter

REQUIRED = inspect.Parameter.empty


def new_parameter(*size, dtype=None, device=None):
    """A parameter of that shape, zeros until it is drawn."""
    return Parameter(_gradus.zeros(size, dtype=dtype, device=device))


def tuple_of(value, n):
    """n whole numbers: one stands for all."""
    return (value,) * n if isinstance(value, int) else tuple(value)


class OpModule(Module):
    """A function with options that stay: class ELU(OpModule): op = F.elu; options = {...}.

    Options are given by place or name and are attributes; `unused` ones are PyTorch's, and taken
    without effect."""

    op = None
    options = {}
    unused = ("inplace",)

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        names = [inspect.Parameter(n, kind, default=d) for n, d in cls.options.items()]
        names += [inspect.Parameter(n, inspect.Parameter.KEYWORD_ONLY, default=None)
                  for n in cls.unused if n not in cls.options]
        cls.__signature__ = inspect.Signature(names)

    def __init__(self, *args, **kwargs):
        super().__init__()
        try:
            given = self.__signature__.bind(*args, **kwargs)
        except TypeError as e:
            raise TypeError(f"{type(self).__name__}: {e}") from None
        given.apply_defaults()
        for name, value in given.arguments.items():
            if isinstance(value, _gradus.Tensor):
                self.register_buffer(name, value)
            elif name not in self.unused:
                setattr(self, name, value)

    def _arguments(self):
        return {n: getattr(self, n) for n in self.options if n not in self.unused}

    def forward(self, *inputs):
        return type(self).op(*inputs, **self._arguments())

    def extra_repr(self):
        return ", ".join(f"{n}={v!r}" for n, v in self._arguments().items()
                         if not isinstance(v, _gradus.Tensor) and v is not None)


class Identity(Module):
    def __init__(self, *args, **kwargs):
        super().__init__()

    def forward(self, x):
        return x


class Linear(Module):
    """y = x W^T + b: (..., in_features) -> (..., out_features); W is (out, in), b (out,)."""

    def __init__(self, in_features, out_features, bias=True, device=None, dtype=None):
        super().__init__()
        if in_features < 1 or out_features < 1:
            raise error("ValueError", self, f"needs at least one feature on each side, got "
                        f"{in_features} -> {out_features}")
        self.in_features, self.out_features = in_features, out_features
        self.weight = new_parameter(out_features, in_features, dtype=dtype, device=device)
        self.register_parameter(
            "bias", new_parameter(out_features, dtype=dtype, device=device) if bias else None)
        self.reset_parameters()

    def reset_parameters(self):
        init.layer_uniform_(self, self.in_features)

    def forward(self, x):
        if x.ndim == 0 or x.shape[-1] != self.in_features:
            hint = ("; put a Flatten before it"
                    if x.ndim > 2 and x.numel() == x.shape[0] * self.in_features else "")
            raise error("ShapeError", self, f"expected {self.in_features} features in the last "
                        f"axis, got an input of shape {tuple(x.shape)}{hint}")
        return F.linear(x, self.weight, self.bias)

    def extra_repr(self):
        return (f"in_features={self.in_features}, out_features={self.out_features}, "
                f"bias={self.bias is not None}")


class Bilinear(Module):
    """y_o = x1 W_o x2 + b_o: (..., in1), (..., in2) -> (..., out)."""

    def __init__(self, in1_features, in2_features, out_features, bias=True, device=None,
                 dtype=None):
        super().__init__()
        made = {"dtype": dtype, "device": device}
        self.in1_features, self.in2_features = in1_features, in2_features
        self.out_features = out_features
        self.weight = new_parameter(out_features, in1_features, in2_features, **made)
        self.register_parameter("bias", new_parameter(out_features, **made) if bias else None)
        self.reset_parameters()

    def reset_parameters(self):
        init.layer_uniform_(self, self.in1_features)

    def forward(self, x1, x2):
        return F.bilinear(x1, x2, self.weight, self.bias)

    def extra_repr(self):
        return (f"in1_features={self.in1_features}, in2_features={self.in2_features}, "
                f"out_features={self.out_features}, bias={self.bias is not None}")


class Embedding(Module):
    """Row i of a table for each integer i: (...) -> (..., embedding_dim)."""

    def __init__(self, num_embeddings, embedding_dim, padding_idx=None, device=None, dtype=None):
        super().__init__()
        if num_embeddings < 1 or embedding_dim < 1:
            raise error("ValueError", self, f"needs at least one row and one feature, got "
                        f"{num_embeddings} x {embedding_dim}")
        if padding_idx is not None:
            if not -num_embeddings <= padding_idx < num_embeddings:
                raise error("ValueError", self,
                            f"padding_idx is {padding_idx}, of {num_embeddings} rows")
            padding_idx %= num_embeddings
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        self.padding_idx = padding_idx
        self.weight = new_parameter(num_embeddings, embedding_dim, dtype=dtype, device=device)
        self.reset_parameters()

    @classmethod
    def from_pretrained(cls, embeddings, freeze=True, padding_idx=None):
        """Of a table (count, dim), which is shared."""
        made = cls(*embeddings.shape, padding_idx=padding_idx)
        made.weight = Parameter(embeddings, not freeze)
        return made

    def reset_parameters(self):
        init.normal_(self.weight)
        if self.padding_idx is not None:
            init.zeros_(self.weight.detach()[self.padding_idx])

    def forward(self, x):
        if x.dtype not in (_gradus.int64, _gradus.int32, _gradus.uint8):
            raise error("DTypeError", self, f"takes integers, got {x.dtype}")
        return F.embedding(x, self.weight, self.padding_idx)

    def extra_repr(self):
        rest = "" if self.padding_idx is None else f", padding_idx={self.padding_idx}"
        return f"{self.num_embeddings}, {self.embedding_dim}{rest}"


class _Dropout(Module):
    """While training, zeroes with probability p and scales the rest by 1 / (1 - p)."""

    op = None

    def __init__(self, p=0.5, inplace=False):
        super().__init__()
        if not 0 <= p <= 1:
            raise error("ValueError", self, f"p is {p}, expected a number from 0 to 1")
        self.p = p

    def forward(self, x):
        return type(self).op(x, self.p, self.training) if self.training else x

    def extra_repr(self):
        return f"p={self.p}"


class Dropout(_Dropout):
    __doc__ = _Dropout.__doc__
    op = staticmethod(F.dropout)


class Dropout2d(_Dropout):
    """Dropout of whole channels (axis 1)."""
    op = staticmethod(F.dropout2d)


class Dropout1d(Dropout2d):
    __doc__ = Dropout2d.__doc__


class Dropout3d(Dropout2d):
    __doc__ = Dropout2d.__doc__


class AlphaDropout(_Dropout):
    """Dropout to selu's lower limit, which keeps mean 0 and variance 1."""
    op = staticmethod(F.alpha_dropout)


class Flatten(OpModule):
    """The axes from start_dim to end_dim as one: (n, a, b) -> (n, a b)."""
    op = staticmethod(_gradus.flatten)
    options = {"start_dim": 1, "end_dim": -1}


class Unflatten(OpModule):
    """Axis dim as several, whose extents are unflattened_size: (n, a b) -> (n, a, b)."""
    options = {"dim": REQUIRED, "unflattened_size": REQUIRED}

    def forward(self, x):
        return _gradus.unflatten(x, self.dim, self.unflattened_size)
