"""Sequences of different lengths as one tensor."""
from ... import _gradus


def pad_sequence(sequences, batch_first=False, padding_value=0.0, padding_side="right"):
    """Tensors (length, ...) as one: (longest, n, ...), with batch_first (n, longest, ...)."""
    if padding_side not in ("left", "right"):
        raise _gradus.ValueError(f"pad_sequence: padding_side is {padding_side!r}, expected left or right")
    sequences = list(sequences)
    if not sequences:
        raise _gradus.ValueError("pad_sequence: expected one tensor or more, got none")
    longest, rows = max(x.shape[0] for x in sequences), []
    for x in sequences:
        border = [0, 0] * (x.ndim - 1) + [0, longest - x.shape[0]]
        rows.append(_gradus.pad(x, border if padding_side == "right" else border[:-2] + border[:-3:-1], padding_value))
    return _gradus.stack(rows, 0 if batch_first else 1)
