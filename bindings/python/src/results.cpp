// What ops with several results give: a tuple whose places have PyTorch's names,
// x.max(dim=1).values.
#include "bindings/python/src/python.hpp"
#include "ops/base/registry.hpp"

#include <deque>

namespace gradus::inline v1::py {

namespace {

struct Named {
  const char* op;
  std::vector<const char*> fields;
};
const std::vector<Named>& named_results() {
  static const std::vector<Named> all = {
      {"max", {"values", "indices"}},
      {"min", {"values", "indices"}},
      {"median", {"values", "indices"}},
      {"sort", {"values", "indices"}},
      {"topk", {"values", "indices"}},
      {"kthvalue", {"values", "indices"}},
      {"cummax", {"values", "indices"}},
      {"cummin", {"values", "indices"}},
      {"aminmax", {"min", "max"}},
      {"eig", {"eigenvalues", "eigenvectors"}},
      {"eigh", {"eigenvalues", "eigenvectors"}},
      {"eigsh", {"eigenvalues", "eigenvectors"}},
      {"svd", {"U", "S", "Vh"}},
      {"qr", {"Q", "R"}},
      {"lu", {"P", "L", "U"}},
      {"lu_factor", {"LU", "pivots"}},
      {"lu_factor_ex", {"LU", "pivots", "info"}},
      {"cholesky_ex", {"L", "info"}},
      {"inv_ex", {"inverse", "info"}},
      {"solve_ex", {"result", "info"}},
      {"slogdet", {"sign", "logabsdet"}},
      {"lstsq", {"solution", "residuals", "rank", "singular_values"}}};
  return all;
}
struct NamedKept {
  std::string name, doc;
  std::vector<PyStructSequence_Field> fields;
};

}  // namespace

PyTypeObject* result_type(const OpInfo& op, nb::dict types) {
  static auto* const kept = new std::deque<NamedKept>;  // the types point into it; with the lock
  for (const Named& n : named_results()) {
    if (op.name != n.op) continue;
    NamedKept& k = kept->emplace_back(NamedKept{"gradus.return_types." + op.name, op.doc, {}});
    for (const char* field : n.fields) k.fields.push_back({field, nullptr});
    k.fields.push_back({nullptr, nullptr});
    PyStructSequence_Desc desc = {k.name.c_str(), k.doc.c_str(), k.fields.data(),
                                  int(n.fields.size())};
    PyTypeObject* const type = PyStructSequence_NewType(&desc);
    if (!type) nb::raise_python_error();
    types[op.name.c_str()] = nb::handle(reinterpret_cast<PyObject*>(type));
    return type;
  }
  return nullptr;
}

PyObject* wrap(PyTypeObject* type, Outputs ys) {
  nb::object all = checked(PyStructSequence_New(type));
  for (size_t i = 0; i < ys.size(); ++i)
    PyStructSequence_SetItem(all.ptr(), Py_ssize_t(i), wrap(std::move(ys[i])));
  return all.release().ptr();
}

}  // namespace gradus::py
