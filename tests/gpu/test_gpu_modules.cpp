// The GPU modules on a machine without a GPU: they are built, they load, and they say in words what
// is missing. What a driver would say is said by drivers that pretend (tests/fixtures/drivers).
#include "engine/device/device.hpp"
#include "engine/config/loader.hpp"
#include "kernels/gpu/archs.hpp"
#include "kernels/gpu/errors.hpp"
#include "tests/helpers/emulated_devices.hpp"
#include "tests/helpers/helpers.hpp"
#include "tests/helpers/program_helpers.hpp"

#include <doctest/doctest.h>

#include <filesystem>

using namespace gradus;
using gradus::test::run;
using Run = gradus::test::ProgramRun;
using gradus::test::TempFolder;

namespace {

const std::string kLib = GRADUS_LIB_DIR "/";
const std::string kDrivers = GRADUS_LIB_DIR "/../drivers/";

bool built(const char* kind) {
  const bool there = std::filesystem::exists(kLib + module_file(kind));
  if (!there) MESSAGE("skipped: " << module_file(kind) << " was not built");
  return there;
}

// What `gradus devices` says of a kind, with libraries of this folder before all others.
std::string said_of(const std::string& kind, const std::string& libraries) {
  const TempFolder folder;
  const Run r = run(folder, "devices", "LD_LIBRARY_PATH='" + libraries + "'");
  CHECK(r.code == 0);
  const size_t at = r.out.find("\n" + kind + " ");
  return at == std::string::npos ? "" : r.out.substr(at + 1, r.out.find('\n', at + 1) - at - 1);
}

// Is there a driver on this machine? Then what is said without one can't be tested.
bool has_gpu(const std::string& kind) {
  return said_of(kind, "").find(" missing: ") == std::string::npos;
}

}  // namespace

TEST_CASE("gpu modules: no driver, the toolkit's stub and a driver that is too old") {
  if (!built("cuda") || has_gpu("cuda")) return;
  CHECK(said_of("cuda", "") == "cuda        missing: no NVIDIA driver (libcuda.so.1 not found)");
  CHECK(said_of("cuda", kDrivers + "old") ==
        "cuda        missing: driver supports CUDA 12.4, the module needs 13.0; update it");
  const std::string stub = "/usr/local/cuda/lib64/stubs/libcuda.so";
  if (!std::filesystem::exists(stub)) return;
  const TempFolder folder;
  std::filesystem::create_symlink(stub, folder / "libcuda.so.1");
  CHECK(said_of("cuda", folder.path()) ==
        "cuda        missing: the libcuda.so.1 found is the toolkit's stub; take the toolkit's "
        "stubs folder out of LD_LIBRARY_PATH");
}

TEST_CASE("gpu modules: a missing GPU is one line and the CPU, or exit code 4") {
  if (!built("cuda") || has_gpu("cuda")) return;
  const TempFolder folder;
  const std::string contract = "contract --einsum 'ij,jk->ik' --sizes i=2,j=2,k=2 --device ";
  const Run falls_back = run(folder, contract + "cuda:0 --json");
  CHECK(falls_back.code == 0);
  CHECK(falls_back.err ==
        "gradus: device \"cuda:0\" is not available: no NVIDIA driver (libcuda.so.1 not found). "
        "Using cpu. Set \"fallback\": \"error\" to fail instead.\n");
  CHECK(falls_back.out.find("\"device\":\"cpu\"") != std::string::npos);
  const Run fails = run(folder, contract + "'{\"device\": \"cuda\", \"fallback\": \"error\"}'");
  CHECK(fails.code == 4);
  CHECK(fails.err.find("no NVIDIA driver") != std::string::npos);
}

TEST_CASE("gpu modules: hip says what it needs") {
  if (!built("hip") || has_gpu("hip")) return;
  CHECK(said_of("hip", "").find("missing: no AMD GPU found") != std::string::npos);
}

TEST_CASE("gpu modules: a vendor's library that is missing is named with its package") {
  const std::string text = gradus::test::error_text(
      ErrorKind::device, [] { load_module(GRADUS_LIB_DIR "/../bad_modules/needs_library.so"); });
  CHECK(text.find("needs libamdhip99.so.5, which was not found; on Debian it is in the package "
                  "libamdhip99-5") != std::string::npos);
}

TEST_CASE("gpu modules: a device number beyond those there are") {
  load_module(kLib + "gradus_emu.so");
  CHECK(gradus::test::error_text(ErrorKind::device, [] { open_device("emu:9"); }) ==
        "device: emu:9 asked, 4 found");
}

