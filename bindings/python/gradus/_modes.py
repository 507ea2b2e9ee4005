"""Modes of a thread for the length of a block: with gradus.no_grad(): ..., or a decorator."""
from . import _gradus
from ._gradus import is_grad_enabled


class _Mode:
    """A context manager that may be entered again and again, and decorates functions too."""

    def __init__(self, *, grad=None, inference=None, anomaly=None):
        self._wanted = (grad, inference, anomaly)
        self._before = []

    def __enter__(self):
        before = _gradus._modes()
        self._before.append(before)
        _gradus._set_modes(*(b if w is None else w for w, b in zip(self._wanted, before)))
        return self

    def __exit__(self, *_):
        _gradus._set_modes(*self._before.pop())

    def __call__(self, function):
        import functools

        @functools.wraps(function)
        def inside(*args, **kwargs):
            with type(self).__new__(type(self))._copy(self):
                return function(*args, **kwargs)
        return inside

    def _copy(self, other):
        self._wanted, self._before = other._wanted, []
        return self


class no_grad(_Mode):
    """Nothing is recorded."""

    def __init__(self, function=None):
        super().__init__(grad=False)

    def __new__(cls, function=None):
        made = super().__new__(cls)
        if function is None:
            return made
        made.__init__()
        return made(function)  # @no_grad without parentheses


class enable_grad(_Mode):
    """Ops are recorded, also inside no_grad."""

    def __init__(self):
        super().__init__(grad=True)


class set_grad_enabled(_Mode):
    """Recording on or off; from the call on, or for the length of a with block."""

    def __init__(self, mode):
        super().__init__(grad=mode)
        self.__enter__()
        self._entered = True

    def __call__(self, function):
        if self._entered:  # a decorator changes nothing outside of the function
            self.__exit__()
            self._entered = False
        return super().__call__(function)

    def __enter__(self):
        if getattr(self, "_entered", False):
            self._entered = False
            return self
        return super().__enter__()


class inference_mode(_Mode):
    """As no_grad, and what is made inside never takes part in recorded ops later."""

    def __init__(self, mode=True):
        super().__init__(grad=False if mode else None, inference=True if mode else None)


class detect_anomaly(_Mode):
    """backward() stops at the first gradient with a NaN and names the op and the line it is from."""

    def __init__(self):
        super().__init__(anomaly=True)
