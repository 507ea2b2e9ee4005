// x[...] as numpy has it: whole numbers, slices, None, ..., masks, arrays of numbers. As in PyTorch
// a whole number beside an array picks its axis first, and moves no other one.
#include "bindings/python/src/python.hpp"
#include "engine/in_place.hpp"
#include "ops/ops.hpp"

namespace gradus::inline v1::py {

namespace {

// A subscript taken apart: the view that whole numbers, slices and None make, and for some of its
// axes the tensors that pick.
struct Picked {
  Tensor view;
  std::vector<std::pair<int64_t, Tensor>> picks;  // by axis of the view, rising
  bool together = true;                           // are those axes one after another?
  bool masked = false;                            // by True or False: what is read is a copy
};

bool is_list(PyObject* o) { return PyList_Check(o); }

// A tensor of numbers or a mask, from what stands in brackets; false: something else.
bool pick_at(PyObject* o, Tensor& out, Device& device) {
  if (is_tensor(o)) {
    out = tensor_in(o);
  } else if (is_list(o)) {
    out = tensor_from(o, std::nullopt, device);
    if (out.numel() == 0) out = cast(out, DType::i64);
  } else if (PyBool_Check(o)) {
    out = tensor_from(o, std::nullopt, device);
  } else {
    if (!operand_at(o, out)) return false;
    if (out.is_number() && out.dtype() == DType::bool_)  // numpy's True
      out = materialise(out, DType::bool_, device);
    return !out.is_number();
  }
  return true;
}

Tensor sliced(const Tensor& x, int64_t axis, PyObject* slice_object) {
  Py_ssize_t start, stop, step;
  if (PySlice_Unpack(slice_object, &start, &stop, &step) != 0) nb::raise_python_error();
  const int64_t size = x.size(axis);
  const Py_ssize_t n = PySlice_AdjustIndices(size, &start, &stop, step);
  if (start == 0 && n == size && step == 1) return x;
  if (n == 0) return slice(x, axis, 0, 0);
  if (step > 0) return slice(x, axis, start, stop, step);
  // Back from start: forward from where the steps end, then turned.
  return flip(slice(x, axis, start + (n - 1) * step, start + 1, -step), {axis});
}

Picked picked(const Tensor& x, PyObject* key) {
  SmallVector<PyObject*, 6> items;
  if (PyTuple_Check(key))
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(key); ++i)
      items.push_back(PyTuple_GET_ITEM(key, i));
  else
    items.push_back(key);
  // How many axes do they speak of?
  int64_t spoken = 0;
  bool dots = false;
  std::vector<Tensor> tensors(items.size());
  for (size_t i = 0; i < items.size(); ++i) {
    PyObject* const o = items[i];
    if (o == Py_Ellipsis) {
      if (dots) fail(ErrorKind::index, "index", "two \"...\" in one subscript");
      dots = true;
    } else if (o == Py_None || PySlice_Check(o) || is_integer_like(o)) {
      // an integer tensor of no axes is a number among numbers, but picks as numpy's do
      if (is_tensor(o)) tensors[i] = tensor_in(o);
      spoken += o != Py_None;
    } else if (pick_at(o, tensors[i], x.device())) {
      spoken += tensors[i].dtype() == DType::bool_ ? tensors[i].rank() : 1;
    } else {
      fail(ErrorKind::index, "index",
           "expected whole numbers, slices, None, ..., masks or arrays of numbers, got ",
           Py_TYPE(o)->tp_name);
    }
  }
  if (spoken > x.rank())
    fail(ErrorKind::index, "index", spoken, " subscripts for a shape of ", x.sizes());
  Picked p{x, {}, true};
  int64_t axis = 0, of = 0;  // of the view, and of x
  const auto pick = [&](Tensor t) {
    if (!p.picks.empty() && p.picks.back().first != axis - 1) p.together = false;
    p.picks.emplace_back(axis++, std::move(t));
    ++of;
  };
  for (size_t i = 0; i < items.size(); ++i) {
    PyObject* const o = items[i];
    if (o == Py_Ellipsis) {
      axis += x.rank() - spoken;
      of += x.rank() - spoken;
    } else if (o == Py_None) {
      p.view = unsqueeze(p.view, axis++);
    } else if (PySlice_Check(o)) {
      p.view = sliced(p.view, axis++, o);
      ++of;
    } else if (is_integer_like(o) && !is_tensor(o)) {
      const int64_t k = integer_at(o, "index"), size = x.size(of);
      if (k < -size || k >= size)
        fail(ErrorKind::index, "index", k, " is outside of axis ", of, " of size ", size,
             " (shape ", x.sizes(), ")");
      p.view = select(p.view, axis, k);
      ++of;
    } else if (tensors[i].dtype() == DType::bool_) {
      const Tensor& mask = tensors[i];
      for (int64_t k = 0; k < mask.rank(); ++k)
        if (mask.size(k) != x.size(of + k))
          fail(ErrorKind::index, "index", "a mask of shape ", mask.sizes(), " does not fit axis ",
               of + k, " of ", x.sizes());
      if (mask.rank() == 0) {  // x[True]: a new axis of extent 1 or 0
        p.masked = true;
        p.view = unsqueeze(p.view, axis);
        if (mask.item() == 0) p.view = slice(p.view, axis, 0, 0);
        ++axis;
        continue;
      }
      const Tensor places = nonzero(mask);
      for (int64_t k = 0; k < mask.rank(); ++k) pick(select(places, 1, k));
    } else {
      if (!is_integer(tensors[i].dtype()))
        fail(ErrorKind::index, "index", "an array of numbers must be of integers or bool, got ",
             tensors[i].dtype());
      Tensor t = tensors[i].dtype() == DType::i64 ? tensors[i] : cast(tensors[i], DType::i64);
      pick(&t.device() == &x.device() ? t : to_device(t, x.device()));
    }
  }
  return p;
}

// The picked axes first, then the others; where the picked ones go back to.
struct Front {
  Tensor view;
  Tensors picks;
  Shape order;
};
Front to_front(const Picked& p) {
  Front f;
  for (const auto& [axis, t] : p.picks) {
    f.order.push_back(axis);
    f.picks.push_back(t);
  }
  for (int64_t i = 0; i < p.view.rank(); ++i)
    if (std::find(f.order.begin(), f.order.end(), i) == f.order.end()) f.order.push_back(i);
  bool moved = false;
  for (size_t i = 0; i < f.order.size(); ++i) moved |= f.order[i] != int64_t(i);
  f.view = moved ? permute(p.view, f.order) : p.view;
  return f;
}
int64_t rank_of(const Tensors& picks) {
  int64_t rank = 0;
  for (const Tensor& t : picks) rank = std::max(rank, t.rank());
  return rank;
}
// Picked axes that stood together go back to their place.
Shape places(const Picked& p, int64_t rank, int64_t picked_rank, bool back) {
  const int64_t first = p.together ? p.picks[0].first : 0;
  Shape order;
  if (back) {
    for (int64_t i = 0; i < first; ++i) order.push_back(picked_rank + i);
    for (int64_t i = 0; i < picked_rank; ++i) order.push_back(i);
    for (int64_t i = picked_rank + first; i < rank; ++i) order.push_back(i);
  } else {
    for (int64_t i = 0; i < picked_rank; ++i) order.push_back(first + i);
    for (int64_t i = 0; i < rank; ++i)
      if (i < first || i >= first + picked_rank) order.push_back(i);
  }
  return order;
}

// An index that only the kernel found to be outside was that of this.
template <class F>
auto with_index_errors(F&& f) {
  try {
    return f();
  } catch (const Error& e) {
    if (e.kind() != ErrorKind::index) throw;
    throw Error(ErrorKind::index, "index", e.message());
  }
}

}  // namespace

