// Rearrangements, all made of views, joins and masks: their derivatives come by themselves.
#include "ops/shape/rearrange.hpp"

#include "ops/base/registry.hpp"
#include "ops/base/shape.hpp"
#include "ops/shape/creation.hpp"
#include "ops/shape/join.hpp"
#include "ops/shape/memory.hpp"
#include "ops/pointwise/pointwise.hpp"
#include "ops/shape/views.hpp"
#include "ops/reduce/reductions.hpp"

#include <algorithm>

namespace gradus::inline v1 {

namespace {

AttrSpec axis_attr() { return int_attr("dim", 0, "axis"); }

Tensor triangle(const char* op, const Tensor& x, int64_t diagonal, bool lower) {
  if (x.rank() < 2)
    fail(ErrorKind::shape, op, "x has shape ", x.sizes(), ", expected at least two axes");
  const int64_t m = x.size(-2), n = x.size(-1);
  diagonal = std::clamp(diagonal, -m, n);
  return where(triangle_mask(m, n, diagonal, lower, x.device()), x,
               zeros({}, x.dtype(), x.device()));
}

// At least `rank` axes: new ones behind for "after", else in front.
Tensor at_least(const Tensor& x, int64_t rank, int64_t after = 0) {
  Tensor y = x;
  while (y.rank() < rank) y = unsqueeze(y, after && y.rank() >= after ? y.rank() : 0);
  return y;
}
Tensors all_at_least(const Tensors& xs, int64_t rank, int64_t after = 0) {
  Tensors out;
  for (const Tensor& x : xs) out.push_back(at_least(x, rank, after));
  return out;
}

void add_one(const char* name, const char* doc, const char* formula, std::vector<AttrSpec> attrs,
             OpCall call) {
  add_composition(name, "rearrange", doc, formula, {{"x"}}, std::move(attrs), std::move(call));
}
void add_list(const char* name, const char* doc, const char* formula, Tensor (*f)(const Tensors&)) {
  add_composition(name, "join", doc, formula, {{"tensors", true}}, {},
                  [f](Operands in, const Attrs&) { return f(list(in)); });
}

void register_moved() {
  add_one("roll", "elements moved along axes; what leaves at the end comes in at the beginning",
          "y[(i + shift) mod n] = x[i]",
          {ints_attr("shifts", "one per axis"),
           {"dims", AttrValue::Type::integers, {}, "axes; flattened when left out", true}},
          [](Operands in, const Attrs& a) { return roll(in[0], a[0].integers, a[1].integers); });
  add_one("fliplr", "columns reversed", "y[i, j] = x[i, n - 1 - j]", {},
          [](Operands in, const Attrs&) { return flip(in[0], {1}); });
  add_one("flipud", "rows reversed", "y[i] = x[n - 1 - i]", {}, [](Operands in, const Attrs&) {
    if (in[0].rank() == 0)
      fail(ErrorKind::shape, "flipud", "expected at least 1 axis, got a 0-d tensor");
    return flip(in[0], {0});
  });
  add_one("rot90", "turned by k quarters in the plane of two axes", "y[n - 1 - j, i] = x[i, j]",
          {int_attr("k", 1, "quarters"),
           {"dims", AttrValue::Type::integers, Ints{0, 1}, "from the first to the second"}},
          [](Operands in, const Attrs& a) { return rot90(in[0], a[0].integer, a[1].integers); });
  add_one("movedim", "axes moved, the others keep their order", "y[.., i_s, ..] = x[i]",
          {ints_attr("source", "axes"), ints_attr("destination", "their places")},
          [](Operands in, const Attrs& a) { return movedim(in[0], a[0].integers, a[1].integers); });
  add_one("flatten", "several axes as one", "y[...] = x[...]",
          {int_attr("start_dim", 0, "first axis"), int_attr("end_dim", -1, "last axis")},
          [](Operands in, const Attrs& a) { return flatten(in[0], a[0].integer, a[1].integer); });
  add_one("ravel", "all axes as one", "y[...] = x[...]", {},
          [](Operands in, const Attrs&) { return flatten(in[0]); });
  add_one(
      "unflatten", "one axis as several", "y[...] = x[...]",
      {int_attr("dim", "axis"), ints_attr("sizes", "one -1 is inferred")},
      [](Operands in, const Attrs& a) { return unflatten(in[0], a[0].integer, a[1].integers); });
}

void register_triangles() {
  const AttrSpec k = int_attr("diagonal", 0, "above (positive) or below the main one");
  add_one("tril", "0 above a diagonal", "y[i, j] = x[i, j] if j - i <= diagonal, else 0", {k},
          [](Operands in, const Attrs& a) { return tril(in[0], a[0].integer); });
  add_one("triu", "0 below a diagonal", "y[i, j] = x[i, j] if j - i >= diagonal, else 0", {k},
          [](Operands in, const Attrs& a) { return triu(in[0], a[0].integer); });
  add_one("diag", "of a vector the matrix with it on a diagonal; of a matrix its diagonal",
          "y[i, i + diagonal] = x[i]", {k},
          [](Operands in, const Attrs& a) { return diag(in[0], a[0].integer); });
  add_one("diag_embed", "the last axis on a diagonal of two axes, 0 elsewhere",
          "y[..., i, i + offset] = x[..., i]",
          {int_attr("offset", 0, "above (positive) or below the main one"),
           int_attr("dim1", -2, "row axis of the result"),
           int_attr("dim2", -1, "column axis of the result")},
          [](Operands in, const Attrs& a) {
            return diag_embed(in[0], a[0].integer, a[1].integer, a[2].integer);
          });
  add_one("trace", "sum of the diagonal of a matrix", "y = sum_i x[i, i]", {},
          [](Operands in, const Attrs&) { return trace(in[0]); });
}

void register_repeated() {
  add_one("repeat", "copies side by side, per axis", "y[i] = x[i mod n]",
          {ints_attr("repeats", "per axis; more than x has make new ones in front")},
          [](Operands in, const Attrs& a) { return repeat(in[0], a[0].integers); });
  add_one("tile", "copies side by side, per axis from the last", "y[i] = x[i mod n]",
          {ints_attr("dims", "per axis, the missing ones in front are 1")},
          [](Operands in, const Attrs& a) { return tile(in[0], a[0].integers); });
  add_one("repeat_interleave", "each element several times", "y[i] = x[i / repeats]",
          {int_attr("repeats", "times"),
           {"dim", AttrValue::Type::integer, {}, "axis; flattened when left out", true}},
          [](Operands in, const Attrs& a) {
            return a[1].is_none() ? repeat_interleave(in[0], a[0].integer)
                                  : repeat_interleave(in[0], a[0].integer, a[1].integer);
          });
  add_one("broadcast_to", "expanded to a shape", "y[j, i] = x[0 or i]",
          {ints_attr("size", "shape of the result")},
          [](Operands in, const Attrs& a) { return expand(in[0], a[0].integers); });
  add_composition("broadcast_tensors", "rearrange", "all expanded to one shape", "yk[i] = xk[i]",
                  {{"tensors", true}}, {},
                  [](Operands in, const Attrs&) { return broadcast_tensors(list(in)); });
  add_composition("meshgrid", "rearrange", "the coordinates of a grid, one tensor per axis",
                  "yk[i0, i1, ...] = xk[ik]", {{"tensors", true}},
                  {text_attr("indexing", "ij", "ij, or xy: the first two axes exchanged")},
                  [](Operands in, const Attrs& a) { return meshgrid(list(in), a[0].text); });
  add_composition("kron", "rearrange", "Kronecker product",
                  "y[i * m + k, j * n + l] = a[i, j] * b[k, l]", {{"a"}, {"b"}}, {},
                  [](Operands in, const Attrs&) { return kron(in[0], in[1]); });
  add_composition("cross", "rearrange", "cross product of 3-vectors",
                  "y[i] = a[i + 1] * b[i + 2] - a[i + 2] * b[i + 1]", {{"a"}, {"b"}},
                  {int_attr("dim", -1, "axis of size 3")},
                  [](Operands in, const Attrs& a) { return cross(in[0], in[1], a[0].integer); });
}

void register_parts() {
  add_one("narrow", "a stretch of an axis", "y[i] = x[start + i]",
          {int_attr("dim", "axis"), int_attr("start", "negative from the end"),
           int_attr("length", "of the stretch")},
          [](Operands in, const Attrs& a) {
            return narrow(in[0], a[0].integer, a[1].integer, a[2].integer);
          });
  add_one("split", "stretches of an axis, one after the other", "yk = x[start_k : start_k+1]",
          {ints_attr("split_size_or_sections", "one: the size of each; several: their sizes"),
           axis_attr()},
          [](Operands in, const Attrs& a) { return split(in[0], a[0].integers, a[1].integer); });
  add_one("chunk", "an axis in so many parts, the last one may be shorter",
          "yk = x[start_k : start_k+1]", {int_attr("chunks", "how many at most"), axis_attr()},
          [](Operands in, const Attrs& a) { return chunk(in[0], a[0].integer, a[1].integer); });
  add_one("unbind", "the slices of an axis", "yk = x[k]", {axis_attr()},
          [](Operands in, const Attrs& a) { return unbind(in[0], a[0].integer); });
  add_list("hstack", "joined along the columns (vectors: end to end)", "y = [x0, x1, ...]", hstack);
  add_list("vstack", "joined along the rows", "y = [x0; x1; ...]", vstack);
  add_list("dstack", "joined along the third axis", "y[i, j] = [x0[i, j], x1[i, j], ...]", dstack);
  add_list("column_stack", "vectors as columns, joined", "y = [x0, x1, ...]", column_stack);
}

}  // namespace

void register_rearrangements() {
  register_moved();
  register_triangles();
  register_repeated();
  register_parts();
}

Tensor roll(const Tensor& x, const Ints& shifts, const Ints& dims) {
  if (dims.empty()) {
    if (shifts.size() != 1)
      fail(ErrorKind::value, "roll", int64_t(shifts.size()), " shifts, but no dims");
    return reshape(roll(reshape(x, {x.numel()}), shifts, {0}), x.sizes());
  }
  if (shifts.size() != dims.size())
    fail(ErrorKind::value, "roll", int64_t(shifts.size()), " shifts for ", int64_t(dims.size()),
         " dims");
  Tensor y = x;
  for (size_t k = 0; k < dims.size(); ++k) {
    const int64_t d = normal_axis("roll", dims[k], x.rank()), n = x.size(d);
    const int64_t shift = n > 0 ? (shifts[k] % n + n) % n : 0;
    if (shift > 0) y = cat({slice(y, d, n - shift), slice(y, d, 0, n - shift)}, d);
  }
  return y;
}

Tensor rot90(const Tensor& x, int64_t k, const Ints& dims) {
  if (dims.size() != 2)
    fail(ErrorKind::value, "rot90", "two dims make a plane, got ", int64_t(dims.size()));
  const int64_t a = normal_axis("rot90", dims[0], x.rank()),
                b = normal_axis("rot90", dims[1], x.rank());
  if (a == b) fail(ErrorKind::index, "rot90", "both dims are ", a);
  switch ((k % 4 + 4) % 4) {
    case 1:
      return transpose(flip(x, {b}), a, b);
    case 2:
      return flip(x, {a, b});
    case 3:
      return transpose(flip(x, {a}), a, b);
    default:
      return x;
  }
}

Tensor movedim(const Tensor& x, const Ints& source, const Ints& destination) {
  if (source.size() != destination.size())
    fail(ErrorKind::value, "movedim", int64_t(source.size()), " axes to ",
         int64_t(destination.size()), " places");
  if (source.empty()) return x;
  normal_axes("movedim", source, x.rank());
  normal_axes("movedim", destination, x.rank());
  if (x.rank() == 0) return x;  // its axis 0 is nowhere else
  Ints order(x.sizes().size(), -1), rest;
  for (size_t k = 0; k < source.size(); ++k)
    order[size_t(normal_axis("movedim", destination[k], x.rank()))] =
        normal_axis("movedim", source[k], x.rank());
  for (int64_t i = x.rank() - 1; i >= 0; --i)
    if (std::find(order.begin(), order.end(), i) == order.end()) rest.push_back(i);
  for (int64_t& from : order)
    if (from < 0) {
      from = rest.back();
      rest.pop_back();
    }
  return permute(x, order);
}

Tensor flatten(const Tensor& x, int64_t start_dim, int64_t end_dim) {
  const int64_t rank = std::max<int64_t>(1, x.rank());
  const int64_t first = normal_axis("flatten", start_dim, rank),
                last = normal_axis("flatten", end_dim, rank);
  if (first > last)
    fail(ErrorKind::index, "flatten", "start_dim ", first, " comes after end_dim ", last);
  if (x.rank() == 0) return reshape(x, {1});
  Shape sizes;
  for (int64_t i = 0; i < x.rank(); ++i) {
    if (i > first && i <= last)
      sizes.back() *= x.size(i);
    else
      sizes.push_back(x.size(i));
  }
  return reshape(x, sizes);
}

Tensor unflatten(const Tensor& x, int64_t dim, const Ints& sizes) {
  const int64_t d = normal_axis("unflatten", dim, x.rank()), n = x.size(d);
  int64_t known = 1, unknown = 0;
  for (const int64_t s : sizes) {
    if (s == -1)
      ++unknown;
    else
      known *= s;
  }
  const bool fits = unknown == 0 ? known == n : unknown == 1 && known > 0 && n % known == 0;
  if (!fits || sizes.empty())
    fail(ErrorKind::shape, "unflatten", "axis ", d, " has ", n, " elements, which do not fit ",
         Shape(sizes));
  Shape out(x.sizes().begin(), x.sizes().begin() + d);
  for (const int64_t s : sizes) out.push_back(s == -1 ? n / known : s);
  for (int64_t i = d + 1; i < x.rank(); ++i) out.push_back(x.size(i));
  return reshape(x, out);
}

Tensor triangle_mask(int64_t rows, int64_t columns, int64_t diagonal, bool lower, Device& device) {
  constexpr int64_t kFew = 4096;  // made here, and copied: one call instead of four
  if (rows * columns > kFew) {
    const Tensor row = unsqueeze(iota(rows, device), -1), column = iota(columns, device);
    const Tensor from = diagonal == 0 ? column : sub(column, diagonal);
    return lower ? le(from, row) : ge(from, row);
  }
  std::vector<char> mask;
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j)
      mask.push_back(lower ? j - diagonal <= i : j - diagonal >= i);
  return Tensor::from_host(mask.data(), {rows, columns}, DType::bool_, device, true);
}
Tensor tril(const Tensor& x, int64_t diagonal) { return triangle("tril", x, diagonal, true); }
Tensor triu(const Tensor& x, int64_t diagonal) { return triangle("triu", x, diagonal, false); }

