"""Contractions of many tensors: plans, budgets of memory, other algebras.

    plan = gradus.contraction.plan("ij,jk,kl->il", a, b, c, memory="512MiB")
    plan, plan.flops, plan.path            # what it costs
    plan(a, b, c)                          # run, as often as wanted; differentiable
"""
import re

from . import _gradus
from ._gradus import EinsumPlan, Tensor

_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30}


def _bytes(memory):
    if memory is None:
        return 0.0
    if isinstance(memory, str):
        m = re.fullmatch(r"\s*([0-9.]+)\s*([A-Za-z]*)\s*", memory)
        if not m or m[2].upper() not in _UNITS:
            raise _gradus.ValueError(f"memory: expected bytes, or a text such as \"512MiB\", got {memory!r}")
        return float(m[1]) * _UNITS[m[2].upper()]
    return float(memory)


def plan(equation, *operands, output=None, optimize="auto", budget=5000.0, seed=0, memory=None,
         algebra="standard", gradients=False, dtype=None):
    """How an einsum is contracted. `equation` is a text or a list of lists of integer labels (with
    `output`); operands are tensors or shapes. `optimize`: auto, greedy, optimal, left, another
    search's name, or a path of pairs. `budget`: work of the search, in units of about 1 us.
    `memory`: bytes that may be alive, with labels to loop over where it needs more; an error where
    that can't be had. `gradients`: counts what a derivative has alive too."""
    tensors = [o for o in operands if isinstance(o, Tensor)]
    dtype = dtype or (_gradus.result_type(tensors) if tensors else _gradus.float32)
    return _gradus._einsum_plan(equation, output, list(operands), optimize, float(budget), seed,
                                _bytes(memory), algebra, dtype, gradients)


def einsum(equation, *operands, output=None, algebra="standard", **options):
    """einsum; with any option of plan() by a plan of these operands."""
    if options:
        return plan(equation, *operands, output=output, algebra=algebra, **options)(*operands)
    if isinstance(equation, str):
        return _gradus.einsum(equation, *operands, algebra=algebra)
    return _gradus._einsum_labels(list(operands), equation, output, algebra)