PyObject* subscript(PyObject* self, PyObject* key) {
  return guarded([&] {
    const PythonLine line;
    const Tensor& x = tensor_in(self);
    const Picked p = picked(x, key);
    if (p.picks.empty() && p.masked) return wrap(clone(p.view));
    if (p.picks.empty()) return wrap(p.view.same_body(x) ? expand(x, x.sizes()) : p.view);
    const Front f = to_front(p);
    const Tensor y = with_index_errors([&] { return index(f.view, f.picks); });
    const int64_t n = rank_of(f.picks);
    return wrap(p.together && p.picks[0].first > 0 ? permute(y, places(p, y.rank(), n, true)) : y);
  });
}

int assign_subscript(PyObject* self, PyObject* key, PyObject* value) {
  return guarded(
      [&] {
        const PythonLine line;
        const Tensor& x = tensor_in(self);
        if (!value) fail(ErrorKind::value, "index", "elements of a tensor can't be deleted");
        Tensor v;
        if (!operand_at(value, v)) v = tensor_from(value, std::nullopt, x.device());
        // A mask of x's shape and one number: no places are looked for.
        if (is_tensor(key) && tensor_in(key).dtype() == DType::bool_ &&
            (v.is_number() || v.rank() == 0) && tensor_in(key).sizes() == x.sizes() &&
            x.rank() > 0) {
          in_place(get_op("masked_fill"), x, std::array{tensor_in(key), v});
          return 0;
        }
        const Picked p = picked(x, key);
        if (p.picks.empty()) {
          v.is_number() ? void(fill_(p.view, v)) : copy_(p.view, v);
          return 0;
        }
        const Front f = to_front(p);
        if (v.is_number()) {
          check_holds("index", x.dtype(), v);
          v = materialise(v, x.dtype(), x.device());
        } else {
          v = cast(&v.device() == &x.device() ? v : to_device(v, x.device()), x.dtype());
        }
        const int64_t n = rank_of(f.picks), rank = n + f.view.rank() - int64_t(f.picks.size());
        if (p.together && p.picks[0].first > 0 && v.rank() > 0) {
          Shape full = v.sizes();  // with all axes of the result, so that they can change places
          while (int64_t(full.size()) < rank)
            full = [&] {
              Shape s{1};
              s.append(full.begin(), full.size());
              return s;
            }();
          v = permute(reshape(v, full), places(p, rank, n, false));
        }
        Tensors others{v};
        others.insert(others.end(), f.picks.begin(), f.picks.end());
        with_index_errors([&] { return in_place("index_put", f.view, others); });
        return 0;
      },
      -1);
}

}  // namespace gradus::py
