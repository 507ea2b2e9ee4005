// Solver libraries of the GPU modules: hipSOLVER's names and numbers, libraries that are not there,
// lack something or fail, captured steps, and the op table's rows of linalg by one.
#include "engine/capture/capture.hpp"
#include "kernels/gpu/libraries/solver_library.hpp"
#include "ops/check/check.hpp"
#include "ops/ops.hpp"
#include "tests/gpu/linalg_calls.hpp"
#include "tests/helpers/emulated_devices.hpp"

#include <list>
#include <set>

using namespace gpu_linalg_test;
using library_test::open;

namespace {

// A library is never closed, and keeps what it has made.
const gpu::SolverLibrary& kept(const gpu::LibrarySearch& search) {
  static auto* const all = new std::list<gpu::SolverLibrary>;
  return all->emplace_back(search);
}

// What a call of an op says on a device, "" if it works. Of matrices that are not small, which need
// a library.
std::string said(gd_device* device, int op, gd_status* status = nullptr, int64_t n = 33) {
  Array<double> a({n, n}), x({n, n}), w({n});
  Array<c128> z({n}), zv({n, n});
  Array<int64_t> info({});
  for (int64_t i = 0; i < n; ++i) a.at({i, i}) = double(i + 1);
  const std::vector<gd_view> in = op == GD_SOLVE || op == GD_SOLVE_TRIANGULAR
                                      ? std::vector<gd_view>{a.view(), a.view()}
                                      : std::vector<gd_view>{a.view()};
  const std::vector<gd_view> out =
      op == GD_EIG                ? std::vector<gd_view>{z.view(), zv.view(), info.view()}
      : op == GD_EIGH             ? std::vector<gd_view>{w.view(), x.view(), info.view()}
      : op == GD_QR               ? std::vector<gd_view>{x.view(), kAbsent}
      : op == GD_SOLVE_TRIANGULAR ? std::vector<gd_view>{x.view()}
                                  : std::vector<gd_view>{x.view(), info.view()};
  gd_error e{};
  const gd_status s = try_call(emulator(), device, GD_LINALG, op, in, out, {}, {1, 0, 0}, e);
  if (status) *status = s;
  return s == GD_OK ? "" : e.text;
}

const std::string kHint = "move A with .to(\"cpu\"), or name another as libraries.solver; ";

}  // namespace

TEST_CASE("gpu solver library: hipSOLVER has other names and numbers") {
  const Library& hip = fake_library("hipsolver");
  const std::vector<gd_device*> devices = {open(solver(hip.path))};
  for_dtypes([&](auto t) {
    using T = decltype(t);
    const BatchShape s{{2}, 35, 35, kPermuted};
    const auto a = matrices<T>(s), positive = matrices<T>(s, true), b = matrices<T>({{2}, 35, 3});
    const auto tall = matrices<T>({{2}, 50, 4});
    const Index i{2}, v{2, 35}, m{2, 35, 35};
    const auto call = [&](int op, const std::vector<gd_view>& in, const char* kinds,
                          const std::vector<Index>& sizes, const Index& ints = {}) {
      agree<T>(devices, &hip, op, in, kinds, sizes, ints, 8);
    };
    call(GD_CHOLESKY, {positive.view()}, "ti", {m, i});
    call(GD_LU, {a.view()}, "tii", {m, v, i});
    for (int64_t turned : {0, 1, 2})
      call(GD_SOLVE, {a.view(), b.view()}, "ti", {{2, 35, 3}, i}, {turned});
    if (sizeof(real_of<T>) == 8) call(GD_DET, {a.view()}, "ttr", {i, i, i});
    call(GD_QR, {tall.view()}, "tt", {{2, 50, 4}, {2, 4, 4}}, {0});
    for (const char* kinds : {"rti", "r-i"}) call(GD_EIGH, {a.view()}, kinds, {v, m, i});
    for (const char* kinds : {"trti", "-r-i"})
      call(GD_SVD, {tall.view()}, kinds, {{2, 50, 4}, {2, 4}, {2, 4, 4}, i});
    for (const char* kinds : {"cci", "c-i"}) call(GD_EIG, {a.view()}, kinds, {v, m, i});
  });
  CHECK(hip.state->runs > 0);
}

