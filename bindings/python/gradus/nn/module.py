"""Module: parameters, buffers and further modules under one name, with a forward pass."""
from collections import OrderedDict, namedtuple

from .. import _gradus
from .._gradus import Tensor
from .._modes import no_grad
from .._tensor import as_tensor
from .hooks import Hooked, call
from .parameter import Parameter, holders

_Keys = namedtuple("IncompatibleKeys", "missing_keys unexpected_keys")
_KINDS = ("_parameters", "_buffers", "_modules")


def error(kind, layer, message):
    """An error of gradus (kind: "ShapeError", ...) that begins with the layer's name."""
    name = layer if isinstance(layer, str) else type(layer).__name__
    made = getattr(_gradus, kind)(f"{name}: {message}")
    made.op = name
    return made


class Module(Hooked):
    """Base of all layers: assign Parameters and Modules as attributes, define forward()."""

    def __init__(self):
        set_now = super().__setattr__
        set_now("training", True)
        for kind in _KINDS:
            set_now(kind, {})
        set_now("_unsaved", set())

    def forward(self, *args, **kwargs):
        raise NotImplementedError(f"{type(self).__name__} has no forward()")

    def __call__(self, *args, **kwargs):
        try:
            if "_hooks" in self.__dict__:
                return call(self, args, kwargs)
            return self.forward(*args, **kwargs)
        except _gradus.Error as e:
            self._tell_place(e)
            raise

    def _tell_place(self, e):
        """Leaves with an error where in the outermost module the failed one stands."""
        failed = e.__dict__.setdefault("_module", self)
        for name, module in self.named_modules():
            if module is failed and name:
                text = repr(failed)
                text = type(failed).__name__ if "\n" in text else text
                others = [n for n in getattr(e, "__notes__", ()) if not n.startswith('in "')]
                e.__notes__ = [*others, f'in "{name}" of {type(self).__name__}: {text}']
                break

    # ---- attributes

    def __setattr__(self, name, value):
        own = self.__dict__
        kind = ("_modules" if isinstance(value, Module) else
                "_parameters" if isinstance(value, Parameter) else None)
        if kind is not None:
            if kind not in own:
                raise AttributeError(f"{type(self).__name__}: super().__init__() comes before the "
                                     f"first parameter or module")
            for holder in (own, *(own[k] for k in _KINDS if k != kind)):
                holder.pop(name, None)
            own[kind][name] = value
            return
        for k in _KINDS:
            if name in own.get(k, ()):
                if not (value is None or k == "_buffers" and isinstance(value, Tensor)):
                    raise _gradus.DTypeError(f"{type(self).__name__}.{name} is one of its {k[1:]}, "
                                    f"a {type(value).__name__} can't replace it")
                own[k][name] = value
                return
        super().__setattr__(name, value)

    def __getattr__(self, name):
        for kind in _KINDS:
            held = self.__dict__.get(kind, ())
            if name in held:
                return held[name]
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __delattr__(self, name):
        for kind in _KINDS:
            if name in self.__dict__[kind]:
                del self.__dict__[kind][name]
                return
        super().__delattr__(name)

    def __dir__(self):
        return sorted({*super().__dir__(), *(n for k in _KINDS for n in self.__dict__[k])})

    def register_parameter(self, name, param):
        """A parameter, or None for one that this module could have."""
        self._register("_parameters", Parameter, name, param)

    def register_buffer(self, name, tensor, persistent=True):
        """A tensor of the state that no optimiser moves; state_dict() holds persistent ones."""
        self._register("_buffers", Tensor, name, tensor)
        (self._unsaved.discard if persistent else self._unsaved.add)(name)

    def add_module(self, name, module):
        self._register("_modules", Module, name, module)

    register_module = add_module

    def _register(self, kind, wanted, name, value):
        who = type(self).__name__
        if not isinstance(name, str) or not name or "." in name:
            raise KeyError(f"{who}: {name!r} is no name for an attribute")
        if hasattr(self, name) and not any(name in self.__dict__[k] for k in _KINDS):
            raise KeyError(f"{who}: there is an attribute {name!r} already")
        if value is not None and not isinstance(value, wanted):
            raise _gradus.DTypeError(f"{who}: {name} should be a {wanted.__name__}, got {value!r}")
        self.__dict__[kind][name] = value

    # ---- what is inside

    def named_children(self):
        seen = set()
        for name, module in self._modules.items():
            if module is not None and id(module) not in seen:
                seen.add(id(module))
                yield name, module

    def children(self):
        return (m for _, m in self.named_children())

    def named_modules(self, memo=None, prefix=""):
        """(name, module) of itself and all below, each once."""
        memo = set() if memo is None else memo
        if id(self) in memo:
            return
        memo.add(id(self))
        yield prefix, self
        for name, module in self._modules.items():
            if module is not None:
                yield from module.named_modules(memo, prefix + "." * bool(prefix) + name)

    def modules(self):
        return (m for _, m in self.named_modules())

    def _named(self, kind, prefix, recurse, remove_duplicate=True):
        seen = set()
        for path, module in self.named_modules(prefix=prefix) if recurse else [(prefix, self)]:
            for name, tensor in module.__dict__[kind].items():
                if tensor is not None and not (remove_duplicate and id(tensor) in seen):
                    seen.add(id(tensor))
                    yield path + "." * bool(path) + name, tensor

    def named_parameters(self, prefix="", recurse=True, remove_duplicate=True):
        return self._named("_parameters", prefix, recurse, remove_duplicate)

    def named_buffers(self, prefix="", recurse=True, remove_duplicate=True):
        return self._named("_buffers", prefix, recurse, remove_duplicate)

    def parameters(self, recurse=True):
        return (p for _, p in self.named_parameters(recurse=recurse))

    def buffers(self, recurse=True):
        return (b for _, b in self.named_buffers(recurse=recurse))

    def get_submodule(self, target):
        """The module of a name with dots: "layers.0"."""
        at = self
        for part in target.split(".") if target else ():
            at = at._modules[part]
        return at

    def get_parameter(self, target):
        path, _, name = target.rpartition(".")
        return self.get_submodule(path)._parameters[name]

    def get_buffer(self, target):
        path, _, name = target.rpartition(".")
        return self.get_submodule(path)._buffers[name]

    # ---- state

    def state_dict(self, *, prefix="", keep_vars=False):
        """Parameters and persistent buffers by name, over the same memory, without history."""
        out = OrderedDict()
        for name, holder, key in self._places(prefix):
            out[name] = holder[key] if keep_vars else holder[key].detach()
        return out

    def _places(self, prefix=""):
        for kind in ("_parameters", "_buffers"):
            held = self.__dict__[kind]
            for name, tensor in held.items():
                if tensor is not None and not (kind == "_buffers" and name in self._unsaved):
                    yield prefix + name, held, name
        for name, module in self._modules.items():
            if module is not None:
                yield from module._places(f"{prefix}{name}.")

    def load_state_dict(self, state_dict, strict=True, assign=False):
        """Copies the tensors in by name; arrays and tensors of others are taken too. With assign they take the
        place of those here, of which optimisers go on with the new ones.

        If a name is missing or too many (with strict) or a shape differs, nothing is changed."""
        places = {name: holder[key] for name, holder, key in self._places()}
        missing = [n for n in places if n not in state_dict]
        unexpected = [n for n in state_dict if n not in places]
        wrong = []
        if strict and missing:
            wrong.append("missing keys: " + ", ".join(missing))
        if strict and unexpected:
            wrong.append("unexpected keys: " + ", ".join(unexpected))
        for name, target in places.items():
            got = tuple(getattr(state_dict.get(name), "shape", target.shape))
            if got != tuple(target.shape):
                wrong.append(f"{name} has shape {tuple(target.shape)}, got {got}")
        if wrong:
            raise error("ValueError", f"{type(self).__name__}.load_state_dict",
                        "\n  ".join(["the state does not fit", *wrong]))
        if assign:
            pairs = []
            for name, holder, key in self._places():
                if name in state_dict:
                    old, new = holder[key], as_tensor(state_dict[name])
                    if isinstance(old, Parameter) and not isinstance(new, Parameter):
                        new = type(old)(new, old.requires_grad)
                    holder[key] = new
                    pairs.append((old, new))
            _tell(pairs)
            return _Keys(missing, unexpected)
        with no_grad():
            for name, target in places.items():
                if name in state_dict:
                    target.copy_(state_dict[name])
        return _Keys(missing, unexpected)

    # ---- all of it at once

    def train(self, mode=True):
        for module in self.modules():
            module.training = bool(mode)
        return self

    def eval(self):
        return self.train(False)

    def requires_grad_(self, requires_grad=True):
        for p in self.parameters():
            p.requires_grad = requires_grad
        return self

    def zero_grad(self, set_to_none=True):
        for p in self.parameters():
            clear_gradient(p, set_to_none)

    def apply(self, fn):
        """fn(module) of all below, then of itself."""
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    def to(self, *args, dtype=None, device=None):
        """to(dtype), to(device), to(tensor): parameters and buffers, in place of the old ones.

        Integers keep their dtype. A parameter that has to move is a new object, and optimisers go on with
        the new one."""
        for a in args:
            if isinstance(a, Tensor):
                dtype, device = a.dtype, a.device
            elif isinstance(a, _gradus.dtype) or a in (float, complex):
                dtype = a
            else:
                device = a
        memo = {}
        for module in self.modules():
            for held in (module._parameters, module._buffers):
                for name, tensor in held.items():
                    if tensor is not None:
                        if id(tensor) not in memo:
                            memo[id(tensor)] = tensor, _moved(tensor, dtype, device)
                        held[name] = memo[id(tensor)][1]
        _tell(memo.values())
        return self

    def cpu(self):
        return self.to(device="cpu")

    def cuda(self, index=0):
        return self.to(device=f"cuda:{index}")

    # ---- as text

    def extra_repr(self):
        return ""

    def __repr__(self):
        lines = [line for line in [self.extra_repr()] if line]
        for name, module in self._modules.items():
            lines.append(f"({name}): " + repr(module).replace("\n", "\n  "))
        if not self._modules:
            return f"{type(self).__name__}({', '.join(lines)})"
        return f"{type(self).__name__}(\n  " + "\n  ".join(lines) + "\n)"


for _name, _dtype in (("float", "float32"), ("double", "float64"), ("half", "float16"),
                      ("bfloat16", "bfloat16")):
    setattr(Module, _name, lambda self, _to=getattr(_gradus, _dtype): self.to(dtype=_to))


def clear_gradient(p, set_to_none):
    """Forgets a gradient, or fills it with zeros."""
    if set_to_none or p.grad is None:
        p.grad = None
    else:
        p.grad = p.grad.detach().zero_()


def _tell(pairs):
    """The optimisers go on with the new one of each pair."""
    moved = {id(old): new for old, new in pairs if new is not old}
    for holder in list(holders) if moved else ():
        holder._follow(moved)


def _moved(tensor, dtype, device):
    turned = dtype if tensor.is_floating_point() or tensor.is_complex() else None
    out = tensor.detach().to(dtype=turned, device=device)
    if out.dtype == tensor.dtype and out.device == tensor.device:
        return tensor
    if isinstance(tensor, Parameter):
        out = type(tensor)(out, tensor.requires_grad)
        if tensor.grad is not None:
            out.grad = tensor.grad.to(dtype=turned, device=device)
    return out
