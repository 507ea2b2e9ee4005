// Peers that live in processes of their own: Python interpreters with numpy and PyTorch, and
// libtorch. Each answers timing requests, one JSON object per line (see peer_python.py), so that it
// is measured in turns with gradus within one run. What is missing is said once and left out.
#pragma once
#include "benches/bench.hpp"

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace gradus::inline v1::bench {

// Targets against Debian's PyTorch (1.x, AVX2 kernels) and PyPI's (2.x, AVX-512 and MKL).
struct TorchTargets {
  Target debian{}, pypi{};
};

// Python statements for `torch` (and `np`): one peer for each PyTorch found. `setup` is run once,
// `call` is timed; one call does `calls` of the work.
std::vector<Peer> torch_peers(int threads, const std::string& setup, const std::string& call,
                              const TorchTargets& targets = {}, double calls = 1);
// The same with torch.compile, by the PyTorch that has it; `setup` should call torch.compile.
std::vector<Peer> torch_compile_peers(int threads, const std::string& setup,
                                      const std::string& call, Target target = {},
                                      double calls = 1);
std::vector<Peer> numpy_peers(const std::string& setup, const std::string& call, Target target = {},
                              double calls = 1);
// A work that bench_peer_libtorch knows by name, with its numbers.
std::vector<Peer> libtorch_peers(int threads, const std::string& work,
                                 const nlohmann::json& numbers, Target target = {},
                                 double calls = 1);

// Peak bytes of tensors while three calls run, counted from before the setup.
struct PeakBytes {
  std::string peer;
  double bytes;
};
std::vector<PeakBytes> torch_peak_bytes(const std::string& setup, const std::string& call);

// What planners for Python find for a network {"inputs", "output", "sizes"} (peer_orders.py):
// their greedy searches, and for seconds > 0 the best within that time.
struct PeerOrder {
  std::string peer;
  double log2_mults, seconds;
};
std::vector<PeerOrder> peer_orders(const nlohmann::json& network, double seconds);

}  // namespace gradus::bench