Tensor diag(const Tensor& x, int64_t diagonal) {
  if (x.rank() == 1) return diag_embed(x, diagonal);
  if (x.rank() != 2)
    fail(ErrorKind::shape, "diag", "x has shape ", x.sizes(), ", expected one or two axes");
  return gradus::diagonal(x, diagonal);
}

// By the op `embed`: zeros with x at a stride that runs along the diagonal.
Tensor diag_embed(const Tensor& x, int64_t offset, int64_t dim1, int64_t dim2) {
  if (x.rank() == 0) fail(ErrorKind::shape, "diag_embed", "x is 0-d, expected at least one axis");
  const int64_t rank = x.rank() + 1;
  const int64_t a = normal_axis("diag_embed", dim1, rank),
                b = normal_axis("diag_embed", dim2, rank);
  if (a == b) fail(ErrorKind::index, "diag_embed", "both axes are ", a);
  const int64_t m = x.sizes().back() + std::abs(offset);
  Shape sizes = x.sizes();
  sizes.back() = m;
  sizes.push_back(m);
  Shape strides = contiguous_strides(sizes);
  strides.pop_back();
  strides.back() = m + 1;
  const int64_t first = offset >= 0 ? offset : -offset * m;
  const Tensor y = get_op("embed").call(Tensors{x}, {Ints(sizes), Ints(strides), first})[0];
  return movedim(y, {-2, -1}, {a, b});
}

