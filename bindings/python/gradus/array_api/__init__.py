"""The namespace of the array API standard, version 2024.12, over gradus's ops.

Arrays are gradus.Tensor; gradients flow through. Functions take the dtypes that the standard names
and mix kinds of dtypes only where it says what comes out. Left out: fft, and the dtypes that gradus
has not (int8, int16, uint16, uint32, uint64).
"""
from . import _members, linalg
from ._base import (bool, complex64, complex128, float32, float64, int32, int64, uint8)
from ._creation import *
from ._dtypes import *
from ._elementwise import *
from ._manipulation import *
from ._search import *
from ._statistics import *
from .linalg import matmul, matrix_transpose, tensordot, vecdot
from . import _creation, _dtypes, _elementwise, _manipulation, _search, _statistics

__array_api_version__ = _members.VERSION

e = 2.718281828459045
inf = float("inf")
nan = float("nan")
newaxis = None
pi = 3.141592653589793

__all__ = ["__array_api_version__", "bool", "complex64", "complex128", "e", "float32", "float64",
           "inf", "int32", "int64", "linalg", "matmul", "matrix_transpose", "nan", "newaxis", "pi",
           "tensordot", "uint8", "vecdot", *_creation.__all__, *_dtypes.__all__,
           *_elementwise.__all__, *_manipulation.__all__, *_search.__all__, *_statistics.__all__]

_members.attach()
