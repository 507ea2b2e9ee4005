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


def signature_of(options):
    """What a function of these options takes, by place or name: {name: default or REQUIRED}."""
    made = inspect.Parameter
    return inspect.Signature([made(name, made.POSITIONAL_OR_KEYWORD, default=value)
                              for name, value in options.items()])


def tuple_of(value, n):
    """n whole numbers: one stands for all."""
    return (value,) * n if isinstance(value, int) else tuple(value)


class OpModule(Module):
    """A function with options that stay: class ELU(OpModule): op = F.elu; options = {"alpha": 1.0}.

    Options are given by place or name, and are attributes, a tensor among them a buffer."""

    op, options = None, {}

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        cls.__signature__ = signature_of(cls.options)

    def __init__(self, *args, **kwargs):
        super().__init__()
        try:
            given = self.__signature__.bind(*args, **kwargs)
        except TypeError as e:
            raise _gradus.DTypeError(f"{type(self).__name__}: {e}") from None
        given.apply_defaults()
        for name in self.options:
            value = given.arguments[name]
            if isinstance(value, _gradus.Tensor):
                self.register_buffer(name, value)
            else:
                setattr(self, name, value)

    def forward(self, *inputs):
        return type(self).op(*inputs, **{n: getattr(self, n) for n in self.options})

    def extra_repr(self):
        values = ((n, getattr(self, n)) for n in self.options)
        return ", ".join(f"{n}={v!r}" for n, v in values
                         if v is not None and not isinstance(v, _gradus.Tensor) and (n, v) != ("inplace", False))


def op_module(home, base=OpModule, **fixed):
    """What makes such classes for a file: made(name, function, doc, option=default, ...)."""
    def made(name, op, doc, **options):
        return type(name, (base,), {"op": staticmethod(op), "options": options, "__doc__": doc,
                                    "__module__": home, **fixed})
    return made


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
    """y_o = x1^T W_o x2 + b_o: (..., in1_features), (..., in2_features) -> (..., out_features)."""

    def __init__(self, in1_features, in2_features, out_features, bias=True, device=None, dtype=None):
        super().__init__()
        if min(in1_features, in2_features, out_features) < 1:
            raise error("ValueError", self, f"needs at least one feature on each side, got {in1_features}, "
                        f"{in2_features} -> {out_features}")
        self.in1_features, self.in2_features, self.out_features = in1_features, in2_features, out_features
        self.weight = new_parameter(out_features, in1_features, in2_features, dtype=dtype, device=device)
        self.register_parameter(
            "bias", new_parameter(out_features, dtype=dtype, device=device) if bias else None)
        self.reset_parameters()

    def reset_parameters(self):
        init.layer_uniform_(self, self.in1_features)

    def forward(self, x1, x2):
        return F.bilinear(x1, x2, self.weight, self.bias)

    def extra_repr(self):
        return f"{self.in1_features}, {self.in2_features}, {self.out_features}, bias={self.bias is not None}"


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


class _Dropout(OpModule):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        if not 0 <= self.p <= 1:
            raise error("ValueError", self, f"p is {self.p}, expected a number from 0 to 1")

    def forward(self, x):
        return type(self).op(x, self.p, True, self.inplace) if self.training else x


_dropout = op_module(__name__, _Dropout)
Dropout = _dropout("Dropout", F.dropout, "While training, zeroes with probability p and scales the "
                   "rest by 1 / (1 - p).", p=0.5, inplace=False)
Dropout1d = _dropout("Dropout1d", F.dropout1d, "Dropout of whole channels (axis 1).", p=0.5, inplace=False)
Dropout3d = _dropout("Dropout3d", F.dropout3d, "Dropout of whole channels (axis 1).", p=0.5, inplace=False)
Dropout2d = _dropout("Dropout2d", F.dropout2d, "Dropout of whole channels (axis 1).", p=0.5, inplace=False)
AlphaDropout = _dropout("AlphaDropout", F.alpha_dropout,
                        "Dropout to selu's lower limit: keeps mean 0 and variance 1.", p=0.5, inplace=False)

_shape = op_module(__name__)
Flatten = _shape("Flatten", _gradus.flatten, "The axes from start_dim to end_dim as one: "
                 "(n, a, b) -> (n, a b).", start_dim=1, end_dim=-1)
Unfold = _shape("Unfold", F.unfold, "The windows of images as columns: (n, c, h, w) -> (n, c kh kw, windows).",
                kernel_size=REQUIRED, dilation=1, padding=0, stride=1)
Fold = _shape("Fold", F.fold, "Sums of windows where they overlap: (n, c kh kw, windows) -> (n, c, h, w).",
              output_size=REQUIRED, kernel_size=REQUIRED, dilation=1, padding=0, stride=1)
Unflatten = _shape(
    "Unflatten", lambda x, dim, unflattened_size: _gradus.unflatten(x, dim, unflattened_size),
    "Axis dim as several of these sizes: (n, a b) -> (n, a, b).", dim=REQUIRED,
    unflattened_size=REQUIRED)
