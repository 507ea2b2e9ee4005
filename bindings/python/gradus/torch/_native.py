"""A program of fx as _gradus.Program: one call of C++, the interpreter's lock let go of once."""
import operator

import torch

import gradus
from ..fx import Slot, _slots, describe, line_of

_OPS = set(gradus.op_names)
_OPERATORS = {getattr(operator, n): n.replace("truediv", "div") for n in
              "add sub mul truediv pow matmul neg abs lt le eq ne gt ge".split()}


def _parted(name, args, kwargs):
    """A call's operands (slots, numbers as floats, None) and attributes, or None."""
    about = gradus.describe(name)
    names, attrs = [o[0] for o in about["operands"]], about["attrs"]
    operands, given, rest = [], {}, list(args)
    if about["operands"] and about["operands"][0][1]:
        if rest and isinstance(rest[0], (list, tuple)):
            operands = list(rest.pop(0))
    while rest and len(operands) < len(names) and not about["operands"][0][1]:
        optional = about["operands"][len(operands)][2]
        if not isinstance(rest[0], Slot) and rest[0] is not None and (
                optional or not isinstance(rest[0], (int, float))):
            break
        operands.append(rest.pop(0))
    for i, (attr, kind, *_) in enumerate(attrs):
        if not rest:
            break
        if kind == 4 and type(rest[0]) is int and len(rest) > 1 and type(rest[1]) is int \
                and (i + 1 == len(attrs) or attrs[i + 1][1] not in (1, 4)):
            rest = [rest]
        given[attr] = rest.pop(0)
    known = {a[0] for a in attrs}
    for key, value in kwargs.items():
        if key in known:
            given[key] = value
        elif key in names and names.index(key) == len(operands):
            operands.append(value)
        else:
            return None
    if rest or _slots(given) or any(isinstance(a, bool) for a in operands):
        return None
    floats = [a for a in operands if isinstance(a, Slot)]
    for i, a in enumerate(operands):
        if isinstance(a, int):  # a whole number beside floats alone is one too
            if not all(s.real for s in floats):
                return None
            operands[i] = float(a)
    numbers = [a.index if isinstance(a, Slot) else a for a in operands]
    return numbers, {k: v for k, v in given.items() if v is not None}


def lines(program):
    """The steps as _gradus.Program takes them, or None: where a step is no op of gradus, or an
    attribute is only known at run time."""
    alias, found, users = {}, [], {}
    for s in program.steps:
        for i in s.slots():
            users.setdefault(i, []).append(s)
    for s in program.steps:
        if s.function is operator.getitem and s.args[0].index in alias:
            several, i = alias[s.args[0].index], s.args[1]
            if not isinstance(i, int) or not 0 <= i < len(several):
                return None
            several[i] = s.out
            continue
        name = _OPERATORS.get(s.function) or (
            s.function.__name__ if type(s.function) is gradus.Op else "")
        parted = _parted(name, s.args, s.kwargs) if name in _OPS else None
        if parted is None:
            return None
        out = [s.out]
        uses = users.get(s.out)
        if uses and all(t.function is operator.getitem and t.args[0].index == s.out
                        for t in uses) and type(s.node.meta.get("example_value")) in (
                            tuple, list):
            out = alias[s.out] = [-1] * len(s.node.meta["example_value"])
        found.append((name, *parted, out, f"{describe(s.node)}\n  at {line_of(s.node)}"))
    if not isinstance(program.result, (tuple, list)) or not all(
            isinstance(r, Slot) for r in program.result):
        return None
    return found


def native(program, device):
    """The same program as one call of C++, or None."""
    found = lines(program)
    if not found or not hasattr(gradus._gradus, "Program"):
        return None
    return gradus._gradus.Program(len(program.inputs) + len(program.attributes), found,
                                  [r.index for r in program.result], device)