Tensor trace(const Tensor& x) {
  if (x.rank() != 2)
    fail(ErrorKind::shape, "trace", "x has shape ", x.sizes(), ", expected two axes");
  return sum(diagonal(x));
}

Tensor repeat(const Tensor& x, const Ints& repeats) {
  if (repeats.size() < x.sizes().size())
    fail(ErrorKind::shape, "repeat", int64_t(repeats.size()), " repeats for ", x.rank(), " axes");
  for (const int64_t r : repeats)
    if (r < 0) fail(ErrorKind::value, "repeat", "negative number in ", Shape(repeats));
  Shape own = x.sizes(), apart, wide, out;
  while (own.size() < repeats.size()) own.insert(0, 1);
  for (size_t i = 0; i < own.size(); ++i) {
    apart.push_back(1);
    apart.push_back(own[i]);
    wide.push_back(repeats[i]);
    wide.push_back(own[i]);
    out.push_back(repeats[i] * own[i]);
  }
  return clone(reshape(expand(reshape(x, apart), wide), out));  // which may have been a view
}
Tensor tile(const Tensor& x, const Ints& dims) {
  Ints repeats = dims;
  while (int64_t(repeats.size()) < x.rank()) repeats.insert(0, 1);
  return repeat(x, repeats);
}

Tensor repeat_interleave(const Tensor& x, int64_t repeats) {
  return repeat_interleave(reshape(x, {x.numel()}), repeats, 0);
}
Tensor repeat_interleave(const Tensor& x, int64_t repeats, int64_t dim) {
  const int64_t d = normal_axis("repeat_interleave", dim, x.rank());
  if (repeats < 0)
    fail(ErrorKind::value, "repeat_interleave", "repeats is ", repeats, ", expected 0 or more");
  Shape wide = x.sizes(), out = x.sizes();
  wide.insert(size_t(d) + 1, repeats);
  out[size_t(d)] *= repeats;
  return reshape(expand(unsqueeze(x, d + 1), wide), out);
}

