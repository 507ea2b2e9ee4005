// Contractions by a vendor's library: is it one for the library, and then the call.
#include "kernels/gpu/contract/contract.hpp"
#include "kernels/gpu/libraries/gemm_library.hpp"
#include "kernels/gpu/libraries/solver_library.hpp"
#include "kernels/gpu/libraries/tensor_library.hpp"

#include <cstdlib>
#include <memory>

namespace gradus::inline v1::gpu {
namespace {

bool by_matrices(int32_t way) { return way == GD_WAY_GEMM_LIBRARY; }

bool has_axis(const Contraction& c, int group) { return c.first[group] < c.first[group + 1]; }
// Of a group of one axis; `none` if it has none.
int64_t stride_of(const Contraction& c, int group, Part part, int64_t none) {
  return has_axis(c, group) ? c.axes[c.first[group]].strides[part] : none;
}

// The parts that have the axes of a group.
bool has_group(Part part, int group) {
  switch (part) {
    case kA:
      return group != kColumns;
    case kB:
      return group != kRows;
    default:
      return group != kSummed;
  }
}

// What neither library takes.
const char* in_common(const Contraction& c, const Scales& s) {
  if (c.dtype != GD_F32 && c.dtype != GD_F64 && c.dtype != GD_F16 && c.dtype != GD_BF16 &&
      c.dtype != GD_C64 && c.dtype != GD_C128)
    return "the dtype is no floating-point or complex one";
  if (s.alpha == c128{}) return "alpha is 0, by which NaN may be lost";
  for (int g = 0; g < kGroups; ++g)
    for (int d = c.first[g]; d < c.first[g + 1]; ++d)
      for (Part part : {kA, kB, kOut})
        if (has_group(part, g) && c.axes[d].strides[part] <= 0)
          return "an operand is repeated or runs backwards along an axis";
  for (Part part : {kA, kB, kOut, kBias})
    if (reinterpret_cast<uintptr_t>(c.data[part]) % 16 != 0)
      return "a view does not begin at a multiple of 16 bytes";
  return "";
}

// A part as a matrix with the axes of `down` in its columns.
bool as_matrix(const Contraction& c, Part part, int down, int across, MatrixProduct::Matrix& into) {
  into.data = c.data[part];
  into.rows = c.extent[down];
  into.columns = c.extent[across];
  into.leading = stride_of(c, across, part, into.rows);
  into.batch_stride = stride_of(c, kBatch, part, 0);
  return stride_of(c, down, part, 1) == 1 && into.leading >= into.rows;
}

// "" if it is a product of matrices, else why not.
const char* as_product(const Contraction& c, const Scales& s, MatrixProduct& p) {
  for (int g = 0; g < kGroups; ++g)
    if (c.first[g + 1] - c.first[g] > 1) return "it is no product of matrices";
  // Out's rows, for the library, are the group along which it lies without gaps.
  const bool turned = !as_matrix(c, kOut, kRows, kColumns, p.out);
  const int down = turned ? kColumns : kRows, across = turned ? kRows : kColumns;
  if (!as_matrix(c, kOut, down, across, p.out)) return "out has gaps along its rows and columns";
  const Part left = turned ? kB : kA, right = turned ? kA : kB;
  const bool complex = is_complex(DType(c.dtype));
  const bool conj_left = complex && (turned ? s.conj_b : s.conj_a);
  const bool conj_right = complex && (turned ? s.conj_a : s.conj_b);
  // Only what is transposed can be conjugated.
  const auto set = [&](MatrixProduct::Matrix& m, Part part, int rows, int columns, bool conj) {
    m.conjugated = conj;
    if (!conj && as_matrix(c, part, rows, columns, m)) return true;
    m.transposed = true;
    return as_matrix(c, part, columns, rows, m);
  };
  if (!set(p.a, left, down, kSummed, conj_left) || !set(p.b, right, kSummed, across, conj_right))
    return complex && (conj_left || conj_right)
               ? "an operand has gaps, or is conjugated but not transposed"
               : "an operand has gaps along its rows and columns, or overlaps itself";
  if (c.data[kBias] && (stride_of(c, down, kBias, 1) != 1 || stride_of(c, across, kBias, 0) != 0 ||
                        stride_of(c, kBatch, kBias, 0) != 0))
    return "bias is no vector along the axis on which out lies without gaps";
  p.bias = c.data[kBias];
  p.summed = c.extent[kSummed];
  p.batch = c.extent[kBatch];
  if (p.batch > kMostElements) return "the batch is too long";
  return "";
}

const char* as_contraction(const Contraction& c, const Scales& s, TensorContraction& t) {
  if (c.data[kBias]) return "it has a bias";
  if (c.first[kGroups] == 0) return "it has no axes";
  for (int d = 0; d < c.first[kGroups]; ++d) t.extents.push_back(c.axes[d].size);
  const auto set = [&](TensorContraction::Operand& x, Part part, bool conj) {
    x.data = c.data[part];
    x.conjugated = conj && is_complex(DType(c.dtype));
    for (int g = 0; g < kGroups; ++g)
      for (int d = c.first[g]; has_group(part, g) && d < c.first[g + 1]; ++d) {
        x.axes.push_back(d);
        x.strides.push_back(c.axes[d].strides[part]);
      }
  };
  set(t.a, kA, s.conj_a);
  set(t.b, kB, s.conj_b);
  set(t.out, kOut, false);
  return t.a.axes.empty() || t.b.axes.empty() ? "an operand is one number" : "";
}

template <class Problem>
void set_numbers(const Run& run, const Contraction& c, const Scales& s, Problem& p) {
  p.dtype = c.dtype;
  p.tf32 = run.device.options.tf32;
  p.alpha[0] = s.alpha.re, p.alpha[1] = s.alpha.im;
  p.beta[0] = s.beta.re, p.beta[1] = s.beta.im;
}

LibrarySearch gemm_search(const gd_device& device) {
  LibrarySearch s;
  s.setting = device.options.gemm_library;
  s.variable = "GRADUS_GEMM_LIBRARY";
#if defined(GRADUS_EMULATE)
  s.none = "the emulator opens one by its path only";
#elif defined(__HIP_PLATFORM_AMD__)
  s.none = "it is for NVIDIA's GPUs";
#else
  s.names = {"libcublasLt.so.13", "libcublasLt.so.12"};
  s.folders = {"/usr/local/cuda/lib64"};
  s.wheels = {"nvidia/cu13/lib", "nvidia/cublas/lib"};
#endif
  return s;
}
LibrarySearch tensor_search(const gd_device& device) {
  LibrarySearch s;
  s.setting = device.options.tensor_library;
  s.variable = "GRADUS_TENSOR_LIBRARY";
#if defined(GRADUS_EMULATE)
  s.none = "the emulator opens one by its path only";
#elif defined(__HIP_PLATFORM_AMD__)
  s.names = {"libhiptensor.so", "libhiptensor.so.0"};
  s.folders = {"/opt/rocm/lib"};
#else
  s.names = {"libcutensor.so.2"};
  s.folders = {"/usr/local/cuda/lib64"};
  s.wheels = {"cutensor/lib"};
#endif
  return s;
}

// A product's workspace, as NVIDIA advises: 32 MiB from sm_90 on, 4 MiB before.
size_t gemm_workspace(const char* arch) {
  const bool large = strncmp(arch, "sm_", 3) == 0 && std::atoi(arch + 3) >= 90;
  return size_t(large ? 32 : 4) << 20;
}

// The device's own, opened now if it was not.
GemmLibrary& gemm_library(gd_device& d) {
  if (!d.gemm_library) d.gemm_library = new GemmLibrary(gemm_search(d), gemm_workspace(d.arch));
  return *d.gemm_library;
}
TensorLibrary& tensor_library(gd_device& d) {
  if (!d.tensor_library) d.tensor_library = new TensorLibrary(tensor_search(d));
  return *d.tensor_library;
}
void may_open(const Run& run, const void* library) {
  if (!library && run.device.capturing)
    run.call.refuse(GD_CAPTURE, "a library would be opened while a graph is captured");
}
GemmLibrary& gemm_library(const Run& run) {
  may_open(run, run.device.gemm_library);
  return gemm_library(run.device);
}
TensorLibrary& tensor_library(const Run& run) {
  may_open(run, run.device.tensor_library);
  return tensor_library(run.device);
}

template <class L, class Problem>
typename L::Plan& plan_of(const Run& run, L& library, const Problem& p) {
  typename L::Plan* const plan = library.plan(p, !run.device.capturing);
  if (!plan)
    run.call.refuse(GD_CAPTURE, "a library's plan would be made while a graph is captured");
  return *plan;
}

template <class L, class Problem>
std::string refuses(const Run& run, L& library, const Problem& p) {
  return library.why().empty() ? plan_of(run, library, p).why : library.why();
}

template <class L, class Problem>
bool contract_by(const Run& run, L& library, const Problem& p, Run::Scratch& scratch) {
  typename L::Plan& plan = plan_of(run, library, p);
  plan.in_graph = plan.in_graph || run.device.capturing;
  void* const workspace = plan.workspace ? scratch.take<char>(int64_t(plan.workspace)) : nullptr;
  const auto status = std::make_shared<int>(0);
  on_stream(run.stream, [status, &library, &plan, p, workspace, stream = run.stream] {
    *status = library.run(plan, p, workspace, stream);
  });
  if (*status == 0) return true;
  if (!did_nothing(*status)) {
    check(&run.device, GPU(GetLastError)(), "a vendor's library");
    refuse(GD_INTERNAL, *status, "%s contract: a vendor's library failed: %s", run.device.name,
           status_text(*status).c_str());
  }
  plan.why = "the library refused it: " + status_text(*status);
  return false;
}

}  // namespace

std::string named_libraries_lack(gd_device& d) {
  const auto named = [](const std::string& setting) {
    return setting != "auto" && setting != "off";
  };
  std::string lack;
  if (named(d.options.gemm_library) && !gemm_library(d).why().empty())
    lack = "libraries.gemm: " + gemm_library(d).why();
  if (named(d.options.tensor_library) && !tensor_library(d).why().empty())
    lack += (lack.empty() ? "" : "; ") + ("libraries.tensor: " + tensor_library(d).why());
  if (named(d.options.solver_library) && !solver_library(d).why().empty())
    lack += (lack.empty() ? "" : "; ") + ("libraries.solver: " + solver_library(d).why());
  return lack;
}

std::string libraries_text(gd_device& d) {
  return gemm_library(d).text() + "\n" + tensor_library(d).text() + "\n" +
         solver_library(d).text() + "\n";
}

namespace {

// f(library, problem) of the library that c's way names; "why" if it is no problem for that one.
template <class F>
std::string with_problem(const Run& run, const Contraction& c, const Scales& s, int32_t way,
                         F&& f) {
  if (by_matrices(way)) {
    MatrixProduct p;
    set_numbers(run, c, s, p);
    const char* const why = as_product(c, s, p);
    return *why ? why : f(gemm_library(run), p);
  }
  TensorContraction t;
  set_numbers(run, c, s, t);
  const char* const why = as_contraction(c, s, t);
  return *why ? why : f(tensor_library(run), t);
}

}  // namespace

std::string library_refuses(const Run& run, const Contraction& c, const Scales& s, int32_t way) {
  const char* const why = in_common(c, s);
  if (*why) return why;
  return with_problem(run, c, s, way, [&](auto& library, const auto& problem) {
    return refuses(run, library, problem);
  });
}

size_t library_workspace(const Run& run, const Contraction& c, const Scales& s) {
  size_t bytes = 0;
  with_problem(run, c, s, c.way, [&](auto& library, const auto& problem) {
    bytes = plan_of(run, library, problem).workspace;
    return std::string();
  });
  return bytes;
}

bool contract_by_library(const Run& run, const Contraction& c, const Scales& s,
                         Run::Scratch& scratch) {
  bool done = false;
  with_problem(run, c, s, c.way, [&](auto& library, const auto& problem) {
    done = contract_by(run, library, problem, scratch);
    return std::string();
  });
  return done;
}

}  // namespace gradus::gpu