TEST_CASE("gpu modules: what a vendor's error numbers mean, and what to do") {
  const auto meaning = gradus::gpu::error_meaning;
  const auto hint = [&](int number) { return std::string(meaning(number).hint); };
  CHECK(meaning(0).status == GD_OK);
  CHECK(meaning(2).status == GD_OOM);
  CHECK(meaning(600).status == GD_NOT_READY);
  for (const int lost : {214, 220, 226, 700, 702, 709, 714, 716, 719, 911, 999})
    CHECK_MESSAGE(meaning(lost).status == GD_DEVICE_LOST, lost);
  for (const int capture : {900, 901, 907, 908, 910}) CHECK(meaning(capture).status == GD_CAPTURE);
  CHECK(meaning(909).status == GD_INTERNAL);
  CHECK(meaning(123456).status == GD_INTERNAL);
  CHECK(hint(123456) == "");
  CHECK(hint(214).find("ECC") != std::string::npos);
  CHECK(hint(220).find("NVLink") != std::string::npos);
  CHECK(hint(3).find("fork()") != std::string::npos);
  CHECK(meaning(802).status == GD_NO_DRIVER);
  CHECK(hint(802).find("fabric manager") != std::string::npos);
  CHECK(meaning(46).status == GD_NO_DEVICE);
}

TEST_CASE("gpu modules: a lost device is told as lost, not as out of memory") {
  static gd_table lost = gpu_test::emulator();
  lost.alloc = [](gd_device*, size_t, void**, gd_error* e) {
    std::snprintf(e->text, sizeof e->text, "emu was lost earlier: a launch: it failed");
    return e->code = GD_DEVICE_LOST;
  };
  gradus::Device& device = gpu_test::emulated_device(0, lost);
  const std::string said =
      gradus::test::error_text(ErrorKind::device, [&] { device.pool().allocate(1000); });
  CHECK(said == "allocate: emu was lost earlier: a launch: it failed");
}

TEST_CASE("gpu modules: code for other processors") {
  using gpu::missing_image;
  const std::string cuda = "80-real,90-real,90-virtual";
  for (const char* device : {"sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120"})
    CHECK(missing_image(cuda, device) == "");
  CHECK(missing_image(cuda, "sm_75") ==
        "module built for 80-real,90-real,90-virtual; device is sm_75; rebuild it with that "
        "processor in GRADUS_CUDA_ARCHS or GRADUS_HIP_ARCHS");
  CHECK(missing_image("90-real", "sm_80") != "");
  CHECK(missing_image("90-real", "sm_100") != "");
  CHECK(missing_image("gfx90a,gfx1030", "gfx90a:sramecc+:xnack-") == "");
  CHECK(missing_image("gfx90a,gfx1030", "gfx1100") != "");
}

TEST_CASE(
    "gpu modules: a vendor's library that is named and can't be used is one line, or an end") {
  const TempFolder folder;
  const auto has = [](const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
  };
  const auto contract = [&](const std::string& device) {
    return run(folder,
               "contract --einsum 'ij,jk->ik' --sizes i=2,j=3,k=4 --device '" + device + "'");
  };
  const std::string reason = "emu: libraries.gemm: cuBLASLt: can't be opened; tried /no/blas.so";
  Run r = contract(R"({"device": "emu", "libraries": {"gemm": "/no/blas.so"}})");
  CHECK(r.code == 0);
  CHECK(has(r.err, "gradus: " + reason +
                       ". The device goes on without it. Set \"fallback\": "
                       "\"error\" to fail instead.\n"));
  r = contract(R"({"device": "emu", "libraries": {"gemm": "/no/blas.so"}, "fallback": "error"})");
  CHECK(r.code == 4);
  CHECK(has(r.err, reason));
  // One that opens, and is another library; and what is not named is not missed.
  const std::string other =
      std::string(GRADUS_BUILD_DIR) + "/drivers/libraries/libfake_cublaslt.so";
  r = contract(R"({"device": "emu", "libraries": {"tensor": ")" + other + "\"}}");
  CHECK(r.code == 0);
  CHECK(has(r.err,
            "gradus: emu: libraries.tensor: cuTENSOR or hipTensor (" + other + "): it has no "));
  r = contract(R"({"device": "emu", "libraries": {"gemm": ")" + other +
               R"(", "tensor": "off"}, "fallback": "error"})");
  CHECK(r.code == 0);
  CHECK(!has(r.err, "libraries"));
}
