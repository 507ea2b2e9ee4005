#include "tests/pages/pages_workplace.hpp"

#include "engine/files/npy.hpp"
#include "tests/helpers/helpers.hpp"
#include "tests/helpers/own_data_helpers.hpp"
#include "tests/pages/pages.hpp"

#include <doctest/doctest.h>

#include <filesystem>
#include <regex>

namespace gradus::inline v1::test {

namespace fs = std::filesystem;

const char* const kPagesMlp =
    R"({"experiment": "mlp", "data": {"name": "digits", "train": 128, "test": 64},
  "model": {"layers": [{"linear": 32}, "relu", {"linear": 10}]}, "epochs": 1, "batch_size": 32})";

namespace {

constexpr const char* kPagesLenet =
    R"({"experiment": "network", "data": {"name": "digits", "train": 64, "test": 32},
  "model": {"layers": [{"unflatten": [1, 28, 28]}, {"conv2d": {"out_channels": 4, "kernel_size": 5, "stride": 2}},
  "batch_norm", "relu", {"max_pool2d": 2}, "flatten", {"linear": 10}]}, "batch_size": 8})";
// Zeros come out of relu, and sqrt has no slope there.
constexpr const char* kPagesNan =
    R"({"experiment": "mlp", "data": {"name": "digits", "train": 128, "test": 64},
  "model": {"layers": [{"linear": 16}, "relu", "sqrt", {"linear": 10}]}, "epochs": 1, "batch_size": 32})";
constexpr const char* kScript = R"(local w = gradus.tensor({1.0, 2.0}, {requires_grad = true})
for i = 1, 4 do
  if w.grad then w:zero_grad() end
  local loss = (w * w):sum()
  loss:backward()
  gradus.no_grad(function() w:sub_(w.grad * tonumber(arg and arg[1] or 0.1)) end)
end
)";

std::string big_endian(uint32_t n) {
  std::string out;
  for (int shift = 24; shift >= 0; shift -= 8) out += char(n >> shift & 255);
  return out;
}

void write_mnist(const TempFolder& folder) {
  for (const auto& [part, n] : {std::pair("train", 256u), {"t10k", 64u}}) {
    std::string pixels, labels;
    for (uint32_t i = 0; i < n; ++i) {
      labels += char(i % 10);
      for (uint32_t p = 0; p < 784; ++p) pixels += char((i * 37 + p * (i % 10)) % 251);
    }
    const std::string name = std::string("mnist/") + part;
    folder.write(name + "-images-idx3-ubyte",
                 big_endian(0x803) + big_endian(n) + big_endian(28) + big_endian(28) + pixels);
    folder.write(name + "-labels-idx1-ubyte", big_endian(0x801) + big_endian(n) + labels);
  }
}

}  // namespace

Workplace::Workplace() {
  for (const char* name : {"a", "b", "g", "t", "x"})
    folder_.write(std::string("work/") + name + ".npy",
                  npy_bytes(testing::f64({0.5, 1, 2, -1, 3, 0.25, 1.5, -2, 1}, {3, 3})));
  folder_.write("work/mlp.json", kPagesMlp);
  folder_.write("work/before.json", kPagesMlp);
  folder_.write("work/after.json", kPagesMlp);
  folder_.write("work/lenet.json", kPagesLenet);
  folder_.write("work/nan.json", kPagesNan);
  folder_.write("work/gpu.json", R"({"device": "cuda:0", "fallback": "cpu"})");
  folder_.write("work/networks.json",
                R"({"instances": [{"name": "ring", "sizes": [2, 3, 4], "output": [],
                    "inputs": [[0, 1], [1, 2], [2, 0]]}]})");
  folder_.write("work/cost.json", R"({"format": "gradus.cost/1", "device": "cpu", "dtype": "f32",
                    "flops": 1e10, "bytes": 8e9, "overhead": 1e-6, "half_k": 4, "half_mn": 2})");
  folder_.write("work/big.json",
                R"({"experiment": "contraction", "expression": "ab,bc,cd->ad",
                    "sizes": {"a": 4000, "b": 4000, "c": 4000, "d": 4}})");
  folder_.write("work/train.lua", kScript);
  folder_.write("work/strange.lua", "print(1)\n");
  folder_.write("work/look.txt", "break nan\ncontinue\n");
  folder_.write("work/flowers.csv", flowers());
  folder_.write("work/new.csv", flowers().substr(0, flowers().find('\n', 200)));
  for (const PageBlock& block : blocks_of("README.md"))
    if (block.text.starts_with("// flowers.json")) folder_.write("work/flowers.json", block.text);
  for (const char* name : {"seven", "eight"})
    folder_.write(std::string("work/") + name + ".png",
                  cli::png_bytes(std::vector<uint8_t>(784, 100), 28, 28));
  folder_.write("home/.keep", "");
  folder_.write("bin/dot", "#!/bin/sh\nexec cat\n");  // Graphviz need not be there
  fs::permissions(folder_ / "bin/dot", fs::perms::owner_all);
  fs::create_symlink(GRADUS_PROGRAM, folder_ / "bin/gradus");
  fs::create_symlink(fs::canonical(std::string(GRADUS_SOURCE_DIR) + "/configs"),
                     folder_ / "work/configs");
  const std::string library = std::string(GRADUS_BUILD_DIR) + "/user_ops/example.so";
  fs::copy_file(library, folder_ / "work/example.so");
  write_mnist(folder_);
  for (const std::string& command :
       {std::string("gradus train mlp.json --out runs/a") + kSmaller,
        std::string("gradus train configs/mlp/digits.json") + kSmaller,
        std::string("gradus train flowers.json --out runs/flowers"),
        std::string("cp runs/a/model.safetensors ."),
        std::string("gradus graph mlp.json --record step.safetensors"),
        std::string(
            "gradus train nan.json --out run; gradus graph nan.json --record nan.safetensors")}) {
    const ProgramRun r = shell(command, "work");
    REQUIRE_MESSAGE(r.code == 0, command, ": ", r.err);
  }
}

ProgramRun Workplace::operator()(const std::string& command) const {
  refresh();
  return again(command);
}

ProgramRun Workplace::again(const std::string& command) const { return shell(command, "copy"); }

void Workplace::refresh() const {
  fs::remove_all(folder_ / "copy");
  fs::copy(folder_ / "work", folder_ / "copy",
           fs::copy_options::recursive | fs::copy_options::copy_symlinks);
}

bool Workplace::has(const std::string& kind) const {
  const std::string listed = shell("gradus devices --json", "work").out;
  return listed.find("\"kind\":\"" + kind + "\"") != std::string::npos &&
         std::regex_search(listed, std::regex("\"kind\":\"" + kind + "\".*\"present\":true"));
}

ProgramRun Workplace::shell(const std::string& command, const char* where) const {
  const std::string script = folder_.write("command.sh", command + "\n");
  const std::string out = folder_ / "out", err = folder_ / "err";
  const std::string environment = "env -u GRADUS_DEVICE -u GRADUS_DATA HOME='" +
                                  (folder_ / "home") + "' SOURCE='" + GRADUS_SOURCE_DIR +
                                  "' PATH='" + (folder_ / "bin") + "':\"$PATH\" ";
  const int status = std::system(("cd '" + (folder_ / where) + "' && " + environment + "sh '" +
                                  script + "' </dev/null >'" + out + "' 2>'" + err + "'")
                                     .c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, slurp(out), slurp(err)};
}

const Workplace& workplace() {
  static const Workplace one;
  return one;
}

}  // namespace gradus::test
