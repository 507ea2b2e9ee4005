"""Memory shared with numpy, torch, jax and buffers: the same pointer, writes seen, nothing leaked."""
import array
import gc
import weakref

import gradus
import pytest

np = pytest.importorskip("numpy")
NUMPY = {gradus.float32: np.float32, gradus.float64: np.float64, gradus.int32: np.int32, gradus.int64: np.int64,
         gradus.uint8: np.uint8, gradus.bool: np.bool_, gradus.float16: np.float16, gradus.complex64: np.complex64,
         gradus.complex128: np.complex128}


@pytest.mark.parametrize("dtype", NUMPY, ids=str)
def test_numpy_both_ways(dtype):
    a = np.array([[1, 0, 1], [0, 1, 1]], dtype=NUMPY[dtype])
    for t in (gradus.from_dlpack(a), gradus.from_numpy(a), gradus.as_tensor(a), gradus.asarray(a, copy=False)):
        assert t.dtype is dtype and t.data_ptr() == a.ctypes.data and t.tolist() == a.tolist()
    t[0, 1] = 1
    assert a[0, 1] == 1
    a[1, 0] = 1
    assert t[1, 0].item() == 1
    x = gradus.ones(3, dtype=dtype)
    for b in (np.asarray(x), np.from_dlpack(x), x.numpy()):
        assert b.ctypes.data == x.data_ptr() and b.dtype == NUMPY[dtype]
    np.asarray(x)[0] = 0
    assert not x[0].item()
    x.mul_(0)  # in place: seen through the array, which keeps the same memory
    assert not np.asarray(x).any() and b.ctypes.data == x.data_ptr() and not b.any()


def test_strides_offsets_and_odd_arrays():
    a = np.arange(24.0).reshape(2, 3, 4)
    for b in (a[:, ::2], a[::-1], a.transpose(2, 0, 1), a[1, 1:], np.broadcast_to(a[0, 0], (3, 4)), a[0, 0, 0:0],
              np.array(3.0)):
        assert gradus.from_numpy(b).tolist() == b.tolist()
    x = gradus.arange(6).reshape(2, 3).T
    assert np.asarray(x).tolist() == x.tolist() and np.asarray(x).strides == (8, 24)
    assert gradus.from_numpy(np.frombuffer(b"\0" * 16, np.float32)).shape == (4,)  # read-only: copied
    with pytest.raises(gradus.Error, match="aligned"):
        gradus.from_numpy(np.frombuffer(bytearray(9), np.uint8)[1:9].view(np.float64))
    with pytest.raises(TypeError):
        gradus.from_numpy(np.zeros(2, np.int16))
    with pytest.raises(Exception):
        gradus.from_numpy(np.array(["a"]))


def test_buffers():
    assert gradus.from_dlpack(array.array("d", [1, 2])).tolist() == [1, 2]
    b = array.array("f", [1, 2])
    gradus.from_dlpack(b)[0] = 5
    assert b[0] == 5
    assert gradus.tensor(bytes([1, 2])).tolist() == [1, 2]
    assert memoryview(gradus.ones(2)).tolist() == [1, 1]


def test_what_others_may_write():
    x = gradus.ones(3)
    assert np.asarray(x).flags.writeable
    w = gradus.ones(3, requires_grad=True)
    y = (x * w).sum()  # x is saved by the graph
    assert not np.asarray(x).flags.writeable
    del y
    assert np.asarray(x).flags.writeable
    with pytest.raises(TypeError, match="detach"):
        np.asarray(w)
    with pytest.raises(BufferError, match="detach"):
        w.__dlpack__()
    z = gradus.ones(3)
    clone = z.clone()  # shares until one is written
    np.asarray(z)[0] = 9
    assert clone[0].item() == 1
    w = gradus.ones(2, requires_grad=True)
    kept = w.detach().clone()
    loss = (w**2).sum()
    assert w.detach().numpy().tolist() == kept.tolist() == [1, 1]  # to read them is no write
    loss.backward()
    assert w.grad.tolist() == [2, 2]
    with pytest.raises(TypeError, match="bfloat16"):
        np.asarray(gradus.ones(2, dtype=gradus.bfloat16))
    assert np.asarray(x, dtype=np.float64).dtype == np.float64
    with pytest.raises(ValueError):
        np.array(x, dtype=np.float64, copy=False)
    assert np.array(x, copy=True).ctypes.data != x.data_ptr()


def test_capsules():
    x = gradus.ones(2)
    old, new = x.__dlpack__(), x.__dlpack__(max_version=(1, 0))
    assert '"dltensor"' in repr(old) and '"dltensor_versioned"' in repr(new)
    assert gradus.from_dlpack(new).data_ptr() == x.data_ptr() == gradus.from_dlpack(old).data_ptr()
    with pytest.raises(gradus.ValueError, match="used_dltensor"):
        gradus.from_dlpack(old)
    assert x.__dlpack_device__() == (1, 0)
    assert gradus.from_dlpack(x.__dlpack__(copy=True)).data_ptr() != x.data_ptr()
    for wrong in ({"stream": 3}, {"dl_device": (2, 0)}):
        with pytest.raises(BufferError):
            x.__dlpack__(**wrong)


def test_owners_live_as_long_as_their_memory():
    class Owner(np.ndarray):
        pass
    a = np.ones(4).view(Owner)
    gone = weakref.ref(a)
    t = gradus.from_numpy(a)
    del a
    gc.collect()
    assert gone() is not None and t.sum().item() == 4
    del t
    gc.collect()
    assert gone() is None
    x = gradus.ones(1000)
    b = np.asarray(x)
    del x
    assert b.sum() == 1000


def resident():
    with open("/proc/self/statm") as f:
        return int(f.read().split()[1]) * 4096


def test_no_leak_over_a_million_exchanges():
    a, x = np.ones(64), gradus.ones(64)

    def turn(n):
        for _ in range(n):
            gradus.from_dlpack(a)
            np.from_dlpack(x)

    turn(1000)
    before = resident()
    turn(500_000)
    assert resident() - before < 8 << 20


def test_torch():
    torch = pytest.importorskip("torch")
    for dtype in (torch.float32, torch.bfloat16, torch.float16, torch.int64, torch.bool, torch.complex64, torch.uint8):
        t = torch.ones(2, 3, dtype=dtype)
        x = gradus.from_dlpack(t)
        assert x.data_ptr() == t.data_ptr() and x.dtype == dtype
        back = torch.from_dlpack(x)
        assert back.data_ptr() == t.data_ptr() and back.dtype == dtype
    t = torch.zeros(3)
    gradus.from_dlpack(t)[1] = 5
    assert t[1] == 5
    y = gradus.zeros(2, 3).T
    torch.from_dlpack(y)[2, 1] = 7
    assert y[2, 1].item() == 7
    before = None
    for i in range(6):
        for _ in range(20_000):
            torch.from_dlpack(gradus.from_dlpack(t))
        if i == 1:
            before = resident()
    assert resident() - before < 8 << 20


def test_jax():
    jnp = pytest.importorskip("jax.numpy")
    x = gradus.arange(4, dtype=gradus.float32)
    j = jnp.from_dlpack(x)
    assert j.tolist() == [0, 1, 2, 3]
    assert j.unsafe_buffer_pointer() == x.data_ptr()
    back = gradus.from_dlpack(j + 1)
    assert back.tolist() == [1, 2, 3, 4] and jnp.asarray(np.asarray(x)).tolist() == [0, 1, 2, 3]
