"""gradus.compile: a step that is recorded once and repeated without Python, graph or allocation."""
import functools
import threading

from . import _gradus
from ._gradus import Tensor

_here = threading.local()


def recorder():
    """The recording under way in this thread, or None: optimisers tell it what to prepare."""
    return getattr(_here, "recorder", None)


class _Recorder:
    """Which optimisers a step advances. What they say of the step on the host (learning rate, bias
    corrections) is prepared before it; the step itself does the rest."""

    def __init__(self, prepared=()):
        self.prepares, self._prepared = [], [p[0] for p in prepared]

    def advances(self, engine, prepare, alive):
        """Notes what to do before each repetition, as long as the engine is alive. True if it is
        done for this run already."""
        self.prepares.append((engine, prepare, alive))
        return any(engine is e for e in self._prepared)

    def __enter__(self):
        self._outer, _here.recorder = recorder(), self
        return self

    def __exit__(self, *_):
        _here.recorder = self._outer


class _Entry:
    def __init__(self):
        self.statics, self.step, self.build, self.prepares = [], None, None, []
        self.device = None  # where the first of its results is
        self.written = []  # arguments that the step writes to
        self.warm = False


class Compiled:
    """What gradus.compile gives. `why_not` says why steps run as they are, "" if they are replayed."""

    def __init__(self, function, device=None):
        functools.update_wrapper(self, function)
        self._function, self._device = function, device
        self._entries, self._lock = {}, threading.RLock()
        self.why_not, self.replays = "", 0

    def __call__(self, *args, **kwargs):
        with self._lock:  # what a step reads and writes belongs to one call at a time
            return self._call(args, kwargs)

    def _call(self, args, kwargs):
        from .func import _flatten
        leaves = []
        build = _flatten((args, kwargs), leaves)
        fixed = _fixed((args, kwargs))
        kinds = tuple((tuple(t.shape), t.dtype.name, t.device, t.requires_grad) for t in leaves)
        key = _gradus.is_grad_enabled(), kinds, fixed
        try:
            entry = self._entries.setdefault(key, _Entry())
        except TypeError:  # an argument without a hash
            self.why_not = "an argument is neither a tensor nor hashable"
            return self._function(*args, **kwargs)
        if not all(alive() for _, _, alive in entry.prepares):
            entry = self._entries[key] = _Entry()  # an optimiser has another state, or other options
        if entry.step is not None:
            return self._replay(entry, leaves)
        if not entry.warm or self.why_not:
            with _Recorder() as r:
                out = self._function(*args, **kwargs)
            entry.prepares, entry.warm = r.prepares, True
            results = []
            _flatten(out, results)
            entry.device = self._device or next((t.device for t in results + leaves), None)
            return out
        return self._record(entry, leaves, build)

    def _record(self, entry, leaves, build):
        from .func import _flatten
        entry.statics = [t.detach().clone() for t in leaves]
        for s, t in zip(entry.statics, leaves):
            if t.requires_grad:
                self.why_not = "an argument requires a gradient"
                args, kwargs = build(iter(leaves))
                return self._function(*args, **kwargs)
        args, kwargs = build(iter(entry.statics))

        def run():
            outputs = []
            entry.build = _flatten(self._function(*args, **kwargs), outputs)
            return outputs

        for _, prepare, _ in entry.prepares:
            prepare()
        versions = [s.version for s in entry.statics]
        with _Recorder(entry.prepares):
            step = _gradus._capture(run, entry.device)
        entry.written = [i for i, s in enumerate(entry.statics) if s.version != versions[i]]
        for i in entry.written:
            leaves[i].copy_(entry.statics[i])
        if step.why_not:
            self.why_not = step.why_not
        else:
            entry.step = step
        return entry.build(iter([t.clone() for t in step.outputs]))

    def _replay(self, entry, leaves):
        for s, t in zip(entry.statics, leaves):
            s.copy_(t)
        for _, prepare, _ in entry.prepares:
            prepare()
        entry.step.replay()
        for i in entry.written:
            leaves[i].copy_(entry.statics[i])
        self.replays += 1
        return entry.build(iter([t.clone() for t in entry.step.outputs]))


def _fixed(tree):
    """What of the arguments is no tensor, hashable."""
    from .func import is_blocks
    if isinstance(tree, Tensor):
        return Tensor
    if is_blocks(tree):
        return tree.structure
    if isinstance(tree, dict):
        return tuple((k, _fixed(v)) for k, v in tree.items())
    if isinstance(tree, (list, tuple)):
        return tuple(_fixed(v) for v in tree)
    return type(tree), repr(tree) if isinstance(tree, (float, complex)) else tree


def compile(function=None, *, device=None):
    """The function, whose kernel calls are written down at its second call with some shapes and then
    repeated: no graph, no allocation, the same bits. Reading values inside (item, branches on
    numbers) can't be repeated; then it goes on running as it is, and .why_not says why. Results are
    detached. A step works on one device: `device`, else that of its first result. Arguments that are
    no tensors are part of the recording, as is all else that Python does: a repetition does not see
    that a module went to eval(), or has another parameter.

        step = gradus.compile(step)
    """
    if function is None:
        return lambda f: Compiled(f, device)
    return Compiled(function, device)