Tensors meshgrid(const Tensors& xs, const char* indexing) {
  const std::string_view order = indexing;
  if (order != "ij" && order != "xy")
    fail(ErrorKind::value, "meshgrid", "indexing is \"", indexing, "\"; expected ij or xy");
  const bool swapped = order == "xy" && xs.size() > 1;
  Shape sizes;
  for (const Tensor& x : xs) {
    if (x.rank() > 1)
      fail(ErrorKind::shape, "meshgrid", "tensor ", int64_t(sizes.size()), " has shape ", x.sizes(),
           ", expected at most one axis");
    sizes.push_back(x.numel());
  }
  if (swapped) std::swap(sizes[0], sizes[1]);
  Tensors out;
  for (size_t k = 0; k < xs.size(); ++k) {
    Shape own(sizes.size(), 1);
    own[swapped && k < 2 ? 1 - k : k] = xs[k].numel();
    out.push_back(expand(reshape(xs[k], own), sizes));
  }
  return out;
}

Tensors broadcast_tensors(const Tensors& xs) {
  Shape sizes;
  for (const Tensor& x : xs) sizes = broadcast_shapes("broadcast_tensors", sizes, x.sizes());
  Tensors out;
  for (const Tensor& x : xs) out.push_back(expand(x, sizes));
  return out;
}

