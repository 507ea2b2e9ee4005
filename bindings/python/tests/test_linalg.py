"""gradus.linalg has torch.linalg's meanings where they are not those of the op of that name."""
import itertools
import math

import gradus
import pytest

np = pytest.importorskip("numpy")
L = gradus.linalg
X = np.random.default_rng(3).normal(size=(2, 3, 3))
ORDERS = ("fro", "nuc", 1, -1, 2, -2, math.inf, -math.inf)


def close(a, b):
    np.testing.assert_allclose(np.asarray(a), b, rtol=1e-10, atol=1e-12)


def test_norms_are_those_of_matrices():
    x = gradus.tensor(X)
    for order in ORDERS:
        close(L.norm(x[0], order), np.linalg.norm(X[0], order))
        close(L.norm(x[0], ord=order), np.linalg.norm(X[0], order))
        close(L.matrix_norm(x, order), np.linalg.norm(X, order, (1, 2)))
        for dim, keep in itertools.product(itertools.permutations((0, 1, -1), 2), (False, True)):
            close(L.norm(x, order, dim, keep), np.linalg.norm(X, order, dim, keep))
    for order in (0, 1, 2, 3, math.inf, -math.inf):
        close(L.norm(x[0, 0], order), np.linalg.norm(X[0, 0], order))
        close(L.norm(x, order, 1), np.linalg.norm(X, order, 1))
    close(L.norm(x), np.linalg.norm(X))
    close(L.norm(x, dim=(0, 1)), np.linalg.norm(X, axis=(0, 1)))
    assert L.norm(gradus.ones(2), dtype=gradus.float64).dtype is gradus.float64
    assert gradus.autograd.gradcheck(lambda t: L.norm(t, 1) + L.norm(t, 2) + L.norm(t, "nuc"), x[0])
    for call in (lambda: L.norm(x, 1), lambda: L.norm(x[0, 0], "nuc"), lambda: L.matrix_norm(x, dim=1),
                 lambda: L.matrix_norm(x, 3), lambda: L.matrix_norm(x, dim=(1, 7))):
        with pytest.raises(gradus.Error, match="norm|movedim"):
            call()


def test_condition():
    x = gradus.tensor(X)
    for order in (None, *ORDERS):
        close(L.cond(x, order), np.linalg.cond(X, order))
    singular = gradus.tensor(np.stack([X[0], np.ones((3, 3))]))
    assert L.cond(singular, 1).tolist()[1] == math.inf and L.cond(singular, "fro")[0].isfinite().item()
    assert gradus.autograd.gradcheck(lambda t: L.cond(t, 1), x)
    for order in (1, "fro"):
        leaf = singular.detach().requires_grad_()
        L.cond(leaf, order)[0].backward()
        assert leaf.grad.isfinite().all().item() and not leaf.grad[1].any().item()


def test_norms_take_arrays_and_whole_numbers_of_numpy():
    close(L.norm(X[0], 2), np.linalg.norm(X[0], 2))
    close(L.norm(gradus.tensor(X[0]), 2, np.int64(1)), np.linalg.norm(X[0], 2, 1))


def test_diagonals_and_products():
    x = gradus.tensor(X)
    close(L.diagonal(x, offset=1), np.diagonal(X, 1, -2, -1))
    close(L.diagonal(x, dim1=0, dim2=1), np.diagonal(X))
    v, M = X[0, 0], X[1]
    for parts in ([v, M, M, v], [v, M], [M, v], [M, M], [v, v]):
        close(L.multi_dot([gradus.tensor(p) for p in parts]), np.linalg.multi_dot(parts))
    with pytest.raises(gradus.ValueError, match="two or more"):
        L.multi_dot([x[0]])


def test_tolerances_by_position():
    M = gradus.tensor([[5.0, 0], [0, 0.02]], dtype=gradus.float64)
    assert L.matrix_rank(M, 0.01).item() == 2 and L.matrix_rank(M, rtol=0.01).item() == 1
    assert L.matrix_rank(M, 0.03).item() == L.matrix_rank(M, atol=0.03).item() == 1
    close(L.pinv(M, 0.01), [[0.2, 0], [0, 0]])
    close(L.pinv(M, atol=0.01)[1, 1], 50)


def test_lu_solve():
    A = np.random.default_rng(5).normal(size=(2, 4, 4)) + 1j * np.random.default_rng(6).normal(size=(2, 4, 4))
    for a, b in ((A, A[0, :, :3]), (A.real, A.real[:, :, :2]), (A[1], A[0])):
        for adjoint, left in itertools.product((False, True), (True, False)):
            op = np.conj(np.swapaxes(a, -1, -2)) if adjoint else a
            right = b if left else np.swapaxes(b, -1, -2)
            expected = np.linalg.solve(op, right) if left else \
                np.swapaxes(np.linalg.solve(np.swapaxes(op, -1, -2), np.swapaxes(right, -1, -2)), -1, -2)
            factors = L.lu_factor(gradus.tensor(a))
            close(L.lu_solve(*factors, gradus.tensor(right.copy()), adjoint=adjoint, left=left), expected)
    x = gradus.tensor(A[0].real.copy())
    assert gradus.autograd.gradcheck(lambda t, b: L.lu_solve(*L.lu_factor(t), b), (x, x))
    for LU, rows, b in ((x, gradus.arange(4), x[0]), (x, gradus.arange(3), x), (x[:3], gradus.arange(3), x)):
        with pytest.raises(gradus.Error, match="lu_solve"):
            L.lu_solve(LU, rows, b)


def test_shapes_of_batches():
    for shapes in (((), (2,)), ((),), ((2, 1), 3), (), ((4, 1), (), (2, 1, 3))):
        assert gradus.broadcast_shapes(*shapes) == np.broadcast_shapes(*shapes)


def test_vander():
    x = np.array([[1.0, 2, 3], [0, -1, 4]])
    for n in (None, 0, 1, 5):
        expected = np.stack([np.vander(row, n, increasing=True) for row in x])
        close(L.vander(gradus.tensor(x), N=n), expected)
