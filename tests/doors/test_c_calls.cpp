// Ops by name through the C door: every op of the op list is found, described and called with its
// attributes, and gives the bits of the C++ call.
#include "engine/op_info.hpp"
#include "engine/random.hpp"
#include "ops/check/check.hpp"
#include "tests/helpers/c_door.hpp"

#include <algorithm>
#include <cstring>
#include <deque>

namespace c_door {

namespace {

// The same tensor behind a handle: its elements, row-major.
Own handed(const gradus::Tensor& t) {
  std::string bytes(t.bytes(), 0);
  t.copy_to_host(bytes.data());
  Own h;
  ok(gradus_from_data(bytes.data(), int32_t(t.dtype()), t.sizes().data(), t.sizes().size(),
                      h.out()));
  return h;
}
Bits bits_of(const gradus::Tensor& t) {
  Bits b{int32_t(t.dtype()), {t.sizes().begin(), t.sizes().end()}, std::string(t.bytes(), 0)};
  t.copy_to_host(b.bytes.data());
  return b;
}
gradus_attr attr_of(const std::string& name, const gradus::AttrValue& v) {
  gradus_attr a = attr(name.c_str(), int32_t(v.type), v.integer, v.number);
  a.text = v.text;
  a.integers = v.integers.data();
  a.n_integers = v.integers.size();
  return a;
}

// What the C call of a row's case gives that the C++ call does not; "" if all is the same.
std::string other_than_cpp(const gradus::OpInfo& op, const gradus::rows::Row& row, size_t which,
                           gradus::DType dtype) {
  const gradus::Tensors in =
      gradus::rows::draw_inputs(row, which, dtype, gradus::open_device("cpu"));
  gradus::manual_seed(3);
  const gradus::Tensors wanted = op.call(in, gradus::rows::attrs_of(op, row.cases[which].attrs));
  std::deque<Own> kept;
  std::vector<gradus_tensor> operands;
  for (const gradus::Tensor& t : in) operands.push_back(kept.emplace_back(handed(t)));
  std::vector<gradus_attr> attrs;
  for (const auto& [name, value] : row.cases[which].attrs) attrs.push_back(attr_of(name, value));
  std::reverse(attrs.begin(), attrs.end());  // in any order
  std::vector<gradus_tensor> outputs(wanted.size() + 1);
  size_t n = 0;
  gradus_manual_seed(3);
  if (gradus_call(c_door::op(op.name.c_str()), operands.data(), operands.size(), attrs.data(),
                  attrs.size(), outputs.data(), outputs.size(), &n) != GRADUS_OK)
    return gradus_last_error_text();
  for (size_t k = 0; k < n; ++k) kept.emplace_back(outputs[k]);
  if (n != wanted.size()) return "another number of outputs";
  for (size_t k = 0; k < n; ++k)
    if (!(bits(outputs[k]) == bits_of(wanted[k]))) return gradus::join("output ", k, " differs");
  return "";
}

}  // namespace

TEST_CASE("c calls: every op is listed, found, described, and tells its attributes") {
  const Balance balance;
  size_t n = 0;
  ok(gradus_op_count(&n));
  REQUIRE(n == gradus::all_ops().size());
  for (size_t i = 0; i < n; ++i) {
    const gradus::OpInfo& wanted = gradus::all_ops()[i];
    CAPTURE(wanted.name);
    Own at;
    ok(gradus_op_at(i, at.out()));
    const Own found = op(wanted.name.c_str());
    gradus_op_info info{};
    info.struct_size = sizeof info;
    ok(gradus_op_describe(found, &info));
    CHECK(wanted.name == info.name);
    CHECK(wanted.doc == info.doc);
    CHECK(wanted.formula == info.formula);
    CHECK(wanted.group == info.group);
    CHECK(bool(info.differentiable) == wanted.differentiable);
    CHECK(info.least_operands == int32_t(wanted.least_operands()));
    const bool list = !wanted.operands.empty() && wanted.operands.back().variadic;
    CHECK(info.operands == (list ? -1 : int32_t(wanted.operands.size())));
    REQUIRE(info.attrs == int32_t(wanted.attrs.size()));
    const char* name = info.name;
    ok(gradus_op_describe(at, &info));
    CHECK(info.name == name);
    for (size_t k = 0; k < wanted.attrs.size(); ++k) {
      int32_t type = -1;
      const char* doc = nullptr;
      ok(gradus_op_attr(found, k, &name, &type, &doc));
      CHECK(wanted.attrs[k].name == name);
      CHECK(wanted.attrs[k].doc == doc);
      CHECK(type == int32_t(wanted.attrs[k].type));
      CHECK((type > GRADUS_ATTR_NONE && type <= GRADUS_ATTR_DTYPE));
    }
    ok(info.attrs == 0 ? GRADUS_OK : gradus_op_attr(found, 0, nullptr, nullptr, nullptr));
    refused(gradus_op_attr(found, wanted.attrs.size(), &name, nullptr, nullptr), GRADUS_INDEX,
            gradus::join("gradus_op_attr: index ", wanted.attrs.size(), ", ", wanted.name, " has ",
                         wanted.attrs.size(), " attributes"));
  }
  Own none;
  refused(gradus_op_at(n, none.out()), GRADUS_INDEX,
          gradus::join("gradus_op_at: index ", n, ", there are ", n, " ops"));
  refused(gradus_op_find("sigmoud", none.out()), GRADUS_VALUE,
          "op: there is no op \"sigmoud\"; did you mean \"sigmoid\"?; `gradus ops` lists them all");
}

TEST_CASE("c calls: every op by name gives the bits of the C++ call") {
  const Balance balance;
  size_t compared = 0, ops = 0;
  for (const gradus::OpInfo& op : gradus::all_ops()) {
    if (op.user) continue;
    const gradus::rows::Row& row = gradus::rows::row_of(op.name);
    ++ops;
    for (size_t c = 0; c < row.cases.size(); ++c) {
      const std::vector<gradus::DType> dtypes = gradus::rows::dtypes_of_case(row, c);
      if (dtypes.empty()) continue;
      const std::string wrong = other_than_cpp(op, row, c, dtypes[0]);
      CHECK_MESSAGE(wrong == "", op.name, ", case ", c, ": ", wrong);
      compared += c == 0;
    }
  }
  CHECK(compared == ops);
}

TEST_CASE("c calls: attributes that are wrong are refused in words") {
  const Balance balance;
  const Own x = tensor({3, 1, 2}, {3}), softmax = op("softmax"), sum = op("sum");
  const auto call = [&](gradus_op o, std::vector<gradus_attr> attrs) {
    Own out;
    const gradus_tensor in[1] = {x};
    return gradus_call(o, in, 1, attrs.data(), attrs.size(), out.out(), 1, nullptr);
  };
  ok(call(softmax, {attr("dim", GRADUS_ATTR_INTEGER, 0)}));
  refused(call(softmax, {}), GRADUS_VALUE, "softmax: attribute dim (an integer) must be given");
  refused(call(softmax, {attr("din", GRADUS_ATTR_INTEGER, 0)}), GRADUS_VALUE,
          "softmax: has no attribute \"din\"; did you mean \"dim\"?");
  refused(call(softmax, {attr("dim", GRADUS_ATTR_NUMBER, 0, 1.5)}), GRADUS_VALUE,
          "softmax: attribute dim is an integer, got 1.5");
  refused(call(softmax, {attr("dim", GRADUS_ATTR_NONE)}), GRADUS_VALUE,
          "softmax: attribute dim is an integer, got none");
  refused(call(sum, {attr("keepdim", GRADUS_ATTR_NUMBER, 0, 1.5)}), GRADUS_VALUE,
          "sum: attribute keepdim is true or false, got 1.5");
  refused(call(sum, {attr("dim", GRADUS_ATTR_BOOLEAN)}), GRADUS_VALUE,
          "sum: attribute dim is a list of integers, got false");
  refused(call(op("cast"), {attr("dtype", GRADUS_ATTR_DTYPE, 10)}), GRADUS_DTYPE,
          "gradus_call: dtype 10 is none; expected GRADUS_F32 ... GRADUS_BF16");
  refused(call(op("exp"), {attr("dim", GRADUS_ATTR_INTEGER)}), GRADUS_VALUE,
          "exp: has no attribute \"dim\"; it has none");
  gradus_attr nameless = attr(nullptr, GRADUS_ATTR_INTEGER);
  refused(call(softmax, {nameless}), GRADUS_NULL, "gradus_call: attrs: name is NULL");
  nameless.struct_size = 0;
  refused(call(softmax, {nameless}), GRADUS_VALUE,
          "gradus_call: gradus_attr.struct_size is 0, expected sizeof gradus_attr");
  Own out;
  const gradus_tensor pair[2] = {x, x};
  refused(gradus_call(softmax, pair, 1, nullptr, 1, out.out(), 1, nullptr), GRADUS_NULL,
          "gradus_call: attrs is NULL");
  refused(gradus_call(softmax, pair, 2, nullptr, 0, out.out(), 1, nullptr), GRADUS_VALUE,
          "softmax: takes 1 operands, got 2");
  refused(gradus_call(op("add"), pair, 1, nullptr, 0, out.out(), 1, nullptr), GRADUS_VALUE,
          "add: takes 2 operands, got 1");
}

TEST_CASE("c calls: structs of attributes may be longer than this library knows") {
  struct Longer {
    gradus_attr known;
    int64_t unknown[3];
  };
  const Own x = tensor({1, 2, 3, 4}, {2, 2});
  const int64_t first[1] = {0};
  Longer attrs[2] = {};
  attrs[0].known = attr("keepdim", GRADUS_ATTR_BOOLEAN, 1);
  attrs[1].known = attr("dim", GRADUS_ATTR_INTEGERS);
  attrs[1].known.integers = first;
  attrs[1].known.n_integers = 1;
  for (Longer& a : attrs) a.known.struct_size = sizeof a;
  const gradus_tensor in[1] = {x};
  Own y;
  ok(gradus_call(op("sum"), in, 1, &attrs[0].known, 2, y.out(), 1, nullptr));
  CHECK(shape_of(y) == Shape64{1, 2});
  CHECK(values(y) == Doubles{4, 6});
  attrs[1].known.struct_size = sizeof(gradus_attr);
  refused(gradus_call(op("sum"), in, 1, &attrs[0].known, 2, y.out(), 1, nullptr), GRADUS_VALUE,
          "gradus_call: attrs: all must have the same struct_size, sizeof(gradus_attr)");
}

TEST_CASE("c calls: several outputs, and no room for them") {
  const Balance balance;
  const Own x = tensor({3, 1, 2}, {3}), sort = op("sort");
  const gradus_tensor in[1] = {x};
  gradus_tensor out[2] = {0, 0};
  size_t n = 0;
  refused(gradus_call(sort, in, 1, nullptr, 0, out, 1, &n), GRADUS_VALUE,
          "gradus_call: room for 1 outputs, sort gives 2");
  CHECK(n == 2);
  CHECK(out[0] == 0);
  ok(gradus_call(sort, in, 1, nullptr, 0, out, 2, nullptr));
  const Own sorted(out[0]), places(out[1]);
  CHECK(values(sorted) == Doubles{1, 2, 3});
  CHECK(values(places) == Doubles{1, 2, 0});
}

TEST_CASE("c calls: operands that are optional are left out as 0") {
  const Balance balance;
  const Own x = tensor({1, 2}, {1, 2}), w = tensor({1, 0, 0, 1, 1, 1}, {3, 2}),
            b = tensor({10, 20, 30}, {3}), linear = op("linear");
  gradus_tensor in[3] = {x, w, b};
  Own y;
  ok(gradus_call(linear, in, 3, nullptr, 0, y.out(), 1, nullptr));
  CHECK(values(y) == Doubles{11, 22, 33});
  in[2] = 0;
  ok(gradus_call(linear, in, 3, nullptr, 0, y.out(), 1, nullptr));
  CHECK(values(y) == Doubles{1, 2, 3});
  ok(gradus_call(linear, in, 2, nullptr, 0, y.out(), 1, nullptr));
  CHECK(values(y) == Doubles{1, 2, 3});
  in[1] = 0;
  refused(gradus_call(linear, in, 2, nullptr, 0, y.out(), 1, nullptr), GRADUS_HANDLE,
          "gradus_call: operands[1]: expected the handle of a tensor, got 0");
}

TEST_CASE("c calls: in place, the first operand takes the result") {
  const Balance balance;
  const Own x = tensor({-3, 0.5, 4}, {3}), one = tensor({1}, {});
  gradus_tensor in[2] = {x, one};
  ok(gradus_call_in_place(op("add"), in, 2, nullptr, 0));
  CHECK(values(x) == Doubles{-2, 1.5, 5});
  const std::vector<gradus_attr> range{attr("max", GRADUS_ATTR_NUMBER, 0, 4),
                                       attr("min", GRADUS_ATTR_INTEGER, -1)};
  ok(gradus_call_in_place(op("clamp"), in, 1, range.data(), 2));
  CHECK(values(x) == Doubles{-1, 1.5, 4});
  refused_with(gradus_call_in_place(op("sum"), in, 1, nullptr, 0), GRADUS_SHAPE, "the result has");
  refused_with(gradus_call_in_place(op("sort"), in, 1, nullptr, 0), GRADUS_VALUE, "an op of ");
  const Own w = leaf({1, 2}, {2});
  in[0] = w;
  CHECK(gradus_call_in_place(op("exp"), in, 1, nullptr, 0) == GRADUS_AUTOGRAD);
  CHECK(values(w) == Doubles{1, 2});
  // Recorded: the gradient goes through the write.
  Own y, grad;
  ok(gradus_mul(w, tensor({3}, {}), y.out()));
  in[0] = y;
  ok(gradus_call_in_place(op("square"), in, 1, nullptr, 0));
  const gradus_tensor root[1] = {y}, seed[1] = {one}, seeds[1] = {tensor({1, 1}, {2})};
  refused_with(gradus_backward(root, seed, 1, 0), GRADUS_AUTOGRAD, "the seed has shape ()");
  refused_with(gradus_backward(root, seeds, 1, 0), GRADUS_HANDLE, "one that was freed");
  const Own ones = tensor({1, 1}, {2});
  const gradus_tensor good[1] = {ones};
  ok(gradus_backward(root, good, 1, 0));
  ok(gradus_grad(w, grad.out()));
  CHECK(values(grad) == Doubles{18, 36});
}

}  // namespace c_door
