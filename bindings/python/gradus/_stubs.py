"""Prints gradus/__init__.pyi from the op list: python -m gradus._stubs > __init__.pyi.

Every op is a function there and, if it takes a tensor, a method; docstrings say shapes, formula
and derivative.
"""
import inspect
import re
import sys

from . import _gradus
from . import _tensor, _compile, _files, _modes, autograd, func

_HEAD = '''"""Made by gradus._stubs from the op list; changes here are lost."""
from __future__ import annotations
import typing as _t
from types import EllipsisType as _Ellipsis
_Number = _t.Union[int, float, "_builtins.complex", bool]
_Operand = _t.Union["Tensor", _Number]
_Index = _t.Union[int, slice, None, _Ellipsis, "Tensor", list, tuple]
_DType = _t.Union["dtype", str, type]
__version__: str
op_names: tuple[str, ...]
'''
_TYPES = {1: "int", 2: "float", 3: "bool", 4: "int | _t.Sequence[int]", 5: "str", 6: "_DType"}
_WORDS = {"true": "True", "false": "False", "inf": "float('inf')", "-inf": "float('-inf')"}


def _default(kind, text, optional):
    if text is None:
        return " | None = None" if optional else ""
    if kind == 5:
        return f" = {text!r}"
    if kind == 6:
        return " = ..."
    if kind == 4:
        return f" = ({text.strip('[]()')},)" if text.strip("[]()") else " = ()"
    return f" = {_WORDS.get(text, text)}"


def _results(name):
    """How many tensors an op gives, by running what `gradus check` draws for it."""
    counts = set()
    try:
        for inputs, attrs, _ in _gradus._rows(name)[:4]:
            out = getattr(_gradus, name)(*[t for t in inputs], **attrs)
            counts.add(len(out) if isinstance(out, tuple) else 1)
    except _gradus.Error:
        pass
    if name in _gradus._return_types:
        return f"{'Tensor | ' if 1 in counts else ''}_{name}_results"
    if counts <= {1}:
        return "Tensor"
    if len(counts) == 1:
        return "tuple[" + ", ".join(["Tensor"] * counts.pop()) + "]"
    return "tuple[Tensor, ...]" if 1 not in counts else "Tensor | tuple[Tensor, ...]"


def _op(name, results, method=False):
    about = _gradus.describe(name)
    parts = []
    listed = False
    for i, (operand, variadic, optional) in enumerate(about["operands"]):
        if method and i == 0:
            parts.append("self")
        elif variadic:
            parts.append(f"*{operand}: _Operand | _t.Sequence[_Operand]")
            listed = True
        else:
            parts.append(f"{operand}: _Operand" + (" | None = None" if optional else ""))
    texts = [(n, k, d, o) for n, k, d, o, _ in about["attrs"] if k == 5 and d is None and not o]
    required = any("=" in p for p in parts)
    for attr, kind, default, optional, _ in about["attrs"]:
        if any(attr == operand for operand, _, _ in about["operands"]):
            continue  # a name that means both: the attribute has it by position alone
        value = _default(kind, default, optional)
        if not value and required and not listed:
            value = " = ..."
        required = required or "=" in value
        part = f"{attr}: {_TYPES.get(kind, '_t.Any')}{value}"
        if (attr, kind, default, optional) in texts and listed and not method:
            parts.insert(0, part)  # einsum's equation stands first
        else:
            parts.append(part)
    if not about["operands"]:
        parts += ["*", "device: str | None = None", "requires_grad: bool = False"]
    pad = "    " if method else ""
    doc = about["doc"] + (f"\n{pad}        {about['formula']}" if about["formula"] else "")
    doc = doc.replace("\\", "\\\\")
    return f'{pad}def {name}({", ".join(parts)}) -> {results}:\n{pad}    """{doc}"""\n'


class _Dots:
    def __repr__(self):
        return "..."


def _signature(f):
    """As text, in which only simple defaults are written out."""
    try:
        signature = inspect.signature(f)
    except (TypeError, ValueError):
        return "(*args: _t.Any, **kwargs: _t.Any)"
    simple = (int, float, str, bool, tuple, type(None), type(inspect.Parameter.empty))
    return str(signature.replace(parameters=[
        p if isinstance(p.default, simple) else p.replace(default=_Dots()) for p in signature.parameters.values()]))