Tensor narrow(const Tensor& x, int64_t dim, int64_t start, int64_t length) {
  const int64_t d = normal_axis("narrow", dim, x.rank()), n = x.size(d);
  const int64_t first = start < 0 ? start + n : start;
  if (first < 0 || first > n || length < 0 || length > n - first)
    fail(ErrorKind::index, "narrow", length, " elements from ", start, " of axis ", d,
         " with size ", n);
  return slice(x, d, first, first + length);
}

Tensors split(const Tensor& x, const Ints& sections, int64_t dim) {
  const int64_t d = normal_axis("split", dim, x.rank()), n = x.size(d);
  Ints lengths = sections;
  if (sections.size() == 1) {
    const int64_t size = sections[0];
    if (size < 0 || (size == 0 && n > 0))
      fail(ErrorKind::value, "split", "parts of size ", size, " of axis ", d, " with size ", n);
    lengths = {std::min(size, n)};
    for (int64_t at = size; at < n; at += size) lengths.push_back(std::min(size, n - at));
  }
  Tensors out;
  int64_t at = 0;
  for (const int64_t length : lengths) {
    if (length < 0 || length > n - at) break;
    out.push_back(slice(x, d, at, at + length));
    at += length;
  }
  if (at != n || out.size() != lengths.size())
    fail(ErrorKind::value, "split", "sections ", Shape(sections), " do not add up to axis ", d,
         " with size ", n);
  return out;
}
Tensors chunk(const Tensor& x, int64_t chunks, int64_t dim) {
  const int64_t d = normal_axis("chunk", dim, x.rank()), n = x.size(d);
  if (chunks < 1) fail(ErrorKind::value, "chunk", "chunks is ", chunks, ", expected 1 or more");
  if (n == 0) return split(x, Ints(size_t(chunks), 0), d);
  return split(x, {(n - 1) / chunks + 1}, d);
}
Tensors unbind(const Tensor& x, int64_t dim) {
  const int64_t d = normal_axis("unbind", dim, x.rank());
  Tensors out;
  for (int64_t i = 0; i < x.size(d); ++i) out.push_back(select(x, d, i));
  return out;
}

