// The extension gradus._gradus. What people import is gradus, whose Python files stand on it.
#include "bindings/python/src/python.hpp"

#include "bindings/cpp/start.hpp"

namespace gradus::inline v1::py {
void open_dtypes(nb::module_& m);
}

NB_MODULE(_gradus, m) {
  using namespace gradus::py;
  gradus::start();
  nb::set_leak_warnings(false);  // modules keep their classes to the end
  m.attr("__version__") = gradus::version();
  open_errors(m);
  open_dtypes(m);
  open_tensor(m);
  open_members(m);
  open_ops(m);
  open_exchange(m);
  open_autograd(m);
  open_functions(m);
  open_transforms(m);
  open_run(m);
  open_train(m);
  open_contract(m);
  open_blocks(m);
  open_audit(m);
  open_program(m);
  open_recorded(m);
}