TEST_CASE("gpu solver library: one without an eigenvalue function lacks that op alone") {
  gd_device* const device = open(solver(fake_library("cusolver_11").path));
  CHECK(said(device, GD_CHOLESKY) == "");
  CHECK(said(device, GD_EIGH) == "");
  gd_status status = GD_OK;
  CHECK(said(device, GD_EIG, &status) ==
        "emu linalg eig: " + kHint +
            "this cuSOLVER has no cusolverDnXgeev; that of CUDA 12.6 Update 2 has");
  CHECK(status == GD_NO_DRIVER);
}

TEST_CASE("gpu solver library: without one the op, the reason and the remedy are named") {
  gd_status status = GD_OK;
  CHECK(said(open("{}"), GD_EIGH, &status) ==
        "emu linalg eigh: " + kHint +
            "cuSOLVER or hipSOLVER: the emulator opens one by its path only");
  CHECK(status == GD_NO_DRIVER);
  CHECK(said(open("{}"), GD_SOLVE_TRIANGULAR) == "");
  CHECK(said(open(solver("off")), GD_CHOLESKY) ==
        "emu linalg cholesky: " + kHint + "cuSOLVER or hipSOLVER: it is off in the device config");
  CHECK(said(open(solver("/no/solver.so")), GD_QR) ==
        "emu linalg qr: " + kHint + "cuSOLVER or hipSOLVER: can't be opened; tried /no/solver.so");
  const std::string other = library_test::cutensor().path;
  const gpu::SolverLibrary& lacking = kept(library_test::only(other));
  CHECK(lacking.why() == "cuSOLVER or hipSOLVER (" + other + "): it has no cusolverDnCreate");

  const Library& library = fake_library("cusolver");
  library.state->fail_create = 1;
  const gpu::SolverLibrary& broken = kept(library_test::only(library.path));
  library.state->fail_create = 0;
  CHECK(broken.why() == "cuSOLVER or hipSOLVER (" + library.path +
                            "): cusolverDnCreate failed: NOT_INITIALIZED (1)");
  CHECK(broken.status_text(77) == "status (77)");
  const gpu::SolverLibrary& whole = kept(library_test::only(library.path));
  CHECK(whole.why() == "");
  CHECK(whole.text().starts_with("cuSOLVER or hipSOLVER 12345, "));
  const gpu::SolverLibrary& hip = kept(library_test::only(fake_library("hipsolver").path));
  CHECK(hip.status_text(6) == "INTERNAL_ERROR (6)");
  CHECK(whole.status_text(6) == "EXECUTION_FAILED (6)");

  // Named by its path, it is missed when the device is opened; and listed.
  gd_error e{};
  static gd_device* device = nullptr;  // kept
  REQUIRE(emulator().open(0, solver("/no/solver.so").c_str(), &device, &e) == GD_OK);
  CHECK(std::string(e.text) ==
        "libraries.solver: cuSOLVER or hipSOLVER: can't be opened; tried /no/solver.so");
  char text[2048];
  REQUIRE(emulator().libraries(device, text, sizeof text, &e) == GD_OK);
  CHECK(has(text, "\ncuSOLVER or hipSOLVER: can't be opened; tried /no/solver.so\n"));
}

TEST_CASE("gpu solver library: what it fails with is one error; what it wants it gets") {
  FakeState& state = *fake_library("cusolver").state;
  gd_device* const device = open(solver(fake_library("cusolver").path));
  gd_status status = GD_OK;
  state.fail_run = 6;
  CHECK(said(device, GD_EIGH, &status) ==
        "emu linalg eigh: cusolverDnDsyevd failed: EXECUTION_FAILED (6)");
  CHECK(status == GD_INTERNAL);
  CHECK(said(device, GD_EIG) == "emu linalg eig: cusolverDnXgeev failed: EXECUTION_FAILED (6)");
  state.fail_run = 0;
  state.fail_plan = 9;
  CHECK(said(device, GD_SOLVE) ==
        "emu linalg solve: cusolverDnDgetrf_bufferSize failed: NOT_SUPPORTED (9)");
  state.fail_plan = 0;
  state.workspace_wanted = 100000;
  for (int op : {GD_CHOLESKY, GD_SOLVE, GD_QR, GD_EIGH, GD_EIG}) CHECK(said(device, op) == "");
  state.workspace_wanted = 0;
  CHECK(std::string(state.first_wrong) == "");
}