Tensor hstack(const Tensors& xs) {
  const Tensors parts = all_at_least(xs, 1);
  return cat(parts, !parts.empty() && parts[0].rank() > 1 ? 1 : 0);
}
Tensor vstack(const Tensors& xs) { return cat(all_at_least(xs, 2), 0); }
Tensor dstack(const Tensors& xs) { return cat(all_at_least(xs, 3, 2), 2); }
Tensor column_stack(const Tensors& xs) { return cat(all_at_least(xs, 2, 1), 1); }

Tensor kron(const Tensor& a, const Tensor& b) {
  const int64_t rank = std::max(a.rank(), b.rank());
  const Tensor x = at_least(a, rank), y = at_least(b, rank);
  Shape of_x, of_y, out;
  for (int64_t i = 0; i < rank; ++i) {
    of_x.push_back(x.size(i));
    of_x.push_back(1);
    of_y.push_back(1);
    of_y.push_back(y.size(i));
    out.push_back(x.size(i) * y.size(i));
  }
  return reshape(mul(reshape(x, of_x), reshape(y, of_y)), out);
}

Tensor cross(const Tensor& a, const Tensor& b, int64_t dim) {
  const Shape sizes = broadcast_shapes("cross", a.sizes(), b.sizes());
  const int64_t d = normal_axis("cross", dim, int64_t(sizes.size()));
  if (sizes[size_t(d)] != 3)
    fail(ErrorKind::shape, "cross", "axis ", d, " of ", sizes, " has not 3 elements");
  const Tensor x = expand(a, sizes), y = expand(b, sizes);
  const auto next = [d](const Tensor& t, int64_t by) { return roll(t, {-by}, {d}); };
  return sub(mul(next(x, 1), next(y, 2)), mul(next(x, 2), next(y, 1)));
}

}  // namespace gradus
