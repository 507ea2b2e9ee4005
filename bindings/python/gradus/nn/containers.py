"""Modules made of modules: one after another, in a list, by name."""
from .module import Module


class _Numbered(Module):
    """Modules called "0", "1", ...; a sequence of them."""

    def _all(self):
        return list(self._modules.values())

    def _set(self, modules):
        self._modules.clear()
        for i, module in enumerate(modules):
            self.add_module(str(i), module)
        return self

    def _key(self, index):
        keys = list(self._modules)
        if not -len(keys) <= index < len(keys):
            raise IndexError(f"{type(self).__name__}: index {index} of {len(keys)} modules")
        return keys[index]

    def __len__(self):
        return len(self._modules)

    def __iter__(self):
        return iter(self._all())

    def __contains__(self, module):
        return any(m is module for m in self._all())

    def __getitem__(self, index):
        if isinstance(index, slice):
            return self._made(dict(list(self._modules.items())[index]))
        return self._modules[self._key(index)]

    def __setitem__(self, index, module):
        self._modules[self._key(index)] = module

    def __delitem__(self, index):
        for key in list(self._modules)[index] if isinstance(index, slice) else [self._key(index)]:
            del self._modules[key]
        self._set(self._all())

    def append(self, module):
        self.add_module(str(len(self)), module)
        return self

    def extend(self, modules):
        for module in modules:
            self.append(module)
        return self

    def insert(self, index, module):
        modules = self._all()
        modules.insert(index, module)
        return self._set(modules)


class Sequential(_Numbered):
    """Each module takes what the one before it gives: Sequential(a, b), or of a dict of names."""

    def __init__(self, *modules):
        super().__init__()
        if len(modules) == 1 and isinstance(modules[0], dict):
            for name, module in modules[0].items():
                self.add_module(name, module)
        else:
            self._set(modules)

    def _made(self, named):
        return Sequential(named)

    def forward(self, x):
        for module in self._modules.values():
            x = module(x)
        return x


class ModuleList(_Numbered):
    """A list whose modules are part of the module that holds it."""

    def __init__(self, modules=()):
        super().__init__()
        self._set(modules)

    def _made(self, named):
        return ModuleList(named.values())

    def __iadd__(self, modules):
        return self.extend(modules)


class ModuleDict(Module):
    """A dict whose modules are part of the module that holds it."""

    def __init__(self, modules=()):
        super().__init__()
        self.update(modules)

    def update(self, modules):
        for name, module in dict(modules).items():
            self.add_module(name, module)

    def __getitem__(self, name):
        return self._modules[name]

    def __setitem__(self, name, module):
        self.add_module(name, module)

    def __delitem__(self, name):
        del self._modules[name]

    def __contains__(self, name):
        return name in self._modules

    def __len__(self):
        return len(self._modules)

    def __iter__(self):
        return iter(self._modules)

    def keys(self):
        return self._modules.keys()

    def values(self):
        return self._modules.values()

    def items(self):
        return self._modules.items()

    def pop(self, name):
        return self._modules.pop(name)
