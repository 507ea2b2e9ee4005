"""Block-sparse tensors: tensors with a symmetry, U(1), Z_n, products of these, fermions.

    from gradus import blocks
    leg = blocks.Leg(1, {-1: 2, 0: 3, 1: 2})            # arrow, {charge: size}
    x = blocks.randn([leg, leg.reversed()], dtype="f64", requires_grad=True)
    y = blocks.einsum("ij,jk->ik", x, x)                # blocks that must be 0 are not there
    y.norm().backward()
    x.grad                                              # with the blocks of x
    u, s, vh = x.svd()

An element may differ from 0 where the sum of arrow * charge over the legs is the charge of the
tensor (0 if it is not said); those blocks alone are stored, in one buffer, x.data, an ordinary
tensor that optimisers, files and captured steps take. Nothing becomes dense but by to_dense().
"""
from . import _gradus

_blocks = _gradus._blocks
BlockPlan, BlockTensor, Leg, SVD = _blocks.BlockPlan, _blocks.BlockTensor, _blocks.Leg, _blocks.SVD
einsum, from_dense, load, plan = _blocks.einsum, _blocks.from_dense, _blocks.load, _blocks.plan
rand, randn, save, zeros = _blocks.rand, _blocks.randn, _blocks.save, _blocks.zeros

__all__ = ["BlockPlan", "BlockTensor", "Leg", "SVD", "einsum", "from_dense", "load", "plan", "rand",
           "randn", "save", "zeros"]
