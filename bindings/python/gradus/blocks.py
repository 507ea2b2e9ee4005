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
tensor that optimisers, files and captured steps take. Nothing becomes dense but by to_dense(), and
what has no legs, such as a full contraction, is an ordinary tensor of one number.
"""
import os

from . import _gradus
from ._modes import no_grad
from ._tensor import as_tensor, rand as _rand, randn as _randn

_b = _gradus._blocks
BlockPlan, Leg = _b.BlockPlan, _b.Leg

__all__ = ["BlockPlan", "BlockTensor", "Leg", "SVD", "einsum", "eye", "from_dense", "load", "plan", "rand",
           "randn", "save", "zeros"]


def _axes(given):
    """f(0, 1), f((0, 1)) and f([0, 1])."""
    axes = given[0] if len(given) == 1 else given
    if axes is None:
        raise _gradus.ValueError("expected whole numbers, got None")
    return axes


class BlockTensor:
    """A tensor with a symmetry: its blocks in one buffer, `data`, and their structure.

    Made by zeros, rand, randn, eye, from_dense, load and what computes with them. Functions record;
    a gradient has the blocks of its tensor. Pointwise ops of which f(0) is 0 are methods: x.tanh().
    """

    __slots__ = ("_data", "_structure", "__weakref__")
    __array_ufunc__ = None  # numpy's arrays leave what stands beside them to the methods here

    def __init__(self, data, structure):
        if not isinstance(data, _gradus.Tensor) or not isinstance(structure, _b.Structure):
            raise _gradus.DTypeError(f"BlockTensor: expected a tensor and the structure of a block tensor, got a "
                                     f"{type(data).__name__} and a {type(structure).__name__}; zeros, from_dense and "
                                     "x.with_data make block tensors")
        self._data, self._structure = data, structure
        _b.check(self)

    # ---- what it is

    @property
    def data(self):
        """All numbers, an ordinary tensor of one axis: optimisers, files, x.data.norm()."""
        return self._data

    @property
    def structure(self):
        """Which blocks there are: the same object is equal, and has a hash."""
        return self._structure

    @property
    def legs(self):
        """The axes, each a Leg."""
        return self._structure.legs

    @property
    def charge(self):
        """What arrow * charge sums to over the legs of a block; of a product of groups a tuple."""
        return self._structure.charge

    @property
    def symmetry(self):
        """The group as a text, "U(1) x Z2"."""
        return self._structure.symmetry

    @property
    def blocks(self):
        """The sectors of each block, in the order in which they lie."""
        return self._structure.blocks

    @property
    def count(self):
        """How many blocks."""
        return self._structure.count

    @property
    def elements(self):
        """How many numbers."""
        return self._structure.elements

    @property
    def rank(self):
        """How many legs."""
        return self._structure.rank

    ndim = rank

    @property
    def shape(self):
        """Sizes of the legs."""
        return self._structure.shape

    @property
    def grad(self):
        """With the blocks of the tensor; None before a backward pass."""
        grad = self._data.grad
        return None if grad is None else BlockTensor(grad, self._structure)

    @grad.setter
    def grad(self, value):
        self._data.grad = value._data if isinstance(value, BlockTensor) else value

    @property
    def requires_grad(self):
        """Does the buffer record?"""
        return self._data.requires_grad

    @requires_grad.setter
    def requires_grad(self, value):
        self._data.requires_grad = value

    @property
    def real(self):
        """The real parts."""
        return self.with_data(self._data.real)

    @property
    def imag(self):
        """The imaginary parts."""
        return self.with_data(self._data.imag)

    def __repr__(self):
        fn = self._data.grad_fn
        name = getattr(fn, "name", fn)
        return _b.text(self) + (f", grad_fn=<{name() if callable(name) else name}>" if fn is not None else
                                ", requires_grad=True" if self.requires_grad else "")

    def __reduce__(self):
        return _restored, (self._data, self.legs, self.charge)

    def __dir__(self):
        return sorted({*object.__dir__(self), *_b.pointwise})

    def __getattr__(self, name):
        if name in _b.pointwise:
            return lambda *args, **options: self._pointwise(name, args, options)
        hints = {**dict.fromkeys(("reshape", "view", "flatten", "unflatten", "squeeze", "unsqueeze"),
                                 "legs are fused and split: x.fuse(0, 2), x.split(0)"),
                 **dict.fromkeys(("transpose", "t", "T", "mT", "movedim"),
                                 "write x.permute(1, 0), and x.conj() turns the arrows"),
                 **dict.fromkeys(("matmul", "mm", "tensordot", "contract", "dot"),
                                 'write gradus.blocks.einsum("ij,jk->ik", x, y)')}
        hint = hints.get(name)
        if hint is None and not name.startswith("_") and hasattr(_gradus.Tensor, name):
            hint = f"x.data.{name} goes over the numbers, x.to_dense() makes them dense, explicitly"
        raise AttributeError(f"a block tensor has no {name!r}" + (f"; {hint}" if hint else ""))

    def _pointwise(self, name, args, options):
        if not args and not options:
            return _b.map(name, self)
        op = getattr(_gradus, name)
        with no_grad():
            at_zero = op(_gradus.zeros(1, dtype=self.dtype, device=self.device), *args, **options).item()
        if at_zero != 0:
            raise _gradus.ValueError(f"{name}: {name}(0) is {at_zero}, so the result is dense; to_dense() makes the "
                                     "tensor dense, explicitly")
        return self.with_data(op(self._data, *args, **options))

    # ---- number by number

    def _dense_beside(self, name):
        raise _gradus.ValueError(f"{name}: a number beside a block tensor: {name} would fill the blocks that must be "
                                 "0, so the result is dense; to_dense() makes the tensor dense, explicitly")

    def _sum(self, op, other):
        if isinstance(other, BlockTensor):
            return getattr(_b, op)(self, other)
        if _is_number(other):
            self._dense_beside(op)
        return NotImplemented

    def __add__(self, other):
        return self._sum("add", other)

    def __sub__(self, other):
        return self._sum("sub", other)

    def __radd__(self, other):
        # sum([x, y]) begins with 0
        return self if isinstance(other, int) and other == 0 else self._sum("add", other)

    __rsub__ = __sub__

    def __mul__(self, other):
        if isinstance(other, BlockTensor):
            raise _gradus.ValueError("mul: of two block tensors: gradus.blocks.einsum contracts them; number by "
                                     "number, in one structure, it is x.with_data(x.data * y.data)")
        return _b.mul(self, other) if _is_number(other) else NotImplemented

    __rmul__ = __mul__

    def __truediv__(self, other):
        if not _is_number(other):
            return NotImplemented
        if getattr(other, "shape", ()) not in ((), (1,)):
            raise _gradus.ShapeError(f"div: by one number, got shape {tuple(other.shape)}")
        return self.with_data(self._data / (other.reshape(()) if hasattr(other, "reshape") else other))

    def __matmul__(self, other):
        if not isinstance(other, BlockTensor):
            return NotImplemented
        if self.rank != 2 or other.rank != 2:
            raise _gradus.ShapeError(f"matmul: of block tensors with 2 legs, got {self.rank} and {other.rank}; "
                                     "gradus.blocks.einsum contracts any")
        return einsum("ij,jk->ik", self, other)

    def __neg__(self):
        return _b.neg(self)

    def __pos__(self):
        return self

    def _no_comparison(self, other):
        if not isinstance(other, BlockTensor) and not _is_number(other):
            return NotImplemented
        raise _gradus.ValueError("block tensors are not compared as a whole: (x - y).norm() is a number, "
                                 "x.structure == y.structure compares their blocks, x is y the objects")

    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = _no_comparison
    __hash__ = object.__hash__

    def __bool__(self):
        raise _gradus.ValueError("a block tensor is neither true nor false; x.norm() is a number")

    def __array__(self, *args, **options):
        raise TypeError("a block tensor is no array; np.asarray(x.to_dense()) is one, np.asarray(x.data) has its numbers")

    def map(self, op):
        """A pointwise op by its name, of which f(0) is 0; also x.tanh()."""
        return _b.map(op, self)

    def norm(self):
        """The root of the sum of |x|^2."""
        return self._data.norm()

    def inner(self, other):
        """The sum of conj(x) y, of one structure."""
        return _b.inner(self, other)

    def conj(self):
        """Complex conjugate; turns arrows and charge. Of fermions with the signs of <x|x>, in which each
        leg meets x: a bond that is summed within a bra is to be twisted, once."""
        return _b.conj(self)

    def twist(self, *dims):
        """Of fermions: the blocks in which these legs together are odd change sign."""
        return _b.twist(self, _axes(dims))

    # ---- blocks

    def to_dense(self):
        """A dense tensor: 0 where there is no block."""
        return _b.to_dense(self)

    def block(self, *at):
        """x.block(0, 1): the block of these sectors, a view."""
        return _b.block(self, _axes(at))

    def set_block(self, at, block):
        """Another tensor, which has this block there."""
        return _b.set_block(self, at, as_tensor(block, dtype=None if hasattr(block, "dtype") else self.dtype))

    def with_data(self, data):
        """The same structure with other numbers."""
        return BlockTensor(as_tensor(data), self._structure)

    def permute(self, *dims, signs=False):
        """Legs in another order; of fermions, where odd legs cross, with signs=True."""
        return _b.permute(self, _axes(dims), signs)

    def fuse(self, dim, n, arrow=None):
        """The n legs from dim on as one, with the first one's arrow if none is said."""
        return _b.fuse(self, dim, n, arrow)

    def split(self, dim):
        """A fused leg as the legs that it was made of."""
        return _b.split(self, dim)

    def slice(self, dim, ranges):
        """Of each sector of a leg the elements from start to stop: [(0, 2), (1,), ()]; () is all of it."""
        return _b.slice(self, dim, ranges)

    def trace(self, dim0=0, dim1=1):
        """The sum of the elements whose two indices are equal."""
        return _b.trace(self, dim0, dim1)

    def sum(self, dim):
        """Over a neutral leg; x.data.sum() is the sum of all numbers."""
        return _b.sum(self, dim)

    def scale(self, dim, numbers):
        """Multiplied along a leg by one number for each index."""
        return _b.scale(self, dim, as_tensor(numbers, dtype=None if hasattr(numbers, "dtype") else self.dtype))

    # ---- decompositions by sector; `rows`: the legs that are the rows, of a matrix the first

    def svd(self, rows=None, *, rank=None, atol=0.0, rtol=0.0, least=0, ties="widen", sizes=None, charge=None,
            degenerate="exact"):
        """u, s, vh with x = u diag(s) vh, by sector, cut over all of them.

        At most `rank` values (None, 0: all), none up to max(atol, rtol * largest), of each sector at
        least `least`. ties: those at the cut all stay ("widen"), or the lower sectors' ("index").
        sizes: how many of each charge, {charge: size}, whatever the numbers are. charge: which
        factor, "left" or "right", has that of x. degenerate: "exact" refuses derivatives that do
        not exist, "safe" leaves their terms out.
        """
        return SVD(*_b.svd(self, rows, rank or 0, atol, rtol, least, ties, sizes, charge, degenerate))

    def qr(self, rows=None, *, positive=True, charge=None):
        """q, r with x = q r, q with orthonormal columns; the diagonal of r is not negative."""
        return _b.qr(self, rows, positive, charge)

    def eigh(self, rows=None, *, degenerate="exact"):
        """w, v of a Hermitian map: x = v diag(w) v.adjoint(); w ascends in each sector."""
        return _b.eigh(self, rows, degenerate)

    def adjoint(self, rows=None):
        """The map back: u.adjoint() @ u is the identity, of fermions too."""
        return _b.adjoint(self, rows)

    def inv(self, rows=None):
        """The inverse map, whose sectors are square."""
        return _b.inv(self, rows)

    def det(self, rows=None):
        """The product of the determinants of the sectors."""
        return _b.det(self, rows)

    def solve(self, b, rows=None):
        """inv(x) b"""
        return _b.solve(self, b, rows)


