"""Data sets by the program's own readers, and batches of them.

    train, test = gradus.data.read("digits")
    for x, y in gradus.data.DataLoader(train, batch_size=32, shuffle=True): ...
"""
from . import _gradus
from ._tensor import as_tensor


class TensorDataset:
    """Tensors of one first extent; item i is a tuple of row i of each."""

    def __init__(self, *tensors):
        if not tensors:
            raise _gradus.ValueError("TensorDataset: expected at least one tensor")
        sizes = [t.shape[0] for t in tensors]
        if len(set(sizes)) != 1:
            raise _gradus.ShapeError(f"TensorDataset: the first extents differ: {sizes}")
        self.tensors = tensors

    def __len__(self):
        return self.tensors[0].shape[0]

    def __getitem__(self, i):
        return tuple(t[i] for t in self.tensors)


def read(data):
    """The training and the test part of a data set, as `gradus train` reads it: a built-in name
    ("digits"), or the object "data" of a config as a dict."""
    a, b, c, d = _gradus._read_data({"name": data} if isinstance(data, str) else data)
    return TensorDataset(a, b), TensorDataset(c, d)


def default_collate(items):
    """The items as one batch: tensors, arrays and numbers are stacked; dicts, tuples and lists are gone
    through, a tuple gives a list; texts stay a list."""
    first = items[0]
    kind = type(first)
    if hasattr(first, "dtype"):
        return _gradus.stack([as_tensor(x, dtype=x.dtype) for x in items])
    if isinstance(first, (int, float, complex)):
        return _gradus.tensor(items, dtype=_gradus.float64 if isinstance(first, float) else None)
    if isinstance(first, (str, bytes)):
        return items
    if isinstance(first, dict):
        return {key: default_collate([x[key] for x in items]) for key in first}
    if not isinstance(first, (tuple, list)):
        raise _gradus.DTypeError(f"DataLoader: an item is a {kind.__name__}, expected tensors, arrays, numbers, "
                                 "texts, or dicts, tuples and lists of them")
    sizes = [len(x) for x in items]
    if len(set(sizes)) != 1:
        raise _gradus.ShapeError(f"DataLoader: items of a batch have the lengths {sizes}, expected one length")
    columns = [default_collate(list(column)) for column in zip(*items)]
    return kind(*columns) if hasattr(kind, "_fields") else columns


class DataLoader:
    """Batches of a data set. With shuffle, epoch e visits the samples in the order of the program's
    trainer for this seed."""

    def __init__(self, dataset, batch_size=1, shuffle=False, *, seed=1, drop_last=False):
        if batch_size < 1:
            raise _gradus.ValueError(f"DataLoader: batch_size is {batch_size}, expected 1 or more")
        self.dataset, self.batch_size = dataset, batch_size
        self.shuffle, self.seed, self.drop_last = shuffle, seed, drop_last
        self.epoch = 0

    def __len__(self):
        n = len(self.dataset)
        return n // self.batch_size if self.drop_last else -(-n // self.batch_size)

    def __iter__(self):
        n = len(self.dataset)
        order = (_gradus.epoch_order(n, self.seed, self.epoch) if self.shuffle else _gradus.arange(n))
        self.epoch += 1
        for i in range(len(self)):
            rows = order[i * self.batch_size:(i + 1) * self.batch_size]
            if isinstance(self.dataset, TensorDataset):
                yield [t.index_select(0, rows) for t in self.dataset.tensors]
            else:
                yield default_collate([self.dataset[int(k)] for k in rows])
