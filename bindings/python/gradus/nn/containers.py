"""Modules made of modules: one after another, in a list, by name."""
from collections.abc import MutableMapping, MutableSequence

from .. import _gradus
from .._gradus import Tensor
from .module import Module
from .parameter import Parameter


class _Numbered(Module, MutableSequence):
    """Modules called "0", "1", ...: a list of them."""

    @property
    def _held(self):
        return self._modules

    def _add(self, name, value):
        self.add_module(name, value)

    def __init__(self, modules=()):
        super().__init__()
        self._set(modules)

    def _set(self, modules):
        self._held.clear()
        for i, module in enumerate(modules):
            self._add(str(i), module)

    def _key(self, index):
        keys = list(self._held)
        if not -len(keys) <= index < len(keys):
            raise _gradus.IndexError(f"{type(self).__name__}: index {index} of {len(keys)}")
        return keys[index]

    def __len__(self):
        return len(self._held)

    def __iter__(self):
        return iter(list(self._held.values()))

    def __getitem__(self, index):
        if isinstance(index, slice):
            return type(self)(*self._taken(dict(list(self._held.items())[index])))
        return self._held[self._key(index)]

    def __setitem__(self, index, module):
        self._add(self._key(index), module)

    def __delitem__(self, index):
        modules = list(self)
        del modules[index]
        self._set(modules)

    def insert(self, index, module):
        if index >= len(self):
            self._add(str(len(self)), module)
        else:
            modules = list(self)
            modules.insert(index, module)
            self._set(modules)
        return self

    def append(self, module):
        return self.insert(len(self), module)

    def extend(self, modules):
        for module in list(modules):
            self.append(module)
        return self


class Sequential(_Numbered):
    """Each module takes what the one before it gives: Sequential(a, b), or of a dict of names."""

    def __init__(self, *modules):
        named = modules[0] if len(modules) == 1 and isinstance(modules[0], dict) else {}
        super().__init__(() if named else modules)
        for name, module in named.items():
            self.add_module(name, module)

    @staticmethod
    def _taken(named):
        return [named] if named else []

    def __add__(self, other):
        if not isinstance(other, Sequential):
            return NotImplemented
        return Sequential(*self, *other)

    def __mul__(self, times):
        return Sequential(*list(self) * times)

    __rmul__ = __mul__

    def forward(self, x):
        for module in self._modules.values():
            x = module(x)
        return x


class ModuleList(_Numbered):
    """A list whose modules are part of the module that holds it."""

    @staticmethod
    def _taken(named):
        return [named.values()]

    def __add__(self, modules):
        return type(self)([*self, *modules])


class ModuleDict(Module, MutableMapping):
    """A dict whose modules are part of the module that holds it."""

    _held, _add = _Numbered._held, _Numbered._add
    __eq__, __hash__ = object.__eq__, object.__hash__

    def __init__(self, modules=()):
        super().__init__()
        self.update(modules)

    def __getitem__(self, name):
        return self._held[name]

    def __setitem__(self, name, module):
        self._add(name, module)

    def __delitem__(self, name):
        del self._held[name]

    def __len__(self):
        return len(self._held)

    def __iter__(self):
        return iter(self._held)


class _OfParameters:
    """The same of parameters; a tensor that is none becomes one."""

    @property
    def _held(self):
        return self._parameters

    def _add(self, name, value):
        self.register_parameter(name, Parameter(value) if type(value) is Tensor else value)

    def extra_repr(self):
        return ", ".join(f"({name}): {tuple(p.shape)}" for name, p in self._held.items())


class ParameterList(_OfParameters, ModuleList):
    """A list whose parameters are part of the module that holds it."""


class ParameterDict(_OfParameters, ModuleDict):
    """A dict whose parameters are part of the module that holds it."""