def _property(name):
    return property(lambda self: getattr(self._data, name), doc=f"{name} of x.data.")


def _alike(name, x, others):
    for other in others:
        if isinstance(other, BlockTensor) and other._structure != x._structure:
            raise _gradus.ValueError(f"{name}: expected a block tensor of the same structure")


def _method(name):
    """That of the numbers; what it gives is a block tensor again."""
    def method(self, *args, **options):
        if name.endswith("_"):  # in place
            _alike(name, self, args)
        args = [a._data if isinstance(a, BlockTensor) else a for a in args]
        out = getattr(self._data, name)(*args, **options)
        return BlockTensor(out, self._structure) if isinstance(out, _gradus.Tensor) else out
    method.__name__, method.__doc__ = name, f"{name}() of x.data."
    return method


for _name in ("dtype", "device", "is_leaf", "grad_fn"):
    setattr(BlockTensor, _name, _property(_name))
for _name in ("to", "cpu", "cuda", "float", "double", "cfloat", "cdouble", "clone", "detach", "zero_", "fill_", "mul_",
              "div_", "normal_", "uniform_", "requires_grad_", "retain_grad"):
    setattr(BlockTensor, _name, _method(_name))
for _name in ("copy_", "add_", "sub_"):
    def _in_place(self, other, *, _of=_method(_name), _name=_name, **options):
        if not isinstance(other, BlockTensor):
            raise _gradus.ValueError(f"{_name}: expected a block tensor of the same structure")
        return _of(self, other, **options)
    _in_place.__name__, _in_place.__doc__ = _name, f"{_name}() of the numbers of two tensors of one structure."
    setattr(BlockTensor, _name, _in_place)