def _class(name, kind):
    """A class of the extension: its public members by name."""
    lines = [f"class {name}:\n    def __init__(self, *args: _t.Any, **kwargs: _t.Any) -> None: ...\n"]
    for member in sorted(vars(kind)):
        if member in ("__call__", "__enter__", "__exit__") or member[0] != "_":
            lines.append(f"    def {member}(self, *args: _t.Any, **kwargs: _t.Any) -> _t.Any: ...\n"
                         if callable(getattr(kind, member)) else f"    {member}: _t.Any\n")
    return "".join(lines)


def _of_form(name, results):
    """What a function in Python gives that stands for an op of the same name."""
    several = name in ("nonzero", "split", "unique", "unique_consecutive", "where")
    return "_t.Any" if several or name not in results else "Tensor"


def text():
    out = [_HEAD]
    out.append("class dtype:\n    name: str\n    itemsize: int\n    is_floating_point: bool\n"
               "    is_complex: bool\n")
    for name in dir(_gradus):
        if isinstance(getattr(_gradus, name), _gradus.dtype):
            out.append(f"{name}: dtype\n")
    results = {name: _results(name) for name in _gradus.op_names}
    for name, kind in _gradus._return_types.items():
        out.append(f"class _{name}_results(_t.NamedTuple):\n"
                   + "".join(f"    {field}: Tensor\n" for field in kind.__match_args__))
    head = ("class Tensor:\n    shape: tuple[int, ...]\n    dtype: dtype\n    device: str\n"
               "    ndim: int\n    itemsize: int\n    nbytes: int\n    requires_grad: bool\n"
               "    is_leaf: bool\n    is_cuda: bool\n    is_cpu: bool\n    grad: Tensor | None\n    grad_fn: Node | None\n"
               "    data: Tensor\n    T: Tensor\n    mT: Tensor\n    H: Tensor\n    mH: Tensor\n"
               "    real: Tensor\n    imag: Tensor\n    version: int\n    __array_priority__: float\n"
               "    def __init__(self, data: _t.Any = ...) -> None: ...\n"
               "    def __getitem__(self, key: _Index) -> Tensor: ...\n"
               "    def __setitem__(self, key: _Index, value: _t.Any) -> None: ...\n"
               "    def __len__(self) -> int: ...\n"
               "    def __iter__(self) -> _t.Iterator[Tensor]: ...\n"
               "    def __contains__(self, element: _t.Any) -> bool: ...\n"
               "    def __hash__(self) -> int: ...\n"
               "    def __complex__(self) -> _builtins.complex: ...\n"
               "    def __format__(self, spec: str) -> str: ...\n"
               "    def __array__(self, dtype: _t.Any = None, copy: bool | None = None) -> _t.Any: ...\n"
               "    def __array_namespace__(self, *, api_version: str | None = None) -> _t.Any: ...\n"
               "    def __dlpack__(self, **options: _t.Any) -> _t.Any: ...\n"
               "    def __dlpack_device__(self) -> tuple[int, int]: ...\n")
    out.append(head)
    for op in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or", "xor", "lshift",
               "rshift"):
        for prefix in ("", "r", "i")[:2 if op == "matmul" else 3]:
            out.append(f"    def __{prefix}{op}__(self, other: _t.Any) -> Tensor: ...\n")
    for op in ("neg", "pos", "abs", "invert"):
        out.append(f"    def __{op}__(self) -> Tensor: ...\n")
    for op in ("lt", "le", "gt", "ge"):
        out.append(f"    def __{op}__(self, other: _t.Any) -> Tensor: ...\n")
    for op in ("eq", "ne"):
        out.append(f"    def __{op}__(self, other: _t.Any) -> Tensor: ...  # type: ignore[override]\n")
    for op, kind in (("bool", "bool"), ("int", "int"), ("float", "float"), ("index", "int")):
        out.append(f"    def __{op}__(self) -> {kind}: ...\n")
    for name in sorted(vars(_gradus.Tensor)):
        member = vars(_gradus.Tensor)[name]
        if name.startswith("_") or f"    {name}: " in head:
            continue
        if not callable(member):
            out.append(f"    {name}: _t.Any\n")
        elif name in results and inspect.isfunction(member):
            out.append(f"    def {name}{_signature(member)} -> {_of_form(name, results)}: ...\n")
        elif name in results:
            out.append(_op(name, results[name], method=True))
        else:
            out.append(f"    def {name}(self, *args: _t.Any, **kwargs: _t.Any) -> _t.Any: ...\n")
    out.append("class Node:\n    sequence: int\n    next_functions: tuple\n    saved_tensors: tuple\n"
               "    attributes: dict\n    def name(self) -> str: ...\n")
    import gradus
    for name in _gradus.op_names:
        if type(getattr(gradus, name)) is _gradus.Op:
            out.append(_op(name, results[name]))
    for alias, name in _tensor.aliases.items():
        if type(getattr(gradus, alias)) is _gradus.Op:
            out.append(_op(name, results[name]).replace(f"def {name}(", f"def {alias}("))
    out.append("def bernoulli(size: int | _t.Sequence[int] | Tensor, p: float | Tensor | None = None, dtype: _DType = ..., "
               "*, device: _t.Any = None, requires_grad: bool = False) -> Tensor: ...\n")
    out.append("def polygamma(n: int, x: Tensor) -> Tensor: ...\n")
    for name in ("nansum", "nanmean"):
        out.append(f"def {name}(x: Tensor, dim: int | _t.Sequence[int] | None = None, keepdim: bool = False) -> "
                   "Tensor: ...\n")
    out.append("def arange(start: _Number | None = None, end: _Number | None = None, step: _Number = 1, *, dtype: _DType | "
               "None = None, device: _t.Any = None, requires_grad: bool = False) -> Tensor: ...\n")
    out.append("def full(size: int | _t.Sequence[int], fill_value: _Number, dtype: _DType | None = None, *, "
               "device: _t.Any = None, requires_grad: bool = False) -> Tensor: ...\n"
               "def full_like(x: Tensor, fill_value: _Number, *, dtype: _DType | None = None, device: _t.Any = None, "
               "requires_grad: bool = False) -> Tensor: ...\n"
               "def tensordot(a: _Operand, b: _Operand, dims: _t.Any = 2, dims_b: _t.Any = None, *, "
               "dims_a: _t.Any = None) -> Tensor: ...\n"
               "def is_tensor(x: object) -> _t.TypeGuard[Tensor]: ...\n"
               "inf: float\nnan: float\npi: float\ne: float\n")
    for name, kind in vars(_gradus).items():
        if isinstance(kind, type) and issubclass(kind, _gradus.Error):
            base = "Exception" if name == "Error" else f"Error, {kind.__bases__[1].__name__}"
            base = base.replace(f", {name}", f", _builtins.{name}")
            out.append(f"class {name}({base}):\n    op: str\n")
    out.insert(1, "import builtins as _builtins\n")
    for name in ("no_grad", "enable_grad", "inference_mode", "set_grad_enabled"):
        out.append(f"class {name}:\n    def __init__(self, mode: _t.Any = ...) -> None: ...\n"
                   "    def __enter__(self) -> _t.Any: ...\n    def __exit__(self, *error: _t.Any) -> None: ...\n"
                   "    def __call__(self, function: _t.Any) -> _t.Any: ...\n")
    out.append(f"from . import {', '.join(f'{name} as {name}' for name in gradus._modules)}\n")
    written = {*gradus._modules, *re.findall(r"^(?:def |class )?(\w+)[:(]", "".join(out), re.M)}
    for name in sorted({*vars(gradus), *gradus._inside} - written):
        value = None if name[0] == "_" else getattr(gradus, name)
        if isinstance(value, type):
            out.append(_class(name, value))
        elif callable(value):
            out.append(f"def {name}{_signature(value)} -> {_of_form(name, results)}: ...\n")
    return "".join(out)


if __name__ == "__main__":
    sys.stdout.write(text())