TEST_CASE("gpu solver library: a matrix that gesvdj gives up is gesvd's") {
  const Library& library = fake_library("cusolver");
  [[maybe_unused]] static const auto* const devices =  // they live for ever
      new std::vector<gd_device*>(open_emulators(solver(library.path).c_str()));
  for_dtypes([&](auto t) {
    using T = decltype(t);
    for (auto [m, n] : {std::pair<int64_t, int64_t>{40, 35}, {35, 40}})
      for (const char* kinds : {"trti", "-r-i"})
        for (gd_device* device : *devices) {
          const auto a = matrices<T>({{3}, m, n});
          library.state->unfinished = 2;
          agree<T>({device}, &library, GD_SVD, {a.view()}, kinds,
                   {{3, m, 35}, {3, 35}, {3, 35, n}, {3}}, {}, 8);
          CHECK(library.state->unfinished == 0);
        }
  });
}

TEST_CASE("gpu solver library: not in a captured graph, but in a captured step") {
  const std::string options = solver(fake_library("cusolver").path);
  gd_device* const raw = open(options);
  gd_error e{};
  void* graph = nullptr;
  gd_status status = GD_OK;
  REQUIRE(emulator().capture_begin(raw, nullptr, &e) == GD_OK);
  CHECK(said(raw, GD_CHOLESKY, &status) ==
        "emu linalg cholesky: a solver library is not called while a graph is captured");
  CHECK(status == GD_CAPTURE);
  REQUIRE(emulator().capture_end(raw, nullptr, &graph, &e) == GD_OK);
  emulator().graph_del(raw, graph);

  gradus::Device& device = kept_device(emulator(), open(options), "emu-solver-captured");
  const DeviceScope scope(device);
  for (int64_t n : {4, 40}) {  // by kernels of our own, and by the library
    const Tensor a = add(mul(eye(n, n, DType::f64), 3.0), 0.25);
    Captured step = capture(device, [&] { return Tensors{det(mul(a, 2.0))}; });
    REQUIRE_MESSAGE(step, step.why_not());
    const std::vector<double> want = det(mul(a, 2.0)).to_vector<double>();
    for (int round = 0; round < 3; ++round) CHECK(step.replay()[0].to_vector<double>() == want);
  }
}

TEST_CASE("gpu solver library: NVIDIA's own has all that is called") {
  gpu::LibrarySearch s;
  s.names = {"libcusolver.so.12", "libcusolver.so.11"};
  s.folders = {"/usr/local/cuda/lib64"};
  s.variable = "GRADUS_TEST_LIBRARY";
  const gpu::SolverLibrary& library = kept(s);
  if (has(library.why(), "can't be opened")) {
    MESSAGE("skipped: no cuSOLVER here");
    return;
  }
  // Without a driver it refuses a handle, which is asked for after all functions are there.
  CHECK((library.why() == "" || has(library.why(), "cusolverDnCreate failed: ")));
  if (has(library.why(), ".so.12")) CHECK(library.lacks(gpu::SolverStep::kGeev) == "");
}

TEST_CASE("op table: linalg on the emulator; a library is needed by general eigenvalues alone") {
  gradus::Device& reference = open_device("reference");
  gradus::Device& with_library =
      kept_device(emulator(), open(solver(fake_library("cusolver").path)), "emu-solver");
  gradus::Device& without = kept_device(emulator(), open("{}"), "emu-no-solver");
  const rows::Effort effort = test::small_sizes() ? rows::Effort::values : rows::Effort::full;
  for (const rows::Row& row : rows::all_rows()) {
    if (row.slot != GD_LINALG) continue;
    CAPTURE(row.name);
    const rows::CheckResult result = rows::check_op(row.name, with_library, &reference, effort);
    CHECK(result.skipped == "");
    for (const rows::ModeResult& m : result.modes)
      CHECK_MESSAGE(m.worst.ok(), m.mode, ": ", m.worst.where, " (error ", m.worst.error, " of ",
                    m.worst.tolerance, ")");
    const std::string why = rows::check_op(row.name, without, &reference, effort).skipped;
    const bool general =
        std::set<std::string_view>{"eig", "eigvals", "matrix_function", "sqrtm", "logm"}.contains(
            row.name);
    CHECK_MESSAGE((general ? has(why, kHint.c_str()) : why == ""), why);
  }
  CHECK(std::string(fake_library("cusolver").state->first_wrong) == "");
}