def _is_number(x):
    return isinstance(x, (int, float, complex, _gradus.Tensor)) or hasattr(x, "__array__") and \
        not isinstance(x, BlockTensor)


def _fused(parts, arrow):
    return Leg.fused(parts, arrow)


def _restored(data, legs, charge):
    return BlockTensor(data, _b.Structure("blocks", legs, charge))


class SVD(tuple):
    """u, s, vh = x.svd(): also by name, with the new leg as vh has it (`bond`) and the sum of squares of
    the values left out (`discarded`)."""

    def __new__(cls, u, s, vh, bond, discarded):
        out = super().__new__(cls, (u, s, vh))
        out.bond, out.discarded = bond, discarded
        return out

    u, s, vh = (property(lambda self, n=n: self[n], doc=doc) for n, doc in
                enumerate(("The left factor.", "The values, real.", "The right factor.")))

    def __getnewargs__(self):
        return (*self, self.bond, self.discarded)

    def __repr__(self):
        return f"<SVD {len(self.s)} values, bond {self.bond!r}, discarded {self.discarded:.4g}>"


def _structure(who, legs, charge):
    legs = [legs] if isinstance(legs, Leg) else list(legs)
    for n, leg in enumerate(legs):
        if not isinstance(leg, Leg):
            raise _gradus.DTypeError(f"{who}: legs[{n}] is a {type(leg).__name__}, expected gradus.blocks.Leg")
    return _b.Structure(who, legs, charge)


