// The device's solver library, opened when it is first needed.
#include "kernels/gpu/linalg/linalg.hpp"

namespace gradus::inline v1::gpu {
namespace {

LibrarySearch solver_search(const gd_device& device) {
  LibrarySearch s;
  s.setting = device.options.solver_library;
  s.variable = "GRADUS_SOLVER_LIBRARY";
#if defined(GRADUS_EMULATE)
  s.none = "the emulator opens one by its path only";
#elif defined(__HIP_PLATFORM_AMD__)
  s.names = {"libhipsolver.so", "libhipsolver.so.1", "libhipsolver.so.0"};
  s.folders = {"/opt/rocm/lib"};
#else
  s.names = {"libcusolver.so.12", "libcusolver.so.11"};
  s.folders = {"/usr/local/cuda/lib64"};
  s.wheels = {"nvidia/cu13/lib", "nvidia/cusolver/lib"};
#endif
  return s;
}

}  // namespace

SolverLibrary& solver_library(gd_device& d) {
  if (!d.solver_library) d.solver_library = new SolverLibrary(solver_search(d));
  return *d.solver_library;
}

const SolverLibrary& solver_for(const Run& run, SolverStep::Function wanted) {
  const Call& call = run.call;
  // They wait for their stream, and choose memory and algorithms anew.
  if (run.device.capturing)
    call.refuse(GD_CAPTURE, "a solver library is not called while a graph is captured");
  const SolverLibrary& solver = solver_library(run.device);
  const char* const hint = "move A with .to(\"cpu\"), or name another as libraries.solver";
  if (!solver.why().empty()) call.refuse(GD_NO_DRIVER, "%s; %s", hint, solver.why().c_str());
  if (const std::string lack = solver.lacks(wanted); !lack.empty())
    call.refuse(GD_NO_DRIVER, "%s; %s", hint, lack.c_str());
  return solver;
}

void solve_step(const Run& run, const SolverLibrary& solver, const SolverStep& step) {
  const auto status = std::make_shared<int>(0);
  on_stream(run.stream,
            [status, &solver, step, stream = run.stream] { *status = solver.run(step, stream); });
  if (*status == 0) return;
  check(&run.device, GPU(GetLastError)(), "a solver library");
  run.call.refuse(GD_INTERNAL, "%s failed: %s", solver.name(step).c_str(),
                  solver.status_text(*status).c_str());
}

}  // namespace gradus::gpu
