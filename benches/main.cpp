// gradus_bench: all benches in one program.
//   gradus_bench [NAME...] [--quick] [--filter TEXT] [--threads N,N] [--json FILE] [--list]
#include "benches/bench.hpp"
#include "bindings/cpp/start.hpp"

#include <algorithm>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

namespace gradus::inline v1::bench {

// One declaration and one line for each bench, in the order of the table.
void gemm(Run&);
void contract(Run&);
void tropical(Run&);
void pointwise(Run&);
void overhead(Run&);
void layers(Run&);
void einsums(Run&);
void diagonals(Run&);
void networks(Run&);
void orders(Run&);
void steps(Run&);
void memory_of_steps(Run&);
void program(Run&);
void transposes(Run&);
void factors(Run&);
void lua_calls(Run&);
void c_calls(Run&);
void structured(Run&);

namespace {
struct Bench {
  const char *name, *about;
  void (*run)(Run&);
};
const Bench kBenches[] = {
    {"gemm", "matrix products against OpenBLAS and the peak", gemm},
    {"contract", "skinny products, batches and TCCG against OpenBLAS, bandwidth and own products",
     contract},
    {"tropical", "max-plus and its kin against additions and maxima in registers", tropical},
    {"pointwise", "words held in L2, add and mul beyond caches, broadcast operands", pointwise},
    {"overhead", "ops on 16 numbers, backward per node", overhead},
    {"layers", "ops of networks, forward and backward, against PyTorch", layers},
    {"einsum", "TCCG's contractions and batches that lie last, against torch.einsum", einsums},
    {"diagonal", "products with diagonals and copy tensors against vectors by hand", diagonals},
    {"networks", "contractions of many tensors: a step's overhead, gradients beside the value",
     networks},
    {"orders", "contraction orders of published networks against the best known", orders},
    {"steps", "training steps of networks against PyTorch, libtorch and C by hand", steps},
    {"peak_memory", "peak memory of training steps", memory_of_steps},
    {"program", "start and size of the program", program},
    {"lua", "calls from a script, against C++", lua_calls},
    {"c", "calls through the C door, against C++", c_calls},
    {"linalg",
     "factors and spectra with their gradients against PyTorch, large ones against LAPACK",
     factors},
    {"transposes", "copies that change the order of axes against memcpy", transposes},
    {"structured", "block-sparse tensors against the products of their sectors and memcpy",
     structured},
};

int run(int argc, char** argv) {
  Options options;
  std::vector<std::string> names;
  bool list = false;
  CLI::App app{"The benches of gradus: each row is a ratio within this run."};
  app.add_option("name", names, "benches to run; all if none is given");
  app.add_flag("--quick", options.quick, "a quarter of the time");
  app.add_option("--filter", options.filter, "only works whose name contains this");
  app.add_option("--threads", options.threads, "thread counts; else 1 and all")->delimiter(',');
  app.add_option("--json", options.json, "one JSON object per row into this file")->take_last();
  app.add_flag("--list", list, "names of the benches");
  CLI11_PARSE(app, argc, argv);
  if (list) {
    for (const Bench& b : kBenches) std::printf("%-12s %s\n", b.name, b.about);
    return 0;
  }
  for (const std::string& name : names)
    if (std::none_of(std::begin(kBenches), std::end(kBenches),
                     [&](const Bench& b) { return name == b.name; })) {
      std::fprintf(stderr, "there is no bench \"%s\"; --list names them\n", name.c_str());
      return 2;
    }
  start();
  Run all(options);
  for (const Bench& b : kBenches) {
    if (!names.empty() && std::find(names.begin(), names.end(), b.name) == names.end()) continue;
    all.begin(b.name);
    b.run(all);
  }
  all.summary();
  return 0;
}
}  // namespace
}  // namespace gradus::bench

int main(int argc, char** argv) {
  try {
    return gradus::bench::run(argc, argv);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}
