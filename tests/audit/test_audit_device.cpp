// The audit of a graph against another device, one of whose kernels is wrong.
#include "ops/audit/judge/audit.hpp"
#include "tests/helpers/helpers.hpp"

using namespace gradus;
using namespace gradus::audit;
using gradus::testing::f32;
using gradus::testing::leaf;

TEST_CASE("audit: against a device with one wrong kernel") {
  struct Wrong : KernelWrapper {
    gd_status call(const gd_call& call, Next next, gd_error& error) override {
      const gd_status s = next(error);
      const std::string op = current_op();
      const auto* out = call.out;
      if (s == GD_OK && op == "exp" && call.n_out > 0 && out[0].dtype == GD_F32)
        static_cast<float*>(out[0].data)[out[0].offset] *= 1.001f;
      return s;
    }
  };
  Options o;
  o.against = &open_device("reference");
  const Watch watch;
  const Tensor x = leaf(f32({0.5, -1, 2, 3}, {2, 2}));
  const Tensor loss = sum(tanh(matmul(exp(sin(x)), x)));
  CHECK(audit::audit(watch, {loss}, o).bad == 0);
  Wrong wrong;
  const WrapperScope scope(*o.against, wrong);
  const Report report = audit::audit(watch, {loss}, o);
  CHECK(report.bad == 1);
  CHECK(report.lines[0].verdict == Verdict::device);
  CHECK(report.lines[0].call->op->name == "exp");
  CHECK(report.lines[0].text.starts_with("output element (0, 0): on reference "));
}