def _made(who, make, legs, charge, dtype, device, requires_grad):
    structure = _structure(who, legs, charge)
    data = make((structure.elements,), dtype=dtype or _gradus.float32, device=device, requires_grad=requires_grad)
    if data.dtype == _gradus.bool:
        raise _gradus.DTypeError(f"{who}: dtype: blocks hold numbers, not bool")
    return BlockTensor(data, structure)


def zeros(legs, charge=None, *, dtype=None, device=None, requires_grad=False):
    """All blocks that the legs and the charge allow, of zeros."""
    return _made("zeros", _gradus.zeros, legs, charge, dtype, device, requires_grad)


def rand(legs, charge=None, *, dtype=None, device=None, requires_grad=False):
    """Uniform numbers from [0, 1) in all blocks."""
    return _made("rand", _rand, legs, charge, dtype, device, requires_grad)


def randn(legs, charge=None, *, dtype=None, device=None, requires_grad=False):
    """Standard normal numbers in all blocks."""
    return _made("randn", _randn, legs, charge, dtype, device, requires_grad)


def from_dense(x, legs, charge=None, *, tolerance=0.0):
    """The blocks of a dense tensor; an error for a number outside of them that is larger than tolerance."""
    x = as_tensor(x)
    if x.dtype == _gradus.bool:
        raise _gradus.DTypeError("from_dense: x is bool; blocks hold numbers")
    return _b.from_dense(x, _structure("from_dense", legs, charge), tolerance)


def eye(leg, *, dtype=None, device=None):
    """The identity from a leg to itself: legs (leg, leg.reversed())."""
    if not isinstance(leg, Leg):
        raise _gradus.DTypeError(f"eye: expected a gradus.blocks.Leg, got a {type(leg).__name__}")
    return from_dense(_gradus.eye(leg.size, dtype=dtype or _gradus.float32, device=device), [leg, leg.reversed()])


def einsum(equation, *operands):
    """Any number of block tensors, in the order of least work over the pairs of blocks."""
    return _b.einsum(_text(equation), _operands(operands))


def plan(equation, *operands):
    """What einsum would cost."""
    return _b.plan(_text(equation), _operands(operands))


def _text(equation):
    if not isinstance(equation, str):
        raise _gradus.ValueError(f'einsum: expected an equation such as "ij,jk->ik", got a {type(equation).__name__}')
    return equation


def _operands(given):
    return given[0] if len(given) == 1 and isinstance(given[0], (list, tuple)) else given


def save(path, tensors):
    """Block tensors by name, {"name": x}, as one .safetensors file, which any library reads."""
    _b.save(os.fspath(path), dict(tensors))


def load(path, device=None):
    """The block tensors of a file by their names."""
    return _b.load(os.fspath(path), device)
